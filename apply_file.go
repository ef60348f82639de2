package aycoder

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/aycoder/aycoder/internal/atomicswap"
	"github.com/aycoder/aycoder/internal/view"
)

// maxTries bounds how often a file that somebody else keeps saving is exchanged.
const maxTries = 8

// fileApply carries out what a plan does to one file. At each moment it knows what it
// believes to be in place, and holds everything that it took out.
type fileApply struct {
	*applyConfig
	edit  FileEdit
	final string // path without symbolic links
	at    place
	res   FileResult

	leadsTo func() ([]byte, error) // reads what a link leads to that is to be deleted

	found  fileState // what the user has, as last merged directly with the plan
	want   fileState // what is to be in place
	placed fileState // what is
	mine   bool      // no user wrote that
	staged string    // name of a file with want
	held   []*held
	until  time.Time

	done    bool // something was exchanged
	undoing bool // it is put back
	marked  bool // want has conflicts between markers
}

// stopError says that a file stands in the way of the plan.
type stopError struct {
	outcome Outcome
	reason  string
	newest  *held // what the user has, if it was taken out of its place
}

func (e *stopError) Error() string { return e.reason }

// stopped marks the file if it is what an error is about, and puts it back.
func (f *fileApply) stopped(err error) bool {
	s := f.reason(err)
	if s == nil {
		return false
	}
	f.res.Outcome, f.res.Reason = s.outcome, s.reason
	if s.newest != nil {
		f.giveBack(s.newest)
	} else if s.outcome == OutcomeGone || s.outcome == OutcomeUnchanged {
		f.placed = fileState{absent: true}
	}
	f.res.Content = view.String(f.placed.data)
	f.res.Exists = !f.placed.absent || s.outcome == OutcomeKindChanged || s.outcome == OutcomeBusy
	return true
}

