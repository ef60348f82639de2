package temporal

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.temporal.io/sdk/activity"
	sdk "go.temporal.io/sdk/temporal"

	"github.com/aycoder/aycoder"
)

// claim is the wait of an activity for a step of the run.
type claim struct {
	key      string
	progress atomic.Int64
	ctx      context.Context
	done     context.Context // ends when the step is over, or can go on no more
	end      context.CancelFunc
	working  bool             // its call works
	lost     bool             // see lose
	refused  map[string]error // results of children that do not fit, by call
}

// lose reports whether the activity has ended before the step. The mutex of the attempt is held; c may be nil.
func (c *claim) lose() bool {
	if c != nil && c.ctx.Err() != nil && c.done.Err() == nil {
		c.lost = true
	}
	return c != nil && c.lost
}

// attempt is a run of the agent in this process, as long as steps of it are wanted here.
type attempt struct {
	live  *live
	model bool // asks the model, and lets no call begin
	wait  string
	stop  context.CancelFunc
	ended chan struct{}

	mu      sync.Mutex
	claims  map[*claim]bool
	open    map[string]chan struct{} // by key; closed when the step may begin
	owner   map[string]*claim
	given   int             // calls that work on a result from outside
	asked   map[string]bool // calls about which a step has asked, or has put the question off; by id
	left    map[string]bool // what was left to the workflow, or is known: "ask/" or "result/", and the id of the call
	id      string          // of the run
	turns   int             // that are over, as far as events have told
	state   aycoder.State
	retry   time.Duration // until the model may be asked again
	kind    string        // of the error before that, or at the end
	leaving bool
	result  aycoder.Result
	err     error
}

// do carries out a step, or finds that it was carried out.
func (l *live) do(ctx context.Context, in stepInput, c *claim) (Plan, error) {
	c.key, c.ctx, c.refused = in.Key, ctx, map[string]error{}
	// The server gives an activity no more time than its workflow. If that is over, nothing is left to be recorded within the margin.
	if info := activity.GetInfo(ctx); info.ScheduleToCloseTimeout <= 0 || info.StartToCloseTimeout < info.ScheduleToCloseTimeout {
		var cancel context.CancelFunc
		c.ctx, cancel = context.WithDeadline(ctx, info.Deadline.Add(-margin))
		defer cancel()
	}
	for {
		c.done, c.end = context.WithCancel(context.Background())
		a, plan, err := l.join(ctx, in, c)
		if a == nil || err != nil {
			return plan, err
		}
		l.await(a, c)
		c.end()
		if call, err := l.refused(a); err != nil && c.refused[call] == nil {
			c.refused[call] = err
			continue
		}
		return l.after(ctx, a)
	}
}

// await waits for the end of a step, or of the time for it.
func (l *live) await(a *attempt, c *claim) {
	select {
	case <-c.done.Done():
	case <-a.ended:
	case <-c.ctx.Done(): // the activity is cancelled or has no more time
		if !a.model { // the call gets the same context
			select {
			case <-c.done.Done():
			case <-a.ended:
			case <-time.After(l.worker.config.Grace):
			}
		}
	}
	if !a.leave(c) {
		return
	}
	select { // nobody else needs it
	case <-a.ended:
	case <-c.ctx.Done():
		select {
		case <-a.ended:
		case <-time.After(l.worker.config.Grace):
			a.mu.Lock()
			a.quit()
			a.mu.Unlock()
			<-a.ended
		}
	}
}

// refused returns the call of a child whose result does not fit its tool, with the reason.
func (l *live) refused(a *attempt) (call string, err error) {
	select {
	case <-a.ended:
	default:
		return "", nil
	}
	r, ok := errors.AsType[*aycoder.ResultError](a.err)
	if p := l.agent.Session.Pending(); ok && p != nil {
		for i := range p.Calls {
			if p.Calls[i].CallID == r.CallID && l.worker.config.Children[p.Calls[i].Tool] != nil {
				return r.CallID, r.Err
			}
		}
	}
	return "", nil
}

