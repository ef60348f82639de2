package session_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/session"
	"github.com/aycoder/aycoder/snapshot"
	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
)

// A desk is a workspace with a session whose agent has the coding tools.
type desk struct {
	t     *testing.T
	dir   string
	store journal.Store
	files *snapshot.Files
	s     *session.Session
}

func newDesk(t *testing.T, id string, store journal.Store, dir string, steps ...script.Step) *desk {
	t.Helper()
	return newDeskWith(t, id, store, dir, steps)
}

func newDeskWith(t *testing.T, id string, store journal.Store, dir string, steps []script.Step, opts ...session.Option) *desk {
	t.Helper()
	ws, err := workspace.Open(dir)
	require.NoError(t, err)
	t.Cleanup(func() { ws.Close() })
	d := &desk{t: t, dir: dir, store: store, files: snapshot.New(ws)}
	list, err := tools.Coding(d.files, tools.WithExecMiddleware(d.files.Exec))
	require.NoError(t, err)
	l, err := aycoder.New(script.New(steps...), aycoder.WithTools(list...), aycoder.WithApprover(verdict(aycoder.Allow())))
	require.NoError(t, err)
	opts = append(opts, session.WithFiles(d.files), session.WithDir(dir))
	if id == "" {
		d.s, err = session.New(t.Context(), store, l, opts...)
	} else {
		d.s, err = session.Open(t.Context(), store, id, l, opts...)
	}
	require.NoError(t, err)
	t.Cleanup(func() { d.s.Close() })
	return d
}

func (d *desk) write(name, text string) {
	d.t.Helper()
	require.NoError(d.t, os.WriteFile(filepath.Join(d.dir, name), []byte(text), 0o644))
}

// is requires that the workspace has exactly these files.
func (d *desk) is(want map[string]string) {
	d.t.Helper()
	got := map[string]string{}
	require.NoError(d.t, filepath.WalkDir(d.dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		rel, _ := filepath.Rel(d.dir, path)
		got[rel] = string(data)
		return err
	}))
	require.Equal(d.t, want, got)
}

func bash(command string) script.Step {
	return script.Call("bash", map[string]any{"command": command})
}

func writeFile(path, text string) script.Step {
	return script.Call("write_file", map[string]any{"path": path, "content": text})
}

// Talk and files go back together, whoever changed the files, and forth again, also in the next
// process.
func TestFilesGoBackWithTheTalk(t *testing.T) {
	store, dir := journal.Memory(), t.TempDir()
	d := newDesk(t, "", store, dir,
		writeFile("a.txt", "agent\n"), script.Say("made a"),
		bash("rm b.txt && echo by command > c.txt && mkdir sub && echo x > sub/d"), script.Say("moved things"))
	d.write("b.txt", "user\n")
	run(t, d.s, "first")
	d.write("a.txt", "agent\nand the user\n")
	run(t, d.s, "second")
	after := map[string]string{"a.txt": "agent\nand the user\n", "c.txt": "by command\n", "sub/d": "x\n"}
	d.is(after)

	dry, err := d.s.Undo(t.Context(), session.DryRun())
	require.NoError(t, err)
	d.is(after)
	actions := map[string]snapshot.Action{}
	for _, f := range dry.Files {
		actions[f.Path] = f.Action
	}
	require.Equal(t, map[string]snapshot.Action{
		"b.txt": snapshot.ActionCreate, "c.txt": snapshot.ActionRemove, "sub": snapshot.ActionRemove, "sub/d": snapshot.ActionRemove,
	}, withoutKept(actions))

	_, err = d.s.Undo(t.Context())
	require.NoError(t, err)
	before := map[string]string{"a.txt": "agent\nand the user\n", "b.txt": "user\n"}
	d.is(before)
	_, err = d.s.Redo(t.Context())
	require.NoError(t, err)
	d.is(after)
	head := d.s.Head()
	_, err = d.s.Undo(t.Context())
	require.NoError(t, err)
	require.NoError(t, d.s.Close())

	o := newDesk(t, d.s.ID(), store, dir, writeFile("e.txt", "e"), script.Say("made e"))
	o.is(before)
	require.NoError(t, err)
	_, err = o.s.Redo(t.Context())
	require.NoError(t, err)
	require.Equal(t, head, o.s.Head())
	o.is(after)

	o.write("c.txt", "of the user now\n")
	move, err := o.s.Checkout(t.Context(), session.Root)
	require.NoError(t, err)
	o.is(map[string]string{"b.txt": "user\n", "c.txt": "of the user now\n", "a.txt": "agent\nand the user\n"})
	kept := map[string]string{}
	for _, f := range move.Files {
		if f.Action == snapshot.ActionKeep {
			kept[f.Path] = f.Reason
		}
	}
	require.Contains(t, kept, "c.txt")
	require.Contains(t, kept, "a.txt")
	_, err = o.s.Checkout(t.Context(), move.From)
	require.NoError(t, err)
	o.is(map[string]string{"a.txt": "agent\nand the user\n", "c.txt": "of the user now\n", "sub/d": "x\n"})
}

