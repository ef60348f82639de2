package aycoder

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// State is the state of a run. It is a value: [State.Apply] returns the next state and leaves the
// receiver unchanged, so a state can be kept, forked, encoded as JSON and replayed. It does not
// depend on goroutines, clocks, random sources or the order of maps: the same facts always give
// the same state. [Loop.Run] and [Loop.Turn] drive a State; a durable engine can drive one too.
//
// The history of a state is always valid: each tool call has its output. A message of the model and
// the outputs of its calls become part of the history together, when the last output is there.
//
// [Start] makes a State; the zero value accepts no fact. A State is safe for concurrent use.
type State struct {
	rules   *rules
	history transcript
	parts   content // of the message in progress
	calls   []call  // its tool calls, in order; copied before a change
	queue   []*Steered
	phase   string
	end     EndReason
	turn    int // messages of the model in this run
	attempt int // failures since the last message
	cut     cut
	marked  int64 // the limit that the history records, see mark
	made    int   // number of generated call ids
	stop    StopReason
	usage   Usage
	broken  *ModelFailed // the stream broke, and begun calls are still running
}

// rules holds the settings that do not change in a run.
type rules struct {
	model    string
	effects  []toolEffect
	maxTurns int
	maxCalls int
}

type toolEffect struct {
	Name   string `json:"name"`
	Effect Effect `json:"effect"`
}

func (r *rules) effect(tool string) Effect {
	for i := range r.effects {
		if r.effects[i].Name == tool {
			return r.effects[i].Effect
		}
	}
	return EffectUnknown
}

// The phases of a run.
const (
	phaseModel = "model"
	phaseTools = "tools"
	phaseWait  = "wait"
	phaseDone  = "done"
)

// EndReason says why a run ended. It is empty as long as the run goes on. The values are
// also those of the JSON forms.
type EndReason string

// The reasons for the end of a run.
const (
	// EndDone means that the model made no more calls, and no message of the user waits for
	// an answer. [Result.Stop] tells whether its text was cut off.
	EndDone EndReason = "done"
	// EndTurns means that the model would have gone on, but had sent as many messages as
	// [Limits] allows. [Agent] then fails with a [*LimitError].
	EndTurns EndReason = "turns"
	// EndRefused means that the answer ended in a refusal, by the model or a filter of the
	// provider. [Agent] then fails with a [*RefusalError].
	EndRefused EndReason = "refused"
	// EndFailed means that a request to the model failed and was not retried again, or that
	// the input of the run was invalid. The error that [Agent] yields says why.
	EndFailed EndReason = "failed"
	// EndCancelled means that the run was stopped: by a break from the loop over its
	// events, by its context, or by a fatal error of a tool.
	EndCancelled EndReason = "cancelled"
	// EndSuspended means that the run waits for approvals that come from elsewhere. The
	// questions are in [Result.Pending].
	EndSuspended EndReason = "suspended"
)

type callStatus string

const (
	callHeld      callStatus = "held"      // the message is not finished
	callAsked     callStatus = "asked"     // AskApproval is open
	callApproved  callStatus = "approved"  // the call waits for its turn
	callIssued    callStatus = "issued"    // RunTool is open, the tool has not begun
	callBegun     callStatus = "begun"     // the tool works
	callSuspended callStatus = "suspended" // the approval comes from elsewhere
	callSettled   callStatus = "settled"   // the call has its output
)

type call struct {
	use     *ToolUse
	attempt int // attempt at the message that the call belongs to
	effect  Effect
	status  callStatus
	ran     bool
	edited  json.RawMessage // the arguments of an edited approval
	plan    *EditPlan       // the approved plan, until the call is settled
	// prepared is what the driver runs; it is not stored.
	prepared *preparedCall
	// readOnly says that the call was allowed only because it changes nothing.
	readOnly bool
	by       DecidedBy // who allowed it
	output   *ToolOutput
}

