package workspace

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/runes"
	"github.com/aycoder/aycoder/merge"
)

// ApplyOption changes how [Workspace.Apply] works.
type ApplyOption func(*applyConfig) error

type applyConfig struct {
	approved string
	markers  bool
	wait     time.Duration
	merge    []merge.Option

	// For tests: steps are what happens between two, and plain and noLease take away
	// what not every system has.
	step           func(step, path string) error
	plain, noLease bool

	missed   int // how often files were looked for again
	record   *planRecord
	recovers bool // the record is that of a plan that is finished or taken back
}

// WithApproved says that the plan of this [EditPlan.Digest] was approved, by somebody who
// was shown it or by a rule that names its files: it may change files that run code, see
// [Workspace]. Any other plan is refused. Default: none is refused, and none may change
// such files.
func WithApproved(digest string) ApplyOption {
	return func(c *applyConfig) error { c.approved = digest; return nil }
}

// WithWrittenConflicts writes texts that conflict with both sides between markers, and
// does the rest of the plan too. The outcome stays conflicted, but is no error. It
// does not help with files that are binary, or that were to be deleted. Default:
// false: a conflict changes nothing.
func WithWrittenConflicts(on bool) ApplyOption {
	return func(c *applyConfig) error { c.markers = on; return nil }
}

// WithWriterWait sets how long to wait, for all files together, until nobody has one
// open for writing: before a plan is carried out, and again before the old files are
// given up. Default: 1 s.
func WithWriterWait(d time.Duration) ApplyOption {
	return func(c *applyConfig) error {
		if d < 0 {
			return fmt.Errorf("WithWriterWait: %s is negative", d)
		}
		c.wait = d
		return nil
	}
}

// WithMerge sets how files are merged, such as [merge.WithTouchingEdits]. Default: labels
// that say whose side is whose.
func WithMerge(opts ...merge.Option) ApplyOption {
	return func(c *applyConfig) error { c.merge = append(c.merge, opts...); return nil }
}

func newApplyConfig(opts []ApplyOption) (*applyConfig, error) {
	c := &applyConfig{wait: time.Second}
	c.merge = []merge.Option{merge.WithLabels("the file now", "when you read it", "your change")}
	var errs []error
	for _, opt := range opts {
		errs = append(errs, opt(c))
	}
	return c, errors.Join(errs...)
}

// Apply carries out a plan, after it was approved: all of it or nothing.
//
// Each file is read again and merged with [merge.Merge], where base is what the model was
// shown, ours what the file is now, and theirs what is proposed. Only if all merge,
// the new files are written beside the old, flushed, and exchanged with them. If a file
// was saved meanwhile, it is read and merged anew. If it was saved in the moment of the exchange,
// the two are exchanged again, and then that is done. What does not merge, or is a directory
// or a link, is left alone, and what was done of the plan is taken back; the error is
// a [*ConflictError] and the result says why. An error of the disk or the end of ctx
// takes all back too. The result is not nil unless the plan was not begun.
//
// What is guaranteed, whatever others do meanwhile:
//
//   - What somebody saved before Apply returns is in the file when it does, or was
//     overwritten by them. Only if two programs save a file in the moment of the exchange,
//     and what they saved does not merge, one of the two texts is in another file beside,
//     which the result names.
//   - The result says what is in the files: Content is what was read there last, and
//     Written is true if, and only if, the plan is in it.
//   - On Linux leases (fcntl(2)) keep writers out of both files from before the exchange
//     until Apply returns: a program that opens the file for writing waits for that
//     time. If somebody has the file open for longer than [WithWriterWait] the
//     outcome is busy. What is left is a program that the kernel suspends between
//     finding the file by its name and opening it, for all this time.
//   - A crash at any moment, kill -9 and loss of power too, leaves every single file
//     old or new, whole. If that leaves a plan of several files half done, the next
//     [Open] finds it: see [Workspace.Interrupted] and [WithPlanRecords]. Of a
//     plan that is done or was not begun it removes what is left.
//   - No file outside the workspace is touched, whatever is renamed meanwhile.
//
// What is not: without leases (on other systems, on network file systems, or on files
// of other owners where the process lacks CAP_LEASE) the old file is compared until it
// was the same twice and again in the end, so that a program that writes later
// into a file that it opened before writes in vain. A program that renames a file of its
// own to the name does not wait for a lease either: it replaces the file after the exchange,
// as after Apply. Where two files cannot be exchanged (systems other than Linux, some file
// systems) the old one gets a second name and is then replaced: a file that
// somebody renames to the name between these two steps is lost. Where there are no hard
// links either, the old one is renamed first, so that a crash can leave it under a temporary
// name only. On Windows a file that is open elsewhere cannot be replaced: an error.
//
// A file keeps its mode, and where the process may set them its owner and, on Linux, its extended
// attributes and access lists; other systems lose these. Without its owner it is not setuid
// or setgid any more, and capabilities go with the old content. A name that is a symbolic
// link stays one, and the file it leads to is changed; if it is deleted, the link goes
// and the file stays. Other hard links of a file keep the old content, since they may
// be outside of the workspace; the result says that there are some. Other Workspaces,
// also those of other processes, wait meanwhile.
func (w *Workspace) Apply(ctx context.Context, plan aycoder.EditPlan, opts ...ApplyOption) (*aycoder.ApplyResult, error) {
	return w.apply(ctx, plan, opts)
}

