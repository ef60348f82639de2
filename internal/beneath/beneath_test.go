package beneath

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// tree is a directory "in" with a file "d/f", beside a file "out".
func tree(t *testing.T) (*os.File, string) {
	t.Helper()
	base := t.TempDir()
	in := filepath.Join(base, "in")
	require.NoError(t, os.MkdirAll(filepath.Join(in, "d"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(in, "d", "f"), []byte("F"), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(base, "out"), []byte("OUT"), 0o644))
	dir, err := os.Open(in)
	require.NoError(t, err)
	t.Cleanup(func() { dir.Close() })
	_, err = Open(dir, "d/f", 0)
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.EPERM) {
		t.Skipf("not on this system: %v", err)
	}
	require.NoError(t, err)
	return dir, in
}

func TestOpen(t *testing.T) {
	dir, in := tree(t)
	for name, to := range map[string]string{"link": "d/f", "dirlink": "d", "up": "..", "outlink": "../out", "magic": "/proc/self/cwd"} {
		require.NoError(t, os.Symlink(to, filepath.Join(in, name)))
	}
	tests := []struct {
		name string
		ok   bool
	}{
		{"d/f", true},
		{".", true},
		{"d/../d/f", true},
		{"link", false},
		{"dirlink/f", false},
		{"up/out", false},
		{"outlink", false},
		{"magic/x", false},
		{"../out", false},
		{"d/../../out", false},
		{filepath.Join(filepath.Dir(in), "out"), false},
		{"missing", false},
		{"d/f/x", false},
		{"", false},
		{"d/f\x00", false},
		{strings.Repeat("n", 5000), false},
	}
	for _, tt := range tests {
		f, err := Open(dir, tt.name, 0)
		assert.Equal(t, tt.ok, err == nil, "Open(%.40q): %v", tt.name, err)
		assert.Equal(t, tt.ok, Exact(dir, tt.name), "Exact(%.40q)", tt.name)
		if err == nil {
			require.NoError(t, f.Close())
		}
	}
	f, err := Open(dir, "d/f", 0)
	require.NoError(t, err)
	data, err := io.ReadAll(f)
	require.NoError(t, err)
	assert.Equal(t, "F", string(data))
	assert.Equal(t, filepath.Join(in, "d", "f"), f.Name())
	require.NoError(t, f.Close())
}

// A link is described itself where it is what the name means, and leads nowhere on the way.
func TestLstat(t *testing.T) {
	dir, in := tree(t)
	require.NoError(t, os.Symlink("d", filepath.Join(in, "link")))
	require.NoError(t, os.Symlink("../out", filepath.Join(in, "outlink")))
	for _, name := range []string{"d", "d/f", "link", "outlink"} {
		want, err := os.Lstat(filepath.Join(in, name))
		require.NoError(t, err)
		info, err := Lstat(dir, name)
		require.NoError(t, err, name)
		assert.True(t, os.SameFile(want, info), name)
		assert.Equal(t, want.Mode(), info.Mode(), name)
		assert.Equal(t, want.Name(), info.Name(), name)
	}
	for _, name := range []string{"link/f", "outlink/x", "../out", "d/../../out", "missing", "d/f/x", ""} {
		_, err := Lstat(dir, name)
		assert.Error(t, err, name)
	}
}

func TestOpenClosed(t *testing.T) {
	dir, _ := tree(t)
	require.NoError(t, dir.Close())
	_, err := Open(dir, "d/f", 0)
	require.Error(t, err)
}

func TestOpenElsewhere(t *testing.T) {
	if runtime.GOOS == "linux" {
		t.Skip("for systems without the call")
	}
	_, err := Open(nil, "f", 0)
	require.ErrorIs(t, err, errors.ErrUnsupported)
}