// StartInput is the input of [Start]: the conversation, and those settings of a run that
// its [State] depends on.
type StartInput struct {
	// Messages is the conversation, which ends with the message that the model is to
	// answer. It must be valid, see [CheckHistory].
	Messages []*Message
	// Tools are the available tools; only their names and effects matter here.
	Tools []*ToolSpec
	// MaxTurns is the maximum number of messages of the model, MaxCalls the maximum
	// number of calls of one message that are run. Defaults: 50 and 128.
	MaxTurns, MaxCalls int
	// Model names the model. Messages may record how much context a model had room for;
	// that is used only if it was this model.
	Model string

	ids *callIDs // of the calls in Messages, if Messages was checked
}

// Start returns the first state of a run and the first actions, of which one asks the
// model. It does no I/O and does not check the messages.
func Start(in StartInput) (s State, actions []Action) {
	actions = s.start(&in)
	return s, actions
}

// start turns the zero state into the first state of a run.
func (s *State) start(in *StartInput) []Action {
	r := &rules{model: in.Model, maxTurns: in.MaxTurns, maxCalls: in.MaxCalls}
	if r.maxTurns <= 0 {
		r.maxTurns = 50
	}
	if r.maxCalls <= 0 {
		r.maxCalls = 128
	}
	for _, t := range in.Tools {
		r.effects = append(r.effects, toolEffect{t.Name, t.Effect})
	}
	s.rules, s.history, s.phase = r, newTranscript(in.Messages, in.ids), phaseModel
	s.marked = limitIn(in.Messages, in.Model)
	s.cut = cut{limit: s.marked}.at(in.Messages)
	return []Action{s.callModel()}
}

// Messages returns the history, which is valid. The slice and the messages are shared with
// other states of the run and must not be changed.
func (s State) Messages() []*Message { return s.history.All() }

// Phase returns the phase of the run: "model" while the model answers, when read-only
// tools may already run; "tools" when it has finished and calls are open; "wait" before
// it is asked again; or "done".
func (s State) Phase() string { return s.phase }

// End returns why the run ended, or "" if it has not. A run that ended as [EndDone] goes on
// when a [Steered] message comes, and one that was suspended when the answers do.
func (s State) End() EndReason { return s.end }

// Turn returns the number of messages that the model has finished in this run.
func (s State) Turn() int { return s.turn }

// Stop returns why the model stopped last, or "" if it has not finished a message in this run.
func (s State) Stop() StopReason { return s.stop }

// Usage returns the token usage of the run so far: that of all messages of the model, and of
// the models that tools reported with [ToolDone].
func (s State) Usage() Usage { return s.usage }

// Attempt returns the number of failures since the model last finished a message.
func (s State) Attempt() int { return s.attempt }

// Queued returns the steering messages that are not yet part of the history.
func (s State) Queued() []*Steered { return s.queue[:len(s.queue):len(s.queue)] }

// Action is something that a driver must do for a run: [*CallModel], [*AskApproval],
// [*RunTool] or [*Wait]. The driver reports the outcome as a [Fact]. Key identifies the
// action and is the same in every replay of a run. It can serve as an idempotency key,
// as a key in a journal, or as the address of an approval.
type Action interface{ Key() string }

// CallModel asks the model. The driver answers with any number of [BlockDone] and
// [BlockTruncated], and one [MessageDone] or [ModelFailed].
type CallModel struct {
	// Turn counts from 1, Attempt from 0.
	Turn, Attempt int
	// Elide is the number of the oldest messages that are to be left out or shortened,
	// and Limit the maximum number of bytes of text for the others, because the context
	// was too large: see [ContextInput].
	Elide int
	Limit int64
}

// AskApproval asks whether a call may run. The driver answers with [Decided], or with
// [ToolDone] if the call is impossible: an unknown tool, invalid arguments.
type AskApproval struct {
	Turn, Attempt int
	Call          *ToolUse
	Effect        Effect
}

