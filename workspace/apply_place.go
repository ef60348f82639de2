package workspace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/aycoder/aycoder/internal/atomicswap"
	"github.com/aycoder/aycoder/internal/runes"
)

// place is a name in a locked directory.
type place struct {
	*target
	plain bool // avoid operations that some systems lack
}

// exchange puts the file named temp in this place. It returns the new name of the file that was
// there: either temp or kept.
func (p place) exchange(temp, kept string) (string, error) {
	err := errors.ErrUnsupported
	if !p.plain {
		err = atomicswap.Exchange(p.lock, temp, p.name)
	}
	if !errors.Is(err, errors.ErrUnsupported) {
		return temp, err
	}
	return p.twoSteps(temp, kept)
}

// twoSteps links the old file to kept and then renames the new one over it, for systems without
// an atomic exchange.
func (p place) twoSteps(temp, kept string) (string, error) {
	err := p.dir.Link(p.name, kept)
	if errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if err == nil {
		if err = p.dir.Rename(temp, p.name); err == nil {
			return kept, nil
		}
		_ = p.dir.Remove(kept)
	}
	// The file system has no hard links, or one of the two is a directory.
	if err := p.dir.Rename(p.name, kept); err != nil {
		return "", err
	}
	if err := p.put(temp); err != nil {
		if p.put(kept) != nil {
			err = p.stale("was created anew while it was replaced; what it was before is in " + p.save(kept) +
				" beside it; bring the two together")
		}
		return "", err
	}
	return kept, nil
}

// put renames a file to a place that is empty. If the place is taken, the error is
// [fs.ErrExist].
func (p place) put(temp string) error { return p.move(temp, p.name) }

// move renames a file, unless the new name is taken.
func (p place) move(from, to string) error {
	err := errors.ErrUnsupported
	if !p.plain {
		err = atomicswap.Move(p.lock, from, to)
	}
	if !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	switch err := p.dir.Link(from, to); {
	case err == nil:
		return p.dir.Remove(from)
	case errors.Is(err, fs.ErrExist):
		return err
	}
	if _, err := p.dir.Lstat(to); err == nil {
		return fs.ErrExist
	}
	return p.dir.Rename(from, to)
}

// save gives a file with a user's text a visible name: that of the place with ".save" appended,
// as editors do, and as many "~" as are needed. It returns the new name.
func (p place) save(temp string) string {
	name := p.name + ".save"
	for range maxTries {
		switch err := p.move(temp, name); {
		case err == nil:
			return name
		case !errors.Is(err, fs.ErrExist):
			return temp
		}
		name += "~"
	}
	return temp
}

// noAliases returns an error if two names are the same entry of a directory, as on a file system that ignores case. A plan that
// creates a file under another form of its name and deletes the old one would find the file there, and then delete it.
func noAliases(files []*fileApply) error {
	infos := make([]fs.FileInfo, len(files))
	for i, f := range files {
		if f.at.target == nil {
			continue
		}
		info, err := f.at.dir.Lstat(f.at.name)
		if err != nil {
			continue
		}
		for k, other := range infos[:i] {
			if other != nil && os.SameFile(other, info) && f.at.sameEntry(files[k].at) {
				return f.sameAs(files[k])
			}
		}
		infos[i] = info
	}
	return nil
}

