//go:build unix

package regular

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Neither a named pipe makes a reader wait, nor one that takes the place of a file right before it is opened.
func TestPipes(t *testing.T) {
	dir := t.TempDir()
	name, pipe := filepath.Join(dir, "file"), filepath.Join(dir, "pipe")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	_, err = Read(pipe, 9)
	require.ErrorContains(t, err, "not a regular file")
	_, err = ReadIn(root, "pipe", 9)
	require.ErrorContains(t, err, "not a regular file")
	swap := func(string) (fs.FileInfo, error) {
		require.NoError(t, os.WriteFile(name, nil, 0o600))
		info, err := os.Stat(name)
		require.NoError(t, os.Remove(name))
		require.NoError(t, os.Link(pipe, name))
		return info, err
	}
	_, err = read(name, 9, swap, os.OpenFile)
	require.ErrorContains(t, err, "not a regular file")
}

func TestRead(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(name, []byte("12345"), 0o600))
	require.NoError(t, os.Symlink("file", filepath.Join(dir, "link")))
	huge, err := os.Create(filepath.Join(dir, "huge"))
	require.NoError(t, err)
	require.NoError(t, huge.Truncate(2<<30-1))
	require.NoError(t, huge.Close())
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	for _, tt := range []struct{ name, want, problem string }{
		{"file", "12345", ""}, {"link", "12345", ""}, {"huge", "", "larger than 5 bytes"},
		{".", "", "not a regular file"}, {"none", "", "no such file"},
	} {
		for _, read := range []func() ([]byte, error){
			func() ([]byte, error) { return Read(filepath.Join(dir, tt.name), 5) },
			func() ([]byte, error) { return ReadIn(root, tt.name, 5) },
		} {
			data, err := read()
			assert.Equal(t, tt.want, string(data))
			if tt.problem == "" {
				assert.NoError(t, err)
			} else {
				assert.ErrorContains(t, err, tt.problem)
			}
		}
	}
	_, err = Read("/dev/zero", 5)
	require.ErrorContains(t, err, "not a regular file")
}
