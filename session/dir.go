package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// The names in the directory of a session.
const (
	journalName = "journal.jsonl"
	lockName    = "lock"
	objectsName = "objects"
	newSuffix   = ".new" // of a file that is being written, and is then renamed
)

// maxID is the length of the longest id.
const maxID = 64

// ErrNoLock is the cause of the error if the file system cannot lock files.
var ErrNoLock = errors.New("the file system has no locks")

// CheckID returns an error if id is not the id of a session: 1 to 64 lower case letters, digits
// and hyphens. Implementations of [Store] refuse other ids.
func CheckID(id string) error {
	if id == "" || len(id) > maxID || strings.Trim(id, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		return fmt.Errorf("the id %.80q is not 1 to %d of a-z, 0-9 and -: %w", id, maxID, fs.ErrInvalid)
	}
	return nil
}

// dirStore is a store in files. Each session has a directory, which is named after its id:
//
//	index.jsonl            descriptions of the sessions; the last one of a session counts
//	ID/journal.jsonl       records, one in a line; without this file there is no session
//	ID/objects/ab/abcd…    objects, compressed with flate, named after their hashes
//	ID/lock                is locked by the writer, and describes it
type dirStore struct {
	path     string
	unlocked bool
	open     func(path string) (disk, error)
}

// DirOption configures [Dir].
type DirOption func(*dirStore) error

// WithoutLock opens sessions without an operating system lock, so that nothing prevents two
// writers. It is for file systems that have no locks, on which opening a session for writing is
// otherwise an error for which errors.Is(err, [ErrNoLock]) is true. The host must then make sure
// that a session has only one writer.
func WithoutLock() DirOption {
	return func(s *dirStore) error {
		s.unlocked = true
		return nil
	}
}

// Dir returns a store that keeps each session in a directory below path. It creates the directory
// path if it is missing. Only the user can read what is in it.
//
// The writer of a session holds an operating system lock, which ends with its process. On a
// network file system, the lock is that of the server. If the file system is mounted so that locks
// are local, as with the option local_lock of NFS, writers on different machines do not exclude
// each other.
func Dir(path string, opts ...DirOption) (Store, error) {
	s := &dirStore{open: openDisk}
	for _, opt := range opts {
		if err := opt(s); err != nil {
			return nil, err
		}
	}
	var err error
	if s.path, err = filepath.Abs(path); err == nil {
		err = makeDirs(s.path)
	}
	if err != nil {
		return nil, fmt.Errorf("open the directory of sessions: %w", err)
	}
	return s, nil
}

// journalError adds the operation and the session to an error, unless it names them already.
func journalError(op, id string, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*JournalError](err); ok {
		return err
	}
	return &JournalError{Op: op, Session: id, Err: err}
}

// Create implements [Store].
func (s *dirStore) Create(ctx context.Context, id string) (Journal, error) {
	j, err := s.start(ctx, id, s.create)
	if err != nil {
		return nil, journalError("create", id, err)
	}
	return j, nil
}

// Open implements [Store].
func (s *dirStore) Open(ctx context.Context, id string, write bool) (Journal, error) {
	open := s.openReader
	if write {
		open = s.openWriter
	}
	j, err := s.start(ctx, id, open)
	if err != nil {
		return nil, journalError("open", id, err)
	}
	return j, nil
}

// start calls open with the directory of the store.
func (s *dirStore) start(ctx context.Context, id string,
	open func(d disk, id string) (*dirJournal, error)) (*dirJournal, error) {
	if err := CheckID(id); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	d, err := s.open(s.path)
	if err != nil {
		return nil, err
	}
	defer d.close()
	return open(d, id)
}

