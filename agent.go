package aycoder

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/internal/runes"
)

// Agent runs a model in a loop with tools. [Loop] is the implementation of this package.
//
// Run answers in.Prompt. It returns a sequence of events that keeps this contract:
//
//  1. The sequence is lazy: nothing happens before a range loop starts. It is single-use: a second
//     range loop over it yields only [ErrConsumed].
//  2. An error ends the sequence. It is yielded once, as the last element, with a nil event.
//  3. If the loop body leaves the loop (break, return or panic), the run is cancelled. It stops
//     its tools, and abandons those that do not stop in time. Then each call has an output, and
//     the result of [Into] is filled. Only then does the loop statement end. The only goroutines
//     left are those of tools, and of other code of the host or the model's client, that did not
//     stop in time. If ctx is cancelled instead, the run stops in the same way, but the loop goes
//     on: its body still gets the [ToolFinished] of each call that had started. Then the sequence
//     ends with an error that wraps ctx.Err() and context.Cause(ctx).
//  4. All events are yielded on the goroutine of the range loop. A slow loop body does not delay
//     tools, except for three seconds of the run at most, if the client is a [ModelOpener]. But the
//     next request to the model waits until the body has seen all earlier events, except those of a
//     compaction that belongs to this request.
//     If the body falls behind, deltas may be joined, and two kinds of events may be dropped:
//     outdated progress reports, and questions that were answered before the body received them.
//  5. However the run ends, its history is valid: each call has its output. No call runs twice.
//
// An Agent is safe for concurrent use; its runs are independent.
type Agent interface {
	Run(ctx context.Context, in Input, opts ...RunOption) iter.Seq2[Event, error]
}

// Input is the input of a run. A new run has a Prompt, and also Messages if it continues a
// conversation. A resumed run has Pending and Decisions instead, see [Pending].
type Input struct {
	// Messages is the conversation so far, such as [Result.Messages] of the previous run.
	Messages []*Message
	// Prompt is the new message of the user. It may be empty if Parts or Pending is set, or if
	// Messages ends with a message of the user.
	Prompt string
	// Parts are images, documents and the like. They come before the text of Prompt.
	Parts []Part
	// Pending is the run to resume. If Pending is set, Messages, Prompt and Parts must be empty. It
	// is a suspended run, as it was returned in [Result.Pending], or a run that was working when
	// its program ended. The state of such a run comes from [WithFacts]; Requests may be empty.
	//
	// A call that was running may have had an effect, so it is not run again. Its [ToolFinished]
	// has a [*ToolCancelledError] with Interrupted, and the model reads that the outcome is
	// unknown. All other calls continue: those that were allowed run, and open questions are asked
	// again. A message that the model had not finished is discarded, unless one of its calls had
	// begun. The limits of the loop apply, and its model continues.
	Pending *Pending
	// RepeatReads says that read-only calls of Pending that were running are run again.
	RepeatReads bool
	// Decisions are answers to questions of Pending. About a call without an answer, the
	// [Approver] decides again, so rules that were made after the suspension apply. If it asks
	// again, the question has a new Created time. If an answered call has to wait for an earlier
	// call, and the earlier call is suspended again, the next Pending keeps the answer.
	//
	// If the program that resumed the run has ended before it could record an answer, the next one may give it
	// again: it counts if the question, which is asked again, has the same Digest.
	Decisions []Decision
	// Results are results for Calls of Pending, in any order. A call without one is asked for again: see
	// [CallRequested]. If one of the results is refused, the run ends before anything has happened, with
	// a [*ConfigError] that wraps a [*ResultError].
	Results []CallResult
}

// Result is the outcome of a run, which [Into] hands to the caller. It is filled however the run
// ends, also after an error or a break.
type Result struct {
	// Messages is the whole history. It is valid and can be the input of the next run.
	Messages []*Message
	// End says why the run ended. Stop says why the model ended its last message. For example, if
	// the text of that message was cut off, End is [EndDone] and Stop is [StopMaxTokens].
	End  EndReason
	Stop StopReason
	// Turns is the number of messages that the model sent in this run.
	Turns int
	// Usage counts the tokens of the run, and Spent what it has spent on each model for each agent, with
	// the runs inside its calls.
	Usage Usage
	Spent []Spent
	// Changes is what the run has changed in files, or nil without [WithChanges].
	Changes *edit.Changes
	// Pending is set if the run was suspended to wait for approvals or results, or was left, see [WithSteps]. Otherwise
	// it is nil.
	Pending *Pending
}

// Text returns the text of the model's last message in Messages, or "" if the user has sent
// another message since. If the run is suspended, the message of the model whose calls wait for
// approval is not yet in Messages, so Text does not return its text.
func (r *Result) Text() string {
	if r.End == EndFailed && r.Turns == 0 {
		return "" // the run failed before the prompt was part of the history, or at once
	}
	for _, m := range slices.Backward(r.Messages) {
		switch {
		case m.Role == RoleAssistant:
			return m.Text()
		case isPrompt(m):
			return ""
		}
	}
	return ""
}

