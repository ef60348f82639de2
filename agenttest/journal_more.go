package agenttest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/aycoder/aycoder/journal"
)

// objects checks that objects come back, and that the hash is checked.
func (s *journalSuite) objects() {
	ctx := s.t.Context()
	j := s.create(journalID)
	noise := make([]byte, 3<<20)
	rnd := rand.NewChaCha8([32]byte{1})
	_, _ = rnd.Read(noise)
	all := [][]byte{nil, {0}, []byte("text"), noise, bytes.Repeat([]byte("long "), 1<<20)}
	for range 2 { // the second time, they are stored already
		for _, data := range all {
			s.must(ruleJournalObject, "put", j.Put(ctx, journal.HashOf(data), data))
		}
	}
	if err := j.Put(ctx, journal.HashOf([]byte("one")), []byte("another")); !is[*journal.OpError](err) {
		s.found.add(ruleJournalObject, "put with the hash of other data: error %v, want a *OpError", err)
	}
	for _, hash := range []journal.Hash{journal.HashOf([]byte("one")), "", "x", "../journal.jsonl"} {
		_, err := j.Get(ctx, hash)
		s.wants(ruleJournalErrors, fmt.Sprintf("get object %q", hash), err, fs.ErrNotExist)
	}
	if r, ok := j.(interface {
		Remove(context.Context, journal.Hash) error
	}); ok {
		for range 2 {
			s.must(ruleJournalObject, "remove", r.Remove(ctx, journal.HashOf(all[2])))
			_, err := j.Get(ctx, journal.HashOf(all[2]))
			s.wants(ruleJournalErrors, "get an object that was removed", err, fs.ErrNotExist)
		}
		s.must(ruleJournalObject, "put again", j.Put(ctx, journal.HashOf(all[2]), all[2]))
	}
	s.expect(ruleJournalOrder, "a session with objects", j)
	s.gets(j, all...)
	s.must(ruleJournalClosed, "close", j.Close())
	j = s.open(journalID, false)
	s.gets(j, all...)
	s.must(ruleJournalClosed, "close", j.Close())
}

func (s *journalSuite) gets(j journal.Journal, all ...[]byte) {
	for _, data := range all {
		got, err := j.Get(s.t.Context(), journal.HashOf(data))
		if err != nil || !bytes.Equal(got, data) {
			s.found.add(ruleJournalObject, "get an object of %d bytes: %d bytes, error %v", len(data), len(got), err)
		}
	}
}

// rewrite replaces the records by a selection of them, which is read from the journal meanwhile.
func (s *journalSuite) rewrite() {
	ctx := s.t.Context()
	j := s.create(journalID)
	s.append(j, "1", "2", "3", "4")
	kept, dropped := []byte("kept"), []byte("dropped")
	for _, data := range [][]byte{kept, dropped} {
		s.must(ruleJournalObject, "put", j.Put(ctx, journal.HashOf(data), data))
	}
	reader := s.open(journalID, false)
	err := j.Rewrite(ctx, func(yield func([]byte) bool) {
		for r, err := range j.Records(ctx) {
			s.must(ruleJournalRewrite, "read while rewriting", err)
			if string(r) != "2" && !yield(r) {
				return
			}
		}
	}, func(h journal.Hash) bool { return h == journal.HashOf(kept) })
	s.must(ruleJournalRewrite, "rewrite", err)
	s.append(j, "5")
	s.must(ruleJournalObject, "put an object that was removed", j.Put(ctx, journal.HashOf(dropped), dropped))
	s.gets(j, kept, dropped)
	s.must(ruleJournalRewrite, "remove an object", j.Rewrite(ctx, slices.Values([][]byte{[]byte("1"),
		[]byte("3"), []byte("5")}), func(h journal.Hash) bool { return h == journal.HashOf(kept) }))
	for what, x := range map[string]journal.Journal{"the writer": j, "a reader from before": reader,
		"a reader from after": s.open(journalID, false)} {
		s.expect(ruleJournalRewrite, what, x, "1", "3", "5")
		s.gets(x, kept)
		if _, err := x.Get(ctx, journal.HashOf(dropped)); !errors.Is(err, fs.ErrNotExist) {
			s.found.add(ruleJournalRewrite, "%s finds an object that was not kept: error %v", what, err)
		}
		s.must(ruleJournalClosed, "close", x.Close())
	}
	j = s.open(journalID, true)
	s.expect(ruleJournalRewrite, "opened anew", j, "1", "3", "5")
	s.must(ruleJournalClosed, "close", j.Close())
}