func (s *dirStore) create(d disk, id string) (*dirJournal, error) {
	j, err := s.acquire("create", d, id, true)
	if busy := (*BusyError)(nil); errors.As(err, &busy) {
		return nil, fmt.Errorf("it is being created or open: %w", fs.ErrExist)
	}
	if err != nil {
		return nil, err
	}
	if _, err = j.disk.lstat(journalName); err == nil {
		j.Close()
		return nil, fs.ErrExist
	}
	err = j.createFile(d)
	switch {
	case err == nil:
		return j, nil
	case errors.Is(err, fs.ErrExist): // only without a lock
		j.Close()
	default:
		_ = j.disk.remove(journalName)
		_ = j.discard(d)
	}
	return nil, err
}

// createFile makes the empty journal, durably. A deletion that was interrupted may have left
// objects in the directory.
func (j *dirJournal) createFile(store disk) error {
	if err := j.removeObjects(func(Hash) bool { return false }); err != nil {
		return err
	}
	var err error
	if j.file, err = j.disk.open(journalName, os.O_RDWR|os.O_CREATE|os.O_EXCL); err != nil {
		return err
	}
	return errors.Join(j.file.Sync(), j.disk.sync("."), store.sync("."))
}

// discard closes the journal of a session without a journal file, and removes its directory. As
// long as the lock is held, nobody else uses the directory.
func (j *dirJournal) discard(store disk) error {
	err := removeAll(j.disk, objectsName)
	if j.lock != nil {
		err = errors.Join(err, ignoreMissing(j.disk.remove(lockName)))
	}
	j.Close()
	if gone := store.remove(j.id); !errors.Is(gone, fs.ErrExist) { // it may hold foreign files
		err = errors.Join(err, ignoreMissing(gone))
	}
	return err
}

func (s *dirStore) openReader(d disk, id string) (*dirJournal, error) {
	sub, err := d.sub(id)
	if err != nil {
		return nil, err
	}
	f, err := sub.open(journalName, os.O_RDONLY)
	if err != nil {
		sub.close()
		return nil, err
	}
	f.Close()
	return newDirJournal(s, id, sub, nil), nil
}

func (s *dirStore) openWriter(d disk, id string) (*dirJournal, error) {
	// Without this, a lock would be left in a directory that does not hold a session.
	r, err := s.openReader(d, id)
	if err != nil {
		return nil, err
	}
	r.Close()
	j, err := s.acquire("open", d, id, false)
	if err != nil {
		return nil, err
	}
	if j.file, err = j.disk.open(journalName, os.O_RDWR); err == nil {
		err = j.repair()
	}
	if err == nil {
		// A process that was killed may have left names that are not durable.
		err = errors.Join(j.disk.sync("."), d.sync("."))
	}
	switch {
	case err == nil:
		return j, nil
	case errors.Is(err, fs.ErrNotExist): // the session was deleted meanwhile
		_ = j.discard(d)
	default:
		j.Close()
	}
	return nil, err
}

// acquire opens the directory of a session, or creates it, and locks it for writing.
func (s *dirStore) acquire(op string, d disk, id string, create bool) (*dirJournal, error) {
	const tries = 100
	for i := 0; ; i++ {
		if create {
			if err := d.mkdir(id); err != nil && !errors.Is(err, fs.ErrExist) {
				return nil, err
			}
		}
		j, err := s.tryAcquire(op, d, id)
		// Another process may have deleted the session meanwhile, and made it anew.
		again := errors.Is(err, errMoved) || create && errors.Is(err, fs.ErrNotExist)
		if !again || i == tries {
			return j, err
		}
	}
}

func (s *dirStore) tryAcquire(op string, d disk, id string) (*dirJournal, error) {
	sub, err := d.sub(id)
	if err != nil {
		return nil, err
	}
	var lock diskFile
	if !s.unlocked {
		if lock, err = takeLock(op, id, sub); err != nil {
			sub.close()
			return nil, err
		}
	}
	j := newDirJournal(s, id, sub, lock)
	j.writer = true
	return j, nil
}

