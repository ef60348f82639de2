package late_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/internal/late"
)

func TestRegexp(t *testing.T) {
	re := late.Regexp(`^a+$`)
	require.True(t, re().MatchString("aa"))
	require.Same(t, re(), re(), "it is compiled once")
	wrong := late.Regexp(`(`)
	require.Panics(t, func() { wrong() }, "when it is used")
}
