package middleware

import (
	"container/list"
	"context"
	"math"
	"sync"
	"time"

	"github.com/aycoder/aycoder"
)

// A bucket holds what may be used. It fills evenly, in a minute, and may be owed
// something. The zero value, whose size is 0, sets no limit.
type bucket struct {
	size, level float64
	at          time.Time // when level was right
}

func newBucket(size int64, now time.Time) bucket {
	n := float64(max(size, 0))
	return bucket{size: n, level: n, at: now}
}

// refill adds what came in since the last time. A clock that goes back adds nothing.
func (b *bucket) refill(now time.Time) {
	if d := now.Sub(b.at); d > 0 {
		b.level = min(b.size, b.level+b.size*d.Minutes())
	}
	b.at = now
}

// missing is how long it takes until n are there.
func (b *bucket) missing(n float64) time.Duration {
	if b.size == 0 || b.level >= n {
		return 0
	}
	d := math.Ceil((n - b.level) / b.size * float64(time.Minute))
	return time.Duration(min(max(d, 1), float64(24*time.Hour))) // then it is looked at again
}

// maxOwed is how many minutes' worth may be owed.
const maxOwed = 10

// take uses n, or gives -n back.
func (b *bucket) take(n float64) { b.level = min(b.size, max(b.level-n, -maxOwed*b.size)) }

// A gate lets requests through one after the other, each when there is enough for
// it. Only the first in line waits for time to pass; the others wait for their turn.
type gate struct {
	clock aycoder.Clock
	freed chan struct{} // tells the first in line that something was given back; one slot

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

// enter waits until a request of n tokens fits, and charges it.
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

// queue takes a place in the line, or none if the request can go at once.
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

// leave gives up a place, and calls the next if it was the first.
func (g *gate) leave(place *list.Element) {
	g.mu.Lock()
	defer g.mu.Unlock()
	first := g.line.Front() == place
	g.line.Remove(place)
	if next := g.line.Front(); first && next != nil {
		close(next.Value.(chan struct{}))
	}
}

// pass charges a request if it fits, and says else for how long it does not.
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

// wait waits for d, or until something was given back.
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

// charge uses requests and tokens without a wait; less than 0 gives them back.
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
