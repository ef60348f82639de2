package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"os"
	"time"
)

// The index holds a line for each description that a journal has stored, in the format of a
// journal. The last line of a session counts. Only deletions are flushed: if the index is lost, List
// finds the sessions in their directories, and the owner of the sessions describes them again. A
// damaged line may have been the last one of any session, so the lines before it do not count.
const (
	indexName = "index.jsonl"
	indexLock = "index.lock"
	// indexSlack is the number of bytes of outdated lines that the index always may have.
	indexSlack = 256 << 10
)

// describe adds an entry to the index.
func (s *dirStore) describe(ctx context.Context, d disk, e Entry) error {
	record, err := json.Marshal(e)
	if err != nil {
		return err
	}
	line, err := encodeLines([][]byte{record})
	if err != nil {
		return err
	}
	unlock, err := s.lockIndex(ctx, d)
	if err != nil {
		return err
	}
	defer unlock()
	f, err := d.open(indexName, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	size, err := lastLineEnd(f, info.Size())
	if err != nil {
		return err
	}
	if size < info.Size() {
		if err := f.Truncate(size); err != nil {
			return err
		}
	}
	if _, err := f.WriteAt(line, size); err != nil {
		_ = f.Truncate(size) // otherwise the next call does it
		return err
	}
	if e.bare() {
		return f.Sync() // the session is about to be deleted
	}
	return nil
}

// lockIndex waits for the lock of the index.
func (s *dirStore) lockIndex(ctx context.Context, d disk) (unlock func() error, err error) {
	if s.unlocked {
		return func() error { return nil }, nil
	}
	f, err := d.open(indexLock, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	for {
		ok, err := d.lock(f)
		if ok {
			return f.Close, nil
		}
		if err != nil {
			f.Close()
			return nil, fmt.Errorf("%w: %w", ErrNoLock, err)
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
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
	entries, outdated := readIndex(ctx, d)
	if outdated > indexSlack {
		s.compactIndex(ctx, d)
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
			info, err := d.lstat(id + "/" + journalName)
			if err != nil {
				continue // it is being created or deleted
			}
			e = Entry{ID: id, Used: info.ModTime()}
		}
		if !yield(e) {
			return nil
		}
	}
	return nil
}

// bare reports whether e holds no description.
func (e *Entry) bare() bool { return *e == Entry{ID: e.ID} }

// readIndex reads the entries, and the number of bytes in lines that do not count.
func readIndex(ctx context.Context, d disk) (map[string]Entry, int64) {
	f, err := d.open(indexName, os.O_RDONLY)
	if err != nil {
		return nil, 0
	}
	defer f.Close()
	entries, used := map[string]Entry{}, map[string]int{}
	var all, live int64
	_ = readLines(io.NewSectionReader(f, 0, math.MaxInt64), func(_ int, record []byte, err error) bool {
		var e Entry
		all += int64(len(record))
		if err != nil && !errors.Is(err, errTorn) {
			clear(entries)
		}
		if err == nil && json.Unmarshal(record, &e) == nil {
			live += int64(len(record) - used[e.ID])
			entries[e.ID], used[e.ID] = e, len(record)
		}
		return ctx.Err() == nil
	})
	if all-live < live {
		return entries, 0
	}
	return entries, all - live
}

// compactIndex replaces the index with one that has a line for each session that exists. If that
// fails, the index stays as it is.
func (s *dirStore) compactIndex(ctx context.Context, d disk) {
	const name = indexName + newSuffix
	unlock, err := s.lockIndex(ctx, d)
	if err != nil {
		return
	}
	defer unlock()
	entries, _ := readIndex(ctx, d)
	f, err := d.open(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return
	}
	_, err = writeRecords(ctx, f, func(yield func([]byte) bool) {
		for id, e := range entries {
			if _, err := d.lstat(id + "/" + journalName); err != nil || e.bare() {
				continue
			}
			if record, err := json.Marshal(e); err == nil && !yield(record) {
				return
			}
		}
	})
	if err == nil {
		err = f.Sync()
	}
	f.Close()
	if err == nil {
		err = d.rename(name, indexName)
	}
	if err != nil {
		_ = d.remove(name)
	}
}
