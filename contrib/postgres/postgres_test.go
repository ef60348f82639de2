package postgres

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/aycoder/aycoder/agenttest"
	"github.com/aycoder/aycoder/internal/pgcluster"
	"github.com/aycoder/aycoder/journal"
)

// addressVariable names a database for the tests. They make the schemas test_* in it, and remove them. Without it,
// TestMain starts a server, and hands its address to the tests, and the processes that they start, in this variable.
const addressVariable = "AYCODER_POSTGRES"

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(runTests(m))
}

func runTests(m *testing.M) (code int) {
	if os.Getenv(addressVariable) == "" {
		server, err := pgcluster.Start()
		switch {
		case errors.Is(err, pgcluster.ErrMissing):
			// Tests say so when they skip; an example cannot.
			fmt.Fprintln(os.Stderr, "--- SKIP: Example:", err)
			err = flag.Set("test.skip", strings.Trim(flag.Lookup("test.skip").Value.String()+"|^Example", "|"))
		case err == nil:
			err = os.Setenv(addressVariable, server.Address())
			defer func() {
				if err := server.Stop(); err != nil {
					fmt.Fprintln(os.Stderr, err)
					code = max(code, 1)
				}
			}()
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return m.Run()
}

// address returns the address of a database, or skips the test.
func address(t testing.TB) string {
	if os.Getenv(addressVariable) == "" {
		t.Skip(pgcluster.ErrMissing)
	}
	return os.Getenv(addressVariable)
}

// kills returns the number of kills in a test, which AYCODER_KILLS sets.
func kills(usual int) int {
	if n, err := strconv.Atoi(os.Getenv("AYCODER_KILLS")); err == nil {
		return n
	}
	return usual
}

// schemaOf names the schema of the stores of a directory.
func schemaOf(dir string) string { return fmt.Sprintf("test_%08x", uint32(checksum([]byte(dir)))) }

// openStore returns a store that keeps its sessions in the schema of a directory.
func openStore(t testing.TB, dir string, opts ...Option) *Store {
	s, err := Open(t.Context(), address(t), append([]Option{WithSchema(schemaOf(dir))}, opts...)...)
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

// dialWith gives a store connections that dial makes.
func dialWith(t testing.TB, s *Store, dial pgconn.DialFunc) {
	t.Helper()
	config := s.pool.Config()
	config.ConnConfig.DialFunc = dial
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	must(t, err)
	s.pool.Close()
	s.pool = pool
}

// exec changes the database behind the back of the store.
func exec(t testing.TB, dir, query string, args ...any) int64 {
	ctx := context.WithoutCancel(t.Context())
	conn, err := pgx.Connect(ctx, address(t)+" search_path="+schemaOf(dir))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	done, err := conn.Exec(ctx, query, args...)
	if err != nil {
		t.Fatal(err)
	}
	return done.RowsAffected()
}

// tempDir returns a directory whose schema is removed at the end.
func tempDir(t testing.TB) string {
	dir := t.TempDir()
	t.Cleanup(func() { exec(t, dir, "DROP SCHEMA IF EXISTS "+schemaOf(dir)+" CASCADE") })
	return dir
}

func TestStore(t *testing.T) {
	address(t)
	setup := agenttest.JournalSetup{
		Open: func(t testing.TB, dir string) journal.Store { return openStore(t, dir) },
		DamageObject: func(t testing.TB, dir, _ string, hash journal.Hash) {
			if n := exec(t, dir, `UPDATE objects SET data = '\x00' WHERE hash = decode($1, 'hex')`, string(hash)); n != 1 {
				t.Fatalf("%d rows changed", n)
			}
		},
		DamageRecord: func(t testing.TB, dir, _ string, n int) {
			if n := exec(t, dir, `UPDATE records SET data = '\x00' WHERE n = $1`, n); n != 1 {
				t.Fatalf("%d rows changed", n)
			}
		},
		Kills: kills(20),
	}
	agenttest.TestJournal(t, setup)
}
