package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/tools"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// actions returns what a plan does, by file.
func actions(plan []Change) map[string]Action {
	all := map[string]Action{}
	for _, c := range plan {
		all[c.Path] = c.Action
	}
	return all
}

// A file that a commit holds needs no object, and comes back byte for byte, also with filters that
// change line ends. If the repository loses it, a checkout says so.
func TestFilesHeldByGit(t *testing.T) {
	f := newFilesTest(t, map[string]string{"held": "held by git\n", "sub/dir/held": "held below\n", "crlf": "a\r\nb\r\n",
		"ignored.o": "old\n", ".gitignore": "*.o\nout/\n", "out/kept": "committed although ignored\n"})
	f.write(".gitattributes", "crlf text eol=crlf\n")
	f.git("init", "-q")
	f.git("add", "-A")
	f.git("add", "-f", "out/kept")
	f.git("commit", "-q", "-m", "c")
	f.write("new", "not committed\n")
	start := f.node()
	before := f.disk()
	f.command(func() error {
		return errors.Join(os.RemoveAll(f.path("sub")), os.WriteFile(f.path("held"), []byte("x\n"), 0o755),
			os.WriteFile(f.path("crlf"), nil, 0o644), os.Remove(f.path("new")), os.Remove(f.path("out/kept")),
			os.WriteFile(f.path("ignored.o"), []byte("built\n"), 0o644), os.WriteFile(f.path("out/built"), nil, 0o644))
	})
	assert.False(t, f.objs.holds("held by git"))
	assert.False(t, f.objs.holds("built"))
	assert.True(t, f.objs.holds("not committed"))
	assert.True(t, f.objs.holds("a\r\nb"), "git has it without the carriage returns")
	later := f.node()
	assert.Equal(t, map[string]Action{"held": ActionChange, "crlf": ActionChange, "new": ActionCreate, "out/kept": ActionCreate,
		"sub": ActionCreate, "sub/dir": ActionCreate, "sub/dir/held": ActionCreate}, actions(f.goTo(start)))
	before["ignored.o"], before["out/built"] = f.disk()["ignored.o"], f.disk()["out/built"] // what is built stays
	assert.Equal(t, before, f.disk())
	f.goTo(later)
	require.NoError(t, os.RemoveAll(f.path(".git")))
	plan := f.goTo(start)
	assert.Equal(t, ActionCreate, actions(plan)["new"])
	for _, c := range plan {
		if c.Path == "held" || c.Path == "sub/dir/held" {
			assert.Equal(t, ActionKeep, c.Action)
			assert.Contains(t, c.Reason, "repository")
		}
	}
	assert.Equal(t, "x\n", f.disk()["held"].Content)
}

// A file is kept although the repository of another user holds it: that user can take it away.
func TestFilesHeldByAnother(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can give files away")
	}
	f := newFilesTest(t, map[string]string{"a": "a\n"})
	f.commit()
	for _, name := range []string{".", ".git"} {
		require.NoError(t, os.Chown(f.path(name), 12345, 12345))
	}
	start := f.node()
	f.command(func() error { return os.Remove(f.path("a")) })
	require.NoError(t, os.RemoveAll(f.path(".git")))
	f.goTo(start)
	assert.Equal(t, "a\n", f.disk()["a"].Content)
}

