package aycoder

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Outcome says what became of a file of a plan.
type Outcome string

// The outcomes. With the first four nothing stands in the way of the plan, with the
// others nothing of it is done.
const (
	// OutcomeApplied: the file is what was proposed.
	OutcomeApplied Outcome = "applied"
	// OutcomeMerged: the file has what was proposed and what the user changed since
	// the model was shown it.
	OutcomeMerged Outcome = "merged"
	// OutcomeUnchanged: the file was what was to be made of it already.
	OutcomeUnchanged Outcome = "unchanged"
	// OutcomeConflicted: the user changed the same lines, or a file that was to be
	// deleted, or created one of the name. See [WithWrittenConflicts].
	OutcomeConflicted Outcome = "conflicted"
	// OutcomeGone: the file that was to be changed is not there any more.
	OutcomeGone Outcome = "gone"
	// OutcomeKindChanged: the file is a folder now, or a link, binary, or very large.
	OutcomeKindChanged Outcome = "kind_changed"
	// OutcomeBusy: another program has the file open for writing, or changes it again
	// and again.
	OutcomeBusy Outcome = "busy"
	// OutcomeSkipped: nothing was wrong with this file, but with another.
	OutcomeSkipped Outcome = "skipped"
)

// FileResult says what [Workspace.Apply] did to a file.
type FileResult struct {
	Path    string   `json:"path"`
	Kind    EditKind `json:"kind"`
	Outcome Outcome  `json:"outcome"`
	// Reason says in words why a file was not written.
	Reason string `json:"reason,omitempty"`
	// Written says that the file is not what it was: it was created, changed or deleted.
	Written bool `json:"written"`
	// Content is what is in the file now, as far as it was read; Exists whether there
	// is one. A model that is told of the result has been shown this.
	Content string `json:"-"`
	Exists  bool   `json:"exists"`
	// Kept are the changes of the user in a merged file: what it has beside what was
	// proposed, which is the old side, with the lines that they have now.
	Kept []LineChange `json:"kept,omitempty"`
	// Base, Ours and Theirs were merged last, and Merge is what came of it. Of a
	// conflict its Bytes are the text with markers, for a person to resolve. Ours is
	// what the user has.
	Base   string       `json:"-"`
	Ours   string       `json:"-"`
	Theirs string       `json:"-"`
	Merge  *MergeResult `json:"-"`
	// Beside names files that hold a text of the user's that is in no other file. There
	// are some only if a file was saved several times while it was replaced.
	Beside []string `json:"beside,omitempty"`
	// OtherNames says that the file had other hard links, which keep the old content.
	OtherNames bool `json:"other_names,omitempty"`
}

// stops reports whether the outcome keeps the plan from being done.
func (r *FileResult) stops() bool {
	switch r.Outcome {
	case OutcomeGone, OutcomeKindChanged, OutcomeBusy:
		return true
	}
	return r.Outcome == OutcomeConflicted && !r.Written
}

// ApplyResult says what [Workspace.Apply] did, file by file in the order of the plan.
type ApplyResult struct {
	Files []FileResult `json:"files"`
}

// ConflictError says that a plan was not carried out, since files are not any more
// what the model was shown, and the changes do not merge. No file was changed.
type ConflictError struct {
	// Files are those that stood in the way.
	Files []FileResult
}

// Error implements error.
func (e *ConflictError) Error() string {
	var b strings.Builder
	b.WriteString("apply plan: ")
	for i := range e.Files[:min(len(e.Files), 5)] {
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(showPath(e.Files[i].Path) + ": " + e.Files[i].Reason)
	}
	if n := len(e.Files) - 5; n > 0 {
		fmt.Fprintf(&b, "; and %d more", n)
	}
	return b.String()
}

// ApplyOption changes how [Workspace.Apply] works.
type ApplyOption func(*applyConfig) error

