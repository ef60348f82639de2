package aycoder

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"weak"

	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/internal/ignore"
	"github.com/aycoder/aycoder/internal/jsontext"
	"github.com/aycoder/aycoder/internal/runes"
)

// Asking: from a call of the model to a decision or an open question, in this order: whether it
// can run at all, what the policy says, what was answered before, and at last the host. A
// question about files waits for the calls before it that may change them.

// ApprovalRequest is the question whether a call may run. It is plain data and encodes as JSON.
type ApprovalRequest struct {
	// Key identifies the question in its run: "t1/ask/<call id>" in turn 1.
	Key string `json:"key"`
	// Run is the id of the run, and Agent the name of its agent: see [WithName].
	Run   string `json:"run"`
	Agent string `json:"agent,omitempty"`
	// CallID, Tool and Args are the call's id, tool name and arguments. Subject is what the call
	// acts on, such as a path or a command.
	CallID  string          `json:"id"`
	Tool    string          `json:"name"`
	Args    json.RawMessage `json:"args"`
	Subject string          `json:"subject,omitempty"`
	// Preview shows what the call would do, for example as a unified diff. It is "" if the tool
	// is not a [Previewer].
	Preview string `json:"preview,omitempty"`
	// Plan is the whole change that the call would make, if the tool is a [Planner]. An approval
	// allows exactly this plan, unless AllowPlan replaces it with a reduced one.
	Plan *edit.Plan `json:"plan,omitempty"`
	// Suggested are rules that would allow this call and similar ones from now on, the narrowest
	// first. They are texts in the rule language of the [Approver].
	Suggested []string `json:"suggested,omitempty"`
	// Class says how far the call reaches, such as "network". The [Approver] defines the classes.
	// Reasons say why the user is asked.
	Class   string   `json:"class,omitempty"`
	Reasons []string `json:"reasons,omitempty"`
	// Digest is a hash of Tool, Args, Preview and Plan. A [Decision] must have the same Digest.
	Digest string `json:"digest"`
	// Created is the time at which the loop made the question.
	Created time.Time `json:"created"`
}

func (r *ApprovalRequest) digest() string {
	shown := []string{r.Tool, jsontext.Canonical(r.Args), r.Preview}
	if r.Plan != nil {
		shown = append(shown, r.Plan.Digest())
	}
	return digest(shown...)
}

// An openQuestion is a question of a run. It is open as long as it is in the run's set of open
// questions and the state waits for it; the question itself does not store that.
type openQuestion struct {
	_ [0]func() // not comparable, which would be code in each program
	*preparedCall
	run *run
	req *ApprovalRequest
	why *Grounds // of the policy's question

	detached  bool // guarded by run.mu, as are the next
	handle    weak.Pointer[Approval]
	delivered bool // to the consumer
}

// A pendingQuestion is a question that the policy leaves to the user.
type pendingQuestion struct {
	*AskApproval
	*preparedCall
	verdict Verdict // to ask or to suspend
	rules   int64   // how many rules there were when the policy was asked
	// otherAnswer says that the user has answered, but another question.
	otherAnswer bool

	files  []edit.File // of the plan, once there was one
	failed bool        // there was none
	parks  int
	ended  int // how many of the calls before it that write had ended
}

// ask finds out whether a call may run: first whether it can, then whether the
// policy forbids it, then what was answered already, and at last by asking.
func (r *run) ask(ctx context.Context, a *AskApproval) (parked bool) {
	p, err := r.prepareCall(a.Call, a.Effect)
	if err != nil {
		r.reject(a.Call, err)
		return false
	}
	return r.consider(ctx, &pendingQuestion{AskApproval: a, preparedCall: p},
		r.takeDecision(a.Call.ID), ByPolicy)
}

// prepareCall checks a call: its tool must be offered to the model, and its arguments must fit. In a
// resumed run, a tool that only read must not write now: the call was treated as one that reads.
func (r *run) prepareCall(call *ToolUse, effect Effect) (*preparedCall, error) {
	t := r.setup.Load().tool(call.Name)
	if t == nil || !slices.ContainsFunc(r.offers(), func(s *ToolSpec) bool { return s.Name == t.spec.Name }) {
		return nil, notFound(call, r.offers())
	}
	if effect == EffectReadOnly && t.spec.Effect != EffectReadOnly {
		return nil, &StaleApprovalError{&ToolError{Tool: call.Name, CallID: call.ID}}
	}
	return t.prepare(call)
}

