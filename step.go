package aycoder

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"time"

	"github.com/aycoder/aycoder/internal/runes"
)

// callModel asks the model, and tells the state how that went.
func (r *run) callModel(ctx context.Context, a *CallModel) {
	err := errExited
	defer func() {
		if err != nil {
			r.modelFailed(ctx, err)
		}
	}()
	err = r.stream(ctx, a)
}

// errExited is what is left of a step whose goroutine was ended from within, as
// t.FailNow does.
var errExited = errors.New("goroutine exited before it returned")

var errLateRetry = errors.New("retry after a block was complete")

var errNilEvent = errors.New("model client yielded neither an event nor an error")

// stream asks the model once.
func (r *run) stream(ctx context.Context, a *CallModel) (err error) {
	done := false
	var failed error // what the client said before it panicked, if it did
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		r.loop.log.Log(ctx, slog.LevelError, "model client panicked", "panic", p, "stack", string(debug.Stack()))
		if err = failed; !done && err == nil {
			err = &ModelError{Err: fmt.Errorf("client panicked: %v", p)}
		}
	}()
	req, err := r.prepare(ctx, a)
	if err != nil {
		return err
	}
	start := r.loop.clock.Now()
	for ev, err := range r.loop.client.Stream(ctx, req) {
		if failed = err; failed == nil {
			done, failed = r.modelEvent(ev)
		}
		if failed != nil {
			return failed
		}
		if done {
			return nil
		}
	}
	return streamEnded(r.loop.client, r.loop.clock.Now().Sub(start))
}

func eventSize(ev ModelEvent) int64 {
	switch ev := ev.(type) {
	case *TextDelta:
		return int64(len(ev.Text))
	case *ThinkingDelta:
		return int64(len(ev.Text))
	case *ToolDelta:
		return int64(len(ev.ID) + len(ev.Name) + len(ev.Args))
	case *BlockCut:
		if ev.Call != nil {
			return partSize(ev.Call)
		}
	case *BlockDone:
		if !isNil(ev.Part) {
			return partSize(ev.Part)
		}
	}
	return 0
}

// A refusal is what the model said about a request that was too large.
type refusal struct {
	err  *ContextTooLargeError
	size int64 // of the request
	// unsent says that the request that should have taken its place was not smaller.
	unsent bool
}

// prepare builds the request of an action. One that takes the place of a request that
// was too large must be smaller: the same bytes would be refused again.
func (r *run) prepare(ctx context.Context, a *CallModel) (*Request, error) {
	in := ContextInput{Run: r.id, Turn: a.Turn, Elide: a.Elide, Limit: a.Limit, Base: r.loop.base}
	r.mu.Lock()
	refused := r.refused
	in.Messages, in.Window, in.Usage = r.state.Messages(), r.window, r.usage
	r.mu.Unlock()
	if refused != nil {
		in.Overflow = refused.err
	}
	req, err := r.build(ctx, in)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.request, r.offered = req, req.Tools
	if len(req.Tools) == len(r.loop.base.Tools) && (len(req.Tools) == 0 || &req.Tools[0] == &r.loop.base.Tools[0]) {
		r.offered = nil
	} else if r.offered == nil {
		r.offered = []*ToolSpec{}
	}
	if refused == nil {
		return req, nil
	}
	messages, rest := requestSize(req)
	if refused.unsent = messages+rest >= refused.size; refused.unsent {
		return nil, refused.err
	}
	return req, nil
}

// requestSize is about how many bytes of text the messages of a request have, and the
// rest of it.
func requestSize(req *Request) (messages, rest int64) {
	if req == nil {
		return 0, 0
	}
	for _, t := range req.System {
		rest += partSize(t)
	}
	for _, t := range req.Tools {
		rest += int64(len(t.Name) + len(t.Description) + len(t.Schema))
	}
	return sizeOf(req.Messages, 0), rest
}

// modelEvent passes an event on. It reports whether it was the last. Text for which
// the client has yielded no block becomes one.
func (r *run) modelEvent(ev ModelEvent) (bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopping {
		return true, nil
	}
	r.heard = true
	missed, err := r.incoming.note(ev)
	if missed != nil {
		err = errors.Join(err, r.step(&BlockDone{&Text{Text: cleanText(missed.Text)}}))
	}
	done := false
	if err == nil {
		done, err = r.take(ev)
	}
	if _, over := errors.AsType[*LimitError](err); err != nil && !over {
		err = fmt.Errorf("client yields what does not fit: %w", err)
	}
	if err != nil {
		return false, &ModelError{Err: err}
	}
	return done, nil
}

