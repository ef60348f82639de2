package aycoder

import (
	"context"
	"iter"
	"sync/atomic"
)

// Inline returns an [Agent] whose runs are those of l, but read the answers of the model in the goroutine of
// the range loop, and not ahead of it in a separate one. An event then costs less, and a run has one
// goroutine less. That is for programs with thousands of runs at once, whose loop bodies are quick. In
// exchange,
//
//   - nothing is read while the loop body works. A slow body delays the calls in the rest of the answer,
//     and a service may break off an answer that is not read for long.
//   - events of calls that work while the model answers, and questions about them, wait for the next event
//     of the model, and [Compacting] for the end of the compaction.
//   - the end of a run, also after a break, waits for the client, the [ContextBuilder] and the function of
//     [WithSetup], however long [Limits].Grace is. Those of this module return when their context is done.
//   - the loop body runs inside [ModelClient].Stream. It must not wait for another request to a client that
//     serves only so many at a time. One of the three that calls [runtime.Goexit] ends the goroutine of the loop.
func (l *Loop) Inline() Agent { return inline{l} }

type inline struct{ *Loop }

// Run implements [Agent].
func (a inline) Run(ctx context.Context, in Input, opts ...RunOption) iter.Seq2[Event, error] {
	var used atomic.Bool
	return func(yield func(Event, error) bool) {
		if used.Swap(true) {
			yield(nil, ErrConsumed)
			return
		}
		r, err := a.begin(ctx, &in, opts)
		if err != nil {
			yield(nil, err)
			return
		}
		r.here, r.body = inlineReader{}, yield
		// The rest repeats that of Loop.Run: a function that both call makes the smallest program 20 kB larger.
		if !r.drive(ctx, yield) {
			return
		}
		if err := r.failure(ctx); err != nil {
			yield(nil, err)
			return
		}
		yield(&RunFinished{Result: r.result()}, nil)
	}
}

// An inlineReader is the reader of a run that reads the model in the goroutine of its loop body.
type inlineReader struct{}

func (inlineReader) ask(r *run, ctx context.Context, a *CallModel) {
	if r.loop.setups != nil {
		ctx = context.WithValue(ctx, placeKey{}, r)
	}
	r.callModel(ctx, a)
}

func (inlineReader) give(r *run) bool {
	if ev := r.delta; ev != nil {
		r.delta = nil
		return r.give(ev)
	}
	for ev := r.pop(); ev != nil; ev = r.pop() {
		if !r.give(ev) {
			return false
		}
		r.seen(ev)
	}
	return true
}

// give gives an event to the loop body, and reports whether the body still listens. If it panics or exits, away
// stays true.
func (r *run) give(ev Event) bool {
	r.away = true
	if !r.body(ev, nil) {
		return false
	}
	r.away = false
	return true
}
