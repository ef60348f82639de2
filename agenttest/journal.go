package agenttest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/aycoder/aycoder/journal"
)

// JournalSetup says how [TestJournal] makes the stores that it tests.
type JournalSetup struct {
	// Open returns a store that keeps its sessions in the directory dir, which exists. Stores of
	// the same directory have the same sessions, also in different processes.
	Open func(t testing.TB, dir string) journal.Store
	// InMemory says that Open returns a store that is empty and ends with the process. The
	// tests with several stores are skipped.
	InMemory bool
	// DamageObject changes a stored object. DamageRecord changes the n-th record of a session,
	// counted from 1. The store is not open. If a function is nil, its test is skipped.
	DamageObject func(t testing.TB, dir, id string, hash journal.Hash)
	DamageRecord func(t testing.TB, dir, id string, n int)
	// Kills is the number of processes that are killed while they write. Default: 20.
	Kills int
}

// journalSuite is one check of a store.
type journalSuite struct {
	JournalSetup
	t     testing.TB
	name  string // of the test that calls TestJournal
	found *findings
	dir   string
	store journal.Store
}

func newJournalSuite(t testing.TB, setup JournalSetup, name string) *journalSuite {
	s := &journalSuite{JournalSetup: setup, t: t, name: name, found: &findings{}, dir: t.TempDir()}
	s.store = setup.Open(t, s.dir)
	return s
}

// TestJournal tests that a store and its journals keep the contracts of [journal.Store] and
// [journal.Journal].
//
// It starts the test binary again to have several processes, with the flag -test.run for the test
// that calls it. That test must therefore call TestJournal each time, with the same setup, and
// should do nothing else before.
func TestJournal(t *testing.T, setup JournalSetup) {
	journalHelper(t, setup)
	for _, c := range journalChecks {
		t.Run(c.name, func(t *testing.T) {
			s := newJournalSuite(t, setup, strings.TrimSuffix(t.Name(), "/"+c.name))
			c.check(s)
			s.found.report(t)
		})
	}
}

// journalChecks are the checks of the suite.
var journalChecks = []struct {
	name  string
	check func(*journalSuite)
}{
	{"Records", (*journalSuite).records},
	{"Atomic", (*journalSuite).atomic},
	{"Slices", (*journalSuite).ownSlices},
	{"ReadOnly", (*journalSuite).readOnly},
	{"Writer", (*journalSuite).writer},
	{"IDs", (*journalSuite).ids},
	{"Objects", (*journalSuite).objects},
	{"Rewrite", (*journalSuite).rewrite},
	{"RewriteCancelled", (*journalSuite).rewriteCancelled},
	{"List", (*journalSuite).list},
	{"Cancelled", (*journalSuite).cancelled},
	{"Closed", (*journalSuite).closed},
	{"Concurrent", (*journalSuite).concurrent},
	{"Reader", (*journalSuite).reader},
	{"DamagedObject", (*journalSuite).damagedObject},
	{"DamagedRecord", (*journalSuite).damagedRecord},
	{"Processes", (*journalSuite).processes},
	{"Killed", (*journalSuite).killed},
}

// journalID is the id of the session of most checks.
const journalID = "session-1"

// create creates a session.
func (s *journalSuite) create(id string) journal.Journal {
	j, err := s.store.Create(s.t.Context(), id)
	if err != nil {
		s.t.Fatalf("agenttest: %v", err)
	}
	return j
}

// open opens a session, with a new store if there can be several ones.
func (s *journalSuite) open(id string, write bool) journal.Journal {
	j, err := s.another().Open(s.t.Context(), id, write)
	if err != nil {
		s.t.Fatalf("agenttest: %v", err)
	}
	return j
}

func (s *journalSuite) another() journal.Store {
	if s.InMemory {
		return s.store
	}
	return s.Open(s.t, s.dir)
}

// must fails the test if a call that should succeed returns an error.
func (s *journalSuite) must(rule, what string, err error) {
	if err != nil {
		s.found.add(rule, "%s: error %v", what, err)
	}
}

// wants checks the error of a call. It must also be a *OpError.
func (s *journalSuite) wants(rule, what string, err, want error) {
	if !errors.Is(err, want) || !is[*journal.OpError](err) {
		s.found.add(rule, "%s: error %v, want a *OpError and %v", what, err, want)
	}
}

