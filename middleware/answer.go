package middleware

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/aycoder/aycoder"
)

// keyForm holds everything on which an answer depends. Strings are kept as bytes: as JSON
// strings, different texts that are not valid UTF-8 would become equal.
type keyForm struct {
	Version                    int
	Namespace, Provider, Model []byte
	System                     *aycoder.Message
	Tools                      [][3][]byte // name, description, schema
	ToolMode                   aycoder.ToolMode
	ToolName                   []byte
	Messages                   []*aycoder.Message
	Tail                       *aycoder.Message `json:",omitempty"`
	MaxTokens, Thinking        int
	Temperature                *float64
	Stop                       [][]byte
	Output                     *[2][]byte  // name, schema
	Extra                      [][2][]byte // by name
}

// key returns the key under which the answer to a request is stored.
func (c *cache) key(req *aycoder.Request) (string, error) {
	provider, model := nameOf(c.next)
	if req.Model != "" {
		model = req.Model
	}
	k := keyForm{
		Version: 1, Namespace: []byte(c.Namespace),
		Provider: []byte(provider), Model: []byte(model),
		System:   &aycoder.Message{Role: aycoder.RoleSystem},
		ToolMode: req.ToolChoice.Mode, ToolName: []byte(req.ToolChoice.Name),
		Messages:  req.Messages,
		MaxTokens: req.MaxTokens, Thinking: req.Thinking, Temperature: req.Temperature,
	}
	for _, t := range req.System {
		k.System.Parts = append(k.System.Parts, t)
	}
	if len(req.Tail) > 0 {
		k.Tail = &aycoder.Message{Role: aycoder.RoleUser}
	}
	for _, t := range req.Tail {
		k.Tail.Parts = append(k.Tail.Parts, t)
	}
	for _, t := range req.Tools {
		if t == nil {
			return "", errNilTool
		}
		k.Tools = append(k.Tools, [3][]byte{[]byte(t.Name), []byte(t.Description), t.Schema})
	}
	for _, s := range req.Stop {
		k.Stop = append(k.Stop, []byte(s))
	}
	if o := req.Output; o != nil {
		k.Output = &[2][]byte{[]byte(o.Name), o.Schema}
	}
	for _, name := range slices.Sorted(maps.Keys(req.Extra)) {
		k.Extra = append(k.Extra, [2][]byte{[]byte(name), req.Extra[name]})
	}
	h := sha256.New()
	if err := json.NewEncoder(h).Encode(&k); err != nil {
		return "", fmt.Errorf("encode request: %w", err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// A recording collects the events of an answer.
type recording struct {
	events []aycoder.ModelEvent
	size   int
	max    int
	over   bool // it is larger than max, and events are not all

	text strings.Builder // of the deltas since the last event of events
	like aycoder.ModelEvent
}

// eventBytes is about the memory that an event takes in addition to its text.
const eventBytes = 64

// add records an event. Adjacent deltas of the same kind are joined, which saves most of the
// space.
func (r *recording) add(ev aycoder.ModelEvent) {
	if ev, ok := ev.(*aycoder.Retrying); ok && ev != nil {
		*r = recording{max: r.max}
		return
	}
	if r.over {
		return
	}
	text, delta := deltaText(ev)
	if !delta || !sameDelta(r.like, ev) {
		r.flush()
		r.size += eventBytes
	}
	r.size += len(text) + blockSize(ev)
	if r.size > r.max {
		*r = recording{max: r.max, over: true}
		return
	}
	if delta {
		r.like = ev
		r.text.WriteString(text)
		return
	}
	r.events = append(r.events, ev)
}

// flush ends a series of deltas of the same kind.
func (r *recording) flush() {
	switch d := r.like.(type) {
	case *aycoder.TextDelta:
		r.events = append(r.events, &aycoder.TextDelta{Text: r.text.String()})
	case *aycoder.ThinkingDelta:
		r.events = append(r.events, &aycoder.ThinkingDelta{Text: r.text.String()})
	case *aycoder.ToolDelta:
		r.events = append(r.events, &aycoder.ToolDelta{ID: d.ID, Name: d.Name,
			Args: r.text.String()})
	}
	r.like = nil
	r.text.Reset()
}

func deltaText(ev aycoder.ModelEvent) (string, bool) {
	switch ev := ev.(type) {
	case *aycoder.TextDelta:
		return ev.Text, true
	case *aycoder.ThinkingDelta:
		return ev.Text, true
	case *aycoder.ToolDelta:
		return ev.Args, true
	}
	return "", false
}

func sameDelta(a, b aycoder.ModelEvent) bool {
	switch a := a.(type) {
	case *aycoder.TextDelta:
		_, ok := b.(*aycoder.TextDelta)
		return ok
	case *aycoder.ThinkingDelta:
		_, ok := b.(*aycoder.ThinkingDelta)
		return ok
	case *aycoder.ToolDelta:
		b, ok := b.(*aycoder.ToolDelta)
		return ok && a.ID == b.ID && a.Name == b.Name
	}
	return false
}

// blockSize estimates the memory of a complete block.
func blockSize(ev aycoder.ModelEvent) int {
	switch ev := ev.(type) {
	case *aycoder.BlockTruncated:
		if ev.Call != nil {
			return partSize(ev.Call)
		}
	case *aycoder.BlockDone:
		if m, ok := ev.Part.(*aycoder.Media); ok {
			return len(m.Data)
		}
		return partSize(ev.Part)
	}
	return 0
}

// An answer is the JSON form of a recording.
type answer struct {
	Events []answerEvent `json:"events"`
	// Parts holds one part for each event of type typeBlock or typeCut, in the order of Events.
	Parts *aycoder.Message `json:"parts"`
	Done  *answerEnd       `json:"done"`
}

type answerEvent struct {
	Type string `json:"type"`
	ID   string `json:"id,omitempty"`
	Name string `json:"name,omitempty"`
	Text string `json:"text,omitempty"`
}

type answerEnd struct {
	Stop  aycoder.StopReason `json:"stop"`
	Usage aycoder.Usage      `json:"usage"`
	Cost  *float64           `json:"cost,omitempty"`
	Model string             `json:"model"`
	ID    string             `json:"id"`

	Provider  string `json:"provider,omitempty"`
	RequestID string `json:"request_id,omitempty"`
}

// The types of an answerEvent.
const (
	typeText     = "text"
	typeThinking = "thinking"
	typeTool     = "tool"
	typeBlock    = "block"
	typeCut      = "cut"
)

const answerMagic = "aycoder answer 1 "

var (
	errNotAnswer  = errors.New("not an answer")
	errChecksum   = errors.New("checksum differs")
	errParts      = errors.New("parts do not fit the events")
	errIncomplete = errors.New("answer is not complete")
	errNobodys    = errors.New("opaque block without a provider")
	errNotUTF8    = errors.New("text is not valid UTF-8")
	errNilTool    = errors.New("encode request: tool is nil")
)

// encodeAnswer returns the stored form of a complete answer: a line with a checksum, and JSON.
// The checksum covers the key as well, so that a file that was renamed is not taken for the
// answer to another request.
func encodeAnswer(key string, events []aycoder.ModelEvent) ([]byte, error) {
	a := answer{Events: []answerEvent{}, Parts: &aycoder.Message{Role: aycoder.RoleAssistant}}
	whole := false
	for i, ev := range events {
		whole = i == len(events)-1
		if err := a.add(ev, whole); err != nil {
			return nil, fmt.Errorf("encode answer: event %d: %w", i, err)
		}
	}
	if !whole {
		return nil, errIncomplete
	}
	body, err := json.Marshal(&a)
	if err == nil {
		err = checkParts(a.Parts.Parts)
	}
	if err != nil {
		return nil, fmt.Errorf("encode answer: %w", err)
	}
	return append(header(key, body), body...), nil
}

// checkParts refuses parts that the JSON form of a message does not preserve byte for byte: an
// opaque block without a provider, which is how parts of a later version are decoded, and values
// that cannot be a part of an answer.
func checkParts(parts []aycoder.Part) error {
	for _, p := range parts {
		var o *aycoder.Opaque
		switch p := p.(type) {
		case *aycoder.Text:
			o = p.Extra
		case *aycoder.ToolUse:
			o = p.Extra
		case *aycoder.Opaque:
			o = p
		case *aycoder.ToolOutput:
			return errParts
		}
		if o != nil && o.Provider == "" {
			return errNobodys
		}
	}
	return nil
}

func header(key string, body []byte) []byte {
	h := sha256.New()
	h.Write([]byte(key))
	h.Write(body)
	return fmt.Appendf(nil, "%s%x\n", answerMagic, h.Sum(nil))
}

func (a *answer) add(ev aycoder.ModelEvent, last bool) error {
	if done, ok := ev.(*aycoder.MessageDone); ok != last {
		return errIncomplete
	} else if ok {
		a.Done = (*answerEnd)(done)
		return checkUTF8(string(done.Stop), done.Model, done.ID, done.Provider, done.RequestID)
	}
	var e answerEvent
	switch ev := ev.(type) {
	case *aycoder.TextDelta:
		e = answerEvent{Type: typeText, Text: ev.Text}
	case *aycoder.ThinkingDelta:
		e = answerEvent{Type: typeThinking, Text: ev.Text}
	case *aycoder.ToolDelta:
		e = answerEvent{Type: typeTool, ID: ev.ID, Name: ev.Name, Text: ev.Args}
	case *aycoder.BlockDone:
		e.Type = typeBlock
		a.Parts.Parts = append(a.Parts.Parts, ev.Part)
	case *aycoder.BlockTruncated:
		e.Type = typeCut
		a.Parts.Parts = append(a.Parts.Parts, ev.Call)
	default:
		return fmt.Errorf("no such event: %T", ev)
	}
	a.Events = append(a.Events, e)
	return checkUTF8(e.ID, e.Name, e.Text)
}

func checkUTF8(texts ...string) error {
	if slices.ContainsFunc(texts, func(s string) bool { return !utf8.ValidString(s) }) {
		return errNotUTF8
	}
	return nil
}

// decodeAnswer decodes the result of encodeAnswer for the same key.
func decodeAnswer(key string, data []byte) ([]aycoder.ModelEvent, error) {
	n := bytes.IndexByte(data, '\n') + 1
	if !bytes.HasPrefix(data, []byte(answerMagic)) || n == 0 {
		return nil, errNotAnswer
	}
	if !bytes.Equal(data[:n], header(key, data[n:])) {
		return nil, errChecksum
	}
	return decodeBody(data[n:])
}

func decodeBody(body []byte) ([]aycoder.ModelEvent, error) {
	var a answer
	if err := json.Unmarshal(body, &a); err != nil {
		return nil, fmt.Errorf("decode answer: %w", err)
	}
	if a.Parts == nil || a.Done == nil {
		return nil, errIncomplete
	}
	if err := checkParts(a.Parts.Parts); err != nil {
		return nil, err
	}
	events, parts := make([]aycoder.ModelEvent, 0, len(a.Events)+1), a.Parts.Parts
	for _, e := range a.Events {
		ev, used := e.event(parts)
		if ev == nil {
			return nil, errParts
		}
		events, parts = append(events, ev), parts[used:]
	}
	if len(parts) > 0 {
		return nil, errParts
	}
	return append(events, (*aycoder.MessageDone)(a.Done)), nil
}

// event returns the event and the number of parts that it used. It returns nil if the parts do
// not fit the event.
func (e *answerEvent) event(parts []aycoder.Part) (aycoder.ModelEvent, int) {
	switch e.Type {
	case typeText:
		return &aycoder.TextDelta{Text: e.Text}, 0
	case typeThinking:
		return &aycoder.ThinkingDelta{Text: e.Text}, 0
	case typeTool:
		return &aycoder.ToolDelta{ID: e.ID, Name: e.Name, Args: e.Text}, 0
	}
	if len(parts) == 0 {
		return nil, 0
	}
	if e.Type == typeBlock {
		return &aycoder.BlockDone{Part: parts[0]}, 1
	}
	if call, ok := parts[0].(*aycoder.ToolUse); ok && e.Type == typeCut {
		return &aycoder.BlockTruncated{Call: call}, 1
	}
	return nil, 0
}
