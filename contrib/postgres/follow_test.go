package postgres

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/aycoder/aycoder/journal"
)

// A follower gets each record once and in order, those from before and those that another store appends meanwhile.
func TestFollow(t *testing.T) {
	const total = 1000
	dir, ctx := tempDir(t), t.Context()
	writer, reader := openStore(t, dir), openStore(t, dir)
	j, err := writer.Create(ctx, "a")
	must(t, err)
	record := func(i int) []byte { return fmt.Appendf(nil, "%d %s", i, strings.Repeat("x", i*997%30000)) }
	for i := range total / 2 {
		must(t, j.Append(ctx, false, record(i)))
	}
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			n, at := 0, Position{}
			for n < total { // it ends and goes on from time to time
				for r, err := range reader.Follow(ctx, "a", at) {
					if err != nil || r.N != n+1 || r.Rewrites != 0 || string(r.Data) != string(record(n)) {
						t.Errorf("record %d is %.20q with number %d, error %v", n, r.Data, r.N, err)
						return
					}
					at = r.Position
					if n++; n%300 == 0 || n == total {
						break
					}
				}
			}
		})
	}
	for i := total / 2; i < total; i++ {
		must(t, j.Append(ctx, i%10 == 0, record(i)))
	}
	wg.Wait()
	must(t, j.Close())
}

// followed returns the next record, or the error, of a follower that is ahead of all records.
func followed(ctx context.Context, s *Store, at Position) (Record, error) {
	for r, err := range s.Follow(ctx, "a", at) {
		return r, err
	}
	return Record{}, nil
}

// The end of a follower: its context, a rewriting, a deletion, and a damaged record, which does not end it.
func TestFollowEnds(t *testing.T) {
	dir, ctx := tempDir(t), t.Context()
	s := openStore(t, dir)
	if _, err := followed(ctx, s, Position{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("follow a session that does not exist: error %v", err)
	}
	j := create(t, s)
	must(t, j.Append(ctx, true, []byte("2"), []byte("3")))
	exec(t, dir, `UPDATE records SET data = '\x00' WHERE n = 2`)
	var got []string
	for r, err := range s.Follow(ctx, "a", Position{}) {
		damage, _ := errors.AsType[*journal.DamageError](err)
		got = append(got, fmt.Sprint(r.N, " ", string(r.Data), damage != nil && damage.Record == 2))
		if r.N == 3 {
			break
		}
	}
	if !slices.Equal(got, []string{"1 1false", "2 true", "3 3false"}) {
		t.Errorf("records %q", got)
	}
	results := make(chan error)
	wait := func(ctx context.Context, at Position) {
		_, err := followed(ctx, s, at)
		results <- err
	}
	stopped, cancel := context.WithCancel(ctx)
	go wait(stopped, Position{N: 3})
	cancel()
	if err := <-results; !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: error %v", err)
	}
	go wait(ctx, Position{N: 3})
	must(t, j.Rewrite(ctx, slices.Values([][]byte{[]byte("1")}), func(journal.Hash) bool { return true }))
	// If the follower has looked only after that, it waits for the fourth record.
	must(t, j.Append(ctx, true, []byte("2"), []byte("3"), []byte("4")))
	if err := <-results; err != nil && !errors.Is(err, ErrRewritten) {
		t.Errorf("rewritten: error %v", err)
	}
	if _, err := followed(ctx, s, Position{N: 4, Rewrites: 7}); !errors.Is(err, ErrRewritten) {
		t.Errorf("rewritten before: error %v", err)
	}
	go wait(ctx, Position{N: 4, Rewrites: 1})
	must(t, j.Close())
	must(t, s.Delete(ctx, "a"))
	if err := <-results; !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("deleted: error %v", err)
	}
}

// After a crash, other records may have the numbers of those that were not flushed and that a follower has seen. It does not
// go on behind them.
func TestFollowLostRecords(t *testing.T) {
	dir, ctx := tempDir(t), t.Context()
	s := openStore(t, dir)
	j := create(t, s)
	must(t, j.Append(ctx, false, []byte("2")))
	var got []string
	var failed error
	for r, err := range s.Follow(ctx, "a", Position{}) {
		if got = append(got, string(r.Data)); err != nil || len(got) == 3 {
			failed = err
			break
		}
		if r.N == 2 {
			exec(t, dir, "UPDATE records SET data = 'x', crc = $1 WHERE n = 2", checksum([]byte("x")))
			must(t, j.Append(ctx, true, []byte("3")))
		}
	}
	if !slices.Equal(got, []string{"1", "2", ""}) || !errors.Is(failed, ErrRewritten) {
		t.Errorf("records %q, error %v", got, failed)
	}
	must(t, j.Close())
}

// Lost notifications lose no record.
func TestFollowWithoutNotifications(t *testing.T) {
	dir, ctx := tempDir(t), t.Context()
	s := openStore(t, dir)
	j, watch := create(t, s), connect(t, dir)
	s.feed.config.Config.Host = "/nowhere" // it gets no connection
	results := make(chan error)
	go func() {
		r, err := followed(ctx, s, Position{N: 1})
		if string(r.Data) != "2" {
			err = fmt.Errorf("record %q, error %w", r.Data, err)
		}
		results <- err
	}()
	for looked := 0; looked == 0; { // until the follower has found nothing, and waits
		must(t, watch.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity
			WHERE query LIKE '%LATERAL%' AND state = 'idle' AND pid <> pg_backend_pid()`).Scan(&looked))
	}
	must(t, j.Append(ctx, true, []byte("2")))
	must(t, <-results)
	must(t, j.Close())
}

// The payloads of notifications are small enough for PostgreSQL, and lose no key.
func TestPayloads(t *testing.T) {
	dir := tempDir(t)
	conn, name := connect(t, dir), "payloads_"+schemaOf(dir)
	_, err := conn.Exec(t.Context(), "LISTEN "+name)
	must(t, err)
	for _, n := range []int{1, 349, 350, 351, 10000} {
		keys, want, got := make([]int64, n), map[string]int{}, map[string]int{}
		for i := range keys {
			keys[i] = math.MinInt64 + int64(i)
			want[strconv.FormatInt(keys[i], 10)] = 1
		}
		_, err := conn.Exec(t.Context(), notify, name, keys)
		must(t, err)
		for count := 0; count < n; {
			heard, err := conn.WaitForNotification(t.Context())
			must(t, err)
			for k := range strings.FieldsSeq(heard.Payload) {
				got[k]++
				count++
			}
		}
		if !maps.Equal(got, want) {
			t.Errorf("%d keys are not those that were sent", n)
		}
	}
}

// A follower that was about to wait when the store was closed leaves no connection behind.
func TestFollowClosed(t *testing.T) {
	s := openStore(t, tempDir(t))
	must(t, s.Close())
	wake := make(chan struct{}, 1)
	s.hub.join(1, wake)
	if s.feed.listens {
		t.Error("it listens after the end of the store")
	}
	s.hub.leave(1, wake)
}