// expect compares the records of a journal.
func (s *journalSuite) expect(rule, what string, j journal.Journal, want ...string) {
	var got []string
	for r, err := range j.Records(s.t.Context()) {
		if err != nil {
			s.found.add(rule, "%s: error %v", what, err)
			return
		}
		got = append(got, string(r))
	}
	if !slices.Equal(got, want) {
		s.found.add(rule, "%s: %d records %s, want %d records %s", what, len(got),
			shown(strings.Join(got, "\n")), len(want), shown(strings.Join(want, "\n")))
	}
}

// append appends records one by one.
func (s *journalSuite) append(j journal.Journal, records ...string) {
	for i, r := range records {
		s.must(ruleJournalOrder, "append "+shown(r), j.Append(s.t.Context(), i%2 == 0, []byte(r)))
	}
}

// oddRecords are records that parsers of lines are known to break on.
func oddRecords() []string {
	return []string{`{"a":1}`, "", " ", "{\"a\":\"\u2028\u2029\u0085\"}", "\r", "\x00\x00", "\xff\xfe",
		`["00000000",{}]`, `]`, "'; DROP TABLE records; --", strings.Repeat("x", 64<<10),
		strings.Repeat("y", 5<<20), `{"a":1}`}
}

// records checks that any record comes back, in this process and after opening anew.
func (s *journalSuite) records() {
	odd := oddRecords()
	j := s.create(journalID)
	s.expect(ruleJournalOrder, "a new session", j)
	s.append(j, odd[:5]...)
	rest := make([][]byte, 0, len(odd))
	for _, r := range odd[5:] {
		rest = append(rest, []byte(r))
	}
	s.must(ruleJournalOrder, "append several records", j.Append(s.t.Context(), true, rest...))
	s.must(ruleJournalOrder, "append no record", j.Append(s.t.Context(), true))
	s.expect(ruleJournalOrder, "the writer", j, odd...)
	s.must(ruleJournalClosed, "close", j.Close())
	for _, write := range []bool{false, true} {
		j := s.open(journalID, write)
		s.expect(ruleJournalOrder, "opened anew", j, odd...)
		n := 0
		for range j.Records(s.t.Context()) {
			if n++; n == 3 {
				break
			}
		}
		s.must(ruleJournalClosed, "close", j.Close())
	}
	j = s.open(journalID, true)
	s.append(j, "last")
	s.expect(ruleJournalOrder, "appended after opening", j, append(odd, "last")...)
	s.must(ruleJournalClosed, "close", j.Close())
}

// atomic checks that an Append that fails adds none of its records.
func (s *journalSuite) atomic() {
	j := s.create(journalID)
	s.append(j, "1")
	for _, bad := range [][]byte{[]byte("a\nb"), []byte("\n"), make([]byte, journal.MaxRecord+1)} {
		err := j.Append(s.t.Context(), true, []byte("2"), bad, []byte("3"))
		if !is[*journal.OpError](err) {
			s.found.add(ruleJournalWhole, "append record %s: error %v, want a *OpError",
				shown(string(bad)), err)
		}
		if len(bad) > journal.MaxRecord && !errors.Is(err, journal.ErrTooLarge) {
			s.found.add(ruleJournalErrors, "append %d bytes: error %v, want ErrTooLarge", len(bad), err)
		}
		s.expect(ruleJournalWhole, "after a bad record", j, "1")
	}
	s.append(j, "4")
	s.must(ruleJournalClosed, "close", j.Close())
	j = s.open(journalID, false)
	s.expect(ruleJournalWhole, "after bad records", j, "1", "4")
	s.must(ruleJournalClosed, "close", j.Close())
}

// ownSlices checks that neither the store nor the caller changes slices of the other.
func (s *journalSuite) ownSlices() {
	j := s.create(journalID)
	defer j.Close()
	record, data := []byte("record"), []byte("object")
	hash := journal.HashOf(data)
	s.must(ruleJournalOrder, "append", j.Append(s.t.Context(), true, record))
	s.must(ruleJournalObject, "put", j.Put(s.t.Context(), hash, data))
	clear(record)
	clear(data)
	for range 2 {
		var all [][]byte
		for r, err := range j.Records(s.t.Context()) {
			s.must(ruleJournalOrder, "read", err)
			all = append(all, r)
		}
		got, err := j.Get(s.t.Context(), hash)
		s.must(ruleJournalObject, "get", err)
		if string(bytes.Join(all, nil)) != "record" || string(got) != "object" {
			s.found.add(ruleJournalShared, "slices were shared: records %q, object %q", all, got)
		}
		for _, r := range append(all, got) {
			clear(r)
		}
	}
}

