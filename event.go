package aycoder

import (
	"encoding/json"
	"time"

	"github.com/aycoder/aycoder/edit"
)

// Event is an event of a run: [*TextDelta], [*ThinkingDelta], [*ToolDelta], [*ToolStarted],
// [*ToolProgress], [*ToolFinished], [*ApprovalRequested], [*CallRequested], [*Merged], [*Conflicted],
// [*ChildEvent], [*TurnFinished], [*Retrying], [*Compacting], [*Compacted], [*SetupChanged], [*JobsChanged],
// [*Notice] or [*RunFinished]. Each encodes as a JSON object with a "type", and [DecodeEvent] decodes it; docs/events.md lists the keys.
// The example CLI prints these objects, one per line, with -output events. The values that an event
// points to are shared with the run and must not be changed.
type Event interface{ event() }

// ToolStarted reports that a tool call has started. Parallel calls start and finish in any order,
// but their outputs are in the history in the order of the calls. A call that is denied or
// invalid does not start: it has a [ToolFinished] without a ToolStarted.
type ToolStarted struct {
	Call *ToolUse
	// Args are the arguments that the tool gets: the model's, unless an approval replaced them.
	Args json.RawMessage
	// Subject is what the call acts on, such as a path or a command. It is "" if the tool has none.
	Subject string
	// Eager says that the call started while the model was still writing its message. Whether a
	// read-only call starts that early depends on timing.
	Eager bool
	// By says who allowed the call.
	By DecidedBy
}

// ToolProgress reports a call's progress. A host that reads slowly gets only the latest report.
type ToolProgress struct {
	CallID string `json:"id"`
	Progress
}

// ToolFinished reports the outcome of a call. If the call was not run, for example because it was
// denied or has wrong arguments, no [ToolStarted] comes before it. The output joins the history
// as soon as all calls of the message have an output.
type ToolFinished struct {
	Call *ToolUse
	// Subject is what the call acts on, such as a path or a command.
	Subject string
	// Output is the output that the model reads.
	Output *ToolOutput
	// Summary describes the outcome to people in a few words, such as "9 lines".
	Summary string
	// Usage counts the tokens of the tool's requests to models, from [ToolResult].Usage.
	Usage Usage
	// Changes says what the call did to files. It is nil if the tool does not report that.
	Changes *edit.Result
	// Elapsed is how long the tool ran, or 0 if the call was not run. For a declared tool, it is how
	// long its result took.
	Elapsed time.Duration
	// Err says why the call did not run to its end, and unwraps to a [*ToolError]. Err is nil if
	// the tool returned a result, even an [ErrorResult].
	Err error
}

// Merged reports that a call changed a file which somebody else had changed after the model read
// it. The file now contains both changes. The event comes right before the call's [ToolFinished].
type Merged struct {
	Call *ToolUse
	// File is the result for the file. File.UserChanges holds the changes by somebody else.
	File *edit.FileResult
}

// Conflicted reports that a call's change to a file conflicts with a change by somebody else. The
// file is unchanged or has conflict markers. The call's [ToolFinished] follows directly. A host whose
// user resolves conflicts before the call ends uses WithConflicts of package tools: a conflict that was
// resolved is reported as [Merged].
type Conflicted struct {
	Call *ToolUse
	// File.Reason describes the conflict. File.Merge holds both sides, for a person to resolve.
	File *edit.FileResult
}

// TurnFinished reports that the history now contains a new message of the model and the outputs
// of all its calls. If the run was resumed in the middle of the message, the event has neither its usage
// and cost nor its model and ids; Usage of [Result] counts the message.
type TurnFinished struct {
	// Turn is the number of the message in this run, counted from 1.
	Turn int        `json:"turn"`
	Stop StopReason `json:"stop"`
	// Usage counts the tokens of the message alone. [ToolFinished].Usage counts those of a call.
	// Cost is the cost of the message in US dollars, or nil if it is unknown.
	Usage Usage    `json:"usage"`
	Cost  *float64 `json:"cost,omitempty"`
	// Provider and Model name the model that answered, also if it is not the first choice of a
	// client with a fallback. ID and RequestID are the provider's ids of the message and of the
	// request. The fields are empty as far as the client does not tell them, see [MessageDone].
	Provider  string `json:"provider,omitempty"`
	Model     string `json:"model,omitempty"`
	ID        string `json:"id,omitempty"`
	RequestID string `json:"request_id,omitempty"`
}