func (w *Workspace) apply(ctx context.Context, plan aycoder.EditPlan, opts []ApplyOption) (*aycoder.ApplyResult, error) {
	c, err := newApplyConfig(opts)
	if err != nil {
		return nil, fmt.Errorf("apply plan: %w", err)
	}
	if c.approved != "" { // a digest costs as much as the rest
		if d := plan.Digest(); c.approved != d {
			return nil, fmt.Errorf("apply plan: it is not the one that was approved: %s, not %s", d, c.approved)
		}
	}
	if w.turn.Acquire(ctx, 1) != nil {
		return nil, context.Cause(ctx)
	}
	defer w.turn.Release(1)
	a := &applier{w: w, applyConfig: c, id: rand.Text()}
	for i, e := range plan.Files() {
		f := &fileApply{applyConfig: c, edit: e, prefix: tempPrefix + a.id + "-" + strconv.Itoa(i) + "-"}
		f.note = func() error { return a.record.note(a.id, i, f) }
		f.res = aycoder.FileResult{Path: e.Path, Kind: e.Kind}
		a.files = append(a.files, f)
	}
	defer a.close()
	err = a.open(ctx)
	if err == nil {
		err = a.run(ctx)
	}
	err = a.finish(ctx, err)
	if cause := context.Cause(ctx); cause != nil && errors.Is(err, cause) {
		err = cause
	}
	return a.result(), err
}

// applier carries out one plan.
type applier struct {
	*applyConfig
	w       *Workspace
	id      string    // in the names of temporary files
	folders []*target // locked
	created []string  // folders, from the top
	files   []*fileApply
	within  time.Time // how long to wait for others
}

// open finds and locks the folders, in the order of their names, so that two processes
// do not wait for each other.
func (a *applier) open(ctx context.Context) error {
	for _, f := range a.files {
		if err := a.find(f); err != nil && !f.stopped(err) {
			return err
		}
	}
	sorted := slices.Clone(a.files)
	slices.SortStableFunc(sorted, func(x, y *fileApply) int {
		return cmp.Or(strings.Compare(path.Dir(x.final), path.Dir(y.final)), strings.Compare(x.final, y.final))
	})
	for i, f := range sorted {
		if i > 0 && f.final != "" && f.final == sorted[i-1].final {
			return &Error{"write", f.edit.Path, "invalid_path",
				fmt.Errorf("is the same file as %s", runes.Path(sorted[i-1].edit.Path))}
		}
		if f.res.Outcome != "" {
			continue
		}
		if err := a.place(ctx, f); err != nil && !f.stopped(err) {
			return err
		}
	}
	return nil
}

