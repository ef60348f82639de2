//go:build unix

package proc

import "time"

const (
	// firstLook is when memory is looked at first: most commands have ended by then.
	// Later looks have at least lookOften between them, and at most lookSeldom.
	firstLook  = 100 * time.Millisecond
	lookOften  = 100 * time.Millisecond
	lookSeldom = time.Second
)

// watch looks at what a command takes from time to time, in a goroutine that lives as
// long as the look: one that hangs in the kernel does not hold up a cancel. The zero
// value never looks.
type watch struct {
	look    func() (next time.Duration, err error)
	timer   *time.Timer
	due     <-chan time.Time // of the timer
	seen    chan seen
	looking bool // something will be in seen
}

// seen is what came of a look: an error, or for how long to wait until the next one.
type seen struct {
	next time.Duration
	err  error
}

// newWatch returns a watch that calls look; nil is for none.
func newWatch(look func() (time.Duration, error)) *watch {
	if look == nil {
		return &watch{}
	}
	t := time.NewTimer(firstLook)
	return &watch{look: look, timer: t, due: t.C, seen: make(chan seen, 1)}
}

// begin begins a look when one is due.
func (w *watch) begin() {
	w.looking = true
	go func() { // ends with the look, for which stop waits
		next, err := w.look()
		w.seen <- seen{next, err}
	}()
}

// end goes on when a look has ended.
func (w *watch) end(s seen) error {
	w.looking = false
	w.timer.Reset(s.next)
	return s.err
}

func (w *watch) stop() {
	if w.timer != nil {
		w.timer.Stop()
	}
	if w.looking {
		<-w.seen
	}
}