// RunTool runs a call. The driver answers with [ToolBegan] right before the tool
// starts, and then with [ToolDone]. If ToolBegan is refused, the tool must not start.
type RunTool struct {
	Turn, Attempt int
	Call          *ToolUse
	// Args are the arguments to use: those of the call, or those of the approver.
	Args json.RawMessage
	// Edited says that Args are those of the approver.
	Edited bool
	// Plan is the approved plan, or nil. ReadOnly says that the call was allowed only
	// because it changes nothing. See [Invocation] for both.
	Plan     *EditPlan
	ReadOnly bool

	by       DecidedBy // who allowed it
	prepared *preparedCall
}

// Wait tells whoever carries out the actions to wait before the model is asked again after a
// failure, and then to report [Waited].
type Wait struct {
	Turn, Attempt int
	For           time.Duration
}

// Key returns "t1/model", or "t1/model/2" for the second retry.
func (a *CallModel) Key() string { return turnKey(a.Turn, "model", a.Attempt) }

// Key returns "t1/ask/<call id>", or "t1.2/ask/<call id>" in the second retry.
func (a *AskApproval) Key() string { return callKey(a.Turn, a.Attempt, "ask", a.Call.ID) }

// Key returns "t1/tool/<call id>", or "t1.2/tool/<call id>" in the second retry.
func (a *RunTool) Key() string { return callKey(a.Turn, a.Attempt, "tool", a.Call.ID) }

// Key returns "t1/wait/2" for the wait before the second retry.
func (a *Wait) Key() string { return turnKey(a.Turn, "wait", a.Attempt) }

func turnKey(turn int, what string, attempt int) string {
	key := "t" + strconv.Itoa(turn) + "/" + what
	if attempt > 0 {
		key += "/" + strconv.Itoa(attempt)
	}
	return key
}

func callKey(turn, attempt int, what, id string) string {
	key := "t" + strconv.Itoa(turn)
	if attempt > 0 {
		key += "." + strconv.Itoa(attempt)
	}
	return key + "/" + what + "/" + id
}

// Fact is something that happened to a run: [*BlockDone], [*BlockTruncated],
// [*MessageDone], [*ModelFailed], [*Waited], [*Decided], [*ToolBegan], [*ToolDone],
// [*Steered], [*Cancelled] or [*Resumed].
type Fact interface{ fact() }

// ModelFailed reports that the model did not finish its message. [RetryPolicy.Decide]
// decides whether and how to retry.
type ModelFailed struct {
	// Retry says whether the model is asked again, After how long to wait before that.
	Retry bool          `json:"retry"`
	After time.Duration `json:"after,omitempty"`
	// Shrink says that the request must become smaller; if nothing more can be left out,
	// the run fails. Limit is the maximum number of bytes of text that its messages
	// should have, or 0 if that is open.
	Shrink bool  `json:"shrink,omitempty"`
	Limit  int64 `json:"limit,omitempty"`
	// Keep says that the complete blocks stay in the history, because the message was
	// too long. Their calls are not run.
	Keep bool `json:"keep,omitempty"`
}

// Waited reports that a [Wait] is over.
type Waited struct{}

// ToolBegan reports that a tool is about to start. Once it is accepted, the call is
// never run again.
type ToolBegan struct{ ID string }

// ToolDone reports the outcome of a call. The call need not have begun: a call that cannot
// run is settled with the output of an error.
type ToolDone struct {
	ID     string
	Output *ToolOutput
	// Usage is added to the usage of the run.
	Usage Usage
}

// Decided reports the answer to an [AskApproval]: whether the call may run, and with which
// arguments or which plan.
type Decided struct{ Decision Decision }

// Steered carries a message of the user to the model. The message joins the history at
// the next turn boundary, or with FollowUp when the run would end. While the model is
// asked and has not answered anything yet, it joins the history at once, so either
// apply it before the driver starts [CallModel], or keep it until a block has come.
type Steered struct {
	Message  *Message `json:"message"`
	FollowUp bool     `json:"follow_up,omitempty"`
}

// Cancelled ends the run. Open calls get an output that says so, which keeps the history
// valid; the blocks that are complete stay in it.
type Cancelled struct{}

// Resumed reports that the previous driver of the run is gone and another one
// continues: the outcome of calls that had begun is unknown, and approvals are asked
// for again. It is for drivers of a [State]; others resume a run with [Input.Pending].
type Resumed struct{}

