package aycoder

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"weak"

	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/internal/jsontext"
)

// Answering later: the handle of a question that was detached from the loop body, and a
// suspended run, whose questions are answered in another run of the same loop or of another.

// Detach returns a handle for answering the question later, from any goroutine. If the program
// drops the handle without answering, the call is denied.
func (a *ApprovalRequested) Detach() *Approval { return a.question.detach(&a.Request) }

func (a *ApprovalRequested) over() bool {
	q := a.question
	if q == nil { // the event was decoded
		return false
	}
	q.run.mu.Lock()
	defer q.run.mu.Unlock()
	return q.run.open[q.call.ID] != q
}

// left denies a question that the loop body neither answered nor detached.
func (a *ApprovalRequested) left() {
	a.question.run.mu.Lock()
	detached := a.question.detached
	a.question.run.mu.Unlock()
	if !detached {
		_ = a.question.answer(Deny(""), ByIgnored)
	}
}

// Decided reports whether the call no longer waits for a result, see [OpenCall.Decided].
func (c *CallRequested) Decided() bool { return c.call.decided() }

// Approval is the handle of a question that was detached with [ApprovalRequested.Detach].
type Approval struct {
	Request *ApprovalRequest

	question *openQuestion
}

// Allow does what [ApprovalRequested.Allow] does.
func (a *Approval) Allow() bool {
	defer runtime.KeepAlive(a) // while it is answered it is not lost
	return a.question.answer(Allow(), ByUser) == nil
}

// Deny does what [ApprovalRequested.Deny] does.
func (a *Approval) Deny(reason string) bool {
	defer runtime.KeepAlive(a)
	return a.question.answer(Deny(reason), ByUser) == nil
}

// AllowWith does what [ApprovalRequested.AllowWith] does.
func (a *Approval) AllowWith(args json.RawMessage) error {
	defer runtime.KeepAlive(a)
	return a.question.edit(args)
}

// AllowPlan does what [ApprovalRequested.AllowPlan] does.
func (a *Approval) AllowPlan(plan edit.Plan) error {
	defer runtime.KeepAlive(a)
	return a.question.review(plan)
}

// AllowFor does what [ApprovalRequested.AllowFor] does.
func (a *Approval) AllowFor(scope Scope, rule string) error {
	defer runtime.KeepAlive(a)
	return a.question.allowFor(scope, rule)
}

// Leave leaves the question open, so that the run is suspended when it cannot go on without the answer: see
// [Pending]. It returns false if the question needs no answer any more, or if it is one of a run inside a call, which
// cannot be suspended.
func (a *Approval) Leave() bool {
	defer runtime.KeepAlive(a)
	q := a.question
	if q == nil || q.run.parent != nil {
		return false
	}
	r := q.run
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopping || r.open[q.call.ID] != q || !r.state.asks(q.call) {
		return false
	}
	delete(r.open, q.call.ID)
	if r.recorder != nil {
		r.recorder.decided(r, q.call, Suspend(), ByUser)
	}
	r.suspended = append(r.suspended, *q.req)
	d := Decision{CallID: q.call.ID, Digest: q.req.Digest, Verdict: Suspend(), By: ByUser}
	return r.step(&Decided{Decision: d}) == nil
}

// Decided reports whether the question no longer needs an answer: a user, a rule or the time
// limit has answered it, or the run is over.
func (a *Approval) Decided() bool {
	if a.question == nil {
		return true
	}
	r := a.question.run
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stopping || r.open[a.question.call.ID] != a.question
}

func (q *openQuestion) detach(req *ApprovalRequest) *Approval {
	a := &Approval{Request: req, question: q}
	if q == nil {
		return a
	}
	return detach(q.run, &q.detached, &q.handle, a, func() { _ = q.answer(Deny(""), ByAbandoned) })
}

// detach returns the handle of a question or call: one that there is already, or else made. If the program
// drops the handle, lost is called.
func detach[T any](r *run, detached *bool, handle *weak.Pointer[T], made *T, lost func()) *T {
	r.mu.Lock()
	defer r.mu.Unlock()
	*detached = true
	if h := handle.Value(); h != nil {
		return h
	}
	*handle = weak.Make(made)
	runtime.AddCleanup(made, func(lost func()) { lost() }, lost)
	return made
}

