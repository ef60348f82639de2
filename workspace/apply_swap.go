package workspace

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"

	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/internal/atomicswap"
	"github.com/aycoder/aycoder/internal/diff3"
	"github.com/aycoder/aycoder/internal/view"
)

// swap puts the staged file in place, or removes the current file if none is wanted. It returns
// false, and changes nothing, if the current file is not the one that was read or if another
// program is about to write to it.
func (f *fileApply) swap(want fileState) (bool, error) {
	in := f.staged
	if want.absent {
		in = nil
	}
	return f.putIn(in)
}

// goBack reverses the last exchange.
func (f *fileApply) goBack() (bool, error) {
	l := f.last
	if l == nil || l.in != f.cur {
		return false, nil
	}
	ok, err := f.putIn(l.out)
	if f.last = nil; ok {
		f.has = l.had
		// The file that is in place again has its late texts.
		f.late = slices.DeleteFunc(f.late, func(t lateText) bool { return t.from == l.out })
	}
	return ok, err
}

// putIn exchanges the file, and looks at what came out: only then is it known whether the
// text that was replaced is the one that was merged. If it is not, the exchange is taken
// back.
func (f *fileApply) putIn(in *held) (bool, error) {
	out := f.cur
	if in != nil {
		in.closeToOthers()
	}
	name, err := "", fs.ErrNotExist // another file is in place, or is about to be written
	if out == nil || f.at.isAt(f.at.name, out) && out.quiet() {
		name, err = f.exchange(in, out)
	}
	if err != nil && in != nil && in.private {
		in.release()
	}
	switch {
	case errors.Is(err, fs.ErrExist), errors.Is(err, fs.ErrNotExist): // created or deleted meanwhile
		return false, nil
	case err != nil:
		return false, err
	}
	f.wrote = true
	_ = f.step("exchanged") // an error here could not leave the file as it was
	if out != nil && (!f.at.isAt(name, out) || !out.quiet()) {
		return false, f.exchangeBack(in, name)
	}
	if in != nil {
		in.name = f.at.name
		f.at.openToOthers(in)
		f.out = slices.DeleteFunc(f.out, func(h *held) bool { return h == in })
	}
	if in == f.staged {
		f.staged = nil
	}
	if out != nil {
		out.name = name
		f.out = append(f.out, out)
	}
	f.cur, f.last = in, &exchange{in, out, f.has}
	return true, nil
}

// exchange returns the new name of the file that was in place.
func (f *fileApply) exchange(in, out *held) (string, error) {
	if err := f.step("exchange"); err != nil {
		return "", err
	}
	switch {
	case in == nil && out == nil:
		return "", nil
	case out == nil:
		return "", f.at.put(in.name)
	case in == nil:
		name := f.temp()
		return name, f.at.move(f.at.name, name)
	}
	return f.at.exchange(in.name, f.temp())
}

// exchangeBack puts back a file that differs from the one that was read. The new file counts as
// taken out, since other programs may have opened it meanwhile.
func (f *fileApply) exchangeBack(in *held, name string) error {
	known := false
	if in != nil { // it got the name of the file that came out
		if in == f.staged {
			f.staged = nil
		}
		f.out = slices.DeleteFunc(f.out, func(h *held) bool { return h == in })
		defer func() {
			f.giveCurrentText(in)
			if known {
				f.at.openToOthers(in)
			} else { // another program replaced or removed it
				in.close()
			}
		}()
	}
	var back string
	err := fs.ErrNotExist
	if in != nil {
		back, err = f.at.exchange(name, f.temp())
	}
	if errors.Is(err, fs.ErrNotExist) { // the place is empty
		if err = f.at.put(name); errors.Is(err, fs.ErrExist) {
			return f.takeOut(name)
		}
	}
	if err != nil || in == nil || back == "" {
		return err
	}
	if f.at.isAt(back, in) {
		in.name, known = back, true
		f.out = append(f.out, in)
		return nil
	}
	// Another program replaced it at this very moment; its file is the newest.
	name, err = f.at.exchange(back, f.temp())
	if err != nil {
		return err
	}
	return f.takeOut(name)
}

// giveCurrentText gives a file that was in place by mistake the text of the file that is in place now.
// Programs that opened it meanwhile, and that the lease keeps waiting, would otherwise read a
// text that is older than what they have saved: a formatter would then overwrite the save.
func (f *fileApply) giveCurrentText(h *held) {
	if !h.closedToOthers {
		return
	}
	if is, err := h.read(); err != nil || !is.same(h.known) { // the kernel has ended the lease
		return
	}
	current, err := f.at.hold(f.at.name, "")
	if err != nil {
		return
	}
	defer current.close()
	now, err := current.read()
	if err != nil {
		return
	}
	if _, err = h.file.WriteAt([]byte(now.text), 0); err == nil {
		err = h.file.Truncate(int64(len(now.text)))
	}
	if h.known.text = now.text; err != nil {
		h.known, _ = h.read()
	}
}

// takeOut keeps track of a file that one program put in place at the moment of an exchange and
// another program replaced.
func (f *fileApply) takeOut(name string) error {
	if f.cur != nil && f.at.isAt(name, f.cur) {
		f.cur.name = name
		f.out = append(f.out, f.cur)
		f.cur, f.last = nil, nil
		return nil
	}
	h, err := f.at.hold(name, "")
	if err != nil {
		f.beside(f.at.save(name))
		return nil
	}
	h.noLease, h.known = f.noLease, f.found
	f.out = append(f.out, h)
	return nil
}

// loud returns the files that were taken out and may have changed since.
func (f *fileApply) loud() []*held {
	return slices.DeleteFunc(slices.Clone(f.out), (*held).quiet)
}

