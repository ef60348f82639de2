package aycoder

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
	"time"
)

// This file reads the answers of a [ModelOpener]. While nothing else can happen in the run, the goroutine of
// the loop body reads them, so that an event needs no other goroutine. Otherwise that of askModel does. Each
// leaves the answer to the other between two events.

const (
	// slowBody is the time, in one call, from which on a loop body counts as slow: the run then reads
	// ahead of it to its end. For all calls together that are not quick, it is slowBodies.
	slowBody   = 10 * time.Millisecond
	quickBody  = time.Millisecond
	slowBodies = time.Second
	// stuckBody is the time after which the run need not wait for a loop body to find that out.
	stuckBody = 2 * time.Second
)

// opened is an answer that is read event by event. The mutex of the run guards the fields that are not only for
// the goroutine of the loop body.
type opened struct {
	direct bool        // answers are opened, see mayRead; does not change in the run
	near   bool        // the goroutine of the loop body reads it
	ahead  bool        // the goroutine of askModel reads it, and closes it
	inBody bool        // the goroutine of the loop body is in the loop body
	idle   bool        // the goroutine of the loop body waits for an event
	slow   bool        // the loop body was slow
	armed  bool        // a timer calls watchBody
	reader ModelReader // or nil

	// only for the goroutine of the loop body
	delta   Event         // the next event, before what is in out
	began   time.Time     // the run
	entered time.Duration // the loop body got an event that was read for it, after began; 0 if it has returned
	bodies  time.Duration // in loop bodies so far that were not quick

	watch func() bool // stops the timer, or nil
}

// mayRead reports whether the goroutine of the loop body may read answers: the client returns when its context
// is done and is not inside of another one, nothing else of the host is called there, and all events are those of
// the run. If it may not, answers are not opened.
func (r *run) mayRead() bool {
	client := r.setup.Load().client
	o, ok := client.(ModelOpener)
	return ok && o.Opens(client) && r.loop.setups == nil && r.builder == ContextBuilder(plainContext{}) && r.begun == nil
}

// quiet reports whether the next event can only come from the model. The mutex is held.
func (r *run) quiet() bool {
	return r.direct && !r.stopping && !r.slow && len(r.state.calls) == 0 && r.err == nil && !r.recording()
}

// readHere reads an event for the loop body, and returns it unless it is in out, or there is none yet.
func (r *run) readHere(ctx context.Context) Event {
	if !r.pull(ctx) {
		return nil // the answer has ended
	}
	if ev := r.delta; ev != nil {
		r.delta = nil
		return ev
	}
	r.mu.Lock()
	if !r.quiet() {
		r.readElsewhere()
	}
	r.mu.Unlock()
	return nil
}

// readElsewhere leaves the answer to the goroutine of askModel. The mutex is held.
//
//go:noinline
func (r *run) readElsewhere() {
	r.near = false
	r.startAsking(r.work)
}

// mustRead reports whether the goroutine of askModel has to read on.
func (r *run) mustRead() bool {
	r.mu.Lock()
	must := r.reader != nil && !r.near && (r.ahead || !r.stopping)
	if must && r.idle && r.quiet() {
		must, r.near = false, true
		r.signal()
	}
	r.ahead = must
	r.mu.Unlock()
	return must
}

// pull reads an event, and reports whether another one may follow. If not, it closes the answer.
func (r *run) pull(ctx context.Context) (more bool) {
	err := errExited
	defer func() {
		if p := recover(); p != nil {
			err = r.clientPanicked(ctx, p)
		}
		if !more {
			r.closeAnswer(ctx, err)
		}
	}()
	ev, err := r.reader.Next()
	done := err != nil
	switch {
	case err == io.EOF:
		err = streamEnded(r.setup.Load().client, r.loop.clock.Now().Sub(r.reading.start))
	case !done:
		done, err = r.modelEvent(ctx, ev)
	}
	return !done && err == nil
}

func (r *run) clientPanicked(ctx context.Context, p any) error {
	r.loop.log(ctx, slog.LevelError, "model client panicked", "panic", p, "stack", string(debug.Stack()))
	return &ModelError{Err: fmt.Errorf("client panicked: %v", p)}
}

// closeAnswer closes an answer, if there is one, and reports its failure, if there is one.
func (r *run) closeAnswer(ctx context.Context, err error) {
	r.mu.Lock()
	reader := r.reader
	r.reader, r.near, r.ahead = nil, false, false
	r.mu.Unlock()
	if reader == nil {
		return
	}
	r.stopReader(ctx, reader)
	if err != nil {
		r.modelFailed(ctx, err)
	}
}

func (r *run) stopReader(ctx context.Context, reader ModelReader) {
	defer func() {
		if p := recover(); p != nil {
			_ = r.clientPanicked(ctx, p)
		}
	}()
	reader.Stop()
}

// occupy notes that the goroutine of the loop body gets an event. The mutex is held.
//
//go:noinline
func (r *run) occupy() {
	if r.inBody = true; r.near && !r.armed {
		r.armed = true
		r.watch = time.AfterFunc(stuckBody, r.watchBody).Stop
	}
}

// watchBody is called by a timer. If the goroutine of the loop body is just in the loop body, it may be stuck there.
func (r *run) watchBody() {
	r.mu.Lock()
	r.armed = false
	if r.near && r.inBody {
		r.slow = true
		r.readElsewhere()
	}
	r.mu.Unlock()
}

// bodyLeft notes that the loop body has returned.
func (r *run) bodyLeft() {
	if r.entered == 0 {
		return
	}
	took := time.Since(r.began) - r.entered
	if r.entered = 0; took < quickBody {
		return
	}
	if r.bodies += took; took < slowBody && r.bodies < slowBodies {
		return
	}
	r.mu.Lock()
	if r.slow = true; r.near {
		r.readElsewhere()
	}
	r.mu.Unlock()
}
