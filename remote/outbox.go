package remote

import (
	"context"
	"fmt"
	"sync"
	"time"
)

const (
	boxSoft = 256 << 10 // bytes that wait to be sent when a command is slowed down
	boxHard = 1 << 20   // and when the oldest are left out
	boxWait = 20 * time.Millisecond
)

// outbox sends the output of a command as it comes. A command that prints faster than the connection
// passes on is slowed down a little, as Exec must not be held up, and then loses the oldest of the
// output that waits.
type outbox struct {
	ctx context.Context // of the call
	s   *server
	id  uint32

	mu      sync.Mutex
	buf     []byte
	lost    int64
	sending bool
	news    chan struct{} // one slot: something was sent
}

func newOutbox(ctx context.Context, s *server, id uint32) *outbox {
	return &outbox{ctx: ctx, s: s, id: id, news: make(chan struct{}, 1)}
}

// Write implements [io.Writer]. It never fails.
func (b *outbox) Write(p []byte) (int, error) {
	b.mu.Lock()
	if len(b.buf) >= boxSoft && b.lost == 0 {
		b.mu.Unlock()
		b.wait(time.After(boxWait))
		b.mu.Lock()
	}
	defer b.mu.Unlock()
	b.buf = append(b.buf, p...)
	b.keep(boxHard)
	b.send()
	return len(p), nil
}

// wait waits until something was sent.
func (b *outbox) wait(late <-chan time.Time) {
	select {
	case <-b.news:
	case <-late:
	case <-b.ctx.Done():
	}
}

// keep drops all but the last bytes.
func (b *outbox) keep(most int) {
	if over := len(b.buf) - most; over > 0 {
		b.lost += int64(over)
		b.buf = append(b.buf[:0], b.buf[over:]...)
	}
}

// send sends the next piece, unless one is on its way. The caller holds the mutex.
func (b *outbox) send() {
	if b.sending || len(b.buf) == 0 {
		return
	}
	b.sending = true
	b.s.out.put(&message{id: b.id, kind: frameOutput, data: b.piece(), sent: func() {
		b.mu.Lock()
		b.sending = false
		b.send()
		b.mu.Unlock()
		select {
		case b.news <- struct{}{}:
		default:
		}
	}})
}

// piece returns what is sent next.
func (b *outbox) piece() []byte {
	var data []byte
	if b.lost > 0 {
		data = fmt.Appendf(nil, "\n[… %d bytes of output are left out: the connection is too slow …]\n", b.lost)
		b.lost = 0
	}
	n := min(len(b.buf), maxFrame-len(data))
	data = append(data, b.buf[:n]...)
	b.buf = append(b.buf[:0], b.buf[n:]...)
	return data
}

// end queues what is left, before the answer. After a cancel, that is only the last of it.
func (b *outbox) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ctx.Err() != nil {
		b.keep(maxFrame / 2)
	}
	for len(b.buf) > 0 {
		b.s.out.put(&message{id: b.id, kind: frameOutput, data: b.piece()})
	}
}