// keepText makes what was said of a block that is not complete one, before the message
// is cut short. The mutex is held.
func (r *run) keepText() {
	if text := r.incoming.rest(); text != nil && r.state.phase == PhaseModel {
		_ = r.step(&BlockDone{&Text{Text: cleanText(text.Text)}})
	}
}

// take hands an event to the state and the consumer. The mutex is held.
func (r *run) take(ev ModelEvent) (bool, error) {
	switch ev := ev.(type) {
	case *TextDelta, *ThinkingDelta, *ToolDelta:
		r.out.push(cleanDelta(ev))
	case *BlockDone:
		p, ok := cleanPart(ev.Part)
		if !ok {
			r.loop.log.Log(context.Background(), slog.LevelWarn, "block of the model is no JSON and is left out", "run", r.id)
			return false, nil
		}
		return false, r.step(&BlockDone{p})
	case *BlockCut:
		return false, r.step(&BlockCut{cleanCall(ev.Call)})
	case *Retrying:
		return false, r.restarted(ev)
	case *MessageDone:
		r.heard, r.waited, r.refused, r.done, r.usage = false, 0, nil, *ev, ev.Usage
		r.incoming = incoming{max: r.loop.maxResponse}
		if ev.Stop == StopRefusal {
			clear(r.open)
		}
		return true, r.step(ev)
	default:
		return false, errNilEvent
	}
	r.signal()
	return false, nil
}

// restarted forgets what came of the message so far, as the client does. What is
// complete may be in use, so the client must not have told of any. The mutex is held.
func (r *run) restarted(ev *Retrying) error {
	if ev == nil || len(r.state.parts.items) > 0 {
		return errLateRetry
	}
	told := *ev
	told.Discarded = told.Discarded || len(r.incoming.text) > 0
	r.incoming.void()
	r.heard = false
	r.out.push(&told)
	r.signal()
	return nil
}

// modelFailed asks the policy whether to try again. What the cancelled context
// broke is no failure.
func (r *run) modelFailed(ctx context.Context, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if ctx.Err() != nil || r.stopping {
		return
	}
	f := r.retry(err)
	told := true
	if f.Shrink {
		told = r.refused == nil || !r.refused.unsent
		err = r.shrink(&f, err)
	}
	r.waited += f.After
	heard := r.heard
	if f.Keep {
		r.keepText()
	}
	r.incoming = incoming{max: r.loop.maxResponse}
	r.heard, r.suspended = false, nil
	clear(r.open)
	if !f.Retry {
		r.fail(err)
		_ = r.step(&f)
		return
	}
	begun := slices.ContainsFunc(r.state.calls, func(c call) bool { return c.ran })
	if !begun {
		clear(r.told) // the next try may use the same ids
	}
	if !told {
		_ = r.step(&f)
		return
	}
	_ = r.step(&f, &Retrying{Discarded: heard && !begun, Attempt: r.state.attempt + 1, After: f.After, Err: err})
}

// shrink decides what is sent in place of a request that was too large. If nothing more
// can be left out it says so. The mutex is held.
func (r *run) shrink(f *ModelFailed, err error) error {
	if r.refused != nil && r.refused.unsent { // the builder took too small a step
		f.Limit = r.state.cut.limit / 2
	} else if e, ok := errors.AsType[*ContextTooLargeError](err); ok {
		messages, rest := requestSize(r.request)
		r.refused = &refusal{err: e, size: messages + rest}
		r.window = cmp.Or(e.Max, r.window)
	}
	next, _, _ := r.state.Apply(f)
	if next.broken == nil || next.broken.Retry {
		return err
	}
	f.Retry = false
	return &ContextError{Op: "make request smaller", Err: fmt.Errorf("nothing more can be left out: %w", err)}
}