// look merges late writes to files that were taken out into the current one. It returns true if
// there were none.
func (f *fileApply) look(ctx context.Context) (bool, error) {
	loud := f.loud()
	if len(loud) == 0 && len(f.late) == 0 { // late texts may be left from a look that failed
		return true, nil
	}
	if f.last != nil && len(loud) == 1 && loud[0] == f.last.out {
		if ok, err := f.goBack(); err != nil {
			return false, err
		} else if ok {
			return false, f.reach(ctx)
		}
		loud = f.loud()
	}
	for _, h := range loud {
		f.at.openToOthers(h)
		now, err := h.settle(ctx, f.until)
		if err != nil {
			return false, err
		}
		if !now.same(h.known) {
			f.late = append(f.late, lateText{h, h.known, now})
			h.known = now
		}
	}
	return false, f.reach(ctx)
}

// keepAside saves late texts that do not merge in separate files.
func (f *fileApply) keepAside(rest []lateText) {
	for _, l := range rest {
		f.keep(l.from)
	}
	f.late = nil
}

// keep gives a file that was taken out a visible name. If its name is removed already, a new file
// gets its text.
func (f *fileApply) keep(h *held) {
	name := h.name
	if !f.at.isAt(name, h) {
		name = f.copyOf(h)
	}
	if name != "" {
		f.beside(f.at.save(name))
	}
	f.out = slices.DeleteFunc(f.out, func(o *held) bool { return o == h })
	if f.last != nil && f.last.out == h {
		f.last = nil
	}
	h.close()
}

// copyOf writes the text of a file that has no name any more to a new one. It returns the
// temporary name, or "" after an error.
func (f *fileApply) copyOf(h *held) string {
	name := f.temp()
	now, err := h.read()
	if err == nil {
		var file *os.File
		if file, err = f.at.fill(name, now.text, newFile{of: h.file}); err == nil {
			err = file.Close()
		}
	}
	if err != nil {
		return ""
	}
	return name
}

// beside tells the host of a file that holds a text of the user.
func (f *fileApply) beside(name string) {
	f.res.Sidecars = append(f.res.Sidecars, path.Join(path.Dir(f.final), name))
}

// undo takes the plan out of the file.
func (f *fileApply) undo(ctx context.Context) {
	if f.has || f.wrote && f.savedByOthers(ctx) {
		f.has = true
		f.undoing = true
		if ok, _ := f.goBack(); !ok {
			_ = f.reach(ctx) // texts of others stay, and the result says so
		}
	}
	f.undoing = true
}

// savedByOthers reports whether the plan is still in the file after it was taken back, because
// another program read it and saved it.
func (f *fileApply) savedByOthers(ctx context.Context) bool {
	now, err := f.inPlace(ctx)
	if err != nil || now.same(f.found) {
		return false
	}
	merged, err := f.merge(now)
	return err == nil && merged.same(now)
}

// letGo removes the names of the files that were taken out, once nobody writes to them. Files
// that are still being written are kept.
func (f *fileApply) letGo(ctx context.Context) {
	f.unstage()
	for range maxTries {
		f.last = nil // the exchange cannot be reversed any more
		if quiet, err := f.look(ctx); quiet || err != nil {
			break
		}
	}
	f.unstage()
	f.keepAside(f.late)
	for _, h := range f.loud() {
		f.keep(h)
	}
	for _, h := range f.out {
		if !renamesOpen { // an open file cannot be removed either
			h.close()
		}
		_ = f.at.dir.Remove(h.name)
	}
	if !renamesOpen {
		f.out = nil
	}
}

// readLast reads the file once more for the result, with writers kept out.
func (f *fileApply) readLast(ctx context.Context) {
	now, err := f.inPlace(ctx)
	if errors.Is(err, atomicswap.ErrBusy) && f.cur != nil {
		now, err = f.cur.read()
	}
	f.res.Content, f.res.Exists = "", err != nil && !errors.Is(err, fs.ErrNotExist)
	if err == nil {
		f.res.Content, f.res.Exists = now.text, !now.absent
	}
}

// finish fills in the result for this file.
func (f *fileApply) finish(failed bool) {
	r := &f.res
	r.Written = f.has && f.wrote
	as := !r.Exists && f.edit.Kind == edit.Delete || r.Exists && r.Content == f.edit.Proposed
	switch {
	case failed && r.Written:
		r.Outcome = edit.OutcomeMerged
		r.Reason = "was saved again by another program while the plan was taken back, and stays as it is"
	case failed:
		r.Outcome = cmp.Or(r.Outcome, edit.OutcomeSkipped)
	case r.Outcome != "":
	case f.marked:
		r.Outcome, r.Reason = edit.OutcomeConflicted, "conflicts are marked in the text"
	case !f.wrote:
		r.Outcome = edit.OutcomeUnchanged
	case as || f.edit.Kind == edit.Delete:
		r.Outcome = edit.OutcomeApplied
	default:
		r.Outcome = edit.OutcomeMerged
	}
	if !failed && !as && r.Exists && f.edit.Kind != edit.Delete {
		for _, c := range diff3.Diff(view.Bytes(f.edit.Proposed), view.Bytes(r.Content)).Changes() {
			r.UserChanges = append(r.UserChanges, edit.LineChange(c))
		}
	}
	if r.Written && f.found.link == "" && !f.restore {
		r.Undo = new(reverse(f.change()).File)
	}
}

// close releases everything that an error may have left open.
func (f *fileApply) close() {
	f.setCurrent(nil)
	for _, h := range f.out {
		h.close()
	}
}
