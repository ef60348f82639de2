package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aycoder/aycoder/journal"
)

var (
	errChecksum = errors.New("the checksum does not match")
	errHash     = errors.New("the hash is not that of the data")
	errMoved    = errors.New("the database was moved, removed or replaced while it was open")
)

// journal is an open session.
type openJournal struct {
	store *Store
	id    string
	key   int64
	lock  journal.Journal // nil for a reader

	mu     sync.Mutex // held while something is written
	closed atomic.Bool
}

func checksum(data []byte) uint32 { return crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli)) }

// check returns an error if the journal cannot be used.
func (j *openJournal) check(ctx context.Context) error {
	if j.closed.Load() {
		return fs.ErrClosed
	}
	return ctx.Err()
}

// write calls f with a transaction, and commits it if f returns nil. If the database could not flush the commit, it may be
// there all the same after a crash.
func (j *openJournal) write(ctx context.Context, op string, db *sql.DB, f func(tx *sql.Tx) error) (err error) {
	defer wrap(ctx, op, j.id, &err)
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.check(ctx); err != nil {
		return err
	}
	if j.lock == nil {
		return journal.ErrReadOnly
	}
	// Without the lock file, another process could get the lock. It looks for both files where they were.
	if err := cmp.Or(j.lock.Append(ctx, false), j.store.moved()); err != nil {
		return err
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := f(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	if err = tx.Commit(); err == nil {
		err = j.store.moved()
	}
	if err != nil && !errors.Is(err, sql.ErrTxDone) && !errors.Is(err, ctx.Err()) {
		err = fmt.Errorf("%w: %w", journal.ErrUncertain, err)
	}
	return err
}

// Records implements [journal.Journal].
func (j *openJournal) Records(ctx context.Context) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		if err := j.records(ctx, yield); err != nil {
			wrap(ctx, "read", j.id, &err)
			yield(nil, err)
		}
	}
}

// records yields the records until yield returns false.
func (j *openJournal) records(ctx context.Context, yield func([]byte, error) bool) error {
	if err := j.check(ctx); err != nil {
		return err
	}
	rows, err := j.store.full.QueryContext(ctx, "SELECT crc, data FROM records WHERE session = ? ORDER BY n", j.key)
	if err != nil {
		return err
	}
	defer rows.Close()
	for n := 1; rows.Next(); n++ {
		var crc uint32
		var data []byte
		if err := rows.Scan(&crc, &data); err != nil {
			return err
		}
		if checksum(data) != crc {
			data, err = nil, &journal.DamageError{Record: n,
				OpError: &journal.OpError{Op: "read", Session: j.id, Err: errChecksum}}
		}
		if !yield(data, err) {
			return nil
		}
		err = nil
	}
	return rows.Err()
}

// Append implements [journal.Journal].
func (j *openJournal) Append(ctx context.Context, durable bool, records ...[]byte) error {
	db := j.store.normal
	if durable {
		db = j.store.full
	}
	return j.write(ctx, "append", db, func(tx *sql.Tx) error {
		if err := j.insert(ctx, tx, slices.Values(records)); err != nil {
			return err
		}
		// Without a change, nothing would be flushed.
		_, err := tx.ExecContext(ctx, "UPDATE sessions SET used = ? WHERE key = ?", time.Now().UnixNano(), j.key)
		return err
	})
}

func (j *openJournal) insert(ctx context.Context, tx *sql.Tx, records iter.Seq[[]byte]) error {
	for r := range records {
		if err := errors.Join(ctx.Err(), journal.CheckRecord(r)); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, "INSERT INTO records (session, crc, data) VALUES (?, ?, ?)", j.key, checksum(r),
			append([]byte{}, r...))
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

// Put implements [journal.Journal].
func (j *openJournal) Put(ctx context.Context, hash journal.Hash, data []byte) error {
	return j.write(ctx, "put", j.store.full, func(tx *sql.Tx) error {
		if err := journal.CheckObject(hash, data); err != nil {
			return err
		}
		if _, err := j.object(ctx, tx, hash); err == nil {
			// It may have been stored without being flushed.
			_, err = tx.ExecContext(ctx, "UPDATE sessions SET used = ? WHERE key = ?", time.Now().UnixNano(), j.key)
			return err
		}
		_, err := tx.ExecContext(ctx, "INSERT OR REPLACE INTO objects VALUES (?, ?, ?)", j.key, string(hash),
			append([]byte{}, data...))
		return err
	})
}

// Remove removes an object, if it is there.
func (j *openJournal) Remove(ctx context.Context, hash journal.Hash) error {
	return j.write(ctx, "remove", j.store.full, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "DELETE FROM objects WHERE session = ? AND hash = ?", j.key, string(hash))
		return err
	})
}

// Get implements [journal.Journal].
func (j *openJournal) Get(ctx context.Context, hash journal.Hash) (_ []byte, err error) {
	defer wrap(ctx, "get", j.id, &err)
	if err := j.check(ctx); err != nil {
		return nil, err
	}
	return j.object(ctx, j.store.full, hash)
}

// object reads an object, in a transaction or not.
func (j *openJournal) object(ctx context.Context, db interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}, hash journal.Hash) (data []byte, err error) {
	err = db.QueryRowContext(ctx, "SELECT data FROM objects WHERE session = ? AND hash = ?", j.key, string(hash)).Scan(&data)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, fs.ErrNotExist
	case err != nil:
		return nil, err
	case journal.HashOf(data) != hash:
		return nil, &journal.DamageError{Object: hash,
			OpError: &journal.OpError{Op: "get", Session: j.id, Err: errHash}}
	}
	return data, nil
}

// Rewrite implements [journal.Journal].
func (j *openJournal) Rewrite(ctx context.Context, records iter.Seq[[]byte], keep func(journal.Hash) bool) error {
	return j.write(ctx, "rewrite", j.store.full, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, "DELETE FROM records WHERE session = ?", j.key); err != nil {
			return err
		}
		if err := j.insert(ctx, tx, records); err != nil {
			return err
		}
		hashes, err := j.hashes(ctx, tx)
		for _, h := range hashes {
			if err == nil && !keep(h) {
				_, err = tx.ExecContext(ctx, "DELETE FROM objects WHERE session = ? AND hash = ?", j.key, string(h))
			}
		}
		return err
	})
}

func (j *openJournal) hashes(ctx context.Context, tx *sql.Tx) (list []journal.Hash, err error) {
	rows, err := tx.QueryContext(ctx, "SELECT hash FROM objects WHERE session = ?", j.key)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var h string
		if err := rows.Scan(&h); err != nil {
			return nil, err
		}
		list = append(list, journal.Hash(h))
	}
	return list, rows.Err()
}

// Describe implements [journal.Journal].
func (j *openJournal) Describe(ctx context.Context, e journal.Entry) (err error) {
	defer wrap(ctx, "describe", j.id, &err)
	if err := j.check(ctx); err != nil {
		return err
	}
	e.ID = j.id
	text, err := json.Marshal(e)
	if err != nil {
		return err
	}
	done, err := j.store.normal.ExecContext(ctx, "UPDATE sessions SET entry = ? WHERE key = ?", string(text), j.key)
	if err != nil {
		return err
	}
	if n, err := done.RowsAffected(); err != nil || n == 0 {
		return errors.Join(err, fs.ErrNotExist) // the session was deleted
	}
	return nil
}

// Close implements [journal.Journal].
func (j *openJournal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.closed.Store(true)
	if j.lock == nil {
		return nil
	}
	return j.lock.Close()
}
