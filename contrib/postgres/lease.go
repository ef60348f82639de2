package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/aycoder/aycoder/journal"
)

// free is the condition for the row of a session that the store with the lock $2 may open for writing: nobody has it, or
// the connection of the store that has it is gone. A store knows by itself what it has open. Shared locks do not
// keep each other out, so that two processes may look at once.
const free = "(holder IN (0, $2) OR pg_try_advisory_xact_lock_shared(holder))"

// channel is that of notifications, in the database. Its payload is a list of keys of sessions: 350 of at most 20 bytes each, as
// PostgreSQL has room for 8,000 bytes less one.
const (
	channel = "aycoder_sessions"
	notify  = `SELECT pg_notify($1, string_agg(k::text, ' ')) FROM unnest($2::bigint[]) WITH ORDINALITY AS x (k, n) GROUP BY n / 350`
)

// lease is the connection that stands for a store. It also sends notifications.
type lease struct {
	me     int64 // the number of the advisory lock
	store  *Store
	config *pgx.ConnConfig
	work   sync.WaitGroup

	mu       sync.Mutex
	cancel   context.CancelFunc // ends the work; nil before the first use
	closed   bool
	held     bool
	err      error         // of the last attempt to take the lock
	news     chan struct{} // closed when one of these two changes
	wake     func()        // interrupts the wait for the next beat
	sessions map[int64]bool
	releases map[int64]int64      // the tokens of sessions that could not be released
	givenUp  map[string]time.Time // sessions that were not opened, as far as this store knows
}

func (l *lease) setup(s *Store, config *pgx.ConnConfig) {
	l.me, l.store, l.config = newHolder(), s, config.Copy()
	l.config.RuntimeParams["idle_session_timeout"] = strconv.FormatInt(s.hold.Milliseconds(), 10)
	l.config.RuntimeParams["synchronous_commit"] = "off" // for notifications
	l.news, l.wake = make(chan struct{}), func() {}
	l.sessions, l.releases, l.givenUp = map[int64]bool{}, map[int64]int64{}, map[string]time.Time{}
}