// sameEntry reports whether two names of one file are the same entry of a directory. The names of hard links are entries of which
// each can be changed.
func (p place) sameEntry(other place) bool {
	mine, err := p.lock.Stat()
	if theirs, failed := other.lock.Stat(); err == nil && failed == nil && !os.SameFile(mine, theirs) {
		return false
	}
	dir, err := p.dir.Open(".")
	if err != nil {
		return true
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	return p.name == other.name || !slices.Contains(names, p.name) || !slices.Contains(names, other.name)
}

// sameAs is the error for two names of one file in a plan.
func (f *fileApply) sameAs(other *fileApply) error {
	return &Error{"write", f.edit.Path, KindInvalidPath, fmt.Errorf("is the same file as %s", runes.Path(other.edit.Path))}
}

// fileState is the content and mode of a file, or its absence.
type fileState struct {
	text   string
	absent bool
	mode   fs.FileMode
	link   string // its target, if it is a link
}

// same reports whether a file is as it was: its text counts, not its times, since programs
// touch files.
func (s fileState) same(o fileState) bool {
	return s.absent == o.absent &&
		(s.absent || s.mode == o.mode && s.link == o.link && s.text == o.text)
}

// held is an open file, in place or taken out, that other programs may have opened by its name
// at any time since it was in place. It is closed only when nobody can have written to it since
// the last read.
type held struct {
	name  string
	file  *os.File  // nil for a link
	known fileState // the last state that was dealt with

	noLease bool // leases are not available

	// A staged file is private: it is open for writing here, and other programs do not know it.
	// While it is closed to others, a program that finds it cannot open it.
	private, closedToOthers bool
}

// hold opens a file. For a link, which cannot be opened, it checks that the link is unchanged.
func (p place) hold(name, link string) (*held, error) {
	h := &held{name: name}
	info, err := p.dir.Lstat(name)
	if err == nil && link != "" && info.Mode()&fs.ModeSymlink != 0 {
		to, err := p.dir.Readlink(name)
		if err == nil && to == link {
			h.known = fileState{mode: info.Mode(), link: link}
			return h, nil
		}
	}
	if err == nil {
		err = checkRegular("write", p.asked, info)
	}
	if err == nil {
		h.file, err = p.dir.OpenFile(name, os.O_RDONLY|openFlags, 0)
	}
	if err != nil {
		return nil, err
	}
	return h, nil
}

// isAt reports whether the name still refers to the held file.
func (p place) isAt(name string, h *held) bool {
	if h.file != nil {
		return p.is(name, h.file)
	}
	to, err := p.dir.Readlink(name)
	return err == nil && to == h.known.link
}

// is reports whether an entry of a directory is the held file. That of a link is not.
func (h *held) is(info fs.FileInfo) bool {
	if h.file == nil {
		return false
	}
	own, err := h.file.Stat()
	return err == nil && os.SameFile(info, own)
}

// close closes the file, if there is one.
func (h *held) close() {
	if h.file != nil {
		h.file.Close() // which also releases the lease
	}
}

// lease keeps writers out. It fails if another process has the file open for writing, and does
// nothing where leases are not available.
func (h *held) lease() error {
	if h.noLease || h.file == nil {
		return nil
	}
	atomicswap.Release(h.file) // a program that waits for the end of the lease goes first
	err := atomicswap.Lease(h.file)
	if errors.Is(err, errors.ErrUnsupported) {
		h.noLease, err = true, nil
	}
	return err
}

// release gives the lease back. The kernel would otherwise make a program that opens the
// file wait (fcntl(2), F_SETLEASE).
func (h *held) release() {
	if !h.noLease && h.file != nil {
		atomicswap.Release(h.file)
	}
}

// closeToOthers makes programs wait that open a private file, also for reading, until it is known
// whether the file may stay in its new place. It has no effect where leases are not available,
// or if a program that found the file by its temporary name has it open.
func (h *held) closeToOthers() {
	h.closedToOthers = h.private && !h.noLease && atomicswap.LeaseAlone(h.file) == nil
}

// openToOthers lets other programs open a private file. From then on, a lease keeps only writers
// out. The kernel grants such a lease only if this process has the file open for reading only.
func (p place) openToOthers(h *held) {
	if !h.private {
		return
	}
	h.release()
	h.closedToOthers = false
	file, err := p.dir.OpenFile(h.name, os.O_RDONLY|openFlags, 0)
	if err != nil {
		return
	}
	info, err := file.Stat()
	if own, errOwn := h.file.Stat(); err != nil || errOwn != nil || !os.SameFile(info, own) { // another program replaced it
		file.Close()
		return
	}
	h.file.Close()
	h.file, h.private = file, false
	if h.lease() != nil || h.noLease {
		return
	}
	if now, err := h.read(); err != nil || !now.same(h.known) { // a writer was faster than the lease
		h.release() // so that the file is not quiet
	}
}

// quiet reports whether the file is unchanged and nobody is about to write to it. Without a
// lease this can change at any moment.
func (h *held) quiet() bool {
	if h.file == nil {
		return true
	}
	if !h.noLease && !h.private {
		info, err := h.file.Stat()
		return err == nil && info.Mode() == h.known.mode && atomicswap.Leased(h.file)
	}
	now, err := h.read()
	return err == nil && now.same(h.known)
}

// settle waits until no other process has the file open for writing, then reads it. A lease
// keeps writers out from then on. Without leases, two successive reads must agree.
func (h *held) settle(ctx context.Context, until time.Time) (fileState, error) {
	if h.file == nil {
		return h.known, nil
	}
	var last *fileState
	pause := time.Millisecond
	for tries := 1; ; tries++ {
		err := h.lease()
		var now fileState
		if err == nil {
			now, err = h.read()
		}
		if err != nil && !errors.Is(err, atomicswap.ErrBusy) {
			return fileState{}, err
		}
		if err == nil {
			if h.noLease && last != nil && now.same(*last) || !h.noLease && atomicswap.Leased(h.file) {
				return now, nil
			}
			last = &now
		}
		if tries > 1 && time.Now().After(until) {
			return fileState{}, atomicswap.ErrBusy
		}
		if err := sleep(ctx, pause); err != nil {
			return fileState{}, err
		}
		pause = min(2*pause, 20*time.Millisecond)
	}
}

// errLarge says that a file has become too large to be merged.
var errLarge = fmt.Errorf("is larger than %d MiB now", maxFile>>20)

// read returns the state of the open file.
func (h *held) read() (fileState, error) {
	info, err := h.file.Stat()
	if err != nil {
		return fileState{}, err
	}
	if info.Size() > maxFile {
		return fileState{}, errLarge
	}
	r := reread{known: h.known.text, size: int(info.Size())}
	_, err = io.CopyBuffer(&r, io.NewSectionReader(h.file, 0, maxFile+1),
		make([]byte, min(info.Size()+1, 32<<10)))
	text := r.String()
	if err == nil && len(text) > maxFile {
		err = errLarge
	}
	return fileState{text: text, mode: info.Mode()}, err
}

// A reread collects the content of a file that is read once more. Nearly always the content is
// the same as before, and then no copy of it is made.
type reread struct {
	known string
	same  int // bytes of known that were found again
	size  int

	changed strings.Builder // all of the content, as soon as it differs
}

// Write implements [io.Writer]. As long as the bytes equal the content of the earlier reading,
// Write only counts them. From the first difference on, it stores the whole content.
func (r *reread) Write(p []byte) (int, error) {
	if r.changed.Len() > 0 {
		return r.changed.Write(p)
	}
	if rest := r.known[r.same:]; len(p) <= len(rest) && rest[:len(p)] == string(p) {
		r.same += len(p)
		return len(p), nil
	}
	r.changed.Grow(r.size)
	r.changed.WriteString(r.known[:r.same])
	return r.changed.Write(p)
}

// String returns the content that was written so far.
func (r *reread) String() string {
	if r.changed.Len() > 0 {
		return r.changed.String()
	}
	return r.known[:r.same]
}

// sleep pauses for d. It returns the cause if ctx ends first.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}

// setPermissions changes the permissions of a file, and keeps its other mode bits.
func setPermissions(f *os.File, perm fs.FileMode) error {
	info, err := f.Stat()
	if err == nil && info.Mode().Perm() != perm {
		err = f.Chmod(info.Mode()&^fs.ModePerm | perm)
	}
	return err
}

// keepAttributes copies the mode of another file, and where the system and the rights of the
// process allow it, the owner and extended attributes, including access control lists.
func keepAttributes(f, of *os.File) error {
	info, err := of.Stat()
	if err == nil {
		// The mode comes last: it is a part of an access control list.
		err = atomicswap.CopyAttributes(f, of)
	}
	if err == nil {
		err = keepMode(f, info)
	}
	return err
}
