package aycoder

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"time"
)

// giveBack puts the newest text of the user back in place. Who saves the file in that
// moment is merged with it, or if that does not go, becomes the newest.
func (f *fileApply) giveBack(newest *held) {
	f.undoing = true
	// It has to end, whoever waits.
	ctx, until := context.Background(), time.Now().Add(f.wait)
	for range maxTries {
		f.until = until
		err := f.putBack(newest)
		if err == nil {
			err = f.calm(ctx, until)
		}
		s, again := errors.AsType[*stopError](err)
		if again && s.newest != nil {
			newest = s.newest
			continue
		}
		f.release(err == nil)
		return
	}
	f.release(false)
}

// putBack exchanges what is in place for a file that was taken out. Other texts of the
// user's are not part of it, and are kept.
func (f *fileApply) putBack(h *held) error {
	f.unstage()
	h.close()
	f.held = slices.DeleteFunc(f.held, func(o *held) bool { return o == h })
	f.want, f.staged = h.known, h.name
	var err error
	for range 3 {
		err = f.swap()
		switch {
		case f.staged == "": // done, whatever else is wrong
			f.mine = h.mine
			for _, o := range f.held { // what came out just now too
				o.alone = o.alone || !o.mine
			}
			return err
		case errors.Is(err, fs.ErrNotExist): // deleted meanwhile
			f.placed = fileState{absent: true}
		case errors.Is(err, fs.ErrExist): // created meanwhile
			f.placed, f.mine = fileState{}, false
		}
	}
	f.staged, h.alone = "", true
	f.held = append(f.held, h)
	return err
}

// rollBack takes back what was done to the file, since the plan is not carried out.
func (f *fileApply) rollBack(ctx context.Context, until time.Time) {
	f.unstage()
	if !f.done || f.undoing {
		return
	}
	f.until, f.undoing = until, true
	was := f.found
	switch len(f.held) {
	case 0:
		f.takeBack(ctx, fileState{absent: true})
	case 1:
		f.giveBack(f.held[0])
	default:
		f.unmerge(ctx)
	}
	f.res.Written = !f.placed.same(was)
	f.res.Content, f.res.Exists = string(f.placed.data), !f.placed.absent
	if f.res.Written {
		f.res.Outcome = OutcomeMerged
		f.res.Reason = "was saved again by another program while the plan was taken back, and stays as it is"
	}
}

// takeBack puts something else in the place of what was put there.
func (f *fileApply) takeBack(ctx context.Context, want fileState) {
	f.want = want
	err := f.stage()
	if err == nil {
		err = f.swap()
	}
	if err == nil {
		err = f.calm(ctx, f.until)
	}
	if s, ok := errors.AsType[*stopError](err); ok && s.newest != nil {
		f.giveBack(s.newest)
		return
	}
	f.release(err == nil)
}

// unmerge takes the plan's changes out of a file that others saved meanwhile.
func (f *fileApply) unmerge(ctx context.Context) {
	first := f.held[0].known
	with := Merge([]byte(f.edit.Base), first.data, []byte(f.edit.Proposed), f.applyConfig.merge...)
	m := Merge(with.Bytes(), f.placed.data, first.data, f.applyConfig.merge...)
	if !m.Clean() { // what the users wrote is in place
		f.release(f.calm(ctx, f.until) == nil)
		return
	}
	want := f.placed
	want.data = m.Bytes()
	f.takeBack(ctx, want)
}

// release gives up what was taken out. What may hold the only copy of a text of the
// user's stays: all that they wrote if it is not known to be in place, and what
// somebody may have written to since it was looked at.
func (f *fileApply) release(known bool) {
	f.unstage()
	for _, h := range f.held {
		if (known || h.mine) && !h.alone && h.checked && (h.noLease || h.still()) {
			if !renamesOpen { // nor can what is open be removed
				h.close()
			}
			_ = f.at.dir.Remove(h.name)
		} else {
			f.res.Beside = append(f.res.Beside, h.path(f.final))
		}
		h.close() // and with it the lease, at last
	}
	f.held = nil
}

// commit gives up what was taken out: all of it is accounted for. Who comes now, when
// there is no way back, is merged, or else what they wrote is kept beside.
func (f *fileApply) commit(ctx context.Context) {
	if f.res.Outcome != "" {
		return
	}
	known := true
	if f.moving() {
		known = f.calm(context.WithoutCancel(ctx), time.Now().Add(f.wait)) == nil
	}
	f.release(known)
	f.finish()
}

// finish says what became of the file.
func (f *fileApply) finish() {
	f.res.Content, f.res.Exists, f.res.Written = string(f.placed.data), !f.placed.absent, f.done
	as := f.res.Content == f.edit.Proposed
	switch {
	case f.marked:
		f.res.Outcome = OutcomeConflicted
		f.res.Reason = "conflicts are marked in the text"
	case !f.done:
		f.res.Outcome = OutcomeUnchanged
	case as:
		f.res.Outcome = OutcomeApplied
	default:
		f.res.Outcome = OutcomeMerged
	}
	if !as && f.res.Exists {
		f.res.Kept = lineChanges(f.edit.Proposed, f.res.Content)
	}
}

// close lets go of everything, in case that something went wrong.
func (f *fileApply) close() {
	if f.at.target != nil {
		f.release(false)
	}
}
