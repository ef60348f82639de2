package middleware

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aycoder/aycoder"
)

var (
	errUnfinished = errors.New("stream ended before the message was complete")
	errIdle       = errors.New("idle for too long")
)

// wrapper is the part that all clients of this package have in common.
type wrapper struct{ next aycoder.ModelClient }

// Unwrap returns the wrapped client, for [aycoder.As].
func (w wrapper) Unwrap() aycoder.ModelClient { return w.next }

func (w wrapper) modelError(err error) *aycoder.ModelError {
	provider, model := nameOf(w.next)
	return &aycoder.ModelError{Provider: provider, Model: model, Err: err}
}

func nameOf(m aycoder.ModelClient) (provider, model string) {
	if n, ok := aycoder.As[aycoder.ModelNamer](m); ok {
		return n.ModelName()
	}
	return "", ""
}

type yieldFunc = func(aycoder.ModelEvent, error) bool

// A try is the outcome of one request to a client. If err is nil and done is false, the consumer
// left the loop.
type try struct {
	err    error
	heard  bool // something was passed on that a Retrying makes void
	blocks bool // something complete was passed on, which nothing makes void
	done   bool // MessageDone was passed on
}

// forward sends a request to m and passes on all events, but not the error.
func forward(ctx context.Context, m aycoder.ModelClient, req *aycoder.Request,
	yield yieldFunc) (t try) {
	start := time.Now()
	for ev, err := range m.Stream(ctx, req) {
		if t.done { // m is wrong: MessageDone is the last
			return t
		}
		if err != nil {
			t.err = err
			return t
		}
		t.note(ev)
		if !yield(ev, nil) {
			return t
		}
	}
	if !t.done {
		provider, model := nameOf(m)
		base := &aycoder.ModelError{Provider: provider, Model: model, Err: errUnfinished}
		t.err = &aycoder.StreamBrokenError{ModelError: base, After: time.Since(start)}
	}
	return t
}

func (t *try) note(ev aycoder.ModelEvent) {
	switch ev.(type) {
	case *aycoder.MessageDone:
		t.done = true
	case *aycoder.Retrying:
		t.heard = false
	case *aycoder.BlockDone, *aycoder.BlockTruncated:
		t.heard, t.blocks = true, true
	default:
		t.heard = true
	}
}

// sleep waits for d. It returns early, with the context's error, when ctx is done.
func sleep(ctx context.Context, clock aycoder.Clock, d time.Duration) error {
	if err := ctx.Err(); err != nil || d <= 0 {
		return err
	}
	over := make(chan struct{})
	defer clock.AfterFunc(d, func() { close(over) })()
	select {
	case <-over:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// cancelled returns the error of a request that was cancelled during op. It wraps the error of
// the context and, if that says more, the cause.
func (w wrapper) cancelled(ctx context.Context, op string) error {
	err := ctx.Err()
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, err) {
		err = fmt.Errorf("%w: %w", err, cause)
	}
	return w.modelError(fmt.Errorf("%s: %w", op, err))
}

func clockOr(c aycoder.Clock) aycoder.Clock {
	if c == nil {
		return aycoder.SystemClock()
	}
	return c
}

// wrap makes a middleware from a function that wraps a client. The middleware panics if the
// client is nil.
func wrap(name string, f func(wrapper) aycoder.ModelClient) aycoder.ModelMiddleware {
	return func(next aycoder.ModelClient) aycoder.ModelClient {
		if next == nil {
			panic("middleware: " + name + " of a nil client")
		}
		return f(wrapper{next})
	}
}

// is reports whether err wraps an error of type T.
func is[T error](err error) bool {
	_, ok := errors.AsType[T](err)
	return ok
}
