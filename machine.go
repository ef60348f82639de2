package aycoder

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/internal/persist"
)

// State is the state of a run. It is a value: [State.Apply] returns the next state and leaves the
// receiver unchanged, so a state can be kept, forked, encoded as JSON and replayed. The next
// state does not depend on goroutines, clocks, random numbers or map order: the same facts always
// give the same state. [Loop.Run] and [Loop.Turn] use a State; so can a durable workflow engine.
//
// The history of a state is always valid: each tool call has its output. A message of the model
// joins the history together with the outputs of its calls, once the last output is known.
//
// [Start] makes a State; a zero State accepts no fact. A State is safe for concurrent use.
type State struct{ machine }

// A machine is what a [State] holds, without its JSON form. A run has a machine, so that programs that
// do not use this form need not link it.
type machine struct {
	rules   *rules
	history transcript
	parts   persist.List[Part] // of the message in progress
	calls   []call             // its tool calls, in order; copied before a change
	queue   []*Steered
	phase   uint8
	end     EndReason
	turn    int // messages of the model in this run
	attempt int // failures since the last message
	cut     cut
	marked  int64           // the limit that the history records, see mark
	note    json.RawMessage // of the last Compacted, and whether the history records it
	noted   bool
	stop    StopReason
	usage   Usage
	// spent has no name of an agent for what the run's own agent has spent: see answered.
	spent     []Spent
	lastSpent Spent
	broken    *ModelFailed // the stream broke, and begun calls are still running
}

// rules holds the settings of a run. They are shared, and replaced as a whole.
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

// find returns the effect of a tool, and whether there is such a tool.
func (r *rules) find(tool string) (Effect, bool) {
	for i := range r.effects {
		if r.effects[i].Name == tool {
			return r.effects[i].Effect, true
		}
	}
	return EffectUnknown, false
}

// The phases of a run. A zero State is in none.
const (
	phaseModel = iota + 1
	phaseTools
	phaseWait
	phaseDone
)

// phaseNames are the phases in JSON, in their order.
var phaseNames = [...]string{"", "model", "tools", "wait", "done"}

// EndReason says why a run ended, or is empty while it goes on. JSON forms use the same values.
type EndReason string

// The reasons for the end of a run.
const (
	// EndDone means that the model answered without another call, or that the result of a call was
	// final (see [ToolResult]), and that no message of the user is left to answer. [Result.Stop]
	// tells whether the answer was cut off.
	EndDone EndReason = "done"
	// EndTurns means that the run needs another message of the model, but [Limits].Turns allows
	// no more messages. Run of [Agent] then yields a [*LimitError].
	EndTurns EndReason = "turns"
	// EndRefused means that the model, or a filter of the provider, refused to answer. Run of
	// [Agent] then yields a [*RefusalError].
	EndRefused EndReason = "refused"
	// EndFailed means that a request to the model failed for good, or that the input of the run
	// was invalid. The error that Run of [Agent] yields says why.
	EndFailed EndReason = "failed"
	// EndCancelled means that the run was stopped: by leaving the loop over its events, by its
	// context, or by a fatal error of a tool.
	EndCancelled EndReason = "cancelled"
	// EndSuspended means that the run waits for approvals, which somebody can give later. The
	// questions are in [Result.Pending].
	EndSuspended EndReason = "suspended"
)

// A callStatus is how far a call is. Its name in JSON is in statusNames.
type callStatus uint8

const (
	callHeld      callStatus = iota // the message is not finished
	callAsked                       // AskApproval is open
	callApproved                    // the call waits for its turn
	callIssued                      // RunTool is open, the tool has not begun
	callBegun                       // the tool works
	callOutside                     // its result comes from outside, while the run lives
	callDeferred                    // or later
	callSuspended                   // the approval comes from elsewhere
	callSettled                     // the call has its output
)

type call struct {
	use     *ToolUse
	attempt int // attempt at the message that the call belongs to
	effect  Effect
	status  callStatus
	ran     bool
	final   bool // see [ToolResult].Final
	// readOnly says that the call was allowed only because it changes nothing.
	readOnly bool
	edited   json.RawMessage // the arguments of an edited approval
	plan     *edit.Plan      // the approved plan, until the call is settled
	// prepared is what the driver runs; it is not stored.
	prepared *preparedCall
	by       DecidedBy // who allowed it
	output   *ToolOutput
	outside  bool         // see [Decision]
	request  *CallRequest // for its result, once it was made
}

