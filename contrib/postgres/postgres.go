/*
Package postgres keeps sessions in a PostgreSQL database, so that many hosts share them.

	store, err := postgres.Open(ctx, "postgres://agents@db.internal/agents")
	s, err := session.New(ctx, store, loop)

It needs PostgreSQL 14 or a later version. [Open] creates the tables in a separate schema, or brings them up to date;
several processes may do that at once.

# One writer

A session that is open for writing belongs to its store. The store has one connection that stands for it: it holds an
advisory lock, and PostgreSQL itself ends it if nothing was heard for the time of the lease ([WithLease]). So a process
that ends releases its sessions at once, a machine that is lost does so after the time of the lease, and many open
sessions cost no more than one.

The lease decides who may take a session over. It does not protect the session: a process that was stopped, or cut off
from the network, does not know that it has lost it. Therefore each writer has a number, the fencing token, and each
statement that writes compares it with that of the row of the session, which it locks. A writer that was replaced gets a
[*journal.BusyError] that names its successor, and nothing of it is stored.

# Lost connections

If the connection breaks while records are written, nobody knows whether they are stored. Then the writer takes a new
token, so that nothing that is still on its way can be stored, and looks. Records that are missing are sent again. While
the database cannot be reached, that is tried for some seconds ([WithPatience]); then the error is a
[*journal.OpError], with [journal.ErrUncertain] if records may be stored. The session can be opened again when the
database is back. A connection that is cut off silently is lost only when the operating system gives it up, on Linux after
about 15 minutes; the end of the context of a call ends the wait before.

# Durability

A durable append returns when PostgreSQL has flushed its log, also if the database has synchronous_commit=off for other
uses. The other ones use that setting: they survive the end of the process, and the next durable append flushes them.
A crash of PostgreSQL itself may lose what was appended without durable in the last moment, but never out of order.

# Followers

[Store.Follow] yields the records of a session while any process appends them. NOTIFY only wakes followers: a
notification has the numbers of sessions and nothing of what is in them, and is sent after the commit, since NOTIFY would
make the commits of all writers wait for each other. Followers read the journal, so a lost notification delays a record
by a few seconds at most.

[Store.Publish] and [Store.Subscribe] carry live events between processes, which nothing stores: a Store is a Feed of package
server, and [Store.Following] makes its function Follow read each record once.

# Tenants

Many hosts share the quotas of their tenants. [Store.SetQuota] limits the tokens of a minute and the budget of a day, and a
[Tenant] is the ledger of a pot of package budget: what a request may cost is reserved in the database before it is sent, and
settled with what it has cost. Requests together exceed a budget by one of them at most. [Tenant.Agent] limits the runs at the
same time, and [Store.SetRuns] those of all tenants, which start in turns, so that a tenant with much work keeps nobody waiting
for all of it. Like sessions, reservations belong to the connection that stands for a store, so nothing stays reserved after
a process was killed.
*/
package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/aycoder/aycoder/internal/option"
	"github.com/aycoder/aycoder/journal"
)

// Store keeps sessions in a database. It implements [journal.Store] and [journal.Sizer].
type Store struct {
	// pool is for statements that end soon, and streams for those that last as long as a caller reads. A caller that
	// reads may use the store meanwhile, so one pool for both could be exhausted by calls that wait for each other.
	pool, streams *pgxpool.Pool
	settings
	lease  lease
	hub    hub
	feed   feed
	quotas quotas

	mu   sync.Mutex
	open map[string]bool // the sessions that are open for writing
}

type settings struct {
	schema         string
	hold, patience time.Duration
}

// Option configures [Open].
type Option func(*settings) error

// WithSchema sets the schema that has the tables. Default: aycoder.
func WithSchema(name string) Option {
	return func(s *settings) error {
		if name == "" || len(name) > 63 || strings.Contains(name, "\x00") { // which PostgreSQL would shorten
			return fmt.Errorf("the name of a schema has 1 to 63 bytes, not %q", name)
		}
		s.schema = name
		return nil
	}
}

