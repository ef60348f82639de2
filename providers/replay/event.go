package replay

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/aycoder/aycoder"
)

// The events of a recording. Everything that a program may have acted on is kept; a form
// that this version does not know is an error when the file is read, not when it is played.

// An eventLine is an event of a model. The format is independent of the way in which package
// aycoder encodes events for hosts: recordings must stay readable when that changes. Errors
// and parts are nested in the forms of failure and of stored messages.
type eventLine struct {
	Type      string             `json:"type"`
	ID        string             `json:"id,omitempty"`
	Name      string             `json:"name,omitempty"`
	Text      string             `json:"text,omitempty"`
	Part      json.RawMessage    `json:"part,omitempty"`
	Stop      aycoder.StopReason `json:"stop,omitempty"`
	Usage     *aycoder.Usage     `json:"usage,omitempty"`
	Cost      *float64           `json:"cost,omitempty"`
	Model     string             `json:"model,omitempty"`
	Provider  string             `json:"provider,omitempty"`
	RequestID string             `json:"request_id,omitempty"`
	Discarded bool               `json:"discarded,omitempty"`
	Attempt   int                `json:"attempt,omitempty"`
	After     time.Duration      `json:"after_ns,omitempty"`
	Error     *failure           `json:"error,omitempty"`
}

// The types of an eventLine.
const (
	typeText     = "text"
	typeThinking = "thinking"
	typeTool     = "tool"
	typeBlock    = "block"
	typeCut      = "cut"
	typeRetry    = "retry"
	typeDone     = "done"
)

// encodeEvent returns the line of an event, and checks that it can be read back.
func encodeEvent(ev aycoder.ModelEvent) (e eventLine, err error) {
	switch ev := ev.(type) {
	case *aycoder.TextDelta:
		e = eventLine{Type: typeText, Text: ev.Text}
	case *aycoder.ThinkingDelta:
		e = eventLine{Type: typeThinking, Text: ev.Text}
	case *aycoder.ToolDelta:
		e = eventLine{Type: typeTool, ID: ev.ID, Name: ev.Name, Text: ev.Args}
	case *aycoder.BlockDone:
		e.Type = typeBlock
		e.Part, err = encodePart(ev.Part)
	case *aycoder.BlockTruncated:
		e.Type = typeCut
		e.Part, err = encodePart(ev.Call)
	case *aycoder.Retrying:
		e = eventLine{Type: typeRetry, Discarded: ev.Discarded, Attempt: ev.Attempt, After: ev.After,
			Error: encodeError(ev.Err)}
	case *aycoder.MessageDone:
		e = eventLine{Type: typeDone, Stop: ev.Stop, Usage: &ev.Usage, Cost: ev.Cost, Model: ev.Model, ID: ev.ID,
			Provider: ev.Provider, RequestID: ev.RequestID}
	default:
		err = fmt.Errorf("no such event: %T", ev)
	}
	for _, s := range []string{e.Text, e.ID, e.Name, e.Model, e.Provider, e.RequestID, string(e.Stop)} {
		if !utf8.ValidString(s) && err == nil {
			err = errNotUTF8
		}
	}
	if err != nil {
		err = fmt.Errorf("encode event: %w", err)
	}
	return e, err
}

