package journal

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"math"
	"os"
	"sync"
)

// dirJournal is an open session of a dirStore. Its journal file only grows, apart from two cases:
// the end of a file that a crash or an error left incomplete is cut off, and Rewrite replaces the
// file with another one.
type dirJournal struct {
	store  *dirStore
	id     string
	disk   disk
	lock   diskFile // nil if there is no lock
	writer bool

	// working holds a value while an operation writes. It guards the fields below. It is not
	// held while records are yielded, so that Rewrite can be given the present records.
	working chan struct{}
	closed  bool
	// stored are the objects that are durable and whole, as far as this is known.
	stored map[Hash]bool
	// cut means that the file may be longer than size, because an append failed half way and the
	// file could not be cut back.
	cut bool
	// failed is the error of a flush. Nobody knows what of the file is on the disk after that, so
	// nothing is appended to it. Rewrite writes a new file, and resets the error.
	failed error

	// mu guards the file, its length as far as the records are whole, and whether a torn record was
	// cut off. These fields are changed only while working holds a value.
	mu   sync.Mutex
	file diskFile
	size int64
	torn bool
}

func newDirJournal(s *dirStore, id string, writer bool) *dirJournal {
	return &dirJournal{store: s, id: id, writer: writer, working: make(chan struct{}, 1), stored: map[Hash]bool{}}
}

// write calls f while no other operation writes. An error names op and the session.
func (j *dirJournal) write(ctx context.Context, op string, f func() error) error {
	err := ctx.Err()
	if err == nil {
		select {
		case j.working <- struct{}{}:
			defer func() { <-j.working }()
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	switch {
	case err != nil:
	case j.closed:
		err = fs.ErrClosed
	case !j.writer:
		err = ErrReadOnly
	default:
		err = f()
	}
	return Error(op, j.id, err)
}

// openFile opens the journal file for writing. It cuts off the end of a record that a crash left
// incomplete, and removes a file that was not completed.
func (j *dirJournal) openFile(flag int) (err error) {
	if j.file, err = j.disk.open(journalName, os.O_RDWR|flag); err != nil {
		return err
	}
	size, err := j.disk.size(journalName, j.file)
	if err == nil {
		j.size, err = lastLineEnd(j.file, size)
	}
	if err == nil && j.size < size {
		j.torn = true
		err = j.file.Truncate(j.size)
	}
	return errors.Join(err, ignoreMissing(j.disk.remove(newName)))
}

// lastLineEnd returns the offset behind the last line feed in the first size bytes of f.
func lastLineEnd(f io.ReaderAt, size int64) (int64, error) {
	buf := make([]byte, 64<<10)
	for size > 0 {
		chunk := buf[:min(size, int64(len(buf)))]
		if _, err := f.ReadAt(chunk, size-int64(len(chunk))); err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		size -= int64(len(chunk))
		if i := bytes.LastIndexByte(chunk, '\n'); i >= 0 {
			return size + int64(i) + 1, nil
		}
	}
	return 0, nil
}

// Records implements [Journal]. A reader does not report an incomplete line at the end: another
// process may be writing it.
func (j *dirJournal) Records(ctx context.Context) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for r, err := range j.Located(ctx) {
			if !yield(r.Line, err) {
				return
			}
		}
	}
}

// Located implements [Locator].
func (j *dirJournal) Located(ctx context.Context) iter.Seq2[Located, error] {
	return func(yield func(Located, error) bool) {
		f, size, torn, err := j.reader(ctx)
		if err != nil {
			yield(Located{}, Error("read", j.id, err))
			return
		}
		defer f.Close()
		lines, left := 0, false
		var at Place
		section := io.NewSectionReader(f, 0, size)
		in := bufio.NewReaderSize(section, 64<<10)
		err = ReadRecords(in, func(n int, record []byte, err error) bool {
			if n != lines {
				end, _ := section.Seek(0, io.SeekCurrent) // never fails
				end -= int64(in.Buffered())
				at = Place{at.At + at.Size, end - at.At - at.Size}
			}
			switch {
			case ctx.Err() != nil:
				yield(Located{}, Error("read", j.id, ctx.Err()))
				left = true
			case errors.Is(err, errTorn):
			case err != nil:
				left = !yield(Located{}, j.damage(n, err))
			default:
				left = !yield(Located{bytes.Clone(record), at}, nil)
			}
			lines = n
			return !left
		})
		switch {
		case left:
		case err != nil:
			yield(Located{}, Error("read", j.id, err))
		case torn:
			yield(Located{}, j.damage(lines+1, errTorn))
		}
	}
}

// End implements [Locator].
func (j *dirJournal) End() int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.size
}

func (j *dirJournal) damage(record int, err error) error {
	return &DamageError{OpError: &OpError{Op: "read", Session: j.id, Err: err}, Record: record,
		Torn: errors.Is(err, errTorn)}
}

