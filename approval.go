package aycoder

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"

	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/internal/ignore"
	"github.com/aycoder/aycoder/internal/jsontext"
	"github.com/aycoder/aycoder/internal/patch"
)

// Answering, from top to bottom: the answers that a host can give to a question, the one place
// that decides, what the state makes of a decision, and what is checked until the tool starts. How a
// question comes up is in approval_ask.go.

// ApprovalRequested asks whether a call may run. Answer with one of the methods while handling
// the event, or call [ApprovalRequested.Detach] and answer later. If the program does neither
// before its loop goes on to the next event, the call is denied, so that the run does not hang.
// The first answer wins. The methods are safe for concurrent use.
type ApprovalRequested struct {
	Request ApprovalRequest

	question *openQuestion
}

// Allow lets the call run. It returns false if the question was already decided.
func (a *ApprovalRequested) Allow() bool { return a.question.answer(Allow(), ByUser) == nil }

// Deny refuses the call and tells the model why. It returns false if the question was already
// decided.
func (a *ApprovalRequested) Deny(reason string) bool {
	return a.question.answer(Deny(reason), ByUser) == nil
}

// AllowWith lets the call run with other arguments, and tells the model what changed. If args do
// not match the tool's schema, or if the [Approver] denies them, AllowWith returns an error and
// the question stays open. If the question was decided before, the error is [ErrDecided].
func (a *ApprovalRequested) AllowWith(args json.RawMessage) error { return a.question.edit(args) }

// AllowPlan lets the call carry out a reviewed plan, made from Request.Plan with [edit.Plan.Keep],
// [edit.Plan.Without], [edit.Plan.KeepFiles] or [edit.Plan.WithProposed]. The model is told what the
// review changed. For any other plan, AllowPlan returns an error and the question stays open. If
// the question was decided before, the error is [ErrDecided].
func (a *ApprovalRequested) AllowPlan(plan edit.Plan) error { return a.question.review(plan) }

// Decided reports whether the question no longer needs an answer, see [Approval.Decided].
func (a *ApprovalRequested) Decided() bool { return (&Approval{question: a.question}).Decided() }

func (q *openQuestion) answer(v Verdict, by DecidedBy) error {
	if q == nil { // the event was decoded
		return ErrDecided
	}
	return q.run.answer(q, q.preparedCall, v, by)
}

func (q *openQuestion) edit(args json.RawMessage) error {
	if q == nil {
		return ErrDecided
	}
	p, err := q.withArgs(args)
	if err != nil {
		return err
	}
	if v := q.run.policy(p); v.kind == verdictDeny {
		base := &ToolError{Tool: p.use.Name, CallID: p.use.ID}
		return &ToolDeniedError{ToolError: base, Reason: v.reason, By: ByPolicy}
	}
	return q.run.answer(q, p, Verdict{kind: verdictAllow}, ByUser)
}

func (q *openQuestion) review(plan edit.Plan) error {
	if q != nil {
		if err := plan.Reviews(q.req.Plan); err != nil {
			return err
		}
	}
	return q.answer(AllowPlan(plan), ByUser)
}

// A preparedCall is a call whose tool exists and whose arguments fit. It is what the policy judges,
// what the user is shown and what the tool is given, so that nobody approves other arguments than
// those that run. Arguments that an answer puts in place of the model's are prepared like them.
type preparedCall struct {
	_          [0]func() // not comparable, which would be code in each program
	call       *ToolUse  // as the model made it
	use        *ToolUse  // as the tool gets it
	tool       *tool
	subject    string // see [Subject]; rules match it
	hasSubject bool
	display    string // the subject as it is shown
	edited     bool   // use has the arguments of whoever approved the call

	shown *ApprovalRequest // what was shown of it, if it was asked about
}