type applyConfig struct {
	approved string
	markers  bool
	wait     time.Duration
	merge    []MergeOption

	// For tests: steps are what happens between two, and plain and noLease take away
	// what not every system has.
	step           func(step, path string) error
	plain, noLease bool
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

// WithMerge sets how files are merged, such as [WithTouchingEdits]. Default: labels
// that say whose side is whose.
func WithMerge(opts ...MergeOption) ApplyOption {
	return func(c *applyConfig) error { c.merge = append(c.merge, opts...); return nil }
}

func newApplyConfig(opts []ApplyOption) (*applyConfig, error) {
	c := &applyConfig{wait: time.Second}
	c.merge = []MergeOption{WithMergeLabels("the file now", "when you read it", "your change")}
	var errs []error
	for _, opt := range opts {
		errs = append(errs, opt(c))
	}
	return c, errors.Join(errs...)
}

// Apply carries out a plan, after it was approved: all of it or nothing.
//
// Each file is read again and merged with [Merge], where base is what the model was
// shown, ours what the file is now, and theirs what is proposed. Only if all merge,
// the new files are written beside the old, flushed, and exchanged with them. What
// came out of the exchange is looked at: if it is not what was merged, since somebody
// saved the file in that moment, it is merged in turn and exchanged again. What does
// not merge then, or is a folder or a link, is put back, and the whole plan with it;
// the error is a [*ConflictError] and the result says why. An error of the disk or the
// end of ctx puts all back too. The result is not nil unless the plan was not begun.
//
// What is guaranteed, whatever others do meanwhile:
//
//   - What was in a file at any moment up to the exchange is in the file after Apply,
//     or in the result of a conflict and again in the file, or was overwritten by
//     somebody else before. A text that fits in nowhere stays in a file beside, which
//     the result names.
//   - On Linux that goes for those too who opened the file before the exchange and
//     write after it: the old file is given up only when nobody has it open for writing
//     any more, and while a lease (fcntl(2)) keeps new ones out. If somebody keeps it
//     open for longer than [WithWriterWait] the outcome is busy, and it is their
//     file that stays in place. What is left is a program that the kernel
//     suspends between finding the file by its name and opening it, for all this time.
//   - A crash at any moment, kill -9 and loss of power too, leaves every single file
//     old or new, whole. Some may be old and some new then, and files named
//     .aycoder-*.tmp may stay; those hold old or new content.
//   - No file outside the workspace is touched, whatever is renamed meanwhile.
//
// What is not: without leases (on other systems, on network file systems, or on files
// of other owners where the process lacks CAP_LEASE) the old file is compared until it
// was the same twice and once more in the end, so that a program that writes later
// into a file that it opened before writes in vain. Where two files cannot be
// exchanged (systems other than Linux and macOS, some file systems) the old
// one gets a second name and is then replaced: a file that somebody renames to the
// name between these two steps is lost. Where there are no hard links either, the
// old one is renamed first, so that a crash can leave it under the name .aycoder-*.tmp
// only. On Windows a file that is open elsewhere cannot be replaced: an error. Who
// saves a file after the exchange without looking at it overwrites what the plan did.
//
// Mode and owner stay as with [Workspace.Replace]. A name that is a symbolic link stays
// one, and the file it leads to is changed; if it is deleted, the link goes and the file
// stays. Other hard links of a file keep the old
// content, since they may be outside of the workspace; the result says that there are
// some. Other Workspaces, also those of other processes, wait meanwhile.
func (w *Workspace) Apply(ctx context.Context, plan EditPlan, opts ...ApplyOption) (*ApplyResult, error) {
	c, err := newApplyConfig(opts)
	if err != nil {
		return nil, fmt.Errorf("apply plan: %w", err)
	}
	if c.approved != "" { // a digest costs as much as the rest
		if d := plan.Digest(); c.approved != d {
			return nil, fmt.Errorf("apply plan: it is not the one that was approved: %s, not %s", d, c.approved)
		}
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	select {
	case w.turn <- struct{}{}:
		defer func() { <-w.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	a := &applier{w: w, applyConfig: c}
	for _, e := range plan.files {
		f := &fileApply{applyConfig: c, edit: e, placed: fileState{absent: true}}
		f.res = FileResult{Path: e.Path, Kind: e.Kind}
		a.files = append(a.files, f)
	}
	defer a.close()
	err = a.open(ctx)
	if err == nil {
		err = a.run(ctx)
	}
	if err != nil {
		a.removeFolders()
	}
	if cause := context.Cause(ctx); cause != nil && errors.Is(err, cause) {
		err = cause
	}
	return a.result(), err
}

// applier carries out one plan.
type applier struct {
	*applyConfig
	w       *Workspace
	folders []*target // locked
	created []string  // folders, from the top
	files   []*fileApply
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
			return &WorkspaceError{"write", f.edit.Path, "invalid_path",
				fmt.Errorf("is the same file as %s", showPath(sorted[i-1].edit.Path))}
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
	approved := a.approved != ""
	f.final, err = a.w.findWritable(f.edit.Path, approved)
	if err != nil || f.edit.Kind != EditDelete {
		return err
	}
	rel, err := a.w.rel("write", f.edit.Path)
	if err != nil {
		return err
	}
	parent, err := a.w.resolve("write", f.edit.Path, path.Dir(rel))
	if err != nil {
		return err
	}
	f.final = path.Join(parent, path.Base(rel))
	f.leadsTo = func() ([]byte, error) { return a.w.readLarge(f.final) }
	return a.w.mayWriteResolved(f.edit.Path, rel, f.final, approved)
}

// readLarge reads a file of the size that a plan may have.
func (w *Workspace) readLarge(name string) ([]byte, error) {
	file, err := w.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxPlanBytes+1))
	if err == nil && len(data) > maxPlanBytes {
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
	if final == "." {
		return "", &WorkspaceError{"write", name, "invalid_path", errors.New("is the folder itself")}
	}
	return final, w.mayWriteResolved(name, rel, final, approved)
}

// place opens the folder of a file, or shares it with another file.
func (a *applier) place(ctx context.Context, f *fileApply) error {
	parent := path.Dir(f.final)
	for _, t := range a.folders {
		if t.name == parent {
			f.at = a.within(t, f)
			return nil
		}
	}
	if f.edit.Kind == EditCreate {
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
			f.at = a.within(t, f)
			return nil
		}
	}
	t, err := a.w.openTarget(ctx, f.edit.Path, f.final)
	if err != nil {
		return err
	}
	f.at = a.within(t, f)
	t.name = parent
	a.folders = append(a.folders, t)
	return nil
}

func (a *applier) within(t *target, f *fileApply) place {
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
func (a *applier) removeFolders() {
	for _, name := range slices.Backward(a.created) {
		if info, err := a.w.root.Lstat(filepath.FromSlash(name)); err == nil && info.IsDir() {
			_ = a.w.root.Remove(filepath.FromSlash(name))
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

// run reads, merges and stages all files, and if that goes well, changes them.
func (a *applier) run(ctx context.Context) error {
	until := time.Now().Add(a.wait)
	err := a.each(func(f *fileApply) error { return f.prepare(ctx, until) })
	if err = cmp.Or(err, a.conflict()); err != nil {
		return err
	}
	err = a.each(func(f *fileApply) error { return cmp.Or(context.Cause(ctx), f.stage()) })
	if err == nil {
		err = a.change(ctx)
	}
	if err != nil || a.conflict() != nil {
		a.rollBack(ctx)
		return cmp.Or(err, a.conflict())
	}
	for _, f := range a.files {
		f.commit(ctx)
	}
	return nil
}

// each does something with each file that is still to be done, and ends at the first
// hard error. A file that stands in the way is marked.
func (a *applier) each(do func(*fileApply) error) error {
	for _, f := range a.files {
		if f.res.Outcome != "" {
			continue
		}
		if err := do(f); err != nil && !f.stopped(err) {
			return wrapError("write", f.edit.Path, err)
		}
	}
	return nil
}

// change exchanges all files, and looks at what came out until all is known.
func (a *applier) change(ctx context.Context) error {
	until := time.Now().Add(a.wait)
	err := a.each(func(f *fileApply) error {
		if a.conflict() != nil {
			return nil
		}
		return cmp.Or(context.Cause(ctx), f.begin(ctx, until))
	})
	for range maxTries {
		if err != nil || a.conflict() != nil {
			return err
		}
		if err = a.each(func(f *fileApply) error { return f.look(ctx, until) }); err == nil && a.settled() {
			return a.each(func(f *fileApply) error { return f.lastLook(ctx, until) })
		}
	}
	return cmp.Or(err, a.each((*fileApply).stopMoving))
}

// settled reports whether nobody can write any more to what was taken out. Without
// leases there is no telling.
func (a *applier) settled() bool {
	return !slices.ContainsFunc(a.files, (*fileApply).moving)
}

// rollBack puts back what was changed. That is done whether ctx ends or not.
func (a *applier) rollBack(ctx context.Context) {
	ctx = context.WithoutCancel(ctx)
	until := time.Now().Add(a.wait)
	for _, f := range slices.Backward(a.files) {
		f.rollBack(ctx, until)
	}
}

// conflict returns an error if files stand in the way.
func (a *applier) conflict() error {
	var e ConflictError
	for _, f := range a.files {
		if f.res.stops() {
			e.Files = append(e.Files, f.res)
		}
	}
	if e.Files == nil {
		return nil
	}
	return &e
}

func (a *applier) result() *ApplyResult {
	r := &ApplyResult{Files: make([]FileResult, len(a.files))}
	for i, f := range a.files {
		r.Files[i] = f.res
		r.Files[i].Outcome = cmp.Or(f.res.Outcome, OutcomeSkipped)
	}
	return r
}
