package temporal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
	sdk "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/session"
)

// Config configures a [Worker].
type Config struct {
	// Store has the sessions. All workers and clients of a run share it: see contrib/postgres.
	Store journal.Store
	// References has the contents of messages and answers while they are on their way. Default: Store.
	References journal.Store
	// Open opens the session with its agent for writing. The worker closes what it returns. If the session is open
	// elsewhere, the error is a [*journal.BusyError], and Open is called again.
	Open func(ctx context.Context, session string) (*Agent, error)
	// Children are the tools that start child agents: declared ones (see [aycoder.DeclareTool]). The function makes the prompt of a
	// child from a call; a later attempt may call it again. The child runs as a child workflow, in a new session, which Open
	// opens with the child's agent; both have one id, which begins as that of the parent. The text of its last message is the result
	// of the call. Default: none.
	Children map[string]func(ctx context.Context, parent string, call *aycoder.CallRequest) (*aycoder.Message, error)
	// Limits returns the limits of a call of a tool, or of the model, whose name is "" then. A field that is 0 has its
	// default. They are recorded in the history when the call is planned. Default: see [Limits].
	Limits func(tool string, effect aycoder.Effect) Limits
	// Events gets the events of runs as they happen, from several goroutines, with the id of the run and the number of its
	// turns that are over. It must not wait, and questions in it must not be answered. Events that are lost with a worker are in
	// the session. The method Event of a Publisher of package server brings them to other processes. Default: none.
	Events func(session, run string, turn int, ev aycoder.Event)
	// Heartbeat is the time after which a step whose worker has not been heard is given to another one. Default: 30 s.
	Heartbeat time.Duration
	// Keep is how long a session stays open for the next step, if the steps of models and tools have one queue. Another worker
	// of the queue that gets the next step waits so long. It should be shorter than the time after which the store lets others
	// have the sessions of a process that is cut off, 15 s in package postgres. Otherwise, that process may give the workflow an
	// outdated plan; its records are refused, so that nothing runs twice. Default: 1 s.
	Keep time.Duration
	// Grace is how long a step that was cancelled may go on. Default: 10 s.
	Grace time.Duration
}

// Agent is what [Config].Open has opened.
type Agent struct {
	// Session is the session, and Agent what answers: the session, or what is around it, as the Agent of a runtime of
	// package harness. Default of Agent: Session.
	Session *session.Session
	Agent   aycoder.Agent
	// Close closes both. Default: that of Session.
	Close func() error
}

// Limits bound the attempts of a step.
type Limits struct {
	// Timeout is the time for an attempt. Default: an hour. When it is over, the call is cancelled.
	Timeout time.Duration
	// Attempts is the number of attempts. An attempt follows one whose worker was lost, or that could not open the session. An
	// attempt of a call that may have begun does not repeat it unless it only reads. Default: 5, and 50 for models, whose
	// attempts after an overload or a rate limit count, too.
	Attempts int
}

// Worker carries out the steps of runs. One Worker serves all task queues of a process. Its methods are safe for concurrent
// use.
type Worker struct {
	config Config

	mu    sync.Mutex
	lives map[string]*live // by session
}

// New returns a worker.
func New(c Config) (*Worker, error) {
	var errs []error
	for name, missing := range map[string]bool{"Store": c.Store == nil, "Open": c.Open == nil} {
		if missing {
			errs = append(errs, &aycoder.ConfigError{Option: "Config." + name, Err: errors.New("is nil")})
		}
	}
	for name, d := range map[string]*time.Duration{"Heartbeat": &c.Heartbeat, "Keep": &c.Keep, "Grace": &c.Grace} {
		if *d < 0 {
			errs = append(errs, &aycoder.ConfigError{Option: "Config." + name, Err: errors.New("is negative")})
		}
	}
	if len(errs) > 0 {
		return nil, fmt.Errorf("new worker: %w", errors.Join(errs...))
	}
	c.Heartbeat, c.Keep, c.Grace = cmp.Or(c.Heartbeat, 30*time.Second), cmp.Or(c.Keep, time.Second), cmp.Or(c.Grace, 10*time.Second)
	if c.References == nil {
		c.References = c.Store
	}
	return &Worker{config: c, lives: map[string]*live{}}, nil
}

// Register registers the workflow and the activities with a worker of the SDK, or with a test environment. Names of queues
// are those of [Input].
func (w *Worker) Register(r worker.Registry) {
	w.RegisterWorkflow(r)
	for name, f := range map[string]any{ModelName: w.step, ToolName: w.step, CancelName: w.cancel, KeepName: w.keep, DecideName: w.decide,
		BeginName: w.begin, ReportName: w.report, SayName: w.say} {
		r.RegisterActivityWithOptions(f, activity.RegisterOptions{Name: name})
	}
}

