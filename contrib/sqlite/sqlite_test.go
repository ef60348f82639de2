package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aycoder/aycoder/agenttest"
	"github.com/aycoder/aycoder/journal"
)

func openStore(t testing.TB, dir string) *Store {
	s, err := Open(filepath.Join(dir, "a %?#.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// change changes the database behind the back of the store.
func change(t testing.TB, dir, query string, args ...any) {
	db, err := sql.Open("sqlite", dsn(filepath.Join(dir, "a %?#.db"), "normal"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	done, err := db.Exec(query, args...)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := done.RowsAffected(); n != 1 || err != nil {
		t.Fatalf("%d rows changed, error %v", n, err)
	}
}

func TestStore(t *testing.T) {
	setup := agenttest.JournalSetup{
		Open: func(t testing.TB, dir string) journal.Store { return openStore(t, dir) },
		DamageObject: func(t testing.TB, dir, _ string, hash journal.Hash) {
			change(t, dir, "UPDATE objects SET data = x'00' WHERE hash = ?", string(hash))
		},
		DamageRecord: func(t testing.TB, dir, _ string, n int) {
			change(t, dir, "UPDATE records SET data = x'00' WHERE n = ?", n)
		},
		Kills: 100,
	}
	if testing.Short() {
		setup.Kills = 10
		t.Log("left out with -short: 90 of 100 kills")
	}
	agenttest.TestJournal(t, setup)
}

// Only the user can read the files.
func TestModes(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir)
	j, err := s.Create(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	list, err := os.ReadDir(dir)
	if err != nil || len(list) < 4 {
		t.Fatalf("%d files, error %v", len(list), err)
	}
	for _, e := range list {
		info, err := e.Info()
		if err != nil || os.PathSeparator == '/' && info.Mode().Perm()&0o077 != 0 || !strings.HasPrefix(e.Name(), "a %?#.db") {
			t.Errorf("%s has mode %v, error %v", e.Name(), info.Mode(), err)
		}
	}
}

// Durable appends are flushed, and the others are not: the settings of the connections are as the
// documentation of SQLite numbers them.
func TestSynchronous(t *testing.T) {
	s := openStore(t, t.TempDir())
	for want, db := range map[int]*sql.DB{2: s.full, 1: s.normal} {
		var got int
		var mode string
		if err := db.QueryRow("PRAGMA synchronous").Scan(&got); err != nil || got != want {
			t.Errorf("synchronous is %d, want %d, error %v", got, want, err)
		}
		if err := db.QueryRow("PRAGMA journal_mode").Scan(&mode); err != nil || mode != "wal" {
			t.Errorf("the mode is %q, error %v", mode, err)
		}
	}
}

func TestPrune(t *testing.T) {
	s := openStore(t, t.TempDir())
	for i, id := range []string{"a", "b", "c"} {
		j, err := s.Create(t.Context(), id)
		if err == nil {
			err = j.Append(t.Context(), false, make([]byte, 1000))
		}
		if err == nil {
			err = j.Describe(t.Context(), journal.Entry{Used: time.Unix(int64(1000*i+1000), 0)})
		}
		if err == nil {
			err = j.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	deleted, err := journal.Prune(t.Context(), s, time.Time{}, 1500)
	if err != nil || strings.Join(deleted, " ") != "a b" {
		t.Errorf("deleted %q, error %v", deleted, err)
	}
}

// A lateConn commits, and then reports an error, as when the disk could not flush what was written.
type lateConn struct{ driver.Conn }

func (c lateConn) Begin() (driver.Tx, error) {
	tx, err := c.Conn.Begin()
	return lateTx{tx}, err
}

type lateTx struct{ driver.Tx }

func (t lateTx) Commit() error { return errors.Join(t.Tx.Commit(), errors.New("disk I/O error")) }

type lateConnector struct {
	driver driver.Driver
	dsn    string
}

func (l lateConnector) Driver() driver.Driver { return l.driver }

func (l lateConnector) Connect(context.Context) (driver.Conn, error) {
	c, err := l.driver.Open(l.dsn)
	return lateConn{c}, err
}

// Whether records are in the journal is not certain if the commit has failed, and is if it was not begun.
func TestCommitFails(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir)
	j, err := s.Create(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	whole := s.full
	s.full = sql.OpenDB(lateConnector{whole.Driver(), dsn(filepath.Join(dir, "a %?#.db"), "full")})
	err = j.Append(t.Context(), true, []byte("one"))
	if !errors.Is(err, journal.ErrUncertain) {
		t.Errorf("append: %v, want that it is not certain", err)
	}
	if err := s.full.Close(); err != nil {
		t.Error(err)
	}
	s.full = whole
	for r, err := range j.Records(t.Context()) {
		if string(r) != "one" || err != nil {
			t.Errorf("record %q, %v", r, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	err = j.(*openJournal).write(ctx, "append", s.full, func(*sql.Tx) error { cancel(); return nil })
	if !errors.Is(err, context.Canceled) || errors.Is(err, journal.ErrUncertain) {
		t.Errorf("cancelled: %v", err)
	}
}

// The paths of the store are those of all files that it makes.
func TestPaths(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir)
	j, err := s.Create(t.Context(), "a")
	if err == nil {
		err = errors.Join(j.Append(t.Context(), true, []byte("one")), j.Close())
	}
	files, globErr := filepath.Glob(filepath.Join(dir, "*"))
	if err := errors.Join(err, globErr); err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if !slices.Contains(s.Paths(), name) {
			t.Errorf("%s is not among the paths", name)
		}
	}
}

// Nothing is acknowledged that the next process would not find, nor with a lock that it could get as well.
func TestMoved(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("an open file cannot be removed or renamed")
	}
	const name = "a %?#.db"
	for _, gone := range []string{name, name + "-locks", "."} {
		dir := filepath.Join(t.TempDir(), "d")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		j, err := openStore(t, dir).Create(t.Context(), "a")
		if err == nil {
			err = j.Append(t.Context(), true, []byte("one"))
		}
		if err == nil {
			err = os.Rename(filepath.Join(dir, gone), filepath.Join(dir, gone)+".away")
		}
		if err != nil {
			t.Fatal(err)
		}
		_, typed := errors.AsType[*journal.OpError](j.Append(t.Context(), true, []byte("two")))
		if !typed {
			t.Errorf("an append is acknowledged although %s is not there any more", gone)
		}
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A database that is opened by a symbolic link is the same one: it has the same locks, and its files are those beside it.
func TestOpenedByLink(t *testing.T) {
	dir, links := t.TempDir(), t.TempDir()
	direct := openStore(t, dir)
	j, err := direct.Create(t.Context(), "a")
	if err == nil {
		err = j.Append(t.Context(), true, []byte("one"))
	}
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(links, "link.db")
	if err := os.Symlink(direct.path, link); err != nil {
		t.Skip(err)
	}
	linked, err := Open(link)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = linked.Close() }()
	if !slices.Equal(linked.Paths(), direct.Paths()) {
		t.Errorf("the paths are %q", linked.Paths())
	}
	second, err := linked.Open(t.Context(), "a", true)
	if _, ok := errors.AsType[*journal.BusyError](err); !ok {
		t.Errorf("two write: %v", err)
	}
	if second != nil {
		_ = second.Close()
	}
	if err := j.Close(); err != nil {
		t.Error(err)
	}
}