// StartInput is the input of [Start]: a conversation, and the settings that a [State] needs.
type StartInput struct {
	// Messages is the conversation. It ends with the message that the model is to answer, and
	// must be valid: see [CheckHistory].
	Messages []*Message
	// Tools are the available tools. Only their names and effects are used.
	Tools []*ToolSpec
	// MaxTurns is how many messages the model may send. Default: 50. MaxCalls is how many calls
	// of one message may run. Default: 128.
	MaxTurns, MaxCalls int
	// Model is the name of the model. The history may contain records of the largest request that
	// a model accepts. Only a record about this model is used.
	Model string

	ids *callIDs // of the calls in Messages, if Messages was checked
}

// Start returns the first state of a run and the first actions, one of which asks the model. It
// does no I/O and does not check the messages.
func Start(in StartInput) (s State, actions []Action) {
	actions = s.start(&in)
	return s, actions
}

// start turns the zero state into the first state of a run.
func (s *machine) start(in *StartInput) []Action {
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
	s.marked, s.note = markIn(in.Messages, in.Model)
	s.noted = true
	s.cut = cut{limit: s.marked}.at(in.Messages)
	return []Action{s.callModel()}
}

// Messages returns the history, which is always valid. The slice and the messages are shared with
// other states of the run and must not be changed.
func (s State) Messages() []*Message { return s.history.All() }

// Phase returns the phase of the run: "model" while the model sends a message; "tools" while
// calls of the complete message are open; "wait" before a request to the model is repeated; or
// "done". In the phase "model", read-only tools may already run.
func (s State) Phase() string { return phaseNames[s.phase] }

// End returns why the run ended, or "" if it has not. A run with [EndDone] goes on when a
// [Steered] message comes. A suspended run goes on when its questions are answered.
func (s State) End() EndReason { return s.end }

// Turn returns the number of messages that the model has finished in this run.
func (s State) Turn() int { return s.turn }

// Stop returns why the model ended its last message, or "" before its first message in this run.
func (s State) Stop() StopReason { return s.stop }

// Usage returns the token usage of the run so far, including that of tools (see [ToolDone]).
func (s State) Usage() Usage { return s.usage }

// Spent returns the same as [Result].Spent, but without the name of the run's own agent.
func (s State) Spent() []Spent { return slices.Clone(s.allSpent()) }

// Attempt returns the number of failed requests since the model last finished a message.
func (s State) Attempt() int { return s.attempt }

// Queued returns the steering messages that are not yet part of the history.
func (s State) Queued() []*Steered { return s.queue[:len(s.queue):len(s.queue)] }

// Action is something that the driver of a [State], such as [Loop.Run], must do: [*CallModel],
// [*AskApproval], [*RunTool] or [*Wait]. The driver reports the outcome as a [Fact]. Key
// identifies the action and is the same in every replay of the run. It can serve as an
// idempotency key, as a key in a journal, or as the address of an approval.
type Action interface{ Key() string }

// CallModel is the [Action] to ask the model. Its outcome is any number of [BlockDone] and
// [BlockTruncated] facts, and then one [MessageDone] or [ModelFailed].
type CallModel struct {
	// Turn is the number of the message, from 1. Attempt is the number of the retry, or 0.
	Turn, Attempt int
	// Elide is how many of the oldest messages to leave out or shorten. Limit is the maximum size
	// of the text that remains, in bytes. Both are 0 until the model has refused a request as too
	// large: see [ContextInput].
	Elide int
	Limit int64
}

// AskApproval is the [Action] to find out whether a call may run. Its outcome is the fact
// [Decided], or [ToolDone] if the call cannot run because its tool is unknown or its arguments
// are invalid.
type AskApproval struct {
	Turn, Attempt int
	Call          *ToolUse
	Effect        Effect
}

// RunTool is the [Action] to run a call. Apply [ToolBegan] right before the tool starts, and
// [ToolDone] afterwards. If the state refuses ToolBegan, the tool must not start. For a call with
// Outside, apply [CallRequested] instead, and ToolDone when somebody has given its result.
type RunTool struct {
	Turn, Attempt int
	Call          *ToolUse
	// Effect is that of the tool.
	Effect Effect
	// Args are the arguments to use: the model's, or those that an approval put in their place.
	Args json.RawMessage
	// Edited says that an approval replaced the model's arguments.
	Edited bool
	// Plan is the approved plan, or nil. ReadOnly says that the call was allowed only because it
	// changes nothing. Pass both to the tool in its [Invocation].
	Plan     *edit.Plan
	ReadOnly bool
	// Outside says that the tool is only declared, see [DeclareTool].
	Outside bool

	by       DecidedBy    // who allowed it
	answer   any          // a *ToolResult from outside, or nil
	request  *CallRequest // which it answers
	prepared *preparedCall
	slots    chan struct{} // of which the call takes one while it runs
	inner    []Spent       // by runs inside of the call that have ended
	runs     []*run        // the others
}

