package snapshot

import (
	"errors"
	"os"
	"testing"

	"github.com/aycoder/aycoder/edit"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Each root has separate rules for what is ignored, and a separate repository.
func TestRootsIgnore(t *testing.T) {
	f := newFilesTest(t, map[string]string{".gitignore": "*.o\nlogs/\n/top\n", "a.o": "a", "lib:/b.o": "b", "lib:/logs/x": "x", "lib:/top": "t",
		"lib:/.gitignore": "*.txt\nout/\n", "lib:/note.txt": "note", "note.txt": "n", "lib:/out/kept": "kept by git"})
	f.git("-C", f.lib, "init", "-q")
	f.git("-C", f.lib, "add", "-f", "out/kept", ".gitignore")
	f.git("-C", f.lib, "commit", "-q", "-m", "c")
	start := f.node()
	f.command(func() error {
		var err error
		for _, name := range []string{"a.o", "lib:/b.o", "lib:/logs/x", "lib:/top", "lib:/note.txt", "note.txt", "lib:/out/kept"} {
			err = errors.Join(err, os.WriteFile(f.path(name), []byte("changed"), 0o644))
		}
		return err
	})
	assert.False(t, f.objs.holds("kept by git"), "the commit of its root holds it")
	assert.Equal(t, map[string]Action{"lib:/b.o": ActionChange, "lib:/logs/x": ActionChange, "lib:/top": ActionChange,
		"note.txt": ActionChange, "lib:/out/kept": ActionChange}, actions(f.goTo(start)))
	assert.Equal(t, "kept by git", f.disk()["lib:/out/kept"].Content)
}

// A checkout leaves the files of a root alone whose directory is gone, says so, and takes the others back. When
// the directory is there again, so are they.
func TestRootsGone(t *testing.T) {
	f := newFilesTest(t, map[string]string{"a": "a\n", "lib:/b": "b\n", "lib:/d/c": "c\n"})
	start := f.node()
	f.apply(edit.File{Path: "a", Kind: edit.Change, Base: "a\n", Proposed: "a2\n"},
		edit.File{Path: "lib:/b", Kind: edit.Change, Base: "b\n", Proposed: "b2\n"}, edit.File{Path: "lib:/n", Kind: edit.Create, Proposed: "n\n"})
	later := f.node()
	require.NoError(t, os.Rename(f.lib, f.lib+".away"))
	gone := f.node()
	assert.Equal(t, later, gone, "nothing is known of the files")
	lib := f.lib
	f.lib = ""
	plan := f.goTo(start)
	f.lib = lib
	assert.Equal(t, map[string]Action{"a": ActionChange, "lib:/b": ActionKeep, "lib:/n": ActionKeep}, actions(plan))
	assert.Contains(t, plan[1].Reason, "is not there any more")
	assert.NoFileExists(t, f.lib+"/b")
	require.NoError(t, os.Rename(f.lib+".away", f.lib))
	assert.Equal(t, "b2\n", f.disk()["lib:/b"].Content)
	assert.Equal(t, map[string]Action{"lib:/b": ActionChange, "lib:/n": ActionRemove}, actions(f.goTo(start)))
	f.goTo(later)
	assert.Equal(t, []string{"a2\n", "b2\n", "n\n"}, []string{f.disk()["a"].Content, f.disk()["lib:/b"].Content, f.disk()["lib:/n"].Content})
}
