package aycoder

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/aycoder/aycoder/internal/runes"
)

// Asking: from a call of the model to a decision or an open question, in this order: whether it
// can run at all, what the policy says, what was answered before, and at last the host. A
// question about files waits for the calls before it that may change them.

// A pendingQuestion is one that the policy leaves to somebody else.
type pendingQuestion struct {
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
	ended  int // how many of the calls before it that write had ended
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
	q := &pendingQuestion{AskApproval: a, use: use, tool: t, kept: r.loop.kept.Load()}
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
		return r.loop.specs
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

// leave makes sure that a question which was dealt with is answered or open.
func (r *run) leave(c *ToolUse) {
	r.mu.Lock()
	left := r.state.asks(c) && r.open[c.ID] == nil && !r.stopping
	r.mu.Unlock()
	if left {
		r.reject(c, &ToolError{Tool: c.Name, CallID: c.ID, Err: errExited})
	}
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

// sameQuestion reports whether an answer that was given elsewhere is about the
// question as it is now, and returns the plan of it. A plan that was shown is not
// made again: it is merged with what became of the files.
func (r *run) sameQuestion(ctx context.Context, q *pendingQuestion, d Decision) (*EditPlan, bool) {
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
		if !r.raise(&openQuestion{run: r, call: q.Call, tool: q.tool, req: req, why: q.verdict.why}, q.verdict, q.kept) {
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
func (r *run) repose(ctx context.Context, q *pendingQuestion) (parked bool) {
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

// question describes a call to whoever is to decide. The error says that the call
// cannot do what it is to do.
func (r *run) question(ctx context.Context, q *pendingQuestion) (*ApprovalRequest, error) {
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
		return "no preview: " + runes.Clean(err.Error())
	}
	return runes.Shorten(runes.Clean(text), 64<<10)
}

// pin remembers what a command would show that is allowed unasked.
func (r *run) pin(ctx context.Context, q *pendingQuestion) {
	_, ok := q.tool.impl.(Previewer)
	if r.checkStart == nil || !ok || q.tool.spec.Subject.Kind != SubjectCommand {
		return
	}
	if req, err := r.question(ctx, q); err == nil {
		r.approve(req)
	}
}

// raise opens a question, or suspends it. A rule that was made in between answers
// it: it looks either here or among the open ones. It reports false if a rule that the
// approver keeps was: kept is how many there were.
func (r *run) raise(c *openQuestion, v Verdict, kept int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.stopping || !r.state.asks(c.call):
	case r.loop.kept.Load() != kept:
		return false
	case v.kind == verdictSuspend:
		if r.recorder != nil {
			r.recorder.asked(r, c)
			r.recorder.decided(r, c.call, v, ByPolicy)
		}
		d := Decision{CallID: c.call.ID, Digest: c.req.Digest, Verdict: v, By: ByPolicy}
		r.suspended = append(r.suspended, *c.req)
		_ = r.step(&Decided{d})
	default:
		if r.recorder != nil {
			r.recorder.asked(r, c)
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
		r.out.push(&ApprovalRequested{Request: req, question: c})
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
	if r.stopping || len(r.parked) == 0 {
		return
	}
	r.parked = slices.DeleteFunc(r.parked, func(q *pendingQuestion) bool {
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

// canonical returns arguments in one form, whatever encoding/json has made of their
// white space, their escapes and the order of their keys in a store.
func canonical(args json.RawMessage) string {
	dec := json.NewDecoder(bytes.NewReader(args))
	dec.UseNumber()
	var v any
	if dec.Decode(&v) != nil || dec.More() {
		return string(args)
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if enc.Encode(v) != nil {
		return string(args)
	}
	return b.String()
}

// check holds the stored requests to what was shown, and to what would run.
func (p *Pending) check(l *Loop) error {
	seen := map[string]bool{}
	for i := range p.Requests {
		q := &p.Requests[i]
		at := p.State.find(q.CallID)
		if at < 0 || p.State.calls[at].status != callSuspended || seen[q.CallID] {
			return fmt.Errorf("the request about call %q is not one of its open questions", q.CallID)
		}
		seen[q.CallID] = true
		if q.digest() != q.Digest {
			return fmt.Errorf("the request about call %q is not the one that its digest was made of", q.CallID)
		}
		if !p.State.calls[at].shownAs(l, q) {
			return fmt.Errorf("the request about call %q shows another call", q.CallID)
		}
	}
	for i := range p.State.calls {
		c := &p.State.calls[i]
		if c.status != callSettled && l.claimed(p.resumeKey(&RunTool{Turn: p.State.turn + 1, Call: c.use})) {
			return errResumed
		}
	}
	return nil
}

var errResumed = errors.New("this run was resumed before, and its calls have run")

// shownAs reports whether a request shows the call.
func (c *call) shownAs(l *Loop, q *ApprovalRequest) bool {
	if q.Tool != c.use.Name {
		return false
	}
	use, subject := c.use, q.Subject
	if t := l.tool(c.use.Name); t != nil { // without its tool the call is not run
		if fit, err := t.fit(use); err == nil {
			use = fit
		}
		subject = shownSubject(use, &t.spec)
	}
	return canonical(q.Args) == canonical(use.Args) && q.Subject == subject
}

// maxResumed bounds what a loop remembers of the runs that it resumed.
const maxResumed = 1024

// resumeKey names a call of a run that was suspended. The questions are part of it, as
// a host may give ids of runs again.
func (p *Pending) resumeKey(a *RunTool) string {
	var key strings.Builder
	key.WriteString(p.Run + " " + (&RunTool{Turn: a.Turn, Call: a.Call}).Key())
	for i := range p.Requests {
		key.WriteString(" " + p.Requests[i].Digest + p.Requests[i].Created.UTC().Format("150405.000000000"))
	}
	sum := sha256.Sum256([]byte(key.String()))
	return string(sum[:])
}

func (r *run) resumeKey(a *RunTool) string {
	return (&Pending{Run: r.id, Requests: r.asked}).resumeKey(a)
}

// claim notes that a call of a resumed run begins. It reports false if it has before.
func (l *Loop) claim(key string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if slices.Contains(l.resumed, key) {
		return false
	}
	if len(l.resumed) == maxResumed {
		l.resumed = slices.Delete(l.resumed, 0, 1)
	}
	l.resumed = append(l.resumed, key)
	return true
}

func (l *Loop) claimed(key string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Contains(l.resumed, key)
}