// prepare checks a call before anybody is asked about it. The tool gets converted arguments:
// where the schema does not allow text, values that the model wrote as text are converted, and
// integers such as 2.0 are in plain digits.
func (t *tool) prepare(call *ToolUse) (*preparedCall, error) {
	args, problems := t.schema.Fit(call.Args)
	if len(problems) > 0 {
		return nil, &ToolArgsError{ToolError: &ToolError{Tool: call.Name, CallID: call.ID},
			Problems: problems}
	}
	p := &preparedCall{call: call, use: call, tool: t}
	if !bytes.Equal(args, call.Args) {
		p.use = &ToolUse{ID: call.ID, Name: call.Name, Args: args, Extra: call.Extra}
	}
	p.subject, p.hasSubject = subjectOf(p.use, &t.spec)
	p.display = t.spec.Subject.display(p.subject)
	return p, nil
}

// withArgs returns the call with other arguments, or p itself if they mean the same.
func (p *preparedCall) withArgs(args json.RawMessage) (*preparedCall, error) {
	e, err := p.tool.prepare(&ToolUse{ID: p.use.ID, Name: p.use.Name, Args: args})
	if err != nil || jsontext.Canonical(e.use.Args) == jsontext.Canonical(p.use.Args) {
		return p, err
	}
	e.call, e.shown, e.edited = p.call, p.shown, true
	return e, nil
}

// subjectOf returns the subject of a call. It returns false if the call has none.
func subjectOf(call *ToolUse, spec *ToolSpec) (string, bool) {
	if spec.Subject.Arg == "" {
		return "", false
	}
	var args map[string]json.RawMessage
	if json.Unmarshal(call.Args, &args) != nil {
		return "", false
	}
	var s string
	if json.Unmarshal(args[spec.Subject.Arg], &s) != nil {
		return "", false
	}
	return s, true
}

// display returns the subject of a call as it is shown: for a patch, its files.
func (s Subject) display(subject string) string {
	if s.Kind != SubjectPatch {
		return subject
	}
	return strings.Join(patch.Named(subject), ", ")
}

// policy asks the Approver, and those of the runs around this one.
func (r *run) policy(p *preparedCall) Verdict {
	ctx := context.WithValue(r.work, placeKey{}, r)
	if r.parent == nil {
		return r.loop.policy(ctx, p.use, &p.tool.spec)
	}
	return r.judge(ctx, p.use, &p.tool.spec)
}

// policy asks the Approver. If it panics, the call is denied.
func (l *Loop) policy(ctx context.Context, call *ToolUse, spec *ToolSpec) (v Verdict) {
	defer func() {
		if p := recover(); p != nil {
			l.log(ctx, slog.LevelError, "approver panicked", "tool", call.Name, "panic", p)
			v = Deny("the approver panicked")
		}
	}()
	v = l.approver.Decide(ctx, call, spec)
	switch {
	case v.kind != verdictAllow:
	case v.plan != nil:
		return Deny("the approver gave a plan that it was not shown")
	case l.hooks != nil:
		return l.hooks.named(v, call, spec)
	}
	return v
}

// answer decides the open question q. p is its call, or the same call with other arguments. The
// first answer wins.
func (r *run) answer(q *openQuestion, p *preparedCall, v Verdict, by DecidedBy) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.answerLocked(q, p, v, by)
}

func (r *run) answerLocked(q *openQuestion, p *preparedCall, v Verdict, by DecidedBy) error {
	if r.stopping || r.open[q.call.ID] != q {
		return ErrDecided
	}
	delete(r.open, q.call.ID)
	if v.why == nil {
		v.why = q.why
	}
	if by == ByUser { // a rule has not seen the plan
		v = v.withShownPlan(p)
	}
	return r.decideLocked(p, v, by)
}

// withShownPlan adds the plan that was shown to a verdict that allows the call, unless the
// verdict has another plan or other arguments than those that were shown.
func (v Verdict) withShownPlan(p *preparedCall) Verdict {
	if v.kind == verdictAllow && v.plan == nil && bytes.Equal(p.use.Args, p.shown.Args) {
		v.plan = p.shown.Plan
	}
	return v
}

