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

// hub wakes the followers of a store. It has a connection while there are any.
type hub struct {
	config *pgx.ConnConfig
	work   sync.WaitGroup

	mu      sync.Mutex
	waiting map[int64]map[chan struct{}]bool
	count   int
	cancel  context.CancelFunc
	closed  bool
}

func (h *hub) setup(config *pgx.ConnConfig) {
	h.config, h.waiting = config, map[int64]map[chan struct{}]bool{}
}

// join makes a channel, which has room for one value, receive one when a session has changed.
func (h *hub) join(key int64, wake chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.waiting[key] == nil {
		h.waiting[key] = map[chan struct{}]bool{}
	}
	h.waiting[key][wake] = true
	if h.count++; h.count == 1 && !h.closed {
		var ctx context.Context
		ctx, h.cancel = context.WithCancel(context.Background())
		h.work.Go(func() { h.listen(ctx) })
	}
}

func (h *hub) leave(key int64, wake chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if delete(h.waiting[key], wake); len(h.waiting[key]) == 0 {
		delete(h.waiting, key)
	}
	if h.count--; h.count == 0 && h.cancel != nil {
		h.cancel()
	}
}

func (h *hub) close() {
	h.mu.Lock()
	h.closed = true
	if h.cancel != nil {
		h.cancel()
	}
	h.mu.Unlock()
	h.work.Wait()
}

// listen receives notifications until ctx ends. Without a connection, followers look by themselves now and then.
func (h *hub) listen(ctx context.Context) {
	for ctx.Err() == nil {
		_ = h.receive(ctx)
		select {
		case <-ctx.Done():
		case <-time.After(look / 4):
		}
	}
}

func (h *hub) receive(ctx context.Context) (err error) {
	conn, err := dial(ctx, h.config)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, hangUp(conn)) }()
	if err := statements(ctx, conn, "LISTEN "+channel); err != nil {
		return err
	}
	h.wake(nil) // for what came before
	for {
		pause, cancel := context.WithTimeout(ctx, time.Minute)
		n, err := conn.WaitForNotification(pause)
		cancel()
		if err == nil {
			h.wake(strings.Fields(n.Payload))
		} else if conn.IsClosed() || ctx.Err() != nil || !alive(ctx, conn) { // a connection may be lost silently
			return err
		}
	}
}

// wake wakes the followers of sessions, or all if the list is nil.
func (h *hub) wake(keys []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	each := func(list map[chan struct{}]bool) {
		for c := range list {
			select {
			case c <- struct{}{}:
			default:
			}
		}
	}
	if keys == nil {
		for _, list := range h.waiting {
			each(list)
		}
	}
	for _, k := range keys {
		key, _ := strconv.ParseInt(k, 10, 64)
		each(h.waiting[key])
	}
}