// No command of a repository's configuration runs when its commit is read, and neither does one
// that git needs to fetch a missing blob.
func TestFilesHostileRepository(t *testing.T) {
	f := newFilesTest(t, map[string]string{"a": "a\n", "b": "b\n"})
	f.commit()
	ran := filepath.Join(t.TempDir(), "ran")
	script := filepath.Join(t.TempDir(), "evil")
	require.NoError(t, os.WriteFile(script, []byte("#!/bin/sh\ntouch "+ran+"\n"), 0o755))
	for _, key := range []string{"core.fsmonitor", "core.sshCommand", "core.pager", "core.editor", "core.askPass", "core.hooksPath",
		"core.gitProxy", "remote.origin.uploadpack", "filter.x.smudge", "filter.x.clean", "filter.x.process", "diff.external",
		"credential.helper", "alias.ls-tree", "alias.cat-file", "core.alternateRefsCommand"} {
		f.git("config", key, script)
	}
	f.git("config", "remote.origin.url", "ext::"+script)
	f.git("config", "protocol.ext.allow", "always")
	f.git("config", "remote.origin.promisor", "true")
	f.git("config", "extensions.partialClone", "origin")
	f.git("config", "core.repositoryFormatVersion", "1")
	f.write(".git/info/attributes", "* filter=x diff=x\n")
	t.Setenv("GIT_EXTERNAL_DIFF", script)
	t.Setenv("GIT_CONFIG_COUNT", "1")
	t.Setenv("GIT_CONFIG_KEY_0", "core.fsmonitor")
	t.Setenv("GIT_CONFIG_VALUE_0", script)
	blob := "78981922613b2afb6025042ff6bd878ac1994e85" // of "a\n"
	require.NoError(t, os.Remove(f.path(".git/objects/"+blob[:2]+"/"+blob[2:])))
	start := f.node()
	f.command(func() error { return errors.Join(os.Remove(f.path("a")), os.Remove(f.path("b"))) })
	assert.True(t, f.objs.holds("a\n"), "git does not have it")
	f.goTo(start)
	assert.Equal(t, "a\n", f.disk()["a"].Content)
	assert.Equal(t, "b\n", f.disk()["b"].Content)
	f.repo.Contents(t.Context(), map[string]int64{blob: 2})
	assert.NoFileExists(t, ran)
	// The trap works: a plain git runs the program.
	cmd := exec.CommandContext(t.Context(), "git", "cat-file", "-p", blob)
	cmd.Dir = f.dir
	require.Error(t, cmd.Run())
	assert.FileExists(t, ran)
}

// Files that cannot be held are named, never read, and never changed by a checkout.
func TestFilesNotHeld(t *testing.T) {
	f := newFilesTest(t, map[string]string{".env": "SECRET=s3cr3t\n", "small": "s\n", "bad\xff": "x\n", "\"quoted\"": "q\n"})
	require.NoError(t, os.Truncate(f.path("small"), 2))
	huge, err := os.Create(f.path("sparse"))
	require.NoError(t, err)
	require.NoError(t, errors.Join(huge.Truncate(1<<40), huge.Close()))
	require.NoError(t, syscall.Mkfifo(f.path("fifo"), 0o644))
	require.NoError(t, os.Symlink(".env", f.path("link")))
	start := f.node()
	f.command(func() error {
		return errors.Join(os.WriteFile(f.path(".env"), []byte("SECRET=other!\n"), 0o600), os.Truncate(f.path("sparse"), 1<<39),
			os.Remove(f.path("fifo")), os.WriteFile(f.path("bad\xff"), []byte("y\n"), 0o644), os.Remove(f.path("link")),
			os.WriteFile(f.path("\"quoted\""), []byte("p\n"), 0o644), syscall.Mkfifo(f.path("fifo2"), 0o644))
	})
	later := f.disk
	now := later()
	assert.False(t, f.objs.holds("SECRET"))
	plan := f.goTo(start)
	assert.Equal(t, map[string]Action{".env": ActionKeep, "sparse": ActionKeep, "fifo": ActionKeep, "fifo2": ActionKeep,
		`"bad\xff"`: ActionKeep, "link": ActionCreate, "\"quoted\"": ActionChange}, actions(plan))
	for _, c := range plan {
		if c.Action == ActionKeep {
			assert.NotEmpty(t, c.Reason, c.Path)
		}
		_ = c.Diff().Unified()
	}
	after := f.disk()
	for _, name := range []string{".env", "sparse", "bad\xff", "fifo2"} {
		assert.Equal(t, now[name], after[name], name)
	}
	assert.Equal(t, "q\n", after["\"quoted\""].Content)
	assert.Equal(t, ".env", after["link"].Content)
	assert.False(t, f.objs.holds("SECRET"))
}

