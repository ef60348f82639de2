package aycoder

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"
)

// State is where a run stands. It is a value: [State.Apply] returns the next one
// and leaves the receiver as it was, so a state can be kept, forked, encoded as
// JSON and replayed. It has no goroutine, clock, random source or map order in it:
// the same facts give the same state, everywhere and always. [Loop.Run] and
// [Loop.Turn] are drivers of it; a durable engine can be another.
//
// The history it holds is valid in every state: each tool call has its output.
// What the model says and what its tools give becomes part of the history at once,
// when the last output is there.
//
// Start makes a State; the zero value accepts no fact. A State is safe for
// concurrent use.
type State struct {
	rules   *rules
	history transcript
	parts   content // of the message that is on its way
	calls   []call  // its tool calls, in order; copied before it is changed
	queue   []*Steered
	phase   string
	end     EndReason
	turn    int // messages of the model in this run
	attempt int // failures since the last one
	cut     cut
	marked  int64 // the limit that is on record in the history
	made    int   // ids of calls that were made up
	stop    StopReason
	usage   Usage
	broken  *ModelFailed // the stream broke, and calls that had begun are waited for
}

// rules are what does not change in a run.
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

// The phases of a run: what it is waiting for.
const (
	phaseModel = "model"
	phaseTools = "tools"
	phaseWait  = "wait"
	phaseDone  = "done"
)

// EndReason is why a run is over.
type EndReason string

// The ends of a run.
const (
	EndDone      EndReason = "done"      // the model had nothing more to do
	EndTurns     EndReason = "turns"     // the bound on turns was reached
	EndRefused   EndReason = "refused"   // the model refused
	EndFailed    EndReason = "failed"    // the model could not be asked
	EndCancelled EndReason = "cancelled" // by break, by the context, by a fatal error of a tool
	EndSuspended EndReason = "suspended" // approvals are to be given elsewhere
)

type callStatus string

const (
	callHeld      callStatus = "held"      // the message is not finished
	callAsked     callStatus = "asked"     // AskApproval is open
	callApproved  callStatus = "approved"  // waits for its turn
	callIssued    callStatus = "issued"    // RunTool is open, the tool has not begun
	callBegun     callStatus = "begun"     // the tool works
	callSuspended callStatus = "suspended" // the approval is given elsewhere
	callSettled   callStatus = "settled"   // it has its output
)

type call struct {
	use     *ToolUse
	attempt int // of the try it came in
	effect  Effect
	status  callStatus
	ran     bool
	edited  json.RawMessage // the arguments of an edited approval
	plan    *EditPlan       // that was approved, until the call is settled
	// readOnly says that it was allowed only because it changes nothing.
	readOnly bool
	output   *ToolOutput
}

// StartInput is what a run starts from.
type StartInput struct {
	// Messages is the conversation, ending with what the model shall answer. It is
	// valid, as [CheckHistory] says.
	Messages []*Message
	// Tools are the tools there are; only their names and effects matter here.
	Tools []*ToolSpec
	// MaxTurns bounds the messages of the model, MaxCalls the calls of one message
	// that are run. Default: 50 and 128.
	MaxTurns, MaxCalls int
	// Model names the model. What Messages say about the size of the context is about
	// the model that was asked then.
	Model string

	ids *callIDs // of the calls in Messages, if they were checked
}

// Start returns the first state of a run and what is to be done first.
func Start(in StartInput) (s State, actions []Action) {
	actions = s.start(&in)
	return s, actions
}

// start makes the zero state the first of a run.
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

// Messages returns the history. It is valid, and shared: do not change it.
func (s State) Messages() []*Message { return s.history.all() }

// Phase returns what the run is waiting for: "model" while the model is asked or talks
// and read-only tools may work, "tools" when it has finished and calls are open, "wait" for
// the time to ask it again, or "done".
func (s State) Phase() string { return s.phase }

// End returns why the run is over, or "" while it is not.
func (s State) End() EndReason { return s.end }

// Turn returns how many messages the model has finished in this run.
func (s State) Turn() int { return s.turn }

// Stop returns why the model stopped last.
func (s State) Stop() StopReason { return s.stop }

// Usage returns the tokens of the run so far.
func (s State) Usage() Usage { return s.usage }

// Attempt returns how often the model has failed since it last finished a message.
func (s State) Attempt() int { return s.attempt }

// Queued returns the messages that were steered and have not found their place.
func (s State) Queued() []*Steered { return s.queue[:len(s.queue):len(s.queue)] }

// Action is something to be done for a run: [*CallModel], [*AskApproval],
// [*RunTool] or [*Wait]. A driver does it, and reports with a [Fact] what came of
// it. Key names the action, the same way in every replay of a run: it is an
// idempotency key, a journal key, an address for approvals.
type Action interface{ Key() string }