func withoutKept(actions map[string]snapshot.Action) map[string]snapshot.Action {
	for path, a := range actions {
		if a == snapshot.ActionKeep {
			delete(actions, path)
		}
	}
	return actions
}

// Only the conversation, only the files, or only some of them go back.
func TestCheckoutOfParts(t *testing.T) {
	d := newDesk(t, "", journal.Memory(), t.TempDir(),
		writeFile("a", "1"), writeFile("b", "1"), script.Say("one"), writeFile("a", "2"), writeFile("b", "2"), script.Say("two"))
	run(t, d.s, "first")
	first := d.s.Head()
	run(t, d.s, "second")
	second := d.s.Head()
	_, err := d.s.Checkout(t.Context(), first, session.OnlyConversation())
	require.NoError(t, err)
	require.Equal(t, first, d.s.Head())
	d.is(map[string]string{"a": "2", "b": "2"})
	_, err = d.s.Checkout(t.Context(), second)
	require.NoError(t, err)
	_, err = d.s.Checkout(t.Context(), first, session.OnlyFiles(), session.OnlyPaths("b"))
	require.NoError(t, err)
	d.is(map[string]string{"a": "2", "b": "1"})
	require.Equal(t, asJSON(t, d.s.View().Messages(second)), asJSON(t, d.s.View().Messages(d.s.Head())))
	_, err = d.s.Checkout(t.Context(), second)
	require.NoError(t, err)
	d.is(map[string]string{"a": "2", "b": "2"})
}

// Two branches are compared file by file, whatever is in the workspace now.
func TestCompareBranches(t *testing.T) {
	d := newDesk(t, "", journal.Memory(), t.TempDir(), writeFile("both", "one\n"), script.Say("one"),
		writeFile("both", "two\n"), writeFile("new", "new\n"), bash("rm old; ln -s both link; chmod +x run; echo K=1 > .env"), script.Say("two"),
		writeFile("both", "three\n"), bash("rm run; echo K=22 > .env"), script.Say("three"))
	d.write("old", "old\n")
	d.write("run", "run\n")
	run(t, d.s, "first")
	first := d.s.Head()
	run(t, d.s, "second")
	second := d.s.Head()
	_, err := d.s.Checkout(t.Context(), first)
	require.NoError(t, err)
	run(t, d.s, "third")
	third := d.s.Head()
	d.write("both", "of the user\n")

	type compared struct {
		action         snapshot.Action
		added, removed int
		reason         bool
	}
	compare := func(from, to session.ID) map[string]compared {
		files, err := d.s.Compare(t.Context(), from, to)
		require.NoError(t, err)
		out := map[string]compared{}
		for _, f := range files {
			stat := f.Diff().Stat()
			out[f.Path] = compared{f.Action, stat.Insertions, stat.Deletions, f.Reason != ""}
		}
		return out
	}
	require.Equal(t, map[string]compared{
		"both": {snapshot.ActionChange, 1, 1, false}, "new": {snapshot.ActionRemove, 0, 1, false}, "old": {snapshot.ActionCreate, 1, 0, false},
		"run": {snapshot.ActionRemove, 0, 1, false}, "link": {snapshot.ActionRemove, 0, 1, false}, ".env": {snapshot.ActionKeep, 0, 0, true},
	}, compare(second, third))
	require.Equal(t, map[string]compared{
		"both": {snapshot.ActionChange, 1, 1, false}, "new": {snapshot.ActionCreate, 1, 0, false}, "old": {snapshot.ActionRemove, 0, 1, false},
		"run": {snapshot.ActionCreate, 1, 0, false}, "link": {snapshot.ActionCreate, 1, 0, false}, ".env": {snapshot.ActionKeep, 0, 0, true},
	}, compare(third, second))
	require.Empty(t, compare(second, second))
	files, err := d.s.Compare(t.Context(), second, third)
	require.NoError(t, err)
	require.Equal(t, "diff --git a/both b/both\n--- a/both\n+++ b/both\n@@ -1 +1 @@\n-two\n+three\n", string(files[1].Diff().Unified()))
	require.Equal(t, os.FileMode(0o755), files[5].Now.Mode)

	_, err = d.s.Compare(t.Context(), second, 999)
	_, ok := errors.AsType[*session.CommandError](err)
	require.True(t, ok)
	v := d.s.View()
	require.Equal(t, first, v.Ancestor(second, third).ID)
}