// A file that the user has created, or touched last, stays.
func TestFilesOfUserStay(t *testing.T) {
	f := newFilesTest(t, map[string]string{"old": "old\n"})
	start := f.node()
	f.apply(edit.File{Path: "d/tool", Kind: edit.Create, Proposed: "tool\n"},
		edit.File{Path: "d/touched", Kind: edit.Create, Proposed: "t\n"})
	f.command(func() error {
		return errors.Join(os.WriteFile(f.path("command"), []byte("c\n"), 0o644), os.WriteFile(f.path("old"), []byte("new\n"), 0o644))
	})
	f.write("mine", "mine\n")
	f.write("d/touched", "user\n")
	f.ws.Seen().Add("mine", "mine\n")
	later := f.node()
	plan := f.goTo(start)
	assert.Equal(t, map[string]Action{"old": ActionChange, "command": ActionRemove, "d/tool": ActionRemove, "d/touched": ActionKeep,
		"d": ActionKeep}, actions(plan), "mine was never anything else")
	disk := f.disk()
	assert.Equal(t, "user\n", disk["d/touched"].Content)
	assert.Equal(t, "mine\n", disk["mine"].Content)
	assert.NotContains(t, disk, "command")
	f.goTo(later)
	assert.Equal(t, "tool\n", f.disk()["d/tool"].Content)
	// A restriction to some paths.
	plan, err := f.Plan(t.Context(), start, "d/", "command")
	require.NoError(t, err)
	assert.Equal(t, map[string]Action{"command": ActionRemove, "d/tool": ActionRemove, "d/touched": ActionKeep, "d": ActionKeep}, actions(plan))
	// The user saves between the plan and the checkout.
	plan, err = f.Plan(t.Context(), start, "old")
	require.NoError(t, err)
	assert.Contains(t, string(plan[0].Diff().Unified()), "-new\n+old\n")
	f.write("old", "user\nnew\n")
	_, err = f.Checkout(t.Context(), plan)
	_, conflict := errors.AsType[*edit.ConflictError](err)
	if err == nil {
		assert.Contains(t, f.disk()["old"].Content, "user\n")
	} else {
		assert.True(t, conflict, "%v", err)
		assert.Equal(t, "user\nnew\n", f.disk()["old"].Content)
	}
}

// A command that panics has ended. A later change of the user stays.
func TestFilesCommandPanics(t *testing.T) {
	f := newFilesTest(t, map[string]string{"old": "old\n"})
	start := f.node()
	require.Panics(t, func() { f.command(func() error { panic("broken") }) })
	f.write("mine", "mine\n")
	f.goTo(start)
	assert.Equal(t, "mine\n", f.disk()["mine"].Content)
}

// Nothing is changed if what is there cannot be stored.
func TestFilesStoreFails(t *testing.T) {
	f := newFilesTest(t, map[string]string{"f": "f\n"})
	f.objs.err = syscall.ENOSPC
	plan, err := edit.NewPlan(edit.File{Path: "f", Kind: edit.Change, Base: "f\n", Proposed: "g\n"})
	require.NoError(t, err)
	_, err = f.files.Apply(t.Context(), plan)
	require.ErrorIs(t, err, syscall.ENOSPC)
	ran := false
	_, err = f.files.Exec(execFunc(func() error { ran = true; return nil })).Run(t.Context(), &tools.ExecCommand{})
	require.ErrorIs(t, err, syscall.ENOSPC)
	assert.False(t, ran)
	assert.Equal(t, "f\n", f.disk()["f"].Content)
	_, err = f.files.Exec(execFunc(func() error { ran = true; return nil })).Run(t.Context(), &tools.ExecCommand{ReadOnly: true})
	require.NoError(t, err)
	f.objs.err = nil
	ctx, cancel := context.WithCancel(t.Context())
	_, err = f.files.Exec(execFunc(func() error { cancel(); return os.WriteFile(f.path("f"), []byte("cmd\n"), 0o644) })).Run(ctx, &tools.ExecCommand{})
	require.NoError(t, err)
	s := f.node()["f"]
	assert.Equal(t, journal.HashOf([]byte("cmd\n")), s.Hash, "found later, since the call was cancelled")
	assert.Equal(t, journal.HashOf([]byte("f\n")), s.First.Hash)
}

// A file that is in neither the journal nor memory is named by a checkout, and stays as it is.
func TestFilesMemoryIsFull(t *testing.T) {
	f := newFilesTest(t, map[string]string{"held": "h\n", "not": "not held\n"})
	f.node()
	f.objects = &Memory{size: maxMemory - len("h\n")}
	start := f.node()
	remove := func() error { return errors.Join(os.Remove(f.path("held")), os.Remove(f.path("not"))) }
	f.command(remove)
	f.apply(edit.File{Path: "not", Kind: edit.Create, Proposed: "new\n"})
	plan := f.goTo(start)
	assert.Equal(t, map[string]Action{"held": ActionCreate, "not": ActionKeep}, actions(plan))
	for _, c := range plan {
		if c.Path == "not" {
			assert.Contains(t, c.Reason, ErrNoRoom.Error())
		}
	}
	assert.Equal(t, "h\n", f.disk()["held"].Content)
	assert.Equal(t, "new\n", f.disk()["not"].Content)
}