// readOnly checks that a reader changes nothing but the description.
func (s *journalSuite) readOnly() {
	j := s.create(journalID)
	s.append(j, "1")
	s.must(ruleJournalClosed, "close", j.Close())
	r := s.open(journalID, false)
	ctx := s.t.Context()
	s.wants(ruleJournalReader, "append", r.Append(ctx, true, []byte("2")), journal.ErrReadOnly)
	s.wants(ruleJournalReader, "put", r.Put(ctx, journal.HashOf(nil), nil), journal.ErrReadOnly)
	s.wants(ruleJournalReader, "rewrite", r.Rewrite(ctx, slices.Values([][]byte{}),
		func(journal.Hash) bool { return false }), journal.ErrReadOnly)
	s.must(ruleJournalList, "describe", r.Describe(ctx, journal.Entry{Title: "title"}))
	s.expect(ruleJournalReader, "a reader", r, "1")
	s.must(ruleJournalClosed, "close", r.Close())
}

// writer checks that a second writer is refused, whichever store it uses.
func (s *journalSuite) writer() {
	j := s.create(journalID)
	s.append(j, "1")
	for _, store := range []journal.Store{s.store, s.another()} {
		_, err := store.Open(s.t.Context(), journalID, true)
		s.busy("open", err)
		s.busy("delete", store.Delete(s.t.Context(), journalID))
		r, err := store.Open(s.t.Context(), journalID, false)
		if err != nil {
			s.found.add(ruleJournalReader, "open beside a writer: %v", err)
			continue
		}
		s.expect(ruleJournalReader, "beside a writer", r, "1")
		s.must(ruleJournalClosed, "close", r.Close())
	}
	s.append(j, "2")
	s.must(ruleJournalClosed, "close", j.Close())
	j = s.open(journalID, true)
	s.expect(ruleJournalWriter, "the next writer", j, "1", "2")
	s.must(ruleJournalClosed, "close", j.Close())
	s.must(ruleJournalWriter, "delete", s.store.Delete(s.t.Context(), journalID))
}

func (s *journalSuite) busy(what string, err error) {
	busy, ok := errors.AsType[*journal.BusyError](err)
	if !ok {
		s.found.add(ruleJournalWriter, "%s beside a writer: error %v, want a *BusyError", what, err)
	} else if busy.Holder.PID != os.Getpid() {
		s.found.add(ruleJournalWriter, "%s beside a writer: the holder is %d, want %d", what,
			busy.Holder.PID, os.Getpid())
	}
}

// ids checks which ids are taken, and what the errors are.
func (s *journalSuite) ids() {
	ctx := s.t.Context()
	long := strings.Repeat("a", 64)
	for _, id := range []string{"", ".", "..", "../x", "a/b", "A", "a.b", "a b", "ä", long + "a", "a\x00", "*"} {
		_, create := s.store.Create(ctx, id)
		_, open := s.store.Open(ctx, id, false)
		for what, err := range map[string]error{"create": create, "open": open, "delete": s.store.Delete(ctx, id)} {
			s.wants(ruleJournalErrors, fmt.Sprintf("%s session %q", what, id), err, fs.ErrInvalid)
		}
	}
	for _, id := range []string{long, "0", "-", "a-1"} {
		for _, write := range []bool{false, true} {
			_, err := s.store.Open(ctx, id, write)
			s.wants(ruleJournalErrors, "open a session that does not exist", err, fs.ErrNotExist)
		}
		s.wants(ruleJournalErrors, "delete a session that does not exist", s.store.Delete(ctx, id), fs.ErrNotExist)
		j := s.create(id)
		_, err := s.store.Create(ctx, id)
		s.wants(ruleJournalErrors, "create an open session", err, fs.ErrExist)
		s.append(j, id)
		s.must(ruleJournalClosed, "close", j.Close())
		_, err = s.another().Create(ctx, id)
		s.wants(ruleJournalErrors, "create a session that exists", err, fs.ErrExist)
		j = s.open(id, false)
		s.expect(ruleJournalOrder, "session "+id, j, id)
		s.must(ruleJournalClosed, "close", j.Close())
	}
}

// cancelledContext returns a context that has ended.
func cancelledContext(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	return ctx
}
