package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aycoder/aycoder/internal/pgcluster"
	"github.com/aycoder/aycoder/journal"
	"github.com/jackc/pgx/v5"
)

// ownCluster starts a server that the test can kill.
func ownCluster(t testing.TB) *pgcluster.Cluster {
	c, err := pgcluster.Start()
	if errors.Is(err, pgcluster.ErrMissing) {
		t.Skip(err)
	}
	must(t, err)
	t.Cleanup(func() { must(t, c.Stop()) })
	return c
}

// PostgreSQL is killed and started again while sessions are written. With patience, most of them notice nothing. Without it,
// they get typed errors, open their session again, and go on. Acknowledged records are there in both cases.
func TestServerKilled(t *testing.T) {
	for name, patience := range map[string]time.Duration{"Patient": time.Minute, "Impatient": 0} {
		t.Run(name, func(t *testing.T) { serverKilled(t, kills(3), patience) })
	}
}

func serverKilled(t *testing.T, kills int, patience time.Duration) {
	const writers = 8
	c := ownCluster(t)
	s, err := Open(t.Context(), c.Address(), WithPatience(patience))
	must(t, err)
	defer s.Close()
	var stop atomic.Bool
	var acked, failed, uncertain atomic.Int64
	progress := make(chan struct{})
	var wg sync.WaitGroup
	for i := range writers {
		w := &crashWriter{t: t, s: s, id: strconv.Itoa(i), failed: &failed, uncertain: &uncertain}
		must(t, w.create())
		wg.Go(func() {
			for !stop.Load() {
				if !w.step() {
					continue
				}
				acked.Add(1)
				select {
				case progress <- struct{}{}:
				default:
				}
			}
			for w.check(); w.j == nil && !w.reopen(); { // the server runs by now
			}
		})
	}
	for range kills {
		for range 100 { // there is a load
			<-progress
		}
		must(t, c.Kill())
		must(t, c.Run())
	}
	for range 100 {
		<-progress
	}
	stop.Store(true)
	wg.Wait()
	t.Logf("%d kills, %d appends, %d errors, %d of them uncertain", kills, acked.Load(), failed.Load(), uncertain.Load())
	if patience == 0 && failed.Load() == 0 {
		t.Error("no append has met a kill")
	}
}

// crashWriter writes a session and remembers what must and what may be in it.
type crashWriter struct {
	t                 testing.TB
	s                 *Store
	id                string
	j                 journal.Journal
	n                 int
	want              []string
	maybe             string // a record that may be after those
	failed, uncertain *atomic.Int64
}

func (w *crashWriter) create() (err error) {
	w.j, err = w.s.Create(w.t.Context(), w.id)
	return err
}

// step appends a record and reports whether it was acknowledged.
func (w *crashWriter) step() bool {
	if w.j == nil && !w.reopen() {
		return false
	}
	w.n++
	r := fmt.Sprintf("record %d", w.n)
	err := w.j.Append(w.t.Context(), true, []byte(r))
	if err == nil {
		w.want = append(w.want, r)
		return true
	}
	w.failed.Add(1)
	if _, ok := errors.AsType[*journal.OpError](err); !ok {
		w.t.Errorf("error %v, want a *OpError", err)
	}
	if errors.Is(err, journal.ErrUncertain) {
		w.uncertain.Add(1)
		w.maybe = r
	}
	_ = w.j.Close() // the database may be down still
	w.j = nil
	return false
}

// reopen opens the session again, as soon as that works.
func (w *crashWriter) reopen() bool {
	j, err := w.s.Open(w.t.Context(), w.id, true)
	if err != nil {
		return false
	}
	w.j = j
	w.check()
	return w.j != nil
}

// check compares the records.
func (w *crashWriter) check() {
	if w.j == nil {
		return
	}
	var got []string
	for r, err := range w.j.Records(w.t.Context()) {
		if err != nil {
			_ = w.j.Close()
			w.j = nil // the server was killed again
			return
		}
		got = append(got, string(r))
	}
	if w.maybe != "" && len(got) == len(w.want)+1 && got[len(got)-1] == w.maybe {
		w.want = append(w.want, w.maybe)
	}
	w.maybe = ""
	if !slices.Equal(got, w.want) {
		w.t.Errorf("session %s has %d records, want %d: %q … %q", w.id, len(got), len(w.want), got[max(0, len(got)-3):], w.want[max(0, len(w.want)-3):])
	}
}

