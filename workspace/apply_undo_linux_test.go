package workspace

import (
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/edit"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// modes returns the permissions of the files of a directory.
func modes(t *testing.T, dir string) map[string]fs.FileMode {
	t.Helper()
	all := map[string]fs.FileMode{}
	require.NoError(t, filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		require.NoError(t, err)
		if info, err := d.Info(); err == nil && d.Type().IsRegular() {
			all[strings.TrimPrefix(name, dir)] = info.Mode()
		}
		return nil
	}))
	return all
}

// A plan can be taken back, also by a process that has it as JSON.
func TestApplyUndo(t *testing.T) {
	files := map[string]string{"a": "1\n2\n3\n4\n5\n", "run.sh": "#!/bin/sh\n", "d/gone": "\xff\x00gone", "same": "s\n"}
	for _, asJSON := range []bool{false, true} {
		w, dir := testWorkspace(t, files)
		require.NoError(t, os.Chmod(filepath.Join(dir, "run.sh"), 0o751))
		require.NoError(t, os.Chmod(filepath.Join(dir, "d/gone"), 0o600))
		before := modes(t, dir)
		r, err := w.Apply(t.Context(), mustPlan(t, change("a", files["a"], "1\nTWO\n3\n4\n5\n"),
			edit.File{Path: "new/x", Kind: edit.Create, Proposed: "x\n", Mode: 0o700},
			edit.File{Path: "run.sh", Kind: edit.Delete, Base: files["run.sh"]},
			edit.File{Path: "bin/run.sh", Kind: edit.Create, Proposed: files["run.sh"] + "true\n", Mode: 0o751},
			edit.File{Path: "d/gone", Kind: edit.Delete, Base: files["d/gone"]},
			change("same", "r\n", "s\n")))
		require.NoError(t, err)
		after := modes(t, dir)
		assert.Equal(t, fs.FileMode(0o700), after["/new/x"])
		assert.Equal(t, fs.FileMode(0o751), after["/bin/run.sh"])
		if asJSON {
			data, err := json.Marshal(r)
			require.NoError(t, err)
			r = &edit.Result{}
			require.NoError(t, json.Unmarshal(data, r))
		}
		undo := r.Undo()
		assert.Len(t, undo.Files(), 5)
		again, err := edit.NewPlan(undo.Files()...)
		require.NoError(t, err)
		assert.Equal(t, again.Digest(), undo.Digest())
		// The user's saves in between stay.
		require.NoError(t, os.WriteFile(filepath.Join(dir, "a"), []byte("1\nTWO\n3\n4\nFIVE\n"), 0o644))
		r, err = w.Apply(t.Context(), undo)
		require.NoError(t, err)
		now, temps := tree(t, dir)
		assert.Zero(t, temps)
		want := map[string]string{"a": "1\n2\n3\n4\nFIVE\n", "run.sh": files["run.sh"], "d/gone": files["d/gone"], "same": "s\n"}
		assert.Equal(t, want, now)
		assert.Equal(t, before, modes(t, dir))
		// And that can be taken back in turn.
		_, err = w.Apply(t.Context(), r.Undo())
		require.NoError(t, err)
		assert.Equal(t, after, modes(t, dir))
	}
}

// A link that led to no file stays when the file is taken back that was created through it.
func TestApplyUndoThroughLink(t *testing.T) {
	w, dir := testWorkspace(t, map[string]string{"f": "f\n"})
	require.NoError(t, os.Symlink("new", filepath.Join(dir, "link")))
	r, err := w.Apply(t.Context(), mustPlan(t, edit.File{Path: "link", Kind: edit.Create, Proposed: "x\n"}))
	require.NoError(t, err)
	got, err := os.ReadFile(filepath.Join(dir, "new"))
	require.NoError(t, err)
	require.Equal(t, "x\n", string(got))
	_, err = w.Apply(t.Context(), r.Undo())
	require.NoError(t, err)
	to, err := os.Readlink(filepath.Join(dir, "link"))
	require.NoError(t, err)
	require.Equal(t, "new", to)
	require.NoFileExists(t, filepath.Join(dir, "new"))
}

// A plan that did nothing has nothing to be taken back.
func TestApplyUndoNothing(t *testing.T) {
	w, _ := testWorkspace(t, map[string]string{"f": "user\n", "g": "g\n"})
	r, err := w.Apply(t.Context(), mustPlan(t, change("g", "g\n", "G\n"), change("f", "f\n", "F\n")))
	require.Error(t, err)
	assert.Empty(t, r.Undo().Files())
}

// The events that a program prints do not hold whole files.
func TestEventsLeaveOutUndo(t *testing.T) {
	w, _ := testWorkspace(t, map[string]string{"f": "SECRET\nb\n"})
	r, err := w.Apply(t.Context(), mustPlan(t, change("f", "SECRET\nb\n", "SECRET\nc\n")))
	require.NoError(t, err)
	call := &aycoder.ToolUse{ID: "1", Name: "edit_file"}
	for _, e := range []aycoder.Event{
		&aycoder.ToolFinished{Call: call, Output: &aycoder.ToolOutput{ID: "1"}, Changes: r}, &aycoder.Merged{Call: call, File: &r.Files[0]}, &aycoder.Conflicted{Call: call, File: &r.Files[0]},
	} {
		data, err := json.Marshal(e)
		require.NoError(t, err)
		assert.NotContains(t, string(data), "SECRET")
	}
	assert.NotNil(t, r.Files[0].Undo)
}

func TestPreviewShowsMode(t *testing.T) {
	p := mustPlan(t, edit.File{Path: "x", Kind: edit.Create, Proposed: "new file mode 100644\n", Mode: 0o755})
	assert.Contains(t, p.Preview(), "new file mode 100755\n")
	assert.Contains(t, p.Preview(), "+new file mode 100644\n")
	_, err := edit.NewPlan(edit.File{Path: "x", Kind: edit.Create, Mode: fs.ModeSetuid | 0o755})
	require.ErrorContains(t, err, "mode")
	plain := mustPlan(t, edit.File{Path: "x", Kind: edit.Create, Proposed: "new file mode 100644\n"})
	assert.NotEqual(t, plain.Digest(), p.Digest(), "who approves sees the mode")
}

// outputOf runs a program that is to work.
func outputOf(t *testing.T, name string, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		t.Skipf("%s is not installed", name)
	}
	out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return string(out)
}

// A file keeps its attributes beside content and mode.
func TestApplyKeepsAttributes(t *testing.T) {
	w, dir := testWorkspace(t, map[string]string{"f": "f\n", "plain": "p\n"})
	file, plain := filepath.Join(dir, "f"), filepath.Join(dir, "plain")
	outputOf(t, "setfattr", "-n", "user.mine", "-v", "a value", file)
	outputOf(t, "setfattr", "-n", "user.empty", file)
	outputOf(t, "setfacl", "-m", "u:1234:rw,g:99:r", file)
	// The attributes that new files inherit differ from those of an old one.
	outputOf(t, "setfacl", "-d", "-m", "u:4321:rwx", dir)
	attributes := func(name string) string {
		return outputOf(t, "getfattr", "--absolute-names", "-d", "-m", "-", name) + outputOf(t, "getfacl", "-cpn", name)
	}
	before, beforePlain := attributes(file), attributes(plain)
	require.Contains(t, before, "user:1234:rw-")
	_, err := w.Apply(t.Context(), mustPlan(t, change("f", "f\n", "F\n"), change("plain", "p\n", "P\n")))
	require.NoError(t, err)
	assert.Equal(t, before, attributes(file))
	assert.Equal(t, beforePlain, attributes(plain))
}
