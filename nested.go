package aycoder

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/aycoder/aycoder/internal/jsontext"
)

// ChildEvent is an event of a run inside a call, such as the run of a subagent. If
// [ChildEvent.Innermost] returns an [*ApprovalRequested] or a [*CallRequested], answer it like any
// other one.
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

// answered reports whether the event is a request that is no longer open.
func (e *ChildEvent) answered() bool {
	q, ok := e.Innermost().(request)
	return ok && q.over()
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
// belongs to an outer run. The run of a [Loop] whose ctx is derived from the ctx of a call is an inner
// run of that call also without this option, so that nobody gets round the guards of the outer run
// by nesting.
//
// The [Approver] of the outer run, and those of the runs around the outer run, then also decide about each
// call of the inner run, and about arguments that its Approver puts in place of the model's. The strictest
// verdict counts, and a verdict to suspend counts as a denial. If the inner run has no Approver, only the
// others decide. A rule that the user makes goes to each Approver that is a [RuleKeeper]. The
// [ToolMiddleware] of the outer runs is around that of the inner run, and their auditors get its records.
// They all learn the [Place] of the inner run.
//
// Pass the ctx of the call to Run, so that the inner run ends with the call. Report the events of the
// inner run with [Invocation.Emit], and its usage in [ToolResult].
func WithParent(inv *Invocation) RunOption {
	return func(c *RunConfig) error {
		c.Parent = inv
		return nil
	}
}

// inside makes the run part of a call, and passes the outer run's auditors on to this run.
func (r *run) inside(inv *Invocation) {
	r.parent, r.depth, r.calls = inv.run, inv.Depth+1, append(slices.Clip(inv.Calls), inv.ID)
	r.apart = inv.emit == nil // see Outlive
	r.name = cmp.Or(r.name, inv.Name)
	if r.parent == nil {
		return
	}
	r.parent.mu.Lock()
	for _, a := range r.parent.running {
		if a.Call.ID == inv.ID && !r.apart {
			a.runs = append(a.runs, r)
		}
	}
	r.parent.mu.Unlock()
	if r.parent.recorder != nil {
		r.recorder = r.parent.recorder.child(r.recorder)
	}
	r.hooks = cmp.Or(r.hooks, r.parent.hooks)
	if r.trace == nil {
		r.trace = r.parent.trace
	}
}

// Place says in which run something happens, so that the guards of a run, such as its [Approver], can
// tell apart the agents that work inside its calls.
type Place struct {
	// Run is the id of the run. Depth is the number of runs around it.
	Run   string `json:"run"`
	Depth int    `json:"depth,omitempty"`
	// Agent is the name of the agent: see [WithName]. Without a name, that of an inner run has the name
	// of the tool that runs it.
	Agent string `json:"agent,omitempty"`
	// Calls are the ids of the calls that the run is inside of, the outermost first.
	Calls []string `json:"calls,omitempty"`
}

func (r *run) place() Place { return Place{r.id, r.depth, r.name, r.calls} }

// placeKey is the key of a run in the context of an Approver, and of an [*Invocation] in that of a tool.
type placeKey struct{}

// PlaceFromContext returns where a call happens, for the ctx that an [Approver], a tool or the function
// of [WithSetup] received. For any other ctx, ok may be false. A tool and a [ToolMiddleware] find
// the same in their [Invocation]. So an Approver can find the state that a tool keeps for each run,
// such as the directory of a shell.
func PlaceFromContext(ctx context.Context) (p Place, ok bool) {
	switch v := ctx.Value(placeKey{}).(type) {
	case *run:
		return v.place(), true
	case *Invocation:
		return v.Place, true
	}
	return Place{}, false
}

// parentOf returns the call that a run with this context and option is inside of, or nil.
func parentOf(ctx context.Context, given *Invocation) *Invocation {
	inv, _ := ctx.Value(placeKey{}).(*Invocation)
	if given != nil && (given.run != nil || inv == nil) {
		return given
	}
	return inv
}

// guarded returns the function of a tool with the middleware of the runs around this one.
func (r *run) guarded(t *tool) ToolFunc {
	if call, ok := r.guards.Load(t); ok {
		return call.(ToolFunc)
	}
	call := t.call
	for p := r.parent; p != nil; p = p.parent {
		for _, wrap := range slices.Backward(p.loop.wrapTool) {
			call = wrap(call)
		}
	}
	first, _ := r.guards.LoadOrStore(t, call)
	return first.(ToolFunc)
}

// judge asks the policies about a call: those of the outer runs from the outside in, then its own.
func (r *run) judge(ctx context.Context, c *ToolUse, s *ToolSpec) Verdict {
	if r.parent == nil {
		return r.loop.policy(ctx, c, s)
	}
	outer := r.parent.judge(ctx, c, s)
	outer.unsuspend()
	if _, none := r.loop.approver.(readOnly); none || outer.kind == verdictDeny {
		return outer
	}
	if outer.args != nil {
		c = &ToolUse{ID: c.ID, Name: c.Name, Args: outer.args}
	}
	own := r.loop.policy(ctx, c, s)
	own.unsuspend()
	if own.kind == verdictAllow && own.args != nil { // those around have not seen these
		outer = r.parent.judge(ctx, &ToolUse{ID: c.ID, Name: c.Name, Args: own.args}, s)
		outer.unsuspend()
		if outer.args == nil {
			outer.args = own.args
		} else if jsontext.Canonical(outer.args) != jsontext.Canonical(own.args) {
			outer = Deny("the approvers of this run and of those around it want different arguments")
		}
	}
	own.args = outer.args    // a question is about them
	v, other := &outer, &own // the stricter one comes first
	if own.kind == verdictDeny || outer.kind == verdictAllow && own.kind == verdictAsk {
		v, other = other, v
	}
	if v.kind == verdictAllow && other.readOnly() {
		return v.held()
	}
	return *v
}

// unsuspend turns suspending into a denial: neither a call nor a run inside it can be suspended.
func (v *Verdict) unsuspend() {
	if v.kind == verdictSuspend {
		v.kind, v.reason = verdictDeny, "this call needs approval, and nobody can be asked inside another call"
	}
}
