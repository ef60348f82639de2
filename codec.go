package aycoder

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/aycoder/aycoder/internal/runes"
)

// wirePart is the JSON form of a part. Arguments and opaque blocks are strings that hold JSON
// text, for two reasons: encoding/json changes the white space and the escapes of embedded
// values, and the arguments of a call that was cut off are not valid JSON.
type wirePart struct {
	Type      string     `json:"type"`
	Text      *string    `json:"text,omitempty"`
	Signature string     `json:"signature,omitempty"`
	Provider  string     `json:"provider,omitempty"`
	ID        string     `json:"id,omitempty"`
	Name      string     `json:"name,omitempty"`
	Args      string     `json:"args,omitempty"`
	IsError   bool       `json:"is_error,omitempty"`
	Untrusted bool       `json:"untrusted,omitempty"`
	Parts     []leafPart `json:"parts,omitempty"`
	Media     string     `json:"media_type,omitempty"`
	Data      []byte     `json:"data,omitempty"`
	URL       string     `json:"url,omitempty"`
	Raw       string     `json:"raw,omitempty"`
	Extra     *extraPart `json:"extra,omitempty"`

	unknown json.RawMessage
}

type wireMessage struct {
	Role  Role       `json:"role"`
	Parts []wirePart `json:"parts"`
}

var (
	errNoParts = errors.New(
		`decode message: it has no "parts": not a message that Message.MarshalJSON wrote`)
	errNoType = errors.New(`a part has "text" and no "type": not one that Message.MarshalJSON wrote`)
)

// MarshalJSON encodes the message as a JSON object with "role" and "parts", in which each part is
// an object with a "type". [Message.UnmarshalJSON] restores the same message, with arguments,
// signatures and opaque blocks byte for byte. A text that is not valid UTF-8 is an error, since
// JSON cannot hold it. Messages of a run contain only valid UTF-8.
func (m *Message) MarshalJSON() ([]byte, error) {
	w := wireMessage{Role: m.Role, Parts: make([]wirePart, 0, len(m.Parts))}
	if err := runes.CheckUTF8(string(m.Role)); err != nil {
		return nil, fmt.Errorf("encode message: role: %w", err)
	}
	for i, p := range m.Parts {
		wp, err := encodePart(p)
		if err != nil {
			return nil, fmt.Errorf("encode message: part %d: %w", i, err)
		}
		w.Parts = append(w.Parts, wp)
	}
	return json.Marshal(w)
}

// UnmarshalJSON decodes the output of [Message.MarshalJSON]. A part of an unknown type becomes an
// [Opaque] without a provider, which MarshalJSON encodes as the same JSON again. JSON without
// "parts", or with a part that has "text" but no "type", is an error, since text would be lost.
func (m *Message) UnmarshalJSON(data []byte) error {
	var w wireMessage
	if err := json.Unmarshal(data, &w); err != nil {
		return fmt.Errorf("decode message: %w", err)
	}
	if w.Parts == nil {
		return errNoParts
	}
	parts := make([]Part, 0, len(w.Parts))
	for i := range w.Parts {
		p, err := decodePart(&w.Parts[i])
		if err != nil {
			return fmt.Errorf("decode message: part %d: %w", i, err)
		}
		parts = append(parts, p)
	}
	m.Role, m.Parts = w.Role, parts
	m.wire.Store(nil)
	return nil
}

// MarshalJSON encodes the part w. A part of an unknown type is encoded as it was read.
func (w *wirePart) MarshalJSON() ([]byte, error) {
	if w.unknown != nil {
		return w.unknown, nil
	}
	type plain wirePart
	return json.Marshal((*plain)(w))
}

