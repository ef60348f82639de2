package temporal

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	sdk "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/aycoder/aycoder"
)

// The names under which a [Worker] registers the workflow and its activities, those of its update, signal and query, and those of
// the workflow of a schedule and its activity.
const (
	WorkflowName  = "aycoder.Run"
	ModelName     = "aycoder.Model"
	ToolName      = "aycoder.Tool"
	CancelName    = "aycoder.Cancel"
	KeepName      = "aycoder.Keep"
	DecideName    = "aycoder.Decide"
	BeginName     = "aycoder.Begin"
	ReportName    = "aycoder.Report"
	ScheduledName = "aycoder.Scheduled"
	SayName       = "aycoder.Say"

	UpdateAnswer = "answer"
	SignalSteer  = "steer"
	QueryStatus  = "status"
)

// Input is the argument of the workflow. Like everything that goes into the history, it has only references.
type Input struct {
	// Session is the id of the session. It has to exist.
	Session string `json:"session"`
	// Tools is the task queue of the workers that can reach the workspace, and Models that of workers that ask
	// models. Defaults: the queue of the workflow, and Tools.
	Tools  string `json:"tools,omitempty"`
	Models string `json:"models,omitempty"`
	// Say are references of messages of the user, the first of which is the prompt: see [Client.Start].
	Say []string `json:"say,omitempty"`

	// Plan and Answers are set when the workflow continues as a new one.
	Plan    *Plan    `json:"plan,omitempty"`
	Answers []Answer `json:"answers,omitempty"`
}

// EndUnknown means that the run was over when a worker looked: the one that saw its end was lost, or there was nothing to do.
const EndUnknown aycoder.EndReason = "unknown"

// Output is the result of the workflow.
type Output struct {
	// End says why the run ended, or is [EndUnknown].
	End aycoder.EndReason `json:"end,omitempty"`
	// Turns is the number of messages of the model in the last run.
	Turns int `json:"turns,omitempty"`
	// Error is the kind of the error with which the run ended, such as "AuthError", or "".
	Error string `json:"error,omitempty"`
}

// Plan says what a run needs next. A worker makes it from the facts of the session, and the history records it, so
// that the workflow decides nothing itself.
type Plan struct {
	// Next are the steps that can be done now.
	Next []Step `json:"n,omitempty"`
	// Ask are the open questions of a suspended run.
	Ask []Question `json:"q,omitempty"`
	Output
}

// Step is a call of the model or of a tool.
type Step struct {
	// Key is the key of the action, such as "t1/model" or "t3/tool/toolu_01". Of an id of a call that is not made of 1 to 64
	// letters, digits, "-" and "_", it has a hash.
	Key string `json:"k"`
	// Seconds is the time for one attempt, and Attempts the number of attempts.
	Seconds  int `json:"s,omitempty"`
	Attempts int `json:"a,omitempty"`
}

// margin is the time that a worker has to record that a call had no more time.
const margin = time.Minute

// asksModel reports whether a key is that of a call of the model. The id of a call of a tool may be "model".
func asksModel(key string) bool {
	_, what, _ := strings.Cut(key, "/")
	return what == "model"
}

// Question is an open question whether a call may run, or for the result of a call of a declared tool. The session has
// its content: see [Client.Pending].
type Question struct {
	// Step is the call that goes on with the answer.
	Step
	// Digest is the beginning of that of the [aycoder.ApprovalRequest] or [aycoder.CallRequest].
	Digest string `json:"d"`
	// Child says that a child agent answers, and nobody else.
	Child bool `json:"c,omitempty"`
}

// Answer is the argument of the update.
type Answer struct {
	// Key and Digest are those of the [Question].
	Key    string `json:"k"`
	Digest string `json:"d"`
	// Allow is the answer to a question without more to say. If Ref is not "", it refers to an
	// [aycoder.Decision] or [aycoder.CallResult], and Allow does not count.
	Allow bool   `json:"y,omitempty"`
	Ref   string `json:"r,omitempty"`
}

// Status is the result of the query.
type Status struct {
	Session string `json:"session"`
	// Running are the keys of the steps that work.
	Running []string `json:"running,omitempty"`
	// Ask are the questions without an answer.
	Ask []Question `json:"ask,omitempty"`
	// Waiting is the number of messages that no step has taken.
	Waiting int `json:"waiting,omitempty"`
	// Children are the ids of the workflows of child agents that work, which are also those of their sessions.
	Children []string `json:"children,omitempty"`
}

// stepInput is the argument of an activity.
type stepInput struct {
	Session string   `json:"s"`
	Key     string   `json:"k,omitempty"`
	Say     []string `json:"m,omitempty"`
	Answers []Answer `json:"a,omitempty"`
	// Keep says that the next step probably comes to the same worker.
	Keep bool `json:"o,omitempty"`
}

// decided is the result of a step.
type decided struct {
	key  string
	say  []string // that were given to it
	plan Plan
	err  error
}