// decideLocked is the only place where a call is decided about, whoever decides.
func (r *run) decideLocked(p *preparedCall, v Verdict, by DecidedBy) error {
	if !r.state.asks(p.call) {
		return ErrDecided
	}
	if v.args = nil; p.edited {
		v.args = p.use.Args
	}
	if r.recorder != nil {
		r.recorder.decided(r, p.call, v, by)
	}
	d := Decision{CallID: p.call.ID, Verdict: v, By: by, prepared: p}
	if v.kind == verdictDeny {
		base := &ToolError{Tool: p.call.Name, CallID: p.call.ID}
		return r.step(&Decided{Decision: d}, endedAs("denied", p.call, p.display, errorOutput(p.call, d.text()),
			&ToolDeniedError{ToolError: base, Reason: v.reason, By: by}))
	}
	return r.step(&Decided{d, p.tool.spec.declared != nil})
}

// asks reports whether the question about this very call is open.
func (s *machine) asks(use *ToolUse) bool {
	i := s.find(use.ID)
	return i >= 0 && s.calls[i].use == use && s.calls[i].status == callAsked
}

// holds reports whether the message in progress has this very call, and not one with
// the same id from another attempt, and the call has no output yet.
func (s *machine) holds(use *ToolUse) bool {
	i := s.find(use.ID)
	return i >= 0 && s.calls[i].use == use && s.calls[i].status != callSettled
}

// decided notes a decision, and issues the calls that may start now.
func (s *machine) decided(f *Decided) ([]Action, string) {
	d := &f.Decision
	i := s.find(d.CallID)
	if i < 0 {
		return nil, "no such call: " + d.CallID
	}
	waits := s.calls[i].status == callOutside && d.Verdict.kind == verdictSuspend
	if st := s.calls[i].status; st != callAsked && st != callSuspended && !waits {
		return nil, "the call was decided already"
	}
	s.own()
	c := &s.calls[i]
	switch v := &d.Verdict; v.kind {
	case verdictAllow:
		c.status, c.edited, c.plan, c.prepared = callApproved, v.args, v.plan, d.prepared
		if c.prepared == nil && jsontext.Canonical(v.args) == jsontext.Canonical(c.use.Args) {
			c.edited = nil // another driver gave the same arguments again
		}
		c.by, c.readOnly, c.outside = d.By, d.By != ByUser && v.readOnly(), f.Outside
	case verdictDeny:
		c.settle(errorOutput(c.use, d.text()))
	case verdictSuspend:
		if c.status = callSuspended; waits {
			c.status = callDeferred
		}
	default:
		return nil, "asking is not a decision"
	}
	revive(s)
	return s.advance(nil)
}

// revive lets a suspended run go on.
func revive(s *machine) {
	if s.end == EndSuspended {
		s.phase, s.end = phaseTools, ""
	}
}

// advance issues the calls that may start, and moves on when every call is settled.
func (s *machine) advance(actions []Action) ([]Action, string) {
	actions = s.schedule(actions)
	if s.phase != phaseTools {
		return actions, ""
	}
	waiting := false
	for i := range s.calls {
		switch s.calls[i].status {
		case callAsked, callIssued, callBegun, callOutside:
			return actions, ""
		case callSuspended, callDeferred, callApproved: // an approved one only waits behind such a one
			waiting = true
		}
	}
	if waiting {
		return s.over(EndSuspended, actions)
	}
	return s.next(actions)
}

// schedule issues the calls that may start: a read-only call if no writing call before it is
// open, a writing call if no call before it is open. A call whose result comes from outside waits
// until the message is complete, but not for those before it whose results come from there, too.
// The caller must own the calls.
func (s *machine) schedule(actions []Action) []Action {
	var open, writes [2]bool // any call, and any that works here
	for i := range s.calls {
		c := &s.calls[i]
		if c.status == callSettled {
			continue
		}
		reads, of := c.effect == EffectReadOnly, 0
		if c.outside {
			of = 1
		}
		if c.status == callApproved && (reads && !writes[of] || !open[of]) && !(c.outside && s.talking()) {
			c.status = callIssued
			actions = append(actions, s.runTool(i))
		}
		open[0], writes[0] = true, writes[0] || !reads
		if c.status == callApproved || !c.outside {
			open[1], writes[1] = true, writes[1] || !reads
		}
	}
	return actions
}

