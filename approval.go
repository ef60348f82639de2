package aycoder

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"time"
	"weak"

	"github.com/aycoder/aycoder/internal/runes"
)

// ApprovalRequest is the question whether a call may run. It is plain data.
type ApprovalRequest struct {
	// Key is the address of the question in its run: "t1/ask/<call id>".
	Key string `json:"key"`
	// Run is the id of the run.
	Run string `json:"run"`
	// Call is what the model wants; Subject what it is about: a path, a command.
	CallID  string          `json:"id"`
	Tool    string          `json:"name"`
	Args    json.RawMessage `json:"input"`
	Subject string          `json:"subject,omitempty"`
	// Preview shows what the call would do, if the tool can tell: a unified diff.
	Preview string `json:"preview,omitempty"`
	// Plan is the change that the call would make, whole, if the tool is a [Planner]:
	// what is approved is this, and what it became after a review with AllowPlan.
	Plan *EditPlan `json:"plan,omitempty"`
	// Suggested are rules that would cover this call and its like, the narrowest first.
	Suggested []Rule `json:"suggested,omitempty"`
	// Class and Reasons say how far the call reaches and what makes it so, if the
	// [Approver] told.
	Class   string   `json:"class,omitempty"`
	Reasons []string `json:"reasons,omitempty"`
	// Digest binds an answer to the tool, the arguments, the preview and the plan.
	Digest string `json:"digest"`
	// Created is when the question came up.
	Created time.Time `json:"created"`
}