// interpreter is the workflow. It carries out plans.
type interpreter struct {
	in       Input
	plan     Plan
	say      []string
	asked    []Question // that can be answered, also while another one is dealt with
	answers  []Answer
	running  []string
	children []string // child agents that work
	cancels  []workflow.CancelFunc
	reported *Question // of a child, whose answer the last step was given
	results  workflow.Channel
	idle     int // steps in a row that changed nothing
	beat     time.Duration
	failed   error
}

// maxIdle bounds the steps in a row that come back without a change of the session.
const maxIdle = 20

// run is the workflow.
func (w *Worker) run(ctx workflow.Context, in Input) (Output, error) {
	in.Tools = cmp.Or(in.Tools, workflow.GetInfo(ctx).TaskQueueName)
	in.Models = cmp.Or(in.Models, in.Tools)
	p := &interpreter{in: in, say: in.Say, answers: in.Answers, beat: w.config.Heartbeat}
	p.results = workflow.NewBufferedChannel(ctx, 1000)
	if in.Plan != nil {
		p.take(*in.Plan)
	}
	if err := p.listen(ctx); err != nil {
		return Output{}, err
	}
	if in.Plan == nil {
		if err := p.decide(ctx); err != nil {
			return Output{}, p.end(ctx, err)
		}
	}
	for {
		done, err := p.next(ctx)
		if err != nil {
			return Output{}, p.end(ctx, err)
		}
		if done {
			return p.plan.Output, nil
		}
	}
}

// listen makes the update, the query and the signal work.
func (p *interpreter) listen(ctx workflow.Context) error {
	err := workflow.SetQueryHandler(ctx, QueryStatus, func() (Status, error) {
		return Status{Session: p.in.Session, Running: slices.Clone(p.running), Ask: p.open(), Waiting: len(p.say),
			Children: slices.Clone(p.children)}, nil
	})
	if err != nil {
		return err
	}
	return workflow.SetUpdateHandlerWithOptions(ctx, UpdateAnswer, func(_ workflow.Context, a Answer) error {
		p.answers = append(p.answers, a)
		return nil
	}, workflow.UpdateHandlerOptions{Validator: p.check})
}

// open returns the questions without an answer.
func (p *interpreter) open() []Question {
	return slices.DeleteFunc(slices.Clone(p.asked), func(q Question) bool {
		return slices.ContainsFunc(p.answers, func(a Answer) bool { return a.Key == q.Key })
	})
}

// check refuses an answer to a question that is not open.
func (p *interpreter) check(a Answer) error {
	for _, q := range p.open() {
		if q.Key == a.Key && q.Digest == a.Digest && (a.Ref == "" || isRef(a.Ref)) {
			return nil
		}
	}
	return sdk.NewNonRetryableApplicationError("no such open question", noQuestion, nil)
}

// next does one thing, and reports whether the run is over. If the history is long, it starts no step any more, and continues as a
// new workflow when none works.
func (p *interpreter) next(ctx workflow.Context) (over bool, err error) {
	renew := workflow.GetInfo(ctx).GetContinueAsNewSuggested() && workflow.AllHandlersFinished(ctx) && len(p.children) == 0
	if p.hear(ctx); p.failed == nil && !renew {
		for _, s := range p.plan.Next {
			p.start(ctx, s, nil)
		}
		for _, q := range p.plan.Ask {
			p.adopt(ctx, q)
		}
	}
	if len(p.running) > 0 {
		return false, p.await(ctx)
	}
	switch {
	case p.failed != nil:
		return false, p.failed
	case renew:
		next := p.in
		next.Say, next.Plan, next.Answers = p.say, &p.plan, p.answers
		return false, workflow.NewContinueAsNewError(ctx, WorkflowName, next)
	case len(p.plan.Ask) > 0:
		return false, p.answered(ctx)
	case p.plan.End != "" && len(p.children) > 0:
		return false, p.disown(ctx)
	case p.plan.End != "" && len(p.say) == 0:
		return true, nil
	}
	return false, p.decide(ctx)
}

// hear takes the references of messages that have come.
func (p *interpreter) hear(ctx workflow.Context) {
	for ref := ""; workflow.GetSignalChannel(ctx, SignalSteer).ReceiveAsync(&ref); ref = "" {
		if isRef(ref) {
			p.say = append(p.say, ref)
		}
	}
}

// answered waits for an answer, and goes on with all that have come.
func (p *interpreter) answered(ctx workflow.Context) error {
	steers := workflow.GetSignalChannel(ctx, SignalSteer)
	if err := workflow.Await(ctx, func() bool { return len(p.answers) > 0 || steers.Len() > 0 || p.failed != nil }); err != nil {
		return err
	}
	var first *Step
	var given []Answer
	for i, q := range p.plan.Ask {
		at := slices.IndexFunc(p.answers, func(a Answer) bool { return a.Key == q.Key && a.Digest == q.Digest })
		if at < 0 {
			continue // or the question has changed since
		}
		if given = append(given, p.answers[at]); first == nil {
			first, p.reported = &p.plan.Ask[i].Step, nil
			if q.Child {
				p.reported = &q
			}
		}
	}
	p.asked = p.open()
	if p.answers = nil; first != nil {
		p.plan = Plan{}
		p.start(ctx, *first, given)
		return nil
	}
	p.take(p.plan) // all questions are open again
	return nil
}

