package journal

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"math/bits"
	"os"
	"time"
)

// The index is a journal that has a record for each description that a session has stored. The last
// one of a session counts. Only deletions are flushed: if the index is lost, List finds the sessions in
// their directories, and the owner of the sessions describes them again. A damaged line may have been
// the last one of any session, so the lines before it do not count. After a loss of power, the index
// may have lost its last lines without a trace. Then the descriptions before these count, until the
// sessions are described again.
const (
	indexName = ".index" // which is not the id of a session
	// indexSlack is the number of bytes of outdated lines that the index always may have.
	indexSlack = 256 << 10
	// indexWait is how long a process waits for others that write the index. One that is stopped keeps the lock.
	indexWait = 5 * time.Second
)

// withIndex opens the index for writing, and waits for other processes that do so.
func (s *dirStore) withIndex(ctx context.Context, d disk, f func(index *dirJournal) error) error {
	if s.unlocked {
		s.index.Lock()
		defer s.index.Unlock()
	}
	wait, cancel := context.WithTimeout(ctx, indexWait)
	defer cancel()
	j, err := s.acquire(ctx, "describe", d, indexName, true)
	for errors.As(err, new(*BusyError)) {
		select {
		case <-wait.Done():
			return cmp.Or(ctx.Err(), err)
		case <-time.After(time.Millisecond):
			j, err = s.acquire(ctx, "describe", d, indexName, true)
		}
	}
	if err != nil {
		return err
	}
	defer j.Close()
	if err := j.openFile(os.O_CREATE); err != nil {
		return err
	}
	return f(j)
}

// describe adds an entry to the index.
func (s *dirStore) describe(ctx context.Context, d disk, e Entry) error {
	record, err := json.Marshal(e)
	if err != nil {
		return err
	}
	deleted := e.bare() // the session is about to be
	return s.withIndex(ctx, d, func(index *dirJournal) error {
		before := index.size
		if err := index.append(deleted, record); err != nil {
			return err
		}
		// List does this much sooner, but a program need not list its sessions. The size doubles before the next look.
		if index.size > 16*indexSlack && bits.Len64(uint64(index.size)) > bits.Len64(uint64(before)) {
			if _, large := readIndex(ctx, d); large {
				_ = index.replace(ctx, indexRecords(ctx, d))
			}
		}
		return nil
	})
}

// List implements [Store].
func (s *dirStore) List(ctx context.Context) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		d, err := s.open(s.path)
		if err == nil {
			defer d.close()
			err = s.list(ctx, d, func(e Entry) bool { return yield(e, nil) })
		}
		if err != nil {
			yield(Entry{}, fmt.Errorf("list sessions: %w", err))
		}
	}
}

func (s *dirStore) list(ctx context.Context, d disk, yield func(Entry) bool) error {
	// The directory is read first. If a session is created in between, the index may know it, and
	// it is left out.
	names, err := d.names(".")
	if err != nil {
		return err
	}
	entries, large := readIndex(ctx, d)
	if large {
		// If that fails, the index stays as it is.
		_ = s.withIndex(ctx, d, func(index *dirJournal) error { return index.replace(ctx, indexRecords(ctx, d)) })
	}
	for _, id := range names {
		if err := ctx.Err(); err != nil {
			return err
		}
		if CheckID(id) != nil {
			continue
		}
		e, ok := entries[id]
		if !ok || e.bare() {
			_, changed, err := d.stat(id + "/" + journalName)
			if err != nil {
				continue // it is being created or deleted
			}
			e = Entry{ID: id, Used: changed}
		}
		if !yield(e) {
			return nil
		}
	}
	return nil
}

// bare reports whether e holds no description.
func (e *Entry) bare() bool { return *e == Entry{ID: e.ID} }

// readIndex reads the entries. It also reports whether half of the lines do not count, and take space.
func readIndex(ctx context.Context, d disk) (entries map[string]Entry, large bool) {
	f, err := d.open(indexName+"/"+journalName, os.O_RDONLY)
	if err != nil {
		return nil, false
	}
	defer f.Close()
	entries = map[string]Entry{}
	lines, size := 0, 0
	_ = readLines(io.NewSectionReader(f, 0, math.MaxInt64), func(n int, record []byte, err error) bool {
		var e Entry
		lines, size = n, size+len(record)
		if err != nil && !errors.Is(err, errTorn) {
			clear(entries)
		}
		if err == nil && json.Unmarshal(record, &e) == nil {
			entries[e.ID] = e
		}
		return ctx.Err() == nil
	})
	return entries, lines >= 2*len(entries) && size > indexSlack
}

// indexRecords returns a record for each session that exists.
func indexRecords(ctx context.Context, d disk) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		entries, _ := readIndex(ctx, d)
		for id, e := range entries {
			_, _, gone := d.stat(id + "/" + journalName)
			if record, err := json.Marshal(e); err == nil && gone == nil && !e.bare() && !yield(record) {
				return
			}
		}
	}
}
