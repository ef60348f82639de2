package api

import (
	"context"
	"io"
	"time"

	"github.com/aycoder/aycoder"
)

// A meter reads a response, up to a bound, and ends the request when the service is
// silent for too long. Only the time spent waiting for it counts. All but the timer's
// function belongs to one goroutine.
type meter struct {
	r         io.Reader
	left, max int64
	counts    bool // every byte ends a silence; else the decoder says what does

	idle   time.Duration
	waited time.Duration
	timer  *time.Timer
	since  time.Time
}

func newMeter(c *Config, cancel context.CancelCauseFunc) meter {
	m := meter{left: c.MaxResponse, max: c.MaxResponse, idle: c.Idle}
	m.timer = time.AfterFunc(m.idle, func() { cancel(errIdle) })
	m.timer.Stop()
	return m
}

func (m *meter) start() {
	m.since = time.Now()
	m.timer.Reset(m.idle - m.waited)
}

func (m *meter) stop() {
	m.timer.Stop()
	m.waited += time.Since(m.since)
}

// hurry gives what is left of the response no more than d of waiting in all.
func (m *meter) hurry(d time.Duration) { m.idle, m.waited = min(m.idle, d), 0 }

// drain reads what is left of a complete response, so that the connection can be
// used again.
func (m *meter) drain(r io.Reader) {
	m.timer.Reset(drainTime)
	_, _ = io.CopyN(io.Discard, r, drainBytes) // the message is complete either way
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
		m.waited = 0
	}
	return n, err
}
