package journal

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

// objectFile returns the name of the file of an object.
func objectFile(h Hash) string { return objectsName + "/" + string(h) }

// isHash reports whether h can be the name of a file.
func isHash(h Hash) bool {
	return len(h) == hex.EncodedLen(32) && strings.Trim(string(h), "0123456789abcdef") == ""
}

// Put implements [Journal].
func (j *dirJournal) Put(ctx context.Context, hash Hash, data []byte) error {
	return j.write(ctx, "put", func() error {
		if err := CheckObject(hash, data); err != nil {
			return err
		}
		return j.put(hash, data)
	})
}

func (j *dirJournal) put(hash Hash, data []byte) error {
	if j.stored[hash] {
		return nil
	}
	// A whole object may be there already. Its name may not be durable: perhaps the process that
	// stored it ended before it could flush the directory.
	if _, err := j.object(hash); err != nil {
		err = j.writeNew(func(w io.Writer) error { return j.compress(w, data) })
		if err == nil {
			err = j.disk.rename(newName, objectFile(hash))
		}
		if err != nil {
			return err
		}
	}
	if err := j.disk.sync(objectsName); err != nil {
		return err
	}
	// If the directory was moved meanwhile, the object will not be found.
	if _, err := j.disk.size(journalName, j.file); err != nil {
		return err
	}
	j.stored[hash] = true
	return nil
}

// compress compresses an object. The compressors need half a megabyte, so the journals of a store share them.
func (j *dirJournal) compress(w io.Writer, data []byte) (err error) {
	c, ok := j.store.compressors.Get().(*flate.Writer)
	if !ok {
		if c, err = flate.NewWriter(nil, flate.BestSpeed); err != nil {
			return err
		}
	}
	c.Reset(w)
	_, err = c.Write(data)
	err = errors.Join(err, c.Close())
	c.Reset(nil)
	j.store.compressors.Put(c)
	return err
}

// Get implements [Journal].
func (j *dirJournal) Get(ctx context.Context, hash Hash) (data []byte, err error) {
	if err = ctx.Err(); err == nil {
		data, err = j.object(hash)
	}
	return data, Error("get", j.id, err)
}

func (j *dirJournal) object(hash Hash) ([]byte, error) {
	if !isHash(hash) {
		return nil, fmt.Errorf("object %.80q: %w: %w", hash, errHashText, fs.ErrNotExist)
	}
	f, err := j.disk.open(objectFile(hash), os.O_RDONLY)
	if errors.Is(err, errIrregular) {
		return nil, j.damagedObject(hash, err)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.NewSectionReader(f, 0, 2*MaxObject))
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(text)), MaxObject+1))
	if err == nil && HashOf(data) != hash {
		err = errHash
	}
	if err != nil {
		return nil, j.damagedObject(hash, err)
	}
	return data, nil
}

func (j *dirJournal) damagedObject(hash Hash, err error) error {
	return &DamageError{OpError: &OpError{Op: "get", Session: j.id, Err: err}, Object: hash}
}

// Remove removes an object, if it is there.
func (j *dirJournal) Remove(ctx context.Context, hash Hash) error {
	return j.write(ctx, "remove", func() error {
		if !isHash(hash) {
			return errHashText
		}
		delete(j.stored, hash)
		return ignoreMissing(j.disk.remove(objectFile(hash)))
	})
}

// removeObjects removes the objects for which keep returns false.
func (j *dirJournal) removeObjects(keep func(Hash) bool) error {
	list, err := j.disk.names(objectsName)
	if err != nil {
		return ignoreMissing(err)
	}
	for _, name := range list {
		if hash := Hash(name); isHash(hash) && !keep(hash) {
			delete(j.stored, hash)
			err = errors.Join(err, ignoreMissing(j.disk.remove(objectFile(hash))))
		}
	}
	return err
}
