package postgres

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/aycoder/aycoder/journal"
)

// records returns the records of a session.
func records(t testing.TB, s *Store, id string) (list []string) {
	j, err := s.Open(t.Context(), id, false)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	for r, err := range j.Records(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, string(r))
	}
	return list
}

// must fails the test if there is an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// create creates the session a with one record.
func create(t testing.TB, s *Store) journal.Journal {
	j, err := s.Create(t.Context(), "a")
	must(t, err)
	must(t, j.Append(t.Context(), true, []byte("1")))
	return j
}

// isBusy checks that an error names this process as the writer.
func isBusy(t testing.TB, what string, err error) {
	t.Helper()
	if busy, ok := errors.AsType[*journal.BusyError](err); !ok || busy.Holder.PID != os.Getpid() {
		t.Errorf("%s: error %v, want a *BusyError with this process", what, err)
	}
}

// A writer that has lost its lease is refused, whatever it writes.
func TestFenced(t *testing.T) {
	dir, ctx := tempDir(t), t.Context()
	one, two := openStore(t, dir), openStore(t, dir)
	old := create(t, one)
	kept := []byte("kept")
	must(t, old.Put(ctx, journal.HashOf(kept), kept))
	_, err := two.Open(ctx, "a", true)
	isBusy(t, "open", err)
	one.lease.close() // as if the connection was cut off
	j, err := two.Open(ctx, "a", true)
	must(t, err)
	must(t, j.Append(ctx, true, []byte("2")))
	must(t, j.Describe(ctx, journal.Entry{Title: "new"}))
	data := []byte("object")
	remover, _ := old.(interface {
		Remove(ctx context.Context, hash journal.Hash) error
	})
	for what, err := range map[string]error{
		"append":         old.Append(ctx, true, []byte("3")),
		"append nothing": old.Append(ctx, true),
		"append relaxed": old.Append(ctx, false, []byte("3")),
		"append much":    old.Append(ctx, true, make([]byte, maxBatch), []byte("3")),
		"put":            old.Put(ctx, journal.HashOf(data), data),
		"remove":         remover.Remove(ctx, journal.HashOf(kept)),
		"rewrite":        old.Rewrite(ctx, slices.Values([][]byte{[]byte("3")}), func(journal.Hash) bool { return false }),
		"describe":       old.Describe(ctx, journal.Entry{Title: "old"}),
	} {
		isBusy(t, what, err)
		if errors.Is(err, journal.ErrUncertain) {
			t.Errorf("%s: error %v is uncertain", what, err)
		}
	}
	must(t, old.Close())
	must(t, j.Append(ctx, true, []byte("4")))
	if got := records(t, one, "a"); !slices.Equal(got, []string{"1", "2", "4"}) {
		t.Errorf("records %q", got)
	}
	if got, err := j.Get(ctx, journal.HashOf(kept)); string(got) != "kept" || err != nil {
		t.Errorf("object %q, error %v", got, err)
	}
	if _, err := j.Get(ctx, journal.HashOf(data)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the object of the old writer: error %v", err)
	}
	for e, err := range two.List(ctx) {
		if e.Title != "new" || err != nil {
			t.Errorf("the title is %q, error %v", e.Title, err)
		}
	}
	must(t, j.Close())
}

