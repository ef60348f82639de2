package journal

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// The names in the directory of a session.
const (
	journalName = "journal.jsonl"
	lockName    = "lock"
	objectsName = "objects"
	newName     = "new" // of a file that is being written, and is then renamed
)

// heirPause is how long a process waits, up to 100 times, for the lock of one that has ended. A process that is killed
// while it starts a command leaves its lock to the copy of itself that is about to become the command.
const heirPause = 10 * time.Millisecond

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
//	ID/journal.jsonl     records, one in a line; without this file there is no session
//	ID/objects/abcd…     objects, compressed with flate, named after their hashes
//	ID/lock              is locked by the writer, and describes it
//	.index               a journal of descriptions of the sessions; the last one of a session counts
type dirStore struct {
	path     string
	unlocked bool
	open     func(path string) (disk, error)
	index    sync.Mutex // held while the index is written, if there is no lock

	compressors sync.Pool // of *flate.Writer
}

// DirOption configures [Dir].
type DirOption func(*dirStore) error

// WithoutLock opens sessions without an operating system lock, so that nothing prevents two
// writers. It is for file systems that have no locks, on which opening a session for writing is
// otherwise an error for which errors.Is(err, [ErrNoLock]) is true. The host must then make sure
// that a session has only one writer.
func WithoutLock() DirOption {
	return func(s *dirStore) error { s.unlocked = true; return nil }
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
		if opt == nil {
			return nil, errors.New("open the directory of sessions: option is nil")
		}
		if err := opt(s); err != nil {
			return nil, err
		}
	}
	if path == "" { // a missing setting must not put conversations where the process happens to be
		return nil, errors.New("open the directory of sessions: its name is empty")
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

// Paths returns the directory of the store: see [Store].
func (s *dirStore) Paths() []string {
	if s.path == "" { // it is in memory
		return nil
	}
	return []string{s.path}
}

// Error returns an error with the operation and the session, unless it names them already. It returns nil if err is nil.
func Error(op, id string, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*OpError](err); ok {
		return err
	}
	return &OpError{Op: op, Session: id, Err: err}
}

// start calls f with the directory of the store. An error names the operation and the session.
func (s *dirStore) start(ctx context.Context, op, id string, f func(d disk) error) error {
	err := cmp.Or(CheckID(id), ctx.Err())
	if err == nil {
		var d disk
		if d, err = s.open(s.path); err == nil {
			defer d.close()
			err = f(d)
		}
	}
	return Error(op, id, err)
}

// Create implements [Store].
func (s *dirStore) Create(ctx context.Context, id string) (j Journal, err error) {
	err = s.start(ctx, "create", id, func(d disk) error {
		j, err = s.openWriter(ctx, "create", d, id, os.O_CREATE|os.O_EXCL)
		if _, busy := errors.AsType[*BusyError](err); busy {
			err = fmt.Errorf("it is being created or open: %w", fs.ErrExist)
		}
		return err
	})
	return j, err
}

// Open implements [Store].
func (s *dirStore) Open(ctx context.Context, id string, write bool) (j Journal, err error) {
	err = s.start(ctx, "open", id, func(d disk) error {
		// Without this, a lock would be left in a directory that does not hold a session.
		f, err := d.open(id+"/"+journalName, os.O_RDONLY)
		if err != nil {
			return err
		}
		f.Close()
		if write {
			j, err = s.openWriter(ctx, "open", d, id, 0)
			return err
		}
		r := newDirJournal(s, id, false)
		if r.disk, err = d.sub(id); err == nil {
			j = r
		}
		return err
	})
	return j, err
}

// openWriter opens a session for writing. The flags are those for opening the journal file.
func (s *dirStore) openWriter(ctx context.Context, op string, d disk, id string, flag int) (Journal, error) {
	j, err := s.acquire(ctx, op, d, id, flag != 0)
	if err != nil {
		return nil, err
	}
	if err = j.openFile(flag); err == nil {
		if flag != 0 { // a deletion that was interrupted may have left objects
			err = cmp.Or(j.removeObjects(func(Hash) bool { return false }), j.file.Sync())
		}
		// A process that was killed may have left names that are not durable.
		err = cmp.Or(err, ignoreExisting(j.disk.mkdir(objectsName)), j.disk.sync(objectsName), j.disk.sync("."), d.sync("."))
		if err == nil {
			return j, nil
		}
		if flag != 0 {
			_ = j.disk.remove(journalName)
		}
	}
	_ = j.discard(d)
	return nil, err
}

