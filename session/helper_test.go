package session_test

import (
	"context"
	"io/fs"
	"iter"
	"maps"
	"slices"
	"sync"

	"github.com/aycoder/aycoder/journal"
)

// memory is a store in memory, whose journals can be opened again.
type memory struct {
	mu       sync.Mutex
	sessions map[string]*memoryJournal
}

type memoryJournal struct {
	mu      sync.Mutex
	records [][]byte
	objects map[journal.Hash][]byte
	entry   journal.Entry
	// limit, if it is set, is the number of records after which Append fails.
	limit int
	fail  error
	full  error // of Put
	// flushed is the number of records that survive a loss of power.
	flushed int
	// damaged are the positions of records that cannot be read.
	damaged map[int]bool
}

func newMemory() *memory { return &memory{sessions: map[string]*memoryJournal{}} }

func (m *memory) Create(ctx context.Context, id string) (journal.Journal, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	j := &memoryJournal{objects: map[journal.Hash][]byte{}}
	m.sessions[id] = j
	return j, nil
}

func (m *memory) Open(ctx context.Context, id string, write bool) (journal.Journal, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if j := m.sessions[id]; j != nil {
		return j, nil
	}
	return nil, fs.ErrNotExist
}

func (m *memory) List(ctx context.Context) iter.Seq2[journal.Entry, error] { return nil }
func (m *memory) Delete(ctx context.Context, id string) error              { return nil }

func (j *memoryJournal) Records(ctx context.Context) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for i, r := range j.records {
			var err error
			if j.damaged[i] {
				base := &journal.OpError{Op: "read", Err: fs.ErrInvalid}
				r, err = nil, &journal.DamageError{OpError: base, Record: i + 1}
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

func (j *memoryJournal) Append(ctx context.Context, durable bool, records ...[]byte) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.fail != nil && len(j.records) >= j.limit {
		return j.fail
	}
	for _, r := range records {
		j.records = append(j.records, slices.Clone(r))
	}
	if durable {
		j.flushed = len(j.records)
	}
	return nil
}

// afterPowerLoss returns a store with what a loss of power now would leave for certain.
func (m *memory) afterPowerLoss() *memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	left := newMemory()
	for id, j := range m.sessions {
		j.mu.Lock()
		left.sessions[id] = &memoryJournal{records: slices.Clone(j.records[:j.flushed]), objects: maps.Clone(j.objects)}
		j.mu.Unlock()
	}
	return left
}

func (j *memoryJournal) Put(ctx context.Context, h journal.Hash, data []byte) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.full == nil {
		j.objects[h] = slices.Clone(data)
	}
	return j.full
}

func (j *memoryJournal) Get(ctx context.Context, h journal.Hash) ([]byte, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if d, ok := j.objects[h]; ok {
		return d, nil
	}
	return nil, fs.ErrNotExist
}

func (j *memoryJournal) Rewrite(ctx context.Context, records iter.Seq[[]byte], keep func(journal.Hash) bool) error {
	j.records = slices.Collect(records)
	j.mu.Lock()
	defer j.mu.Unlock()
	maps.DeleteFunc(j.objects, func(h journal.Hash, _ []byte) bool { return !keep(h) })
	return nil
}

func (j *memoryJournal) Describe(ctx context.Context, e journal.Entry) error { j.entry = e; return nil }
func (j *memoryJournal) Close() error                                        { return nil }