func (s *machine) runTool(i int) *RunTool {
	c := &s.calls[i]
	run := &RunTool{
		Turn: s.turn + 1, Attempt: c.attempt, Call: c.use, Args: c.use.Args, Plan: c.plan,
		ReadOnly: c.readOnly, Outside: c.outside, by: c.by, Effect: c.effect, prepared: c.prepared, request: c.request,
	}
	if c.edited != nil {
		run.Args, run.Edited = c.edited, true
	}
	return run
}

// runTool runs a call, unless the state says that it must not start any more.
func (r *run) runTool(ctx context.Context, a *RunTool) {
	defer r.gone()
	defer r.flush(ctx)
	err := errExited
	defer func() {
		if err != nil {
			r.rejectUnbegun(ctx, a.Call, err)
		}
	}()
	if !a.Outside { // others do not wait for the calls that work here
		select {
		case a.slots <- struct{}{}:
			defer func() { <-a.slots }()
		case <-ctx.Done():
			return
		}
	}
	if err = r.checkCall(ctx, a); err != nil {
		return
	}
	if a.Outside && !a.prepared.tool.spec.declared.(func(*run) outsider)(r).begins(a) {
		return
	}
	if !a.Outside && !r.beginTool(ctx, a) {
		err = ctx.Err()
		return
	}
	inv := &Invocation{ID: a.Call.ID, Name: a.Call.Name, Key: a.Key(), Place: Place{r.id, r.depth, r.name, r.calls},
		Args: a.prepared.use.Args, Plan: a.Plan, ReadOnly: a.ReadOnly, run: r, prepared: a.prepared, answer: a.answer}
	if r.loop.keepOutput != nil {
		inv.Whole = maxWhole
	}
	inv.progress = func(p Progress) { r.progress(a, p) }
	inv.emit = func(until context.Context, ev Event) error { return r.emit(ctx, until, a, ev) }
	if !r.single {
		inv.atEnd = func(f func()) { r.atEnd(ctx, f) }
	}
	if r.recorder != nil {
		r.recorder.listen(r, a, inv)
	}
	start, o := r.loop.clock.Now(), outcome{err: errExited}
	if a.request != nil {
		start = a.request.Created
	}
	defer func() {
		o.elapsed = r.loop.clock.Now().Sub(start)
		r.endTool(ctx, a, o)
	}()
	o.res, o.err = r.safely(ctx, a.prepared.tool, inv)
}

// checkCall returns an error if a call that was allowed must not start.
func (r *run) checkCall(ctx context.Context, a *RunTool) (err error) {
	if a.prepared == nil { // it was allowed before the run was suspended; the tools may be others now
		a.prepared, err = r.prepareCall(&ToolUse{ID: a.Call.ID, Name: a.Call.Name, Args: a.Args}, a.Effect)
		if err == nil && (a.prepared.tool.spec.declared != nil) != a.Outside {
			err = &StaleApprovalError{&ToolError{Tool: a.Call.Name, CallID: a.Call.ID}}
		}
	}
	if err == nil && r.hooks != nil && a.answer == nil {
		err = r.hooks.checkStart(ctx, r, a)
	}
	return err
}

// rejectUnbegun settles a call that could not begin, unless the run is over. An executor may have
// stopped its step alone.
func (r *run) rejectUnbegun(ctx context.Context, c *ToolUse, err error) {
	if ctx.Err() != nil {
		if r.outlives || r.work.Err() != nil {
			return
		}
		err = &ToolError{Tool: c.Name, CallID: c.ID, Err: errors.New("not run: it was stopped before it began")}
	}
	r.reject(c, err)
}