// CallModel asks the model. It is answered by any number of [BlockDone] and
// [BlockTruncated], and one [MessageDone] or [ModelFailed].
type CallModel struct {
	// Turn counts from 1, Attempt from 0.
	Turn, Attempt int
	// Elide is the number of oldest messages that are to be left out or shortened,
	// and Limit the most bytes of text that the others may have, as the context was too
	// large: see [ContextInput].
	Elide int
	Limit int64
}

// AskApproval asks whether a call may run. It is answered by [Decided], or by
// [ToolDone] if the call is impossible: an unknown tool, wrong arguments.
type AskApproval struct {
	Turn, Attempt int
	Call          *ToolUse
	Effect        Effect
}

// RunTool runs a call. It is answered by [ToolBegan] right before the tool starts,
// which is refused if it must not start any more, and [ToolDone].
type RunTool struct {
	Turn, Attempt int
	Call          *ToolUse
	// Args are the arguments to use: those of the call, or the approver's.
	Args json.RawMessage
	// Edited says that they are the approver's.
	Edited bool
	// Plan is what was approved, or nil, and ReadOnly that the call was allowed only
	// because it changes nothing: see [Invocation].
	Plan     *EditPlan
	ReadOnly bool
}

// Wait waits. It is answered by [Waited].
type Wait struct {
	Turn, Attempt int
	For           time.Duration
}

// Key returns "t1/model", and "t1/model/2" for the second try again.
func (a *CallModel) Key() string { return turnKey(a.Turn, "model", a.Attempt) }

// Key returns "t1/ask/<call id>", and "t1.2/ask/<call id>" in the second try again.
func (a *AskApproval) Key() string { return callKey(a.Turn, a.Attempt, "ask", a.Call.ID) }

// Key returns "t1/tool/<call id>", and "t1.2/tool/<call id>" in the second try again.
func (a *RunTool) Key() string { return callKey(a.Turn, a.Attempt, "tool", a.Call.ID) }

// Key returns "t1/wait/2" for the wait before the second try again.
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

// ModelFailed says that the model did not finish its message. What it says about
// trying again was decided by [RetryPolicy.Decide].
type ModelFailed struct {
	// Retry says whether the model is asked again, After how long before.
	Retry bool          `json:"retry"`
	After time.Duration `json:"after,omitempty"`
	// Shrink says that the request must become smaller: if there is nothing to leave
	// out, the run fails. Limit is the most bytes of text that its messages should have;
	// 0 leaves that open.
	Shrink bool  `json:"shrink,omitempty"`
	Limit  int64 `json:"limit,omitempty"`
	// Keep says that the blocks that are complete stay in the history, as the message
	// was too long. Their calls are not run.
	Keep bool `json:"keep,omitempty"`
}

// Waited says that a [Wait] is over.
type Waited struct{}

// ToolBegan says that a tool is about to start. Once it is accepted the call is
// never run again.
type ToolBegan struct{ ID string }

// ToolDone says what a call gave.
type ToolDone struct {
	ID     string
	Output *ToolOutput
	// Usage is added to that of the run.
	Usage Usage
}

// Decided says whether a call may run.
type Decided struct{ Decision Decision }

// Steered carries a message of the user's to the model: at the next turn
// boundary, or with FollowUp when the run would end. While the model is asked and
// has said nothing, it becomes part of the history at once: apply it before doing
// [CallModel], or keep it until a block has come.
type Steered struct {
	Message  *Message `json:"message"`
	FollowUp bool     `json:"follow_up,omitempty"`
}

// Cancelled ends the run. What is open gets an output that says so.
type Cancelled struct{}

// Resumed says that whatever worked on the run is gone, and someone else goes on:
// calls that had begun have an unknown outcome, approvals are asked for again.
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

// FactError says that a fact does not fit the state it was applied to.
type FactError struct {
	Fact Fact
	// Phase is that of the [State].
	Phase string
	// Reason says why.
	Reason string
}

// Error implements error.
func (e *FactError) Error() string {
	return fmt.Sprintf("apply %T in phase %q: %s", e.Fact, e.Phase, e.Reason)
}

// Apply returns the state after f and what is to be done now. A fact that does not
// fit is refused with a [*FactError]; the state is then returned as it was.
func (s State) Apply(f Fact) (State, []Action, error) {
	next := s
	actions, reason := next.apply(f)
	if reason != "" {
		return s, nil, &FactError{Fact: f, Phase: s.phase, Reason: reason}
	}
	return next, actions, nil
}

// apply changes s, which is then of no use if there is a reason to refuse f.
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

// Outstanding returns the actions that are open, to be issued again by someone who
// has only the state. Apply [Resumed] first if whoever worked on them is gone.
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