// Pending is a suspended run that waits for approvals or for the results of calls, or the run of a
// program that has ended. It encodes as JSON, and another process can resume it with [Input.Pending].
//
// Resume each suspension only once, since a second resumption would run its calls again. A [Loop]
// refuses a second resumption, but it remembers only the last 1,024 calls that it ran in resumed
// runs. If several processes may resume a run, each must claim the suspension first: in a table
// with a unique key, or with a file that it creates exclusively. The key must contain Run and a
// number that counts the suspensions of the run. Run alone is not enough: a run that is suspended
// again keeps its Run, and its questions may keep their Key and Digest.
//
// The stored form may have been altered, so it is checked: if the tool, arguments, preview or
// plan of a request do not match its Digest or the call in State, the error is a [*ConfigError]
// and nothing runs. The same holds for Calls. State itself is not protected; store it where nobody else can write.
type Pending struct {
	// Run is the id of the run.
	Run string `json:"run"`
	// Requests are the open questions, in the order of the calls. A [Decision] must have the
	// CallID and Digest of the request that it answers.
	Requests []ApprovalRequest `json:"requests"`
	// Calls are the calls of declared tools that wait for a result, in their order. A [CallResult] must
	// have the CallID and Digest of the request that it answers.
	Calls []CallRequest `json:"calls,omitempty"`
	// State is the state of the run, with its whole history.
	State State `json:"state"`
}

// resume takes up a suspended run.
func (r *run) resume(ctx context.Context, in *Input) error {
	if in.Prompt != "" || len(in.Parts) > 0 || len(in.Messages) > 0 {
		return &ConfigError{Option: "Input",
			Err: errors.New("Pending goes alone, without Messages and Prompt")}
	}
	r.id = in.Pending.Run
	r.tokens.Store(in.Pending.State.usage.total())
	if r.loop.setups != nil {
		s, err := r.loop.setups.askNow(r, ctx)
		if err != nil {
			return err
		}
		r.use(s)
		r.setUp = in.Pending.State.turn + 1
	}
	if err := in.Pending.check(r); err != nil {
		return &ConfigError{Option: "Input.Pending", Err: err}
	}
	start := r.setup.Load().start()
	r.again = &Resumed{Model: start.Model, MaxTurns: start.MaxTurns, RepeatReads: in.RepeatReads}
	r.decisions, r.requests = map[string]Decision{}, in.Pending.Requests
	for _, d := range in.Decisions {
		err := in.Pending.fits(d)
		if _, twice := r.decisions[d.CallID]; twice {
			err = fmt.Errorf("two decisions about call %q", d.CallID)
		}
		if err != nil {
			return &ConfigError{Option: "Input.Decisions", Err: err}
		}
		r.decisions[d.CallID] = d
	}
	for _, c := range in.Pending.State.calls {
		if c.status == callSettled {
			r.reported = append(r.reported, c.use.ID)
		}
	}
	r.state = in.Pending.State.machine
	r.whole = r.loop.builder == ContextBuilder(plainContext{}) && r.state.note == nil && r.state.cut.limit == 0
	tried := r.state
	if _, err := tried.accept(r.again); err != nil {
		return &ConfigError{Option: "Input.Pending", Err: err}
	}
	return anyResults(r, in)
}

// continueRun applies the fact that the run is resumed, and tells of the calls that are lost.
func (r *run) continueRun() {
	r.mu.Lock()
	defer r.mu.Unlock()
	var lost []Event
	for i := range r.state.calls {
		if c := r.state.calls[i].use; r.state.lost(i, r.again) {
			base := &ToolError{Tool: c.Name, CallID: c.ID}
			lost = append(lost, endedAs("interrupted", c, r.setup.Load().subject(c), errorOutput(c, outLost),
				&ToolCancelledError{ToolError: base, Interrupted: true}))
		}
	}
	_ = r.step(r.again, lost...)
}

// fits reports whether d answers one of the questions, as it was shown.
func (p *Pending) fits(d Decision) (err error) {
	q, at := requestAbout(p.Requests, d.CallID), p.State.find(d.CallID)
	switch {
	case q == nil && (at < 0 || p.State.calls[at].status != callAsked):
		return fmt.Errorf("no open question about call %q", d.CallID)
	case d.Digest == "":
		err = errors.New("it has no digest")
	case d.Verdict.kind != verdictAllow && d.Verdict.kind != verdictDeny:
		err = errors.New("it neither allows nor denies")
	case q == nil: // the program that asked has ended: see sameQuestion
	case d.Digest != q.Digest:
		err = errors.New("it is for another request")
	case d.Verdict.plan != nil:
		err = d.Verdict.plan.Reviews(q.Plan)
	}
	if err != nil {
		err = fmt.Errorf("decision about call %q: %w", d.CallID, err)
	}
	return err
}

// requestAbout returns the request about a call, or nil.
func requestAbout(list []ApprovalRequest, id string) *ApprovalRequest {
	for i := range list {
		if list[i].CallID == id {
			return &list[i]
		}
	}
	return nil
}

