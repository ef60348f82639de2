package aycoder

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"sync/atomic"
)

// TurnResult is the result of [Loop.Turn]. It is filled however the turn ends, even by an error.
type TurnResult struct {
	// Messages are the new messages: the model's message, and the outputs of its calls. Append
	// them to the request's Messages for the next turn.
	Messages []*Message
	// More says that the model is not finished: it made calls, or paused.
	More  bool
	Stop  StopReason
	Usage Usage
	// Pending is set if the turn was suspended to wait for approvals. Otherwise it is nil. To
	// continue the turn, call [Loop.Run] with [Input.Pending].
	Pending *Pending
}

// Turn sends req to the model once, and runs the tools that the model calls. It is for hosts that
// write the loop themselves. Turn uses the tools, approvals, retries and limits of l. If req.Tools is
// empty, the model may call all tools of l. The context builder of l and its middleware, such as a
// compactor, get req as [ContextInput.Base] and its messages; without them, req is sent as it is. The
// sequence keeps the contract of [Agent]. If into is not nil, Turn stores its result there.
//
//	for more := true; more; more = res.More {
//		for ev, err := range loop.Turn(ctx, req, &res) { … }
//		req.Messages = append(req.Messages, res.Messages...)
//	}
func (l *Loop) Turn(ctx context.Context, req *Request, into *TurnResult) iter.Seq2[Event, error] {
	var used atomic.Bool
	return func(yield func(Event, error) bool) {
		if used.Swap(true) {
			yield(nil, ErrConsumed)
			return
		}
		if into != nil {
			*into = TurnResult{}
		}
		if err := l.usable(ctx); err != nil {
			yield(nil, err)
			return
		}
		if req == nil {
			req = &Request{}
		}
		messages, ids, err := checkInput(req.Messages, true)
		if err != nil {
			yield(nil, err)
			return
		}
		r, before := l.turn(ctx, req, messages, ids), len(messages)
		defer func() {
			if into != nil {
				*into = r.turnResult(before)
			}
		}()
		if !r.drive(ctx, yield) {
			return
		}
		if err := r.failure(ctx); err != nil && !r.limited() {
			yield(nil, err)
		}
	}
}

// turn makes a run that consists of one turn.
func (l *Loop) turn(ctx context.Context, req *Request, messages []*Message, ids *callIDs) *run {
	r := newRun(ctx, l, &RunConfig{})
	r.fixed = l.builder == ContextBuilder(plainContext{})
	r.single = true
	one := *req
	one.Messages = nil
	r.build = func(r *run, ctx context.Context, in ContextInput) (*Request, error) {
		base := one
		base.Model, base.MaxResponse = cmp.Or(one.Model, in.Base.Model), cmp.Or(one.MaxResponse, in.Base.MaxResponse)
		if len(one.Tools) == 0 {
			base.Tools = in.Base.Tools
		}
		in.Base = &base
		return r.buildRequest(ctx, in)
	}
	start := l.first.start()
	start.Messages, start.ids, start.MaxTurns = slices.Clone(messages), ids, 1
	r.known = l.first
	r.ready = r.state.start(&start)
	return r
}

func (r *run) limited() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err == nil && r.state.end == EndTurns
}

func (r *run) turnResult(before int) TurnResult {
	res := r.result()
	return TurnResult{
		Messages: res.Messages[before:], More: res.End == EndTurns,
		Stop: res.Stop, Usage: res.Usage, Pending: res.Pending,
	}
}
