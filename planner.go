package aycoder

import (
	"context"
	"errors"
	"runtime/debug"
	"slices"
	"strconv"
)

// Planner is an optional ability of a [Tool] that changes files: Plan returns the
// change that a call would make, and makes none. The loop asks for it when somebody is
// to be asked about the call: they are shown the plan, may cut it down, and the call
// then gets what was approved in [Invocation.Plan], to carry it out with
// Workspace.Apply. So what is approved is what runs, and what others write into the
// files meanwhile is merged. The result tells the model [EditPlan.LeftOut]. If the tool
// is a [Previewer] too, it gets the plan in [Invocation.Plan] to show it, and
// [EditPlan.Preview] does.
//
// An error says that the call cannot work. Nobody is asked then, Call is not called,
// and the model reads the error. Plan is safe for concurrent use, and may be called
// several times for a call: if calls of the same message before it touch the same
// files, or if there is an error while such calls are open, it is called again after
// them. It stops soon after ctx is cancelled.
type Planner interface {
	Plan(ctx context.Context, inv *Invocation) (EditPlan, error)
}

// safePlan calls Plan. A panic is an error.
func safePlan(ctx context.Context, p Planner, inv *Invocation) (plan EditPlan, err error) {
	defer func() {
		if v := recover(); v != nil {
			base := &ToolError{Tool: inv.Name, CallID: inv.ID}
			err = &ToolPanicError{ToolError: base, Value: v, Stack: debug.Stack()}
		}
	}()
	if plan, err = p.Plan(ctx, inv); err != nil {
		_ = err.Error() // one that panics does so here
	}
	return plan, err
}

var (
	errNoPlan    = errors.New("allow plan: the request has none")
	errNotReview = errors.New("allow plan: it is not what is left of the request's plan after a review")
)

// reviews checks that p is what a review left of a plan: the same question, and none
// but its files with their bases.
func (p EditPlan) reviews(of *EditPlan) error {
	if of == nil {
		return errNoPlan
	}
	asked := p.original()
	if !sameEdits(asked, of.original()) {
		return errNotReview
	}
	for _, e := range p.files {
		i := editOf(asked, e.Path)
		if i < 0 || asked[i].Base != e.Base {
			return errNotReview
		}
		if asked[i].Kind != e.Kind && (asked[i].Kind != EditDelete || e.Kind != EditChange) {
			return errNotReview
		}
	}
	return nil
}

// original is what the model proposed.
func (p EditPlan) original() []FileEdit {
	if p.asked != nil {
		return p.asked
	}
	return p.files
}

// of is the verdict about a question that showed a plan: what is allowed is that one,
// if no other is given.
func (v Verdict) of(plan *EditPlan) Verdict {
	if v.kind == verdictAllow && v.args == nil && v.plan == nil {
		v.plan = plan
	}
	return v
}

// A posed question is one that the policy leaves to somebody else.
type posed struct {
	*AskApproval
	use     *ToolUse // the call with arguments that fit
	tool    *tool
	verdict Verdict // to ask or to suspend
	kept    int64   // how many rules there were when the policy was asked
	// answered says that there was an answer, to another question.
	answered bool

	files  []FileEdit // of the plan, once there was one
	failed bool       // there was none
	parks  int
}

// sameQuestion reports whether an answer that was given elsewhere is about the
// question as it is now, and returns the plan of it. A plan that was shown is not
// made again: it is merged with what became of the files.
func (r *run) sameQuestion(ctx context.Context, q *posed, d Decision) (*EditPlan, bool) {
	i := slices.IndexFunc(r.asked, func(a ApprovalRequest) bool { return a.CallID == q.use.ID })
	if i >= 0 && r.asked[i].Plan != nil {
		req := r.asked[i]
		req.Tool, req.Args = q.use.Name, q.use.Args
		return req.Plan, req.digest() == d.Digest
	}
	req, err := r.question(ctx, q)
	if err != nil {
		return nil, false
	}
	if req.Digest != d.Digest {
		return nil, false
	}
	r.approve(req)
	return req.Plan, true
}