// consider asks the policy about a call, and then looks at the answer given, if there is one.
// allowedBy is recorded as the decider if the policy allows the call.
func (r *run) consider(
	ctx context.Context, q *pendingQuestion, given *Decision, allowedBy DecidedBy,
) (parked bool) {
	q.rules = r.loop.keptRules.Load()
	v, by := r.policy(q.preparedCall), ByPolicy
	if v.kind == verdictAllow {
		by = allowedBy
	} else if v.kind == verdictAsk && v.args != nil { // an approver of a run inside a call has replaced them
		p, err := q.withArgs(v.args)
		if err != nil {
			r.reject(q.call, err)
			return false
		}
		q.preparedCall, v.args = p, nil
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

// decide applies the decision of the policy, a rule or an earlier answer to a call. Edited
// arguments are checked like the model's. A call that may run at once runs on this goroutine.
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

// offers returns the tools that the model was offered. A call of any other tool is not run.
func (r *run) offers() []*ToolSpec {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.offered == nil {
		return r.base.Tools
	}
	return r.offered
}

// decideStep runs a step that finds out whether a call may run, or that puts the question off.
func (r *run) decideStep(ctx context.Context, c *ToolUse, step func() (parked bool)) {
	defer r.gone()
	defer r.flush(ctx)
	growStack()
	parked := false
	defer func() {
		if !parked {
			r.rejectUndecided(c)
		}
	}()
	parked = step()
}

// rejectUndecided rejects a call that a step left without an answer or an open question.
func (r *run) rejectUndecided(c *ToolUse) {
	r.mu.Lock()
	left := r.state.asks(c) && r.open[c.ID] == nil && !r.stopping
	r.mu.Unlock()
	if left {
		r.reject(c, &ToolError{Tool: c.Name, CallID: c.ID, Err: errExited})
	}
}

// pose asks a question, or parks it. A call that cannot work is settled without asking. If an
// earlier call has ended meanwhile, the plan is made again, since files may have changed.
func (r *run) pose(ctx context.Context, q *pendingQuestion) (parked bool) {
	if r.park(q) {
		return true
	}
	ended := q.ended
	req, err := r.question(ctx, q)
	if q.failed = err != nil; !q.failed && req.Plan != nil {
		q.files = req.Plan.Files()
	}
	if r.park(q) {
		return true
	}
	if q.ended != ended {
		return r.pose(ctx, q)
	}
	switch {
	case err == nil:
		if !r.raise(&openQuestion{preparedCall: q.preparedCall, run: r, req: req, why: q.verdict.why},
			q.verdict, q.rules) {
			return r.consider(ctx, q, nil, ByRule) // a rule was made since
		}
	case ctx.Err() != nil && r.outlives:
		return true
	case ctx.Err() != nil:
		base := &ToolError{Tool: q.use.Name, CallID: q.use.ID, Err: errors.New(outCancelled)}
		r.reject(q.Call, base)
	default:
		r.endTool(ctx, &RunTool{Turn: q.Turn, Attempt: q.Attempt, Call: q.Call, Args: q.use.Args, prepared: q.preparedCall}, outcome{err: err})
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

// question makes the question about a call. The error says that the call cannot do its work.
func (r *run) question(ctx context.Context, q *pendingQuestion) (*ApprovalRequest, error) {
	use, g := q.use, q.verdict.Grounds()
	req := &ApprovalRequest{
		Key: q.Key(), Run: r.id, Agent: r.name, CallID: use.ID, Tool: use.Name, Args: use.Args, Subject: q.display,
		Class: g.Class, Reasons: g.Reasons, Suggested: g.Suggested, Created: r.loop.clock.Now(),
	}
	inv := r.previewCall(req)
	if p, ok := q.tool.impl.(Planner); ok {
		plan, err := safePlan(ctx, p, inv)
		if err != nil {
			return nil, err
		}
		req.Plan, inv.Plan = &plan, new(plan)
		req.Reasons = reasonsOf(plan, req.Reasons)
	}
	req.Preview = q.tool.preview(ctx, inv)
	req.Digest = req.digest()
	return req, nil
}

// previewCall returns the invocation with which the preview of a question is made.
func (r *run) previewCall(req *ApprovalRequest) *Invocation {
	return &Invocation{ID: req.CallID, Name: req.Tool, Key: req.Key, Place: r.place(),
		Args: req.Args, Plan: req.Plan, run: r}
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
	return runes.HeadTail(runes.Clean(text), 64<<10)
}

// rememberPreview keeps the preview of a command that is allowed without asking, for checkStart.
func (r *run) rememberPreview(ctx context.Context, q *pendingQuestion) {
	_, ok := q.tool.impl.(Previewer)
	if r.hooks == nil || !ok || q.tool.spec.Subject.Kind != SubjectCommand {
		return
	}
	if req, err := r.question(ctx, q); err == nil {
		q.shown = req
	}
}

// raise opens a question, or suspends it. It returns false if a rule was made since the policy
// was asked, when there were that many rules, because the new rule may answer the question.
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
		_ = r.step(&Decided{Decision: d})
	default:
		if r.recorder != nil {
			r.recorder.asked(r, q)
		}
		q.shown = q.req
		put(&r.open, q.call.ID, q)
		r.show()
		r.unpark()
	}
	return true
}

// show hands the open questions to the consumer in the order of their calls. A question waits
// until the policy has decided about all calls before it.
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
		r.tell(&ApprovalRequested{Request: req, question: q})
		r.signal()
	}
}

// park puts off a question if earlier calls may change the files of its plan, and reports that.
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

// blocked reports whether q must wait for an earlier call that writes: one that is about to run,
// that has no question yet, or that asks about the same files. Calls at or behind a suspended one
// do not run any more, and so do not count. blocked also counts the calls that have ended.
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
		case callSuspended, callDeferred:
			suspended = true
		case callApproved, callIssued, callBegun, callOutside:
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

// waitsFor reports whether q waits for the answer to an earlier question with this plan.
func (q *pendingQuestion) waitsFor(plan *edit.Plan) bool {
	if q.failed {
		return true
	}
	return plan != nil && slices.ContainsFunc(q.files, func(e edit.File) bool {
		_, both := plan.File(e.Path)
		return both
	})
}

// unpark poses the parked questions that need not wait any more. The mutex is held.
func (r *run) unpark() {
	if r.stopping || r.recording() {
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

// reasonsOf adds to the reasons of a question why files of the plan run code.
func reasonsOf(p edit.Plan, told []string) []string {
	for _, f := range p.Files() {
		w := ignore.Runs(f.Path)
		if w != "" && !slices.ContainsFunc(told, func(s string) bool { return strings.HasSuffix(s, w) }) {
			told = append(slices.Clip(told), "writes "+runes.Path(f.Path)+": "+w)
		}
	}
	return told
}
