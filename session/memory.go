package session

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"iter"
	"maps"
	"os"
	"slices"
	"sync"
	"time"
)

// Memory returns a store that keeps sessions in memory, for conversations that must leave nothing
// on disk. The sessions are lost when the process ends, also those that were appended durably.
func Memory() Store { return &memoryStore{sessions: map[string]*memorySession{}} }

type memoryStore struct {
	mu       sync.Mutex
	sessions map[string]*memorySession
}

type memorySession struct {
	records [][]byte // never changed, only appended to or replaced
	objects map[Hash][]byte
	entry   Entry
	used    time.Time
	writer  *memoryJournal
	since   time.Time
}

// memoryJournal is an open session. The mutex of the store guards everything.
type memoryJournal struct {
	store   *memoryStore
	id      string
	session *memorySession
	write   bool
	closed  bool
}

// Create implements [Store].
func (s *memoryStore) Create(ctx context.Context, id string) (Journal, error) {
	if err := errors.Join(CheckID(id), ctx.Err()); err != nil {
		return nil, journalError("create", id, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sessions[id] != nil {
		return nil, journalError("create", id, fs.ErrExist)
	}
	now := time.Now()
	m := &memorySession{objects: map[Hash][]byte{}, used: now, since: now}
	j := &memoryJournal{store: s, id: id, session: m, write: true}
	m.writer, s.sessions[id] = j, m
	return j, nil
}

// Open implements [Store].
func (s *memoryStore) Open(ctx context.Context, id string, write bool) (Journal, error) {
	if err := errors.Join(CheckID(id), ctx.Err()); err != nil {
		return nil, journalError("open", id, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.sessions[id]
	if m == nil {
		return nil, journalError("open", id, fs.ErrNotExist)
	}
	j := &memoryJournal{store: s, id: id, session: m, write: write}
	if write {
		if err := m.busy("open", id); err != nil {
			return nil, err
		}
		m.writer, m.since = j, time.Now()
	}
	return j, nil
}

// busy returns a *BusyError if the session has a writer.
func (m *memorySession) busy(op, id string) error {
	if m.writer == nil {
		return nil
	}
	return &BusyError{JournalError: &JournalError{Op: op, Session: id},
		Holder: Holder{PID: os.Getpid(), Program: "this program", Since: m.since}}
}

// List implements [Store].
func (s *memoryStore) List(ctx context.Context) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for _, e := range s.entries() {
			if err := ctx.Err(); err != nil {
				yield(Entry{}, err)
				return
			}
			if !yield(e, nil) {
				return
			}
		}
	}
}

func (s *memoryStore) entries() []Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []Entry
	for id, m := range s.sessions {
		e := m.entry
		if e.bare() {
			e = Entry{ID: id, Used: m.used}
		}
		list = append(list, e)
	}
	return list
}

// Delete implements [Store].
func (s *memoryStore) Delete(ctx context.Context, id string) error {
	if err := errors.Join(CheckID(id), ctx.Err()); err != nil {
		return journalError("delete", id, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.sessions[id]
	if m == nil {
		return journalError("delete", id, fs.ErrNotExist)
	}
	if err := m.busy("delete", id); err != nil {
		return err
	}
	delete(s.sessions, id)
	return nil
}

// Size implements [Sizer].
func (s *memoryStore) Size(_ context.Context, id string) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.sessions[id]
	if m == nil {
		return 0, journalError("measure", id, fs.ErrNotExist)
	}
	var n int
	for _, r := range m.records {
		n += len(r)
	}
	for _, data := range m.objects {
		n += len(data)
	}
	return int64(n), nil
}

// locked calls f with the mutex held, unless the journal is closed, or is to be written and was
// opened for reading.
func (j *memoryJournal) locked(ctx context.Context, op string, write bool, f func() error) error {
	j.store.mu.Lock()
	defer j.store.mu.Unlock()
	err := ctx.Err()
	switch {
	case err != nil:
	case j.closed:
		err = fs.ErrClosed
	case write && !j.write:
		err = ErrReadOnly
	default:
		err = f()
	}
	return journalError(op, j.id, err)
}

// Records implements [Journal].
func (j *memoryJournal) Records(ctx context.Context) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		var records [][]byte
		err := j.locked(ctx, "read", false, func() error {
			records = j.session.records
			return nil
		})
		for _, r := range records {
			if err = journalError("read", j.id, ctx.Err()); err != nil {
				break
			}
			if !yield(bytes.Clone(r), nil) {
				return
			}
		}
		if err != nil {
			yield(nil, err)
		}
	}
}

// Append implements [Journal].
func (j *memoryJournal) Append(ctx context.Context, _ bool, records ...[]byte) error {
	return j.locked(ctx, "append", true, func() error {
		added, err := copyRecords(ctx, slices.Values(records))
		if err != nil {
			return err
		}
		j.session.records = append(j.session.records, added...)
		j.session.used = time.Now()
		return nil
	})
}

func copyRecords(ctx context.Context, records iter.Seq[[]byte]) (list [][]byte, err error) {
	for r := range records {
		if err := errors.Join(ctx.Err(), CheckRecord(r)); err != nil {
			return nil, err
		}
		list = append(list, bytes.Clone(r))
	}
	return list, nil
}

// Put implements [Journal].
func (j *memoryJournal) Put(ctx context.Context, hash Hash, data []byte) error {
	return j.locked(ctx, "put", true, func() error {
		if err := CheckObject(hash, data); err != nil {
			return err
		}
		if _, ok := j.session.objects[hash]; !ok {
			j.session.objects[hash] = bytes.Clone(data)
		}
		return nil
	})
}

// Get implements [Journal].
func (j *memoryJournal) Get(ctx context.Context, hash Hash) (data []byte, err error) {
	err = j.locked(ctx, "get", false, func() error {
		stored, ok := j.session.objects[hash]
		if !ok {
			return fs.ErrNotExist
		}
		data = append([]byte{}, stored...)
		return nil
	})
	return data, err
}

// Rewrite implements [Journal].
func (j *memoryJournal) Rewrite(ctx context.Context, records iter.Seq[[]byte],
	keep func(Hash) bool) error {
	// The sequence may read this journal, so the mutex is not held while it is read.
	if err := j.locked(ctx, "rewrite", true, func() error { return nil }); err != nil {
		return err
	}
	list, err := copyRecords(ctx, records)
	if err != nil {
		return journalError("rewrite", j.id, err)
	}
	return j.locked(ctx, "rewrite", true, func() error {
		j.session.records = list
		maps.DeleteFunc(j.session.objects, func(h Hash, _ []byte) bool { return !keep(h) })
		return nil
	})
}

// Describe implements [Journal].
func (j *memoryJournal) Describe(ctx context.Context, e Entry) error {
	return j.locked(ctx, "describe", false, func() error {
		if j.store.sessions[j.id] != j.session {
			return fs.ErrNotExist // it was deleted
		}
		e.ID = j.id
		j.session.entry = e
		return nil
	})
}

// Close implements [Journal].
func (j *memoryJournal) Close() error {
	j.store.mu.Lock()
	defer j.store.mu.Unlock()
	j.closed = true
	if j.session.writer == j {
		j.session.writer = nil
	}
	return nil
}