func (r *ApprovalRequest) digest() string {
	h := sha256.New()
	shown := []string{r.Tool, canonical(r.Args), r.Preview}
	if r.Plan != nil {
		shown = append(shown, r.Plan.Digest())
	}
	for _, s := range shown {
		fmt.Fprintf(h, "%d:%s", len(s), s)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// ApprovalRequested asks whether a call may run. Answer it with one of its methods
// before the loop body returns, or [ApprovalRequested.Detach] it and answer later;
// otherwise the call is denied, so that nothing hangs. The first answer wins. The
// methods are safe for concurrent use.
type ApprovalRequested struct {
	Request ApprovalRequest

	question *openQuestion
}

// Allow lets the call run. It reports whether this was the answer.
func (a *ApprovalRequested) Allow() bool { return a.question.answer(Allow(), ByUser) == nil }

// Deny refuses the call. The reason goes to the model. It reports whether this was
// the answer.
func (a *ApprovalRequested) Deny(reason string) bool {
	return a.question.answer(Deny(reason), ByUser) == nil
}

// AllowWith lets the call run with other arguments. They are checked against the
// schema and put to the [Approver] again, which can deny them: the error then says
// so, and the question stays open. The model is told what changed. The error is
// [ErrDecided] if the question was answered before.
func (a *ApprovalRequested) AllowWith(args json.RawMessage) error { return a.question.edit(args) }

// AllowPlan lets the call carry out a reviewed plan: the rest of Request.Plan after
// [EditPlan.Keep], [EditPlan.Without], [EditPlan.KeepFiles] or [EditPlan.WithProposed]. The
// model is told about the parts that were left out. Any other plan is an error, and the
// question stays open. The error is [ErrDecided] if the question was answered before.
func (a *ApprovalRequested) AllowPlan(plan EditPlan) error { return a.question.review(plan) }

// AllowFor lets the call run and, with scope [Session] or [Saved], makes a rule that
// answers the same question from now on, and those that are open. The rule is one of
// Request.Suggested. The error is [ErrDecided] if the question was answered before;
// the rule is then not made. It is a [*RuleError] if the [RuleKeeper] could not keep
// the rule: the call is allowed then. Saved takes a RuleKeeper; without one the
// question stays open.
func (a *ApprovalRequested) AllowFor(scope Scope, rule Rule) error {
	return a.question.allowFor(scope, rule)
}

// Detach lets the question be answered after the loop body has returned, from any
// goroutine. A handle that is lost denies the call.
func (a *ApprovalRequested) Detach() *Approval { return a.question.detach(&a.Request) }

// Approval is the handle of a question that was detached.
type Approval struct {
	Request *ApprovalRequest

	question *openQuestion
}

// Allow is [ApprovalRequested.Allow].
func (a *Approval) Allow() bool {
	defer runtime.KeepAlive(a) // while it is answered it is not lost
	return a.question.answer(Allow(), ByUser) == nil
}

// Deny is [ApprovalRequested.Deny].
func (a *Approval) Deny(reason string) bool {
	defer runtime.KeepAlive(a)
	return a.question.answer(Deny(reason), ByUser) == nil
}

// AllowWith is [ApprovalRequested.AllowWith].
func (a *Approval) AllowWith(args json.RawMessage) error {
	defer runtime.KeepAlive(a)
	return a.question.edit(args)
}

// AllowPlan is [ApprovalRequested.AllowPlan].
func (a *Approval) AllowPlan(plan EditPlan) error {
	defer runtime.KeepAlive(a)
	return a.question.review(plan)
}

// AllowFor is [ApprovalRequested.AllowFor].
func (a *Approval) AllowFor(scope Scope, rule Rule) error {
	defer runtime.KeepAlive(a)
	return a.question.allowFor(scope, rule)
}

// An openQuestion is one of a run. That it is open is not stored in it: it is
// open as long as it stands in the run's set, and the machine waits for it.
type openQuestion struct {
	run  *run
	call *ToolUse
	tool *tool

	req      *ApprovalRequest
	why      *Grounds // of the policy's question
	detached bool     // guarded by run.mu, as are the next
	handle   weak.Pointer[Approval]
	shown    bool
}

func (c *openQuestion) answer(v Verdict, by DecidedBy) error {
	return c.run.answer(c, v, by)
}

func (c *openQuestion) edit(args json.RawMessage) error {
	call := &ToolUse{ID: c.call.ID, Name: c.call.Name, Args: args}
	use, err := c.tool.fit(call)
	if err != nil {
		return err
	}
	if v := c.run.policy(use, &c.tool.spec); v.kind == verdictDeny {
		base := &ToolError{Tool: call.Name, CallID: call.ID}
		return &ToolDeniedError{ToolError: base, Reason: v.reason, By: ByPolicy}
	}
	return c.answer(AllowWith(args).unless(c.req.Args), ByUser)
}

func (c *openQuestion) review(plan EditPlan) error {
	if err := plan.reviews(c.req.Plan); err != nil {
		return err
	}
	return c.answer(AllowPlan(plan), ByUser)
}

var (
	errNotSuggested = errors.New("rule is not one of the suggested")
	errNoKeeper     = errors.New("the approver saves no rules: use Session")
)

// Answering: the question as the host holds it, what each answer does, and what is held to it
// until the tool starts. How a question comes up is in approval_ask.go.

func (c *openQuestion) allowFor(scope Scope, rule Rule) error {
	switch {
	case scope == Once:
		return c.answer(Allow(), ByUser)
	case scope != Session && scope != Saved:
		return fmt.Errorf("no such scope: %d", int(scope))
	case !rule.in(c.req.Suggested):
		return errNotSuggested
	case scope == Saved && !c.run.keeps():
		return errNoKeeper
	}
	if err := c.answer(Allow(), ByUser); err != nil {
		return err
	}
	return c.run.makeRule(c, scope, rule)
}

func (c *openQuestion) detach(req *ApprovalRequest) *Approval {
	c.run.mu.Lock()
	defer c.run.mu.Unlock()
	c.detached = true
	if a := c.handle.Value(); a != nil {
		return a
	}
	a := &Approval{Request: req, question: c}
	c.handle = weak.Make(a)
	runtime.AddCleanup(a, func(c *openQuestion) { _ = c.answer(Deny(""), ByAbandoned) }, c)
	return a
}

// answer decides an open question. The first answer wins.
func (r *run) answer(c *openQuestion, v Verdict, by DecidedBy) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.answerLocked(c, v, by)
}

func (r *run) answerLocked(c *openQuestion, v Verdict, by DecidedBy) error {
	if r.stopping || r.open[c.call.ID] != c {
		return ErrDecided
	}
	delete(r.open, c.call.ID)
	if v.why == nil {
		v.why = c.why
	}
	if v.kind == verdictAllow {
		put(&r.approved, c.call.ID, c.req)
	}
	return r.decideLocked(c.call, v.of(c.req.Plan), by)
}

// decide is what the policy, a rule or an earlier answer says about a call. Edited
// arguments are checked like the model's. A call that may run at once is run here:
// it needs no other goroutine.
func (r *run) decide(ctx context.Context, c *ToolUse, v Verdict, by DecidedBy) {
	if v.plan != nil && by == ByPolicy {
		v = Deny("the approver gave a plan that it was not shown")
	}
	if v.args != nil {
		if use, err := r.loop.tool(c.Name).fit(c); err == nil {
			v = v.unless(use.Args)
		}
	}
	if v.args != nil {
		t, edited := r.loop.tool(c.Name), &ToolUse{ID: c.ID, Name: c.Name, Args: v.args}
		if _, err := t.fit(edited); err != nil {
			r.reject(c, err)
			return
		}
		if by == ByUser {
			if p := r.policy(edited, &t.spec); p.kind == verdictDeny {
				v, by = p, ByPolicy
			}
		}
	}
	r.mu.Lock()
	r.inline, r.inlineRun = c, nil
	_ = r.decideLocked(c, v, by)
	run := r.inlineRun
	r.inline, r.inlineRun = nil, nil
	r.mu.Unlock()
	if run != nil {
		r.runTool(ctx, run)
	}
}

func (r *run) decideLocked(c *ToolUse, v Verdict, by DecidedBy) error {
	if !r.state.asks(c) {
		return ErrDecided
	}
	d := Decision{CallID: c.ID, Verdict: v, By: by}
	if r.recorder != nil {
		r.recorder.decided(r, c, v, by)
	}
	if v.kind == verdictDeny {
		base := &ToolError{Tool: c.Name, CallID: c.ID}
		return r.step(&Decided{d}, &ToolFinished{
			Call: c, Subject: r.loop.subject(c), Output: errorOutput(c, d.text()), Summary: "denied",
			Err: &ToolDeniedError{ToolError: base, Reason: v.reason, By: by},
		})
	}
	put(&r.decidedBy, c.ID, by)
	return r.step(&Decided{d})
}

// reject settles a call that cannot run.
func (r *run) reject(c *ToolUse, err error) {
	out := errorOutput(c, runes.Shorten(runes.Clean(err.Error()), 8<<10))
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state.holds(c) {
		fin := &ToolFinished{Call: c, Subject: r.loop.subject(c), Output: out, Summary: "not run", Err: err}
		if r.recorder != nil {
			r.recorder.ended(r, "", c, fin, "not_run")
		}
		_ = r.step(&ToolDone{ID: c.ID, Output: out}, fin)
	}
}

// of is the verdict about a question that showed a plan: what is allowed is that one,
// if no other is given.
func (v Verdict) of(plan *EditPlan) Verdict {
	if v.kind == verdictAllow && v.args == nil && v.plan == nil {
		v.plan = plan
	}
	return v
}

// applyRule answers the open questions that a new rule covers.
func (r *run) applyRule(rule Rule) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var covered []*openQuestion
	for _, c := range r.open {
		if rule.Covers(c.call, &c.tool.spec) {
			covered = append(covered, c)
		}
	}
	for _, c := range covered {
		_ = r.answerLocked(c, Allow(), ByRule)
	}
}