// After a crash has lost records that were not flushed, the writer does not go on behind a gap.
func TestLostRecords(t *testing.T) {
	dir, ctx := tempDir(t), t.Context()
	s := openStore(t, dir)
	j := create(t, s)
	must(t, j.Append(ctx, false, []byte("2"), []byte("3")))
	if n := exec(t, dir, "DELETE FROM records WHERE n > 1"); n != 2 { // as the crash does
		t.Fatalf("%d records are gone", n)
	}
	err := j.Append(ctx, true, []byte("4"))
	if _, busy := errors.AsType[*journal.BusyError](err); busy || !errors.Is(err, errGap) {
		t.Errorf("error %v", err)
	}
	must(t, j.Close())
	j, err = s.Open(ctx, "a", true)
	must(t, err)
	must(t, j.Append(ctx, true, []byte("4")))
	must(t, j.Close())
	if got := records(t, s, "a"); !slices.Equal(got, []string{"1", "4"}) {
		t.Errorf("records %q", got)
	}
}

// cutOff cuts the connection of an append that waits for a lock. The transaction has the lock.
func cutOff(t testing.TB, dir string, j journal.Journal, lock, record string) (tx pgx.Tx, appended chan error) {
	ctx := t.Context()
	db, watch := connect(t, dir), connect(t, dir)
	tx, err := db.Begin(ctx)
	must(t, err)
	_, err = tx.Exec(ctx, lock)
	must(t, err)
	appended = make(chan error, 1)
	go func() { appended <- j.Append(ctx, true, []byte(record)) }()
	waiting(t, watch)
	_, err = watch.Exec(ctx, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%INSERT INTO records%'")
	must(t, err)
	return tx, appended
}

// The crash may be noticed by the loss of a connection, in the middle of an append. Then the writer does not go on behind a
// gap either.
func TestLostRecordsMeanwhile(t *testing.T) {
	dir, ctx := tempDir(t), t.Context()
	s := openStore(t, dir)
	j := create(t, s)
	must(t, j.Append(ctx, false, []byte("2"), []byte("3")))
	if n := exec(t, dir, "DELETE FROM records WHERE n > 1"); n != 2 { // as the crash does
		t.Fatalf("%d records are gone", n)
	}
	tx, appended := cutOff(t, dir, j, "LOCK TABLE records IN SHARE MODE", "4")
	must(t, tx.Commit(ctx))
	for what, err := range map[string]error{"meanwhile": <-appended, "after that": j.Append(ctx, true, []byte("5"))} {
		if !errors.Is(err, errGap) || errors.Is(err, journal.ErrUncertain) {
			t.Errorf("%s: error %v, want that of lost records", what, err)
		}
	}
	must(t, j.Close())
	if got := records(t, s, "a"); !slices.Equal(got, []string{"1"}) {
		t.Errorf("records %q", got)
	}
}

// An append that loses its connection each time ends when patience is over, and is not stored.
func TestAppendLosesConnections(t *testing.T) {
	dir, ctx := tempDir(t), t.Context()
	s := openStore(t, dir, WithPatience(0))
	j := create(t, s)
	exec(t, dir, `CREATE SEQUENCE tries; CREATE FUNCTION cut() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		IF nextval('tries') <= 20 THEN PERFORM pg_terminate_backend(pg_backend_pid()); END IF; RETURN NULL; END $$;
		CREATE TRIGGER cut BEFORE INSERT ON records EXECUTE FUNCTION cut()`)
	if err := j.Append(ctx, true, []byte("2")); err == nil || !lost(err) || errors.Is(err, journal.ErrUncertain) {
		t.Errorf("error %v, want that of a lost connection", err)
	}
	exec(t, dir, "DROP TRIGGER cut ON records")
	must(t, j.Append(ctx, true, []byte("3")))
	must(t, j.Close())
	if got := records(t, s, "a"); !slices.Equal(got, []string{"1", "3"}) {
		t.Errorf("records %q", got)
	}
}

// An append whose outcome cannot be found out says so, and not that its context was cancelled.
func TestAppendUncertain(t *testing.T) {
	dir, ctx := tempDir(t), t.Context()
	s := openStore(t, dir, WithPatience(0))
	j := create(t, s)
	tx, appended := cutOff(t, dir, j, "SELECT FROM sessions FOR UPDATE", "2")
	err := <-appended // after the second that it has for that
	if !errors.Is(err, journal.ErrUncertain) || errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	must(t, tx.Commit(ctx))
	must(t, j.Append(ctx, true, []byte("3")))
	must(t, j.Close())
	if got := records(t, s, "a"); !slices.Equal(got, []string{"1", "3"}) {
		t.Errorf("records %q", got)
	}
}