// WithLease sets the time after which another process can take over the sessions of a process that cannot be reached any
// more. Those of a process that has ended are free at once. At least a second. Default: 15 s.
func WithLease(d time.Duration) Option {
	return func(s *settings) error {
		if s.hold = d; d < time.Second || d > 24*time.Hour {
			return fmt.Errorf("a lease of %v is not within a second and a day", d)
		}
		return nil
	}
}

// WithPatience sets for how long a call tries again while the database cannot be reached. After its context has
// ended, a call that has to find out what is stored tries it for another second at most. Default: 10 s.
func WithPatience(d time.Duration) Option {
	return func(s *settings) error {
		if s.patience = d; d < 0 {
			return fmt.Errorf("a patience of %v is negative", d)
		}
		return nil
	}
}

// Open connects to a database and creates or migrates the tables. The address has the form of libpq, as a URL or as
// key=value; pool_max_conns in it bounds the connections of each of two pools, by default the number of CPUs but at
// least 4. There is one connection more for the lease, one while there are followers or subscribers, one while
// messages are published, and one for each journal that is being rewritten. A pooler between must keep sessions whole, since the lease is a lock of one. If a newer version of
// this package has migrated the tables, the error is a [*VersionError].
func Open(ctx context.Context, address string, opts ...Option) (*Store, error) {
	s := &Store{settings: settings{schema: "aycoder", hold: 15 * time.Second, patience: 10 * time.Second}, open: map[string]bool{}}
	if err := option.Apply(&s.settings, opts); err != nil {
		return nil, fmt.Errorf("open the database of sessions: %w", err)
	}
	if err := s.connect(ctx, address); err != nil {
		return nil, errors.Join(fmt.Errorf("open the database of sessions: %w", err), s.Close())
	}
	return s, nil
}

func (s *Store) connect(ctx context.Context, address string) error {
	config, err := pgxpool.ParseConfig(address)
	if err != nil {
		return err
	}
	params := config.ConnConfig.RuntimeParams
	params["search_path"] = pgx.Identifier{s.schema}.Sanitize()
	// A machine that is lost within a transaction must not keep the row of a session.
	params["idle_in_transaction_session_timeout"] = strconv.FormatInt(s.hold.Milliseconds(), 10)
	// A statement that has waited for a lock must see what has changed, also if the database has another default.
	params["default_transaction_isolation"] = "read committed"
	config.AfterConnect = flushed
	if s.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return err
	}
	if s.streams, err = pgxpool.NewWithConfig(ctx, config.Copy()); err != nil {
		return err
	}
	s.quotas.setup()
	s.lease.setup(s, config.ConnConfig)
	s.feed.setup(config.ConnConfig)
	s.hub = hub{feed: &s.feed, waiting: map[int64]map[chan struct{}]bool{}}
	return s.pool.AcquireFunc(ctx, func(c *pgxpool.Conn) error { return migrate(ctx, c.Conn(), s.schema, migrations()) })
}

// Close ends the connections. The sessions should be closed before: otherwise others can take them over. It waits for
// calls that work, and so must not be called by the body of a loop over records.
func (s *Store) Close() error {
	err := s.closeQuotas()
	s.lease.close()
	s.feed.close()
	for _, p := range []*pgxpool.Pool{s.pool, s.streams} {
		if p != nil {
			p.Close()
		}
	}
	return err
}

// flushed makes the commits of a connection durable, unless the database waits for even more than that.
func flushed(ctx context.Context, conn *pgx.Conn) error {
	_, err := conn.Exec(ctx, "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'")
	return err
}

// connection makes a connection that is not of a pool. It has to be closed.
func (s *Store) connection(ctx context.Context) (conn *pgx.Conn, err error) {
	err = s.retry(ctx, func(ctx context.Context) (err error) {
		if conn, err = pgx.ConnectConfig(ctx, s.pool.Config().ConnConfig); err != nil {
			return err
		}
		if err = flushed(ctx, conn); err != nil {
			err = errors.Join(err, conn.Close(context.WithoutCancel(ctx)))
		}
		return err
	})
	return conn, err
}

