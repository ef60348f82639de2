package aycoder

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/internal/runes"
)

// DecodeEvent decodes the JSON form of an [Event]. The decoded event has what its JSON holds:
//
//   - The Result of a [RunFinished] is complete: its own JSON form is the same.
//   - An [ApprovalRequested] has no Plan. It can be shown, but not answered: its methods and those
//     of its [Approval] return false or [ErrDecided]. Nor can a [CallRequested] be answered.
//   - A Call has an ID and a Name only. Output of [ToolFinished] has the text of the output. Errors
//     have their text, but not their type. Times are in milliseconds.
//   - A [edit.FileResult] has neither texts of the file nor Undo.
//
// The JSON form of the decoded event is the same again. If the type of the event is unknown, the
// error is a [*FormatError].
func DecodeEvent(data []byte) (Event, error) {
	ev, err := decodeEvent(data, 0)
	if _, ok := err.(*FormatError); err == nil || ok {
		return ev, err
	}
	return nil, fmt.Errorf("decode event: %w", err)
}

// maxDepth is the largest number of runs around the event of an inner run.
const maxDepth = 64

var errDepth = errors.New("too many events inside each other")

// wireEvent is the JSON form of an event whose fields are not its keys.
type wireEvent interface{ event() (Event, error) }

func decodeEvent(data []byte, depth int) (Event, error) {
	var head struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return nil, err
	}
	var ev Event
	var w wireEvent
	switch head.Type {
	case "text_delta":
		ev = &TextDelta{}
	case "thinking_delta":
		ev = &ThinkingDelta{}
	case "tool_delta":
		ev = &ToolDelta{}
	case "tool_progress":
		ev = &ToolProgress{}
	case "turn_end":
		ev = &TurnFinished{}
	case "compacting":
		ev = &Compacting{}
	case "compacted":
		ev = &Compacted{}
	case "setup_changed":
		ev = &SetupChanged{}
	case "jobs":
		ev = &JobsChanged{}
	case "notice":
		ev = &Notice{}
	case "approval_request":
		a := &ApprovalRequested{}
		err := json.Unmarshal(data, &a.Request)
		return a, err
	case "call_request":
		c := &CallRequested{}
		err := json.Unmarshal(data, &c.Request)
		return c, err
	case "tool_start":
		w = &wireStart{}
	case "tool_end":
		w = &wireEnd{}
	case "merged", "conflicted":
		w = &wireFile{conflict: head.Type == "conflicted"}
	case "retry":
		w = &wireRetry{}
	case "run_end":
		w = &wireRun{}
	case "child":
		w = &wireChild{depth: depth + 1}
	default:
		return nil, &FormatError{Form: "event", Kind: head.Type}
	}
	if w == nil {
		return ev, json.Unmarshal(data, ev)
	}
	if err := json.Unmarshal(data, w); err != nil {
		return nil, err
	}
	return w.event()
}

// typedJSON encodes a struct as a JSON object, and adds the key "type" as the first.
func typedJSON(kind string, v any) ([]byte, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	head := `{"type":"` + kind + `",`
	if string(data) == "{}" {
		head = strings.TrimSuffix(head, ",")
	}
	return append([]byte(head), data[1:]...), nil
}

// withoutMethod hides MarshalJSON of a struct that is embedded beside it, so that its fields are encoded. A
// second type with the same fields takes more room in the binary.
type withoutMethod struct {
	MarshalJSON struct{} `json:"-"`
}

// MarshalJSON encodes the event as a JSON object whose type is "text_delta".
func (e *TextDelta) MarshalJSON() ([]byte, error) {
	return typedJSON("text_delta", (*plainDelta)(e))
}

// plainDelta is both kinds of text without their methods: each type takes room in the binary.
type plainDelta TextDelta

// MarshalJSON encodes the event as a JSON object whose type is "thinking_delta".
func (e *ThinkingDelta) MarshalJSON() ([]byte, error) {
	return typedJSON("thinking_delta", (*plainDelta)(e))
}

// MarshalJSON encodes the event as a JSON object whose type is "tool_delta".
func (e *ToolDelta) MarshalJSON() ([]byte, error) {
	return typedJSON("tool_delta", struct {
		withoutMethod
		*ToolDelta
	}{ToolDelta: e})
}

// MarshalJSON encodes the event as a JSON object whose type is "tool_progress".
func (e *ToolProgress) MarshalJSON() ([]byte, error) {
	return typedJSON("tool_progress", struct {
		withoutMethod
		*ToolProgress
	}{ToolProgress: e})
}