// takeLock locks the lock file, and describes this process in it.
func takeLock(op, id string, d disk) (diskFile, error) {
	f, err := d.open(lockName, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	ok, err := d.lock(f)
	switch {
	case err != nil:
		err = fmt.Errorf("%w: %w", ErrNoLock, err)
	case !ok:
		err = &BusyError{JournalError: &JournalError{Op: op, Session: id}, Holder: readHolder(f)}
	default:
		// The lock is good only if the next process will find the same file.
		if _, err = d.size(lockName, f); err == nil {
			writeHolder(f)
			return f, nil
		}
	}
	f.Close()
	return nil, err
}

const maxHolder = 4 << 10

// readHolder reads the description of the process that has locked f, as far as there is one. It
// may be that of the holder before, if the present one has not written its description yet.
func readHolder(f diskFile) (h Holder) {
	data, err := io.ReadAll(io.NewSectionReader(f, 0, maxHolder))
	if err != nil || json.Unmarshal(data, &h) != nil {
		return Holder{}
	}
	return h
}

// writeHolder describes this process in the lock file. The description only informs, so errors do
// not matter.
func writeHolder(f diskFile) {
	h := Holder{PID: os.Getpid(), Since: time.Now().Round(time.Second)}
	h.Host, _ = os.Hostname()
	if exe, err := os.Executable(); err == nil {
		h.Program = filepath.Base(exe)
	}
	data, err := json.Marshal(h)
	if err == nil && f.Truncate(0) == nil {
		_, _ = f.WriteAt(append(data, '\n'), 0)
	}
}

// Delete implements [Store].
func (s *dirStore) Delete(ctx context.Context, id string) error {
	_, err := s.start(ctx, id, func(d disk, id string) (*dirJournal, error) {
		return nil, s.delete(ctx, d, id)
	})
	return journalError("delete", id, err)
}

func (s *dirStore) delete(ctx context.Context, d disk, id string) error {
	if _, err := d.lstat(id); err != nil {
		return err
	}
	j, err := s.acquire("delete", d, id, false)
	if err != nil {
		return err
	}
	if _, err := j.disk.lstat(journalName); err != nil {
		return errors.Join(err, j.discard(d))
	}
	// A session that is created later with the same id must not inherit the description.
	if err := s.describe(ctx, d, Entry{ID: id}); err != nil {
		j.Close()
		return err
	}
	// Without its journal, the session is gone. Its objects go only once that is durable.
	err = j.disk.remove(journalName)
	if err == nil {
		err = j.disk.sync(".")
	}
	if err != nil {
		j.Close()
		return err
	}
	return j.discard(d)
}

// Size returns the number of bytes in the files of a session. It implements [Sizer].
func (s *dirStore) Size(ctx context.Context, id string) (int64, error) {
	var n int64
	_, err := s.start(ctx, id, func(d disk, id string) (*dirJournal, error) {
		sub, err := d.sub(id)
		if err != nil {
			return nil, err
		}
		defer sub.close()
		n, err = treeSize(ctx, sub, ".")
		return nil, err
	})
	return n, journalError("measure", id, err)
}

func treeSize(ctx context.Context, d disk, dir string) (n int64, err error) {
	list, err := d.names(dir)
	if err != nil {
		return 0, ignoreMissing(err)
	}
	for _, name := range list {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		name = dir + "/" + name
		info, err := d.lstat(name)
		size := int64(0)
		switch {
		case err != nil:
			err = ignoreMissing(err)
		case info.IsDir():
			size, err = treeSize(ctx, d, name)
		default:
			size = info.Size()
		}
		if err != nil {
			return 0, err
		}
		n += size
	}
	return n, nil
}

// removeAll removes a directory with everything in it. It does not follow links.
func removeAll(d disk, dir string) error {
	list, err := d.names(dir)
	if err != nil {
		return ignoreMissing(err)
	}
	for _, name := range list {
		name = dir + "/" + name
		remove := d.remove
		if info, err := d.lstat(name); err == nil && info.IsDir() {
			remove = func(name string) error { return removeAll(d, name) }
		}
		if err := ignoreMissing(remove(name)); err != nil {
			return err
		}
	}
	return ignoreMissing(d.remove(dir))
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
