package postgres

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"iter"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/aycoder/aycoder/journal"
)

var (
	errChecksum = errors.New("the checksum does not match")
	errHash     = errors.New("the hash is not that of the data")
)

// held finds the row of a session if the token is that of its writer, and locks it to the end of the transaction. A
// change of the token waits for the lock, and a statement that has waited for such a change sees the new token. Each
// statement that writes begins with it, and returns the number of rows.
const held = "WITH held AS (SELECT key FROM sessions WHERE key = $1 AND token = $2 FOR SHARE)"

// heldAfter is held on the condition that the record before the new ones is there. A crash of PostgreSQL may have lost
// records that were not flushed, without any connection being lost that this journal was using.
const heldAfter = `WITH held AS (SELECT key FROM sessions WHERE key = $1 AND token = $2
	AND ($3 = 0 OR EXISTS (SELECT FROM records WHERE session = $1 AND n = $3)) FOR SHARE)`

const (
	insertRecords = heldAfter + `, put AS (INSERT INTO records (session, n, crc, data)
		SELECT held.key, $3 + r.i, r.crc, r.data FROM held, unnest($4::integer[], $5::bytea[]) WITH ORDINALITY AS r (crc, data, i))
		SELECT count(*) FROM held`
	insertObject = held + `, put AS (INSERT INTO objects (session, hash, data) SELECT held.key, $3, $4 FROM held
		ON CONFLICT (session, hash) DO UPDATE SET data = EXCLUDED.data WHERE sha256(objects.data) <> objects.hash)
		SELECT count(*) FROM held`
	removeObject = held + `, gone AS (DELETE FROM objects USING held WHERE session = held.key AND hash = $3)
		SELECT count(*) FROM held`
	lastRecord = "SELECT coalesce(max(n), 0) FROM records WHERE session = $1"
)

// maxBatch is the number of bytes of records in a statement, except that one record may be larger.
const maxBatch = 8 << 20

// openJournal is an open session.
type openJournal struct {
	store  *Store
	id     string
	key    int64
	closed atomic.Bool

	// turn is held, by sending to it, while something is written. It is nil for a reader, and guards what follows.
	turn  chan struct{}
	token int64
	n     int  // the number of the last record
	doubt bool // whether n is that of the last record that is known to be stored, and there may be more
}

func checksum(data []byte) int32 {
	return int32(crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli)))
}

// check returns an error if the journal cannot be used.
func (j *openJournal) check(ctx context.Context) error {
	if j.closed.Load() {
		return fs.ErrClosed
	}
	return ctx.Err()
}

// write calls f when nothing else is written.
func (j *openJournal) write(ctx context.Context, op string, f func() error) error {
	err := j.check(ctx)
	if err == nil && j.turn == nil {
		err = journal.ErrReadOnly
	}
	if err != nil {
		return wrap(ctx, op, j.id, err)
	}
	select {
	case j.turn <- struct{}{}:
	case <-ctx.Done():
		return wrap(ctx, op, j.id, ctx.Err())
	}
	defer func() { <-j.turn }()
	err = j.check(ctx)
	if err == nil && j.doubt {
		_, err = j.settle(ctx)
	}
	if err == nil {
		err = f()
	}
	if errors.Is(err, errFenced) {
		err = j.refused(ctx, op, err)
	}
	return wrap(ctx, op, j.id, err)
}

var (
	// errFenced says that a statement has found nothing that it may write to.
	errFenced = errors.New("the session has another writer")
	errSilent = errors.New("the database does not tell in time what is stored")
	errGap    = errors.New("the database has crashed and lost records that were not flushed: open the session again")
)

// refused returns the reason why a statement was refused.
func (j *openJournal) refused(ctx context.Context, op string, err error) error {
	var token int64
	switch failed := j.store.row(ctx, []any{&token}, "SELECT token FROM sessions WHERE key = $1", j.key); {
	case failed != nil:
		return missing(failed)
	case token == j.token:
		return errGap
	}
	return j.store.busy(ctx, op, j.id, err)
}

