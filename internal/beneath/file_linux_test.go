package beneath

import (
	"bytes"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRegular(t *testing.T) {
	dir, in := tree(t)
	text := []byte(strings.Repeat("0123456789", 10_000))
	full := filepath.Join(in, "d", "big")
	require.NoError(t, os.WriteFile(full, text, 0o640))
	require.NoError(t, os.Chmod(full, 0o640|fs.ModeSetgid))
	f, err := Regular(dir, "d/big", syscall.O_NONBLOCK)
	require.NoError(t, err)
	require.NoError(t, iotest.TestReader(f, text))
	data := make([]byte, 20)
	n, err := f.(io.ReaderAt).ReadAt(data, 99_990)
	assert.Equal(t, 10, n)
	assert.Equal(t, io.EOF, err)
	want, err := os.Stat(full)
	require.NoError(t, err)
	got, err := f.Stat()
	require.NoError(t, err)
	assert.Equal(t, want.Name(), got.Name())
	assert.Equal(t, want.Size(), got.Size())
	assert.Equal(t, want.Mode(), got.Mode())
	assert.True(t, want.ModTime().Equal(got.ModTime()))
	assert.False(t, got.IsDir())
	assert.Equal(t, want.Sys().(*syscall.Stat_t).Ino, got.Sys().(*syscall.Stat_t).Ino)
	require.NoError(t, f.Close())
	_, err = f.Read(data)
	require.ErrorIs(t, err, fs.ErrClosed)
	require.ErrorIs(t, f.Close(), fs.ErrClosed)
}

func TestRegularRefuses(t *testing.T) {
	dir, in := tree(t)
	require.NoError(t, syscall.Mkfifo(filepath.Join(in, "fifo"), 0o644))
	require.NoError(t, os.Symlink("d/f", filepath.Join(in, "link")))
	for _, name := range []string{".", "d", "fifo", "link", "missing", "../out", ""} {
		_, err := Regular(dir, name, syscall.O_NONBLOCK)
		require.Error(t, err, name)
	}
}

// A descriptor is not given back while somebody reads from it.
func TestCloseWhileReading(t *testing.T) {
	dir, in := tree(t)
	require.NoError(t, os.WriteFile(filepath.Join(in, "other"), bytes.Repeat([]byte("y"), 10_000), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(in, "mine"), bytes.Repeat([]byte("x"), 10_000), 0o644))
	var wg sync.WaitGroup
	for range 500 {
		f, err := Regular(dir, "mine", 0)
		require.NoError(t, err)
		wg.Go(func() {
			data, err := io.ReadAll(f)
			assert.True(t, err == nil || err == fs.ErrClosed, err)
			assert.NotContains(t, string(data), "y")
		})
		wg.Go(func() {
			assert.NoError(t, f.Close())
			if g, err := Regular(dir, "other", 0); assert.NoError(t, err) {
				assert.NoError(t, g.Close())
			}
		})
	}
	wg.Wait()
}