// waiting waits until a statement waits for a lock.
func waiting(t testing.TB, db *pgx.Conn) {
	for n := 0; n == 0; {
		must(t, db.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'
			AND wait_event <> 'advisory' AND datname = current_database()`).Scan(&n))
	}
}

// connect returns a connection to the schema of a directory.
func connect(t testing.TB, dir string) *pgx.Conn {
	conn, err := pgx.Connect(t.Context(), address(t)+" search_path="+schemaOf(dir))
	must(t, err)
	t.Cleanup(func() { conn.Close(context.WithoutCancel(t.Context())) })
	return conn
}

// An append and a change of the writer at the same time: one of them waits for the other. Two cases: the append has begun
// first, and the change has.
func TestFencedMeanwhile(t *testing.T) {
	t.Run("AppendFirst", func(t *testing.T) {
		dir, ctx := tempDir(t), t.Context()
		one, two := openStore(t, dir), openStore(t, dir)
		old := create(t, one)
		db, watch := connect(t, dir), connect(t, dir)
		tx, err := db.Begin(ctx)
		must(t, err)
		_, err = tx.Exec(ctx, "LOCK TABLE records IN SHARE MODE") // the append has the row, and waits here
		must(t, err)
		appended, opened := make(chan error, 1), make(chan error, 1)
		go func() { appended <- old.Append(ctx, true, []byte("2")) }()
		waiting(t, watch)
		one.lease.close()
		go func() {
			j, err := two.Open(ctx, "a", true)
			if err == nil {
				err = j.Append(ctx, true, []byte("3"))
			}
			opened <- err
		}()
		must(t, tx.Commit(ctx))
		must(t, <-appended)
		must(t, <-opened)
		if got := records(t, two, "a"); !slices.Equal(got, []string{"1", "2", "3"}) {
			t.Errorf("records %q", got)
		}
	})
	t.Run("ChangeFirst", func(t *testing.T) {
		dir, ctx := tempDir(t), t.Context()
		one, err := Open(ctx, address(t)+" options='-c default_transaction_isolation=serializable'", WithSchema(schemaOf(dir)))
		must(t, err)
		defer one.Close()
		old := create(t, one)
		db, watch := connect(t, dir), connect(t, dir)
		tx, err := db.Begin(ctx)
		must(t, err)
		_, err = tx.Exec(ctx, "UPDATE sessions SET token = token + 1, holder = 0")
		must(t, err)
		appended := make(chan error, 1)
		go func() { appended <- old.Append(ctx, true, []byte("2")) }()
		waiting(t, watch)
		must(t, tx.Commit(ctx))
		isBusy(t, "append", <-appended)
		if got := records(t, one, "a"); !slices.Equal(got, []string{"1"}) {
			t.Errorf("records %q", got)
		}
	})
}

// An append whose context ends while PostgreSQL works on it is stored or not, and the journal knows which.
func TestCancelledAppend(t *testing.T) {
	dir := tempDir(t)
	s := openStore(t, dir)
	j := create(t, s)
	defer j.Close()
	want := []string{"1"}
	db, watch := connect(t, dir), connect(t, dir)
	for _, r := range []string{"2", "3", "4"} {
		tx, err := db.Begin(t.Context())
		must(t, err)
		_, err = tx.Exec(t.Context(), "LOCK TABLE records IN SHARE MODE")
		must(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- j.Append(ctx, true, []byte(r)) }()
		waiting(t, watch)
		cancel()
		must(t, tx.Commit(t.Context()))
		err = <-done
		if errors.Is(err, journal.ErrUncertain) || err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("error %v, want none or that of the context", err)
		}
		if err == nil {
			want = append(want, r)
		}
		must(t, j.Append(t.Context(), true, []byte("after "+r)))
		want = append(want, "after "+r)
		if got := records(t, s, "a"); !slices.Equal(got, want) {
			t.Errorf("records %q, want %q", got, want)
		}
	}
}

// The lease ends when PostgreSQL hears nothing of the store, and the store takes it again without losing its sessions.
func TestLeaseConnectionLost(t *testing.T) {
	dir, ctx := tempDir(t), t.Context()
	s, other := openStore(t, dir), openStore(t, dir)
	j := create(t, s)
	const holder = ` FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ExclusiveLock'
		AND granted AND (classid::bigint << 32) + objid::bigint = $1 AND pid <> $2`
	for range 3 {
		var pid, next int
		must(t, s.row(ctx, []any{&pid}, "SELECT pid"+holder, s.lease.me, 0))
		exec(t, dir, "SELECT pg_terminate_backend($1)", pid)
		for next == 0 { // until another connection has the lock
			must(t, s.row(ctx, []any{&next}, "SELECT coalesce(max(pid), 0)"+holder, s.lease.me, pid))
		}
	}
	must(t, j.Append(ctx, true, []byte("2")))
	_, err := other.Open(ctx, "a", true)
	isBusy(t, "open", err)
	must(t, j.Close())
	k, err := other.Open(ctx, "a", true)
	must(t, err)
	must(t, k.Close())
}

// A store that was closed returns errors, and its sessions are free.
func TestClosedStore(t *testing.T) {
	dir, ctx := tempDir(t), t.Context()
	for _, used := range []bool{true, false} {
		s := openStore(t, dir)
		if used {
			create(t, s)
		}
		must(t, s.Close())
		must(t, s.Close())
		_, c := s.Create(ctx, "b")
		_, o := s.Open(ctx, "a", true)
		for what, err := range map[string]error{"create": c, "open": o, "delete": s.Delete(ctx, "a")} {
			if _, ok := errors.AsType[*journal.OpError](err); !ok {
				t.Errorf("%s: error %v", what, err)
			}
		}
	}
	j, err := openStore(t, dir).Open(ctx, "a", true)
	must(t, err)
	must(t, j.Close())
}

// An attempt to open or create a session that failed keeps nobody from doing so.
func TestFailedOpen(t *testing.T) {
	dir, ctx := tempDir(t), t.Context()
	s, other := openStore(t, dir), openStore(t, dir)
	db, watch := connect(t, dir), connect(t, dir)
	must(t, create(t, s).Close())
	for i, open := range []func(ctx context.Context) (journal.Journal, error){
		func(ctx context.Context) (journal.Journal, error) { return s.Open(ctx, "a", true) },
		func(ctx context.Context) (journal.Journal, error) { return s.Create(ctx, "b") },
	} {
		tx, err := db.Begin(ctx)
		must(t, err)
		_, err = tx.Exec(ctx, "LOCK TABLE sessions IN SHARE MODE")
		must(t, err)
		c, cancel := context.WithCancel(ctx)
		done := make(chan error)
		go func() {
			_, err := open(c)
			done <- err
		}()
		waiting(t, watch)
		cancel()
		must(t, tx.Commit(ctx))
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("open %d: error %v", i, err)
		}
		for _, id := range []string{"a", "b"}[:i+1] {
			j, err := other.Open(ctx, id, true)
			if !errors.Is(err, fs.ErrNotExist) { // as a cancelled Create may leave it
				must(t, err)
				must(t, j.Close())
			}
		}
	}
	must(t, s.Delete(ctx, "a"))
	if n := exec(t, dir, "DELETE FROM records"); n != 0 {
		t.Errorf("%d records are left", n)
	}
}

// A session that exists is not created again, even if the database was not told that it is closed.
func TestCreateAgain(t *testing.T) {
	dir, ctx := tempDir(t), t.Context()
	s := openStore(t, dir)
	must(t, create(t, s).Close())
	exec(t, dir, "UPDATE sessions SET holder = $1", s.lease.me) // as after a Close that did not reach it
	if _, err := s.Create(ctx, "a"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("error %v", err)
	}
	j, err := s.Open(ctx, "a", true)
	must(t, err)
	must(t, j.Close())
}

// A release that waits for others to write does not cost the lease.
func TestReleaseLater(t *testing.T) {
	dir, ctx := tempDir(t), t.Context()
	s := openStore(t, dir)
	j := create(t, s)
	open, _ := j.(*openJournal)
	db, conn := connect(t, dir), connect(t, dir)
	tx, err := db.Begin(ctx)
	must(t, err)
	_, err = tx.Exec(ctx, "SELECT FROM sessions FOR UPDATE")
	must(t, err)
	left := func() int {
		s.lease.mu.Lock()
		defer s.lease.mu.Unlock()
		return len(s.lease.releases)
	}
	s.lease.releaseLater(open.key, open.token)
	must(t, s.lease.beat(ctx, conn, time.Second))
	must(t, tx.Commit(ctx))
	must(t, s.lease.beat(ctx, conn, time.Minute))
	var holder int64
	must(t, s.row(ctx, []any{&holder}, "SELECT holder FROM sessions"))
	if n := left(); n > 0 || holder != 0 {
		t.Errorf("%d releases are left, the holder is %d", n, holder)
	}
	s.lease.releaseLater(open.key, open.token-1) // which another writer has followed
	must(t, s.lease.beat(ctx, conn, time.Minute))
	if left() > 0 {
		t.Error("a release of a former writer is left")
	}
	must(t, j.Close())
}

// A rewrite whose records come slowly does not lose its transaction.
func TestSlowRewrite(t *testing.T) {
	dir, ctx := tempDir(t), t.Context()
	s := openStore(t, dir, WithLease(time.Second), WithPatience(0))
	j := create(t, s)
	want := []string{"a", "b", "c", "d"}
	must(t, j.Rewrite(ctx, func(yield func([]byte) bool) {
		for _, r := range want {
			<-time.After(500 * time.Millisecond) // four of them are two leases
			if !yield([]byte(r)) {
				return
			}
		}
	}, func(journal.Hash) bool { return true }))
	must(t, j.Close())
	if got := records(t, s, "a"); !slices.Equal(got, want) {
		t.Errorf("records %q", got)
	}
}

// A deletion whose answer is lost is one.
func TestDeleteLosesAnswer(t *testing.T) {
	dir, ctx := tempDir(t), t.Context()
	s := openStore(t, dir)
	must(t, create(t, s).Close())
	var lose atomic.Int32
	dialWith(t, s, func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, address)
		return &deafConn{Conn: c, lose: &lose}, err
	})
	lose.Store(1)
	must(t, s.Delete(ctx, "a"))
	if lose.Load() != 0 {
		t.Error("no answer was lost")
	}
	if err := s.Delete(ctx, "a"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("delete again: %v", err)
	}
}

// A deafConn loses the connection between a commit and its answer, as often as lose says.
type deafConn struct {
	net.Conn
	lose *atomic.Int32
	deaf atomic.Bool
}

func (c *deafConn) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("commit\x00")) && c.lose.CompareAndSwap(1, 0) {
		c.deaf.Store(true)
	}
	return c.Conn.Write(p)
}

func (c *deafConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.deaf.Load() && bytes.Contains(p[:n], []byte("COMMIT")) {
		return 0, errors.Join(io.ErrUnexpectedEOF, c.Close(), err)
	}
	return n, err
}
