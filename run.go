package aycoder

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A run drives a [State]: it does the actions in goroutines and applies their outcomes as facts.
// Only the run changes its state, under its mutex. It never waits for the consumer with the mutex
// held.
type run struct {
	// The fields that each delta needs are together, since those of a waiting run are in no processor's cache.
	quit     <-chan struct{} // closed when work is done
	mu       sync.Mutex      // guards these fields, and those from modelTurn on
	stopping bool
	heard    bool     // the current attempt has received something
	opened            // the answer of a ModelOpener
	incoming incoming // the message in progress
	out      outbox

	loop     *Loop
	id       string
	parent   *run // the run around this one, or nil
	depth    int
	calls    []string // around this run, the outermost first
	guards   sync.Map // of *tool to ToolFunc, in an inner run: see guarded
	name     string   // of the agent
	tokens   atomic.Int64
	control  controller // or nil
	into     func()     // fills the host's Result, or nil: a *Result would link its JSON form
	again    *Resumed   // nil for a new run
	held     int        // number of messages at the start
	outline  bool       // some of them have no contents, see isOutline
	single   bool       // only one turn, for Loop.Turn
	whole    bool       // the request of the message that again continues had everything
	apart    bool       // the call around it does not wait for it
	outlives bool       // see WithSteps
	base     Request    // what all requests have
	extra    []*tool    // of this run alone
	builder  ContextBuilder
	proceed  func() // is called at the end, or nil
	begun    func() // is called at the start, or nil
	ended    func() // is called when the run is over, or nil
	setup    atomic.Pointer[setup]
	// build makes the request of a model call.
	build    func(*run, context.Context, ContextInput) (*Request, error)
	work     context.Context // of the steps
	cancel   func()          // ends it
	wake     chan struct{}   // wakes the consumer; one slot
	asks     chan struct{}   // wakes the goroutine that asks the model; one slot
	recorder recorder        // nil without an auditor
	execute  func(*run, step)
	wait     func(*Wait)                             // of WithSteps, or nil
	leaves   func(context.Context, *ToolOutput) bool // of WithSteps, or nil
	hooks    *hooks                                  // of the loop, or else of the parent, as is trace
	trace    func(context.Context, *run) factLog

	// The mutex guards what follows, too.
	modelTurn
	ending
	executing
	asking
	calling
	state machine
}

// executing holds what is to be started later.
type executing struct {
	facts       factLog     // nil without WithFacts and WithLogger
	start       *StartInput // for them
	ready       []Action    // wait until the consumer has seen everything before
	steps       []step      // wait for the executor
	dispatching bool        // a goroutine passes steps to the executor
}

// asking is the state of the questions whether calls may run.
type asking struct {
	open      map[string]*openQuestion // by call id
	suspended []ApprovalRequest
	decisions map[string]Decision // of Input.Decisions
	requests  []ApprovalRequest   // of Input.Pending, which they answer
	parked    []*pendingQuestion  // wait for calls before them
	outside   outsider            // nil before a call waits for a result from outside
}

// calling is the state of the calls of a message.
type calling struct {
	slots     chan struct{} // of parallel tools; made for the first
	running   []*RunTool    // have begun and not returned
	reported  []string      // calls that had a ToolFinished
	inline    *ToolUse      // the call that the step which decides about it can run itself
	inlineRun *RunTool
}

// modelTurn is the state of the attempts to get a message from the model.
type modelTurn struct {
	streaming bool       // a goroutine asks the model
	call      *CallModel // that is to be made
	reading   stream     // the answer of the model
	known     *setup     // which the state has; nil if the run is resumed
	setUp     int        // the turn for which WithSetup was asked last
	tools     []Tool     // of the setup, for WithSetup
	waited    time.Duration
	shrunk    int         // failures of the message in progress after which the request became smaller
	fixed     bool        // the request must not be made smaller
	request   *Request    // the last one that was built
	asked     CallModel   // the action that it was built for
	declared  bool        // the next one need not begin with it
	offered   []*ToolSpec // in the last request; nil if all are
	refused   *refusal    // of a request for this message
	window    int64       // of the model, or 0 if unknown
	usage     Usage       // of the last message
	done      MessageDone // of the last message
}