// acquire locks the directory of a session for writing. With create, it makes the directory.
func (s *dirStore) acquire(ctx context.Context, op string, d disk, id string, create bool) (*dirJournal, error) {
	for tries := 100; ; tries-- {
		var err error
		if create {
			err = ignoreExisting(d.mkdir(id))
		}
		j := newDirJournal(s, id, true)
		if err == nil {
			j.disk, err = d.sub(id)
		}
		if err == nil && !s.unlocked {
			if j.lock, err = takeLock(op, id, j.disk); err != nil {
				j.disk.close()
			}
		}
		if err == nil {
			return j, nil
		}
		// Another process may have deleted the session meanwhile, and made it anew.
		again := errors.Is(err, errMoved) || create && errors.Is(err, fs.ErrNotExist)
		busy, _ := errors.AsType[*BusyError](err)
		held := busy != nil && busy.Holder.ended()
		if !again && !held || tries == 0 {
			return nil, err
		}
		if held {
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-time.After(heirPause):
			}
		}
	}
}

// discard closes the journal. If there is no journal file, it removes the directory of the session: as
// long as the lock is held, nobody else uses it.
func (j *dirJournal) discard(store disk) error {
	defer j.Close()
	if _, _, err := j.disk.stat(journalName); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	err := j.removeObjects(func(Hash) bool { return false })
	for _, name := range []string{newName, objectsName, lockName} {
		// Foreign files may be in a directory.
		err = errors.Join(err, ignoreExisting(ignoreMissing(j.disk.remove(name))))
	}
	j.Close()
	return errors.Join(err, ignoreExisting(ignoreMissing(store.remove(j.id))))
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
		err = &BusyError{OpError: &OpError{Op: op, Session: id}, Holder: readHolder(f)}
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

// ended reports whether the process was on this machine, and is gone.
func (h *Holder) ended() bool {
	if host, err := os.Hostname(); err != nil || h.PID == 0 || h.Host != host {
		return false
	}
	p, err := os.FindProcess(h.PID)
	if err != nil {
		return false
	}
	defer p.Release()
	return errors.Is(p.Signal(syscall.Signal(0)), os.ErrProcessDone)
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
	return s.start(ctx, "delete", id, func(d disk) error {
		j, err := s.acquire(ctx, "delete", d, id, false)
		if err != nil {
			return err
		}
		if _, _, err := j.disk.stat(journalName); err != nil {
			return errors.Join(err, j.discard(d))
		}
		// A session that is created later with the same id must not inherit the description.
		if err = s.describe(ctx, d, Entry{ID: id}); err == nil {
			// Without its journal, the session is gone. Its objects go only once that is durable.
			err = cmp.Or(j.disk.remove(journalName), j.disk.sync("."))
		}
		if err != nil {
			j.Close()
			return err
		}
		return j.discard(d)
	})
}

// Size returns the number of bytes of the journal and of the objects. It implements [Sizer].
func (s *dirStore) Size(ctx context.Context, id string) (n int64, err error) {
	err = s.start(ctx, "measure", id, func(d disk) error {
		if n, _, err = d.stat(id + "/" + journalName); err != nil {
			return err
		}
		list, err := d.names(id + "/" + objectsName)
		for _, name := range list {
			size, _, err := d.stat(id + "/" + objectsName + "/" + name)
			if err = cmp.Or(ctx.Err(), ignoreMissing(err)); err != nil {
				return err
			}
			n += size
		}
		return ignoreMissing(err)
	})
	return n, err
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func ignoreExisting(err error) error {
	if errors.Is(err, fs.ErrExist) { // also if a directory is not empty
		return nil
	}
	return err
}