// Loop is the [Agent] of this package: a model, tools, and an [Approver] that decides about
// calls. Between runs, a Loop has no goroutine and does not store the conversation. But it does
// remember which calls of resumed runs have begun, see [Pending].
type Loop struct {
	settings
	first *setup // that runs begin with

	keptRules atomic.Int64 // how many a RuleKeeper has taken

	mu      sync.Mutex
	resumed []string // keys of calls that began in resumed runs, the newest last
}

// New returns an agent that sends its requests to m. The error reports all options that are
// invalid.
func New(m ModelClient, opts ...Option) (*Loop, error) {
	l := &Loop{settings: defaults()}
	c := &config{settings: &l.settings, limits: defaultLimits()}
	var errs []error
	for _, o := range opts {
		if o == nil {
			errs = append(errs, isNilError("option"))
			continue
		}
		if err := o(c); err != nil {
			errs = append(errs, err)
		}
	}
	first, err := l.check(Setup{Client: m, Tools: c.given, Limits: c.limits})
	if err != nil || len(errs) > 0 {
		return nil, fmt.Errorf("new agent: %w", errors.Join(append([]error{err}, errs...)...))
	}
	for _, wrap := range slices.Backward(c.wrapContext) {
		if c.builder = wrap(c.builder); c.builder == nil {
			return nil, fmt.Errorf("new agent: %w", isNilError("builder of WithContextMiddleware"))
		}
	}
	l.first = first
	return l, nil
}

// StartInput returns what each run of l starts with, apart from Messages. For a zero Loop, it is zero.
func (l *Loop) StartInput() StartInput {
	if l == nil || l.first == nil {
		return StartInput{}
	}
	in := l.first.start()
	in.Tools = slices.Clone(in.Tools)
	return in
}

// Run implements [Agent]. Run carries out the actions that a [State] returns, and yields events.
func (l *Loop) Run(ctx context.Context, in Input, opts ...RunOption) iter.Seq2[Event, error] {
	var used atomic.Bool
	return func(yield func(Event, error) bool) {
		if used.Swap(true) {
			yield(nil, ErrConsumed)
			return
		}
		r, err := l.begin(ctx, &in, opts)
		if err != nil {
			yield(nil, err)
			return
		}
		if !r.drive(ctx, yield) {
			return
		}
		if err := r.failure(ctx); err != nil {
			yield(nil, err)
			return
		}
		yield(&RunFinished{Result: r.result()}, nil)
	}
}

// usable returns an error if l or ctx cannot start a run.
func (l *Loop) usable(ctx context.Context) error {
	switch {
	case l == nil || l.first == nil:
		return &ConfigError{Option: "Loop", Err: errors.New("is not made by New")}
	case ctx == nil:
		return isNilError("ctx")
	}
	return nil
}

//go:noinline
func isNilError(what string) error {
	return &ConfigError{Option: what, Err: errors.New("is nil")}
}

// begin makes a new run, or resumes a suspended one.
func (l *Loop) begin(ctx context.Context, in *Input, opts []RunOption) (*run, error) {
	var rc RunConfig
	err := l.usable(ctx)
	for _, opt := range opts { // all of them, because Into may be the last one
		var failed error
		if opt == nil {
			failed = isNilError("RunOption")
		} else {
			failed = opt(&rc)
		}
		if err == nil {
			err = failed
		}
	}
	if err == nil {
		var r *run
		if r, err = l.makeRun(ctx, in, &rc); err == nil {
			return r, nil
		}
	}
	if rc.Into != nil {
		*rc.Into = Result{Messages: in.Messages, End: EndFailed, Pending: in.Pending}
	}
	return nil, err
}

func (l *Loop) makeRun(ctx context.Context, in *Input, rc *RunConfig) (*run, error) {
	if rc.Facts != nil && rc.log == nil || rc.Control != nil && rc.control == nil {
		return nil, &ConfigError{Option: "RunConfig", Err: errors.New("was changed without WithFacts or WithControl")}
	}
	r := newRun(ctx, l, rc)
	r.build = (*run).buildRequest
	var err error
	if rc.Extension != nil {
		err = rc.Extension.extend(r)
	}
	if err == nil {
		err = r.enter(ctx, in)
	}
	if err == nil && r.control != nil {
		err = r.control.attach(&r.state)
	}
	for i := 0; err == nil && i < len(rc.extra); i++ {
		err = rc.extra[i].extend(r)
	}
	return r, err
}

