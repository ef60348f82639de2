package tutorial_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// The tutorial shows script.go once, so all steps have the same.
func TestScriptIsTheSameInAllSteps(t *testing.T) {
	want, err := os.ReadFile("read/script.go")
	require.NoError(t, err)
	for _, step := range []string{"edit", "chat"} {
		got, err := os.ReadFile(step + "/script.go")
		require.NoError(t, err)
		require.Equal(t, string(want), string(got), step)
	}
}