// one runs a statement that begins with held, and may be repeated.
func (j *openJournal) one(ctx context.Context, sql string, args ...any) error {
	var rows int
	err := j.store.row(ctx, []any{&rows}, sql, append([]any{j.key, j.token}, args...)...)
	return fenced(rows, err)
}

func fenced(rows int, err error) error {
	if err == nil && rows == 0 {
		return errFenced
	}
	return err
}

// Records implements [journal.Journal].
func (j *openJournal) Records(ctx context.Context) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		if err := j.records(ctx, yield); err != nil {
			yield(nil, wrap(ctx, "read", j.id, err))
		}
	}
}

// records yields the records until yield returns false. They are those of one moment.
func (j *openJournal) records(ctx context.Context, yield func([]byte, error) bool) error {
	if err := j.check(ctx); err != nil {
		return err
	}
	var rows pgx.Rows
	err := j.store.retry(ctx, func(ctx context.Context) (err error) {
		rows, err = j.store.streams.Query(ctx, "SELECT crc, data FROM records WHERE session = $1 ORDER BY n", j.key)
		return err
	})
	if err != nil {
		return err
	}
	defer rows.Close()
	for n := 1; rows.Next(); n++ {
		var crc int32
		var data []byte
		if err := rows.Scan(&crc, &data); err != nil {
			return err
		}
		if !yield(checkedRecord(j.id, n, crc, data)) {
			return nil
		}
	}
	return rows.Err()
}

// A batch is records for one statement.
type batch struct {
	crcs  []int32
	data  [][]byte
	bytes int
}

func (b *batch) add(r []byte) {
	if r == nil {
		r = []byte{} // nil would be NULL
	}
	b.crcs, b.data = append(b.crcs, checksum(r)), append(b.data, r)
	b.bytes += len(r)
}

// args returns the arguments of insertRecords for records after the n-th.
func (b *batch) args(j *openJournal, n int) []any { return []any{j.key, j.token, n, b.crcs, b.data} }

// Append implements [journal.Journal].
func (j *openJournal) Append(ctx context.Context, durable bool, records ...[]byte) error {
	return j.write(ctx, "append", func() error {
		all, size := []batch{{}}, 0
		for _, r := range records {
			if err := journal.CheckRecord(r); err != nil {
				return err
			}
			if size += len(r); all[len(all)-1].bytes+len(r) > maxBatch {
				all = append(all, batch{})
			}
			all[len(all)-1].add(r)
		}
		err := j.append(ctx, durable, all)
		if err == nil {
			j.n += len(records)
			j.store.lease.changed(j.key)
		}
		return err
	})
}

// append stores batches. If the connection is lost, it finds out whether they are stored, and sends them again if not, until
// patience is over.
func (j *openJournal) append(ctx context.Context, durable bool, all []batch) error {
	for end := time.Now().Add(j.store.patience); ; {
		err := j.send(ctx, durable, all)
		if err == nil || !unsure(ctx, err) && !lost(err) {
			return err
		}
		if !unsure(ctx, err) { // there was no connection
			if err := j.store.retry(ctx, j.store.pool.Ping); err != nil {
				return err
			}
			if time.Now().After(end) {
				return err
			}
			continue
		}
		n := j.n
		there, settled := j.settle(ctx)
		switch {
		case errors.Is(settled, errGap):
			return settled
		case settled != nil:
			return fmt.Errorf("%w: %w: %w", err, journal.ErrUncertain, settled)
		case there:
			j.n = n
			return nil
		case ctx.Err() != nil || time.Now().After(end):
			return err
		}
	}
}

// send sends batches in one round trip, as one transaction.
func (j *openJournal) send(ctx context.Context, durable bool, all []batch) error {
	if durable && len(all) == 1 {
		var rows int
		err := j.store.pool.QueryRow(ctx, insertRecords, all[0].args(j, j.n)...).Scan(&rows)
		return fenced(rows, err)
	}
	b, n, rows := &pgx.Batch{}, j.n, 0
	if !durable {
		b.Queue("SELECT set_config('synchronous_commit', 'off', true)")
	}
	for i := range all {
		b.Queue(insertRecords, all[i].args(j, n)...).QueryRow(func(row pgx.Row) error { return row.Scan(&rows) })
		n += len(all[i].data)
	}
	return fenced(rows, j.store.pool.SendBatch(ctx, b).Close())
}

