package proc

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTail(t *testing.T) {
	x := Tail{Max: 8}
	for _, text := range []string{"first\n", "second", "", " \x1b[1mend\x1b[0m\n"} {
		n, err := x.Write([]byte(text))
		require.NoError(t, err)
		require.Equal(t, len(text), n)
	}
	require.LessOrEqual(t, len(x.kept), 8)
	require.Equal(t, "end", x.Text())
	_, _ = x.Write([]byte(strings.Repeat("x", 100)))
	require.Equal(t, "xxxxxxxx", x.Text())
}
