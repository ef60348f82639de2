package postgres

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/aycoder/aycoder/journal"
)

// Following returns the store for readers who want to see what is appended: the records of its journals do not end, but wait
// for the next one, as [Store.Follow] does.
func (s *Store) Following() journal.Store { return following{s} }

type following struct{ *Store }

// Open implements [journal.Store]. The journal can be read only.
func (f following) Open(ctx context.Context, id string, _ bool) (journal.Journal, error) {
	j, err := f.openJournal(ctx, id, false)
	if err != nil {
		return nil, wrap(ctx, "open", id, err)
	}
	return followedJournal{j}, nil
}

type followedJournal struct{ *openJournal }

// Records implements [journal.Journal].
func (j followedJournal) Records(ctx context.Context) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for r, err := range j.store.Follow(ctx, j.id, Position{}) {
			if !yield(r.Data, err) {
				return
			}
		}
	}
}

// Bounds of the messages that wait to be sent or read, in bytes. Further ones are lost.
const (
	maxOutgoing = 4 << 20
	maxIncoming = 1 << 20
	maxNotified = 7999 // bytes of the payload of a notification
	perMessage  = 128  // bytes that a message takes beside its text, with its channel
)

// Publish sends a message of at most 7,999 bytes, which is valid UTF-8 without NUL, to all who have subscribed to a session in any
// process. It does not wait, and loses messages while the database cannot be reached or is slower than they come.
//
// Whoever may connect to the database can subscribe to the messages of all sessions. Nothing of them is stored.
func (s *Store) Publish(id string, message []byte) {
	if len(message) <= maxNotified && utf8.Valid(message) && bytes.IndexByte(message, 0) < 0 && journal.CheckID(id) == nil {
		s.feed.publish(s.liveChannel(id), string(message))
	}
}

// Subscribe yields the messages that any process publishes for a session, until ctx ends or the store is closed. It loses those
// that come while the database cannot be reached, and those for which its reader is too slow.
func (s *Store) Subscribe(ctx context.Context, id string) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		if err := start(ctx, id); err != nil {
			yield(nil, wrap(ctx, "subscribe to", id, err))
			return
		}
		q := &inbox{news: make(chan struct{}, 1)}
		name := s.liveChannel(id)
		s.feed.join(name, q)
		defer s.feed.leave(name, q)
		for {
			for _, m := range q.take() {
				if !yield([]byte(m), nil) {
					return
				}
			}
			select {
			case <-q.news:
			case <-s.feed.ended:
				yield(nil, wrap(ctx, "subscribe to", id, errors.New("the store is closed")))
				return
			case <-ctx.Done():
				yield(nil, wrap(ctx, "subscribe to", id, ctx.Err()))
				return
			}
		}
	}
}

// liveChannel is the channel of notifications for a session. Channels belong to the database, and not to a schema.
func (s *Store) liveChannel(id string) string {
	sum := sha256.Sum256([]byte(s.schema + "\x00" + id))
	return "aycoder_live_" + hex.EncodeToString(sum[:16])
}

// inbox is what a subscriber has not read yet.
type inbox struct {
	news chan struct{} // has room for one value

	mu    sync.Mutex
	list  []string
	bytes int
}

func (q *inbox) put(m string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	size := perMessage + len(m)
	if q.bytes+size > maxIncoming {
		return
	}
	q.list, q.bytes = append(q.list, m), q.bytes+size
	select {
	case q.news <- struct{}{}:
	default:
	}
}

func (q *inbox) take() []string {
	q.mu.Lock()
	defer q.mu.Unlock()
	list := q.list
	q.list, q.bytes = nil, 0
	return list
}

// missed implements [receiver]. Subscribers are not told of what is lost.
func (q *inbox) missed() {}

// receiver gets the payloads of notifications.
type receiver interface {
	put(payload string)
	missed() // says that there may have been others
}

// feed sends and receives notifications, each on a connection that it has while there is something to do.
type feed struct {
	config *pgx.ConnConfig
	work   sync.WaitGroup
	ctx    context.Context
	cancel context.CancelFunc
	ended  chan struct{}

	mu        sync.Mutex
	channels  []string // of what is to be sent
	messages  []string
	bytes     int
	sending   bool
	receivers map[string]map[receiver]bool // by channel
	changed   bool                         // whether there are other channels
	wake      context.CancelFunc           // interrupts the receiver, which then looks what channels there are
	listens   bool
	closed    bool
}

func (f *feed) setup(config *pgx.ConnConfig) {
	f.config = config.Copy()
	f.config.RuntimeParams["synchronous_commit"] = "off"
	f.ctx, f.cancel = context.WithCancel(context.Background())
	f.ended, f.receivers, f.wake = make(chan struct{}), map[string]map[receiver]bool{}, func() {}
}

func (f *feed) close() {
	if f.cancel == nil {
		return
	}
	f.mu.Lock()
	if !f.closed {
		f.closed = true
		close(f.ended)
	}
	f.mu.Unlock()
	f.cancel()
	f.work.Wait()
}