// settle takes a new token, so that nothing that was sent with the present one can be stored any more, and reports whether
// there are more records than the journal knows of. If there are fewer, the database has lost some, and nothing may be
// stored after them. It also works if ctx has ended.
func (j *openJournal) settle(ctx context.Context) (there bool, err error) {
	j.doubt = true
	limit, cancel := j.store.lasting(ctx)
	defer cancel()
	var n int
	// The answer to a change may be lost, too, so it can be repeated.
	err = j.store.row(limit, []any{&j.token}, `UPDATE sessions SET token = $2 + 1 WHERE key = $1 AND token BETWEEN $2 AND $2 + 1
		AND holder = $3 RETURNING token`, j.key, j.token, j.store.lease.me)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, errFenced
	}
	if err == nil {
		// The statements that had locked the row before have ended by now, so a new one sees their records.
		err = j.store.row(limit, []any{&n}, lastRecord, j.key)
	}
	if err == nil && n < j.n {
		err = errGap
	}
	if err != nil && limit.Err() != nil {
		err = errSilent // the driver says that the context was cancelled, which that of the caller may not be
	}
	if err != nil {
		return false, err
	}
	there, j.n, j.doubt = n > j.n, n, false
	return there, nil
}

// Put implements [journal.Journal].
func (j *openJournal) Put(ctx context.Context, hash journal.Hash, data []byte) error {
	return j.write(ctx, "put", func() error {
		if err := journal.CheckObject(hash, data); err != nil {
			return err
		}
		if data == nil {
			data = []byte{}
		}
		sum, _ := hex.DecodeString(string(hash)) // of which the check has made sure
		return j.one(ctx, insertObject, sum, data)
	})
}

// Remove removes an object, if it is there.
func (j *openJournal) Remove(ctx context.Context, hash journal.Hash) error {
	return j.write(ctx, "remove", func() error {
		sum, err := hex.DecodeString(string(hash))
		if err != nil {
			return fmt.Errorf("it is not a hash: %w", err)
		}
		return j.one(ctx, removeObject, sum)
	})
}

// Get implements [journal.Journal].
func (j *openJournal) Get(ctx context.Context, hash journal.Hash) ([]byte, error) {
	err := j.check(ctx)
	var data []byte
	if err == nil {
		data, err = j.object(ctx, hash)
	}
	return data, wrap(ctx, "get", j.id, err)
}

func (j *openJournal) object(ctx context.Context, hash journal.Hash) (data []byte, err error) {
	sum, err := hex.DecodeString(string(hash))
	if err != nil {
		return nil, fmt.Errorf("object %.80q is not a hash: %w", hash, fs.ErrNotExist)
	}
	err = j.store.row(ctx, []any{&data}, "SELECT data FROM objects WHERE session = $1 AND hash = $2", j.key, sum)
	if err != nil {
		return nil, missing(err)
	}
	if journal.HashOf(data) != hash {
		return nil, &journal.DamageError{Object: hash, OpError: &journal.OpError{Op: "get", Session: j.id, Err: errHash}}
	}
	return data, nil
}

// Rewrite implements [journal.Journal]. It has a separate connection, since the sequence may need those of the pools. The
// sequence may take its time, but not two thirds of a lease for one record.
func (j *openJournal) Rewrite(ctx context.Context, records iter.Seq[[]byte], keep func(journal.Hash) bool) error {
	return j.write(ctx, "rewrite", func() (err error) {
		conn, err := j.store.connection(ctx)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
		n := 0
		err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) (err error) {
			n, err = j.rewrite(ctx, tx, records, keep)
			return err
		})
		if err != nil && unsure(ctx, err) {
			j.n = 0 // there are the old records or the new ones
			_, settled := j.settle(ctx)
			return errors.Join(err, settled)
		}
		if err == nil {
			j.n = n
			j.store.lease.changed(j.key)
		}
		return err
	})
}

