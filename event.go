package aycoder

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/aycoder/aycoder/internal/runes"
)

// Event is an event of a run: [*TextDelta], [*ThinkingDelta], [*ToolDelta], [*ToolStarted],
// [*ToolProgress], [*ToolFinished], [*ApprovalRequested], [*Merged], [*Conflicted], [*ChildEvent],
// [*TurnFinished], [*Retrying] or [*RunFinished]. Each encodes as a JSON object with a "type";
// docs/events.md lists the keys. These are the lines that the example CLI prints with -output
// stream-json. The values that an event points to are shared with the run and must not be changed.
type Event interface{ event() }

// ToolStarted reports that a tool call has started. Calls that run in parallel start
// and finish in any order; only the outputs in the history have that of the calls.
// A call that is denied or invalid does not start; it only has a [ToolFinished].
type ToolStarted struct {
	Call *ToolUse
	// Args are the arguments that the tool gets: those of the call, or those of the approver.
	Args json.RawMessage
	// Subject is the subject of the call, if the tool names one: a path, a command.
	Subject string
	// Eager says that the model was still talking when the call started. That depends on timing.
	Eager bool
	// By says who allowed the call.
	By DecidedBy
}

// ToolProgress reports the progress of a call. For a slow consumer, only the newest report is kept.
type ToolProgress struct {
	CallID string
	Progress
}

// ToolFinished reports the outcome of a call. A call that was not run, such as one that
// was denied or has wrong arguments, has no ToolStarted before it. The outputs of a message's
// calls are added to the history together, once every call has one.
type ToolFinished struct {
	Call *ToolUse
	// Subject is the subject of the call, as in ToolStarted.
	Subject string
	// Output is the output that the model reads.
	Output *ToolOutput
	// Summary is a few words for people.
	Summary string
	// Usage is the usage of the [ToolResult].
	Usage Usage
	// Changes reports what was done to the files that the call was to change, or nil if
	// the tool does not report that.
	Changes *ApplyResult
	// Elapsed is how long the tool ran, or 0 if it did not.
	Elapsed time.Duration
	// Err says why the call did not run to its end: it unwraps to [*ToolError]. It is
	// nil if the tool returned a result, even one of [ErrorResult].
	Err error
}

// Merged reports that a call changed a file which somebody else had changed since the
// model was shown it, and that the file now contains both changes. It comes right
// before the ToolFinished of the call.
type Merged struct {
	Call *ToolUse
	// File is the result for the file; File.UserChanges holds the changes of the other.
	File *FileResult
}

// Conflicted reports that a call could not change a file, or only with conflict markers, because
// somebody else had changed the same lines. It comes right before the ToolFinished of the call.
type Conflicted struct {
	Call *ToolUse
	// File says why. File.Merge holds both sides, for a person to resolve.
	File *FileResult
}

// TurnFinished reports that a message of the model and the outputs of all its calls are
// part of the history.
type TurnFinished struct {
	// Turn counts from 1.
	Turn int
	Stop StopReason
	// Usage is the usage of the message. [ToolFinished] reports the usage of its calls.
	Usage Usage
}

// Retrying reports that the model is asked again: by the loop, or by a
// [ModelMiddleware], which yields it as a [ModelEvent].
type Retrying struct {
	// Discarded says that everything received of the message since the last TurnFinished is void,
	// so that a display removes it. If it is false, only the block that is not complete is void,
	// if there is one: the complete blocks before it stay, because a tool has begun.
	Discarded bool
	// Attempt is the number of the retry, from 1; After is the wait before it.
	Attempt int
	After   time.Duration
	// Err is the error that caused the retry.
	Err error
}

// RunFinished is the last event of a run that did not fail.
type RunFinished struct {
	Result *Result
}

func (*TextDelta) event()         {}
func (*ThinkingDelta) event()     {}
func (*ToolDelta) event()         {}
func (*ToolStarted) event()       {}
func (*ToolProgress) event()      {}
func (*ToolFinished) event()      {}
func (*ApprovalRequested) event() {}
func (*ChildEvent) event()        {}
func (*Merged) event()            {}
func (*Conflicted) event()        {}
func (*TurnFinished) event()      {}
func (*Retrying) event()          {}
func (*RunFinished) event()       {}

// MarshalJSON encodes {"type":"text_delta"}.
func (e *TextDelta) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}{"text_delta", e.Text})
}

// MarshalJSON encodes {"type":"thinking_delta"}.
func (e *ThinkingDelta) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}{"thinking_delta", e.Text})
}