// checkStart returns why a call that was allowed must not start: it is not on record, or a
// command is not the one that was shown. An edit is merged with the present file instead. If
// the call may start only because it changes nothing by now, the action says so after.
func checkStart(ctx context.Context, r *run, a *RunTool, t *tool) error {
	base := &ToolError{Tool: a.Call.Name, CallID: a.Call.ID}
	if r.recorder != nil {
		err := r.recorder.flush(ctx, r, false)
		if err != nil && t.spec.Effect != EffectReadOnly {
			base.Err = err
			return &AuditError{base}
		}
	}
	r.mu.Lock()
	req, by := r.approved[a.Call.ID], r.decidedBy[a.Call.ID]
	r.mu.Unlock()
	_, shows := t.impl.(Previewer)
	switch {
	case t.spec.Subject.Kind != SubjectCommand || t.spec.Subject.Arg == "":
		return nil
	case req == nil && shows && by == "": // allowed before the run was suspended
		if !r.allowsNow(a, t.fitArgs(a), t) {
			return &StaleApprovalError{base}
		}
		return nil
	case req == nil:
		return nil
	}
	now := *req
	now.Preview = t.preview(ctx, r.showing(req))
	if now.digest() == req.Digest {
		return nil
	}
	if by == ByPolicy { // it has not seen where the command starts by now
		if r.allowsNow(a, req.Args, t) {
			return nil
		}
	}
	return &StaleApprovalError{base}
}