// A checkout that is killed when the files are back, and before the conversation is, is finished by
// the next process. One that is killed before the files were changed is not.
func TestCheckoutKilledInBetween(t *testing.T) {
	for _, back := range []bool{true, false} {
		t.Run(fmt.Sprint("files are back: ", back), func(t *testing.T) {
			store, dir := newMemory(), t.TempDir()
			d := newDesk(t, "", store, dir, writeFile("a", "1"), script.Say("one"), writeFile("a", "2"), script.Say("two"))
			run(t, d.s, "first")
			first := d.s.Head()
			run(t, d.s, "second")
			second := d.s.Head()
			_, err := d.s.Undo(t.Context())
			require.NoError(t, err)
			require.Equal(t, first, d.s.Head())
			d.is(map[string]string{"a": "1"})
			require.NoError(t, d.s.Close())
			j := store.sessions[d.s.ID()]
			last := j.records[len(j.records)-1]
			require.Contains(t, string(last), `"t":"undo"`)
			j.records = j.records[:len(j.records)-1]
			want := map[string]string{"a": "1"}
			if !back {
				d.write("a", "2")
				want = map[string]string{"a": "2"}
			}

			o := newDesk(t, d.s.ID(), store, dir, script.Say("three"))
			o.is(want)
			if !back {
				require.Equal(t, second, o.s.Head())
				return
			}
			require.Equal(t, first, o.s.Head())
			_, err = o.s.Redo(t.Context())
			require.NoError(t, err)
			o.is(map[string]string{"a": "2"})
		})
	}
}

// A file of the user that a command has removed, and that an Undo has brought back, is removed
// again by a Redo of the next process.
func TestRedoInNextProcess(t *testing.T) {
	store, dir := journal.Memory(), t.TempDir()
	d := newDesk(t, "", store, dir, bash("rm b && echo x > a"), script.Say("done"))
	d.write("b", "user\n")
	run(t, d.s, "go")
	d.is(map[string]string{"a": "x\n"})
	_, err := d.s.Undo(t.Context())
	require.NoError(t, err)
	d.is(map[string]string{"b": "user\n"})
	require.NoError(t, d.s.Close())

	o := newDesk(t, d.s.ID(), store, dir)
	_, err = o.s.Redo(t.Context())
	require.NoError(t, err)
	o.is(map[string]string{"a": "x\n"})
}

// A Trim keeps what a checkout has said of the files: the next process reports none of them as changed, and a Redo can
// remove what the Undo has brought back.
func TestTrimAfterUndo(t *testing.T) {
	store, dir := journal.Memory(), t.TempDir()
	d := newDesk(t, "", store, dir, bash("rm b && echo x > a"), script.Say("done"))
	d.write("b", "user\n")
	run(t, d.s, "go")
	_, err := d.s.Undo(t.Context())
	require.NoError(t, err)
	for range 2 { // what a Trim has written, the next one keeps
		require.NoError(t, d.s.Trim(t.Context()))
		require.NoError(t, d.s.Close())
		d = newDesk(t, d.s.ID(), store, dir)
		require.Empty(t, d.s.Changes())
	}
	_, err = d.s.Redo(t.Context())
	require.NoError(t, err)
	d.is(map[string]string{"a": "x\n"})
	require.NoError(t, d.s.Trim(t.Context()))
	require.NoError(t, d.s.Close())
	d = newDesk(t, d.s.ID(), store, dir)
	require.Empty(t, d.s.Changes())
}