// A change that leaves size and times as they were is found, if the clock of the file system has
// not moved since the file was read.
func TestFilesSameTime(t *testing.T) {
	f := newFilesTest(t, map[string]string{})
	for i := range 50 {
		name := fmt.Sprintf("f%d", i)
		f.write(name, "one\n")
		require.NoError(t, f.Pin(t.Context(), name))
		f.write(name, "two\n")
		assert.Equal(t, journal.HashOf([]byte("two\n")), f.node()[name].Hash)
	}
	// A program that sets the time back is found by the time of the inode.
	old := time.Now().Add(-time.Hour)
	f.write("t", "one\n")
	require.NoError(t, os.Chtimes(f.path("t"), old, old))
	require.NoError(t, f.Pin(t.Context(), "t"))
	s := f.Tracker.files["t"].sign
	s.at = s.at.Add(time.Minute) // as if much time had passed
	f.Tracker.files["t"].sign = s
	f.write("t", "two\n")
	require.NoError(t, os.Chtimes(f.path("t"), old, old))
	assert.Equal(t, journal.HashOf([]byte("two\n")), f.node()["t"].Hash)
}

// Beyond the bounds, files are named as not held, and what is beyond the bound of the walk counts
// as neither new nor gone.
func TestFilesBounds(t *testing.T) {
	files := map[string]string{}
	for i := range 60 {
		files[fmt.Sprintf("d%d/f%d", i%7, i)] = strings.Repeat("x", 100) + fmt.Sprint(i)
	}
	f := newFilesTest(t, files)
	f.limits.count, f.entries = 20, 40
	start := f.node()
	f.command(func() error {
		var err error
		for name := range files {
			err = errors.Join(err, os.Remove(f.path(name)))
		}
		return err
	})
	held, not := 0, 0
	for name, s := range f.node() {
		if s.First.Kind != KindFile {
			continue
		}
		if s.First.NotHeld == "" {
			held++
		} else {
			not++
		}
		assert.Empty(t, s.Kind, name)
	}
	assert.Equal(t, 20, held)
	assert.Positive(t, not)
	plan := f.goTo(start)
	assert.Len(t, f.disk(), 7+20)
	kept := 0
	for _, c := range plan {
		if c.Action == ActionKeep && c.Then.Kind == KindFile {
			kept++
		}
	}
	assert.Equal(t, not, kept)
}

// The files that the model was shown are tracked.
func TestFilesShown(t *testing.T) {
	f := newFilesTest(t, map[string]string{"a": "disk\n"})
	f.ws.Seen().Add("a", "shown before\n")
	f.ws.Seen().Add("a", "disk\n")
	assert.Contains(t, f.node(), "a")
	// A tracker of another process finds what has changed since.
	g2 := newTracker(f.ws, f.objs, f.node())
	f.write("a", "later\n")
	require.NoError(t, g2.Refresh(t.Context()))
	assert.Equal(t, journal.HashOf([]byte("later\n")), changed(t, g2, map[string]State{})["a"].Hash)
}

// The walk sees no file through a link that takes the place of a directory.
func TestFilesLinkInPlace(t *testing.T) {
	f := newFilesTest(t, map[string]string{"d/f": "f\n", "e/f": "outside\n"})
	start := f.node()
	f.command(func() error { return errors.Join(os.RemoveAll(f.path("d")), os.Symlink("e", f.path("d"))) })
	now := f.node()
	assert.Equal(t, KindLink, now["d"].Kind)
	assert.Empty(t, now["d/f"].Kind)
	f.goTo(start)
	disk := f.disk()
	assert.Equal(t, fs.ModeDir, disk["d"].Mode.Type())
	assert.Equal(t, "f\n", disk["d/f"].Content)
	assert.Equal(t, "outside\n", disk["e/f"].Content)
}