// event returns the event of a line.
func (e *eventLine) event() (aycoder.ModelEvent, error) {
	switch e.Type {
	case typeText:
		return &aycoder.TextDelta{Text: e.Text}, nil
	case typeThinking:
		return &aycoder.ThinkingDelta{Text: e.Text}, nil
	case typeTool:
		return &aycoder.ToolDelta{ID: e.ID, Name: e.Name, Args: e.Text}, nil
	case typeBlock:
		part, err := decodePart(e.Part)
		return &aycoder.BlockDone{Part: part}, err
	case typeCut:
		part, err := decodePart(e.Part)
		call, ok := part.(*aycoder.ToolUse)
		if !ok && err == nil {
			err = errors.New("a cut part is not a call")
		}
		return &aycoder.BlockTruncated{Call: call}, err
	case typeRetry:
		err := e.Error.check(1)
		return &aycoder.Retrying{Discarded: e.Discarded, Attempt: e.Attempt, After: e.After, Err: e.Error.err()}, err
	case typeDone:
		done := &aycoder.MessageDone{Stop: e.Stop, Cost: e.Cost, Model: e.Model, ID: e.ID, Provider: e.Provider, RequestID: e.RequestID}
		if e.Usage != nil {
			done.Usage = *e.Usage
		}
		return done, nil
	}
	return nil, fmt.Errorf("no such event: %q", e.Type)
}

// wireMessage is a message whose parts stay encoded.
type wireMessage struct {
	Role  aycoder.Role      `json:"role"`
	Parts []json.RawMessage `json:"parts"`
}

// encodePart writes a part with the codec of its message.
func encodePart(p aycoder.Part) (json.RawMessage, error) {
	data, err := json.Marshal(&aycoder.Message{Role: aycoder.RoleAssistant, Parts: []aycoder.Part{p}})
	if err != nil {
		return nil, err
	}
	var w wireMessage
	if err := json.Unmarshal(data, &w); err != nil {
		return nil, err
	}
	return w.Parts[0], nil
}

// decodePart decodes a part as a message does, so that the forms are the same.
func decodePart(raw json.RawMessage) (aycoder.Part, error) {
	if len(raw) == 0 {
		return nil, errors.New("the part is missing")
	}
	data, err := json.Marshal(wireMessage{aycoder.RoleAssistant, []json.RawMessage{raw}})
	if err != nil {
		return nil, err
	}
	var m aycoder.Message
	if err := json.Unmarshal(data, &m); err != nil {
		return nil, err
	}
	if len(m.Parts) != 1 {
		return nil, errors.New("the part is missing")
	}
	return m.Parts[0], nil
}

// A requestForm is a request as JSON, with everything that a model sees of it.
type requestForm struct {
	Model       string                     `json:"model,omitempty"`
	System      []json.RawMessage          `json:"system,omitempty"`
	Tools       []*toolForm                `json:"tools,omitempty"`
	ToolMode    string                     `json:"tool_mode,omitempty"`
	ToolName    string                     `json:"tool_name,omitempty"`
	MaxTokens   int                        `json:"max_tokens,omitempty"`
	Temperature *float64                   `json:"temperature,omitempty"`
	Stop        []string                   `json:"stop,omitempty"`
	Thinking    int                        `json:"thinking,omitempty"`
	NoCache     bool                       `json:"no_cache,omitempty"`
	Output      *toolForm                  `json:"output,omitempty"`
	Extra       map[string]json.RawMessage `json:"extra,omitempty"`
	Messages    []*aycoder.Message         `json:"messages"`
	Tail        []json.RawMessage          `json:"tail,omitempty"`
}

// A toolForm is something with a name and a schema.
type toolForm struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Schema      json.RawMessage `json:"schema,omitempty"`
}