// Retrying reports that a failed request to the model is sent again. Either the loop does so, or
// a [ModelMiddleware], which then yields the Retrying as a [ModelEvent].
type Retrying struct {
	// Discarded says that the unfinished message is dropped. A display should then remove all
	// that came after the last TurnFinished. If Discarded is false, a display should remove only
	// an incomplete block: any complete blocks are kept, because a tool of the message has begun.
	Discarded bool
	// Attempt is the number of this retry, counted from 1. After is the wait before it.
	Attempt int
	After   time.Duration
	// Err is the error that caused the retry.
	Err error
}

// Compacting reports that a [ContextBuilder] begins to leave out more of the conversation, which
// takes long if a model writes a summary. A [Compacted] follows, unless the run ends before it.
type Compacting struct {
	// Reason is "threshold" if the request would be too large, "refusal" if the model has refused
	// it as too large, or "command" if the user has asked for it.
	Reason string `json:"reason"`
	// Tokens estimates the request as it is. Budget is how many tokens it may have, or 0 if that is
	// unknown.
	Tokens int64 `json:"tokens,omitempty"`
	Budget int64 `json:"budget,omitempty"`
	// Needed says that the request does not fit otherwise, so that nobody can refuse the compaction.
	Needed bool `json:"needed,omitempty"`
}

// Compacted reports that the requests have less of the conversation from now on: see
// [ContextInput.Compact]. The history still has all of it. Compacted is also a [Fact], which is
// recorded before the next request is sent.
type Compacted struct {
	// Note is JSON by which the [ContextBuilder] knows what it left out: see [ContextInput.Note]. It
	// is nil if the compaction did not come about, so that only Usage counts.
	Note json.RawMessage `json:"note,omitempty"`
	// Summary is the text that stands for Replaced messages. Shortened is how many outputs and texts
	// are shortened since.
	Summary   string `json:"summary,omitempty"`
	Replaced  int    `json:"replaced,omitempty"`
	Shortened int    `json:"shortened,omitempty"`
	// Before and After estimate the tokens of the request.
	Before int64 `json:"before,omitempty"`
	After  int64 `json:"after,omitempty"`
	// Untrusted says that the summary has text from an untrusted source, see [ToolOutput].
	Untrusted bool `json:"untrusted,omitempty"`
	// Usage counts the tokens of the request for the summary, also if its answer was not used. The
	// run's usage includes them. Cost is what they cost in US dollars, or nil if that is unknown.
	// Provider and Model name the model that was asked, and Error says why
	// its answer was not used, or is empty.
	Usage    Usage    `json:"usage,omitzero"`
	Cost     *float64 `json:"cost,omitempty"`
	Provider string   `json:"provider,omitempty"`
	Model    string   `json:"model,omitempty"`
	Error    string   `json:"error,omitempty"`
}

// SetupChanged reports that the run has another setup from now on, see [WithSetup]: other tools, specs
// of tools or an order of them, another model, or other limits of turns and calls. It is also a [Fact],
// which is recorded before the next request is sent. If MaxTurns is not more than [State.Turn], it
// ends the run. If the model is another one, [State.Outstanding] has the [CallModel] that applies.
type SetupChanged struct {
	// Tools are the names and effects of all tools that the model may call.
	Tools map[string]Effect `json:"tools"`
	// Added, Removed and Changed name the tools that are new, gone, or described otherwise.
	Added   []string `json:"added,omitempty"`
	Removed []string `json:"removed,omitempty"`
	Changed []string `json:"changed,omitempty"`
	// Model is "provider/model", or "" if the client does not tell it: see [ModelNamer].
	Model string `json:"model,omitempty"`
	// MaxTurns and MaxCalls are Turns and Calls of [Limits].
	MaxTurns int `json:"max_turns"`
	MaxCalls int `json:"max_calls"`
}

// Notice tells the user something that is neither an error nor a part of the conversation, such as the
// warning of a hook, or a mistake in a file of settings. No run of a [Loop] yields one by itself: an [Agent]
// that wraps another one adds it to the sequence.
type Notice struct {
	// Source says who tells it, such as "config" or "hook". Text is a sentence for the user.
	Source string `json:"source"`
	Text   string `json:"text"`
}

// RunFinished is the last event of a run that does not end with an error.
type RunFinished struct {
	Result *Result
}

func (*Compacting) event()        {}
func (*Compacted) event()         {}
func (*SetupChanged) event()      {}
func (*Notice) event()            {}
func (*TextDelta) event()         {}
func (*ThinkingDelta) event()     {}
func (*ToolDelta) event()         {}
func (*ToolStarted) event()       {}
func (*ToolProgress) event()      {}
func (*ToolFinished) event()      {}
func (*ApprovalRequested) event() {}
func (*CallRequested) event()     {}
func (*ChildEvent) event()        {}
func (*Merged) event()            {}
func (*Conflicted) event()        {}
func (*TurnFinished) event()      {}
func (*Retrying) event()          {}
func (*RunFinished) event()       {}