func (f *feed) publish(channel, message string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	size := perMessage + len(message)
	if f.closed || f.bytes+size > maxOutgoing {
		return
	}
	f.channels, f.messages, f.bytes = append(f.channels, channel), append(f.messages, message), f.bytes+size
	if !f.sending {
		f.sending = true
		f.work.Go(f.send)
	}
}

// unused is the time after which a connection that sends nothing is closed.
const unused = 30 * time.Second

// send sends messages until there have been none for a while.
func (f *feed) send() {
	var conn *pgx.Conn
	defer func() {
		if conn != nil {
			_ = hangUp(conn)
		}
	}()
	for idle := time.Now(); ; {
		f.mu.Lock()
		channels, messages := f.channels, f.messages
		f.channels, f.messages, f.bytes = nil, nil, 0
		if len(messages) == 0 && (f.closed || time.Since(idle) > unused) {
			f.sending = false
			f.mu.Unlock()
			return
		}
		f.mu.Unlock()
		if len(messages) > 0 {
			idle = time.Now()
			ctx, cancel := context.WithTimeout(f.ctx, answerTime)
			var err error
			if conn == nil {
				conn, err = pgx.ConnectConfig(ctx, f.config)
			}
			if err == nil {
				_, err = conn.Exec(ctx, "SELECT pg_notify(c, m) FROM unnest($1::text[], $2::text[]) AS x (c, m)", channels, messages)
			}
			cancel()
			if conn != nil && conn.IsClosed() {
				conn = nil
			}
			if err == nil {
				continue
			}
		}
		select {
		case <-f.ctx.Done():
		case <-time.After(20 * time.Millisecond): // in which more comes, for the next statement
		}
	}
}

func (f *feed) join(channel string, r receiver) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.receivers[channel] == nil {
		f.receivers[channel] = map[receiver]bool{}
		f.changed = true
		f.wake()
	}
	f.receivers[channel][r] = true
	if !f.listens && !f.closed {
		f.listens = true
		f.work.Go(f.listen)
	}
}

func (f *feed) leave(channel string, r receiver) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if delete(f.receivers[channel], r); len(f.receivers[channel]) == 0 {
		delete(f.receivers, channel)
		f.changed = true
		f.wake()
	}
}

// listen receives messages as long as there are subscribers.
func (f *feed) listen() {
	for {
		_ = f.receive()
		f.mu.Lock()
		if f.closed || len(f.receivers) == 0 {
			f.listens = false
			f.mu.Unlock()
			return
		}
		f.mu.Unlock()
		select {
		case <-f.ctx.Done():
		case <-time.After(look / 4):
		}
	}
}

func (f *feed) receive() (err error) {
	conn, err := dial(f.ctx, f.config)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, hangUp(conn)) }()
	listening := map[string]bool{}
	for first := true; ; first = false {
		pause, cancel := context.WithTimeout(f.ctx, time.Minute)
		var wanted map[string]bool
		f.mu.Lock()
		if f.wake = cancel; first || f.changed {
			f.changed, wanted = false, map[string]bool{}
			for c := range f.receivers {
				wanted[c] = true
			}
		}
		f.mu.Unlock()
		if wanted != nil {
			if err := f.adapt(conn, listening, wanted); err != nil || len(wanted) == 0 {
				cancel()
				return err
			}
			for c := range wanted {
				if !listening[c] {
					for _, r := range f.of(c) {
						r.missed()
					}
				}
			}
			listening = wanted
		}
		n, err := conn.WaitForNotification(pause)
		idle := err != nil && context.Cause(pause) == context.DeadlineExceeded
		cancel()
		switch {
		case err == nil:
			for _, r := range f.of(n.Channel) {
				r.put(n.Payload)
			}
		case conn.IsClosed() || f.ctx.Err() != nil || idle && !alive(f.ctx, conn):
			return err
		}
	}
}

// of returns the receivers of a channel.
func (f *feed) of(channel string) []receiver {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Collect(maps.Keys(f.receivers[channel]))
}

// adapt makes the connection listen to the channels that are wanted, and to no other.
func (f *feed) adapt(conn *pgx.Conn, listening, wanted map[string]bool) error {
	var all []string
	for c := range wanted {
		if !listening[c] {
			all = append(all, "LISTEN "+c)
		}
	}
	for c := range listening {
		if !wanted[c] {
			all = append(all, "UNLISTEN "+c)
		}
	}
	if err := statements(f.ctx, conn, all...); err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	return nil
}

// answerTime is how long the database may take for a statement that waits for nothing. The other end of a connection may be gone
// without a word.
var answerTime = 10 * time.Second

// statements executes statements that return nothing.
func statements(ctx context.Context, conn *pgx.Conn, all ...string) error {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	_, err := conn.PgConn().Exec(ctx, strings.Join(all, ";")).ReadAll()
	return err
}

// alive reports whether the database answers.
func alive(ctx context.Context, conn *pgx.Conn) bool { return statements(ctx, conn) == nil }

func dial(ctx context.Context, config *pgx.ConnConfig) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	return pgx.ConnectConfig(ctx, config)
}

// hangUp closes a connection.
func hangUp(conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return conn.Close(ctx)
}