// encodeRequest encodes a request. The effects of tools are left out, as models do not
// see them. Nil values become null: how they are handled is up to the client.
func encodeRequest(req *aycoder.Request) (json.RawMessage, error) {
	f := requestForm{
		Model: req.Model, ToolMode: toolMode(req.ToolChoice.Mode), ToolName: req.ToolChoice.Name,
		MaxTokens: req.MaxTokens, Temperature: req.Temperature, Stop: req.Stop, Thinking: req.Thinking,
		NoCache: req.NoCache, Extra: req.Extra, Messages: req.Messages,
	}
	var err error
	if f.System, err = encodeTexts(req.System); err != nil {
		return nil, fmt.Errorf("encode system prompt: %w", err)
	}
	if f.Tail, err = encodeTexts(req.Tail); err != nil {
		return nil, fmt.Errorf("encode tail: %w", err)
	}
	for _, t := range req.Tools {
		var tool *toolForm
		if t != nil {
			tool = &toolForm{t.Name, t.Description, t.Schema}
		}
		f.Tools = append(f.Tools, tool)
	}
	if req.Output != nil {
		f.Output = &toolForm{Name: req.Output.Name, Schema: req.Output.Schema}
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(&f); err != nil {
		return nil, fmt.Errorf("encode request: %w", err)
	}
	return bytes.TrimSpace(b.Bytes()), nil
}

func encodeTexts(texts []*aycoder.Text) (out []json.RawMessage, err error) {
	for _, t := range texts {
		block := json.RawMessage("null")
		if t != nil {
			if block, err = encodePart(t); err != nil {
				return nil, err
			}
		}
		out = append(out, block)
	}
	return out, nil
}

// toolMode is the name of a mode in a recording.
func toolMode(m aycoder.ToolMode) string {
	switch m {
	case aycoder.ToolAuto:
		return ""
	case aycoder.ToolNone:
		return "none"
	case aycoder.ToolAny:
		return "any"
	case aycoder.ToolNamed:
		return "named"
	}
	return fmt.Sprint(int(m))
}

// cleanModel returns the recorded form of a request to a model.
func (t *Tape) cleanModel(m *modelLine) (*modelLine, error) {
	c := *m
	c.Provider, c.Model, c.Asked = t.cleanText(c.Provider), t.cleanText(c.Model), t.cleanText(c.Asked)
	c.Request = t.cleanBody(c.Request)
	if !json.Valid(c.Request) {
		return nil, errors.New("the request is not JSON without its secrets")
	}
	return &c, nil
}

// cleanEvents removes secrets from events. A secret may extend over several deltas.
func (t *Tape) cleanEvents(events []eventLine) ([]eventLine, error) {
	out := make([]eventLine, len(events))
	copy(out, events)
	for i := 0; i < len(out); {
		n := 1
		for i+n < len(out) && out[i].continues(&out[i+n]) {
			n++
		}
		t.cleanRun(out[i : i+n])
		i += n
	}
	for i := range out {
		if err := t.cleanEvent(&out[i]); err != nil {
			return nil, fmt.Errorf("event %d: %w", i+1, err)
		}
	}
	return out, nil
}

// continues reports whether next is a delta of the same block.
func (e *eventLine) continues(next *eventLine) bool {
	switch e.Type {
	case typeText, typeThinking, typeTool:
		return e.Type == next.Type && e.ID == next.ID && e.Name == next.Name
	}
	return false
}

// cleanRun removes secrets from the text of consecutive deltas.
func (t *Tape) cleanRun(run []eventLine) {
	var text []byte
	cuts := make([]int, len(run))
	for i := range run {
		text = append(text, run[i].Text...)
		cuts[i] = len(text)
	}
	text, cuts = t.secrets.mask(text, cuts)
	at := 0
	for i, cut := range cuts {
		run[i].Text, at = string(text[at:cut]), cut
	}
}

// cleanEvent takes the secrets out of an event. It is decoded again, because the host's
// function may have made something of it that is not an event.
func (t *Tape) cleanEvent(e *eventLine) error {
	for _, s := range []*string{&e.ID, &e.Name, &e.Model, &e.Provider, &e.RequestID} {
		*s = t.secrets.text(*s)
	}
	e.Stop = aycoder.StopReason(t.secrets.text(string(e.Stop)))
	e.Part, _ = t.secrets.mask(e.Part, nil)
	e.Error = e.Error.clean(t.secrets.text)
	if t.cfg.redact != nil {
		data, err := json.Marshal(e)
		if err != nil {
			return err
		}
		*e = eventLine{}
		if err := json.Unmarshal(t.cfg.redact(data), e); err != nil {
			return fmt.Errorf("redacted: %w", err)
		}
	}
	_, err := e.event()
	return err
}