// join adds a claim to the run that works, or starts one. Without a run, the plan says why the step is not needed.
func (l *live) join(ctx context.Context, in stepInput, c *claim) (*attempt, Plan, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.run != nil {
		if l.run.add(c) {
			return l.run, Plan{}, nil
		}
		ended := l.run.ended
		l.mu.Unlock()
		select {
		case <-ended:
		case <-ctx.Done():
		}
		l.mu.Lock()
		if ctx.Err() != nil {
			return nil, Plan{}, ctx.Err()
		}
	}
	s := l.agent.Session
	p := s.Pending()
	plan := l.worker.plan(p)
	input := aycoder.Input{RepeatReads: true}
	if p != nil {
		if err := l.worker.answers(ctx, p, in.Answers, c.refused, &input); err != nil {
			return nil, Plan{}, failure(err)
		}
	}
	switch {
	case p == nil && len(s.Queued()) == 0:
		return nil, Plan{Output: Output{End: EndUnknown}}, nil
	case len(input.Decisions)+len(input.Results) > 0: // some may be taken already, by a worker that was lost then
	case len(plan.Ask) > 0 || !plan.holds(in.Key):
		return nil, plan, nil
	}
	l.run = l.start(ctx, p, input, c)
	return l.run, Plan{}, nil
}

// start starts the agent. The mutex is held.
func (l *live) start(ctx context.Context, p *aycoder.Pending, in aycoder.Input, c *claim) *attempt {
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	a := &attempt{live: l, model: asksModel(c.key), stop: stop, ended: make(chan struct{}),
		claims: map[*claim]bool{}, open: map[string]chan struct{}{}, owner: map[string]*claim{}, asked: map[string]bool{},
		left: map[string]bool{}}
	if p != nil {
		a.state, a.turns = p.State, p.State.Turn()
		if s, _, err := p.State.Apply(&aycoder.Resumed{RepeatReads: true}); err == nil && s.Phase() == "tools" {
			a.turns-- // its message is whole, and the turn is not over
		}
		for _, action := range p.State.Outstanding() {
			if w, ok := action.(*aycoder.Wait); ok {
				a.wait = w.Key()
			}
		}
	}
	a.add(c)
	go func() {
		defer close(a.ended)
		defer stop()
		a.work(work, in)
		l.mu.Lock()
		l.run = nil
		l.mu.Unlock()
		a.mu.Lock()
		defer a.mu.Unlock()
		for c := range a.claims {
			c.end()
		}
	}()
	return a
}

// work drives the run until it is over or left.
func (a *attempt) work(ctx context.Context, in aycoder.Input) {
	defer func() {
		if p := recover(); p != nil {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.err = errors.New("panic")
		}
	}()
	agent := a.live.agent.Agent
	for ev, err := range agent.Run(ctx, in, aycoder.WithSteps(a.step), aycoder.WithFacts(a.fact), aycoder.Into(&a.result)) {
		if err != nil {
			a.mu.Lock()
			a.err = err
			a.mu.Unlock()
			continue
		}
		run, turn := a.event(ev)
		if f := a.live.worker.config.Events; f != nil {
			f(a.live.id, run, turn, ev)
		}
		if _, ok := ev.(*aycoder.TurnFinished); ok && a.goesOn() {
			return // the next step is another activity
		}
	}
}

// goesOn reports whether the run needs the model again.
func (a *attempt) goesOn() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.state.End() == ""
}

// event takes note of what happened. It returns the id of the run and the number of turns that are over.
func (a *attempt) event(ev aycoder.Event) (run string, turn int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch ev := ev.(type) {
	case *aycoder.ApprovalRequested:
		a.leaves("ask/", ev.Request.CallID, ev.Detach().Leave) // the answer is an update of the workflow
	case *aycoder.CallRequested:
		a.leaves("result/", ev.Request.CallID, ev.Detach().Leave)
	case *aycoder.ToolFinished:
		a.finish(ev.Call.ID)
	case *aycoder.ToolProgress:
		for c := range a.claims {
			if ofCall(c.key, ev.CallID) {
				c.progress.Add(1)
			}
		}
	case *aycoder.Retrying:
		a.kind = kind(ev.Err)
	}
	turn = a.turns
	if ev, ok := ev.(*aycoder.TurnFinished); ok {
		a.turns = ev.Turn
	}
	return a.id, turn
}

// leaves leaves a question, or the call of a declared tool, to the workflow. The mutex is held, but not meanwhile.
func (a *attempt) leaves(what, call string, leave func() bool) {
	a.mu.Unlock()
	leave()
	a.mu.Lock()
	a.left[what+safeID(call)] = true
	a.finish(call)
	a.rest()
}

// finish ends the claims on a call. The mutex is held.
func (a *attempt) finish(id string) {
	for c := range a.claims {
		if ofCall(c.key, id) {
			c.end()
		}
	}
}

