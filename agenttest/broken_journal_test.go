package agenttest

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/journal"
)

// brokenStore is a store whose calls may be replaced.
type brokenStore struct {
	journal.Store
	open    func(s journal.Store, ctx context.Context, id string, write bool) (journal.Journal, error)
	create  func(s journal.Store, ctx context.Context, id string) (journal.Journal, error)
	remove  func(s journal.Store, ctx context.Context, id string) error
	list    func(s journal.Store, ctx context.Context) iter.Seq2[journal.Entry, error]
	journal func(j journal.Journal, write bool) *brokenJournal
}

func (s *brokenStore) wrap(j journal.Journal, write bool, err error) (journal.Journal, error) {
	if err != nil || s.journal == nil {
		return j, err
	}
	b := s.journal(j, write)
	b.Journal = j
	return b, nil
}

func (s *brokenStore) Create(ctx context.Context, id string) (journal.Journal, error) {
	create := journal.Store.Create
	if s.create != nil {
		create = s.create
	}
	j, err := create(s.Store, ctx, id)
	return s.wrap(j, true, err)
}

func (s *brokenStore) Open(ctx context.Context, id string, write bool) (journal.Journal, error) {
	open := journal.Store.Open
	if s.open != nil {
		open = s.open
	}
	j, err := open(s.Store, ctx, id, write)
	return s.wrap(j, write, err)
}

func (s *brokenStore) Delete(ctx context.Context, id string) error {
	if s.remove != nil {
		return s.remove(s.Store, ctx, id)
	}
	return s.Store.Delete(ctx, id)
}

func (s *brokenStore) List(ctx context.Context) iter.Seq2[journal.Entry, error] {
	if s.list != nil {
		return s.list(s.Store, ctx)
	}
	return s.Store.List(ctx)
}

// brokenJournal is a journal whose calls may be replaced.
type brokenJournal struct {
	journal.Journal
	records  func(ctx context.Context) iter.Seq2[[]byte, error]
	append   func(ctx context.Context, durable bool, records ...[]byte) error
	put      func(ctx context.Context, hash journal.Hash, data []byte) error
	get      func(ctx context.Context, hash journal.Hash) ([]byte, error)
	rewrite  func(ctx context.Context, records iter.Seq[[]byte], keep func(journal.Hash) bool) error
	describe func(ctx context.Context, e journal.Entry) error
	close    func() error
}

func (b *brokenJournal) Records(ctx context.Context) iter.Seq2[[]byte, error] {
	if b.records != nil {
		return b.records(ctx)
	}
	return b.Journal.Records(ctx)
}

func (b *brokenJournal) Append(ctx context.Context, durable bool, records ...[]byte) error {
	if b.append != nil {
		return b.append(ctx, durable, records...)
	}
	return b.Journal.Append(ctx, durable, records...)
}

func (b *brokenJournal) Put(ctx context.Context, hash journal.Hash, data []byte) error {
	if b.put != nil {
		return b.put(ctx, hash, data)
	}
	return b.Journal.Put(ctx, hash, data)
}

func (b *brokenJournal) Get(ctx context.Context, hash journal.Hash) ([]byte, error) {
	if b.get != nil {
		return b.get(ctx, hash)
	}
	return b.Journal.Get(ctx, hash)
}

func (b *brokenJournal) Rewrite(ctx context.Context, records iter.Seq[[]byte], keep func(journal.Hash) bool) error {
	if b.rewrite != nil {
		return b.rewrite(ctx, records, keep)
	}
	return b.Journal.Rewrite(ctx, records, keep)
}

func (b *brokenJournal) Describe(ctx context.Context, e journal.Entry) error {
	if b.describe != nil {
		return b.describe(ctx, e)
	}
	return b.Journal.Describe(ctx, e)
}

func (b *brokenJournal) Close() error {
	if b.close != nil {
		return b.close()
	}
	return b.Journal.Close()
}