func (*BlockDone) fact()      {}
func (*BlockTruncated) fact() {}
func (*MessageDone) fact()    {}
func (*ModelFailed) fact()    {}
func (*Waited) fact()         {}
func (*ToolBegan) fact()      {}
func (*ToolDone) fact()       {}
func (*Decided) fact()        {}
func (*Steered) fact()        {}
func (*Cancelled) fact()      {}
func (*Resumed) fact()        {}

// FactError reports that a fact does not fit the state to which it was applied, such as
// the outcome of a call that is not open.
type FactError struct {
	Fact Fact
	// Phase is the phase of the [State].
	Phase string
	// Reason says why the fact does not fit.
	Reason string
}

// Error implements error.
func (e *FactError) Error() string {
	return fmt.Sprintf("apply %T in phase %q: %s", e.Fact, e.Phase, e.Reason)
}

// Apply returns the state after f and the actions that are now to be done. If f does
// not fit the state, the error is a [*FactError] and the state is returned unchanged.
func (s State) Apply(f Fact) (State, []Action, error) {
	next := s
	actions, reason := next.apply(f)
	if reason != "" {
		return s, nil, &FactError{Fact: f, Phase: s.phase, Reason: reason}
	}
	return next, actions, nil
}

// apply changes s. If it returns a reason to refuse f, s is not usable any more.
func (s *State) apply(f Fact) ([]Action, string) {
	if s.rules == nil {
		return nil, "the run was not started"
	}
	switch f := f.(type) {
	case *BlockDone:
		return s.blockDone(f.Part)
	case *BlockTruncated:
		return s.blockCut(f.Call)
	case *MessageDone:
		return s.messageDone(f)
	case *ModelFailed:
		return s.modelFailed(f)
	case *Waited:
		return s.waited()
	case *Decided:
		return s.decided(&f.Decision)
	case *ToolBegan:
		return s.toolBegan(f.ID)
	case *ToolDone:
		return s.toolDone(f)
	case *Steered:
		return s.steered(f)
	case *Cancelled:
		return s.cancelled()
	case *Resumed:
		return s.resumed()
	}
	return nil, "no such fact"
}

// Outstanding returns the open actions, so that a driver that has only the state can do
// them. If the previous driver is gone, apply [Resumed] first.
func (s State) Outstanding() []Action {
	var out []Action
	switch s.phase {
	case phaseModel:
		out = append(out, s.callModel())
	case phaseWait:
		out = append(out, &Wait{Turn: s.turn + 1, Attempt: s.attempt, For: s.broken.After})
	}
	for i := range s.calls {
		switch s.calls[i].status {
		case callAsked:
			out = append(out, s.ask(i))
		case callIssued:
			out = append(out, s.runTool(i))
		}
	}
	return out
}

func (s *State) find(id string) int {
	return slices.IndexFunc(s.calls, func(c call) bool { return c.use.ID == id })
}

// own makes a private copy of the calls, so that they can be changed.
func (s *State) own() { s.calls = slices.Clone(s.calls) }

// talking reports whether the model may still send blocks.
func (s *State) talking() bool { return s.phase == phaseModel }

// blockDone records a complete block. A read-only call may start at once, unless a
// writing call stands before it: it must see the result of that.
func (s *State) blockDone(p Part) ([]Action, string) {
	if !s.talking() {
		return nil, "the model is not talking"
	}
	if isNil(p) {
		return nil, "the part is nil"
	}
	switch p := p.(type) {
	case *ToolUse:
		return s.callDone(p)
	case *Text, *Thinking, *Media, *Opaque:
		s.parts = s.parts.append(p)
		return nil, ""
	}
	return nil, "no part of an assistant's message"
}

func (s *State) over(end EndReason, actions []Action) ([]Action, string) {
	s.phase, s.end = phaseDone, end
	return actions, ""
}

func (s *State) ask(i int) *AskApproval {
	c := &s.calls[i]
	return &AskApproval{Turn: s.turn + 1, Attempt: c.attempt, Call: c.use, Effect: c.effect}
}
