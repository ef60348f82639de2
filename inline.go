package aycoder

import (
	"context"
	"iter"
	"slices"
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
		here := func(c *RunConfig) error {
			c.extra = append(slices.Clip(c.extra), body(yield))
			return nil
		}
		a.Loop.Run(ctx, in, append(slices.Clip(opts), here)...)(yield)
	}
}

// A body is the loop body of a run that reads the model in its goroutine.
type body func(Event, error) bool

func (yield body) extend(r *run) error {
	r.here = func(ctx context.Context, ask *CallModel) bool {
		if ask != nil {
			if r.loop.setups != nil {
				ctx = context.WithValue(ctx, placeKey{}, r)
			}
			r.callModel(ctx, ask)
			return true
		}
		if ev := r.delta; ev != nil {
			r.delta = nil
			return r.give(ev, yield) && ctx.Err() == nil
		}
		for ev := r.pop(); ev != nil; ev = r.pop() {
			if !r.give(ev, yield) {
				return false
			}
		}
		return ctx.Err() == nil
	}
	return nil
}

// give gives an event to the loop body, and reports whether the body still listens. If it panics or exits, away
// stays true.
func (r *run) give(ev Event, yield body) bool {
	r.away = true
	if !yield(ev, nil) {
		return false
	}
	r.away = false
	r.seen(ev)
	return true
}