// A step is what an executor starts.
type step struct {
	key string
	run func(context.Context)
}

// dispatch passes steps to the executor, which may block. So it has a goroutine to itself, which
// is not a step, answers no question and does not hold the mutex.
func (r *run) dispatch() {
	defer r.gone()
	for {
		r.mu.Lock()
		if r.stopping {
			r.live -= len(r.steps)
			r.steps = nil
		}
		if len(r.steps) == 0 {
			r.dispatching = false
			r.mu.Unlock()
			return
		}
		s := r.steps[0]
		r.steps = r.steps[1:]
		r.mu.Unlock()
		r.execute(r, s)
	}
}

// submit starts a step. A step that is started again has a suffix in its key. The mutex is held.
func (r *run) submit(a Action, suffix string, run func(context.Context)) {
	r.live++
	if r.execute == nil {
		go run(r.work)
		return
	}
	r.steps = append(r.steps, step{a.Key() + suffix, run})
	if !r.dispatching {
		r.dispatching = true
		r.live++
		go r.dispatch()
	}
}

func newRun(ctx context.Context, l *Loop, rc *RunConfig) *run {
	r := &run{
		loop: l, id: l.newID(), name: l.name, builder: l.builder, trace: l.trace,
		wake: make(chan struct{}, 1), execute: l.execute,
	}
	r.use(l.first)
	if r.hooks = l.hooks; r.hooks != nil {
		r.recorder = r.hooks.record(r)
	}
	if rc.Control != nil {
		r.control = rc.control(rc.Control)
	}
	if rc.Facts != nil {
		r.facts = rc.log(r, rc.Facts)
	}
	if into := rc.Into; into != nil {
		r.into = func() { *into = *r.result() }
	}
	if inv := parentOf(ctx, rc.Parent); inv != nil {
		r.inside(inv)
	}
	if r.trace != nil {
		r.facts = r.trace(ctx, r)
	}
	return r
}

// drive runs until the state is done, or the consumer or ctx ends it, and hands the events to
// yield. When it returns, no step works any more. It reports whether the consumer still listens.
func (r *run) drive(ctx context.Context, yield func(Event, error) bool) bool {
	work, cancel := context.WithCancel(ctx)
	r.work, r.cancel, r.quit = work, cancel, work.Done()
	if r.recorder != nil {
		r.mu.Lock()
		r.recorder.history(r, r.state.history.All())
		r.mu.Unlock()
		defer func() { _ = r.recorder.flush(ctx, r, true) }()
	}
	hold(r.state.history.Items)
	r.outline = slices.ContainsFunc(r.state.history.Items, isOutline)
	r.held = len(r.state.history.Items)
	defer r.close()
	defer r.stop(ctx, cancel)
	if r.facts != nil {
		r.mu.Lock()
		r.facts.begin(ctx, r.start)
		r.mu.Unlock()
	}
	if r.again != nil {
		r.continueRun()
	}
	if r.begun != nil {
		r.begun()
	}
	if r.direct, r.began = r.mayRead(), time.Now(); r.direct {
		growStack()
	}
	for range 2 { // the second time, after the end
		for ev := r.next(work); ev != nil; ev = r.next(work) {
			if !yield(ev, nil) {
				return false
			}
			r.seen(ev)
		}
		r.stop(ctx, cancel)
	}
	return true
}