// rewriteCancelled cancels a Rewrite, and gives it a record that is refused.
func (s *journalSuite) rewriteCancelled() {
	j := s.create(journalID)
	s.append(j, "1", "2")
	data := []byte("object")
	s.must(ruleJournalObject, "put", j.Put(s.t.Context(), journal.HashOf(data), data))
	drop := func(journal.Hash) bool { return false }
	ctx, cancel := context.WithCancel(s.t.Context())
	err := j.Rewrite(ctx, func(yield func([]byte) bool) {
		_ = yield([]byte("3"))
		cancel()
	}, drop)
	s.wants(ruleJournalRewrite, "rewrite, cancelled", err, context.Canceled)
	err = j.Rewrite(s.t.Context(), slices.Values([][]byte{[]byte("3"), []byte("4\n")}), drop)
	if !is[*journal.OpError](err) {
		s.found.add(ruleJournalRewrite, "rewrite with a bad record: error %v", err)
	}
	s.expect(ruleJournalRewrite, "after a Rewrite that failed", j, "1", "2")
	s.gets(j, data)
	s.append(j, "3")
	s.must(ruleJournalClosed, "close", j.Close())
	j = s.open(journalID, false)
	s.expect(ruleJournalRewrite, "after a Rewrite that failed", j, "1", "2", "3")
	s.must(ruleJournalClosed, "close", j.Close())
}

// list checks descriptions.
func (s *journalSuite) list() {
	ctx := s.t.Context()
	for i := range 5 {
		j := s.create(strconv.Itoa(i))
		s.append(j, "1")
		if i > 0 {
			s.must(ruleJournalList, "describe", j.Describe(ctx, journal.Entry{ID: "other", Title: "old", Cost: 3}))
			s.must(ruleJournalList, "describe", j.Describe(ctx, journal.Entry{Title: "new " + strconv.Itoa(i)}))
		}
		s.must(ruleJournalClosed, "close", j.Close())
	}
	s.must(ruleJournalList, "delete", s.store.Delete(ctx, "3"))
	s.must(ruleJournalList, "delete", s.store.Delete(ctx, "4"))
	s.must(ruleJournalClosed, "close", s.create("4").Close())
	for _, store := range []journal.Store{s.store, s.another()} {
		var got []string
		for e, err := range store.List(ctx) {
			s.must(ruleJournalList, "list", err)
			got = append(got, fmt.Sprintf("%s %q %g %t", e.ID, e.Title, e.Cost, e.Used.IsZero()))
		}
		slices.Sort(got)
		want := []string{`0 "" 0 false`, `1 "new 1" 0 true`, `2 "new 2" 0 true`, `4 "" 0 false`}
		if !slices.Equal(got, want) {
			s.found.add(ruleJournalList, "the list is %q, want %q", got, want)
		}
		for range store.List(ctx) {
			break
		}
	}
	var last error
	for _, last = range s.store.List(cancelledContext(ctx)) {
	}
	if !errors.Is(last, context.Canceled) {
		s.found.add(ruleJournalList, "list, cancelled: error %v", last)
	}
}

// cancelled checks that calls with a context that has ended change nothing.
func (s *journalSuite) cancelled() {
	j := s.create(journalID)
	s.append(j, "1")
	ctx := cancelledContext(s.t.Context())
	data := []byte("object")
	hash := journal.HashOf(data)
	_, create := s.store.Create(ctx, "new")
	_, open := s.store.Open(ctx, journalID, false)
	_, get := j.Get(ctx, hash)
	errs := map[string]error{"create": create, "open": open, "get": get,
		"append": j.Append(ctx, true, []byte("2")), "put": j.Put(ctx, hash, data),
		"describe": j.Describe(ctx, journal.Entry{Title: "x"}), "delete": s.store.Delete(ctx, journalID)}
	for _, errs["read"] = range j.Records(ctx) {
	}
	for what, err := range errs {
		s.wants(ruleJournalWhole, what+", cancelled", err, context.Canceled)
	}
	s.expect(ruleJournalWhole, "after cancelled calls", j, "1")
	if _, err := j.Get(s.t.Context(), hash); !errors.Is(err, fs.ErrNotExist) {
		s.found.add(ruleJournalWhole, "a cancelled put stored the object: error %v", err)
	}
	s.must(ruleJournalClosed, "close", j.Close())
}

