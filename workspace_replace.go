package aycoder

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
)

func (t *target) replace(old, data []byte) error {
	info, err := t.dir.Lstat(t.name)
	if err != nil {
		return err
	}
	if err := checkRegular("write", t.asked, info); err != nil {
		return err
	}
	// A rename does not ask whether the file may be written, so ask.
	f, err := t.dir.OpenFile(t.name, os.O_WRONLY|openFlags, 0)
	if err != nil {
		return err
	}
	f.Close()
	temp, err := t.temp(data, 0o600, info)
	if err != nil {
		return err
	}
	defer t.dir.Remove(temp) // not there any more once it was renamed
	f, err = t.dir.OpenFile(t.name, os.O_RDONLY|openFlags, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := t.unchanged(f, old); err != nil {
		return err
	}
	return t.swap(f, temp, old, data)
}

// swap puts a new file in the place of f, whose content was old.
func (t *target) swap(f *os.File, temp string, old, data []byte) error {
	if !renamesOpen {
		f.Close()
		return errors.Join(t.dir.Rename(temp, t.name), t.sync())
	}
	ours, err := t.dir.Lstat(temp)
	if err != nil {
		return err
	}
	kept := tempName()
	if err := t.dir.Link(t.name, kept); err != nil {
		kept = "" // a file system without hard links
	} else if !t.is(kept, f) {
		return errors.Join(t.stale(changedMeanwhile), t.dir.Remove(kept))
	}
	if err := t.dir.Rename(temp, t.name); err != nil {
		return errors.Join(err, t.drop(kept))
	}
	err = t.sync()
	if t.unchanged(f, old) == nil {
		return errors.Join(err, t.drop(kept))
	}
	return t.restore(f, kept, ours, data)
}

// restore puts a file back that was written to while it was replaced by ours. Kept is
// another name of it, if there is one.
func (t *target) restore(f *os.File, kept string, ours fs.FileInfo, data []byte) error {
	if kept == "" {
		content, err := readAll(f)
		if err != nil {
			return err
		}
		if kept, err = t.temp(content, 0o600, ours); err != nil {
			return err
		}
	}
	if now, err := t.dir.OpenFile(t.name, os.O_RDONLY|openFlags, 0); err == nil {
		defer now.Close()
		info, err := now.Stat()
		if err == nil && os.SameFile(info, ours) && t.unchanged(now, data) == nil {
			return errors.Join(t.stale(changedMeanwhile), t.dir.Rename(kept, t.name), t.sync())
		}
	}
	return t.stale("the file was changed twice meanwhile; what it was before is in " + kept +
		" beside it; bring the two together")
}

const changedMeanwhile = "the file was changed meanwhile; read it again"

// is reports whether a name stands for an open file.
func (t *target) is(name string, f *os.File) bool {
	a, errA := t.dir.Lstat(name)
	b, errB := f.Stat()
	return errA == nil && errB == nil && os.SameFile(a, b)
}

// drop removes a name, if there is one.
func (t *target) drop(name string) error {
	if name == "" {
		return nil
	}
	return t.dir.Remove(name)
}

// unchanged compares what is in a file now with what the caller knows.
func (t *target) unchanged(f *os.File, old []byte) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	now, same := []byte(nil), info.Mode().IsRegular() && info.Size() == int64(len(old))
	if same {
		now, err = io.ReadAll(io.NewSectionReader(f, 0, int64(len(old))+1))
	}
	if err != nil {
		return err
	}
	if !same || !bytes.Equal(now, old) {
		return t.stale(changedMeanwhile)
	}
	return nil
}

// readAll reads a file from its beginning.
func readAll(f *os.File) ([]byte, error) {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	return io.ReadAll(f)
}