// checkStart returns an error if a call that was allowed must not start: because its approval
// could not be recorded, or because a command would differ from the one that was shown. An edit
// may differ, since it is merged with the present file. checkStart may set a.ReadOnly.
func checkStart(ctx context.Context, r *run, a *RunTool) error {
	p, base := a.prepared, &ToolError{Tool: a.Call.Name, CallID: a.Call.ID}
	t := p.tool
	if r.recorder != nil {
		err := r.recorder.flush(ctx, r, false)
		if err != nil && t.spec.Effect != EffectReadOnly {
			base.Err = err
			return &AuditError{base}
		}
	}
	_, shows := t.impl.(Previewer)
	switch {
	case t.spec.Subject.Kind != SubjectCommand || t.spec.Subject.Arg == "":
		return r.pinPlan(ctx, a)
	case p.shown == nil && shows: // allowed before the run was suspended
		if !r.allowsNow(a) {
			return &StaleApprovalError{base}
		}
		return nil
	case p.shown == nil:
		return nil
	}
	now := *p.shown
	now.Preview = t.preview(ctx, r.previewCall(p.shown))
	if now.digest() == p.shown.Digest {
		return nil
	}
	if a.by == ByPolicy && r.allowsNow(a) { // it has not seen where the command starts by now
		return nil
	}
	return &StaleApprovalError{base}
}

// pinPlan makes the plan of a call that a rule allowed unasked by naming the files.
// Workspace.Apply writes a file that runs code only with an approved plan.
func (r *run) pinPlan(ctx context.Context, a *RunTool) error {
	p, t := a.prepared, a.prepared.tool
	planner, ok := t.impl.(Planner)
	if !ok || a.Plan != nil || ignore.WhyRuns(t.spec.written(p.subject, p.hasSubject), maxReasons) == nil {
		return nil
	}
	inv := &Invocation{ID: a.Call.ID, Name: a.Call.Name, Key: a.Key(), Place: r.place(),
		Args: p.use.Args, run: r}
	plan, err := safePlan(ctx, planner, inv)
	if err == nil && t.spec.Subject.permits(plan, p.subject) {
		a.Plan = &plan
	}
	return err
}

// permits reports whether a plan of a tool that has one file changes no other that runs code.
func (s Subject) permits(plan edit.Plan, subject string) bool {
	return s.File == "" || !slices.ContainsFunc(plan.Files(), func(f edit.File) bool {
		return ignore.Runs(f.Path) != "" && f.Path != ignore.Own(s.File, subject)
	})
}

// written returns the files that a call with this subject writes.
func (s *ToolSpec) written(subject string, ok bool) []string {
	switch {
	case !ok || s.Effect == EffectReadOnly:
		return nil
	case s.Subject.File != "":
		return []string{ignore.Own(s.Subject.File, subject)}
	case s.Subject.Kind == SubjectPath:
		return []string{subject}
	case s.Subject.Kind == SubjectPatch:
		return patch.Named(subject)
	}
	return nil
}

// beginTool tells the state that the tool starts. It reports false if it must not.
func (r *run) beginTool(ctx context.Context, a *RunTool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopping || ctx.Err() != nil || !r.state.holds(a.Call) || r.again != nil && !r.mayResume(a) {
		return false
	}
	started := &ToolStarted{Call: a.Call, Subject: a.prepared.display, Args: a.prepared.use.Args,
		Eager: r.state.phase == phaseModel, By: a.by}
	if r.step(&ToolBegan{a.Call.ID}) != nil {
		return false
	}
	if r.facts != nil && !r.mayStart(ctx, a) {
		if r.again != nil {
			r.loop.unclaim(r.resumeKey(a))
		}
		return false
	}
	r.running = append(r.running, a)
	r.out.push(started)
	r.signal()
	return true
}

// toolBegan is refused if the call was settled meanwhile, for example because the run was
// cancelled. That keeps a tool from starting after its output is in the history.
func (s *machine) toolBegan(id string) ([]Action, string) {
	i := s.find(id)
	if i < 0 {
		return nil, "no such call: " + id
	}
	if s.calls[i].status != callIssued || s.calls[i].outside {
		return nil, "the call is not to be run"
	}
	s.own()
	s.calls[i].status, s.calls[i].ran = callBegun, true
	return nil, ""
}
