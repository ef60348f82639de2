package flock_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/internal/flock"
)

// A lock excludes other openings of the file until it is closed, in this process and in others.
func TestTry(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"file", "directory"} {
		t.Run(kind, func(t *testing.T) {
			name := t.TempDir()
			if kind == "file" {
				name = filepath.Join(name, "file")
				require.NoError(t, os.WriteFile(name, nil, 0o600))
			}
			open := func() *os.File {
				f, err := os.Open(name)
				require.NoError(t, err)
				t.Cleanup(func() { f.Close() })
				return f
			}
			first := open()
			ok, err := flock.Try(first)
			if errors.Is(err, errors.ErrUnsupported) || err != nil && os.PathSeparator == '\\' {
				t.Skipf("a %s cannot be locked on this system: %v", kind, err)
			}
			require.NoError(t, err)
			require.True(t, ok)
			others(t, name, false)
			second := open()
			ok, err = flock.Try(second)
			require.NoError(t, err)
			require.False(t, ok)
			require.NoError(t, first.Close())
			others(t, name, true)
			ok, err = flock.Try(second)
			require.NoError(t, err)
			require.True(t, ok)
		})
	}
	closed, err := os.Open(t.TempDir())
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	_, err = flock.Try(closed)
	require.Error(t, err)
}

// others checks with the program flock whether another process can lock a file.
func others(t *testing.T, name string, want bool) {
	t.Helper()
	program, err := exec.LookPath("flock")
	if err != nil {
		t.Log("the program flock is missing, so other processes are not checked")
		return
	}
	require.Equal(t, want, exec.Command(program, "-n", name, "true").Run() == nil)
}
