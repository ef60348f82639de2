package postgres

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aycoder/aycoder/journal"
)

// Processes that open a new database at once find the same tables, which one of them has made.
func TestMigrateAtOnce(t *testing.T) {
	dir := tempDir(t)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			s, err := Open(t.Context(), address(t), WithSchema(schemaOf(dir)))
			if err != nil {
				t.Error(err)
				return
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := exec(t, dir, "UPDATE version SET version = version"); n != 1 {
		t.Errorf("%d versions", n)
	}
}

// A later version runs the steps that are new, once, and all or none of them.
func TestMigrateSteps(t *testing.T) {
	dir, ctx := tempDir(t), t.Context()
	must(t, create(t, openStore(t, dir)).Close())
	conn := connect(t, dir)
	bad := append(migrations(), "CREATE TABLE extra (n integer)", "SELECT nonsense")
	if err := migrate(ctx, conn, schemaOf(dir), bad); err == nil || !strings.Contains(err.Error(), "version 4") {
		t.Errorf("a step that is wrong: error %v", err)
	}
	good := append(migrations(), "CREATE TABLE extra (n integer)", "INSERT INTO extra VALUES (1)")
	for range 2 {
		// The second time, this program knows less than the tables have.
		err := migrate(ctx, conn, schemaOf(dir), good)
		if newer, ok := errors.AsType[*VersionError](err); err != nil && (!ok || newer.Version != 4) {
			t.Fatal(err)
		}
	}
	if n := exec(t, dir, "UPDATE extra SET n = 2"); n != 1 {
		t.Errorf("the steps ran %d times", n)
	}
	_, err := Open(ctx, address(t), WithSchema(schemaOf(dir)))
	newer, ok := errors.AsType[*VersionError](err)
	if !ok || newer.Version != 4 || newer.Known != 2 || !strings.Contains(err.Error(), "use a newer one") {
		t.Errorf("tables of version 4: error %v", err)
	}
}

// A role that must not create anything can use the tables.
func TestLimitedRole(t *testing.T) {
	dir := tempDir(t)
	openStore(t, dir)
	schema, role := schemaOf(dir), "limited_"+schemaOf(dir)
	exec(t, dir, "CREATE ROLE "+role+" LOGIN")
	t.Cleanup(func() { exec(t, dir, "DROP OWNED BY "+role+"; DROP ROLE "+role) })
	exec(t, dir, "GRANT USAGE ON SCHEMA "+schema+" TO "+role)
	exec(t, dir, "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA "+schema+" TO "+role)
	s, err := Open(t.Context(), address(t)+" user="+role, WithSchema(schema))
	must(t, err)
	defer s.Close()
	must(t, create(t, s).Close())
	must(t, s.Delete(t.Context(), "a"))
	own := "own_" + schema
	if _, err := Open(t.Context(), address(t)+" user="+role, WithSchema(own)); err == nil {
		t.Error("a schema was made without the right to do so")
	}
	exec(t, dir, "CREATE SCHEMA "+own+" AUTHORIZATION "+role) // the right to use this schema is enough
	s, err = Open(t.Context(), address(t)+" user="+role, WithSchema(own))
	must(t, err)
	must(t, s.Close())
}

// The options are checked, and an error does not show the password.
func TestOpenErrors(t *testing.T) {
	for _, o := range []Option{nil, WithSchema(""), WithSchema(strings.Repeat("x", 64)), WithLease(time.Millisecond), WithPatience(-1)} {
		if _, err := Open(t.Context(), "", o); err == nil {
			t.Error("a wrong option is taken")
		}
	}
	for _, address := range []string{"postgres://user:s3cr3t@localhost:1/x?connect_timeout=1", "postgres://user:s3cr3t@%zz/", "host=/nowhere password=s3cr3t x"} {
		_, err := Open(t.Context(), address)
		if err == nil || strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("error %v", err)
		}
	}
}

// Durable appends wait for the disk, also if the database does not by itself.
func TestSynchronous(t *testing.T) {
	dir := tempDir(t)
	s, err := Open(t.Context(), address(t)+" options='-c synchronous_commit=off'", WithSchema(schemaOf(dir)))
	must(t, err)
	defer s.Close()
	for what, pool := range map[string]querier{"pool": s.pool, "streams": s.streams} {
		var got string
		must(t, pool.QueryRow(t.Context(), "SHOW synchronous_commit").Scan(&got))
		if got != "on" {
			t.Errorf("%s: synchronous_commit is %s", what, got)
		}
	}
}

func TestSearch(t *testing.T) {
	dir, ctx := tempDir(t), t.Context()
	s := openStore(t, dir)
	at := func(hour int) time.Time { return time.Date(2026, 11, 1, hour, 0, 0, 0, time.UTC) }
	long := "/" + strings.Repeat("very/long/", 500)
	for i, e := range []journal.Entry{
		{ID: "one", Title: "Fix the Parser", Prompt: "please mend it", Dir: "/src/a", Used: at(1)},
		{ID: "two", Title: "", Prompt: "the parser's tests: what is 'wrong' & | ! here?", Dir: "/src/b", Used: at(3)},
		{ID: "three", Title: "nul \x00 and \xff " + strings.Repeat("word ", 1<<18), Dir: long, Used: at(2)},
		{ID: "none"},
	} {
		j, err := s.Create(ctx, e.ID)
		must(t, err)
		if i < 3 {
			must(t, j.Describe(ctx, e))
		}
		must(t, j.Close())
	}
	for _, c := range []struct {
		by   Search
		want string
	}{
		{Search{}, "two three one"},
		{Search{Limit: 1}, "two"},
		{Search{Text: "parser"}, "two one"},
		{Search{Text: "the PARSER fix"}, "one"},
		{Search{Text: "pars"}, "two one"},
		{Search{Text: "mend pars"}, "one"},
		{Search{Text: "pars nothing"}, ""},
		{Search{Text: "'wrong' & | ! :* ("}, "two"},
		{Search{Text: "& | !"}, ""},
		{Search{Text: "nul"}, "three"},
		{Search{Dir: "/src/a"}, "one"},
		{Search{Dir: long}, "three"},
		{Search{Dir: "/src"}, ""},
		{Search{Before: at(3)}, "three one"},
		{Search{Before: at(3), Text: "parser", Dir: "/src/a"}, "one"},
	} {
		list, err := s.Search(ctx, c.by)
		must(t, err)
		var got []string
		for _, e := range list {
			got = append(got, e.ID)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("search %.50v: %q, want %q", c.by, got, c.want)
		}
	}
	list, err := s.Search(ctx, Search{Text: "mend"})
	must(t, err)
	if !slices.Equal(list, []journal.Entry{{ID: "one", Title: "Fix the Parser", Prompt: "please mend it", Dir: "/src/a", Used: at(1)}}) {
		t.Errorf("entry %v", list)
	}
}

func TestPrune(t *testing.T) {
	s := openStore(t, tempDir(t))
	for i, id := range []string{"a", "b", "c"} {
		j, err := s.Create(t.Context(), id)
		must(t, err)
		must(t, j.Append(t.Context(), false, make([]byte, 1000)))
		must(t, j.Describe(t.Context(), journal.Entry{Used: time.Unix(int64(1000*i+1000), 0)}))
		must(t, j.Close())
	}
	deleted, err := journal.Prune(t.Context(), s, time.Time{}, 1500)
	if err != nil || strings.Join(deleted, " ") != "a b" {
		t.Errorf("deleted %q, error %v", deleted, err)
	}
}
