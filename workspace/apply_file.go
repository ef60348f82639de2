package workspace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/atomicswap"
	"github.com/aycoder/aycoder/internal/view"
	"github.com/aycoder/aycoder/merge"
)

// Each file of a plan goes through one loop, [fileApply.reach]: a lease keeps writers out
// of what is in place, it is read, what it has to become is written beside it, and
// the two are exchanged. The invariant is that every file that was in place at some
// moment stays open until the end, since others may have found it by its name: it is in
// place, or among those taken out, and those are looked at again until nobody writes to
// them. If somebody came to the old file in the moment of the exchange, the two are
// exchanged again, and all begins anew with what they saved; nothing has to be merged
// for that. Only if both files were written to, the text in the one that is out
// is brought into the other.

// maxTries bounds how often a file that somebody else keeps saving is exchanged, if the
// time is not over before.
const maxTries = 100

// maxMissed bounds how often a plan looks again for files that are not there.
const maxMissed = 10

// fileApply carries out what a plan does to one file.
type fileApply struct {
	*applyConfig
	edit   aycoder.FileEdit
	final  string // path without symbolic links
	at     place
	res    aycoder.FileResult
	prefix string       // of its temporary files
	temps  int          // how many names it used
	note   func() error // writes down found and want before anything is made of them

	leadsTo func() ([]byte, error) // reads what a link leads to that is to be deleted
	until   time.Time

	found fileState // what the user has, as last merged with the plan
	want  fileState // what came of it

	cur       *held     // in place; nil if there is nothing
	staged    *held     // beside it, to be put in place
	stagedFor fileState // why
	last      *exchange // the last one, if it can be taken back
	out       []*held   // what was taken out of its place
	late      []lateText

	merged   bool // found and want are known
	has      bool // the plan is in what is in place
	wrote    bool // something was exchanged, so that others may have read the plan
	undoing  bool // it is not to be
	marked   bool // want has conflicts between markers
	unsynced bool // what is in place is not known to be on the disk
}

// exchange is what was put in place, and what was taken out for it.
type exchange struct {
	in, out *held
	had     bool // whether the plan was in place before
}

// lateText is what somebody wrote to a file that had been taken out.
type lateText struct {
	from       *held
	base, text fileState
}

// stopError says that a file stands in the way of the plan.
type stopError struct {
	outcome aycoder.Outcome
	reason  string
}

func (e *stopError) Error() string { return e.reason }

// stopped marks the file if it is what an error is about.
func (f *fileApply) stopped(err error) bool {
	s := f.reason(err)
	if s != nil {
		f.res.Outcome, f.res.Reason = s.outcome, s.reason
		f.res.Exists = s.outcome == aycoder.OutcomeKindChanged || s.outcome == aycoder.OutcomeBusy
	}
	return s != nil
}

// reason returns why a file stands in the way, or nil if err is another error.
func (f *fileApply) reason(err error) *stopError {
	if s, ok := errors.AsType[*stopError](err); ok {
		return s
	}
	switch {
	case errors.Is(err, atomicswap.ErrBusy), errors.Is(err, syscall.EAGAIN): // a lease of another program
		return &stopError{aycoder.OutcomeBusy, atomicswap.ErrBusy.Error()}
	case errors.Is(err, errLarge):
		return &stopError{aycoder.OutcomeKindChanged, err.Error()}
	}
	e, _ := errors.AsType[*Error](wrapError("write", f.edit.Path, err))
	switch {
	case e.Kind == "not_found" && f.edit.Kind == aycoder.EditDelete:
		return &stopError{aycoder.OutcomeUnchanged, "is deleted already"}
	case e.Kind == "not_found":
		return &stopError{aycoder.OutcomeGone, "is not there any more"}
	case slices.Contains([]string{"is_directory", "not_regular", "not_directory"}, e.Kind):
		return &stopError{aycoder.OutcomeKindChanged, e.Err.Error()}
	}
	return nil
}

