package api

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"
)

// The goroutine that reads a [Call] may be that of a loop body, so it must be free soon after the context is done. An
// [http.Transport] sees to that. Other transports, and token sources, are functions of the program that may ignore the
// context: each works in a separate goroutine.

// leaveTime is how long a function of the program may work after its context is done.
const leaveTime = time.Second

// apart calls f in another goroutine, and leaves it there if it does not return soon after ctx is done. Its late
// result is passed to late.
func apart[T any](ctx context.Context, f func() (T, error), late func(T)) (T, error) {
	results := make(chan result[T], 1)
	go func() {
		r := result[T]{err: errLeft}
		defer func() {
			r.panicked = recover()
			results <- r
		}()
		r.value, r.err = f()
	}()
	select {
	case r := <-results:
		return r.get()
	case <-ctx.Done():
	}
	select {
	case r := <-results:
		return r.get()
	case <-time.After(leaveTime):
		go func() { late((<-results).value) }()
		var none T
		return none, context.Cause(ctx)
	}
}

var errLeft = errors.New("a function of the program ended its goroutine")

type result[T any] struct {
	value    T
	err      error
	panicked any
}

func (r result[T]) get() (T, error) {
	if r.panicked != nil {
		panic(r.panicked)
	}
	return r.value, r.err
}

// A hostTransport is a transport of the program.
type hostTransport struct{ http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (t hostTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx := r.Context()
	resp, err := apart(ctx, func() (*http.Response, error) { return t.RoundTripper.RoundTrip(r) }, func(late *http.Response) {
		if late != nil && late.Body != nil {
			late.Body.Close()
		}
	})
	if err == nil && resp != nil && resp.Body != nil {
		b := &hostBody{ReadCloser: resp.Body}
		b.stop = context.AfterFunc(ctx, func() { time.AfterFunc(leaveTime, b.close) })
		resp.Body = b
	}
	return resp, err
}

// A hostBody is closed if somebody still reads it a while after its context is done. Since not every body can be
// closed twice, only the first Close counts.
type hostBody struct {
	io.ReadCloser
	stop func() bool
	once sync.Once
	err  error
}

func (b *hostBody) close() { b.once.Do(func() { b.err = b.ReadCloser.Close() }) }

// Close implements io.Closer.
func (b *hostBody) Close() error {
	b.stop()
	b.close()
	return b.err
}
