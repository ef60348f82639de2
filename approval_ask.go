package aycoder

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"
	"weak"

	"github.com/aycoder/aycoder/internal/jsontext"
	"github.com/aycoder/aycoder/internal/runes"
)

// Asking: from a call of the model to a decision or an open question, in this order: whether it
// can run at all, what the policy says, what was answered before, and at last the host. A
// question about files waits for the calls before it that may change them.

// ApprovalRequest is the question whether a call may run. It is plain data.
type ApprovalRequest struct {
	// Key is the address of the question in its run: "t1/ask/<call id>".
	Key string `json:"key"`
	// Run is the id of the run.
	Run string `json:"run"`
	// Call is what the model wants; Subject what it is about: a path, a command.
	CallID  string          `json:"id"`
	Tool    string          `json:"name"`
	Args    json.RawMessage `json:"args"`
	Subject string          `json:"subject,omitempty"`
	// Preview shows what the call would do, if the tool can tell: a unified diff.
	Preview string `json:"preview,omitempty"`
	// Plan is the change that the call would make, whole, if the tool is a [Planner]:
	// what is approved is this, and what it became after a review with AllowPlan.
	Plan *EditPlan `json:"plan,omitempty"`
	// Suggested are rules that would allow this call and its like from now on, the
	// narrowest first. They are texts in the language of the [Approver] that suggests them.
	Suggested []string `json:"suggested,omitempty"`
	// Class and Reasons say how far the call reaches and what makes it so, if the [Approver] told.
	Class   string   `json:"class,omitempty"`
	Reasons []string `json:"reasons,omitempty"`
	// Digest binds an answer to the tool, the arguments, the preview and the plan.
	Digest string `json:"digest"`
	// Created is when the question came up.
	Created time.Time `json:"created"`
}

