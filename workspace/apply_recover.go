package workspace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/internal/runes"
)

// InterruptedPlan is a plan that [Workspace.Apply] carried out only in part, because the process
// ended first. Some files of the plan are changed and others are not, until the caller calls
// Finish or TakeBack. Both methods work like Apply: they merge with texts that the user has saved
// since, and a crash can interrupt them in turn.
type InterruptedPlan struct {
	// ID identifies the plan.
	ID string
	// Plan holds, for each file, the change that Apply was about to make: the model's proposal
	// merged with the user's text.
	Plan edit.Plan
	// Restores are the changes of an interrupted [Workspace.Restore]. Plan is then empty.
	Restores []Restoration
	// Done lists the paths of the files that are already changed, and Open lists the paths of
	// those that are not. A file that another program has changed since may be in neither list.
	Done, Open []string

	w *Workspace
}

// Finish carries out the rest of the plan. If the user has since changed the same lines of a
// file, Finish leaves that file alone, and the result for the file says so. The result has the
// form that [Workspace.Apply] returns.
func (p *InterruptedPlan) Finish(ctx context.Context, opts ...ApplyOption) (*edit.Result, error) {
	return p.w.recoverPlan(ctx, p.ID, false, opts)
}

// TakeBack undoes the part of the plan that was done. If the user has since changed the same
// lines of a file, TakeBack leaves that file alone, and the result for the file says so. The
// result has the form that [Workspace.Apply] returns.
func (p *InterruptedPlan) TakeBack(ctx context.Context, opts ...ApplyOption) (*edit.Result, error) {
	return p.w.recoverPlan(ctx, p.ID, true, opts)
}

// Interrupted returns the plans that a crash left half done, in no particular order. It omits
// plans that another process is carrying out now. On systems other than Unix, and on some network
// file systems, it cannot detect such a process; call Interrupted there only if no other process
// uses the workspace.
//
// Without [WithPlanRecords], the records of plans are in the workspace itself. Such a record is
// trusted only if the user of this process created it in this workspace. A record that came with
// a repository or an archive is ignored. On systems other than Unix, every record in the
// workspace is ignored. A command that runs in the workspace can create a record that is trusted,
// so show the Plan to a person before finishing it.
func (w *Workspace) Interrupted() []*InterruptedPlan {
	var all []*InterruptedPlan
	for _, id := range w.records.ids() {
		r := w.openRecord(id)
		if r == nil {
			continue
		}
		if left := w.leftOf(r); left.half() {
			all = append(all, left.interrupted())
		}
		r.file.Close()
	}
	return all
}

// tidy removes the remains of plans that are not half done.
func (w *Workspace) tidy() {
	for _, id := range w.records.ids() {
		r := w.openRecord(id)
		if r == nil {
			continue
		}
		if left := w.leftOf(r); left.half() || w.hasRoots(r.begun.Roots) != nil {
			r.file.Close()
		} else {
			left.remove(context.Background(), !left.done(), nil) // of a process that is gone
		}
	}
}

// leftover holds the remains of a plan.
type leftover struct {
	w      *Workspace
	record *planRecord
	files  []*leftFile
}

// leftFile holds the remains of one of its files.
type leftFile struct {
	versions []recordFile // as recorded, newest last
	done     bool         // it has its new state
	open     bool         // it has its old state; if neither is set, the state is unknown
	temps    []leftTemp
	err      error // why it must not be touched
}

func (f *leftFile) recordFile() recordFile { return f.versions[len(f.versions)-1] }

// leftTemp is a temporary file.
type leftTemp struct {
	name string // in the workspace
	text string
	ours bool // its text is one of the recorded texts
	late bool // its text is the old one, changed by another program after the exchange
}

// leftOf examines the files of a record.
func (w *Workspace) leftOf(r *planRecord) *leftover {
	l := &leftover{w: w, record: r}
	roots := w.hasRoots(r.begun.Roots)
	for _, begun := range r.begun.Files {
		f := &leftFile{versions: r.noted[recordKey{begun.ID, begun.Index}]}
		l.files = append(l.files, f)
		name := begun.Edit.Path
		if f.err = roots; roots != nil {
			continue
		}
		if begun.Restore {
			if f.err = w.mayRestore(name, true); f.err == nil {
				w.look(r, f, name)
			}
			continue
		}
		// The path is resolved again: a record is not trusted with where its files are.
		final, err := w.finalOf(f.recordFile().Edit, true)
		if err == nil && final != name {
			err = &Error{"write", name, KindStale, errMoved}
		}
		if f.err = err; err == nil {
			w.look(r, f, name)
		}
	}
	return l
}