// reader opens the journal once more. It returns the length of what is to be read of it, and whether
// more was cut off.
func (j *dirJournal) reader(ctx context.Context) (f diskFile, size int64, torn bool, err error) {
	if err := ctx.Err(); err != nil {
		return nil, 0, false, err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	size = math.MaxInt64
	if j.writer {
		size = j.size
	}
	f, err = j.disk.open(journalName, os.O_RDONLY)
	return f, size, j.torn, err
}

// Append implements [Journal].
func (j *dirJournal) Append(ctx context.Context, durable bool, records ...[]byte) error {
	return j.write(ctx, "append", func() error { return j.append(durable, records...) })
}

func (j *dirJournal) append(durable bool, records ...[]byte) error {
	lines, err := encodeLines(records)
	if err != nil {
		return err
	}
	if j.failed != nil {
		return fmt.Errorf("an earlier flush failed: %w", j.failed)
	}
	if j.cut {
		if err := j.file.Truncate(j.size); err != nil {
			return fmt.Errorf("cut off what an earlier append left: %w", err)
		}
		j.cut = false
	}
	if err := j.unchanged(j.size); err != nil {
		return err
	}
	if err = j.writeEnd(lines, durable); err != nil {
		if cut := j.file.Truncate(j.size); cut != nil {
			j.cut = true
			err = fmt.Errorf("%w, and %w: %w", err, ErrUncertain, cut)
		}
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.size += int64(len(lines))
	return nil
}

// writeEnd writes lines with one call, so that a reader sees few incomplete ones.
func (j *dirJournal) writeEnd(lines []byte, durable bool) error {
	if len(lines) > 0 {
		if _, err := j.file.WriteAt(lines, j.size); err != nil {
			return err
		}
	}
	if durable {
		if j.failed = j.file.Sync(); j.failed != nil {
			return j.failed
		}
	}
	// The directory may have been moved or removed while the records were written.
	return j.unchanged(j.size + int64(len(lines)))
}

// unchanged returns an error if the file is not where it was opened, or not as long as it should
// be. Then another program has done something to it.
func (j *dirJournal) unchanged(size int64) error {
	got, err := j.disk.size(journalName, j.file)
	if err != nil {
		return err
	}
	if got != size {
		return fmt.Errorf("another program changed the journal: it has %d bytes, not %d", got, size)
	}
	return nil
}

// Rewrite implements [Journal]. The argument records may read this journal, but must not write to
// it.
func (j *dirJournal) Rewrite(ctx context.Context, records iter.Seq[[]byte], keep func(Hash) bool) error {
	return j.write(ctx, "rewrite", func() error {
		if _, err := j.disk.size(journalName, j.file); err != nil {
			return err
		}
		if err := j.replace(ctx, records); err != nil {
			return err
		}
		return j.removeObjects(keep)
	})
}

// replace writes records to a new file, and puts it in the place of the journal.
func (j *dirJournal) replace(ctx context.Context, records iter.Seq[[]byte]) error {
	var size int64
	err := j.writeNew(func(w io.Writer) error {
		var line []byte
		for r := range records {
			if err := cmp.Or(ctx.Err(), CheckRecord(r)); err != nil {
				return err
			}
			line = appendLine(line[:0], r)
			if _, err := w.Write(line); err != nil {
				return err
			}
			size += int64(len(line))
		}
		return ctx.Err()
	})
	if err != nil {
		return err
	}
	// Readers of this process wait, so that they do not open one file and take the length of the other.
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.disk.rename(newName, journalName); err != nil {
		return err
	}
	f, err := j.disk.open(journalName, os.O_RDWR)
	if err != nil {
		return err
	}
	j.file.Close()
	j.file, j.size, j.torn, j.cut = f, size, false, false
	j.failed = j.disk.sync(".")
	return j.failed
}

// writeNew writes and flushes a new file, to which the caller gives its name.
func (j *dirJournal) writeNew(write func(w io.Writer) error) error {
	f, err := j.disk.open(newName, os.O_WRONLY|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(io.NewOffsetWriter(f, 0), 32<<10)
	if err = write(w); err == nil {
		err = w.Flush()
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, ignoreMissing(j.disk.remove(newName)))
	}
	return nil
}

// Describe implements [Journal].
func (j *dirJournal) Describe(ctx context.Context, e Entry) error {
	e.ID = j.id
	return j.store.start(ctx, "describe", j.id, func(d disk) error {
		if _, _, err := j.disk.stat(journalName); err != nil { // also if the journal is closed
			return err
		}
		if _, _, err := d.stat(j.id + "/" + journalName); err != nil {
			return err
		}
		return j.store.describe(ctx, d, e)
	})
}

// Close implements [Journal].
func (j *dirJournal) Close() error {
	j.working <- struct{}{}
	defer func() { <-j.working }()
	if j.closed {
		return nil
	}
	j.closed = true
	var err error
	if j.file != nil {
		err = j.file.Close()
	}
	if j.lock != nil {
		_ = j.lock.Truncate(0) // the description only informs
		j.disk.unlock(j.lock)
		err = errors.Join(err, j.lock.Close())
	}
	return Error("close", j.id, errors.Join(err, j.disk.close()))
}
