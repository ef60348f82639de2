package workspace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/internal/atomicswap"
	"github.com/aycoder/aycoder/internal/runes"
	"github.com/aycoder/aycoder/internal/view"
	"github.com/aycoder/aycoder/merge"
)

// Each file of a plan goes through one loop, [fileApply.reach]: it takes a lease on the current
// file to keep writers out, reads the file, writes the merged text to a staged file next to it,
// and exchanges the two. Invariant: every file that was in place at any moment stays open until
// the end, since other programs may have opened it by its name. It is either the current file
// or one of those taken out, and the latter are read again until nobody writes to them. If a
// program reached the old file at the moment of the exchange, the two files are exchanged back,
// and the loop starts again with the saved text; this needs no merge. Only if both files were
// written to is the text of the file that is out merged into the current one. Until it is known
// that the new file may stay in place, it is closed to readers too: they would read a text that
// lacks what was just saved.

// maxTries bounds the exchanges of a file that another program keeps saving. The time limit
// usually ends them earlier.
const maxTries = 100

// maxMissed bounds the searches for a file that is missing: some editors remove a file for a
// moment when they save it.
const maxMissed = 10

// fileApply carries out the part of a plan that concerns one file.
type fileApply struct {
	*applyConfig
	edit    edit.File
	restore bool           // see fileChange
	modes   [2]fs.FileMode // see fileChange
	final   string         // path without symbolic links
	at      place
	res     edit.FileResult
	prefix  string       // of its temporary files
	temps   int          // how many temporary names were used
	note    func() error // records found and want before the file is touched

	leadsTo func() ([]byte, error) // reads the target of a link that is to be deleted
	until   time.Time

	found fileState // the user's file, as last merged with the plan
	want  fileState // the result of that merge

	cur       *held     // the file in place; nil if there is none
	staged    *held     // the new file next to it
	stagedFor fileState // the state that staged was written for
	last      *exchange // the last exchange, while it can be reversed
	out       []*held   // the files that were taken out
	late      []lateText

	merged   bool // found and want are set
	has      bool // the current file contains the plan
	wrote    bool // there was an exchange, so other programs may have read the new text
	undoing  bool // the plan is being taken back
	marked   bool // want contains conflict markers
	unsynced bool // the current file may not be on the disk yet
}

// exchange records the file that was put in place and the one that was taken out for it.
type exchange struct {
	in, out *held
	had     bool // whether the current file contained the plan before
}

// lateText is a text that another program wrote to a file after it was taken out.
type lateText struct {
	from       *held
	base, text fileState
}

// stopError says that a file stands in the way of the plan.
type stopError struct {
	outcome edit.Outcome
	reason  string
}

func (e *stopError) Error() string { return e.reason }

// stopped marks the file if err is about this file alone, and reports whether it is.
func (f *fileApply) stopped(err error) bool {
	s := f.reason(err)
	if s != nil {
		f.res.Outcome, f.res.Reason = s.outcome, s.reason
		f.res.Exists = s.outcome == edit.OutcomeKindChanged || s.outcome == edit.OutcomeBusy
	}
	return s != nil
}

// reason returns why a file stands in the way, or nil if err has another cause.
func (f *fileApply) reason(err error) *stopError {
	if s, ok := errors.AsType[*stopError](err); ok {
		return s
	}
	switch {
	case errors.Is(err, atomicswap.ErrBusy), errors.Is(err, syscall.EAGAIN): // another program holds a lease
		return &stopError{edit.OutcomeBusy, atomicswap.ErrBusy.Error()}
	case errors.Is(err, errLarge):
		return &stopError{edit.OutcomeKindChanged, err.Error()}
	}
	e, _ := errors.AsType[*Error](wrapError("write", f.edit.Path, err))
	switch {
	case e.Kind == KindNotFound && f.edit.Kind == edit.Delete:
		return &stopError{edit.OutcomeUnchanged, "is deleted already"}
	case e.Kind == KindNotFound:
		return &stopError{edit.OutcomeGone, "is not there any more"}
	case slices.Contains([]ErrorKind{KindIsDirectory, KindNotRegular, KindNotDirectory}, e.Kind):
		return &stopError{edit.OutcomeKindChanged, e.Err.Error()}
	}
	return nil
}