// look finds out whether a file was exchanged, from its content, or if that has changed since,
// from the temporary files next to it.
func (w *Workspace) look(r *planRecord, f *leftFile, name string) {
	e := f.recordFile().Edit
	var text string
	if f.recordFile().Restore {
		now, err := w.stateOf(name)
		if err != nil {
			return
		}
		text = now.text
		f.done, f.open = f.recordFile().change().progress(now)
	} else {
		now, err := w.readLarge(name)
		absent := errors.Is(err, fs.ErrNotExist)
		if err != nil && !absent {
			return
		}
		text = string(now)
		f.done = absent && e.Kind == edit.Delete || !absent && e.Kind != edit.Delete && text == e.Proposed
		f.open = !f.done && (absent && e.Kind == edit.Create || !absent && e.Kind != edit.Create && text == e.Base)
	}
	root, at := w.file(path.Dir(name))
	dir, err := root.Open(at)
	if err != nil {
		return
	}
	defer dir.Close()
	for err == nil {
		var names []string
		names, err = dir.Readdirnames(4096)
		for _, temp := range names {
			if k, ok := r.tempOf(temp); ok {
				w.lookAtTemp(r, f, k, path.Join(path.Dir(name), temp), text)
			}
		}
	}
}

// tempOf returns the file that a temporary file belongs to.
func (r *planRecord) tempOf(name string) (recordKey, bool) {
	parts := strings.Split(strings.TrimSuffix(strings.TrimPrefix(name, tempPrefix), tempEnd), "-")
	if len(parts) != 3 {
		return recordKey{}, false
	}
	index, err := strconv.Atoi(parts[1])
	k := recordKey{parts[0], index}
	return k, err == nil && len(r.noted[k]) > 0
}

// lookAtTemp classifies a temporary file.
func (w *Workspace) lookAtTemp(r *planRecord, f *leftFile, k recordKey, name, now string) {
	versions := r.noted[k]
	if versions[0].Edit.Path != f.versions[0].Edit.Path {
		return // belongs to another file in the directory
	}
	t := leftTemp{name: name}
	var err error
	t.text, err = w.readAnything(name)
	link := false
	for _, v := range versions {
		link = link || v.Link != "" || (v.Modes[0]|v.Modes[1])&fs.ModeSymlink != 0
		e := v.Edit
		t.ours = t.ours || t.text == e.Base || strings.HasPrefix(e.Proposed, t.text)
		for _, known := range []string{e.Base, e.Proposed} { // possibly with appended text that the current file also has
			added, ok := strings.CutPrefix(t.text, known)
			t.ours = t.ours || ok && strings.HasSuffix(now, added)
		}
	}
	t.ours = t.ours || t.text == now // see fileApply.giveCurrentText
	t.ours = t.ours && err == nil || link && err != nil
	f.temps = append(f.temps, t)
	if !f.done && !f.open && k.id == r.id {
		e := f.recordFile().Edit
		f.done, f.open = t.text == e.Base && e.Kind != edit.Create, t.text == e.Proposed && e.Kind != edit.Delete
	}
}