// next waits for an event. It returns nil when the run is over or ctx is done, and after stop, when there is none.
func (r *run) next(ctx context.Context) Event {
	r.bodyLeft()
	for !r.cancelled() {
		ev, reads := r.take()
		if ev == nil && reads {
			if ev = r.readHere(ctx); ev == nil {
				continue
			}
		}
		if ev != nil {
			if reads {
				r.entered = 1 + time.Since(r.began)
			}
			return ev
		}
		r.flush(ctx) // the approver knows what the model is about to read
		if r.startReady(ctx) {
			if a := r.takeCall(true); a != nil {
				r.callModel(ctx, a)
			}
			continue
		}
		if r.over() {
			return r.pop() // what has happened since the first look
		}
		select {
		case <-r.wake:
		case <-ctx.Done():
		}
	}
	if r.stopping {
		return r.pop()
	}
	return nil
}

// cancelled reports whether the work of the run is to end. An answer that is read here looks at the same channel, which
// is then in the processor's cache.
func (r *run) cancelled() bool {
	select {
	case <-r.quit:
		return true
	default:
		return false
	}
}

// startReady starts the model call that waits until the consumer has seen all events. Messages
// that were steered meanwhile go first.
func (r *run) startReady(ctx context.Context) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopping || r.err != nil || len(r.out.items) > 0 || r.recording() {
		return false
	}
	if r.state.end == EndDone || r.state.phase == phaseModel && len(r.ready) > 0 {
		if r.control != nil {
			for _, m := range r.control.take(r.state.end == EndDone) {
				if err := r.step(m); err != nil {
					r.control.giveBack(m)
				}
			}
		}
		if r.state.end == EndDone && r.proceed != nil {
			r.proceed()
		}
		if r.recording() {
			return false
		}
	}
	actions := r.ready
	r.ready = nil
	for _, a := range actions {
		if call, ok := a.(*CallModel); ok {
			r.call = call // there is one at a time
			// An answer that is still open is about to be closed by the goroutine of askModel, which then takes the call.
			if r.near = r.reader == nil && r.quiet(); !r.near {
				r.startAsking(ctx)
			}
			continue
		}
		r.do(a)
	}
	return len(actions) > 0
}

// goOn lets the run continue with the message that next returns. The mutex is held, but not while next
// works: nothing changes the state of a run that is done but this goroutine.
func (r *run) goOn(next func(*Result) *Message) {
	if r.state.turn >= r.state.rules.maxTurns {
		return
	}
	m := func() *Message {
		r.mu.Unlock()
		defer r.mu.Lock() // also if next panics
		return next(r.result())
	}()
	if m != nil && !r.stopping {
		_ = r.step(&Steered{Message: m})
	}
}

// over reports whether nothing is left to wait for.
func (r *run) over() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.idle = r.recording() || r.err == nil && (r.state.phase != phaseDone || len(r.out.items) > 0)
	return !r.idle
}

// recording reports whether facts are not recorded yet. The mutex is held.
func (r *run) recording() bool { return r.facts != nil && r.facts.behind() }

// pop takes the oldest event. It skips questions that were answered meanwhile.
func (r *run) pop() Event {
	ev, _ := r.take()
	return ev
}

// take is pop. If there is no event, it reports whether the goroutine of the loop body reads an answer.
func (r *run) take() (ev Event, reads bool) {
	for {
		r.mu.Lock()
		r.idle, r.inBody = false, false
		if ev, reads = r.out.pop(), r.near && r.reader != nil; ev != nil {
			r.occupy()
		}
		r.mu.Unlock()
		if e, ok := ev.(*ChildEvent); ok && e.answered() {
			close(e.seen)
			continue
		}
		if q, ok := ev.(request); ok && q.over() {
			continue
		}
		if q, ok := ev.(*ApprovalRequested); ok {
			if d := r.setup.Load().Limits.Approval; d > 0 { // the time counts from now, when the consumer gets the question
				stop := r.loop.clock.AfterFunc(d, func() { _ = q.question.answer(Deny(""), ByTimeout) })
				r.mu.Lock()
				r.timers = append(r.timers, stop)
				r.mu.Unlock()
			}
		}
		return ev, reads
	}
}

// A request is an event that its consumer should answer.
type request interface {
	over() bool // nobody needs its answer
	left()      // the loop body has returned
}