// MarshalJSON encodes the event as a JSON object whose type is "turn_end".
func (e *TurnFinished) MarshalJSON() ([]byte, error) {
	return typedJSON("turn_end", struct {
		withoutMethod
		*TurnFinished
	}{TurnFinished: e})
}

// MarshalJSON encodes the event as a JSON object whose type is "compacting".
func (e *Compacting) MarshalJSON() ([]byte, error) {
	return typedJSON("compacting", struct {
		withoutMethod
		*Compacting
	}{Compacting: e})
}

// MarshalJSON encodes the event as a JSON object whose type is "compacted".
func (e *Compacted) MarshalJSON() ([]byte, error) {
	return typedJSON("compacted", struct {
		withoutMethod
		*Compacted
	}{Compacted: e})
}

// MarshalJSON encodes the event as a JSON object whose type is "setup_changed".
func (e *SetupChanged) MarshalJSON() ([]byte, error) {
	return typedJSON("setup_changed", struct {
		withoutMethod
		*SetupChanged
	}{SetupChanged: e})
}

// MarshalJSON encodes the event as a JSON object whose type is "notice".
func (e *Notice) MarshalJSON() ([]byte, error) {
	type plain Notice
	return typedJSON("notice", (*plain)(e))
}

// MarshalJSON encodes the event as a JSON object whose type is "child".
func (e *ChildEvent) MarshalJSON() ([]byte, error) {
	return typedJSON("child", struct {
		withoutMethod
		*ChildEvent
	}{ChildEvent: e})
}

type wireChild struct {
	ID    string          `json:"id"`
	Event json.RawMessage `json:"event"`
	depth int
}

func (w *wireChild) event() (Event, error) {
	if w.depth > maxDepth {
		return nil, errDepth
	}
	inner, err := decodeEvent(w.Event, w.depth)
	return &ChildEvent{CallID: w.ID, Event: inner}, err
}

// MarshalJSON encodes the event as a JSON object whose type is "approval_request". It omits Plan,
// which may contain secrets, since it holds whole files. Preview shows the changes.
func (a *ApprovalRequested) MarshalJSON() ([]byte, error) {
	req := a.Request
	req.Plan = nil
	return typedJSON("approval_request", &req)
}

// MarshalJSON encodes the event as a JSON object whose type is "call_request".
func (c *CallRequested) MarshalJSON() ([]byte, error) { return typedJSON("call_request", &c.Request) }

type wireStart struct {
	ID      string          `json:"id"`
	Name    string          `json:"name"`
	Args    json.RawMessage `json:"args"`
	Subject string          `json:"subject,omitempty"`
	Eager   bool            `json:"eager,omitempty"`
	By      DecidedBy       `json:"by"`
}

// MarshalJSON encodes the event as a JSON object whose type is "tool_start".
func (e *ToolStarted) MarshalJSON() ([]byte, error) {
	return typedJSON("tool_start", &wireStart{e.Call.ID, e.Call.Name, e.Args, e.Subject, e.Eager, e.By})
}

func (w *wireStart) event() (Event, error) {
	call := &ToolUse{ID: w.ID, Name: w.Name}
	return &ToolStarted{Call: call, Args: w.Args, Subject: w.Subject, Eager: w.Eager, By: w.By}, nil
}

type wireEnd struct {
	ID        string            `json:"id"`
	Name      string            `json:"name"`
	Subject   string            `json:"subject,omitempty"`
	IsError   bool              `json:"is_error"`
	Summary   string            `json:"summary,omitempty"`
	Untrusted bool              `json:"untrusted,omitempty"`
	Usage     Usage             `json:"usage,omitzero"`
	Millis    int64             `json:"ms"`
	Output    string            `json:"output"`
	Changes   []edit.FileResult `json:"changes,omitempty"`
	Error     string            `json:"error,omitempty"`
}

// MarshalJSON encodes the event as a JSON object whose type is "tool_end".
func (e *ToolFinished) MarshalJSON() ([]byte, error) {
	return typedJSON("tool_end", &wireEnd{
		e.Call.ID, e.Call.Name, e.Subject, e.Output.IsError, e.Summary, e.Output.Untrusted,
		e.Usage, e.Elapsed.Milliseconds(), e.Output.Text(), e.files(), text(e.Err),
	})
}