// closed checks that a closed journal returns errors, and that closing is repeatable.
func (s *journalSuite) closed() {
	ctx := s.t.Context()
	for _, write := range []bool{true, false} {
		var j journal.Journal
		if write {
			j = s.create(journalID)
			s.append(j, "1")
		} else {
			j = s.open(journalID, false)
		}
		for range 3 {
			s.must(ruleJournalClosed, "close", j.Close())
		}
		_, get := j.Get(ctx, journal.HashOf(nil))
		errs := map[string]error{"get": get, "append": j.Append(ctx, false, []byte("2")),
			"put": j.Put(ctx, journal.HashOf(nil), nil), "describe": j.Describe(ctx, journal.Entry{}),
			"rewrite": j.Rewrite(ctx, slices.Values([][]byte{}), func(journal.Hash) bool { return true })}
		for _, errs["read"] = range j.Records(ctx) {
		}
		for what, err := range errs {
			s.wants(ruleJournalClosed, what+" after close", err, fs.ErrClosed)
		}
		// A journal that is closed again must not release the lock of its successor.
		if next := s.open(journalID, true); write {
			s.must(ruleJournalClosed, "close", j.Close())
			_, err := s.store.Open(ctx, journalID, true)
			s.busy("open", err)
			s.must(ruleJournalClosed, "close", next.Close())
		} else {
			s.expect(ruleJournalClosed, "after calls of a closed journal", next, "1")
			s.must(ruleJournalClosed, "close", next.Close())
		}
	}
}

// concurrent uses one journal from many goroutines. The records of one Append stay together, and
// those of one goroutine in order.
func (s *journalSuite) concurrent() {
	const writers, rounds = 6, 15
	ctx := s.t.Context()
	j := s.create(journalID)
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range rounds {
				data := fmt.Appendf(nil, "object %d", i)
				s.must(ruleJournalShared, "put", j.Put(ctx, journal.HashOf(data), data))
				a, b := fmt.Sprintf("%d %d a", w, i), fmt.Sprintf("%d %d b", w, i)
				s.must(ruleJournalShared, "append", j.Append(ctx, i%5 == 0, []byte(a), []byte(b)))
				s.gets(j, data)
				s.must(ruleJournalShared, "describe", j.Describe(ctx, journal.Entry{Nodes: i}))
				s.together(j)
			}
		})
	}
	wg.Wait()
	if n := s.together(j); n != 2*writers*rounds {
		s.found.add(ruleJournalShared, "%d records, want %d", n, 2*writers*rounds)
	}
	s.must(ruleJournalClosed, "close", j.Close())
}

// together checks the records of concurrent, and returns their number.
func (s *journalSuite) together(j journal.Journal) (n int) {
	next := map[string]int{}
	before := ""
	for r, err := range j.Records(s.t.Context()) {
		if err != nil {
			s.found.add(ruleJournalShared, "read: %v", err)
			return n
		}
		n++
		text := string(r)
		if head, ok := strings.CutSuffix(text, " b"); ok && before != head+" a" {
			s.found.add(ruleJournalShared, "record %q follows %q", text, before)
		} else if ok {
			writer, i, _ := strings.Cut(head, " ")
			if i != strconv.Itoa(next[writer]) {
				s.found.add(ruleJournalShared, "record %q is out of order", text)
			}
			next[writer]++
		}
		before = text
	}
	return n
}

