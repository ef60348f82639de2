//go:build unix

package local

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// A pipe that nobody writes to is an error, and is not waited for.
func TestOpenPipe(t *testing.T) {
	name := filepath.Join(t.TempDir(), "m.gguf")
	require.NoError(t, syscall.Mkfifo(name, 0o600))
	_, err := Open(name)
	require.ErrorContains(t, err, "m.gguf")
}
