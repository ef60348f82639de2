package workspace

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/internal/rootpath"
	"github.com/aycoder/aycoder/internal/runes"
)

const (
	maxRestore     = 4 * maxFile // bytes of all contents of a Restore
	maxRestoreStep = 256         // files that are open at the same time
)

// Version is the state of a name in the workspace at some time. The zero Version means that there
// is nothing of this name.
type Version struct {
	// Exists says that there is a file, a directory or a symbolic link.
	Exists bool
	// Mode has the permissions and the type: fs.ModeDir for a directory, fs.ModeSymlink for a
	// symbolic link, and neither for a file. The permissions of a link have no meaning.
	Mode fs.FileMode
	// Content is the whole content of a file, or the target of a link.
	Content string
}

// Restoration takes a name in the workspace from one version to another.
type Restoration struct {
	// Path is relative to the workspace, slash-separated and valid UTF-8.
	Path string
	// From is the version that the caller has found, and To is the version that it wants.
	From, To Version
}

// Restore takes files back to versions of another time, either all of them or none. In addition to
// what [Workspace.Apply] can do, Restore creates and removes directories and symbolic links, and
// changes permissions. It is for what a user has asked for, such as the return to a snapshot, and
// not for the plans of a model: it needs no [WithApproved] for files that run code.
//
// The guarantees and options of Apply hold. In particular, if another program has changed a file
// since the caller found From, the two changes are merged; if that is impossible, Restore takes
// everything back and returns an [*edit.ConflictError]. A crash can leave a Restore half done,
// which the next [Open] finds: see the field Restores of [InterruptedPlan].
//
// Restore never follows a symbolic link. If a directory on a path is a link, unless this Restore
// replaces that link, the file stands in the way. A link is restored with any target, also one
// that leads out of the workspace. Permissions that another program has changed meanwhile stay. A
// directory is removed only if it is empty then, which is not an error, and contents are limited
// to 256 MiB in all.
func (w *Workspace) Restore(ctx context.Context, files []Restoration, opts ...ApplyOption) (*edit.Result, error) {
	c, err := newApplyConfig(opts)
	var todo []fileChange
	if err == nil {
		todo, err = restorations(files)
	}
	if err != nil {
		return nil, fmt.Errorf("restore files: %w", err)
	}
	if len(todo) == 0 {
		return &edit.Result{}, nil
	}
	if w.turn.Acquire(ctx, 1) != nil {
		return nil, context.Cause(ctx)
	}
	defer w.turn.Release(1)
	for _, t := range todo {
		if err := w.mayRestore(t.Path, true); err != nil {
			return nil, err
		}
	}
	begin := recordBegin{Created: w.missingParents(todo)}
	id := rand.Text()
	for i := range todo {
		t := &todo[i]
		t.key = recordKey{id, i}
		begin.Files = append(begin.Files, recordFile{ID: id, Index: i, Edit: t.File,
			Sizes: [2]int{len(t.Base), len(t.Proposed)}, Restore: true, Modes: t.modes})
	}
	if c.record, err = w.newRecord(id, begin); err != nil {
		return nil, c.record.failed(err)
	}
	c.recovers, c.restores = true, true
	res, undo, err := w.takeSteps(ctx, todo, c)
	if err != nil { // the steps that were done are taken back, also after the end of ctx
		_, _, backErr := w.takeSteps(context.WithoutCancel(ctx), undo, c)
		w.removeDirectories(begin.Created)
		if backErr != nil {
			if _, conflict := errors.AsType[*edit.ConflictError](backErr); !conflict {
				c.record.file.Close() // what is left can be recovered
				return res, errors.Join(err, backErr)
			}
		}
	}
	c.record.done()
	c.record.remove()
	return res, err
}

// restorations returns the changes, without those that change nothing. A name that is a directory
// before or after the change, but not both, is removed and created in separate steps.
func restorations(files []Restoration) ([]fileChange, error) {
	var all []fileChange
	size, seen := 0, map[string]bool{}
	for _, f := range files {
		f.Path = rootpath.Clean(f.Path)
		from, err := f.From.state()
		to, errTo := f.To.state()
		switch {
		case err != nil || errTo != nil:
			err = cmp.Or(err, errTo)
		case !utf8.ValidString(f.Path):
			err = errors.New("path is not valid UTF-8")
		case seen[f.Path]:
			err = errors.New("is there twice")
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", runes.Path(f.Path), err)
		}
		seen[f.Path] = true
		if size += len(from.text) + len(to.text); size > maxRestore {
			return nil, &edit.LimitError{Limit: "bytes to restore", Max: maxRestore}
		}
		none := fileState{absent: true}
		switch {
		case from.same(to):
		case !from.absent && !to.absent && from.mode.IsDir() != to.mode.IsDir():
			all = append(all, changeTo(f.Path, from, none), changeTo(f.Path, none, to))
		default:
			all = append(all, changeTo(f.Path, from, to))
		}
	}
	return all, nil
}