// step lets tests come between.
func (f *fileApply) step(name string) error {
	if f.applyConfig.step == nil {
		return nil
	}
	return f.applyConfig.step(name, f.edit.Path)
}

// temp returns a new name beside the file.
func (f *fileApply) temp() string {
	f.temps++
	return f.prefix + strconv.Itoa(f.temps) + tempEnd
}

// prepare reads the file and merges. If there is nothing to do, the file is done.
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
		f.cur.release() // until all is ready
	}
	if f.want.same(now) {
		f.res.Outcome = aycoder.OutcomeUnchanged
	}
	return f.step("merged")
}

// inPlace waits until nobody has the file open for writing, and reads it. From then on
// a lease keeps writers out.
func (f *fileApply) inPlace(ctx context.Context) (fileState, error) {
	info, err := f.at.dir.Lstat(f.at.name)
	// Some editors rename the old file before they write the new one.
	for ; errors.Is(err, fs.ErrNotExist) && f.edit.Kind != aycoder.EditCreate && !f.has && f.missed < maxMissed; f.missed++ {
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
	if info.Mode()&fs.ModeSymlink != 0 && f.leadsTo != nil {
		return f.link(info)
	}
	if f.cur == nil || !f.at.isAt(f.at.name, f.cur) {
		if err := cmp.Or(checkRegular("write", f.edit.Path, info), f.at.writable()); err != nil {
			return fileState{}, err
		}
		if err := f.hold(""); err != nil {
			return fileState{}, err
		}
	}
	if !f.has {
		f.res.OtherNames = links(info) > 1
	}
	now, err := f.cur.settle(ctx, f.until)
	if err == nil {
		f.cur.known = now
	}
	return now, err
}

// link returns what a link is, and as the model was shown that, what it leads to.
func (f *fileApply) link(info fs.FileInfo) (fileState, error) {
	to, err := f.at.dir.Readlink(f.at.name)
	if err == nil {
		err = f.hold(to)
	}
	if err != nil {
		return fileState{}, err
	}
	data, err := f.leadsTo()
	f.cur.known = fileState{text: string(data), mode: info.Mode(), link: to}
	return f.cur.known, err
}

// hold opens what is in place.
func (f *fileApply) hold(link string) error {
	h, err := f.at.hold(f.at.name, link)
	if err == nil {
		h.noLease = f.noLease
		f.setCurrent(h)
	}
	return err
}

// setCurrent gives up what was in place before, for something that others put there.
func (f *fileApply) setCurrent(h *held) {
	if f.cur != nil {
		f.cur.close()
	}
	f.cur, f.last = h, nil
}

// decide returns what is to be in place of what is, but for what was written late.
func (f *fileApply) decide(now fileState) (next fileState, err error) {
	next = now
	switch {
	case f.has != f.undoing: // it is as it is to be
	case f.undoing:
		next = f.unmerge(now)
	case f.merged && now.same(f.found):
		next = f.want
	default:
		// If the plan is in the file already because others read it and saved it, it can
		// still be taken out by what was merged before.
		if next, err = f.merge(now); err == nil && !(f.wrote && next.same(now)) {
			f.found, f.want, f.merged = now, next, true
		}
	}
	return next, err
}

// merge carries out the plan on what was found.
func (f *fileApply) merge(found fileState) (fileState, error) {
	f.marked = false
	theirs := fileState{text: f.edit.Proposed, mode: found.mode}
	switch {
	case found.absent && f.edit.Kind == aycoder.EditCreate:
		return theirs, nil
	case found.absent:
		return found, fs.ErrNotExist
	case f.edit.Kind == aycoder.EditDelete && found.text == f.edit.Base:
		return fileState{absent: true}, nil
	case isBinary(found.text) && !isBinary(f.edit.Base) && !isBinary(theirs.text):
		return found, &stopError{aycoder.OutcomeKindChanged, "is a binary file now"}
	}
	m := merge.Merge(view.Bytes(f.edit.Base), view.Bytes(found.text), view.Bytes(theirs.text), f.applyConfig.merge...)
	f.res.Base, f.res.Ours, f.res.Theirs, f.res.Merge = f.edit.Base, found.text, theirs.text, &m
	deleted := f.edit.Kind == aycoder.EditDelete
	if (m.Clean() || f.markers && !m.Binary) && !deleted {
		theirs.text, f.marked = string(m.Bytes()), !m.Clean()
		return theirs, nil
	}
	return found, &stopError{aycoder.OutcomeConflicted, f.why(m)}
}

// isBinary says what [merge.Merge] takes for binary, by git's rule.
func isBinary(text string) bool { return strings.IndexByte(text[:min(len(text), 8000)], 0) >= 0 }

// why says what does not merge.
func (f *fileApply) why(m merge.Result) string {
	switch {
	case f.edit.Kind == aycoder.EditDelete:
		return "was changed, and was to be deleted"
	case f.edit.Kind == aycoder.EditCreate:
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

// unmerge takes the plan's changes out of what others saved since. What does not merge
// stays.
func (f *fileApply) unmerge(now fileState) fileState {
	if now.same(f.want) {
		return f.found
	}
	if was, ok := f.combine(f.want, now, f.found); ok {
		return was
	}
	return now
}

// combine brings two changes of a text together. What was added at the end of one is
// added at the end of the other too: so it would have been, had there been one file.
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

// addedTo returns what was added at the end of a text, if it can be added to another:
// both have to end with a line, or be the same.
func addedTo(base, longer, other string) (string, bool) {
	added, ok := strings.CutPrefix(longer, base)
	whole := func(text string) bool { return text == "" || strings.HasSuffix(text, "\n") }
	return added, ok && (added == "" || whole(base) && whole(other) || base == other)
}

// fold brings into a text what was written late. It returns what does not fit in.
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

// stage writes beside the file what is to be put in its place.
func (f *fileApply) stage(want fileState) error {
	f.unstage()
	if want.absent {
		return nil
	}
	if err := cmp.Or(f.step("stage"), f.note()); err != nil {
		return err
	}
	like := newFile{mode: f.edit.Mode}
	if f.cur != nil {
		like.of = f.cur.file
	}
	name := f.temp()
	if err := f.at.fill(name, want.text, like); err != nil {
		return err
	}
	h, err := f.at.hold(name, "")
	if err == nil {
		h.noLease = f.noLease
		f.staged, f.stagedFor = h, want
		err = h.take()
	}
	if err != nil {
		_ = f.at.dir.Remove(name)
		return err
	}
	return f.step("staged")
}

// take leases a file that nobody else knows yet.
func (h *held) take() (err error) {
	if h.known, err = h.read(); err == nil {
		err = h.lease()
	}
	return err
}

// isStaged sees to it that what is wanted is staged. It reports false if that took so
// long that the file has to be read again. What was added at the end of the file does
// not: otherwise one who adds to it often could not be overtaken.
func (f *fileApply) isStaged(want fileState) (bool, error) {
	switch {
	case want.absent || f.staged != nil && want.same(f.stagedFor):
		return true, nil
	case f.staged == nil || want.mode != f.stagedFor.mode || !strings.HasPrefix(want.text, f.stagedFor.text):
		if f.cur != nil {
			f.cur.release()
		}
		return false, f.stage(want)
	}
	if err := f.note(); err != nil {
		return false, err
	}
	f.staged.release()
	file, err := f.at.dir.OpenFile(f.staged.name, os.O_WRONLY|os.O_APPEND|openFlags, 0)
	if err == nil {
		_, err = file.WriteString(want.text[len(f.stagedFor.text):])
		err = errors.Join(err, file.Close(), f.staged.take())
	}
	f.stagedFor, f.unsynced = want, true
	return true, err
}

func (f *fileApply) unstage() {
	if f.staged != nil {
		f.staged.close()
		_ = f.at.dir.Remove(f.staged.name)
		f.staged = nil
	}
}

// reach brings the file to what it is to be.
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
		// A plan that cannot be taken out of what others saved stays.
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
	return &stopError{aycoder.OutcomeBusy, "is saved again and again by another program"}
}