// fact takes note of a fact that is recorded.
func (a *attempt) fact(_ context.Context, rec *aycoder.FactRecord) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.id, a.state = rec.Run, rec.State
	switch f := rec.Fact.(type) {
	case *aycoder.MessageDone:
		if a.model && a.state.End() == "" {
			a.quit() // before a call begins
		}
	case *aycoder.ModelFailed:
		if a.state.Phase() == "wait" {
			a.retry = f.After
			a.quit() // the engine waits
		}
	}
	a.declared()
	a.rest()
	return nil
}

// declared lets the calls of declared tools begin, of which nothing runs here: their results are asked for together. The mutex is
// held.
func (a *attempt) declared() {
	for _, action := range a.state.Outstanding() {
		if c, ok := action.(*aycoder.RunTool); ok && c.Outside && !a.model {
			a.pass(safeKey(c.Key()))
		}
	}
}

// rest leaves the run if nothing is wanted of it any more, or if what is wanted has to wait for a call that nobody makes here. It waits
// until all questions, and the calls of declared tools, are left to the workflow, except for questions that were put off until that call
// has ended. The mutex is held.
func (a *attempt) rest() {
	here, elsewhere, asks := a.given > 0, false, false
	for _, c := range a.owner {
		here = here || c.working && !c.lost
	}
	for _, action := range a.state.Outstanding() {
		switch c := action.(type) {
		case *aycoder.AskApproval:
			key := safeKey((&aycoder.RunTool{Turn: c.Turn, Attempt: c.Attempt, Call: c.Call}).Key())
			if id := safeID(c.Call.ID); !a.model && !a.left["ask/"+id] {
				here, asks = here || !a.asked[id] || c.Effect == aycoder.EffectReadOnly && a.owned(key), true
			}
		case *aycoder.RunTool:
			owned := a.owned(safeKey(c.Key()))
			here = here || owned || c.Outside && !a.left["result/"+safeID(c.Call.ID)]
			elsewhere = elsewhere || !owned && !c.Outside
		}
	}
	here = here || asks && !elsewhere && !a.leaving // a question about files may wait for a call before it
	if a.state.End() == "" && !here && (a.leaving || elsewhere && !a.model || len(a.claims) == 0) {
		a.quit()
	}
}

// quit leaves the run. The mutex is held.
func (a *attempt) quit() {
	a.leaving = true
	a.stop()
}

// step starts a step of the run when it is wanted here.
func (a *attempt) step(ctx context.Context, key string, step func(context.Context)) {
	_, rest, _ := strings.Cut(key, "/")
	what, _, _ := strings.Cut(rest, "/") // an id may have any word
	switch {
	case what == "wait" && key != a.wait, what == "ask" && a.model: // the engine waits, and asks in another activity
		go hold(ctx, step)
	case what == "wait":
		go step(ctx)
	case what == "ask":
		go a.ask(ctx, key, step)
	default:
		go a.call(ctx, key, step)
	}
}

// ask runs a step that asks about a call.
func (a *attempt) ask(ctx context.Context, key string, step func(context.Context)) {
	step(ctx)
	a.mu.Lock()
	defer a.mu.Unlock()
	_, id, _ := strings.Cut(key, "/ask/")
	a.asked[safeID(id)] = true // a question that was put off has another key when it is asked
	a.rest()
}

// hold keeps a step until the end of the run, after which it does nothing.
func hold(ctx context.Context, step func(context.Context)) {
	<-ctx.Done()
	step(ctx)
}