// readAnything reads a file in the workspace, even one whose name is refused otherwise.
func (w *Workspace) readAnything(name string) (string, error) {
	root, at := w.file(name)
	info, err := root.Lstat(at)
	if err == nil {
		err = checkRegular("read", name, info)
	}
	if err != nil {
		return "", err
	}
	f, err := root.OpenFile(at, openFlags, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	s, err := (&held{file: f}).read()
	return s.text, err
}

// half reports whether the plan was begun and not finished, or whether a text of the user's
// exists only in a temporary file.
func (l *leftover) half() bool {
	lost := slices.ContainsFunc(l.files, func(f *leftFile) bool {
		return slices.ContainsFunc(f.temps, func(t leftTemp) bool { return !t.ours })
	})
	open := !slices.ContainsFunc(l.files, func(f *leftFile) bool { return !f.open })
	return lost || !open && !l.done()
}

// done reports whether all files of the plan are as it wanted.
func (l *leftover) done() bool {
	return l.record.ended || !slices.ContainsFunc(l.files, func(f *leftFile) bool { return !f.done })
}

// interrupted describes the plan for the host, which decides what becomes of it.
func (l *leftover) interrupted() *InterruptedPlan {
	p := &InterruptedPlan{ID: l.record.id, w: l.w}
	var edits []edit.File
	for _, f := range l.files {
		e := f.recordFile().Edit
		if c := f.recordFile().change(); c.restore {
			p.Restores = append(p.Restores, c.restoration())
		} else {
			edits = append(edits, e)
		}
		if f.done {
			p.Done = append(p.Done, e.Path)
		} else if f.open {
			p.Open = append(p.Open, e.Path)
		}
	}
	p.Plan, _ = edit.NewPlan(edits...)
	return p
}

// changes returns the changes that finish the plan, or those that take it back.
func (l *leftover) changes(back bool) ([]fileChange, error) {
	var all []fileChange
	for _, f := range l.files {
		if f.err != nil {
			return nil, f.err
		}
		v := f.recordFile()
		e := v.change()
		i := slices.IndexFunc(f.temps, func(t leftTemp) bool { return !t.ours })
		switch {
		case i >= 0 && f.done && e.Kind != edit.Create:
			// Another program wrote to the old file after the exchange.
			f.temps[i].late = back || e.Kind == edit.Change
			if back {
				e.Base = f.temps[i].text
				e = reverse(e)
			} else if e.Kind == edit.Change {
				e.Proposed = f.temps[i].text
			}
		case back && v.Link != "" && f.done: // an edit cannot create a link
			continue
		case back:
			e = reverse(e)
		}
		if err := e.check(); err != nil { // a record may be forged
			return nil, err
		}
		if e.Kind != edit.Change || e.Base != e.Proposed || e.modes[0] != e.modes[1] && e.restore {
			all = append(all, e)
		}
	}
	return all, nil
}

// recoverPlan finishes a plan or takes it back.
func (w *Workspace) recoverPlan(
	ctx context.Context, id string, back bool, opts []ApplyOption,
) (*edit.Result, error) {
	r := w.openRecord(id)
	if r == nil {
		return nil, fmt.Errorf("recover plan %s: it is not there any more, or another process is at it", runes.Path(id))
	}
	defer r.file.Close()
	l := w.leftOf(r)
	// A cancel keeps edits from being made, but nothing of those that were may stay behind.
	clean := context.WithoutCancel(ctx)
	todo, err := l.changes(back)
	var c *applyConfig
	if err == nil {
		c, err = newApplyConfig(opts)
	}
	if err != nil {
		return nil, fmt.Errorf("recover plan %s: %w", runes.Path(id), err)
	}
	c.record, c.recovers = r, true
	if w.turn.Acquire(ctx, 1) != nil {
		return nil, context.Cause(ctx)
	}
	defer w.turn.Release(1)
	if back {
		l.putLinksBack(clean)
	}
	all := &edit.Result{}
	for _, step := range restoreSteps(todo) {
		if len(step) > 0 && step[0].isDir() {
			l.removeTemps(clean) // a directory is removed only if it is empty
		}
		if res, err := w.recoverStep(ctx, step, c, all); err != nil {
			return res, err
		}
	}
	slices.SortStableFunc(all.Files, func(a, b edit.FileResult) int { return cmp.Compare(a.Path, b.Path) })
	l.remove(clean, back, all)
	return all, nil
}

// recoverStep makes some of the changes. Files that stand in the way stay as they are.
func (w *Workspace) recoverStep(
	ctx context.Context, todo []fileChange, c *applyConfig, all *edit.Result,
) (*edit.Result, error) {
	for {
		res, _, err := w.takeStep(ctx, todo, c)
		e, conflict := errors.AsType[*edit.ConflictError](err)
		if err != nil && !conflict {
			return res, err
		}
		if !conflict {
			all.Files = append(all.Files, res.Files...)
			return all, nil
		}
		all.Files = append(all.Files, e.Files...)
		todo = slices.DeleteFunc(todo, func(d fileChange) bool {
			return slices.ContainsFunc(e.Files, func(f edit.FileResult) bool { return f.Path == d.Path })
		})
	}
}

// putLinksBack restores links that were deleted.
func (l *leftover) putLinksBack(ctx context.Context) {
	for _, f := range l.files {
		v := f.recordFile()
		for _, t := range f.temps {
			root, at := l.w.file(t.name)
			to, err := root.Readlink(at)
			if v.Link == "" || err != nil || to != v.Link {
				continue
			}
			if target, err := l.w.openTarget(ctx, v.Edit.Path, v.Edit.Path); err == nil {
				_ = place{target: target}.put(path.Base(t.name))
				target.close()
			}
		}
	}
}

// removeTemps removes the temporary files that have only texts of the record.
func (l *leftover) removeTemps(ctx context.Context) {
	for _, f := range l.files {
		f.temps = slices.DeleteFunc(f.temps, func(t leftTemp) bool {
			if !t.ours {
				return false
			}
			target, err := l.w.openTarget(ctx, t.name, t.name)
			if err == nil {
				err = target.dir.Remove(target.name)
				target.close()
			}
			return err == nil || errors.Is(err, fs.ErrNotExist)
		})
	}
}

// remove removes the temporary files and the record. A text that exists nowhere else is kept in
// a file with a visible name, which the result names.
func (l *leftover) remove(ctx context.Context, back bool, res *edit.Result) {
	for _, f := range l.files {
		e := f.recordFile().Edit
		stops := res == nil || slices.ContainsFunc(res.Files, func(r edit.FileResult) bool { return r.Path == e.Path && r.Stops() })
		for _, t := range f.temps {
			target, err := l.w.openTarget(ctx, e.Path, e.Path)
			if err != nil {
				continue
			}
			if t.ours || t.late && !stops {
				_ = target.dir.Remove(path.Base(t.name))
			} else {
				kept := path.Join(path.Dir(e.Path), place{target: target}.save(path.Base(t.name)))
				for i := range res.Files {
					if res.Files[i].Path == e.Path {
						res.Files[i].Sidecars = append(res.Files[i].Sidecars, kept)
					}
				}
			}
			_ = target.sync()
			target.close()
		}
	}
	if back {
		l.w.removeDirectories(l.record.begun.Created)
	}
	l.record.remove()
}