// check compares the stored requests with their digests and with the calls that would run.
func (p *Pending) check(r *run) error {
	s := r.setup.Load()
	seen := map[string]bool{}
	for i := range p.Requests {
		q, why := &p.Requests[i], ""
		at := p.State.find(q.CallID)
		switch {
		case at < 0 || p.State.calls[at].status != callSuspended || seen[q.CallID]:
			why = "is not one of its open questions"
		case q.digest() != q.Digest:
			why = "is not the one that its digest was made of"
		case !p.State.calls[at].shownAs(s, q):
			why = "shows another call"
		}
		if why != "" {
			return fmt.Errorf("the request about call %q %s", q.CallID, why)
		}
		seen[q.CallID] = true
	}
	for i := range p.State.calls {
		c := &p.State.calls[i]
		if c.status != callSettled && c.status != callBegun && r.loop.claimed(p.resumeKey(&RunTool{Turn: p.State.turn + 1, Call: c.use, request: c.request})) {
			return errResumed
		}
	}
	return nil
}

var errResumed = errors.New("this run was resumed before, and its calls have run")

// shownAs reports whether a request shows the call.
func (c *call) shownAs(s *setup, q *ApprovalRequest) bool {
	if q.Tool != c.use.Name {
		return false
	}
	use, subject := c.use, q.Subject
	if t := s.tool(c.use.Name); t != nil { // without its tool the call is not run
		if p, err := t.prepare(use); err == nil {
			use = p.use
		}
		subject = s.subject(use)
	}
	return jsontext.Canonical(q.Args) == jsontext.Canonical(use.Args) && q.Subject == subject
}

// takeDecision returns what [Input.Decisions] says about a call.
func (r *run) takeDecision(id string) *Decision {
	r.mu.Lock()
	defer r.mu.Unlock()
	if d, ok := r.decisions[id]; ok {
		delete(r.decisions, id)
		return new(d)
	}
	return nil
}

// sameQuestion reports whether an answer from another run is about the present question, which then
// counts as shown. A plan that was shown is not made again: it is merged with the present files.
func (r *run) sameQuestion(ctx context.Context, q *pendingQuestion, d Decision) bool {
	req := requestAbout(r.requests, q.use.ID)
	if req != nil && req.Plan != nil {
		req = new(*req)
		req.Tool, req.Args = q.use.Name, q.use.Args
		req.Digest = req.digest()
	} else {
		var err error
		if req, err = r.question(ctx, q); err != nil {
			return false
		}
	}
	if req.Digest != d.Digest || d.Verdict.plan != nil && d.Verdict.plan.Reviews(req.Plan) != nil {
		return false
	}
	q.shown = req
	return true
}

// maxResumed bounds what a loop remembers of the runs that it resumed.
const maxResumed = 1024

// resumeKey names a call of a run that was suspended. The questions are part of the key, since a
// host may use the id of a run again.
func (p *Pending) resumeKey(a *RunTool) string {
	var key strings.Builder
	key.WriteString(p.Run + " " + (&RunTool{Turn: a.Turn, Call: a.Call}).Key())
	for i := range p.Requests {
		q := &p.Requests[i]
		key.WriteString(" " + q.Digest + strconv.FormatInt(q.Created.UnixNano(), 10))
	}
	if a.request != nil {
		key.WriteString(" " + strconv.FormatInt(a.request.Created.UnixNano(), 10))
	}
	sum := sha256.Sum256([]byte(key.String()))
	return string(sum[:])
}

// mayResume claims a call of a resumed run, or settles it if somebody resumed the run in the same
// moment. A read-only call that is to be repeated needs no claim. The mutex is held.
func (r *run) mayResume(a *RunTool) bool {
	repeat := r.again.RepeatReads && a.prepared.tool.spec.Effect == EffectReadOnly && !a.Outside
	if repeat || r.loop.claim(r.resumeKey(a)) {
		return true
	}
	out := errorOutput(a.Call, errResumed.Error())
	base := &ToolError{Tool: a.Call.Name, CallID: a.Call.ID, Err: errResumed}
	_ = r.step(&ToolDone{ID: a.Call.ID, Output: out},
		endedAs("not run", a.Call, a.prepared.display, out, base))
	return false
}

func (r *run) resumeKey(a *RunTool) string {
	return (&Pending{Run: r.id, Requests: r.requests}).resumeKey(a)
}

// claim notes that a call of a resumed run begins. It returns false if the call has begun before.
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

// unclaim takes a claim back, because the call did not begin.
func (l *Loop) unclaim(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.resumed = slices.DeleteFunc(l.resumed, func(k string) bool { return k == key })
}

func (l *Loop) claimed(key string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Contains(l.resumed, key)
}