// ensure waits until the lock is held, or patience is over. The first call makes the connection.
func (l *lease) ensure(ctx context.Context) error {
	end := time.Now().Add(l.store.patience)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cancel == nil && !l.closed {
		var run context.Context
		run, l.cancel = context.WithCancel(context.Background())
		l.work.Go(func() { l.run(run) })
	}
	for !l.held {
		if l.closed {
			return fs.ErrClosed
		}
		if l.err != nil && (!lost(l.err) || time.Now().After(end)) {
			return fmt.Errorf("connect for the lease: %w", l.err)
		}
		news := l.news
		l.mu.Unlock()
		select {
		case <-news:
		case <-ctx.Done():
		}
		l.mu.Lock()
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

func (l *lease) tell(held bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held, l.err = held, err
	close(l.news)
	l.news = make(chan struct{})
}

func (l *lease) close() {
	l.mu.Lock()
	cancel := l.cancel
	l.closed = true
	l.mu.Unlock()
	if cancel != nil {
		cancel()
		l.work.Wait()
	}
}

// run holds the lock, and takes it again after the connection is lost.
func (l *lease) run(ctx context.Context) {
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		held, err := l.hold(ctx)
		if held {
			wait, err = 10*time.Millisecond, nil
		}
		l.tell(false, err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// hold connects, takes the lock and keeps it until an error. It reports whether it had the lock.
func (l *lease) hold(ctx context.Context) (held bool, err error) {
	beat := l.store.settings.hold / 3
	attempt, cancel := context.WithTimeout(ctx, l.store.settings.hold)
	defer cancel()
	conn, err := pgx.ConnectConfig(attempt, l.config)
	if err != nil {
		return false, err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), beat)
		defer cancel()
		err = errors.Join(err, conn.Close(ctx))
	}()
	if err := l.lock(attempt, conn); err != nil {
		return false, err
	}
	l.tell(true, nil)
	var tidied time.Time
	for {
		if err := l.beat(ctx, conn, beat); err != nil {
			return true, err
		}
		if now := time.Now(); now.Sub(tidied) >= beat { // notifications make it beat more often
			tidied = now
			if err := l.tidy(ctx, conn, beat); err != nil {
				return true, err
			}
		}
		if err := l.wait(ctx, conn, beat); err != nil {
			return true, err
		}
	}
}

// wait waits for the next beat. It returns an error if the connection is lost meanwhile.
func (l *lease) wait(ctx context.Context, conn *pgx.Conn, beat time.Duration) error {
	pause, cancel := context.WithTimeout(ctx, beat)
	defer cancel()
	l.mu.Lock()
	if l.wake = cancel; len(l.sessions) > 0 {
		cancel()
	}
	l.mu.Unlock()
	// There are no notifications, as it has not said LISTEN. After the end of its context, the connection can be used on.
	_, err := conn.WaitForNotification(pause)
	if pause.Err() != nil && !conn.IsClosed() {
		err = ctx.Err()
	}
	return err
}

// beat tells PostgreSQL that the store lives, sends what there is to send, and makes up for what could not be written before.
func (l *lease) beat(ctx context.Context, conn *pgx.Conn, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	l.mu.Lock()
	keys, releases := l.sessions, maps.Clone(l.releases)
	l.sessions = map[int64]bool{}
	l.mu.Unlock()
	for key, token := range releases {
		var done bool
		if err := conn.QueryRow(ctx, releaseFree, key, token).Scan(&done); err != nil {
			return err
		}
		if !done {
			continue
		}
		l.mu.Lock()
		if l.releases[key] == token { // else it was opened again, and not closed
			delete(l.releases, key)
		}
		l.mu.Unlock()
	}
	l.store.settleSoon()
	var b pgx.Batch
	b.Queue("UPDATE claims SET since = now() WHERE holder = $1 AND since < now() - interval '1 hour'", l.me)
	if len(keys) > 0 {
		b.Queue(notify, channel, slices.Collect(maps.Keys(keys)))
	}
	return conn.SendBatch(ctx, &b).Close()
}

// changed wakes the followers of a session, soon.
func (l *lease) changed(key int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sessions[key] = true
	l.wake()
}

// releaseLater releases a session when the database can be reached again.
func (l *lease) releaseLater(key, token int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.releases[key] = token
}

// lateness is the time for which the operating system may keep what was written to a connection that is cut off.
const lateness = 15 * time.Minute

// giveUp notes that a session was not opened, although the database may have been told to, or may be told later.
func (l *lease) giveUp(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.givenUp[id] = time.Now()
}

// tidy releases the sessions and claims that the database has for this store, and nobody here knows of.
func (l *lease) tidy(ctx context.Context, conn *pgx.Conn, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	l.mu.Lock()
	maps.DeleteFunc(l.givenUp, func(_ string, at time.Time) bool { return time.Since(at) > lateness })
	ids := slices.Collect(maps.Keys(l.givenUp))
	l.mu.Unlock()
	for _, id := range ids {
		if !l.store.begin(id) { // it is open
			continue
		}
		_, err := conn.Exec(ctx, unopened, id, l.me)
		l.store.end(id)
		if err != nil {
			return err
		}
	}
	rows, err := conn.Query(ctx, "SELECT id FROM claims WHERE holder = $1", l.me)
	if err != nil {
		return err
	}
	claims, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	l.store.quotas.disown(claims)
	return err
}

// unopened releases a session that its holder has not opened, without a wait for what others write.
const unopened = `WITH mine AS (SELECT key FROM sessions WHERE id = $1 AND holder = $2 FOR UPDATE SKIP LOCKED)
	UPDATE sessions SET holder = 0 FROM mine WHERE sessions.key = mine.key`

// release ends the use of a session by a writer.
const release = "UPDATE sessions SET holder = 0 WHERE key = $1 AND token = $2"

// releaseFree is release without a wait for what others write. It returns whether there is nothing left to do.
const releaseFree = `WITH mine AS (SELECT key FROM sessions WHERE key = $1 AND token = $2 FOR UPDATE SKIP LOCKED),
	freed AS (UPDATE sessions SET holder = 0 FROM mine WHERE sessions.key = mine.key RETURNING sessions.key)
	SELECT EXISTS (SELECT FROM freed) OR NOT EXISTS (SELECT FROM sessions WHERE key = $1 AND token = $2)`

// writer describes this process to others, in JSON.
func (l *lease) writer() string {
	w := journal.Holder{PID: os.Getpid(), Since: time.Now()}
	w.Host, _ = os.Hostname()
	if name, err := os.Executable(); err == nil {
		w.Program = filepath.Base(name)
	}
	text, _ := json.Marshal(w) // of strings and numbers
	return string(text)
}

// claim makes this store the holder of a session. take tries it in the database, and returns pgx.ErrNoRows if the
// session was not free.
func (s *Store) claim(ctx context.Context, op, id string, take func() error) error {
	if !s.begin(id) {
		return s.busy(ctx, op, id, errBusy)
	}
	err := s.lease.ensure(ctx)
	if err == nil {
		err = s.take(ctx, op, id, take)
	}
	if err != nil {
		s.giveUp(ctx, id, err)
	}
	return err
}

func (s *Store) take(ctx context.Context, op, id string, take func() error) error {
	for waited := false; ; waited = true {
		var holder int64
		var alive bool
		// An update would wait for what the holder writes, such as all records anew.
		err := s.row(ctx, []any{&holder, &alive}, "SELECT holder, NOT "+free+" FROM sessions WHERE id = $1", id, s.lease.me)
		switch {
		case err != nil:
			return missing(err)
		case !alive:
			if err := take(); !errors.Is(err, pgx.ErrNoRows) {
				return err
			}
		case waited:
			return s.busy(ctx, op, id, errBusy)
		default:
			s.await(ctx, holder)
		}
	}
}

// await waits until a holder is gone, for a moment. That of a process that was killed is gone when PostgreSQL has noticed.
func (s *Store) await(ctx context.Context, holder int64) {
	// Whether it is gone is asked again.
	_ = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "SELECT set_config('lock_timeout', '200ms', true)")
		if err == nil {
			_, err = tx.Exec(ctx, "SELECT pg_advisory_xact_lock_shared($1)", holder)
		}
		return err
	})
}

