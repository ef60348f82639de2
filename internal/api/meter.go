package api

import (
	"context"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aycoder/aycoder"
)

// A meter reads a response, up to a bound where nothing comes of it, and ends the request when the service is
// silent for too long. Only the time spent waiting for it counts.
//
// A response has thousands of reads, so none sets the timer: where it goes off too
// early, it is set for the rest, or by the next wait if there is none.
type meter struct {
	r         io.Reader
	left, max int64 // bytes that may come before the next piece of the answer
	counts    bool  // every byte ends a silence; else the decoder says what does

	idle   time.Duration
	waited time.Duration // for the service since its last sign of life
	since  time.Time     // the wait began
	begun  time.Time

	timer *time.Timer
	due   atomic.Int64 // after begun the silence is too long, in ns; 0 if nobody waits
	off   atomic.Bool  // the timer is not set; else it goes off no later than a wait is due

	mu   sync.Mutex // of the timer
	over bool
}

func (m *meter) begin(c *Config, limit int64, cancel context.CancelCauseFunc) {
	m.left, m.max, m.idle, m.begun = limit, limit, c.Idle, time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.timer = time.AfterFunc(m.idle, func() { m.check(cancel) })
}

// check is called by the timer. Both it and start say what they have to say before
// they look at what the other says, so that one of them sets the timer.
func (m *meter) check(cancel context.CancelCauseFunc) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.over {
		return
	}
	m.off.Store(true)
	now := time.Since(m.begun) // first, as a wait that is due by now must still be on
	switch due := time.Duration(m.due.Load()); {
	case due == 0:
	case due <= now:
		cancel(errIdle)
	default:
		m.off.Store(false)
		m.timer.Reset(due - now)
	}
}

// set has the timer go off after d.
func (m *meter) set(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.off.Store(false)
	m.timer.Reset(d)
}

// heard says that the service has given a sign of life.
func (m *meter) heard() { m.waited = 0 }

func (m *meter) start() {
	m.since = time.Now()
	m.due.Store(int64(m.since.Sub(m.begun) + m.idle - m.waited))
	if m.off.Load() {
		m.set(m.idle - m.waited)
	}
}

func (m *meter) stop() {
	m.due.Store(0)
	m.waited += time.Since(m.since)
}

// hurry gives what is left of the response no more than d of waiting in all.
func (m *meter) hurry(d time.Duration) {
	m.idle = min(m.idle, d)
	m.heard()
	m.set(m.idle)
}

// drain reads what is left of a complete response, so that the connection can be
// used again.
func (m *meter) drain(r io.Reader) {
	m.hurry(drainTime)
	m.start()
	_, _ = io.CopyN(io.Discard, r, drainBytes) // the message is complete either way
	m.stop()
}

// end lets go of the timer.
func (m *meter) end() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.over = true
	m.timer.Stop()
}

// Read implements io.Reader.
func (m *meter) Read(p []byte) (int, error) {
	if m.left <= 0 {
		return 0, &aycoder.LimitError{Limit: "response bytes", Max: m.max}
	}
	m.start()
	n, err := m.r.Read(p[:min(int64(len(p)), m.left)])
	m.stop()
	m.left -= int64(n)
	if m.counts && n > 0 {
		m.heard()
	}
	return n, err
}