// step lets tests act as another program between two steps.
func (f *fileApply) step(name string) error {
	if f.applyConfig.step == nil {
		return nil
	}
	return f.applyConfig.step(name, f.edit.Path)
}

// temp returns a new temporary name in the same directory, so that a rename suffices to put it
// in place.
func (f *fileApply) temp() string {
	f.temps++
	return f.prefix + strconv.Itoa(f.temps) + tempEnd
}

// prepare reads the file and merges. A file that already has the wanted text is done.
func (f *fileApply) prepare(ctx context.Context) error {
	if err := f.step("read"); err != nil {
		return err
	}
	now, err := f.inPlace(ctx)
	if err != nil {
		return err
	}
	if _, err = f.decide(now); err != nil {
		return err
	}
	if f.cur != nil {
		f.cur.release() // writers may continue until all files are staged
	}
	if f.want.same(now) {
		f.res.Outcome = edit.OutcomeUnchanged
	}
	return f.step("merged")
}

// inPlace waits until no other process has the file open for writing, then reads it. A lease
// keeps writers out from then on.
func (f *fileApply) inPlace(ctx context.Context) (fileState, error) {
	info, err := f.at.dir.Lstat(f.at.name)
	// Some editors rename the old file before they write the new one.
	for errors.Is(err, fs.ErrNotExist) && f.edit.Kind != edit.Create && !f.has && f.missed.Add(1) <= maxMissed {
		if err := cmp.Or(f.step("missing"), sleep(ctx, 5*time.Millisecond)); err != nil {
			return fileState{}, err
		}
		info, err = f.at.dir.Lstat(f.at.name)
	}
	if errors.Is(err, fs.ErrNotExist) {
		f.setCurrent(nil)
		return fileState{absent: true}, nil
	}
	if err != nil {
		return fileState{}, err
	}
	if info.Mode()&fs.ModeSymlink != 0 && (f.leadsTo != nil || f.restore) {
		return f.link(info)
	}
	if f.cur == nil || !f.cur.is(info) {
		err := checkRegular("write", f.edit.Path, info)
		if err == nil && !f.restore { // restoring also replaces files that are read-only
			err = f.at.writable()
		}
		if err != nil {
			return fileState{}, err
		}
		if err := f.hold(""); err != nil {
			return fileState{}, err
		}
	}
	if !f.has {
		f.res.OtherNames = links(info) > 1
	}
	f.at.openToOthers(f.cur)
	now, err := f.cur.settle(ctx, f.until)
	if err == nil {
		f.cur.known = now
	}
	return now, err
}

// link returns the state of a symbolic link. Its content is that of the file it leads to, since
// that is what the model was shown. If the link itself is to be restored, the content is its
// target.
func (f *fileApply) link(info fs.FileInfo) (fileState, error) {
	if f.restore && f.cur != nil && f.cur.file == nil && f.at.isAt(f.at.name, f.cur) {
		return f.cur.known, nil
	}
	to, err := f.at.dir.Readlink(f.at.name)
	if err == nil {
		err = f.hold(to)
	}
	if err != nil {
		return fileState{}, err
	}
	if f.restore {
		f.cur.known = linkTo(to)
		return f.cur.known, nil
	}
	data, err := f.leadsTo()
	f.cur.known = fileState{text: string(data), mode: info.Mode(), link: to}
	return f.cur.known, err
}

// hold opens the file that is in place.
func (f *fileApply) hold(link string) error {
	h, err := f.at.hold(f.at.name, link)
	if err == nil {
		h.noLease = f.noLease
		f.setCurrent(h)
	}
	return err
}

// setCurrent replaces the current file with one that another program put there.
func (f *fileApply) setCurrent(h *held) {
	if f.cur != nil {
		f.cur.close()
	}
	f.cur, f.last = h, nil
}

