package tools

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/sandbox"
)

// temps manages directories for the temporary files of commands that only read. Each
// command has one for itself. A directory that a command left empty, as almost all do,
// serves a later command of the same run, because creating a directory can take as long
// as starting a command.
type temps struct {
	mu   sync.Mutex
	free []string
	runs map[string]bool // active runs, at whose end the free directories are removed
}

// take returns an empty directory.
func (t *temps) take() (string, error) {
	t.mu.Lock()
	for len(t.free) > 0 {
		dir := t.free[len(t.free)-1]
		t.free = t.free[:len(t.free)-1]
		if isEmpty(dir) { // the directory may have been removed meanwhile
			t.mu.Unlock()
			return dir, nil
		}
	}
	t.mu.Unlock()
	dir, err := os.MkdirTemp("", "aycoder-read-")
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(dir)
}

// give returns a directory when its command has ended. The directory is removed with its
// contents, unless it is empty and the command's run is still active.
func (t *temps) give(dir, run string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.runs[run] && isEmpty(dir) {
		t.free = append(t.free, dir)
		return
	}
	_ = sandbox.RemoveAll(dir)
}

// begin registers the removal of free directories at the end of the run, if the call
// belongs to one.
func (t *temps) begin(inv *aycoder.Invocation) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.runs[inv.Run] {
		return
	}
	if t.runs == nil {
		t.runs = map[string]bool{}
	}
	t.runs[inv.Run] = true
	if !inv.Cleanup(func() { t.end(inv.Run) }) {
		delete(t.runs, inv.Run)
	}
}

// end removes the free directories when a run ends. Other runs create new ones.
func (t *temps) end(run string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.runs, run)
	for _, dir := range t.free {
		_ = sandbox.RemoveAll(dir)
	}
	t.free = nil
}

// isEmpty reports whether a directory is empty. It reads only one entry, since a command can
// leave very many.
func isEmpty(dir string) bool {
	f, err := os.Open(dir)
	if err != nil {
		return false
	}
	defer f.Close()
	_, err = f.Readdirnames(1)
	return errors.Is(err, io.EOF)
}