// find resolves the name of a file. A link is deleted itself, and what it leads to is
// another file, which stays.
func (a *applier) find(f *fileApply) (err error) {
	// Whoever asks for a recovery approves it, unless the record may be another's.
	approved := a.approved != "" || a.recovers && !a.record.beside
	f.final, err = a.w.finalOf(f.edit, approved)
	if f.edit.Kind == aycoder.EditDelete {
		f.leadsTo = func() ([]byte, error) { return a.w.readLarge(f.final) }
	}
	return err
}

// finalOf returns the path without symbolic links of what an edit is about.
func (w *Workspace) finalOf(e aycoder.FileEdit, approved bool) (string, error) {
	final, err := w.findWritable(e.Path, approved)
	if err != nil || e.Kind != aycoder.EditDelete {
		return final, err
	}
	rel, err := w.rel("write", e.Path)
	if err != nil {
		return "", err
	}
	parent, err := w.resolve("write", e.Path, path.Dir(rel))
	if err != nil {
		return "", err
	}
	final = path.Join(parent, path.Base(rel))
	return final, w.mayWriteResolved(e.Path, rel, final, approved)
}

// readLarge reads a file of the size that a plan may have.
func (w *Workspace) readLarge(name string) ([]byte, error) {
	file, err := w.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = errLarge
	}
	return data, err
}

// Writable says why a file must not be written by its name, also with an approval: nil
// if it may be. What else can stand in the way is found when it is written.
func (w *Workspace) Writable(name string) error {
	_, err := w.findWritable(name, true)
	return err
}

// findWritable resolves the name of a file that may be written.
func (w *Workspace) findWritable(name string, approved bool) (final string, err error) {
	rel, err := w.rel("write", name)
	if err == nil {
		err = w.mayWrite(name, rel, approved)
	}
	if err != nil {
		return "", err
	}
	if final, err = w.resolve("write", name, rel); err != nil {
		return "", err
	}
	return final, w.mayWriteResolved(name, rel, final, approved)
}

// place opens the folder of a file, or shares it with another file.
func (a *applier) place(ctx context.Context, f *fileApply) error {
	parent := path.Dir(f.final)
	for _, t := range a.folders {
		if t.name == parent {
			f.at = a.placeIn(t, f)
			return nil
		}
	}
	if f.edit.Kind == aycoder.EditCreate {
		if err := a.makeFolders(f.edit.Path, parent); err != nil {
			return err
		}
	}
	info, err := a.w.root.Stat(filepath.FromSlash(parent))
	if err != nil {
		return wrapError("write", f.edit.Path, err)
	}
	// On some file systems names differ and folders do not.
	for _, t := range a.folders {
		if known, err := t.lock.Stat(); err == nil && os.SameFile(info, known) {
			f.at = a.placeIn(t, f)
			return nil
		}
	}
	t, err := a.w.openTarget(ctx, f.edit.Path, f.final)
	if err != nil {
		return err
	}
	f.at = a.placeIn(t, f)
	t.name = parent
	a.folders = append(a.folders, t)
	return nil
}

func (a *applier) placeIn(t *target, f *fileApply) place {
	return place{&target{dir: t.dir, lock: t.lock, name: path.Base(f.final), asked: f.edit.Path}, a.plain}
}

// makeFolders creates folders, and remembers which.
func (a *applier) makeFolders(name, parent string) error {
	var missing []string
	for p := parent; p != "."; p = path.Dir(p) {
		if _, err := a.w.root.Lstat(filepath.FromSlash(p)); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		missing = append(missing, p)
	}
	slices.Reverse(missing)
	a.created = append(a.created, missing...)
	return a.w.makeFolders(name, parent)
}

// removeFolders removes those that were created and are empty.
func (w *Workspace) removeFolders(created []string) {
	for _, name := range slices.Backward(created) {
		if info, err := w.root.Lstat(filepath.FromSlash(name)); err == nil && info.IsDir() {
			_ = w.root.Remove(filepath.FromSlash(name))
		}
	}
}

func (a *applier) close() {
	for _, f := range a.files {
		f.close()
	}
	for _, t := range a.folders {
		t.close()
	}
}