// decide returns the text that the file must get in place of now. It ignores texts that were
// written late, which fold adds.
func (f *fileApply) decide(now fileState) (next fileState, err error) {
	next = now
	switch {
	case f.has != f.undoing: // nothing to do
	case f.undoing:
		next = f.unmerge(now)
	case f.merged && now.same(f.found):
		next = f.want
	default:
		// If another program read the plan and saved it, a merge finds nothing to do. The
		// earlier merge can still take the plan out.
		if next, err = f.merge(now); err == nil && !(f.wrote && next.same(now)) {
			f.found, f.want, f.merged = now, next, true
		}
	}
	return next, err
}

// merge applies the plan to the state that was found.
func (f *fileApply) merge(found fileState) (fileState, error) {
	f.marked = false
	theirs := fileState{text: f.edit.Proposed, mode: found.mode}
	if f.restore {
		next, done, err := f.restored(found)
		if done || err != nil {
			return next, err
		}
		theirs.mode = next.mode
	}
	switch {
	case found.absent && f.edit.Kind == edit.Create:
		return theirs, nil
	case found.absent:
		return found, fs.ErrNotExist
	case f.edit.Kind == edit.Delete && found.text == f.edit.Base:
		return fileState{absent: true}, nil
	case isBinary(found.text) && !isBinary(f.edit.Base) && !isBinary(theirs.text):
		return found, &stopError{edit.OutcomeKindChanged, "is a binary file now"}
	}
	m := merge.Merge(view.Bytes(f.edit.Base), view.Bytes(found.text), view.Bytes(theirs.text),
		f.applyConfig.merge...)
	f.res.Base, f.res.Ours, f.res.Theirs, f.res.Merge = f.edit.Base, found.text, theirs.text, &m
	deleted := f.edit.Kind == edit.Delete
	if (m.Clean() || f.markers && !m.Binary) && !deleted {
		if found.text != f.edit.Base { // otherwise the result is the plan's text
			theirs.text, f.marked = string(m.Bytes()), !m.Clean()
		}
		return theirs, nil
	}
	return found, &stopError{edit.OutcomeConflicted, f.why(m)}
}

func isBinary(text string) bool { return runes.Binary(view.Bytes(text)) }

// why explains a failed merge to the model.
func (f *fileApply) why(m merge.Result) string {
	switch {
	case f.edit.Kind == edit.Delete:
		return "was changed, and was to be deleted"
	case f.edit.Kind == edit.Create:
		return "exists already with another content"
	case m.Binary:
		return "is binary and was changed"
	}
	for _, g := range m.Regions {
		if g.Kind == merge.Conflict {
			return fmt.Sprintf("the user changed the same lines (conflicts: %d, the first in line %d)",
				m.Conflicts(), g.Ours.FirstLine+1)
		}
	}
	return "does not merge"
}

// unmerge takes the plan's changes out of a text that others saved since. Parts that do not
// merge stay.
func (f *fileApply) unmerge(now fileState) fileState {
	if now.same(f.want) {
		return f.found
	}
	if was, ok := f.combine(f.want, now, f.found); ok {
		return was
	}
	return now
}

// combine merges two changes of one text. If one of them appended to the text, the appended
// part also goes to the end of the other, as if both programs had written to one file.
func (f *fileApply) combine(base, a, b fileState) (fileState, bool) {
	if base.absent || a.absent || b.absent || base.link+a.link+b.link != "" {
		return b, a.same(base)
	}
	if b.mode == base.mode {
		b.mode = a.mode
	}
	if added, ok := addedTo(base.text, a.text, b.text); ok {
		b.text += added
		return b, true
	}
	if added, ok := addedTo(base.text, b.text, a.text); ok {
		b.text = a.text + added
		return b, true
	}
	m := merge.Merge([]byte(base.text), []byte(a.text), []byte(b.text), f.applyConfig.merge...)
	b.text = string(m.Bytes())
	return b, m.Clean()
}