func (r *ApprovalRequest) digest() string {
	h := sha256.New()
	shown := []string{r.Tool, jsontext.Canonical(r.Args), r.Preview}
	if r.Plan != nil {
		shown = append(shown, r.Plan.Digest())
	}
	for _, s := range shown {
		fmt.Fprintf(h, "%d:%s", len(s), s)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// An openQuestion is one of a run. That it is open is not stored in it: it is
// open as long as it stands in the run's set, and the machine waits for it.
type openQuestion struct {
	*preparedCall
	run *run
	req *ApprovalRequest
	why *Grounds // of the policy's question

	detached  bool // guarded by run.mu, as are the next
	handle    weak.Pointer[Approval]
	delivered bool // to the consumer
}

// A pendingQuestion is one that the policy leaves to somebody else.
type pendingQuestion struct {
	*AskApproval
	*preparedCall
	verdict Verdict // to ask or to suspend
	rules   int64   // how many rules there were when the policy was asked
	// otherAnswer says that the user has answered, but another question.
	otherAnswer bool

	files  []FileEdit // of the plan, once there was one
	failed bool       // there was none
	parks  int
	ended  int // how many of the calls before it that write had ended
}

// ask finds out whether a call may run: first whether it can, then whether the
// policy forbids it, then what was answered already, and at last by asking.
func (r *run) ask(ctx context.Context, a *AskApproval) (parked bool) {
	p, err := r.prepareCall(a.Call)
	if err != nil {
		r.reject(a.Call, err)
		return false
	}
	return r.consider(ctx, &pendingQuestion{AskApproval: a, preparedCall: p}, r.takeDecision(a.Call.ID), ByPolicy)
}

// prepareCall finds the tool of a call among those that the model was offered, and checks the
// arguments.
func (r *run) prepareCall(call *ToolUse) (*preparedCall, error) {
	t := r.loop.tool(call.Name)
	if t == nil || !slices.ContainsFunc(r.offers(), func(s *ToolSpec) bool { return s.Name == t.spec.Name }) {
		return nil, notFound(call, r.offers())
	}
	return t.prepare(call)
}

// consider asks the policy about a call, and then looks at the answer that was given, if one
// was. allowedBy is who has decided if the policy allows the call now.
func (r *run) consider(ctx context.Context, q *pendingQuestion, given *Decision, allowedBy DecidedBy) (parked bool) {
	q.rules = r.loop.keptRules.Load()
	v, by := r.policy(q.preparedCall), ByPolicy
	if v.kind == verdictAllow {
		by = allowedBy
	}
	q.verdict = v
	if given != nil && v.kind != verdictDeny {
		if r.sameQuestion(ctx, q, *given) {
			given.Verdict.why = v.why
			r.decide(ctx, q.preparedCall, given.Verdict, ByUser)
			return false
		}
		q.otherAnswer = true
	}
	switch {
	case v.kind == verdictAllow && q.otherAnswer:
		q.verdict = Verdict{why: v.why}
	case v.kind == verdictAllow, v.kind == verdictDeny:
		if v.kind == verdictAllow {
			r.rememberPreview(ctx, q)
		}
		r.decide(ctx, q.preparedCall, v, by)
		return false
	}
	return r.pose(ctx, q)
}

// decide is what the policy, a rule or an earlier answer says about a call. Edited arguments are
// checked like the model's. A call that may run at once is run here: it needs no other goroutine.
func (r *run) decide(ctx context.Context, p *preparedCall, v Verdict, by DecidedBy) {
	if v.args != nil {
		edited, err := p.withArgs(v.args)
		if err != nil {
			r.reject(p.call, err)
			return
		}
		if by == ByUser && edited != p {
			if again := r.policy(edited); again.kind == verdictDeny {
				v, by, edited = again, ByPolicy, p
			}
		}
		p = edited
	}
	if by == ByUser {
		v = v.withShownPlan(p)
	}
	r.mu.Lock()
	r.inline, r.inlineRun = p.call, nil
	_ = r.decideLocked(p, v, by)
	run := r.inlineRun
	r.inline, r.inlineRun = nil, nil
	r.mu.Unlock()
	if run != nil {
		r.runTool(ctx, run)
	}
}

// offers returns the tools that the model was offered. A call of another is not run,
// whatever tools there are.
func (r *run) offers() []*ToolSpec {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.offered == nil {
		return r.loop.specs
	}
	return r.offered
}

// decideStep runs a step that is to find out whether a call may run, or to put that off.
func (r *run) decideStep(ctx context.Context, c *ToolUse, step func() (parked bool)) {
	defer r.gone()
	defer r.flush(ctx)
	parked := false
	defer func() {
		if !parked {
			r.rejectUndecided(c)
		}
	}()
	parked = step()
}

// rejectUndecided makes sure that a question which was dealt with is answered or open.
func (r *run) rejectUndecided(c *ToolUse) {
	r.mu.Lock()
	left := r.state.asks(c) && r.open[c.ID] == nil && !r.stopping
	r.mu.Unlock()
	if left {
		r.reject(c, &ToolError{Tool: c.Name, CallID: c.ID, Err: errExited})
	}
}

// pose asks a question, or parks it. A call that cannot work is settled unasked. A plan is
// made again if a call before it has ended meanwhile, since that may have changed the files.
func (r *run) pose(ctx context.Context, q *pendingQuestion) (parked bool) {
	if r.park(q) {
		return true
	}
	ended := q.ended
	req, err := r.question(ctx, q)
	if q.failed = err != nil; !q.failed && req.Plan != nil {
		q.files = req.Plan.files
	}
	if r.park(q) {
		return true
	}
	if q.ended != ended {
		return r.pose(ctx, q)
	}
	switch {
	case err == nil:
		if !r.raise(&openQuestion{preparedCall: q.preparedCall, run: r, req: req, why: q.verdict.why}, q.verdict, q.rules) {
			return r.consider(ctx, q, nil, ByRule) // a rule was made since
		}
	case ctx.Err() != nil:
		base := &ToolError{Tool: q.use.Name, CallID: q.use.ID, Err: errors.New(outCancelled)}
		r.reject(q.Call, base)
	default:
		r.endTool(ctx, &RunTool{Call: q.Call, Args: q.use.Args, prepared: q.preparedCall}, outcome{err: err})
	}
	return false
}

// allowsNow asks the policy once more whether a call may run as it is. The new
// verdict can only restrict the call further.
func (r *run) allowsNow(a *RunTool) bool {
	v := r.policy(a.prepared)
	a.ReadOnly = a.ReadOnly || v.readOnly()
	return v.kind == verdictAllow && v.args == nil
}

// question describes a call to whoever is to decide. The error says that the call
// cannot do what it is to do.
func (r *run) question(ctx context.Context, q *pendingQuestion) (*ApprovalRequest, error) {
	use, g := q.use, q.verdict.Grounds()
	req := &ApprovalRequest{
		Key: q.Key(), Run: r.id, CallID: use.ID, Tool: use.Name, Args: use.Args, Subject: q.display,
		Class: g.Class, Reasons: g.Reasons, Suggested: g.Suggested, Created: r.loop.clock.Now(),
	}
	inv := r.previewCall(req)
	if p, ok := q.tool.impl.(Planner); ok {
		plan, err := safePlan(ctx, p, inv)
		if err != nil {
			return nil, err
		}
		req.Plan, inv.Plan = &plan, new(plan)
		req.Reasons = plan.reasons(req.Reasons)
	}
	req.Preview = q.tool.preview(ctx, inv)
	req.Digest = req.digest()
	return req, nil
}

// previewCall is the call of a question, for a preview.
func (r *run) previewCall(req *ApprovalRequest) *Invocation {
	return &Invocation{ID: req.CallID, Name: req.Tool, Key: req.Key, Run: r.id, Depth: r.depth, Args: req.Args, Plan: req.Plan}
}

func (t *tool) preview(ctx context.Context, inv *Invocation) (text string) {
	p, ok := t.impl.(Previewer)
	if !ok {
		return ""
	}
	defer func() {
		if v := recover(); v != nil {
			text = fmt.Sprintf("no preview: panic: %v", v)
		}
	}()
	text, err := p.Preview(ctx, inv)
	if err != nil {
		return "no preview: " + runes.Clean(err.Error())
	}
	return runes.Shorten(runes.Clean(text), 64<<10)
}

// rememberPreview remembers what a command would show that is allowed unasked.
func (r *run) rememberPreview(ctx context.Context, q *pendingQuestion) {
	_, ok := q.tool.impl.(Previewer)
	if r.checkStart == nil || !ok || q.tool.spec.Subject.Kind != SubjectCommand {
		return
	}
	if req, err := r.question(ctx, q); err == nil {
		q.shown = req
	}
}

// raise opens a question, or suspends it. It reports false if the approver was given a
// rule since it was asked, which may answer the question: rules is how many there were.
func (r *run) raise(q *openQuestion, v Verdict, rules int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.stopping || !r.state.asks(q.call):
	case r.loop.keptRules.Load() != rules:
		return false
	case v.kind == verdictSuspend:
		if r.recorder != nil {
			r.recorder.asked(r, q)
			r.recorder.decided(r, q.call, v, ByPolicy)
		}
		d := Decision{CallID: q.call.ID, Digest: q.req.Digest, Verdict: v, By: ByPolicy}
		r.suspended = append(r.suspended, *q.req)
		_ = r.step(&Decided{d})
	default:
		if r.recorder != nil {
			r.recorder.asked(r, q)
		}
		put(&r.open, q.call.ID, q)
		r.show()
		r.unpark()
	}
	return true
}

// show hands the open questions to the consumer, in the order of the calls: one
// waits until the policy has spoken about those before it.
func (r *run) show() {
	for i := range r.state.calls {
		call := &r.state.calls[i]
		if call.status != callAsked {
			continue
		}
		q := r.open[call.use.ID]
		if q == nil {
			return
		}
		if q.delivered {
			continue
		}
		q.delivered = true
		req := *q.req
		req.Suggested = slices.Clone(req.Suggested)
		if req.Plan != nil {
			req.Plan = new(*req.Plan)
		}
		r.out.push(&ApprovalRequested{Request: req, question: q})
		r.signal()
	}
}

// park puts a question about a plan off, if calls before it may change what it is
// made of. It reports whether it did.
func (r *run) park(q *pendingQuestion) bool {
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
// behind such, does not run any more. It counts the calls that have ended.
func (r *run) blocked(q *pendingQuestion) bool {
	suspended := false
	q.ended = 0
	for i := range r.state.calls {
		c := &r.state.calls[i]
		if c.use == q.Call {
			return false
		}
		if c.effect == EffectReadOnly {
			continue
		}
		switch c.status {
		case callSettled:
			q.ended++
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
func (q *pendingQuestion) waitsFor(plan *EditPlan) bool {
	if q.failed {
		return true
	}
	return plan != nil && slices.ContainsFunc(q.files, func(e FileEdit) bool {
		return editOf(plan.files, e.Path) >= 0
	})
}

// unpark takes up the questions that wait for nothing any more. The mutex is held.
func (r *run) unpark() {
	if r.stopping {
		return
	}
	r.parked = slices.DeleteFunc(r.parked, func(q *pendingQuestion) bool {
		if r.blocked(q) {
			return false
		}
		q.failed, q.files = false, nil
		q.parks++
		r.submit(q.AskApproval, "/"+strconv.Itoa(q.parks), func(ctx context.Context) {
			r.decideStep(ctx, q.Call, func() bool { return r.pose(ctx, q) })
		})
		return true
	})
}