// state checks a version and returns it as a state.
func (v Version) state() (fileState, error) {
	t := v.Mode.Type()
	switch {
	case !v.Exists && (v.Mode != 0 || v.Content != ""):
		return fileState{}, errors.New("a version that does not exist has a mode or a content")
	case !v.Exists:
		return fileState{absent: true}, nil
	case t == fs.ModeSymlink && (v.Content == "" || strings.ContainsRune(v.Content, 0)):
		return fileState{}, errors.New("not the target of a link")
	case t == fs.ModeSymlink:
		return linkTo(v.Content), nil
	case t == fs.ModeDir && v.Content == "", t == 0:
		return fileState{text: v.Content, mode: t | v.Mode.Perm()}, nil
	}
	return fileState{}, fmt.Errorf("mode %s cannot be restored", v.Mode)
}

// linkTo returns the state of a symbolic link.
func linkTo(target string) fileState {
	return fileState{text: target, mode: fs.ModeSymlink, link: target}
}

func changeTo(name string, from, to fileState) fileChange {
	return fileChange{File: between(name, 0, from, to), restore: true, modes: [2]fs.FileMode{from.mode, to.mode}}
}

// states returns the states before and after a change that is restored.
func (c fileChange) states() (was, want fileState) {
	make := func(text string, mode fs.FileMode, absent bool) fileState {
		if mode&fs.ModeSymlink != 0 {
			return linkTo(text)
		}
		return fileState{text: text, mode: mode, absent: absent}
	}
	return make(c.Base, c.modes[0], c.Kind == edit.Create),
		make(c.Proposed, c.modes[1], c.Kind == edit.Delete)
}

func (c fileChange) restoration() Restoration {
	was, want := c.states()
	return Restoration{c.Path, was.version(), want.version()}
}

// check reports whether a change that was read from a record could be that of a plan.
func (c fileChange) check() error {
	if !c.restore {
		_, err := edit.NewPlan(c.File)
		return err
	}
	_, err := restorations([]Restoration{c.restoration()})
	return err
}

func (s fileState) version() Version { return Version{!s.absent, s.mode, s.text} }

// sameContent reports whether two states differ at most in their permissions.
func (s fileState) sameContent(o fileState) bool {
	return s.absent == o.absent && s.mode.Type() == o.mode.Type() && s.text == o.text
}

func (c fileChange) isDir() bool { return (c.modes[0] | c.modes[1]).IsDir() }

// progress reports whether a change that was interrupted is done, or is not begun. A name that is
// removed as one type and created as another is in two changes, so anything of another type
// counts as removed.
func (c fileChange) progress(now fileState) (done, open bool) {
	was, want := c.states()
	is := func(s, other fileState) bool {
		if s.absent {
			return now.absent || now.mode.Type() != other.mode.Type()
		}
		// A directory gets its permissions last. Those of a file that changes come with its content.
		return now.sameContent(s) && (!s.sameContent(other) && !s.mode.IsDir() || now.mode.Perm() == s.mode.Perm())
	}
	done = is(want, was)
	return done, !done && is(was, want)
}

// restoreSteps divides changes into steps that are made one after the other: nothing is in the way
// of a step when those before it are done.
func restoreSteps(all []fileChange) [][]fileChange {
	if len(all) == 0 || !all[0].restore {
		return [][]fileChange{all}
	}
	var steps [5][]fileChange
	for _, c := range all {
		i := 0 // files that are changed or deleted
		switch {
		case c.isDir() && c.Kind == edit.Delete:
			i = 1
		case c.isDir():
			if c.Kind == edit.Create {
				steps[2] = append(steps[2], c)
			}
			i = 4 // it gets its permissions when the files are in it
		case c.Kind == edit.Create:
			i = 3
		}
		steps[i] = append(steps[i], c)
	}
	byPath := func(a, b fileChange) int { return strings.Compare(a.Path, b.Path) }
	slices.SortFunc(steps[1], func(a, b fileChange) int { return byPath(b, a) })
	slices.SortFunc(steps[2], byPath)
	var out [][]fileChange
	for i, step := range steps {
		for k := range step {
			step[k].permissions = i == 4
		}
		for part := range slices.Chunk(step, maxRestoreStep) {
			out = append(out, part)
		}
	}
	return out
}

// takeSteps makes changes step by step, up to the first error. It also returns the changes that
// take back what was done.
func (w *Workspace) takeSteps(ctx context.Context, all []fileChange, c *applyConfig) (*edit.Result, []fileChange, error) {
	res := &edit.Result{}
	var undo []fileChange
	for _, step := range restoreSteps(all) {
		done, back, err := w.takeStep(ctx, step, c)
		res.Files, undo = append(res.Files, done.Files...), append(undo, back...)
		if err != nil {
			return res, undo, err
		}
	}
	return res, undo, nil
}

