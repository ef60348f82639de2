package aycoder

import (
	"cmp"
	"context"
	"errors"
)

// ChildEvent is an event of a run inside a call, such as the run of a subagent. If
// [ChildEvent.Innermost] returns an [*ApprovalRequested], answer that question like any other one.
type ChildEvent struct {
	// CallID is the id of the call that contains the inner run.
	CallID string `json:"id"`
	// Event is the event of the inner run. It may itself be a ChildEvent.
	Event Event `json:"event"`

	seen chan struct{} // closed when the consumer has seen it
}

// Innermost unwraps nested ChildEvents and returns the event that the innermost run made.
func (e *ChildEvent) Innermost() Event {
	for {
		inner, ok := e.Event.(*ChildEvent)
		if !ok {
			return e.Event
		}
		e = inner
	}
}

// answered reports whether the event is a question that is no longer open.
func (e *ChildEvent) answered() bool {
	q, ok := e.Innermost().(*ApprovalRequested)
	if !ok || q.question == nil {
		return false
	}
	r := q.question.run
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.open[q.Request.CallID] != q.question
}

var errCallOver = errors.New("emit event: the call is over")

// Emit hands an event of a run inside the call to the consumer of the outer run, as a
// [ChildEvent]. Emit returns when the consumer has handled the event. So the inner run waits for
// the consumer as if the consumer ranged over that run, and no event is lost.
//
//	for ev, err := range child.Run(ctx, in, aycoder.WithParent(inv)) {
//		if err == nil {
//			err = inv.Emit(ctx, ev)
//		}
//		…
//	}
//
// Emit returns an error, and the event may be lost, if ctx is done, the call has returned, or the
// outer run has ended. Outside a run, Emit does nothing. It is safe for concurrent use.
func (inv *Invocation) Emit(ctx context.Context, ev Event) error {
	if inv.emit == nil || ev == nil {
		return nil
	}
	return inv.emit(ctx, ev)
}

// emit is Emit for a call that works under ctx.
func (r *run) emit(ctx, until context.Context, a *RunTool, ev Event) error {
	e := &ChildEvent{CallID: a.Call.ID, Event: ev, seen: make(chan struct{})}
	if !r.pushChild(a, e) {
		return errCallOver
	}
	select {
	case <-e.seen:
		return nil
	case <-until.Done():
		return context.Cause(until)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (r *run) pushChild(a *RunTool, e *ChildEvent) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopping || !r.runs(a) {
		return false
	}
	r.out.push(e)
	r.signal()
	return true
}

// WithParent makes this run, such as that of a subagent, an inner run of the call inv, which
// belongs to an outer run. The [Approver] of the outer run, and those of the runs around the outer
// run, then also decide about each call of the inner run. The strictest verdict counts, and a
// verdict to suspend counts as a denial. If the inner run has no Approver, only the others decide.
// A rule that the user makes goes to each Approver that is a [RuleKeeper]. Pass the ctx of the call
// to Run, so that the inner run ends with the call. Report the events of the inner run with
// [Invocation.Emit], and its usage in [ToolResult].
func WithParent(inv *Invocation) RunOption {
	return func(c *RunConfig) error {
		c.Parent = inv
		return nil
	}
}

// inside makes the run part of a call, and passes the outer run's auditors on to this run.
func (r *run) inside(inv *Invocation) {
	r.parent, r.depth = inv.run, inv.Depth+1
	if r.parent == nil {
		return
	}
	if r.parent.recorder != nil {
		r.recorder = r.parent.recorder.child(r.recorder)
	}
	r.hooks = cmp.Or(r.hooks, r.parent.hooks)
}

type runKey struct{}

// RunFromContext returns the id of the run whose call an [Approver] is to decide about, and the
// number of runs around that run. Pass the ctx that Decide, or the function of [WithSetup], received:
// for any other ctx, the results may be "" and 0. The tool finds the same values in [Invocation].Run and Depth. So the
// Approver can find the state that a tool keeps for each run, such as the directory of a shell.
func RunFromContext(ctx context.Context) (id string, depth int) {
	if r, ok := ctx.Value(runKey{}).(*run); ok {
		return r.id, r.depth
	}
	return "", 0
}

// judge asks the policies about a call: those of the outer runs from the outside in, then its own.
func (r *run) judge(ctx context.Context, c *ToolUse, s *ToolSpec) Verdict {
	if r.parent == nil {
		return r.loop.policy(ctx, c, s)
	}
	outer := unsuspended(r.parent.judge(ctx, c, s))
	if _, none := r.loop.approver.(readOnly); none || outer.kind == verdictDeny {
		return outer
	}
	if outer.args != nil {
		c = &ToolUse{ID: c.ID, Name: c.Name, Args: outer.args}
	}
	own := unsuspended(r.loop.policy(ctx, c, s))
	switch {
	case own.kind == verdictDeny:
		return own
	case outer.kind == verdictAsk:
		return outer
	case own.kind == verdictAsk:
		return own
	}
	v, other := outer, own
	if own.args != nil {
		v, other = own, outer
	}
	if other.readOnly() {
		return v.held()
	}
	return v
}

// unsuspended turns suspending into a denial: neither a call nor a run inside it can be suspended.
func unsuspended(v Verdict) Verdict {
	if v.kind == verdictSuspend {
		v.kind, v.reason = verdictDeny, "this call needs approval, and nobody can be asked inside another call"
	}
	return v
}
