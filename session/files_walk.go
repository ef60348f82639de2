package session

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"path"

	"github.com/aycoder/aycoder/internal/ignore"
	"golang.org/x/sync/errgroup"
)

// A walk looks at every file of the workspace that is not ignored. The rules are those of git: a
// file that is committed is not ignored, whatever the patterns say. Directories of dependencies are
// left out like ignored ones.

const maxIgnoreFile = 1 << 20 // bytes of an ignore file that are read

// walker is one walk.
type walker struct {
	*tracker
	by      author
	known   bool // an earlier walk saw everything: what it did not find was not there
	left    int  // how many entries it may still look at
	changed []seenChange
}

// seenChange is a file whose signature is not the one that is known.
type seenChange struct {
	*trackedFile
	info  fs.FileInfo
	sign  signature
	state FileState
}

// walk finds what has changed, came and went since the last walk, and stores it within the bounds.
func (t *tracker) walk(ctx context.Context, by author) error {
	if err := t.repo.load(ctx); err != nil {
		return err
	}
	w := &walker{tracker: t, by: by, known: t.walks > 0 && !t.partial, left: t.entries}
	t.walks++
	hidden := t.skipped
	t.skipped, t.partial = map[string]bool{}, false
	var l *ignore.Layer
	l = l.Push("", []byte(t.ignored)).Push("", w.ignoreFile(".git/info/exclude"))
	if err := w.dir(ctx, ".", l, false); err != nil {
		t.partial = true
		t.skipped = hidden
		return err
	}
	if err := w.captureAll(ctx); err != nil {
		t.partial = true
		return err
	}
	for _, c := range w.changed {
		w.foundNew(c, hidden)
	}
	for name, f := range t.files {
		if f.walk == t.walks || f.state.Kind == "" && !f.shown {
			continue
		}
		if err := t.look(ctx, name, by, false); err != nil {
			return err
		}
		if f.state.Kind == "" && !f.shown {
			delete(t.files, name)
		}
	}
	if by == byAgent && t.running.Load() == 0 {
		t.owed.Store(false)
	}
	return nil
}

// foundNew notes a change. A name that the walk before could not have seen is not new for sure.
func (w *walker) foundNew(c seenChange, hidden map[string]bool) {
	f := c.trackedFile
	if f.state.Kind == "" && w.by == byAgent && !f.shown {
		seen := w.known && !hidden[f.path]
		dirsAbove(f.path, func(dir string) bool {
			seen = seen && !hidden[dir]
			return seen
		})
		if !seen {
			f.state, f.seen = FileState{Kind: KindOther, NotHeld: "it was not watched before"}, true
			w.found(f, c.sign, c.state, byUser, true)
			return
		}
	}
	w.found(f, c.sign, c.state, w.by, false)
}

// dir walks through a directory. Hidden says that it is ignored itself, but has committed files.
func (w *walker) dir(ctx context.Context, dir string, l *ignore.Layer, hidden bool) error {
	entries, err := w.fs.ReadDir(ctx, dir)
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if err != nil { // it cannot be read, or is very large
		w.partial = true
	}
	for _, e := range entries {
		if e.Name() == ".gitignore" && e.Type().IsRegular() {
			l = l.Push(dir, w.ignoreFile(path.Join(dir, ".gitignore")))
		}
	}
	for _, e := range entries {
		if w.left--; w.left < 0 {
			w.partial = true
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
	isDir := e.IsDir()
	if ignore.Temp(name) || ignore.Store(name) {
		return nil
	}
	ignored := hidden || l.Ignored(name, isDir) || isDir && ignore.Skipped(e.Name())
	if ignored && !w.repo.holds(name, isDir) {
		w.skipped[name] = true
		return nil
	}
	info, err := e.Info()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		w.partial = true
		return nil
	}
	f := w.file(name)
	f.walk = w.walks
	if s := sign(info); !f.sign.unchanged(s) && (!isDir || f.state.Kind != KindDir || f.state.Mode != s.mode.Perm()) {
		w.changed = append(w.changed, seenChange{trackedFile: f, info: info, sign: s})
	}
	if isDir {
		return w.dir(ctx, name, l, ignored)
	}
	return nil
}

// captureAll reads the files that have changed, several at a time.
func (w *walker) captureAll(ctx context.Context) error {
	b := &budget{count: w.count, bytes: w.bytes, size: w.size}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(4)
	for i := range w.changed {
		c := &w.changed[i]
		g.Go(func() (err error) {
			c.state, err = w.capture(ctx, c.path, c.info, b)
			return err
		})
	}
	return g.Wait()
}

// ignoreFile returns the content of an ignore file, or nil.
func (w *walker) ignoreFile(name string) []byte {
	f, err := w.fs.Open(name)
	if err != nil {
		return nil
	}
	defer f.Close()
	data, _ := io.ReadAll(io.LimitReader(f, maxIgnoreFile))
	return data
}