// UnmarshalJSON decodes the part w. For an unknown type, it keeps the JSON text.
func (w *wirePart) UnmarshalJSON(data []byte) error {
	var head struct {
		Type string          `json:"type"`
		Text json.RawMessage `json:"text"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return err
	}
	switch head.Type {
	case "text", "thinking", "tool_use", "tool_output", "media", "opaque":
		type plain wirePart
		return json.Unmarshal(data, (*plain)(w))
	}
	if head.Type == "" && head.Text != nil {
		return errNoType
	}
	w.unknown = bytes.Clone(data)
	return nil
}

// A leafPart is a part of a tool's output. Outputs must not contain calls or other outputs.
type leafPart wirePart

// MarshalJSON encodes the part w.
func (w *leafPart) MarshalJSON() ([]byte, error) { return (*wirePart)(w).MarshalJSON() }

// UnmarshalJSON decodes a part of an output. An output contains no calls and no outputs.
func (w *leafPart) UnmarshalJSON(data []byte) error {
	var head struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return err
	}
	if head.Type == "tool_output" || head.Type == "tool_use" {
		return errNested
	}
	return (*wirePart)(w).UnmarshalJSON(data)
}

// An extraPart is an opaque block that belongs to a part. It cannot have an extraPart itself.
type extraPart wirePart

// MarshalJSON encodes the block w.
func (w *extraPart) MarshalJSON() ([]byte, error) { return (*wirePart)(w).MarshalJSON() }

// UnmarshalJSON decodes w if it is an opaque block. Of any other value, it keeps the JSON text.
func (w *extraPart) UnmarshalJSON(data []byte) error {
	var flat struct {
		Type, Provider, Raw string
	}
	if json.Unmarshal(data, &flat) == nil && (flat.Type == "opaque" || flat.Type == "") {
		*w = extraPart{Type: "opaque", Provider: flat.Provider, Raw: flat.Raw}
		if flat.Type == "opaque" || flat.Provider != "" {
			return nil
		}
	}
	*w = extraPart{unknown: bytes.Clone(data)}
	return nil
}

var errNested = errors.New("a tool output holds no call and no output")

func encodePart(p Part) (wirePart, error) {
	if isNil(p) {
		return wirePart{}, errors.New("part is nil")
	}
	switch p := p.(type) {
	case *Text:
		return wirePart{Type: "text", Text: &p.Text, Extra: (*extraPart)(encodeExtra(p.Extra))},
			cmp.Or(runes.CheckUTF8(p.Text), checkExtra(p.Extra))
	case *Thinking:
		return wirePart{Type: "thinking", Text: &p.Text, Signature: p.Signature, Provider: p.Provider},
			runes.CheckUTF8(p.Text, p.Signature, p.Provider)
	case *ToolUse:
		return wirePart{Type: "tool_use", ID: p.ID, Name: p.Name, Args: string(p.Args),
				Extra: (*extraPart)(encodeExtra(p.Extra))},
			cmp.Or(runes.CheckUTF8(p.ID, p.Name, string(p.Args)), checkExtra(p.Extra))
	case *ToolOutput:
		return encodeOutput(p)
	case *Media:
		return wirePart{Type: "media", Media: p.Type, Name: p.Name, Data: p.Data, URL: p.URL},
			runes.CheckUTF8(p.Type, p.Name, p.URL)
	case *Opaque:
		return encodeOpaque(p)
	}
	return wirePart{}, fmt.Errorf("no such part: %T", p)
}

func encodeOutput(o *ToolOutput) (wirePart, error) {
	w := wirePart{Type: "tool_output", ID: o.ID, Name: o.Name,
		IsError: o.IsError, Untrusted: o.Untrusted}
	for _, p := range o.Parts {
		if _, nested := p.(*ToolOutput); nested {
			return w, errNested
		}
		wp, err := encodePart(p)
		if err != nil {
			return w, err
		}
		w.Parts = append(w.Parts, leafPart(wp))
	}
	return w, runes.CheckUTF8(o.ID, o.Name)
}

func encodeOpaque(o *Opaque) (wirePart, error) {
	if o.Provider == "" && !json.Valid(o.Raw) {
		return wirePart{}, errors.New("opaque block without a provider is not JSON")
	}
	return *encodeExtra(o), runes.CheckUTF8(o.Provider, string(o.Raw))
}

func encodeExtra(o *Opaque) *wirePart {
	if o == nil {
		return nil
	}
	var w wirePart
	if o.Provider == "" && json.Unmarshal(o.Raw, &w) == nil && w.unknown != nil {
		return &w // it is decoded to the same part
	}
	return &wirePart{Type: "opaque", Provider: o.Provider, Raw: string(o.Raw)}
}

func decodePart(w *wirePart) (Part, error) {
	if w.unknown != nil {
		return &Opaque{Raw: w.unknown}, nil
	}
	switch w.Type {
	case "text":
		return &Text{Text: deref(w.Text), Extra: decodeExtra((*wirePart)(w.Extra))}, nil
	case "thinking":
		return &Thinking{Text: deref(w.Text), Signature: w.Signature, Provider: w.Provider}, nil
	case "tool_use":
		return &ToolUse{ID: w.ID, Name: w.Name, Args: raw(w.Args),
			Extra: decodeExtra((*wirePart)(w.Extra))}, nil
	case "tool_output":
		o := &ToolOutput{ID: w.ID, Name: w.Name, IsError: w.IsError, Untrusted: w.Untrusted}
		for i := range w.Parts {
			p, err := decodePart((*wirePart)(&w.Parts[i]))
			if err != nil {
				return nil, err
			}
			o.Parts = append(o.Parts, p)
		}
		return o, nil
	case "media":
		return &Media{Type: w.Media, Name: w.Name, Data: w.Data, URL: w.URL}, nil
	case "opaque":
		return decodeExtra(w), nil
	}
	return nil, fmt.Errorf("no such type: %q", w.Type)
}

func decodeExtra(w *wirePart) *Opaque {
	if w == nil {
		return nil
	}
	if w.unknown != nil {
		return &Opaque{Raw: w.unknown}
	}
	return &Opaque{Provider: w.Provider, Raw: raw(w.Raw)}
}

func raw(s string) json.RawMessage {
	if s == "" {
		return nil
	}
	return json.RawMessage(s)
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func checkExtra(o *Opaque) error {
	if o == nil {
		return nil
	}
	if !utf8.Valid(o.Raw) {
		return runes.ErrNotUTF8
	}
	return runes.CheckUTF8(o.Provider)
}
