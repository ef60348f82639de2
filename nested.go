package aycoder

import (
	"context"
	"encoding/json"
	"errors"
)

// ChildEvent is an event of a run inside a call, such as that of a subagent. A
// question in it is answered like any other; so look into it for an
// [*ApprovalRequested], with [ChildEvent.Innermost].
type ChildEvent struct {
	// CallID is the id of the call.
	CallID string
	// Event may be a ChildEvent itself.
	Event Event

	seen chan struct{} // closed when the consumer has seen it
}

// Innermost returns the event of the innermost run: that in Event, or in the ChildEvent that
// Event is, and so on.
func (e *ChildEvent) Innermost() Event {
	for {
		inner, ok := e.Event.(*ChildEvent)
		if !ok {
			return e.Event
		}
		e = inner
	}
}

// MarshalJSON encodes {"type":"child"}.
func (e *ChildEvent) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Type  string `json:"type"`
		ID    string `json:"id"`
		Event Event  `json:"event"`
	}{"child", e.CallID, e.Event})
}

// answered reports whether it is a question that is not open any more.
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

// Emit hands an event of a run inside the call to the consumer of the run around it,
// as a [ChildEvent], and returns when the consumer's loop body has: so the inner run
// is held up as if the consumer ranged over it, and no event is lost.
//
//	for ev, err := range child.Run(ctx, in, aycoder.WithParent(inv)) {
//		if err == nil {
//			err = inv.Emit(ctx, ev)
//		}
//		…
//	}
//
// It returns early with an error when ctx is done, the call has returned or its run has ended:
// nobody listens then. Outside a run it does nothing. It is safe for concurrent use.
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

// WithParent says that the run is part of a call of another run, as that of a subagent. A call of
// a tool is then put to the [Approver] of the outer run, too, and to those around it: the
// strictest verdict counts, what one would suspend is denied. A loop without an Approver has
// those of the outer runs alone. A rule that the user makes is given to each of them that is a
// [RuleKeeper]. The run ends with the ctx it is given, which should be that of the call; hand its
// events on with [Invocation.Emit], its usage with [ToolResult].Usage.
func WithParent(inv *Invocation) RunOption {
	return func(c *RunConfig) error {
		c.Parent = inv
		return nil
	}
}

// inside makes the run part of a call. The auditors of the outer run are told of this one, too.
func (r *run) inside(inv *Invocation) {
	r.parent, r.depth = inv.run, inv.Depth+1
	if r.parent == nil {
		return
	}
	if r.parent.recorder != nil {
		r.recorder = r.parent.recorder.child(r.recorder)
	}
	if r.checkStart == nil {
		r.checkStart = r.parent.checkStart
	}
}

type runKey struct{}

// RunFromContext returns the id of the run that makes the call which an [Approver] is asked
// about, and in how many other runs it is nested. ctx is that of the question. A tool finds
// the same in [Invocation].Run and Depth, and can keep its state for each run, such as the
// directory of a shell. For any other ctx it returns "" and 0.
func RunFromContext(ctx context.Context) (id string, depth int) {
	if r, ok := ctx.Value(runKey{}).(*run); ok {
		return r.id, r.depth
	}
	return "", 0
}

// judge asks the policies about a call: those of the runs around this one, the
// outermost first, and its own.
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

// unsuspended is a verdict about a call in a run that cannot be suspended, as the
// call it is part of cannot.
func unsuspended(v Verdict) Verdict {
	if v.kind == verdictSuspend {
		v.kind, v.reason = verdictDeny, "this call needs approval, and nobody can be asked inside another call"
	}
	return v
}