// pose asks a question, or parks it. A call that cannot work is settled unasked.
func (r *run) pose(ctx context.Context, q *posed) (parked bool) {
	if r.park(q) {
		return true
	}
	req, err := r.question(ctx, q)
	if q.failed = err != nil; !q.failed && req.Plan != nil {
		q.files = req.Plan.files
	}
	if r.park(q) {
		return true
	}
	switch {
	case err == nil:
		if !r.raise(&cell{run: r, call: q.Call, tool: q.tool, req: req, why: q.verdict.why}, q.verdict, q.kept) {
			return r.repose(ctx, q)
		}
	case ctx.Err() != nil:
		base := &ToolError{Tool: q.use.Name, CallID: q.use.ID, Err: errors.New(outCancelled)}
		r.reject(q.Call, base)
	default:
		r.endTool(ctx, &RunTool{Call: q.Call, Args: q.use.Args}, outcome{err: err})
	}
	return false
}

// repose asks the policy once more: a rule was made since, which may answer the question.
func (r *run) repose(ctx context.Context, q *posed) (parked bool) {
	q.kept = r.loop.kept.Load()
	v, by := r.policy(q.use, &q.tool.spec), ByPolicy
	switch {
	case v.kind == verdictAllow && q.answered:
		v = Verdict{why: v.why}
	case v.kind == verdictAllow:
		by = ByRule
		r.pin(ctx, q)
	}
	if v.kind == verdictAllow || v.kind == verdictDeny {
		r.decide(ctx, q.Call, v, by)
		return false
	}
	q.verdict = v
	return r.pose(ctx, q)
}

// park puts a question about a plan off, if calls before it may change what it is
// made of. It reports whether it did.
func (r *run) park(q *posed) bool {
	if _, ok := q.tool.impl.(Planner); !ok {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopping || !r.blocked(q) {
		return false
	}
	r.parked = append(r.parked, q)
	return true
}

// blocked reports whether a call before this one that writes is about to run, or is
// not asked about yet, or asks about the same files. One that is suspended, or waits
// behind such, does not run any more.
func (r *run) blocked(q *posed) bool {
	suspended := false
	for i := range r.state.calls {
		c := &r.state.calls[i]
		if c.use == q.Call {
			return false
		}
		if c.effect == EffectReadOnly {
			continue
		}
		switch c.status {
		case callSuspended:
			suspended = true
		case callApproved, callIssued, callBegun:
			if !suspended {
				return true
			}
		case callAsked:
			if o := r.open[c.use.ID]; o == nil || q.waitsFor(o.req.Plan) {
				return true
			}
		}
	}
	return false
}

// waitsFor reports whether an open question about a plan comes first.
func (q *posed) waitsFor(plan *EditPlan) bool {
	if q.failed {
		return true
	}
	return plan != nil && slices.ContainsFunc(q.files, func(e FileEdit) bool {
		return editOf(plan.files, e.Path) >= 0
	})
}

// unpark takes up the questions that wait for nothing any more. The mutex is held.
func (r *run) unpark() {
	if r.stopping || len(r.parked) == 0 {
		return
	}
	r.parked = slices.DeleteFunc(r.parked, func(q *posed) bool {
		if r.blocked(q) {
			return false
		}
		q.failed, q.files = false, nil
		q.parks++
		r.submit(q.Key()+"/"+strconv.Itoa(q.parks), func(ctx context.Context) {
			r.dealWith(ctx, q.Call, func() bool { return r.pose(ctx, q) })
		})
		return true
	})
}

// changed is an error that says what became of files: [*ConflictError]. It is asked for
// by its method, so that a program without such errors does not link them.
type changed interface {
	error
	Changes() *ApplyResult
}

// changes are the events that belong before the end of a call.
func (e *ToolFinished) changes() []Event {
	var out []Event
	for i, f := range e.files() {
		switch f.Outcome {
		case OutcomeMerged:
			out = append(out, &Merged{Call: e.Call, File: &e.Changes.Files[i]})
		case OutcomeConflicted:
			out = append(out, &Conflicted{Call: e.Call, File: &e.Changes.Files[i]})
		}
	}
	return out
}
