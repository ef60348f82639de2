package code_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/insight/code"
)

// A pipe in the place of a file that git reads is an error, and nobody waits for it.
func TestPipes(t *testing.T) {
	dir := small(t)
	require.NoError(t, os.Remove(filepath.Join(dir, ".mailmap")))
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, ".mailmap"), 0o644))
	var wrong *fs.PathError
	_, err := code.Read(t.Context(), filepath.Join(dir, "vendor"), code.Options{})
	require.ErrorAs(t, err, &wrong)
	_, err = code.Owners(t.Context(), dir, "b.go")
	require.ErrorAs(t, err, &wrong)
	require.NoError(t, os.Rename(filepath.Join(dir, ".mailmap"), filepath.Join(dir, "pipe")))
	_, err = code.Owners(t.Context(), dir, "b.go")
	require.NoError(t, err)
	git(t, dir, "x", "config", "blame.ignoreRevsFile", "pipe")
	_, err = code.Owners(t.Context(), dir, "b.go")
	require.ErrorAs(t, err, &wrong)
	git(t, dir, "x", "config", "--unset", "blame.ignoreRevsFile")
	require.NoError(t, os.Rename(filepath.Join(dir, "pipe"), filepath.Join(dir, ".gitattributes")))
	_, err = code.Read(t.Context(), dir, code.Options{})
	require.ErrorAs(t, err, &wrong)
}