// retry asks the policy. An error whose methods panic is not tried again.
func (r *run) retry(err error) (f ModelFailed) {
	defer func() {
		if p := recover(); p != nil {
			r.loop.log.Log(context.Background(), slog.LevelError, "error of the model panicked", "panic", p)
			f = ModelFailed{}
		}
	}()
	sent, fixed := requestSize(r.request)
	return r.loop.retry.Decide(Failure{
		Err: err, Attempt: r.state.attempt, Waited: r.waited,
		Now: r.loop.clock.Now(), Random: r.loop.random(), Shrunk: r.fixed, Sent: sent, Fixed: fixed,
	})
}

// ask finds out whether a call may run: first whether it can, then whether the
// policy forbids it, then what was answered already, and at last by asking.
func (r *run) ask(ctx context.Context, a *AskApproval) (parked bool) {
	t := r.loop.tool(a.Call.Name)
	if t == nil || !slices.ContainsFunc(r.offers(), func(s *ToolSpec) bool { return s.Name == t.spec.Name }) {
		r.reject(a.Call, notFound(a.Call, r.offers()))
		return false
	}
	use, err := t.fit(a.Call)
	if err != nil {
		r.reject(a.Call, err)
		return false
	}
	q := &posed{AskApproval: a, use: use, tool: t, kept: r.loop.kept.Load()}
	v, by := r.policy(use, &t.spec), ByPolicy
	given := r.takeDecision(a.Call.ID)
	if v.kind == verdictAsk && r.loop.covered(use, &t.spec) {
		v, by = Allow(), ByRule
	}
	if v.kind == verdictDeny || v.kind == verdictAllow && given == nil {
		if v.kind == verdictAllow {
			r.pin(ctx, q)
		}
		r.decide(ctx, a.Call, v, by)
		return false
	}
	q.verdict = v
	if given != nil {
		if plan, same := r.sameQuestion(ctx, q, *given); same {
			given.Verdict.why = v.why
			r.decide(ctx, a.Call, given.Verdict.unless(use.Args).of(plan), ByUser)
			return false
		}
		q.answered = true
		if v.kind == verdictAllow { // the user has answered, but another question
			q.verdict = Verdict{why: v.why}
		}
	}
	return r.pose(ctx, q)
}

// offers returns the tools that the model was offered. A call of another is not run,
// whatever tools there are.
func (r *run) offers() []*ToolSpec {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.offered == nil {
		return r.loop.base.Tools
	}
	return r.offered
}

// dealWith runs a step that is to find out whether a call may run, or to put that off.
func (r *run) dealWith(ctx context.Context, c *ToolUse, step func() (parked bool)) {
	defer r.gone()
	defer r.flush(ctx)
	parked := false
	defer func() {
		if !parked {
			r.leave(c)
		}
	}()
	parked = step()
}

// takeDecision returns what [Input.Decisions] says about a call.
func (r *run) takeDecision(id string) *Decision {
	r.mu.Lock()
	defer r.mu.Unlock()
	d, ok := r.decisions[id]
	if !ok {
		return nil
	}
	delete(r.decisions, id)
	return &d
}

// leave makes sure that a question which was dealt with is answered or open.
func (r *run) leave(c *ToolUse) {
	r.mu.Lock()
	left := r.state.asks(c) && r.open[c.ID] == nil && !r.stopping
	r.mu.Unlock()
	if left {
		r.reject(c, &ToolError{Tool: c.Name, CallID: c.ID, Err: errExited})
	}
}

// question describes a call to whoever is to decide. The error says that the call
// cannot do what it is to do.
func (r *run) question(ctx context.Context, q *posed) (*ApprovalRequest, error) {
	use, g := q.use, q.verdict.Grounds()
	req := &ApprovalRequest{
		Key: q.Key(), Run: r.id, CallID: use.ID, Tool: use.Name, Args: use.Args,
		Class: g.Class, Reasons: g.Reasons, Suggested: g.Suggested, Created: r.loop.clock.Now(),
	}
	if req.Suggested == nil {
		req.Suggested = suggest(use, &q.tool.spec)
	}
	req.Subject = shownSubject(use, &q.tool.spec)
	inv := r.showing(req)
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
		return "no preview: " + cleanText(err.Error())
	}
	return runes.Shorten(cleanText(text), 64<<10)
}