// Wait is the [Action] to wait for the duration For after a failure of the model. Its outcome is
// the fact [Waited], after which the state asks the model again.
type Wait struct {
	Turn, Attempt int
	For           time.Duration
}

// Key returns "t1/model" in turn 1, or "t1/model/2" after two failed requests.
func (a *CallModel) Key() string { return turnKey(a.Turn, "model", a.Attempt) }

// Key returns "t1/ask/<call id>" in turn 1, or "t1.2/ask/<call id>" after two failed requests.
func (a *AskApproval) Key() string { return callKey(a.Turn, a.Attempt, "ask", a.Call.ID) }

// Key returns "t1/tool/<call id>" in turn 1, or "t1.2/tool/<call id>" after two failed requests.
//
//go:noinline
func (a *RunTool) Key() string { return callKey(a.Turn, a.Attempt, "tool", a.Call.ID) }

// Key returns "t1/wait/2" in turn 1 for the wait after the second failed request.
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

// FactError reports that a fact does not fit the state to which it was applied, for example the
// outcome of a call that is not open.
type FactError struct {
	Fact Fact
	// Phase is the phase of the state, see [State.Phase].
	Phase string
	// Reason says why the fact does not fit.
	Reason string
}

// Error implements error.
func (e *FactError) Error() string {
	return fmt.Sprintf("apply %T in phase %q: %s", e.Fact, e.Phase, e.Reason)
}

// Apply returns the state after f, and the actions that the caller must do now. If f does not fit
// the state, the error is a [*FactError] and the state is returned unchanged.
func (s State) Apply(f Fact) (State, []Action, error) {
	actions, err := s.accept(f)
	return s, actions, err
}

// accept is Apply in place. A machine is large, and each copy of one on the stack of a goroutine
// that asks a model may make this stack grow.
func (s *machine) accept(f Fact) ([]Action, error) {
	next := *s
	actions, reason := next.apply(f)
	if reason != "" {
		return nil, &FactError{Fact: f, Phase: phaseNames[s.phase], Reason: reason}
	}
	*s = next
	return actions, nil
}

// apply changes s. If it returns a reason to refuse f, s is not usable any more.
func (s *machine) apply(f Fact) ([]Action, string) {
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
		return s.decided(f)
	case *ToolBegan:
		return s.toolBegan(f.ID)
	case *ToolDone:
		return s.toolDone(f)
	case *Steered:
		return s.steered(f)
	case *Compacted:
		return s.compacted(f)
	case *SetupChanged:
		return s.setupChanged(f)
	case *Cancelled:
		return s.cancelled(f)
	case *Resumed:
		return s.resumed(f)
	}
	if f, ok := f.(interface { // does not get s, which would make each state an allocation
		applyTo([]call) ([]call, string)
	}); ok {
		calls, reason := f.applyTo(s.calls)
		s.calls = calls
		return nil, reason
	}
	return nil, "no such fact"
}

// Outstanding returns the actions that are still to be done, for a program that has only the
// state. If another program may have begun these actions, apply [Resumed] first.
func (s State) Outstanding() []Action { return s.outstanding() }

func (s *machine) outstanding() []Action {
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
		case callIssued, callOutside:
			out = append(out, s.runTool(i))
		}
	}
	return out
}

//go:noinline
func (s *machine) find(id string) int {
	return slices.IndexFunc(s.calls, func(c call) bool { return c.use.ID == id })
}

// own makes a private copy of the calls, so that they can be changed.
//
//go:noinline
func (s *machine) own() { s.calls = slices.Clone(s.calls) }

// talking reports whether the model may still send blocks.
func (s *machine) talking() bool { return s.phase == phaseModel }

// blockDone records a complete block. A read-only call may start at once, unless an earlier call
// writes: the read-only call must see the result of that write.
func (s *machine) blockDone(p Part) ([]Action, string) {
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
		s.parts = s.parts.Append(p)
		return nil, ""
	}
	return nil, "no part of an assistant's message"
}

// over ends the run. If the model has not answered since the last note, a message to itself records that:
// the summary in it is paid for.
func (s *machine) over(end EndReason, actions []Action) ([]Action, string) {
	if !s.noted && end != EndSuspended {
		s.history = s.history.append(&Message{Role: RoleUser, Parts: []Part{s.mark()}})
	}
	s.phase, s.end = phaseDone, end
	return actions, ""
}

func (s *machine) ask(i int) *AskApproval {
	c := &s.calls[i]
	return &AskApproval{Turn: s.turn + 1, Attempt: c.attempt, Call: c.use, Effect: c.effect}
}
