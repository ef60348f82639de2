package snapshot

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"slices"

	"github.com/aycoder/aycoder/internal/ignore"
	"github.com/aycoder/aycoder/internal/rootpath"
)

// A walk looks at every file of the workspace that is not ignored. The rules are those of git: a
// file that is committed is not ignored, whatever the patterns say. Directories of dependencies are
// left out like ignored ones.

const maxIgnoreFile = 1 << 20 // bytes of an ignore file that are read

// unseen is what a walk has not looked at.
type unseen struct {
	ignored map[string]bool // by name; of a directory, all that is in it
	some    bool            // there are other files that it has not looked at
}

// has reports whether a file that the next walk finds may have been there before.
func (u unseen) has(name string) bool {
	there := u.some || u.ignored[name]
	dirsAbove(name, func(dir string) bool {
		there = there || u.ignored[dir]
		return !there
	})
	return there
}

// walker is one walk.
type walker struct {
	*Tracker
	before, unseen unseen // by the last walk, and by this one
	left           int    // how many entries it may still look at
	later          bool   // it has left out files that a plan is about to change
	budget         budget
}

// walk finds what has changed, came and went since the last walk, and stores it within the limits. The files
// of a plan that is carried out are looked at after the plan, which knows what it has made of them.
func (t *Tracker) walk(ctx context.Context) error {
	if err := t.repo.Load(ctx); err != nil {
		return err
	}
	w := &walker{Tracker: t, before: t.unseen, unseen: unseen{ignored: map[string]bool{}}, left: t.entries, budget: t.limits}
	ended := slices.Clone(t.commands)
	ended = slices.DeleteFunc(ended, func(c *command) bool { return !c.ended.Load() })
	t.walks++
	t.unseen.some = true // unless this walk comes to its end
	if err := w.root(ctx, "."); err != nil {
		return err
	}
	t.unseen = w.unseen
	for name, f := range t.files {
		if f.walk == t.walks || f.state.Kind == "" && f.state.First == nil || w.leave(name) {
			continue
		}
		if err := t.look(ctx, name, false); err != nil {
			return err
		}
		if f.state.Kind == "" && f.state.First == nil {
			delete(t.files, name)
		}
	}
	if !w.later {
		t.commands = slices.DeleteFunc(t.commands, func(c *command) bool { return slices.Contains(ended, c) })
	}
	return nil
}

// root walks through a root of the workspace.
func (w *walker) root(ctx context.Context, top string) error {
	exclude, _ := w.read(path.Join(top, ".git/info/exclude"), maxIgnoreFile) // there may be none
	var l *ignore.Layer
	return w.dir(ctx, top, l.Push(top, exclude), false)
}

// leave reports whether a file is to be looked at after a plan.
func (w *walker) leave(name string) bool {
	later := len(w.busy[name]) > 0
	w.later = w.later || later
	return later
}

// dir walks through a directory. Hidden says that it is ignored itself, but has committed files.
func (w *walker) dir(ctx context.Context, dir string, l *ignore.Layer, hidden bool) error {
	entries, err := w.ws.ReadDir(ctx, dir)
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if err != nil { // it cannot be read, or is very large
		w.unseen.some = true
	}
	for _, e := range entries {
		if e.Name() == ".gitignore" && e.Type().IsRegular() {
			file, _ := w.read(path.Join(dir, e.Name()), maxIgnoreFile)
			l = l.Push(dir, file)
		}
	}
	for _, e := range entries {
		if w.left--; w.left < 0 {
			w.unseen.some = true
			return nil
		}
		name := e.Name()
		if dir != "." {
			name = dir + "/" + name
		}
		if err := w.entry(ctx, name, e, l, hidden); err != nil {
			return err
		}
	}
	return nil
}

func (w *walker) entry(ctx context.Context, name string, e fs.DirEntry, l *ignore.Layer, hidden bool) error {
	if rootpath.IsRoot(name) {
		return w.root(ctx, name)
	}
	isDir := e.IsDir()
	if ignore.Temp(name) || ignore.Store(name) || w.isApart(name) {
		return nil
	}
	ignored := hidden || l.Ignored(name, isDir) || isDir && ignore.Skipped(e.Name())
	repo, rest := w.repo.of(name)
	if ignored && !repo.Holds(rest, isDir) {
		w.unseen.ignored[name] = true
		return nil
	}
	info, err := e.Info()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		w.unseen.some = true
		return nil
	}
	f := w.file(name)
	f.walk = w.walks
	if isDir || !w.leave(name) {
		err = w.changed(ctx, f, info)
	}
	if err != nil || !isDir {
		return err
	}
	return w.dir(ctx, name, l, ignored)
}

// changed notes the state of a file if its signature is not the one that is known.
func (w *walker) changed(ctx context.Context, f *trackedFile, info fs.FileInfo) error {
	s := sign(info)
	if f.sign.unchanged(s) || s.mode.IsDir() && f.state.Kind == KindDir && f.state.Mode == s.mode.Perm() {
		return nil
	}
	now, err := w.capture(ctx, f, info, &w.budget)
	if err != nil {
		return err
	}
	track := f.state.Kind == "" && f.state.First == nil && len(w.commands) > 0 && w.before.has(f.path)
	if track {
		f.state = State{Kind: KindOther, NotHeld: "it was not watched before"}
	}
	w.note(f, s, now, track)
	return nil
}