// RegisterWorkflow registers the workflow alone: with a worker that has no part of the sessions but their stores, or with a
// replayer of histories. With versions of workers, DefaultVersioningBehavior says with which version a run goes on; any can carry it out.
func (w *Worker) RegisterWorkflow(r interface {
	RegisterWorkflowWithOptions(run any, opts workflow.RegisterOptions)
}) {
	r.RegisterWorkflowWithOptions(w.run, workflow.RegisterOptions{Name: WorkflowName})
	r.RegisterWorkflowWithOptions(say, workflow.RegisterOptions{Name: ScheduledName})
}

// Close closes the sessions that are still open for the next step. Stop the workers of the SDK before.
func (w *Worker) Close() error {
	w.mu.Lock()
	var all []*live
	for _, l := range w.lives {
		all = append(all, l)
	}
	w.mu.Unlock()
	var errs []error
	for _, l := range all {
		errs = append(errs, l.release(true))
	}
	return errors.Join(errs...)
}

// decide is the local activity that says what comes next. It only reads.
func (w *Worker) decide(ctx context.Context, in stepInput) (_ Plan, err error) {
	defer guard(&err)
	p, err := session.ReadPending(ctx, w.config.Store, in.Session)
	if err != nil {
		return Plan{}, failure(err)
	}
	return w.plan(p), nil
}

// cancel is the activity that settles the run of a cancelled workflow. Messages that no step has taken stay in the session.
func (w *Worker) cancel(ctx context.Context, in stepInput) (Plan, error) {
	return w.within(ctx, in, new(claim), func(l *live) (_ Plan, err error) {
		for err == nil && l.agent.Session.Phase() != session.PhaseIdle {
			l.stop() // of a worker that the engine has given up
			err = l.agent.Session.Cancel(ctx)
		}
		if err == nil || refuses(err) { // nothing is running
			err = w.leave(ctx, l, in)
		}
		return Plan{Output: Output{End: aycoder.EndCancelled}}, failure(err)
	})
}

// keep is the activity that gives the session the messages of a workflow that fails. The run stays as it is.
func (w *Worker) keep(ctx context.Context, in stepInput) (Plan, error) {
	return w.within(ctx, in, new(claim), func(l *live) (Plan, error) { return Plan{}, failure(w.leave(ctx, l, in)) })
}

// leave gives the session the messages that no step has taken, at the end of a workflow.
func (w *Worker) leave(ctx context.Context, l *live, in stepInput) error {
	for _, ref := range in.Say {
		if err := w.deliver(ctx, l, []string{ref}); err != nil && !refuses(err) { // else it is missing
			return err
		}
	}
	w.forget(ctx, in)
	return nil
}

// refuses reports whether an error says that an open session refuses a command.
func refuses(err error) bool {
	e, ok := errors.AsType[*session.CommandError](err)
	return ok && e.Phase != session.PhaseClosed
}

// step is the activity that asks the model or calls a tool.
func (w *Worker) step(ctx context.Context, in stepInput) (Plan, error) {
	c := new(claim)
	return w.within(ctx, in, c, func(l *live) (plan Plan, err error) {
		if err := w.deliver(ctx, l, in.Say); err != nil {
			return Plan{}, failure(err)
		}
		if plan, err = l.do(ctx, in, c); err == nil {
			w.forget(ctx, in)
		}
		return plan, err
	})
}

// within runs the body of an activity with its session, and tells the engine meanwhile that it works.
func (w *Worker) within(ctx context.Context, in stepInput, c *claim, body func(l *live) (Plan, error)) (plan Plan, err error) {
	defer guard(&err)
	defer w.beats(ctx, c)()
	l, err := w.enter(ctx, in.Session)
	if err != nil {
		return Plan{}, err
	}
	defer func() {
		if closed := l.release(!in.Keep || err != nil); err == nil {
			err = failure(closed)
		}
	}()
	return body(l)
}

// beats tells the engine that the activity works until stop is called.
func (w *Worker) beats(ctx context.Context, c *claim) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var done sync.WaitGroup
	done.Go(func() {
		tick := time.NewTicker(max(w.config.Heartbeat/4, time.Millisecond))
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				activity.RecordHeartbeat(ctx, c.progress.Load()) // how often the tool reported something, and nothing of it
			}
		}
	})
	return func() {
		cancel()
		done.Wait()
	}
}

