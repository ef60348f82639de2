package postgres

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/aycoder/aycoder/journal"
)

// A Record is a record of a session and its position.
type Record struct {
	Position
	// Data is the record. It is nil if the record is damaged.
	Data []byte
}

// Position is the position of a record. The zero value is before the first one. It is plain data.
type Position struct {
	// N is the number of the record, from 1. Rewrites is the number of times that the journal was rewritten before, since a
	// rewriting numbers all records anew.
	N        int `json:"n"`
	Rewrites int `json:"rewrites,omitempty"`
}

// ErrRewritten is the cause of the error of [Store.Follow] if the journal was rewritten, or PostgreSQL has crashed and lost
// records that were not flushed, so that the records may be other ones than those before.
var ErrRewritten = errors.New("the journal was rewritten")

// Follow yields the records of a session after a position, and then those that any process appends, until ctx ends, the
// session is deleted, the journal is rewritten ([ErrRewritten]) or the database cannot be reached; the error is the last
// thing that it yields. A damaged record comes with a [*journal.DamageError], and does not end it. No connection is held
// while the caller works, and a slow caller misses nothing.
//
// A record normally comes within milliseconds after the append, and within two seconds if the notification was lost.
func (s *Store) Follow(ctx context.Context, id string, after Position) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		if err := s.follow(ctx, id, after, yield); err != nil {
			yield(Record{Position: after}, wrap(ctx, "follow", id, err))
		}
	}
}

// look is the time after which a follower looks without a notification.
const look = 2 * time.Second

func (s *Store) follow(ctx context.Context, id string, after Position, yield func(Record, error) bool) error {
	key, err := s.find(ctx, id)
	if err != nil {
		return err
	}
	wake := make(chan struct{}, 1)
	s.hub.join(key, wake)
	defer s.hub.leave(key, wake)
	first := after == Position{}
	var last *int32 // the checksum of the record at the position, if it was read
	for {
		page, now, err := s.page(ctx, key, after.N)
		switch {
		case err != nil:
			return err
		case !first && now.rewrites != after.Rewrites:
			return ErrRewritten
		case after.N > 0 && (now.crc == nil || last != nil && *last != *now.crc):
			return fmt.Errorf("record %d was lost in a crash of the database: %w", after.N, ErrRewritten)
		}
		after.Rewrites, first = now.rewrites, false
		for _, r := range page {
			r.Rewrites, last = now.rewrites, &r.crc
			var err error
			if r.Data, err = checkedRecord(id, r.N, r.crc, r.Data); !yield(r.Record, err) {
				return nil
			}
			after = r.Position
		}
		if len(page) > 0 {
			continue
		}
		select {
		case <-wake:
		case <-time.After(look):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// paged is a record of a page.
type paged struct {
	Record
	crc int32
}

// state is that of a journal when a page was read: the number of times that it was rewritten, and the checksum of the record
// before the page, or nil if there is none.
type state struct {
	rewrites int
	crc      *int32
}

// page reads some records after the n-th, of a bounded size.
func (s *Store) page(ctx context.Context, key int64, n int) (list []paged, now state, err error) {
	const sql = `SELECT s.rewrites, (SELECT crc FROM records WHERE session = s.key AND n = $2), coalesce(r.n, 0), coalesce(r.crc, 0), r.data FROM sessions s LEFT JOIN LATERAL (
		SELECT n, crc, data, sum(octet_length(data)) OVER (ORDER BY n) - octet_length(data) AS before FROM
			(SELECT n, crc, data FROM records WHERE session = s.key AND n > $2 ORDER BY n LIMIT 256) r
		) r ON r.before < 1048576 WHERE s.key = $1 ORDER BY r.n`
	found := false
	err = s.retry(ctx, func(ctx context.Context) error {
		list, found = nil, false
		rows, err := s.pool.Query(ctx, sql, key, n)
		if err != nil {
			return err
		}
		var p paged
		_, err = pgx.ForEachRow(rows, []any{&now.rewrites, &now.crc, &p.N, &p.crc, &p.Data}, func() error {
			if found = true; p.N > 0 {
				list = append(list, p)
			}
			return nil
		})
		return err
	})
	if err == nil && !found {
		err = fs.ErrNotExist
	}
	return list, now, err
}

// checkedRecord returns the data of a record, or the error if it is damaged.
func checkedRecord(id string, n int, crc int32, data []byte) ([]byte, error) {
	if checksum(data) == crc {
		return data, nil
	}
	return nil, &journal.DamageError{Record: n, OpError: &journal.OpError{Op: "read", Session: id, Err: errChecksum}}
}

// hub wakes the followers of a store. It is a subscriber of the feed while there are any. Without notifications, followers look by
// themselves now and then.
type hub struct {
	feed *feed

	mu      sync.Mutex
	waiting map[int64]map[chan struct{}]bool
}

// join makes a channel, which has room for one value, receive one when a session has changed.
func (h *hub) join(key int64, wake chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.waiting) == 0 {
		h.feed.join(channel, h)
	}
	if h.waiting[key] == nil {
		h.waiting[key] = map[chan struct{}]bool{}
	}
	h.waiting[key][wake] = true
}

func (h *hub) leave(key int64, wake chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if delete(h.waiting[key], wake); len(h.waiting[key]) == 0 {
		delete(h.waiting, key)
	}
	if len(h.waiting) == 0 {
		h.feed.leave(channel, h)
	}
}

// put implements [receiver]: it wakes the followers of the sessions whose keys it gets.
func (h *hub) put(keys string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for k := range strings.FieldsSeq(keys) {
		key, _ := strconv.ParseInt(k, 10, 64)
		wakeAll(h.waiting[key])
	}
}

// missed implements [receiver].
func (h *hub) missed() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, list := range h.waiting {
		wakeAll(list)
	}
}

func wakeAll(list map[chan struct{}]bool) {
	for c := range list {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}
