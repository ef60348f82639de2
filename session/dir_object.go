package session

import (
	"bytes"
	"compress/flate"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
)

var (
	errHash     = errors.New("the hash is not that of the data")
	errHashText = errors.New("it is not a hash: a hash is 64 hexadecimal digits")
)

// objectWriter is what the writer of a session knows of its objects.
type objectWriter struct {
	// stored are the objects that are durable and whole, as far as this is known.
	stored map[Hash]bool
	// dirs are the directories whose names are durable, as far as this is known.
	dirs    map[string]bool
	deflate *flate.Writer
	serial  int
}

// CheckObject returns an error if a [Journal] must not store the object: hash must be that of the
// data, and the data must not be larger than [MaxObject].
func CheckObject(hash Hash, data []byte) error {
	if len(data) > MaxObject {
		return fmt.Errorf("object of %d bytes: %w", len(data), ErrTooLarge)
	}
	if HashOf(data) != hash {
		return errHash
	}
	return nil
}

// dir returns the directory of an object.
func (h Hash) dir() string { return objectsName + "/" + string(h[:2]) }

// valid reports whether h can be the name of a file.
func (h Hash) valid() bool {
	return len(h) == hex.EncodedLen(32) && strings.Trim(string(h), "0123456789abcdef") == ""
}

// Put implements [Journal].
func (j *dirJournal) Put(ctx context.Context, hash Hash, data []byte) error {
	err := CheckObject(hash, data)
	if err == nil {
		err = j.begin(ctx)
	}
	if err != nil {
		return journalError("put", j.id, err)
	}
	defer j.end()
	return journalError("put", j.id, j.put(hash, data))
}

func (j *dirJournal) put(hash Hash, data []byte) error {
	o := &j.objects
	if o.stored[hash] {
		return nil
	}
	if err := errors.Join(j.makeDir(objectsName, "."), j.makeDir(hash.dir(), objectsName)); err != nil {
		return err
	}
	// A whole object may be there already. Its name may not be durable: perhaps the process that
	// stored it ended before it could flush the directory.
	if _, err := j.object(hash); err != nil {
		if err := j.writeObject(hash, data); err != nil {
			return err
		}
	}
	if err := j.disk.sync(hash.dir()); err != nil {
		return err
	}
	// If the directory was moved meanwhile, the object will not be found.
	if _, err := j.disk.size(journalName, j.file); err != nil {
		return err
	}
	if o.stored == nil {
		o.stored = map[Hash]bool{}
	}
	o.stored[hash] = true
	return nil
}

// makeDir makes a directory in parent, durably.
func (j *dirJournal) makeDir(dir, parent string) error {
	o := &j.objects
	if o.dirs[dir] {
		return nil
	}
	if err := j.disk.mkdir(dir); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := j.disk.sync(parent); err != nil {
		return err
	}
	if o.dirs == nil {
		o.dirs = map[string]bool{}
	}
	o.dirs[dir] = true
	return nil
}

// writeObject writes an object to a new file, flushes it, and gives it its name.
func (j *dirJournal) writeObject(hash Hash, data []byte) error {
	text, err := j.objects.compress(data)
	if err != nil {
		return err
	}
	j.objects.serial++
	name := fmt.Sprintf("%s/%d%s", objectsName, j.objects.serial, newSuffix)
	f, err := j.disk.open(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(text, 0)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = j.disk.rename(name, hash.dir()+"/"+string(hash))
	}
	if err != nil {
		return errors.Join(err, ignoreMissing(j.disk.remove(name)))
	}
	return nil
}

func (o *objectWriter) compress(data []byte) ([]byte, error) {
	var buf bytes.Buffer
	if o.deflate == nil {
		var err error
		if o.deflate, err = flate.NewWriter(nil, flate.BestSpeed); err != nil {
			return nil, err
		}
	}
	o.deflate.Reset(&buf)
	_, err := o.deflate.Write(data)
	err = errors.Join(err, o.deflate.Close())
	return buf.Bytes(), err
}

// Get implements [Journal].
func (j *dirJournal) Get(ctx context.Context, hash Hash) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, journalError("get", j.id, err)
	}
	data, err := j.object(hash)
	if err != nil {
		return nil, journalError("get", j.id, err)
	}
	return data, nil
}

func (j *dirJournal) object(hash Hash) ([]byte, error) {
	if !hash.valid() {
		return nil, fmt.Errorf("object %.80q: %w: %w", hash, errHashText, fs.ErrNotExist)
	}
	f, err := j.disk.open(hash.dir()+"/"+string(hash), os.O_RDONLY)
	if errors.Is(err, errIrregular) {
		return nil, j.damagedObject(hash, err)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	// A reader that remembers the error of the file tells it from an error of the format.
	in := &failing{r: io.NewSectionReader(f, 0, 2*MaxObject)}
	data, err := io.ReadAll(io.LimitReader(flate.NewReader(in), MaxObject+1))
	switch {
	case in.err != nil:
		return nil, in.err
	case err != nil:
		return nil, j.damagedObject(hash, err)
	case HashOf(data) != hash:
		return nil, j.damagedObject(hash, errHash)
	}
	return data, nil
}

func (j *dirJournal) damagedObject(hash Hash, err error) error {
	return &DamageError{JournalError: &JournalError{Op: "get", Session: j.id, Err: err}, Object: hash}
}

// failing remembers the error of a reader.
type failing struct {
	r   io.Reader
	err error
}

func (f *failing) Read(p []byte) (int, error) {
	n, err := f.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		f.err = err
	}
	return n, err
}

// removeObjects removes the objects for which keep returns false.
func (j *dirJournal) removeObjects(keep func(Hash) bool) error {
	dirs, err := j.disk.names(objectsName)
	if err != nil {
		return ignoreMissing(err)
	}
	for _, dir := range dirs {
		list, err := j.disk.names(objectsName + "/" + dir)
		if err != nil {
			continue // it is not a directory of objects
		}
		for _, name := range list {
			hash := Hash(name)
			if !hash.valid() || keep(hash) {
				continue
			}
			delete(j.objects.stored, hash)
			if err := ignoreMissing(j.disk.remove(hash.dir() + "/" + name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// removeUnfinished removes objects that a crash prevented from getting a name.
func (j *dirJournal) removeUnfinished() error {
	list, err := j.disk.names(objectsName)
	if err != nil {
		return ignoreMissing(err)
	}
	for _, name := range list {
		if strings.HasSuffix(name, newSuffix) {
			err = errors.Join(err, ignoreMissing(j.disk.remove(objectsName+"/"+name)))
		}
	}
	return err
}