// lost reports whether an error says that the connection was lost or could not be made, so that another one may work.
func lost(err error) bool {
	if failed, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch failed.Code {
		case "57P01", "57P02", "57P03", "57P05", "53300": // it shuts down, crashes, starts; idle; too many connections
			return true
		}
		return strings.HasPrefix(failed.Code, "08")
	}
	_, network := errors.AsType[net.Error](err)
	_, connect := errors.AsType[*pgconn.ConnectError](err)
	return network || connect || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, pgconn.ErrConnClosed) || errors.Is(err, net.ErrClosed)
}

// unsure reports whether nobody knows what became of a statement. After an error that does not end the connection, or if there
// was none, it has done nothing.
func unsure(ctx context.Context, err error) bool {
	if _, none := errors.AsType[*pgconn.ConnectError](err); none {
		return false
	}
	failed, answered := errors.AsType[*pgconn.PgError](err)
	return lost(err) || ctx.Err() != nil || answered && failed.SeverityUnlocalized != "ERROR"
}

// retry calls f, which may be called repeatedly, until the connection holds, patience is over or ctx ends.
func (s *Store) retry(ctx context.Context, f func(ctx context.Context) error) error {
	end := time.Now().Add(s.patience)
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, time.Second/2) {
		err := f(ctx)
		if err == nil || ctx.Err() != nil || !lost(err) || time.Now().After(end) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(wait):
		}
	}
}

// row reads one row into dest, which are arguments of Scan.
func (s *Store) row(ctx context.Context, dest []any, sql string, args ...any) error {
	return s.retry(ctx, func(ctx context.Context) error { return s.pool.QueryRow(ctx, sql, args...).Scan(dest...) })
}

// wrap makes the error of an operation. The driver does not always say that ctx has ended.
func wrap(ctx context.Context, op, id string, err error) error {
	if err != nil && ctx.Err() != nil && !errors.Is(err, ctx.Err()) {
		err = fmt.Errorf("%w: %w", ctx.Err(), err)
	}
	return journal.Error(op, id, err)
}

// start checks the arguments of a call.
func start(ctx context.Context, id string) error { return errors.Join(journal.CheckID(id), ctx.Err()) }

// find returns the key of a session.
func (s *Store) find(ctx context.Context, id string) (key int64, err error) {
	if err = start(ctx, id); err == nil {
		err = missing(s.row(ctx, []any{&key}, "SELECT key FROM sessions WHERE id = $1", id))
	}
	return key, err
}

// missing turns the error for no rows into the one for no session.
func missing(err error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return fs.ErrNotExist
	}
	return err
}

// Create implements [journal.Store].
func (s *Store) Create(ctx context.Context, id string) (journal.Journal, error) {
	j, err := s.create(ctx, id)
	if err != nil {
		return nil, wrap(ctx, "create", id, err)
	}
	return j, nil
}

func (s *Store) create(ctx context.Context, id string) (*openJournal, error) {
	if err := start(ctx, id); err != nil {
		return nil, err
	}
	if !s.begin(id) {
		return nil, fmt.Errorf("it is being created or open: %w", fs.ErrExist)
	}
	j := &openJournal{store: s, id: id, token: 1, turn: make(chan struct{}, 1)}
	err := s.lease.ensure(ctx)
	if err == nil {
		// If the answer is lost, the second try finds what the first one has made: the writer has the time of this call.
		err = s.row(ctx, []any{&j.key}, `INSERT INTO sessions (id, token, holder, writer) VALUES ($1, 1, $2, $3)
			ON CONFLICT (id) DO UPDATE SET holder = EXCLUDED.holder WHERE sessions.holder = $2 AND sessions.writer = $3
			RETURNING key`, id, s.lease.me, s.lease.writer())
	}
	if errors.Is(err, pgx.ErrNoRows) {
		err = fs.ErrExist
	}
	if err != nil {
		s.giveUp(ctx, id, err)
		return nil, err
	}
	return j, nil
}

// begin reports whether this store can open a session for writing, because it has not done so. Then end must follow.
func (s *Store) begin(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[id] {
		return false
	}
	s.open[id] = true
	return true
}