// call runs the step of a call when its activity has come, with the time of the activity.
func (a *attempt) call(ctx context.Context, key string, step func(context.Context)) {
	// A call whose result came from outside has another step, unless this is the end of an id.
	first, given := strings.CutSuffix(key, "/result")
	a.mu.Lock()
	if given = given && a.outside(first); given { // nobody claims it
		key = first
		a.left["result/"+safeID(callOf(key))] = true
		a.pass(safeKey(key))
		a.given++
	}
	key = safeKey(key)
	opened := a.gate(key)
	a.mu.Unlock()
	select {
	case <-opened:
	case <-ctx.Done():
	}
	a.mu.Lock()
	owner := a.owner[key]
	if owner != nil && !given {
		owner.working = true
	}
	a.mu.Unlock()
	if owner != nil {
		with, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		defer context.AfterFunc(owner.ctx, func() { cancel(final(owner.ctx)) })()
		ctx = with
	}
	step(ctx)
	if owner == nil && !given {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if given {
		a.given--
	} else {
		owner.working = false
	}
	// No event tells the end of a call that is left to another run, and a claim that comes again must wait for that one.
	if owner.lose() {
		a.leaving = true
		owner.end()
	}
	a.rest()
}

// final returns why an activity has ended if its call has to have a result then: it has no more time, or its workflow is cancelled.
// Otherwise nobody knows who works on the call now, and final returns nil.
func final(ctx context.Context) error {
	if cause := context.Cause(ctx); cause == context.DeadlineExceeded || sdk.IsCanceledError(cause) {
		return cause
	}
	return nil
}

// outside reports whether a key is that of a call whose result comes from outside. The mutex is held.
func (a *attempt) outside(key string) bool {
	return slices.ContainsFunc(a.state.OpenCalls(), func(q aycoder.CallRequest) bool { return q.CallID == callOf(key) })
}

// callOf returns the id of the call that a key has.
func callOf(key string) string {
	_, id, _ := strings.Cut(key, "/tool/")
	return id
}

// gate returns what is closed when the step with a key may begin. The mutex is held.
func (a *attempt) gate(key string) chan struct{} {
	if a.open[key] == nil {
		a.open[key] = make(chan struct{})
	}
	return a.open[key]
}

// pass lets the step with a key begin. The mutex is held.
func (a *attempt) pass(key string) {
	select {
	case <-a.gate(key):
	default:
		close(a.gate(key))
	}
}

// add adds a claim. It reports false if the run is being left, or does something else.
func (a *attempt) add(c *claim) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.leaving || a.model != asksModel(c.key) {
		return false
	}
	a.claims[c] = true
	if !a.owned(c.key) {
		a.owner[c.key] = c
		a.pass(c.key)
	}
	return true
}

// owned reports whether a claim waits for the step with a key. The mutex is held.
func (a *attempt) owned(key string) bool { return a.owner[key] != nil && !a.owner[key].lose() }

// leave removes a claim, and reports whether the run is left then.
func (a *attempt) leave(c *claim) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.claims, c)
	if c.lose() { // the run can go on no more, and need not wait for the call, which may not end
		a.leaving = true
		if len(a.claims) == 0 {
			a.quit()
		}
	}
	a.rest()
	return len(a.claims) == 0
}

// after returns what a step has led to. The session has it, unless the run still works for others.
func (l *live) after(ctx context.Context, a *attempt) (Plan, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	select {
	case <-a.ended:
	default:
		return l.worker.planOf(a.state), ctx.Err()
	}
	end := a.state.End()
	_, misfit := errors.AsType[*aycoder.ConfigError](a.err)
	lost := l.agent.Session.Err() // of facts that came when the run was left, perhaps
	switch {
	case ctx.Err() != nil:
		return Plan{}, ctx.Err()
	case lost != nil:
		l.fail()
		return Plan{}, failure(lost)
	case a.retry > 0:
		return Plan{}, sdk.NewApplicationErrorWithOptions("the model cannot answer now", a.kind,
			sdk.ApplicationErrorOptions{NextRetryDelay: a.retry, Category: sdk.ApplicationErrorCategoryBenign})
	case end != "" && end != aycoder.EndSuspended:
		out := Output{End: end, Turns: a.state.Turn()}
		if a.err != nil {
			out.Error = kind(a.err)
		}
		return Plan{Output: out}, nil
	case misfit && end == aycoder.EndSuspended: // the answers are not for these questions
		return l.worker.plan(l.agent.Session.Pending()), nil
	case a.err != nil || a.result.End != aycoder.EndSuspended:
		l.fail()
		return Plan{}, failure(cmp.Or(a.err, errUnended))
	}
	return l.worker.plan(l.agent.Session.Pending()), nil
}

var errUnended = errors.New("the run did not end")

// stop leaves the run that works, and waits for its end.
func (l *live) stop() {
	l.mu.Lock()
	a := l.run
	l.mu.Unlock()
	if a == nil {
		return
	}
	a.mu.Lock()
	a.quit()
	a.mu.Unlock()
	<-a.ended
}

// fail makes the session be opened again.
func (l *live) fail() {
	l.worker.mu.Lock()
	defer l.worker.mu.Unlock()
	l.broken = true
}