// enter checks the input and makes the initial state.
func (r *run) enter(ctx context.Context, in *Input) error {
	switch {
	case in.Pending != nil:
		return r.resume(ctx, in)
	case len(in.Decisions)+len(in.Results) > 0:
		return &ConfigError{Option: "Input", Err: errors.New("Pending is missing")}
	}
	messages := append(make([]*Message, 0, len(in.Messages)+4), in.Messages...) // with room for those of the run
	if in.Prompt != "" || len(in.Parts) > 0 {
		messages = append(messages, in.message())
	}
	messages, ids, err := checkInput(messages, false)
	if err != nil {
		return err
	}
	r.known = r.setup.Load()
	start := r.known.start()
	start.Messages, start.ids = messages, ids
	if r.ready = r.state.start(&start); r.facts != nil {
		r.start = new(start) // a copy, so that a run without facts allocates nothing
		r.start.Messages = slices.Clip(messages)
	}
	return nil
}

func (in *Input) message() *Message {
	if len(in.Parts) == 0 {
		return User(runes.Clean(in.Prompt))
	}
	m := &Message{Role: RoleUser, Parts: cleanParts(in.Parts)}
	if in.Prompt != "" {
		m.Parts = append(m.Parts, &Text{Text: runes.Clean(in.Prompt)})
	}
	return m
}

// checkInput returns the conversation that a run starts with, and the places of its calls. It
// replaces text that is not valid UTF-8, since that could not be stored as JSON. If paused is true, the
// model may be asked to go on with its own last message.
func checkInput(messages []*Message, paused bool) ([]*Message, *callIDs, error) {
	ids, err := checkHistory(messages)
	if err != nil {
		return nil, nil, err
	}
	if n := len(messages); n == 0 || messages[n-1].Role == RoleAssistant && !paused {
		return nil, nil, &ConfigError{Option: "Input",
			Err: errors.New("nothing to answer: Prompt is empty")}
	}
	clean := messages
	for i, m := range messages {
		c := cleanMessage(m)
		if c == m {
			continue
		}
		if &clean[0] == &messages[0] {
			clean = slices.Clone(messages) // the caller's slice must not change
		}
		clean[i] = c
	}
	if &clean[0] != &messages[0] { // ids that differed may be the same now
		ids, err = checkHistory(clean)
	}
	return clean, ids, err
}

// buildRequest builds the request of a turn and checks the builder's result.
func (r *run) buildRequest(ctx context.Context, in ContextInput) (*Request, error) {
	req, err := r.buildSafely(ctx, in)
	switch {
	case err != nil:
	case req == nil:
		err = errors.New("builder returned nil")
	case r.outline && slices.ContainsFunc(req.Messages, isOutline):
		err = errOutline
	}
	if c, ok := err.(*ContextError); ok && c != nil {
		return nil, c // which says what the builder did
	}
	if err != nil {
		return nil, &ContextError{Op: "build request", Err: err}
	}
	if same(req.Messages, in.Messages) {
		return req, nil // valid by construction
	}
	return req, CheckHistory(req.Messages)
}

var errOutline = errors.New("a message is only an outline: give the agent the middleware of the compactor of WithCompactor")

// buildSafely calls the builder and turns a panic into an error.
func (r *run) buildSafely(ctx context.Context, in ContextInput) (req *Request, err error) {
	defer func() {
		if p := recover(); p != nil {
			r.loop.log(ctx, slog.LevelError, "context builder panicked",
				"panic", p, "stack", string(debug.Stack()))
			req, err = nil, fmt.Errorf("builder panicked: %v", p)
		}
	}()
	if info, ok := As[ModelInfoer](in.Client); ok && in.Window == 0 &&
		r.loop.builder != ContextBuilder(plainContext{}) {
		known, _ := info.ModelInfo(in.Base.Model)
		in.Window = known.Context
	}
	return r.builder.Build(ctx, in)
}

// same reports whether a is b itself, not only equal to it.
func same(a, b []*Message) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// config holds the values that the options of New set.
type config struct {
	*settings
	limits      Limits
	given       []Tool
	wrapContext []ContextMiddleware
}

// settings is the part of config that a Loop keeps.
type settings struct {
	name        string
	builder     ContextBuilder
	approver    Approver
	system      []*Text
	thinking    int
	wrapModel   []ModelMiddleware
	wrapTool    []ToolMiddleware
	setups      *setups                                   // nil without WithSetup
	keepOutput  func(context.Context, *ToolOutput) string // nil without WithWholeOutputs
	keepEncoded bool
	strict      bool
	execute     func(*run, step)
	*environment
	hooks *hooks // nil without an approver and an auditor
}

// An environment is what a loop uses of the program around it. Loops without options for it share one.
type environment struct {
	retry  RetryPolicy
	clock  Clock
	newID  func() string
	random func() float64
	log    logFunc
	trace  func(context.Context, *run) factLog // of WithLogger, or nil
}

// hooks are linked only into programs with an approver or an auditor, see [config.watch].
type hooks struct {
	record func(*run) recorder
	// checkStart returns why a call that was allowed must not start.
	checkStart func(context.Context, *run, *RunTool) error
	named      func(Verdict, *ToolUse, *ToolSpec) Verdict
}