func (w *wireEnd) event() (Event, error) {
	e := &ToolFinished{
		Call: &ToolUse{ID: w.ID, Name: w.Name}, Subject: w.Subject, Summary: w.Summary, Usage: w.Usage,
		Output:  &ToolOutput{ID: w.ID, Name: w.Name, IsError: w.IsError, Untrusted: w.Untrusted},
		Elapsed: time.Duration(w.Millis) * time.Millisecond, Err: textError(w.Error),
	}
	if w.Output != "" {
		e.Output.Parts = []Part{&Text{Text: w.Output}}
	}
	if len(w.Changes) > 0 {
		e.Changes = &edit.Result{Files: w.Changes}
	}
	return e, nil
}

// files returns the changes without Undo, which holds whole files and any secrets in them.
func (e *ToolFinished) files() []edit.FileResult {
	if e.Changes == nil {
		return nil
	}
	files := slices.Clone(e.Changes.Files)
	for i := range files {
		files[i].Undo = nil
	}
	return files
}

type wireFile struct {
	_        [0]func()        // not comparable, which would be code in each program
	ID       string           `json:"id"`
	Name     string           `json:"name"`
	File     *edit.FileResult `json:"file"`
	conflict bool
}

// MarshalJSON encodes the event as a JSON object whose type is "merged".
func (e *Merged) MarshalJSON() ([]byte, error) { return fileEvent("merged", e.Call, e.File) }

// MarshalJSON encodes the event as a JSON object whose type is "conflicted".
func (e *Conflicted) MarshalJSON() ([]byte, error) {
	return fileEvent("conflicted", e.Call, e.File)
}

func fileEvent(kind string, call *ToolUse, file *edit.FileResult) ([]byte, error) {
	if file != nil {
		file = new(*file)
		file.Undo = nil
	}
	return typedJSON(kind, &wireFile{ID: call.ID, Name: call.Name, File: file})
}

func (w *wireFile) event() (Event, error) {
	call := &ToolUse{ID: w.ID, Name: w.Name}
	if w.conflict {
		return &Conflicted{Call: call, File: w.File}, nil
	}
	return &Merged{Call: call, File: w.File}, nil
}

type wireRetry struct {
	Discarded bool   `json:"discarded"`
	Attempt   int    `json:"attempt"`
	Millis    int64  `json:"after_ms"`
	Error     string `json:"error"`
}

// MarshalJSON encodes the event as a JSON object whose type is "retry".
func (e *Retrying) MarshalJSON() ([]byte, error) {
	return typedJSON("retry", &wireRetry{e.Discarded, e.Attempt, e.After.Milliseconds(), text(e.Err)})
}

func (w *wireRetry) event() (Event, error) {
	return &Retrying{Discarded: w.Discarded, Attempt: w.Attempt,
		After: time.Duration(w.Millis) * time.Millisecond, Err: textError(w.Error)}, nil
}

type wireRun struct {
	Reason   EndReason       `json:"reason"`
	Stop     StopReason      `json:"stop,omitempty"`
	Turns    int             `json:"turns"`
	Usage    Usage           `json:"usage"`
	Spent    []Spent         `json:"spent,omitempty"`
	Text     string          `json:"text"`
	Changes  json.RawMessage `json:"changes,omitempty"`
	Messages []*Message      `json:"messages"`
	Pending  *Pending        `json:"pending,omitempty"`
}

// MarshalJSON encodes the event as a JSON object whose type is "run_end".
func (e *RunFinished) MarshalJSON() ([]byte, error) {
	r := e.Result
	w := &wireRun{r.End, r.Stop, r.Turns, r.Usage, r.Spent, r.Text(), nil, r.Messages, r.Pending}
	if r.Changes != nil {
		w.Changes, _ = r.Changes.MarshalJSON() // texts and numbers always encode
	}
	return typedJSON("run_end", w)
}

func (w *wireRun) event() (Event, error) {
	if slices.Contains(w.Messages, nil) {
		return nil, errors.New("a message is null")
	}
	res := &Result{Messages: w.Messages, End: w.Reason, Stop: w.Stop,
		Turns: w.Turns, Usage: w.Usage, Spent: w.Spent, Pending: w.Pending}
	var err error
	if len(w.Changes) > 0 {
		res.Changes, err = edit.DecodeChanges(w.Changes)
	}
	return &RunFinished{Result: res}, err
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return runes.Shorten(err.Error(), 8<<10)
}

// textError returns an error with a text, or nil if it is "".
func textError(text string) error {
	if text == "" {
		return nil
	}
	return errors.New(text)
}