// takeStep makes changes that do not depend on each other.
func (w *Workspace) takeStep(ctx context.Context, step []fileChange, c *applyConfig) (*edit.Result, []fileChange, error) {
	if len(step) == 0 || !step[0].restore || !step[0].isDir() {
		return w.apply(ctx, step, c)
	}
	res := &edit.Result{}
	var undo []fileChange
	for _, d := range step {
		if err := context.Cause(ctx); err != nil {
			return res, undo, err
		}
		f, done, err := w.restoreDir(d, c)
		if err != nil {
			return res, undo, wrapError("write", d.Path, err)
		}
		if !d.permissions && d.Kind == edit.Create && !f.Stops() {
			if done { // the result comes when it has its permissions
				undo = append(undo, reverse(d))
			}
			continue
		}
		if done && d.Kind != edit.Create {
			undo = append(undo, reverse(d))
		}
		res.Files = append(res.Files, f)
		if f.Stops() {
			return res, undo, &edit.ConflictError{Files: []edit.FileResult{f}}
		}
	}
	return res, undo, nil
}

// restoreDir creates or removes a directory, or sets its permissions. It reports whether it did.
func (w *Workspace) restoreDir(d fileChange, c *applyConfig) (edit.FileResult, bool, error) {
	res := edit.FileResult{Path: d.Path, Kind: d.Kind, Outcome: edit.OutcomeUnchanged}
	if c.step != nil {
		if err := c.step("directory", d.Path); err != nil {
			return res, false, err
		}
	}
	now, err := w.stateOf(d.Path)
	if err != nil {
		return res, false, err
	}
	was, want := d.states()
	res.Exists = !now.absent
	is := !now.absent && now.mode.IsDir()
	root, at := w.file(d.Path)
	switch {
	case d.Kind == edit.Delete && is:
		err = root.Remove(at)
		if errors.Is(err, syscall.ENOTEMPTY) || errors.Is(err, fs.ErrExist) {
			res.Reason = "is not empty"
			return res, false, nil
		}
		res.Exists = err != nil
	case d.Kind == edit.Delete, !d.permissions && is:
		return res, false, nil
	case !d.permissions && now.absent:
		if err = w.makeDirectories(d.Path, d.Path); err == nil {
			err = w.syncParent(d.Path)
		}
	case !is:
		res.Outcome, res.Reason = edit.OutcomeKindChanged, "is not a directory"
		return res, false, nil
	case now.mode.Perm() == want.mode.Perm(), was.mode != 0 && now.mode.Perm() != was.mode.Perm():
		return res, false, nil // the permissions that another program has set stay
	default:
		err = chmodDir(root, at, want.mode.Perm())
	}
	if err == nil && d.Kind == edit.Delete {
		err = w.syncParent(d.Path)
	}
	res.Written, res.Outcome = err == nil, edit.OutcomeApplied
	return res, err == nil, err
}

// chmodDir changes the permissions of a directory, and keeps its other mode bits.
func chmodDir(root *os.Root, name string, perm fs.FileMode) error {
	f, err := root.OpenFile(name, openFlags|directoryFlags, 0)
	if err != nil { // a directory that cannot be read
		return root.Chmod(name, perm)
	}
	defer f.Close()
	return setPermissions(f, perm)
}

// syncParent flushes the directory that has the name.
func (w *Workspace) syncParent(name string) error {
	t, err := w.openParent(name, name)
	if err != nil {
		return err
	}
	defer t.close()
	return t.sync()
}

// missingParents returns the directories that files need and that do not exist, from the top.
func (w *Workspace) missingParents(all []fileChange) []string {
	var missing []string
	for _, c := range all {
		for p := path.Dir(c.Path); p != "." && c.Kind == edit.Create; p = path.Dir(p) {
			if s, err := w.stateOf(p); err != nil || !s.absent || slices.Contains(missing, p) {
				break
			}
			missing = append(missing, p)
		}
	}
	slices.Sort(missing)
	return missing
}

// restored decides what the file gets in place of what was found. If done is false, the texts are
// to be merged, and only the mode of next counts.
func (f *fileApply) restored(found fileState) (next fileState, done bool, err error) {
	was, want := fileChange{File: f.edit, modes: f.modes}.states()
	next = want
	plain := found.mode.IsRegular() && want.mode.IsRegular() && !found.absent && !want.absent
	if plain {
		next.mode = found.mode
		if !was.absent && found.mode.Perm() == was.mode.Perm() {
			next.mode = found.mode&^fs.ModePerm | want.mode.Perm()
		}
	}
	switch {
	case found.sameContent(want), found.sameContent(was):
		return next, true, nil
	case found.absent:
		return found, true, fs.ErrNotExist
	case plain || want.absent && found.mode.IsRegular() && was.mode.IsRegular():
		return next, false, nil
	}
	return found, true, &stopError{edit.OutcomeKindChanged, "was changed to something else meanwhile"}
}