// allowsNow asks the policy once more whether a call may run as it is. The new
// verdict can only restrict the call further.
func (r *run) allowsNow(a *RunTool, args json.RawMessage, t *tool) bool {
	v := r.policy(&ToolUse{ID: a.Call.ID, Name: a.Call.Name, Args: args}, &t.spec)
	a.ReadOnly = a.ReadOnly || v.readOnly()
	return v.kind == verdictAllow && v.args == nil
}

// showing is the call of a question, for a preview.
func (r *run) showing(req *ApprovalRequest) *Invocation {
	return &Invocation{ID: req.CallID, Name: req.Tool, Key: req.Key, Run: r.id, Depth: r.depth, Args: req.Args}
}

// approve remembers what was shown of a call.
func (r *run) approve(req *ApprovalRequest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	put(&r.approved, req.CallID, req)
}

// keeps reports whether the approver of the run, or of one around it, keeps rules.
func (r *run) keeps() bool {
	for ; r != nil; r = r.parent {
		if _, ok := approverAs[RuleKeeper](r.loop.approver); ok {
			return true
		}
	}
	return false
}

// makeRule makes a rule of a user's in the run of a question and those around it.
func (r *run) makeRule(c *openQuestion, scope Scope, rule Rule) error {
	var errs []error
	for o := r; o != nil; o = o.parent {
		k, ok := approverAs[RuleKeeper](o.loop.approver)
		if !ok {
			o.loop.addRule(rule)
			o.applyRule(rule)
			continue
		}
		o.within(func(ctx context.Context) { errs = append(errs, keepRule(ctx, k, scope, rule)) })
	}
	err := errors.Join(errs...)
	r.noteRule(c, scope, rule, err)
	for o := r; o != nil && o.keeps(); o = o.parent {
		o.loop.kept.Add(1)
		o.reconsider()
	}
	if err != nil {
		return &RuleError{Rule: rule, Scope: scope, Err: err}
	}
	return nil
}

// keepRule asks a keeper; one that panics has not kept the rule.
func keepRule(ctx context.Context, k RuleKeeper, scope Scope, rule Rule) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("rule keeper panicked: %v", p)
		}
	}()
	return k.KeepRule(ctx, scope, rule)
}

// reconsider asks the policy once more about the questions that are open.
func (r *run) reconsider() {
	r.mu.Lock()
	open := slices.Collect(maps.Values(r.open))
	r.mu.Unlock()
	for _, c := range open {
		if v := r.policy(c.call, &c.tool.spec); v.kind == verdictAllow && v.args == nil {
			_ = c.answer(v, ByRule)
		}
	}
}

// noteRule records that a user made a rule, or could not.
func (r *run) noteRule(c *openQuestion, scope Scope, rule Rule, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.recorder != nil {
		r.recorder.ruled(r, c, scope, rule, err)
	}
}

// pins returns the function that pins plans, of the run or one around it.
func (r *run) pins() func(context.Context, *run, *Invocation, *tool) error {
	for ; r != nil; r = r.parent {
		if r.loop.pins != nil {
			return r.loop.pins
		}
	}
	return nil
}

// pinPlan gives a call that was allowed by a rule which names what it writes the plan
// that it would have been asked about.
func pinPlan(ctx context.Context, r *run, inv *Invocation, t *tool) error {
	p, ok := t.impl.(Planner)
	if !ok || inv.Plan != nil || runsCode(written(&ToolUse{Args: inv.Args}, &t.spec)) == nil {
		return nil
	}
	plan, err := safePlan(ctx, p, inv)
	if err == nil {
		inv.Plan = &plan
	}
	return err
}
