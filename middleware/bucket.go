package middleware

import (
	"container/list"
	"context"
	"math"
	"sync"
	"time"

	"github.com/aycoder/aycoder"
)

// A bucket holds the amount that may be used at the moment. It fills evenly and is full after a
// minute. Its level may be negative, when more was used than expected. The zero value, whose size
// is 0, sets no limit.
type bucket struct {
	size, level float64
	at          time.Time // when level was right
}

func newBucket(size int64, now time.Time) bucket {
	n := float64(max(size, 0))
	return bucket{size: n, level: n, at: now}
}

// refill adds the amount for the time since the last call. A clock that is set back adds nothing.
func (b *bucket) refill(now time.Time) {
	if d := now.Sub(b.at); d > 0 {
		b.level = min(b.size, b.level+b.size*d.Minutes())
	}
	b.at = now
}

// missing returns how long it takes until the bucket holds n.
func (b *bucket) missing(n float64) time.Duration {
	if b.size == 0 || b.level >= n {
		return 0
	}
	d := math.Ceil((n - b.level) / b.size * float64(time.Minute))
	return time.Duration(min(max(d, 1), float64(24*time.Hour))) // then it is looked at again
}

// maxOwed bounds the debt of a bucket, in minutes. A wrong figure from a provider must not block
// all requests for hours.
const maxOwed = 10

// take uses the amount n. A negative n refunds it.
func (b *bucket) take(n float64) { b.level = min(b.size, max(b.level-n, -maxOwed*b.size)) }

// A gate lets requests through one after the other, each when both buckets hold enough. Only the
// first request in line waits for time to pass; the others wait for their turn. Large requests
// are therefore not overtaken by small ones, and need not wait forever.
type gate struct {
	clock aycoder.Clock
	freed chan struct{} // wakes the first in line after a refund; one slot

	mu               sync.Mutex
	requests, tokens bucket
	line             list.List // of chan struct{}, closed when it is its turn
}

func newGate(l Limits) *gate {
	clock := clockOr(l.Clock)
	now := clock.Now()
	return &gate{
		clock: clock, freed: make(chan struct{}, 1),
		requests: newBucket(l.Requests, now), tokens: newBucket(l.Tokens, now),
	}
}

// enter waits until a request of n tokens fits, and charges the request.
func (g *gate) enter(ctx context.Context, n int64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	place := g.queue(n)
	if place == nil {
		return nil
	}
	defer g.leave(place)
	select {
	case <-place.Value.(chan struct{}):
	case <-ctx.Done():
		return ctx.Err()
	}
	for d := g.pass(n); d > 0; d = g.pass(n) {
		if err := g.wait(ctx, d); err != nil {
			return err
		}
	}
	return nil
}

// queue takes a place in line. It returns nil if the request could go at once.
func (g *gate) queue(n int64) *list.Element {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.line.Len() == 0 && g.passLocked(n) == 0 {
		return nil
	}
	turn := make(chan struct{})
	if g.line.Len() == 0 {
		close(turn)
	}
	return g.line.PushBack(turn)
}

// leave gives up a place in line. If it was the first, it wakes the next request.
func (g *gate) leave(place *list.Element) {
	g.mu.Lock()
	defer g.mu.Unlock()
	first := g.line.Front() == place
	g.line.Remove(place)
	if next := g.line.Front(); first && next != nil {
		close(next.Value.(chan struct{}))
	}
}

// pass charges a request if it fits. Otherwise it returns how long to wait.
func (g *gate) pass(n int64) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.passLocked(n)
}

func (g *gate) passLocked(n int64) time.Duration {
	now := g.clock.Now()
	g.requests.refill(now)
	g.tokens.refill(now)
	if d := max(g.requests.missing(1), g.tokens.missing(float64(n))); d > 0 {
		return d
	}
	g.requests.take(1)
	g.tokens.take(float64(n))
	return 0
}

// wait waits for d, or until an amount was refunded.
func (g *gate) wait(ctx context.Context, d time.Duration) error {
	over := make(chan struct{})
	defer g.clock.AfterFunc(d, func() { close(over) })()
	select {
	case <-over:
	case <-g.freed:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// charge uses requests and tokens without waiting. Negative amounts are refunded, which may let
// the first request in line go earlier.
func (g *gate) charge(requests, tokens int64) {
	g.mu.Lock()
	now := g.clock.Now()
	g.requests.refill(now)
	g.tokens.refill(now)
	g.requests.take(float64(requests))
	g.tokens.take(float64(tokens))
	g.mu.Unlock()
	if requests < 0 || tokens < 0 {
		select {
		case g.freed <- struct{}{}:
		default:
		}
	}
}