// addedTo returns the text that longer appends to base, if it can be appended to other as well:
// both must end with a newline, or be equal.
func addedTo(base, longer, other string) (string, bool) {
	added, ok := strings.CutPrefix(longer, base)
	whole := func(text string) bool { return text == "" || strings.HasSuffix(text, "\n") }
	return added, ok && (added == "" || whole(base) && whole(other) || base == other)
}

// fold merges late texts into a text. It returns those that do not fit.
func (f *fileApply) fold(text fileState) (fileState, []lateText) {
	var rest []lateText
	for _, l := range f.late {
		if next, ok := f.combine(l.base, l.text, text); ok {
			text = next
		} else {
			rest = append(rest, l)
		}
	}
	return text, rest
}

// stage writes the new file under a temporary name next to the old one. With later, the caller flushes it.
func (f *fileApply) stage(want fileState, later bool) error {
	f.unstage()
	if want.absent {
		return f.note()
	}
	if err := cmp.Or(f.step("stage"), f.note()); err != nil {
		return err
	}
	if want.link != "" {
		f.staged, f.stagedFor = &held{name: f.temp(), noLease: true, known: want}, want
		return cmp.Or(f.at.dir.Symlink(want.link, f.staged.name), f.step("staged"))
	}
	like := newFile{mode: f.edit.Mode, later: later}
	if f.restore {
		like.mode, like.exact = want.mode.Perm(), true
	}
	if f.cur != nil {
		like.of = f.cur.file
	}
	name := f.temp()
	file, err := f.at.fill(name, want.text, like)
	if err != nil {
		return err
	}
	f.staged, f.stagedFor = &held{name: name, file: file, private: true, noLease: f.noLease}, want
	info, err := file.Stat()
	if err != nil {
		return err
	}
	f.staged.known = fileState{text: want.text, mode: info.Mode()}
	return f.step("staged")
}

// isStaged makes sure that the wanted state is staged. It returns false if that took so long
// that the file must be read again. Staging an appended text does not count: otherwise a
// program that appends often, such as a logger, could never be overtaken.
func (f *fileApply) isStaged(want fileState) (bool, error) {
	switch {
	case want.absent || f.staged != nil && want.same(f.stagedFor):
		return true, nil
	case f.staged == nil || want.mode != f.stagedFor.mode || want.link != f.stagedFor.link || want.link != "" || !strings.HasPrefix(want.text, f.stagedFor.text):
		if f.cur != nil {
			f.cur.release()
		}
		return false, f.stage(want, false)
	}
	if err := f.note(); err != nil {
		return false, err
	}
	_, err := f.staged.file.WriteAt([]byte(want.text[len(f.stagedFor.text):]), int64(len(f.stagedFor.text)))
	f.stagedFor, f.staged.known.text, f.unsynced = want, want.text, true
	return true, err
}

// unstage removes the new text, which is in a temporary file until it is exchanged.
func (f *fileApply) unstage() {
	if f.staged != nil {
		f.staged.close()
		_ = f.at.dir.Remove(f.staged.name)
		f.staged = nil
	}
}

// reach repeats read, stage and exchange until the file has the decided state.
func (f *fileApply) reach(ctx context.Context) error {
	for try := range maxTries {
		if try > 1 && time.Now().After(f.until) {
			break
		}
		if err := cmp.Or(f.step("swap"), context.Cause(ctx)); err != nil {
			return err
		}
		now, err := f.inPlace(ctx)
		if err != nil {
			return err
		}
		decided, err := f.decide(now)
		if err != nil {
			return err
		}
		// If the plan cannot be taken out of a text that others saved, it stays.
		has := !f.undoing || f.has && decided.same(now) && !now.same(f.found)
		next, rest := f.fold(decided)
		done := next.same(now)
		if !done {
			if done, err = f.isStaged(next); err == nil && done {
				done, err = f.swap(next)
			}
			if done && len(f.late) > 0 {
				f.last = nil
			}
		}
		if err != nil {
			return err
		}
		if done {
			f.has = has
			f.keepAside(rest)
			return f.step("swapped")
		}
	}
	return &stopError{edit.OutcomeBusy, "is saved again and again by another program"}
}