// busy returns the error for a session that another writer has, or had when it was asked for.
func (s *Store) busy(ctx context.Context, op, id string, cause error) error {
	var text string
	if err := s.row(ctx, []any{&text}, "SELECT writer FROM sessions WHERE id = $1", id); err != nil {
		return missing(err)
	}
	busy := &journal.BusyError{OpError: &journal.OpError{Op: op, Session: id, Err: cause}}
	_ = json.Unmarshal([]byte(text), &busy.Holder) // the holder is unknown, then
	return busy
}

var errBusy = errors.New("it is open for writing elsewhere")

// lock takes the lock, if need be from the former connection, which PostgreSQL may not know to be gone. It also removes
// claims of others that were not here for a day: the beats of a store renew those that it has.
func (l *lease) lock(ctx context.Context, conn *pgx.Conn) error {
	const end = `SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ExclusiveLock'
		AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
		AND classid::bigint = $1::bigint >> 32 AND objid::bigint = $1::bigint & 4294967295 AND pid <> pg_backend_pid()`
	if _, err := conn.Exec(ctx, end, l.me); err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, "SELECT pg_advisory_lock($1)", l.me); err != nil {
		return err
	}
	_, err := conn.Exec(ctx, "DELETE FROM claims WHERE since < now() - interval '1 day' AND holder <> $1 AND pg_try_advisory_xact_lock_shared(holder)", l.me)
	return err
}