// When objects cannot be stored, a session that goes on in memory runs commands, takes the files
// back, and leaves a journal that names no object that it does not have.
func TestFilesGoOnInMemory(t *testing.T) {
	store, dir := newMemory(), t.TempDir()
	d := newDeskWith(t, "", store, dir, []script.Step{
		writeFile("a", "1"), script.Say("one"), bash("rm b && echo x > a"), writeFile("c", "c"), script.Say("two"),
	}, session.WithoutStopping())
	d.write("b", "user\n")
	run(t, d.s, "first")
	first := d.s.View().Len()
	store.sessions[d.s.ID()].full = syscall.ENOSPC
	d.write("b", "the user's last words\n")
	run(t, d.s, "second")
	d.is(map[string]string{"a": "x\n", "c": "c"})
	require.ErrorIs(t, d.s.Err(), syscall.ENOSPC)
	move, err := d.s.Undo(t.Context())
	require.NoError(t, err)
	for _, f := range move.Files {
		require.NotEqual(t, snapshot.ActionKeep, f.Action, "%+v", f)
	}
	d.is(map[string]string{"a": "1", "b": "the user's last words\n"})
	_, err = d.s.Redo(t.Context())
	require.NoError(t, err)
	d.is(map[string]string{"a": "x\n", "c": "c"})
	require.NoError(t, d.s.Close())

	v, damage, err := session.Read(t.Context(), store, d.s.ID())
	require.NoError(t, err)
	require.Empty(t, damage)
	require.GreaterOrEqual(t, v.Len(), first)
	for id := range v.Len() {
		for name, f := range v.Node(session.ID(id)).Files {
			for s := &f; s != nil; s = s.First {
				if s.Hash != "" {
					require.Contains(t, store.sessions[d.s.ID()].objects, s.Hash, "%d: %s", id, name)
				}
			}
		}
	}
}

// The store of the session can be in the workspace, also behind a link. Its files are neither kept nor taken back.
func TestStoreInWorkspace(t *testing.T) {
	dir, link := t.TempDir(), filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(dir, link))
	store, err := journal.Dir(filepath.Join(link, "state", "sessions"))
	require.NoError(t, err)
	d := newDesk(t, "", store, dir, bash("echo one > a; cp a state/mine"), script.Say("1"),
		bash("echo two > a; echo seen > state/sessions/x"), script.Say("2"), bash("cat a"), script.Say("3"))
	run(t, d.s, "first")
	run(t, d.s, "second")
	objects := func() []string {
		list, err := filepath.Glob(filepath.Join(dir, "state/sessions", d.s.ID(), "objects/*"))
		require.NoError(t, err)
		return list
	}
	before := objects()
	run(t, d.s, "third")
	require.Equal(t, before, objects(), "the command has changed nothing")
	for name := range d.s.View().Files(d.s.Head()) {
		require.NotContains(t, name, "sessions/")
	}
	require.NoError(t, d.s.Pin(t.Context(), "state/sessions/x"))
	for range 2 {
		move, err := d.s.Undo(t.Context())
		require.NoError(t, err)
		for _, f := range move.Files {
			require.Equal(t, "a", f.Path)
		}
	}
	require.FileExists(t, filepath.Join(dir, "state/sessions/x"))
	_, err = d.s.Undo(t.Context())
	require.NoError(t, err)
	require.NoFileExists(t, filepath.Join(dir, "state/mine"))
	require.FileExists(t, filepath.Join(dir, "state/sessions/x"))
	_, err = d.s.Checkout(t.Context(), session.ID(d.s.View().Len()-1))
	require.NoError(t, err)
	require.NoError(t, d.s.Close())
	o := newDesk(t, d.s.ID(), store, dir)
	require.Empty(t, o.s.Damage())
	require.Empty(t, o.s.Changes())
}

// A fork with files takes them back as the session does, also in the process that has made it.
func TestForkTakesFilesBack(t *testing.T) {
	store, dir := journal.Memory(), t.TempDir()
	d := newDesk(t, "", store, dir, writeFile("old", "1"), script.Say("one"), writeFile("new", "2"), script.Say("two"))
	run(t, d.s, "first")
	run(t, d.s, "second")
	ws, err := workspace.Open(dir)
	require.NoError(t, err)
	defer ws.Close()
	f, err := d.s.Fork(t.Context(), d.s.Head(), session.WithFiles(snapshot.New(ws)))
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, d.s.Close())
	_, err = f.Undo(t.Context())
	require.NoError(t, err)
	d.is(map[string]string{"old": "1"})
	_, err = f.Redo(t.Context())
	require.NoError(t, err)
	d.is(map[string]string{"old": "1", "new": "2"})
}