// guard turns a panic into an error without its text.
func guard(err *error) {
	if p := recover(); p != nil {
		*err = sdk.NewApplicationError("a step panicked", "Panic")
	}
}

// failure returns an error for the history: its kind, and nothing of its text.
func failure(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, context.Canceled) {
		return context.Canceled // without what is around it
	}
	if _, ok := err.(*sdk.ApplicationError); ok {
		return err
	}
	return sdk.NewApplicationError("the step did not work", kind(err))
}

// kind names the kind of an error.
func kind(err error) string {
	name := aycoder.ErrorType(err)
	switch {
	case name != "":
	case errors.Is(err, context.DeadlineExceeded):
		name = "Timeout"
	default:
		name = "Error"
		if _, ok := errors.AsType[*journal.BusyError](err); ok {
			name = "BusyError"
		} else if _, ok := errors.AsType[*journal.OpError](err); ok {
			name = "JournalError"
		}
	}
	return name
}

// plan says what a run needs that nobody works on. p is nil if there is no run.
func (w *Worker) plan(p *aycoder.Pending) Plan {
	if p == nil {
		return Plan{Next: []Step{w.limited("t1/model", "", aycoder.EffectReadOnly)}}
	}
	if p.State.End() == aycoder.EndSuspended && len(p.Requests)+len(p.Calls) > 0 {
		return Plan{Ask: w.questions(p), Output: Output{Turns: p.State.Turn()}}
	}
	state, _, err := p.State.Apply(&aycoder.Resumed{RepeatReads: true}) // what worked then was lost
	if err != nil {
		state = p.State
	}
	return w.planOf(state)
}

// planOf says what a run needs besides what works.
func (w *Worker) planOf(state aycoder.State) (plan Plan) {
	plan.End, plan.Turns = state.End(), state.Turn()
	if plan.End == aycoder.EndSuspended {
		plan.End = ""
	}
	var waits []Step // for results of declared tools: the run is suspended when nothing else is left
	open := state.OpenCalls()
	for _, a := range state.Outstanding() {
		var s Step
		effect := aycoder.EffectReadOnly
		switch a := a.(type) {
		case *aycoder.AskApproval:
			effect = a.Effect
			s = w.limited((&aycoder.RunTool{Turn: a.Turn, Attempt: a.Attempt, Call: a.Call}).Key(), a.Call.Name, effect)
		case *aycoder.RunTool:
			s, effect = w.limited(a.Key(), a.Call.Name, a.Effect), a.Effect
			if a.Outside && slices.ContainsFunc(open, func(q aycoder.CallRequest) bool { return q.CallID == a.Call.ID }) {
				waits = append(waits, s)
				continue
			}
		default: // the model, or the wait before it
			s = w.limited(fmt.Sprintf("t%d/model", state.Turn()+1), "", aycoder.EffectReadOnly)
		}
		if effect != aycoder.EffectReadOnly && len(plan.Next) > 0 {
			break // it waits for those before it
		}
		plan.Next = append(plan.Next, s)
		if effect != aycoder.EffectReadOnly {
			break
		}
	}
	if len(plan.Next) == 0 && len(waits) > 0 {
		plan.Next = waits[:1]
	}
	return plan
}

// limited returns a step with the limits of a tool, or of the model, whose name is "".
func (w *Worker) limited(key, tool string, effect aycoder.Effect) Step {
	attempts := 5
	if tool == "" {
		attempts = 50
	}
	var l Limits
	if w.config.Limits != nil {
		l = w.config.Limits(tool, effect)
	}
	seconds := (cmp.Or(l.Timeout, time.Hour) + time.Second - 1) / time.Second
	return Step{Key: safeKey(key), Seconds: max(int(seconds), 1), Attempts: max(cmp.Or(l.Attempts, attempts), 1)}
}

// questions returns the open questions of a suspended run.
func (w *Worker) questions(p *aycoder.Pending) (list []Question) {
	ask := func(id, tool, digest string, child bool) {
		list = append(list, Question{Step: w.limited(questionKey(p, id), tool, aycoder.EffectUnknown), Digest: short(digest), Child: child})
	}
	for i := range p.Requests {
		ask(p.Requests[i].CallID, p.Requests[i].Tool, p.Requests[i].Digest, false)
	}
	for i := range p.Calls {
		tool := p.Calls[i].Tool
		ask(p.Calls[i].CallID, tool, p.Calls[i].Digest, w.config.Children[tool] != nil)
	}
	return list
}

// holds reports whether a plan has a step.
func (p *Plan) holds(key string) bool {
	return slices.ContainsFunc(p.Next, func(s Step) bool { return s.Key == key })
}
