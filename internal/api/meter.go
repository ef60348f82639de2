package api

import (
	"context"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aycoder/aycoder"
)

// A meter reads a response. It limits the bytes that may come without an event, and
// cancels the request when the service is idle for too long. Only the time spent waiting
// for the service counts toward the idle timeout.
//
// A response has thousands of reads, and setting the timer in each of them would be slow.
// So the timer may fire too early. It is then set again for the remaining time, or by the
// next wait if none is in progress.
type meter struct {
	_         [0]func() // not comparable, which would be code in each program
	r         io.Reader
	left, max int64 // bytes that may come before the next event

	begun time.Time
	idle  time.Duration
	from  time.Duration // start of the first wait since the last sign of life, after begun
	// time after begun at which the idle timeout expires, in ns; 0 outside of a wait
	due atomic.Int64
	// the timer is not set; otherwise it fires no later than the timeout of a wait
	off    atomic.Bool
	fresh  bool // the next wait is the first one
	counts bool // every byte resets the idle timeout; otherwise the decoder decides

	over  bool
	timer *time.Timer
	mu    sync.Mutex // guards the timer
}

// begin starts the clock of a response. One timer serves all its reads, because setting a
// timer for each piece costs more than reading the piece.
func (m *meter) begin(c *Config, limit int64, cancel context.CancelCauseFunc) {
	m.left, m.max, m.idle, m.begun, m.fresh = limit, limit, c.Idle, time.Now(), true
	m.mu.Lock()
	m.timer = time.AfterFunc(m.idle, func() { m.check(cancel) })
	m.mu.Unlock()
}

// check is called by the timer. Both check and start store their own state before they
// load the other's, so at least one of them sees the other and sets the timer.
func (m *meter) check(cancel context.CancelCauseFunc) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.over {
		return
	}
	m.off.Store(true)
	// first, since a wait that has expired by now must still be registered
	now := time.Since(m.begun)
	switch due := time.Duration(m.due.Load()); {
	case due == 0:
	case due <= now:
		cancel(errIdle)
	default:
		m.off.Store(false)
		m.timer.Reset(due - now)
	}
}

// set makes the timer fire after d.
func (m *meter) set(d time.Duration) {
	m.mu.Lock()
	m.off.Store(false)
	m.timer.Reset(d)
	m.mu.Unlock()
}

// heard records a sign of life from the service.
func (m *meter) heard() { m.fresh = true }

// start begins to wait for the service. The time in which the caller works does not
// count: it works when an event is emitted, which is a sign of life.
func (m *meter) start() {
	if m.fresh {
		m.from, m.fresh = time.Since(m.begun), false
	}
	m.due.Store(int64(m.from + m.idle))
	if m.off.Load() {
		m.set(m.idle - m.waited())
	}
}

// waited returns the time since the start of the first wait.
func (m *meter) waited() time.Duration { return time.Since(m.begun) - m.from }

// stop ends a wait, before the caller works. It is not called at once after a read: the caches are cold then, and the
// processor would wait for each of them in turn instead of for all.
func (m *meter) stop() { m.due.Store(0) }

// hurry limits the total time of the remaining waits for the response to d.
//
//go:noinline
func (m *meter) hurry(d time.Duration) {
	m.idle = min(m.idle, d)
	m.heard()
	m.set(m.idle)
}

// drain reads the rest of a complete response, so that the connection can be reused.
func (m *meter) drain() {
	m.hurry(drainTime)
	_, _ = io.CopyN(io.Discard, m, drainBytes) // the message is complete either way
}

// end stops the timer.
func (m *meter) end() {
	m.mu.Lock()
	m.over = true
	m.timer.Stop()
	m.mu.Unlock()
}

// Read implements io.Reader.
func (m *meter) Read(p []byte) (int, error) {
	if m.left <= 0 {
		return 0, &aycoder.LimitError{Limit: "response bytes", Max: m.max}
	}
	m.start()
	n, err := m.r.Read(p[:min(int64(len(p)), m.left)])
	m.left -= int64(n)
	if m.counts && n > 0 {
		m.heard()
	}
	return n, err
}