// reader reads beside a writer, which also rewrites. Each reading is the beginning of what is
// appended, and no shorter than the one before.
func (s *journalSuite) reader() {
	const records = 300
	j := s.create(journalID)
	var done atomic.Bool
	var wg sync.WaitGroup
	for range 3 {
		r := s.open(journalID, false)
		wg.Go(func() {
			for last, end := 0, false; !end; {
				end = done.Load() // each reader also reads once at the end
				n := s.beginning(r)
				if n < last {
					s.found.add(ruleJournalReader, "%d records after %d", n, last)
				}
				last = n
			}
			s.must(ruleJournalClosed, "close", r.Close())
		})
	}
	for i := range records {
		s.must(ruleJournalOrder, "append", j.Append(s.t.Context(), i%50 == 0, numbered(i)))
		if i%100 == 99 {
			all := make([][]byte, i+1)
			for k := range all {
				all[k] = numbered(k)
			}
			s.must(ruleJournalRewrite, "rewrite", j.Rewrite(s.t.Context(), slices.Values(all),
				func(journal.Hash) bool { return true }))
		}
	}
	done.Store(true)
	wg.Wait()
	if n := s.beginning(j); n != records {
		s.found.add(ruleJournalOrder, "%d records, want %d", n, records)
	}
	s.must(ruleJournalClosed, "close", j.Close())
}

// numbered returns a record of a size that depends on its number.
func numbered(i int) []byte { return fmt.Appendf(nil, `%d %s`, i, strings.Repeat("x", i*37%9000)) }

func (s *journalSuite) beginning(j journal.Journal) (n int) {
	for r, err := range j.Records(s.t.Context()) {
		if err != nil || !bytes.Equal(r, numbered(n)) {
			s.found.add(ruleJournalReader, "record %d is %s, error %v", n, shown(string(r)), err)
			return n
		}
		n++
	}
	return n
}

// damagedObject checks that a damaged object is never returned.
func (s *journalSuite) damagedObject() {
	if s.DamageObject == nil {
		s.t.Skip("JournalSetup.DamageObject is nil: skipped")
	}
	j := s.create(journalID)
	one, two := bytes.Repeat([]byte("one "), 100), []byte("two")
	for _, data := range [][]byte{one, two} {
		s.must(ruleJournalObject, "put", j.Put(s.t.Context(), journal.HashOf(data), data))
	}
	s.must(ruleJournalClosed, "close", j.Close())
	s.DamageObject(s.t, s.dir, journalID, journal.HashOf(one))
	j = s.open(journalID, true)
	_, err := j.Get(s.t.Context(), journal.HashOf(one))
	if d, ok := errors.AsType[*journal.DamageError](err); !ok || d.Object != journal.HashOf(one) || d.Record != 0 {
		s.found.add(ruleJournalDamage, "get a damaged object: error %v, want a *DamageError", err)
	}
	s.gets(j, two)
	s.must(ruleJournalDamage, "put a damaged object", j.Put(s.t.Context(), journal.HashOf(one), one))
	s.gets(j, one)
	s.must(ruleJournalClosed, "close", j.Close())
}

// damagedRecord checks that a damaged record is reported, and that the others are read.
func (s *journalSuite) damagedRecord() {
	if s.DamageRecord == nil {
		s.t.Skip("JournalSetup.DamageRecord is nil: skipped")
	}
	j := s.create(journalID)
	s.append(j, `{"n":1}`, `{"n":2}`, `{"n":3}`)
	s.must(ruleJournalClosed, "close", j.Close())
	s.DamageRecord(s.t, s.dir, journalID, 2)
	for _, write := range []bool{false, true} {
		j := s.open(journalID, write)
		var got []string
		for r, err := range j.Records(s.t.Context()) {
			if d, ok := errors.AsType[*journal.DamageError](err); ok {
				got = append(got, fmt.Sprintf("damaged %d %t", d.Record, d.Torn))
				continue
			}
			s.must(ruleJournalDamage, "read", err)
			got = append(got, string(r))
		}
		if want := []string{`{"n":1}`, "damaged 2 false", `{"n":3}`}; !slices.Equal(got, want) {
			s.found.add(ruleJournalDamage, "records %q, want %q", got, want)
		}
		s.must(ruleJournalClosed, "close", j.Close())
	}
}