// run reads, merges and stages all files, and if that goes well, exchanges them.
func (a *applier) run(ctx context.Context) error {
	a.within = time.Now().Add(a.wait)
	err := a.each(func(f *fileApply) error { return f.prepare(ctx) })
	if err = cmp.Or(err, a.conflict()); err != nil {
		return err
	}
	if !a.recovers {
		if err = a.writeRecord(); err != nil {
			return err
		}
	}
	err = a.each(func(f *fileApply) error { return cmp.Or(context.Cause(ctx), f.stage(f.want)) })
	if err != nil {
		return err
	}
	a.within = time.Now().Add(a.wait)
	err = a.each(func(f *fileApply) error {
		if a.conflict() != nil {
			return nil
		}
		return f.reach(ctx)
	})
	quiet := false
	for try := 0; err == nil && a.conflict() == nil && !quiet && try < maxTries; try++ {
		quiet, err = a.look(ctx)
	}
	if err == nil {
		err = a.each(func(f *fileApply) error { return f.step("commit") })
	}
	return cmp.Or(err, context.Cause(ctx), a.conflict())
}

// look flushes what was exchanged, and reports whether nobody wrote to what was taken
// out of its place.
func (a *applier) look(ctx context.Context) (quiet bool, err error) {
	if err := a.sync(); err != nil {
		return false, err
	}
	quiet = true
	err = a.each(func(f *fileApply) error {
		if err := f.step("look"); err != nil {
			return err
		}
		ok, err := f.look(ctx)
		quiet = quiet && ok
		return err
	})
	return quiet, err
}

// each does something with each file that is still to be done, and ends at the first
// hard error. A file that stands in the way is marked.
func (a *applier) each(do func(*fileApply) error) error {
	for _, f := range a.files {
		if f.res.Outcome != "" {
			continue
		}
		f.until = a.within
		if err := do(f); err != nil && !f.stopped(err) {
			return wrapError("write", f.edit.Path, err)
		}
	}
	return nil
}

// sync flushes what was exchanged.
func (a *applier) sync() error {
	for _, f := range a.files {
		if f.unsynced && f.cur != nil && f.cur.file != nil {
			if err := f.cur.file.Sync(); err != nil {
				return wrapError("write", f.edit.Path, err)
			}
			f.unsynced = false
		}
	}
	for _, t := range a.folders {
		if err := t.sync(); err != nil {
			return err
		}
	}
	return nil
}

// finish takes everything back if the plan failed, and says what became of it. That is
// done whether ctx ends or not.
func (a *applier) finish(ctx context.Context, err error) error {
	ctx = context.WithoutCancel(ctx)
	until := time.Now().Add(a.wait)
	for _, f := range slices.Backward(a.files) {
		if f.until = until; err != nil && f.at.target != nil {
			f.undo(ctx)
		}
	}
	if err != nil {
		_ = a.sync()
	}
	if !a.recovers {
		a.record.done()
	}
	for _, f := range a.files {
		if f.until = until; f.at.target != nil {
			f.letGo(ctx)
		}
	}
	if err != nil {
		a.w.removeFolders(a.created)
	}
	if !a.recovers {
		a.record.remove()
	}
	if a.step != nil {
		_ = a.step("last", "")
	}
	for _, f := range a.files {
		if f.until = time.Now(); f.at.target != nil {
			f.readLast(ctx)
		}
		f.finish(err != nil)
	}
	if _, ok := errors.AsType[*aycoder.ConflictError](err); ok {
		return a.conflict()
	}
	return err
}

// conflict returns an error if files stand in the way.
func (a *applier) conflict() error {
	var e aycoder.ConflictError
	for _, f := range a.files {
		if f.res.Stops() {
			e.Files = append(e.Files, f.res)
		}
	}
	if e.Files == nil {
		return nil
	}
	return &e
}

func (a *applier) result() *aycoder.ApplyResult {
	r := &aycoder.ApplyResult{Files: make([]aycoder.FileResult, len(a.files))}
	for i, f := range a.files {
		r.Files[i] = f.res
	}
	return r
}