// take makes a plan the present one.
func (p *interpreter) take(plan Plan) {
	model := slices.ContainsFunc(plan.Next, func(s Step) bool { return asksModel(s.Key) })
	if p.plan = plan; len(plan.Ask) > 0 || plan.End != "" || model {
		p.asked = slices.DeleteFunc(slices.Clone(plan.Ask), func(q Question) bool { return q.Child })
	}
}

// start starts the activity of a step, unless it works already.
func (p *interpreter) start(ctx workflow.Context, s Step, given []Answer) {
	if slices.Contains(p.running, s.Key) {
		return
	}
	name, queue := ToolName, p.in.Tools
	if asksModel(s.Key) {
		name, queue = ModelName, p.in.Models
	}
	seconds := time.Duration(cmp.Or(s.Seconds, 3600)) * time.Second
	f := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		ActivityID: s.Key, TaskQueue: queue, WaitForCancellation: true,
		StartToCloseTimeout: seconds + margin, HeartbeatTimeout: p.beat,
		RetryPolicy: &sdk.RetryPolicy{InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: time.Minute,
			MaximumAttempts: int32(cmp.Or(s.Attempts, 5))},
	}), name, stepInput{Session: p.in.Session, Key: s.Key, Say: p.say, Answers: given, Keep: p.in.Models == p.in.Tools})
	d := decided{key: s.Key, say: p.say}
	p.say = nil
	p.running = append(p.running, s.Key)
	workflow.Go(ctx, func(ctx workflow.Context) {
		d.err = f.Get(ctx, &d.plan)
		p.results.Send(ctx, d)
	})
}

// await waits for the result of a step.
func (p *interpreter) await(ctx workflow.Context) error {
	// Also if the workflow is cancelled: the activities are, too, and must have ended before the run is settled.
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	var d decided
	p.results.Receive(ctx, &d)
	p.running = slices.DeleteFunc(p.running, func(k string) bool { return k == d.key })
	if d.err != nil {
		p.failed, p.plan = d.err, Plan{}
		p.say = append(d.say, p.say...) // which it may not have taken
		return nil
	}
	same := d.plan.holds(d.key) || p.reported != nil && p.reported.Key == d.key && slices.Contains(d.plan.Ask, *p.reported)
	if p.idle++; !same {
		p.idle = 0
	}
	if p.idle > maxIdle {
		return sdk.NewNonRetryableApplicationError("steps come back undone", "Stuck", nil)
	}
	p.take(d.plan)
	return nil
}

// decide asks a worker what comes next, in a local activity.
func (p *interpreter) decide(ctx workflow.Context) error {
	if len(p.say) > 0 && p.plan.End != "" { // the next run
		p.plan = Plan{Next: []Step{{Key: "t1/model"}}}
		return nil
	}
	if p.idle++; p.idle > maxIdle {
		return sdk.NewNonRetryableApplicationError("nothing to do", "Stuck", nil)
	}
	ctx = workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{
		StartToCloseTimeout: time.Minute,
		RetryPolicy:         &sdk.RetryPolicy{InitialInterval: time.Second, MaximumInterval: time.Minute, MaximumAttempts: 20},
	})
	var plan Plan
	err := workflow.ExecuteLocalActivity(ctx, DecideName, stepInput{Session: p.in.Session}).Get(ctx, &plan)
	p.take(plan)
	return err
}

// end settles the run if the workflow is cancelled, and returns the error of the workflow. A workflow that fails leaves the run
// to another one. In both cases, messages that no step has taken go into the session, where the next run takes them.
func (p *interpreter) end(ctx workflow.Context, err error) error {
	if workflow.IsContinueAsNewError(err) {
		return err
	}
	cancelled := ctx.Err() != nil
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	for len(p.running) > 0 {
		_ = p.await(ctx)
	}
	p.hear(ctx)
	if cancelled {
		_ = workflow.Await(ctx, func() bool { return len(p.children) == 0 }) // they are cancelled, too
		if err := p.settle(ctx, CancelName, "cancel"); err != nil {
			return err
		}
		p.hear(ctx)
		err = sdk.NewCanceledError()
	}
	for n := 1; len(p.say) > 0; n++ {
		if kept := p.settle(ctx, KeepName, fmt.Sprint("keep", n)); kept != nil {
			return kept
		}
		p.hear(ctx)
	}
	return err
}

// settle runs an activity that gives the messages to the session.
func (p *interpreter) settle(ctx workflow.Context, name, id string) error {
	opts := p.brief()
	opts.ActivityID, opts.HeartbeatTimeout = id, p.beat
	say := p.say
	p.say = nil
	return workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, opts), name, stepInput{Session: p.in.Session, Say: say}).Get(ctx, nil)
}

// brief are the options of activities that read and write a session, and do nothing that takes long.
func (p *interpreter) brief() workflow.ActivityOptions {
	return workflow.ActivityOptions{TaskQueue: p.in.Tools, StartToCloseTimeout: 2 * time.Minute,
		RetryPolicy: &sdk.RetryPolicy{InitialInterval: time.Second, MaximumInterval: time.Minute, MaximumAttempts: 100}}
}