// reason returns why a file stands in the way, or nil if err is another error.
func (f *fileApply) reason(err error) *stopError {
	if s, ok := errors.AsType[*stopError](err); ok {
		return s
	}
	switch {
	case errors.Is(err, atomicswap.ErrBusy), errors.Is(err, syscall.EAGAIN): // a lease of another program
		return &stopError{outcome: OutcomeBusy, reason: atomicswap.ErrBusy.Error()}
	case errors.Is(err, errLarge):
		return &stopError{outcome: OutcomeKindChanged, reason: err.Error()}
	}
	e, _ := errors.AsType[*WorkspaceError](wrapError("write", f.edit.Path, err))
	switch {
	case e.Kind == "not_found" && f.edit.Kind == EditDelete:
		return &stopError{outcome: OutcomeUnchanged, reason: "is deleted already"}
	case e.Kind == "not_found":
		return &stopError{outcome: OutcomeGone, reason: "is not there any more"}
	case slices.Contains([]string{"is_directory", "not_regular", "not_directory"}, e.Kind):
		return &stopError{outcome: OutcomeKindChanged, reason: e.Err.Error()}
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

// prepare reads the file and merges. If there is nothing to do, the file is done.
func (f *fileApply) prepare(ctx context.Context, until time.Time) error {
	f.until = until
	found, err := f.read(ctx)
	if err != nil {
		return err
	}
	f.found, f.placed = found, found
	if err := f.merge(nil); err != nil {
		return err
	}
	if f.want.same(f.found) {
		f.finish()
	}
	return f.step("merged")
}

// read returns what is in the file.
func (f *fileApply) read(ctx context.Context) (fileState, error) {
	if err := f.step("read"); err != nil {
		return fileState{}, err
	}
	info, err := f.at.dir.Lstat(f.at.name)
	if errors.Is(err, fs.ErrNotExist) {
		return fileState{absent: true}, nil
	}
	if err == nil && info.Mode()&fs.ModeSymlink != 0 && f.leadsTo != nil {
		return f.readLink(info)
	}
	if err == nil {
		err = checkRegular("write", f.edit.Path, info)
	}
	if err != nil {
		return fileState{}, err
	}
	// A rename does not ask whether the file may be written, so ask.
	w, err := f.at.dir.OpenFile(f.at.name, os.O_WRONLY|openFlags, 0)
	if err != nil {
		return fileState{}, err
	}
	w.Close()
	h := f.hold(f.at.name)
	defer h.close()
	f.res.OtherNames = links(info) > 1
	return h.settle(ctx)
}

// readLink returns what a link is, and as the model was shown that, what it leads to.
func (f *fileApply) readLink(info fs.FileInfo) (fileState, error) {
	to, err := f.at.dir.Readlink(f.at.name)
	if err != nil {
		return fileState{}, err
	}
	data, err := f.leadsTo()
	return fileState{data: data, mode: info.Mode(), info: info, link: to}, err
}

func (f *fileApply) hold(name string) *held {
	h := f.at.hold(name, f.placed.link)
	h.until, h.noLease, h.known, h.mine = f.until, f.noLease, f.placed, f.mine
	return h
}

// merge decides what the file becomes, given what was found. From is where that
// was found, if not in its place.
func (f *fileApply) merge(from *held) error {
	f.want = fileState{data: view.Bytes(f.edit.Proposed), mode: f.found.mode, info: f.found.info}
	f.marked = false
	found := f.found
	switch {
	case found.absent && f.edit.Kind == EditCreate:
		return nil
	case found.absent:
		return fs.ErrNotExist
	case f.edit.Kind == EditDelete && string(found.data) == f.edit.Base:
		f.want = fileState{absent: true}
		return nil
	case isBinary(found.data) && !isBinary(view.Bytes(f.edit.Base)) && !isBinary(f.want.data):
		return &stopError{OutcomeKindChanged, "is a binary file now", from}
	}
	return f.mergeTexts(view.Bytes(f.edit.Base), found.data, f.want.data, from)
}

// isBinary says what [Merge] takes for binary, by git's rule.
func isBinary(data []byte) bool { return bytes.IndexByte(data[:min(len(data), 8000)], 0) >= 0 }

func (f *fileApply) mergeTexts(base, ours, theirs []byte, from *held) error {
	m := Merge(base, ours, theirs, f.applyConfig.merge...)
	f.res.Base, f.res.Ours, f.res.Theirs, f.res.Merge = view.String(base), view.String(ours), view.String(theirs), &m
	deleted := f.edit.Kind == EditDelete
	if m.Clean() && !deleted {
		f.want.data = m.Bytes()
		return nil
	}
	if f.markers && !m.Binary && !deleted {
		f.want.data = m.Bytes()
		f.marked = true
		return nil
	}
	return &stopError{OutcomeConflicted, f.why(m), from}
}

// why says what does not merge.
func (f *fileApply) why(m MergeResult) string {
	switch {
	case f.edit.Kind == EditDelete:
		return "was changed, and was to be deleted"
	case f.edit.Kind == EditCreate:
		return "exists already with another content"
	case m.Binary:
		return "is binary and was changed"
	}
	for _, g := range m.Regions {
		if g.Kind == MergeConflict {
			return fmt.Sprintf("the user changed the same lines (conflicts: %d, the first in line %d)",
				m.Conflicts(), g.Ours.FirstLine+1)
		}
	}
	return "does not merge"
}

// stage writes the new content beside the file.
func (f *fileApply) stage() error {
	if f.want.absent {
		return nil
	}
	if err := f.step("stage"); err != nil {
		return err
	}
	mode := fs.FileMode(0o600)
	if f.want.info == nil {
		mode = 0o666
	}
	temp, err := f.at.temp(f.want.data, mode, f.want.info)
	if err != nil {
		return err
	}
	f.staged = temp
	info, err := f.at.dir.Lstat(temp)
	if err == nil {
		f.want.mode = info.Mode()
	}
	return cmp.Or(err, f.step("staged"))
}

// begin exchanges the file for the first time. If a file was created in the place of
// one to be created, it starts anew.
func (f *fileApply) begin(ctx context.Context, until time.Time) error {
	f.until = until
	for range maxTries {
		err := f.swap()
		if !errors.Is(err, fs.ErrExist) {
			return err
		}
		f.unstage()
		if err := f.prepare(ctx, until); err != nil || f.res.Outcome != "" {
			return err
		}
		if err := f.stage(); err != nil {
			return err
		}
	}
	return atomicswap.ErrBusy
}

// swap puts what is staged in place, and holds what was there.
func (f *fileApply) swap() error {
	err := f.step("swap")
	if err != nil {
		return err
	}
	out := ""
	switch {
	case f.placed.absent:
		err = f.at.put(f.staged)
	case f.want.absent:
		out, err = f.at.aside()
	default:
		out, err = f.at.exchange(f.staged)
	}
	if err != nil {
		return err
	}
	f.staged, f.done = "", true
	if out != "" {
		f.held = append(f.held, f.hold(out))
	}
	f.placed, f.mine = f.want, true
	return cmp.Or(f.step("swapped"), f.at.sync())
}

func (f *fileApply) unstage() {
	if f.staged != "" {
		_ = f.at.dir.Remove(f.staged)
		f.staged = ""
	}
}

// look looks at all that was taken out, and brings what is new in it into the file.
func (f *fileApply) look(ctx context.Context, until time.Time) error {
	f.until = until
	for range maxTries {
		if err := f.step("look"); err != nil {
			return err
		}
		if err := f.fold(ctx); err != nil || f.want.same(f.placed) {
			return err
		}
		err := f.stage()
		if err == nil {
			err = f.swap()
		}
		if err != nil {
			return f.blame(err, f.held[len(f.held)-1])
		}
	}
	return &stopError{OutcomeBusy, "is saved again and again by another program", f.held[len(f.held)-1]}
}

// calm looks until nobody can write any more to what was taken out.
func (f *fileApply) calm(ctx context.Context, until time.Time) error {
	for range maxTries {
		if err := f.look(ctx, until); err != nil || !f.moving() {
			return err
		}
	}
	return f.stopMoving()
}

// blame adds to an error what is to be put back, if the file stands in the way.
func (f *fileApply) blame(err error, newest *held) error {
	s := f.reason(err)
	if s == nil {
		return err
	}
	if s.outcome == OutcomeGone {
		s = &stopError{outcome: OutcomeConflicted, reason: "was deleted while another program wrote to it"}
	}
	return &stopError{s.outcome, s.reason, newest}
}

// fold merges what is new in files that were taken out into what is wanted.
func (f *fileApply) fold(ctx context.Context) error {
	for _, h := range f.held {
		if h.still() {
			continue
		}
		h.until = f.until
		now, err := h.settle(ctx)
		if err != nil {
			return f.blame(err, h)
		}
		h.checked = true
		if now.same(h.known) {
			continue
		}
		if err := f.again(h, now); err != nil {
			return err
		}
	}
	return nil
}

// again merges a file that is not what it was. As long as nobody but the plan wrote
// what is in place, that is the merge that would have been made a moment later.
func (f *fileApply) again(h *held, now fileState) error {
	direct := len(f.held) == 1 && !h.mine && !f.undoing
	was := h.known
	h.known, h.mine = now, false
	if direct {
		f.found = now
		return f.merge(h)
	}
	if f.want.absent {
		return &stopError{OutcomeConflicted, "was changed, and was to be taken away", h}
	}
	f.want.mode, f.want.info = now.mode, now.info
	return f.mergeTexts(was.data, now.data, f.want.data, h)
}

// moving reports whether something that was taken out may be another by now.
func (f *fileApply) moving() bool {
	return slices.ContainsFunc(f.held, func(h *held) bool { return !h.noLease && !h.still() })
}

// stopMoving ends a file that others open again and again.
func (f *fileApply) stopMoving() error {
	if !f.moving() {
		return nil
	}
	return &stopError{OutcomeBusy, atomicswap.ErrBusy.Error(), f.held[len(f.held)-1]}
}

// lastLook looks once more, where no lease keeps writers out.
func (f *fileApply) lastLook(ctx context.Context, until time.Time) error {
	if err := f.step("commit"); err != nil {
		return err
	}
	return f.look(ctx, until)
}