// raise opens a question, or suspends it. A rule that was made in between answers
// it: it looks either here or among the open ones. It reports false if a rule that the
// approver keeps was: kept is how many there were.
func (r *run) raise(c *cell, v Verdict, kept int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.stopping || !r.state.asks(c.call):
	case r.loop.kept.Load() != kept:
		return false
	case v.kind == verdictSuspend:
		if r.trail != nil {
			r.trail.asked(r, c)
			r.trail.decided(r, c.call, v, ByPolicy)
		}
		d := Decision{CallID: c.call.ID, Digest: c.req.Digest, Verdict: v, By: ByPolicy}
		r.suspended = append(r.suspended, *c.req)
		_ = r.step(&Decided{d})
	default:
		if r.trail != nil {
			r.trail.asked(r, c)
		}
		put(&r.open, c.call.ID, c)
		if r.loop.covered(c.call, &c.tool.spec) {
			_ = r.answerLocked(c, Allow(), ByRule)
			break
		}
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
		c := r.open[call.use.ID]
		if c == nil {
			return
		}
		if c.shown {
			continue
		}
		c.shown = true
		req := *c.req
		req.Suggested = slices.Clone(req.Suggested)
		if req.Plan != nil {
			req.Plan = new(*req.Plan)
		}
		r.out.push(&ApprovalRequested{Request: req, cell: c})
		r.signal()
	}
}

// answer decides an open question. The first answer wins.
func (r *run) answer(c *cell, v Verdict, by By) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.answerLocked(c, v, by)
}

func (r *run) answerLocked(c *cell, v Verdict, by By) error {
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

// applyRule answers the open questions that a new rule covers.
func (r *run) applyRule(rule Rule) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var covered []*cell
	for _, c := range r.open {
		if rule.Covers(c.call, &c.tool.spec) {
			covered = append(covered, c)
		}
	}
	for _, c := range covered {
		_ = r.answerLocked(c, Allow(), ByRule)
	}
}

// decide is what the policy, a rule or an earlier answer says about a call. Edited
// arguments are checked like the model's. A call that may run at once is run here:
// it needs no other goroutine.
func (r *run) decide(ctx context.Context, c *ToolUse, v Verdict, by By) {
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
	r.catch, r.caught = c, nil
	_ = r.decideLocked(c, v, by)
	run := r.caught
	r.catch, r.caught = nil, nil
	r.mu.Unlock()
	if run != nil {
		r.runTool(ctx, run)
	}
}

func (r *run) decideLocked(c *ToolUse, v Verdict, by By) error {
	if !r.state.asks(c) {
		return ErrDecided
	}
	d := Decision{CallID: c.ID, Verdict: v, By: by}
	if r.trail != nil {
		r.trail.decided(r, c, v, by)
	}
	if v.kind == verdictDeny {
		base := &ToolError{Tool: c.Name, CallID: c.ID}
		return r.step(&Decided{d}, &ToolFinished{
			Call: c, Subject: r.loop.subject(c), Output: errorOutput(c, d.text()), Summary: "denied",
			Err: &ToolDeniedError{ToolError: base, Reason: v.reason, By: by},
		})
	}
	put(&r.by, c.ID, by)
	return r.step(&Decided{d})
}

// reject settles a call that cannot run.
func (r *run) reject(c *ToolUse, err error) {
	out := errorOutput(c, runes.Shorten(cleanText(err.Error()), 8<<10))
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state.holds(c) {
		fin := &ToolFinished{Call: c, Subject: r.loop.subject(c), Output: out, Summary: "not run", Err: err}
		if r.trail != nil {
			r.trail.ended(r, "", c, fin, "not_run")
		}
		_ = r.step(&ToolDone{ID: c.ID, Output: out}, fin)
	}
}