// mapped returns a sequence with records changed by f, which drops those for which it returns
// nil.
func mapped(j journal.Journal, f func([]byte) []byte) func(context.Context) iter.Seq2[[]byte, error] {
	return func(ctx context.Context) iter.Seq2[[]byte, error] {
		return func(yield func([]byte, error) bool) {
			for r, err := range j.Records(ctx) {
				if err == nil {
					if r = f(r); r == nil {
						continue
					}
				}
				if !yield(r, err) {
					return
				}
			}
		}
	}
}

func inMemory(s brokenStore) JournalSetup {
	return JournalSetup{InMemory: true, Open: func(testing.TB, string) journal.Store {
		s := s
		s.Store = journal.Memory()
		return &s
	}}
}

func inFiles(s brokenStore, opts ...journal.DirOption) JournalSetup {
	return JournalSetup{Open: func(t testing.TB, dir string) journal.Store {
		s := s
		var err error
		if s.Store, err = journal.Dir(dir, opts...); err != nil {
			t.Fatal(err)
		}
		return &s
	}}
}

func journals(f func(j journal.Journal, write bool) *brokenJournal) JournalSetup {
	return inMemory(brokenStore{journal: f})
}

func TestSuiteFindsBrokenJournals(t *testing.T) {
	timed.Serial(t)
	forget := context.WithoutCancel
	undamaged := inMemory(brokenStore{})
	undamaged.DamageObject = func(testing.TB, string, string, journal.Hash) {}
	undamaged.DamageRecord = func(testing.TB, string, string, int) {}
	for _, tt := range []struct {
		name  string
		setup JournalSetup
		check func(*journalSuite)
		rule  string
	}{
		{"trims records", journals(func(j journal.Journal, _ bool) *brokenJournal {
			return &brokenJournal{records: mapped(j, bytes.TrimSpace)}
		}), (*journalSuite).records, ruleJournalOrder},
		{"leaves out empty records", journals(func(j journal.Journal, _ bool) *brokenJournal {
			return &brokenJournal{records: mapped(j, func(r []byte) []byte { return append([]byte(nil), r...) })}
		}), (*journalSuite).records, ruleJournalOrder},
		{"has records in reverse", journals(func(j journal.Journal, _ bool) *brokenJournal {
			return &brokenJournal{append: func(ctx context.Context, d bool, records ...[]byte) error {
				records = slices.Clone(records)
				slices.Reverse(records)
				return j.Append(ctx, d, records...)
			}}
		}), (*journalSuite).records, ruleJournalOrder},
		{"appends one by one", journals(func(j journal.Journal, _ bool) *brokenJournal {
			return &brokenJournal{append: func(ctx context.Context, d bool, records ...[]byte) error {
				for _, r := range records {
					if err := j.Append(ctx, d, r); err != nil {
						return err
					}
				}
				return nil
			}}
		}), (*journalSuite).atomic, ruleJournalWhole},
		{"splits records", journals(func(j journal.Journal, _ bool) *brokenJournal {
			return &brokenJournal{append: func(ctx context.Context, d bool, records ...[]byte) error {
				return j.Append(ctx, d, bytes.Split(bytes.Join(records, []byte("\n")), []byte("\n"))...)
			}}
		}), (*journalSuite).atomic, ruleJournalWhole},
		{"appends though cancelled", journals(func(j journal.Journal, _ bool) *brokenJournal {
			return &brokenJournal{append: func(ctx context.Context, d bool, records ...[]byte) error {
				return errors.Join(j.Append(forget(ctx), d, records...), j.Append(ctx, d))
			}}
		}), (*journalSuite).cancelled, ruleJournalWhole},
		{"stores an object though cancelled", journals(func(j journal.Journal, _ bool) *brokenJournal {
			return &brokenJournal{put: func(ctx context.Context, hash journal.Hash, data []byte) error {
				return errors.Join(j.Put(forget(ctx), hash, data), j.Append(ctx, false))
			}}
		}), (*journalSuite).cancelled, ruleJournalWhole},
		{"loses what it acknowledged", inFiles(brokenStore{journal: func(j journal.Journal, write bool) *brokenJournal {
			var held [][]byte
			return &brokenJournal{append: func(ctx context.Context, d bool, records ...[]byte) error {
				held = append(held, records...)
				if len(held) < 6 {
					return nil
				}
				all := held
				held = nil
				return j.Append(ctx, d, all...)
			}, rewrite: func(context.Context, iter.Seq[[]byte], func(journal.Hash) bool) error { return nil }}
		}}), (*journalSuite).killed, ruleJournalKept},
		{"stores objects late", inFiles(brokenStore{journal: func(j journal.Journal, write bool) *brokenJournal {
			var before []byte
			return &brokenJournal{put: func(ctx context.Context, _ journal.Hash, data []byte) error {
				last := before
				before = data
				return j.Put(ctx, journal.HashOf(last), last)
			}}
		}}), (*journalSuite).killed, ruleJournalKept},
		{"has no lock", inFiles(brokenStore{}, journal.WithoutLock()), (*journalSuite).processes, ruleJournalWriter},
		{"has two writers", inMemory(brokenStore{open: func(s journal.Store, ctx context.Context, id string,
			write bool) (journal.Journal, error) {
			j, err := s.Open(ctx, id, write)
			if is[*journal.BusyError](err) {
				return s.Open(ctx, id, false)
			}
			return j, err
		}}), (*journalSuite).writer, ruleJournalWriter},
		{"does not name the holder", inMemory(brokenStore{open: func(s journal.Store, ctx context.Context, id string,
			write bool) (journal.Journal, error) {
			j, err := s.Open(ctx, id, write)
			if busy, ok := errors.AsType[*journal.BusyError](err); ok {
				busy.Holder = journal.Holder{}
			}
			return j, err
		}}), (*journalSuite).writer, ruleJournalWriter},
		{"deletes an open session", inMemory(brokenStore{remove: func(s journal.Store, ctx context.Context, id string) error {
			if err := s.Delete(ctx, id); !is[*journal.BusyError](err) {
				return err
			}
			return nil
		}}), (*journalSuite).writer, ruleJournalWriter},
		{"has readers that write", journals(func(j journal.Journal, write bool) *brokenJournal {
			return &brokenJournal{append: func(ctx context.Context, d bool, records ...[]byte) error {
				if !write {
					return nil
				}
				return j.Append(ctx, d, records...)
			}}
		}), (*journalSuite).readOnly, ruleJournalReader},
		{"shows half records", journals(func(j journal.Journal, write bool) *brokenJournal {
			return &brokenJournal{records: func(ctx context.Context) iter.Seq2[[]byte, error] {
				if write {
					return j.Records(ctx)
				}
				return mapped(j, func(r []byte) []byte { return r[:len(r)-len(r)/1000] })(ctx)
			}}
		}), (*journalSuite).reader, ruleJournalReader},
		{"takes any id", inMemory(brokenStore{create: func(s journal.Store, ctx context.Context, id string) (journal.Journal,
			error) {
			return s.Create(ctx, strings.ToLower(id))
		}}), (*journalSuite).ids, ruleJournalErrors},
		{"makes what is not there", inMemory(brokenStore{open: func(s journal.Store, ctx context.Context, id string,
			write bool) (journal.Journal, error) {
			j, err := s.Create(ctx, id)
			if err != nil {
				return s.Open(ctx, id, write)
			}
			return j, errors.Join(j.Close(), s.Delete(ctx, id))
		}}), (*journalSuite).ids, ruleJournalErrors},
		{"has errors without a type", inMemory(brokenStore{remove: func(s journal.Store, ctx context.Context, id string) error {
			if s.Delete(ctx, id) != nil {
				return errors.New("it cannot be deleted")
			}
			return nil
		}}), (*journalSuite).ids, ruleJournalErrors},
		{"shortens objects", journals(func(j journal.Journal, _ bool) *brokenJournal {
			return &brokenJournal{get: func(ctx context.Context, hash journal.Hash) ([]byte, error) {
				data, err := j.Get(ctx, hash)
				return data[:min(len(data), 1<<20)], err
			}}
		}), (*journalSuite).objects, ruleJournalObject},
		{"takes any hash", journals(func(j journal.Journal, _ bool) *brokenJournal {
			return &brokenJournal{put: func(ctx context.Context, _ journal.Hash, data []byte) error {
				return j.Put(ctx, journal.HashOf(data), data)
			}}
		}), (*journalSuite).objects, ruleJournalObject},
		{"keeps all objects", journals(func(j journal.Journal, _ bool) *brokenJournal {
			return &brokenJournal{rewrite: func(ctx context.Context, records iter.Seq[[]byte], _ func(journal.Hash) bool) error {
				return j.Rewrite(ctx, records, func(journal.Hash) bool { return true })
			}}
		}), (*journalSuite).rewrite, ruleJournalRewrite},
		{"appends instead of replacing", journals(func(j journal.Journal, _ bool) *brokenJournal {
			return &brokenJournal{rewrite: func(ctx context.Context, records iter.Seq[[]byte], _ func(journal.Hash) bool) error {
				return j.Append(ctx, true, slices.Collect(records)...)
			}}
		}), (*journalSuite).rewrite, ruleJournalRewrite},
		{"rewrites though cancelled", journals(func(j journal.Journal, _ bool) *brokenJournal {
			return &brokenJournal{rewrite: func(ctx context.Context, records iter.Seq[[]byte],
				keep func(journal.Hash) bool) error {
				return errors.Join(j.Rewrite(forget(ctx), records, keep), j.Append(ctx, true))
			}}
		}), (*journalSuite).rewriteCancelled, ruleJournalRewrite},
		{"keeps the first description", journals(func(j journal.Journal, _ bool) *brokenJournal {
			described := false
			return &brokenJournal{describe: func(ctx context.Context, e journal.Entry) error {
				if described {
					return nil
				}
				described = true
				return j.Describe(ctx, e)
			}}
		}), (*journalSuite).list, ruleJournalList},
		{"lists sessions twice", inMemory(brokenStore{list: func(s journal.Store,
			ctx context.Context) iter.Seq2[journal.Entry, error] {
			return func(yield func(journal.Entry, error) bool) {
				for range 2 {
					for e, err := range s.List(ctx) {
						if !yield(e, err) {
							return
						}
					}
				}
			}
		}}), (*journalSuite).list, ruleJournalList},
		{"cannot be closed twice", journals(func(j journal.Journal, _ bool) *brokenJournal {
			n := 0
			return &brokenJournal{close: func() error {
				if n++; n > 1 {
					return errors.New("closed")
				}
				return j.Close()
			}}
		}), (*journalSuite).closed, ruleJournalClosed},
		{"describes after close", journals(func(j journal.Journal, _ bool) *brokenJournal {
			return &brokenJournal{describe: func(context.Context, journal.Entry) error { return nil }}
		}), (*journalSuite).closed, ruleJournalClosed},
		{"keeps a slice", journals(func(j journal.Journal, _ bool) *brokenJournal {
			var kept [][]byte
			return &brokenJournal{append: func(_ context.Context, _ bool, records ...[]byte) error {
				kept = append(kept, records...)
				return nil
			}, records: func(context.Context) iter.Seq2[[]byte, error] {
				return func(yield func([]byte, error) bool) {
					for _, r := range kept {
						if !yield(r, nil) {
							return
						}
					}
				}
			}}
		}), (*journalSuite).ownSlices, ruleJournalShared},
		{"mixes records of two calls", journals(func(j journal.Journal, _ bool) *brokenJournal {
			gate := make(chan []byte, 1)
			return &brokenJournal{append: func(ctx context.Context, d bool, records ...[]byte) error {
				for _, r := range records {
					select {
					case other := <-gate:
						if err := j.Append(ctx, d, r, other); err != nil {
							return err
						}
					case gate <- r:
					}
				}
				return nil
			}}
		}), (*journalSuite).concurrent, ruleJournalShared},
		{"does not see that an object is damaged", undamaged, (*journalSuite).damagedObject, ruleJournalDamage},
		{"does not see that a record is damaged", undamaged, (*journalSuite).damagedRecord, ruleJournalDamage},
	} {
		t.Run(tt.name, func(t *testing.T) {
			journalHelper(t, tt.setup)
			s := newJournalSuite(t, tt.setup, t.Name())
			tt.check(s)
			if !s.found.of(tt.rule) {
				t.Errorf("the suite does not find it: want %q, got %s", tt.rule, s.found)
			}
		})
	}
}
