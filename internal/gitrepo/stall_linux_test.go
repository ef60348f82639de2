package gitrepo_test

import (
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/internal/gitrepo"
	"github.com/aycoder/aycoder/internal/gittest"
)

// git ends when it waits for a pipe of the repository that nobody writes to.
func TestStall(t *testing.T) {
	dir := t.TempDir()
	git := func(args ...string) { gittest.Run(t, dir, args...) }
	git("init", "-q")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a"), []byte("one\n"), 0o644))
	git("add", "a")
	git("commit", "-qm", "x")
	repo := &gitrepo.Repo{Dir: dir, Stall: 300 * time.Millisecond}
	read := func(in io.Reader) error {
		_, err := io.Copy(io.Discard, in)
		return err
	}
	require.NoError(t, os.Rename(filepath.Join(dir, ".git/HEAD"), filepath.Join(dir, "head")))
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, ".git/HEAD"), 0o644))
	err := repo.Run(t.Context(), nil, read, "rev-parse", "HEAD")
	require.ErrorContains(t, err, "git has written nothing for 300ms")
}
