package postgres

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// subscribed starts a subscriber, waits until it receives, and returns what it gets.
func subscribed(ctx context.Context, t *testing.T, from, to *Store, id string, slow <-chan struct{}) <-chan string {
	t.Helper()
	got := make(chan string, 100000)
	go func() {
		for m, err := range to.Subscribe(ctx, id) {
			if err != nil {
				return
			}
			if got <- string(m); slow != nil && string(m) == "wait" {
				<-slow
			}
		}
	}()
	heard(t, from, id, got)
	return got
}

// heard publishes until a subscriber has heard it: a message that comes before it listens is lost.
func heard(t *testing.T, from *Store, id string, got <-chan string) {
	t.Helper()
	for n := 0; ; n++ {
		from.Publish(id, fmt.Appendf(nil, "ping %d", n))
		select {
		case <-got:
			from.Publish(id, []byte("begin"))
			for m := range got {
				if m == "begin" {
					return
				}
			}
		case <-time.After(10 * time.Millisecond):
		case <-t.Context().Done():
			t.Fatal("nothing was heard")
		}
	}
}

// Messages come to the subscribers of their session in another store, whole and in order, and to nobody else. Messages
// that PostgreSQL would not take are not sent, and take nothing with them.
func TestFeed(t *testing.T) {
	ctx := t.Context()
	dir, elsewhere := tempDir(t), tempDir(t)
	from, to, other := openStore(t, dir), openStore(t, dir), openStore(t, elsewhere)
	a := subscribed(ctx, t, from, to, "a", nil)
	b := subscribed(ctx, t, from, to, "b", nil)
	same := subscribed(ctx, t, other, other, "a", nil)
	large := strings.Repeat("x", maxNotified)
	for _, m := range []string{"1", large + "y", "\xff", "\x00", large, `{"é":"世"}`} {
		from.Publish("a", []byte(m))
	}
	for _, want := range []string{"1", large, `{"é":"世"}`} {
		if m := <-a; m != want {
			t.Fatalf("got %.20q, want %.20q", m, want)
		}
	}
	from.Publish("b", []byte("end"))
	other.Publish("a", []byte("end"))
	for name, c := range map[string]<-chan string{"b": b, "the other schema": same} {
		if m := <-c; m != "end" {
			t.Errorf("%s got %.20q", name, m)
		}
	}
}

// A subscriber goes on when its connection is lost, and so does a publisher.
func TestFeedReconnects(t *testing.T) {
	dir := tempDir(t)
	from, to := openStore(t, dir), openStore(t, dir)
	got := subscribed(t.Context(), t, from, to, "a", nil)
	if n := exec(t, dir, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN aycoder_live%' OR query LIKE '%pg_notify(c, m)%' AND pid <> pg_backend_pid()"); n == 0 {
		t.Fatal("no connection was ended")
	}
	heard(t, from, "a", got)
}

// A reader that is slow costs a bounded amount of memory, and nobody else anything.
func TestFeedSlow(t *testing.T) {
	dir := tempDir(t)
	from, to := openStore(t, dir), openStore(t, dir)
	goOn := make(chan struct{})
	slow := subscribed(t.Context(), t, from, to, "a", goOn)
	quick := subscribed(t.Context(), t, from, to, "a", nil)
	for range slow {
		if len(slow) == 0 {
			break
		}
	}
	from.Publish("a", []byte("wait"))
	const total, size = 1000, 4000
	go func() {
		for i := range total {
			from.Publish("a", fmt.Appendf(nil, "%0*d", size, i))
			if i%50 == 0 {
				<-time.After(25 * time.Millisecond) // else its own store has too much to send
			}
		}
		from.Publish("a", []byte("end"))
	}()
	n := 0
	for m := range quick {
		if m == "end" {
			break
		}
		if len(m) == size {
			n++
		}
	}
	if n < total*9/10 {
		t.Errorf("the quick one has %d of %d messages", n, total)
	}
	close(goOn)
	from.Publish("a", []byte("last"))
	kept := 0
	for m := range slow {
		if m == "last" || kept == total {
			break
		}
		if len(m) == size {
			kept++
		}
	}
	if kept == 0 || kept > maxIncoming/size+1 {
		t.Errorf("%d messages of %d bytes waited for the slow one", kept, size)
	}
}

// halfOpen is a connection whose other end does not hear any more, and does not say so.
type halfOpen struct {
	net.Conn
	deaf *atomic.Bool
}

func (c halfOpen) Write(p []byte) (int, error) {
	if c.deaf.Load() {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

// Connections that do not answer keep nobody: a new subscriber gets another one, and the store can be closed.
func TestHalfOpen(t *testing.T) {
	ctx := t.Context()
	dir := tempDir(t)
	from := openStore(t, dir)
	must(t, create(t, from).Close())
	s, err := Open(ctx, address(t), WithSchema(schemaOf(dir)))
	must(t, err)
	defer func(d time.Duration) { answerTime = d }(answerTime)
	answerTime = 2 * time.Second // of a busy machine
	var newest atomic.Pointer[atomic.Bool]
	newest.Store(new(atomic.Bool))
	dial := s.feed.config.DialFunc
	s.feed.config.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		return halfOpen{conn, newest.Load()}, err
	}
	turnDeaf := func() { newest.Swap(new(atomic.Bool)).Store(true) }
	reading, stop := context.WithCancel(ctx)
	var reader sync.WaitGroup
	reader.Go(func() {
		for range s.Follow(reading, "a", Position{}) {
		}
	})
	subscribed(ctx, t, from, s, "a", nil)
	turnDeaf()
	subscribed(ctx, t, from, s, "b", nil) // which LISTEN does not reach
	turnDeaf()
	stop()
	reader.Wait()
	must(t, s.Close())
}

// The records of a followed journal do not end.
func TestFollowing(t *testing.T) {
	dir, ctx := tempDir(t), t.Context()
	writer, reader := openStore(t, dir), openStore(t, dir)
	j, err := writer.Create(ctx, "a")
	must(t, err)
	must(t, j.Append(ctx, true, []byte("0")))
	f, err := reader.Following().Open(ctx, "a", true)
	must(t, err)
	n := 0
	for r, err := range f.Records(ctx) {
		must(t, err)
		if string(r) != fmt.Sprint(n) {
			t.Fatalf("record %d is %q", n, r)
		}
		if n++; n == 5 {
			break
		}
		must(t, j.Append(ctx, true, fmt.Append(nil, n)))
	}
	if err := f.Append(ctx, true, []byte("x")); err == nil {
		t.Error("a follower has written")
	}
	must(t, f.Close())
	must(t, j.Close())
}

// Messages without a text take memory, too, so their number is bounded.
func TestEmptyMessagesAreBounded(t *testing.T) {
	in := &inbox{news: make(chan struct{}, 1)}
	out := &feed{sending: true} // as while the database cannot be reached
	for range maxOutgoing / 10 {
		in.put("")
		out.publish("channel", "")
	}
	if n, m := len(in.list), len(out.messages); n > maxIncoming/perMessage || m > maxOutgoing/perMessage {
		t.Errorf("%d messages wait to be read, and %d to be sent", n, m)
	}
}