// Commands, plans, deltas and refreshes of several agents at the same time: each branch learns of
// every change, and what a node says is held.
func TestFilesParallel(t *testing.T) {
	files := map[string]string{}
	for i := range 20 {
		files[fmt.Sprintf("f%d", i)] = "old\n"
	}
	f := newFilesTest(t, files)
	start := f.node()
	var all sync.WaitGroup
	nodes := make([]map[string]State, 8)
	for agent := range nodes {
		all.Go(func() {
			now := map[string]State{}
			e := f.files.Exec(execFunc(func() error {
				return os.WriteFile(f.path(fmt.Sprintf("f%d", agent)), fmt.Appendf(nil, "agent %d\n", agent), 0o644)
			}))
			for i := range 10 {
				_, err := e.Run(t.Context(), &tools.ExecCommand{})
				assert.NoError(t, err)
				plan, err := edit.NewPlan(edit.File{Path: fmt.Sprintf("a%d/f%d", agent, i), Kind: edit.Create, Proposed: "x"})
				assert.NoError(t, err)
				_, err = f.files.Apply(t.Context(), plan)
				assert.NoError(t, err)
				assert.NoError(t, f.Refresh(t.Context()))
				now = changed(t, f.Tracker, now)
			}
			nodes[agent] = now
		})
	}
	all.Wait()
	now := f.node()
	for agent, node := range nodes {
		name := fmt.Sprintf("f%d", agent)
		assert.Equal(t, journal.HashOf(fmt.Appendf(nil, "agent %d\n", agent)), node[name].Hash)
		assert.Equal(t, journal.HashOf([]byte("old\n")), node[name].First.Hash)
		for i := range 10 {
			s := now[fmt.Sprintf("a%d/f%d", agent, i)]
			assert.True(t, s.Own, "a%d/f%d", agent, i)
		}
	}
	f.goTo(start)
	disk := f.disk()
	assert.Len(t, disk, len(files))
	for name := range files {
		assert.Equal(t, "old\n", disk[name].Content)
	}
}

// Nobody who has given up waits for what others do to the files, such as a long look at all of them.
func TestFilesWaitIsCancelled(t *testing.T) {
	f := newFilesTest(t, map[string]string{"f": "f\n"})
	f.turn.Lock()
	defer f.turn.Unlock()
	ctx, cancel := context.WithCancelCause(t.Context())
	given := errors.New("given up")
	cancel(given)
	plan, err := edit.NewPlan(edit.File{Path: "f", Kind: edit.Change, Base: "f\n", Proposed: "g\n"})
	require.NoError(t, err)
	for name, do := range map[string]func() error{
		"refresh":  func() error { return f.Refresh(ctx) },
		"pin":      func() error { return f.Pin(ctx, "f") },
		"diff":     func() error { _, _, err := f.Diff(ctx, nil, nil); return err },
		"plan":     func() error { _, err := f.Plan(ctx, nil); return err },
		"checkout": func() error { _, err := f.Checkout(ctx, nil); return err },
		"apply":    func() error { _, err := f.files.Apply(ctx, plan); return err },
		"command": func() error {
			_, err := f.files.Exec(execFunc(func() error { return nil })).Run(ctx, &tools.ExecCommand{})
			return err
		},
	} {
		require.ErrorIs(t, do(), given, name)
	}
	require.Equal(t, "f\n", f.disk()["f"].Content)
}

// A process that is killed during a checkout leaves a record, by which the next one takes the
// checkout back before it reads anything else.
func TestFilesCheckoutInterrupted(t *testing.T) {
	f := newFilesTest(t, map[string]string{"a": "1\n", "b": "1\n"})
	start := f.node()
	f.command(func() error {
		return errors.Join(os.WriteFile(f.path("a"), []byte("2\n"), 0o644), os.Remove(f.path("b")), os.Symlink("a", f.path("b")))
	})
	before := f.disk()
	plan, err := f.Plan(t.Context(), start)
	require.NoError(t, err)
	broken := errors.New("broken")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(broken)
	_, err = f.Checkout(ctx, plan)
	require.ErrorIs(t, err, broken)
	assert.Equal(t, before, f.disk())
	rest, err := recoverCheckout(t.Context(), f.ws)
	require.NoError(t, err)
	assert.Empty(t, rest)
	_, err = f.Checkout(t.Context(), plan)
	require.NoError(t, err)
	assert.Equal(t, "1\n", f.disk()["b"].Content)
}