// lasting returns a context for what must be said also if ctx has ended. It ends a second after ctx, as a run that was cancelled must
// end, or when the connection has said nothing for so long that it must have been cut off silently.
func (s *Store) lasting(ctx context.Context) (context.Context, context.CancelFunc) {
	limit, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	timer := time.AfterFunc(s.patience+time.Second, func() { cancel(errSilent) })
	stop := context.AfterFunc(ctx, func() { timer.Reset(time.Second) })
	return limit, func() {
		stop()
		timer.Stop()
		cancel(nil)
	}
}

// giveUp ends an attempt to open a session that failed. The database may have carried it out nevertheless.
func (s *Store) giveUp(ctx context.Context, id string, err error) {
	if unsure(ctx, err) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		// If this fails, too, or is done before the attempt, a later beat of the lease releases the session.
		_, _ = s.pool.Exec(ctx, "UPDATE sessions SET holder = 0 WHERE id = $1 AND holder = $2", id, s.lease.me)
		cancel()
		s.lease.giveUp(id)
	}
	s.end(id)
}

func (s *Store) end(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, id)
}

// Open implements [journal.Store]. If another process has the session open for writing, it waits for a fifth of a second,
// since that process may be about to end.
func (s *Store) Open(ctx context.Context, id string, write bool) (journal.Journal, error) {
	j, err := s.openJournal(ctx, id, write)
	if err != nil {
		return nil, wrap(ctx, "open", id, err)
	}
	return j, nil
}

func (s *Store) openJournal(ctx context.Context, id string, write bool) (*openJournal, error) {
	j := &openJournal{store: s, id: id}
	var err error
	if j.key, err = s.find(ctx, id); err != nil || !write {
		return j, err
	}
	j.turn = make(chan struct{}, 1)
	if err := s.claim(ctx, "open", id, func() error {
		return s.row(ctx, []any{&j.key, &j.token}, `UPDATE sessions SET token = token + 1, holder = $2, writer = $3
			WHERE id = $1 AND `+free+` RETURNING key, token`, id, s.lease.me, s.lease.writer())
	}); err != nil {
		return nil, err
	}
	// The row was locked, so no other writer can add a record after this statement has begun.
	if err := s.row(ctx, []any{&j.n}, lastRecord, j.key); err != nil {
		return nil, errors.Join(err, j.Close())
	}
	return j, nil
}

// List implements [journal.Store].
func (s *Store) List(ctx context.Context) iter.Seq2[journal.Entry, error] {
	const page = "SELECT id, entry, used FROM sessions WHERE id > $1 ORDER BY id LIMIT 1000"
	return func(yield func(journal.Entry, error) bool) {
		for after := ""; ; {
			list, err := s.entries(ctx, page, after)
			for _, e := range list {
				if !yield(e, nil) {
					return
				}
				after = e.ID
			}
			if err != nil {
				yield(journal.Entry{}, fmt.Errorf("list sessions: %w", errors.Join(err, ctx.Err())))
			}
			if err != nil || len(list) == 0 {
				return
			}
		}
	}
}

// entries reads entries. It reads all of them before they are used, so that no connection waits for the caller.
func (s *Store) entries(ctx context.Context, sql string, args ...any) (list []journal.Entry, err error) {
	err = s.retry(ctx, func(ctx context.Context) error {
		rows, err := s.pool.Query(ctx, sql, args...)
		if err != nil {
			return err
		}
		list, err = pgx.CollectRows(rows, entry)
		return err
	})
	return list, err
}

func entry(row pgx.CollectableRow) (e journal.Entry, err error) {
	var id, text string
	var used time.Time
	if err := row.Scan(&id, &text, &used); err != nil {
		return e, err
	}
	if text == "" || json.Unmarshal([]byte(text), &e) != nil {
		return journal.Entry{ID: id, Used: used}, nil
	}
	return e, nil
}

// Search selects sessions for [Store.Search].
type Search struct {
	// Text has words, all of which are in the title or in the beginning of the prompt, in any case and order. The last one
	// may be incomplete. Dir is the directory of the sessions, and Before the time before which they were used last.
	// A zero value selects all.
	Text, Dir string
	Before    time.Time
	// Limit is the number of entries. Default: 50.
	Limit int
}