// rewrite replaces all records and returns their number.
func (j *openJournal) rewrite(ctx context.Context, tx pgx.Tx, records iter.Seq[[]byte], keep func(journal.Hash) bool) (n int, err error) {
	done, err := tx.Exec(ctx, "UPDATE sessions SET rewrites = rewrites + 1 WHERE key = $1 AND token = $2", j.key, j.token)
	if err = fenced(int(done.RowsAffected()), err); err == nil {
		_, err = tx.Exec(ctx, "DELETE FROM records WHERE session = $1", j.key)
	}
	if err != nil {
		return 0, err
	}
	var b batch
	last := time.Now()
	flush := func() error {
		_, err := tx.Exec(ctx, insertRecords, b.args(j, n)...)
		n, b, last = n+len(b.data), batch{}, time.Now()
		return err
	}
	for r := range records {
		if err := errors.Join(ctx.Err(), journal.CheckRecord(r)); err != nil {
			return 0, err
		}
		b.add(append([]byte{}, r...))                                // the sequence may use its slice again
		if b.bytes > maxBatch || time.Since(last) > j.store.hold/3 { // PostgreSQL ends a transaction that is idle for longer
			if err := flush(); err != nil {
				return 0, err
			}
		}
	}
	if err := errors.Join(ctx.Err(), flush()); err != nil {
		return 0, err
	}
	return n, j.prune(ctx, tx, keep)
}

// prune removes the objects for which keep returns false.
func (j *openJournal) prune(ctx context.Context, tx pgx.Tx, keep func(journal.Hash) bool) error {
	rows, err := tx.Query(ctx, "SELECT hash FROM objects WHERE session = $1", j.key)
	if err != nil {
		return err
	}
	all, err := pgx.CollectRows(rows, pgx.RowTo[[]byte])
	if err != nil {
		return err
	}
	drop := [][]byte{}
	for _, sum := range all {
		if !keep(journal.Hash(hex.EncodeToString(sum))) {
			drop = append(drop, sum)
		}
	}
	_, err = tx.Exec(ctx, "DELETE FROM objects WHERE session = $1 AND hash = ANY($2)", j.key, drop)
	return err
}

// Describe implements [journal.Journal]. A writer that was replaced does not describe what its successor does.
func (j *openJournal) Describe(ctx context.Context, e journal.Entry) error {
	e.ID = j.id
	text, err := json.Marshal(e)
	if err == nil {
		err = j.check(ctx)
	}
	if err != nil {
		return wrap(ctx, "describe", j.id, err)
	}
	describe := func() error {
		const all = `UPDATE sessions SET entry = $3, used = $4, dir = $5, words = to_tsvector('simple', $6) WHERE key = $1 AND ($2 = 0 OR token = $2)`
		return j.store.retry(ctx, func(ctx context.Context) error {
			b, rows := &pgx.Batch{}, int64(0)
			b.Queue("SELECT set_config('synchronous_commit', 'off', true)")
			b.Queue(all, j.key, j.token, string(text), e.Used, indexed(e.Dir, maxDir), indexed(e.Title+"\n"+e.Prompt, maxWords)).
				Exec(func(done pgconn.CommandTag) error { rows = done.RowsAffected(); return nil })
			return fenced(int(rows), j.store.pool.SendBatch(ctx, b).Close())
		})
	}
	if j.turn != nil {
		return j.write(ctx, "describe", describe)
	}
	err = describe()
	if errors.Is(err, errFenced) {
		err = fs.ErrNotExist // the session was deleted
	}
	return wrap(ctx, "describe", j.id, err)
}

// Close implements [journal.Journal].
func (j *openJournal) Close() error {
	if j.closed.Swap(true) || j.turn == nil {
		return nil
	}
	j.turn <- struct{}{}
	defer func() { <-j.turn }()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second+j.store.patience)
	defer cancel()
	err := j.store.retry(ctx, func(ctx context.Context) error {
		_, err := j.store.pool.Exec(ctx, release, j.key, j.token)
		return err
	})
	if err != nil {
		j.store.lease.releaseLater(j.key, j.token)
	}
	j.store.end(j.id)
	return wrap(ctx, "close", j.id, err)
}
