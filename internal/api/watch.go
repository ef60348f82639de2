package api

import (
	"context"
	"io"
	"time"

	"github.com/aycoder/aycoder"
)

// A watch ends the request when the service is silent for too long. Only the time
// spent waiting for it counts. All but the timer's function belongs to one goroutine.
type watch struct {
	idle   time.Duration
	waited time.Duration
	timer  *time.Timer
	since  time.Time
}

func newWatch(idle time.Duration, cancel context.CancelCauseFunc) *watch {
	w := &watch{idle: idle, timer: time.AfterFunc(idle, func() { cancel(errIdle) })}
	w.timer.Stop()
	return w
}

func (w *watch) start() {
	w.since = time.Now()
	w.timer.Reset(w.idle - w.waited)
}

func (w *watch) stop() {
	w.timer.Stop()
	w.waited += time.Since(w.since)
}

// hurry gives what is left of the response no more than d of waiting in all.
func (w *watch) hurry(d time.Duration) { w.idle, w.waited = min(w.idle, d), 0 }

// drain reads what is left of a complete response, so that the connection can be
// used again.
func (w *watch) drain(r io.Reader) {
	w.timer.Reset(drainTime)
	_, _ = io.CopyN(io.Discard, r, drainBytes) // the message is complete either way
	w.timer.Stop()
}

// A meter reads a response under a watch and up to a bound.
type meter struct {
	r         io.Reader
	w         *watch
	left, max int64
	counts    bool // every byte ends a silence; else the decoder says what does
}

// Read implements io.Reader.
func (m *meter) Read(p []byte) (int, error) {
	if m.left <= 0 {
		return 0, &aycoder.LimitError{Limit: "response bytes", Max: m.max}
	}
	m.w.start()
	n, err := m.r.Read(p[:min(int64(len(p)), m.left)])
	m.w.stop()
	m.left -= int64(n)
	if m.counts && n > 0 {
		m.w.waited = 0
	}
	return n, err
}