// Search returns the entries of sessions, that which was used last first, by the indexes of the database: its time does not
// grow with the number of sessions, as that of [session.List] does. To find words in messages, use [session.Find], which
// reads the sessions. Sessions without a description are not found.
//
// [session.List]: https://pkg.go.dev/github.com/aycoder/aycoder/session#List
// [session.Find]: https://pkg.go.dev/github.com/aycoder/aycoder/session#Find
func (s *Store) Search(ctx context.Context, by Search) ([]journal.Entry, error) {
	// PostgreSQL plans it for the arguments, as a plan for any would use no index: see plan_cache_mode.
	const sql = `SELECT id, entry, used FROM sessions WHERE entry <> ''
		AND ($1 = '' OR words @@ (nullif(plainto_tsquery('simple', $1)::text, '') || ':*')::tsquery)
		AND ($2 = '' OR dir = $2) AND ($3::timestamptz IS NULL OR used < $3) ORDER BY used DESC, id LIMIT $4`
	before := &by.Before
	if before.IsZero() {
		before = nil
	}
	if by.Limit <= 0 {
		by.Limit = 50
	}
	list, err := s.entries(ctx, sql, strings.TrimSpace(indexed(by.Text, maxWords)), indexed(by.Dir, maxDir), before, by.Limit)
	if err != nil {
		return nil, fmt.Errorf("search sessions: %w", errors.Join(err, ctx.Err()))
	}
	return list, nil
}

// Indexes have no room for more bytes than these.
const (
	maxDir   = 2000
	maxWords = 64 << 10
)

// indexed returns the first bytes of a text as PostgreSQL can store it.
func indexed(text string, limit int) string {
	return strings.ToValidUTF8(strings.ReplaceAll(text[:min(len(text), limit)], "\x00", " "), "")
}

// Delete implements [journal.Store].
func (s *Store) Delete(ctx context.Context, id string) error {
	key, err := s.find(ctx, id)
	if err == nil {
		doubt := false // whether it may have been removed
		err = s.claim(ctx, "delete", id, func() error {
			return s.retry(ctx, func(ctx context.Context) error {
				err := s.remove(ctx, key)
				if errors.Is(err, pgx.ErrNoRows) {
					var there bool
					failed := s.pool.QueryRow(ctx, "SELECT EXISTS (SELECT FROM sessions WHERE key = $1)", key).Scan(&there)
					switch {
					case failed != nil:
						return failed
					case !there && doubt:
						return nil
					case !there:
						return fs.ErrNotExist // another session may have its name by now
					}
				}
				doubt = doubt || err != nil && unsure(ctx, err)
				return err
			})
		})
	}
	if err == nil {
		s.end(id)
		s.lease.changed(key)
	}
	return wrap(ctx, "delete", id, err)
}

// remove removes a session. Its records are removed by a statement that begins when its row is locked: a last append may
// have been under way.
func (s *Store) remove(ctx context.Context, key int64) error {
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		err := tx.QueryRow(ctx, "DELETE FROM sessions WHERE key = $1 AND "+free+" RETURNING key", key, s.lease.me).Scan(&key)
		if err == nil {
			_, err = tx.Exec(ctx, "DELETE FROM records WHERE session = $1", key)
		}
		if err == nil {
			_, err = tx.Exec(ctx, "DELETE FROM objects WHERE session = $1", key)
		}
		return err
	})
}

// Size returns the number of bytes of the records and objects of a session. It implements [journal.Sizer].
func (s *Store) Size(ctx context.Context, id string) (n int64, err error) {
	key, err := s.find(ctx, id)
	if err == nil {
		err = s.row(ctx, []any{&n}, `SELECT
			(SELECT coalesce(sum(octet_length(data)), 0)::bigint FROM records WHERE session = $1) +
			(SELECT coalesce(sum(octet_length(data)), 0)::bigint FROM objects WHERE session = $1)`, key)
	}
	return n, wrap(ctx, "measure", id, err)
}

// newHolder returns a number for the advisory lock of a store.
func newHolder() int64 { return rand.Int64N(1<<62) + 1 }
