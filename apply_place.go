package aycoder

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"time"

	"github.com/aycoder/aycoder/internal/atomicswap"
)

// place is a name in a folder that is locked.
type place struct {
	*target
	plain bool // do without what not every system has
}

// exchange puts the file of another name in the place, and returns the name that what
// was there has then.
func (p place) exchange(temp string) (string, error) {
	err := errors.ErrUnsupported
	if !p.plain {
		err = atomicswap.Exchange(p.lock, temp, p.name)
	}
	if !errors.Is(err, errors.ErrUnsupported) {
		return temp, err
	}
	return p.twoSteps(temp)
}

// twoSteps is an exchange in two steps.
func (p place) twoSteps(temp string) (string, error) {
	kept := tempName()
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
	// There are no hard links here, or one of the two is a folder.
	if err := p.dir.Rename(p.name, kept); err != nil {
		return "", err
	}
	if err := p.put(temp); err != nil {
		if p.put(kept) != nil {
			err = p.stale("was created anew while it was replaced; what it was before is in " + kept +
				" beside it; bring the two together")
		}
		return "", err
	}
	return kept, nil
}

// aside takes the file away, and returns the name that it has then.
func (p place) aside() (string, error) {
	kept := tempName()
	return kept, p.dir.Rename(p.name, kept)
}

// put puts the file of another name where there is none. If there is one, the error is
// [fs.ErrExist].
func (p place) put(temp string) error {
	err := errors.ErrUnsupported
	if !p.plain {
		err = atomicswap.Move(p.lock, temp, p.name)
	}
	if !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	switch err := p.dir.Link(temp, p.name); {
	case err == nil:
		return p.dir.Remove(temp)
	case errors.Is(err, fs.ErrExist):
		return err
	}
	if _, err := p.dir.Lstat(p.name); err == nil {
		return fs.ErrExist
	}
	return p.dir.Rename(temp, p.name)
}

// fileState is what a file is: its bytes and its mode, or that there is none.
type fileState struct {
	data   []byte
	absent bool
	mode   fs.FileMode
	info   fs.FileInfo // nil if it is not known
	link   string      // where it leads, if it is a link
}

func (s fileState) same(o fileState) bool {
	return s.absent == o.absent && (s.absent || s.mode == o.mode && s.link == o.link && bytes.Equal(s.data, o.data))
}

// held is a file that was taken out of its place, under the name that it has now. It
// is given up only when its content is known for good.
type held struct {
	name  string
	file  *os.File  // nil if it could not be opened
	err   error     // why
	known fileState // what is accounted for
	mine  bool      // no user wrote it
	alone bool      // its content is in no other file

	checked bool // it was looked at
	link    bool // nobody can write to it

	until   time.Time
	noLease bool // there are no leases
}

// hold opens a file that was taken out, or finds the link that is known to be there.
func (p place) hold(name, link string) *held {
	h := &held{name: name}
	info, err := p.dir.Lstat(name)
	if err == nil && link != "" && info.Mode()&fs.ModeSymlink != 0 {
		to, err := p.dir.Readlink(name)
		if h.link = err == nil && to == link; h.link {
			h.checked = true
			return h
		}
	}
	if err == nil {
		err = checkRegular("write", p.asked, info)
	}
	if err == nil {
		h.file, err = p.dir.OpenFile(name, os.O_RDONLY|openFlags, 0)
	}
	h.err = err
	return h
}

func (h *held) close() {
	if h.file != nil {
		h.file.Close() // and with it the lease
	}
}

// still reports whether nobody can have written to the file since it was read.
func (h *held) still() bool { return h.link || h.file != nil && atomicswap.Leased(h.file) }

// settle waits until nobody has the file open for writing, and reads it. From then on
// a lease keeps writers out. Where there are no leases, the file has to be the same
// twice.
func (h *held) settle(ctx context.Context) (fileState, error) {
	if h.err != nil {
		return fileState{}, h.err
	}
	var last fileState
	pause := time.Millisecond
	for tries := 1; ; tries++ {
		now, sure, err := h.try()
		if err == nil && (sure || h.noLease && last.info != nil && now.same(last)) {
			return now, nil
		}
		if err != nil && !errors.Is(err, atomicswap.ErrBusy) {
			return fileState{}, err
		}
		last = now
		if tries > 1 && time.Now().After(h.until) {
			return fileState{}, atomicswap.ErrBusy
		}
		if err := sleep(ctx, pause); err != nil {
			return fileState{}, err
		}
		pause = min(2*pause, 20*time.Millisecond)
	}
}

// try reads the file, and reports whether nobody can have written to it since.
func (h *held) try() (fileState, bool, error) {
	if !h.noLease {
		atomicswap.Release(h.file) // who waits for its end goes first
		err := atomicswap.Lease(h.file)
		h.noLease = errors.Is(err, errors.ErrUnsupported)
		if err != nil && !h.noLease {
			return fileState{}, false, err
		}
	}
	now, err := h.read()
	return now, h.still(), err
}

// errLarge says that a file is too large to be merged.
var errLarge = fmt.Errorf("is larger than %d MiB now", maxPlanBytes>>20)

// read returns all that is in the file.
func (h *held) read() (fileState, error) {
	info, err := h.file.Stat()
	if err != nil {
		return fileState{}, err
	}
	if info.Size() > maxPlanBytes {
		return fileState{}, errLarge
	}
	data := make([]byte, 0, info.Size()+bytes.MinRead)
	buf := bytes.NewBuffer(data)
	_, err = buf.ReadFrom(io.NewSectionReader(h.file, 0, maxPlanBytes+1))
	if err == nil && buf.Len() > maxPlanBytes {
		err = errLarge
	}
	return fileState{data: buf.Bytes(), mode: info.Mode(), info: info}, err
}

// sleep waits, or returns the cause of the end of ctx.
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

// path returns the name in the workspace, beside the file of a path.
func (h *held) path(final string) string { return path.Join(path.Dir(final), h.name) }