// runTool runs a call, unless the state says that it must not start any more.
func (r *run) runTool(ctx context.Context, a *RunTool) {
	defer r.gone()
	defer r.flush(ctx)
	select {
	case r.slots <- struct{}{}:
		defer func() { <-r.slots }()
	case <-ctx.Done():
		return
	}
	t := r.loop.tool(a.Call.Name)
	if t == nil { // a resumed run has fewer tools
		r.reject(a.Call, notFound(a.Call, r.offers()))
		return
	}
	if r.unfit != nil {
		if err := r.unfit(ctx, r, a, t); err != nil {
			if ctx.Err() == nil {
				r.reject(a.Call, err)
			}
			return
		}
	}
	use, err := t.fit(&ToolUse{ID: a.Call.ID, Name: a.Call.Name, Args: a.Args})
	if err != nil { // of a state that was stored, with tools that were others
		r.reject(a.Call, err)
		return
	}
	args := use.Args
	if !r.beginTool(a, t, args) {
		return
	}
	inv := &Invocation{ID: a.Call.ID, Name: a.Call.Name, Key: a.Key(), Run: r.id, Depth: r.depth, Args: args,
		Plan: a.Plan, ReadOnly: a.ReadOnly, run: r}
	inv.progress = func(p Progress) { r.progress(a, p) }
	inv.emit = func(until context.Context, ev Event) error { return r.emit(ctx, until, a, ev) }
	if !r.single {
		inv.atEnd = r.atEnd
	}
	if r.trail != nil {
		r.trail.listen(r, a, inv)
	}
	start, o := r.loop.clock.Now(), outcome{err: errExited}
	defer func() {
		o.elapsed = r.loop.clock.Now().Sub(start)
		r.endTool(ctx, a, o)
	}()
	if pins := r.pins(); pins != nil {
		if o.err = pins(ctx, r, inv, t); o.err != nil {
			return
		}
		o.err = errExited
	}
	o.res, o.err = t.safely(ctx, inv)
}

func (r *run) beginTool(a *RunTool, t *tool, args json.RawMessage) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopping || !r.state.holds(a.Call) {
		return false
	}
	if r.again && !r.loop.claim(r.resumeKey(a)) { // somebody resumed it in the same moment
		out := errorOutput(a.Call, errResumed.Error())
		base := &ToolError{Tool: a.Call.Name, CallID: a.Call.ID, Err: errResumed}
		_ = r.step(&ToolDone{ID: a.Call.ID, Output: out},
			&ToolFinished{Call: a.Call, Subject: r.loop.subject(a.Call), Output: out, Summary: "not run", Err: base})
		return false
	}
	started := &ToolStarted{Call: a.Call, Args: args, Eager: r.state.phase == PhaseModel, By: r.by[a.Call.ID]}
	started.Subject = shownSubject(&ToolUse{Args: args}, &t.spec)
	if r.step(&ToolBegan{a.Call.ID}, started) != nil {
		return false
	}
	r.working = append(r.working, a)
	return true
}

func (r *run) progress(a *RunTool, p Progress) {
	p.Message = runes.Shorten(cleanText(p.Message), 1<<10)
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.stopping && r.runs(a) {
		r.out.push(&ToolProgress{CallID: a.Call.ID, Progress: p})
		r.signal()
	}
}

// runs reports whether a call has begun and not returned. The mutex is held.
func (r *run) runs(a *RunTool) bool { return slices.Contains(r.working, a) }

// An outcome is what came of a call.
type outcome struct {
	res     *ToolResult
	err     error
	elapsed time.Duration
}

// endTool hands in what a call gave. What comes after the run was closed is thrown
// away.
func (r *run) endTool(ctx context.Context, a *RunTool, o outcome) {
	fin, fatal := r.loop.finished(ctx, a, o)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.working = slices.DeleteFunc(r.working, func(w *RunTool) bool { return w == a })
	if err := r.step(&ToolDone{a.Call.ID, fin.Output, fin.Usage}, append(fin.changes(), fin)...); err != nil {
		r.loop.log.Log(ctx, slog.LevelWarn, "late result of a tool was thrown away", "run", r.id, "key", a.Key())
		return
	}
	if r.trail != nil {
		r.trail.ended(r, a.Key(), &ToolUse{ID: a.Call.ID, Name: a.Call.Name, Args: a.Args}, fin, "")
	}
	if fatal {
		r.fail(fin.Err)
		r.signal()
	}
}

// fail ends the run with err. What it failed with before comes first.
func (r *run) fail(err error) {
	if r.err != nil {
		err = errors.Join(r.err, err)
	}
	r.err = err
}

// safely calls the tool. A panic, and an exit of the goroutine, are errors.
func (t *tool) safely(ctx context.Context, inv *Invocation) (res *ToolResult, err error) {
	defer func() {
		if p := recover(); p != nil {
			base := &ToolError{Tool: inv.Name, CallID: inv.ID}
			res, err = nil, &ToolPanicError{ToolError: base, Value: p, Stack: debug.Stack()}
		}
	}()
	if res, err = t.call(ctx, inv); err != nil {
		_ = err.Error() // one that panics does so here
	}
	return res, err
}