// seen is called when the loop body has returned. For a request in a ChildEvent, the inner run does
// what follows from that.
func (r *run) seen(ev Event) {
	switch e := ev.(type) {
	case *ChildEvent:
		close(e.seen)
	case request:
		e.left()
	}
}

// step reports a fact to the state and starts what follows from it. The events are those that
// belong to the fact; they come out only if it is accepted. The mutex is held.
func (r *run) step(f Fact, events ...Event) error {
	turn, before := r.state.turn, len(r.state.history.Items)
	actions, err := r.state.accept(f)
	if err != nil {
		return err
	}
	if r.facts != nil {
		r.facts.note(f)
	}
	if r.control != nil {
		r.control.publish(&r.state)
	}
	for _, ev := range events {
		if fin, ok := ev.(*ToolFinished); ok {
			r.reported = append(r.reported, fin.Call.ID)
		}
		r.tell(ev)
	}
	if len(r.state.history.Items) > before {
		r.tellRest(r.state.history.Items[before:])
	}
	if r.state.turn > turn {
		d := &r.done
		r.tell(&TurnFinished{Turn: r.state.turn, Stop: r.state.stop, Usage: d.Usage, Cost: d.Cost,
			Provider: d.Provider, Model: d.Model, ID: d.ID, RequestID: d.RequestID})
		d.Usage, d.Cost = Usage{}, nil
	}
	if r.facts == nil || !r.facts.hold(nil, actions...) {
		r.follow(actions)
	}
	return nil
}

// tell passes an event to the consumer, after the facts before it are recorded.
func (r *run) tell(ev Event) {
	if r.facts == nil || !r.facts.hold(ev) {
		r.out.push(ev)
	}
}

// follow starts what follows from a fact.
func (r *run) follow(actions []Action) {
	for _, a := range actions {
		r.do(a)
	}
	if len(r.open) > 0 {
		r.show()
	}
	if r.outside != nil {
		r.outside.show()
	}
	if len(r.parked) > 0 {
		r.unpark()
	}
	r.signal()
}

// tellRest reports the calls that were settled without being run.
func (r *run) tellRest(messages []*Message) {
	for i, m := range messages[:len(messages)-1] {
		calls := m.Calls()
		for n, p := range messages[i+1].Parts {
			out, ok := p.(*ToolOutput)
			if !ok || n >= len(calls) || slices.Contains(r.reported, out.ID) {
				continue
			}
			base := &ToolError{Tool: out.Name, CallID: out.ID, Err: errors.New(out.Text())}
			r.tell(endedAs("not run", calls[n], r.setup.Load().subject(calls[n]), out, base))
		}
	}
	r.reported = r.reported[:0]
}

// do starts an action, or puts a call of the model off until the consumer has seen
// everything before it. The mutex is held.
func (r *run) do(a Action) {
	if r.stopping || r.facts != nil && r.facts.ends() {
		return
	}
	switch a := a.(type) {
	case *CallModel:
		r.ready = append(r.ready, a)
	case *AskApproval:
		r.submit(a, "", func(ctx context.Context) {
			r.decideStep(ctx, a.Call, func() bool { return r.ask(ctx, a) })
		})
	case *RunTool:
		if r.slots == nil {
			r.slots = make(chan struct{}, r.setup.Load().Limits.Parallel)
		}
		a.slots = r.slots
		if r.inline == a.Call && r.execute == nil {
			r.inlineRun = a
			r.live++
			return
		}
		r.submit(a, "", func(ctx context.Context) { r.runTool(ctx, a) })
	case *Wait:
		if r.wait != nil {
			r.wait(a)
			return
		}
		stop := r.loop.clock.AfterFunc(a.For, func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			_ = r.step(&Waited{})
		})
		r.timers = append(r.timers, stop)
	}
}

// signal wakes the consumer.
//
//go:noinline
func (r *run) signal() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// gone is called when a step returns.
func (r *run) gone() {
	r.mu.Lock()
	r.live--
	r.mu.Unlock()
	r.signal()
}