// MarshalJSON encodes {"type":"tool_delta"}.
func (e *ToolDelta) MarshalJSON() ([]byte, error) {
	type plain ToolDelta
	return json.Marshal(struct {
		Type string `json:"type"`
		*plain
	}{"tool_delta", (*plain)(e)})
}

// MarshalJSON encodes {"type":"tool_start"}.
func (e *ToolStarted) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Type    string          `json:"type"`
		ID      string          `json:"id"`
		Name    string          `json:"name"`
		Args    json.RawMessage `json:"args"`
		Subject string          `json:"subject,omitempty"`
		Eager   bool            `json:"eager,omitempty"`
		By      DecidedBy       `json:"by"`
	}{"tool_start", e.Call.ID, e.Call.Name, e.Args, e.Subject, e.Eager, e.By})
}

// MarshalJSON encodes {"type":"tool_progress"}.
func (e *ToolProgress) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Type string `json:"type"`
		ID   string `json:"id"`
		Progress
	}{"tool_progress", e.CallID, e.Progress})
}

// MarshalJSON encodes {"type":"tool_end"}.
func (e *ToolFinished) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Type      string       `json:"type"`
		ID        string       `json:"id"`
		Name      string       `json:"name"`
		Subject   string       `json:"subject,omitempty"`
		IsError   bool         `json:"is_error"`
		Summary   string       `json:"summary,omitempty"`
		Untrusted bool         `json:"untrusted,omitempty"`
		Usage     Usage        `json:"usage,omitzero"`
		Millis    int64        `json:"ms"`
		Output    string       `json:"output"`
		Changes   []FileResult `json:"changes,omitempty"`
		Error     string       `json:"error,omitempty"`
	}{
		"tool_end", e.Call.ID, e.Call.Name, e.Subject, e.Output.IsError, e.Summary, e.Output.Untrusted, e.Usage,
		e.Elapsed.Milliseconds(), e.Output.Text(), e.files(), text(e.Err),
	})
}

// files returns the changes without the texts that would undo them: those are whole
// files, with any secrets in them.
func (e *ToolFinished) files() []FileResult {
	if e.Changes == nil {
		return nil
	}
	files := slices.Clone(e.Changes.Files)
	for i := range files {
		files[i].Undo = nil
	}
	return files
}

// MarshalJSON encodes {"type":"merged"}.
func (e *Merged) MarshalJSON() ([]byte, error) { return fileEvent("merged", e.Call, e.File) }

// MarshalJSON encodes {"type":"conflicted"}.
func (e *Conflicted) MarshalJSON() ([]byte, error) { return fileEvent("conflicted", e.Call, e.File) }

func fileEvent(kind string, call *ToolUse, file *FileResult) ([]byte, error) {
	if file != nil {
		file = new(*file)
		file.Undo = nil
	}
	return json.Marshal(struct {
		Type string      `json:"type"`
		ID   string      `json:"id"`
		Name string      `json:"name"`
		File *FileResult `json:"file"`
	}{kind, call.ID, call.Name, file})
}

// MarshalJSON encodes {"type":"approval_request"}, without the plan: that holds whole
// files, with any secrets in them, and the preview shows what it changes.
func (a *ApprovalRequested) MarshalJSON() ([]byte, error) {
	req := a.Request
	req.Plan = nil
	return json.Marshal(struct {
		Type string `json:"type"`
		*ApprovalRequest
	}{"approval_request", &req})
}

// MarshalJSON encodes {"type":"turn_end"}.
func (e *TurnFinished) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Type  string     `json:"type"`
		Turn  int        `json:"turn"`
		Stop  StopReason `json:"stop"`
		Usage Usage      `json:"usage"`
	}{"turn_end", e.Turn, e.Stop, e.Usage})
}

// MarshalJSON encodes {"type":"retry"}.
func (e *Retrying) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Type      string `json:"type"`
		Discarded bool   `json:"discarded"`
		Attempt   int    `json:"attempt"`
		Millis    int64  `json:"after_ms"`
		Error     string `json:"error"`
	}{"retry", e.Discarded, e.Attempt, e.After.Milliseconds(), text(e.Err)})
}

// MarshalJSON encodes {"type":"run_end"}.
func (e *RunFinished) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Type   string     `json:"type"`
		Reason EndReason  `json:"reason"`
		Stop   StopReason `json:"stop,omitempty"`
		Turns  int        `json:"turns"`
		Usage  Usage      `json:"usage"`
		Text   string     `json:"text"`
	}{"run_end", e.Result.End, e.Result.Stop, e.Result.Turns, e.Result.Usage, e.Result.Text()})
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return runes.Shorten(err.Error(), 8<<10)
}
