package aycoder

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"unicode/utf8"

	"github.com/aycoder/aycoder/internal/runes"
)

// Texts from outside are made valid before they are stored or shown, see [runes.Clean]. A model, a
// tool or a host may pass any bytes, but [Message.MarshalJSON] refuses those that encoding/json
// would change. Valid parts, which most parts are, stay as they are.

// cleanDelta is [runes.Clean] for a delta. It returns a valid delta unchanged.
func cleanDelta(ev ModelEvent) Event {
	switch ev := ev.(type) {
	case *TextDelta:
		if t := runes.Clean(ev.Text); t != ev.Text {
			return &TextDelta{t}
		}
		return ev
	case *ThinkingDelta:
		if t := runes.Clean(ev.Text); t != ev.Text {
			return &ThinkingDelta{t}
		}
		return ev
	case *ToolDelta:
		id, name, args := runes.Clean(ev.ID), runes.Clean(ev.Name), runes.Clean(ev.Args)
		if id != ev.ID || name != ev.Name || args != ev.Args {
			return &ToolDelta{id, name, args}
		}
		return ev
	}
	return nil
}

// cleanPart returns the part of a model in a form that can be stored as JSON. If it must change
// thinking, it removes the signature, which would no longer match. It returns false for an opaque
// block that is not valid JSON, because nobody can use such a block.
func cleanPart(p Part) (Part, bool) {
	switch p := p.(type) {
	case *Text:
		if p == nil {
			return p, true
		}
		if text, extra := runes.Clean(p.Text), cleanExtra(p.Extra); text != p.Text || extra != p.Extra {
			return &Text{Text: text, Extra: extra}, true
		}
	case *Thinking:
		if p != nil {
			return cleanThinking(p), true
		}
	case *ToolUse:
		return cleanCall(p), true
	case *Media:
		if p != nil {
			return cleanMedia(p), true
		}
	case *Opaque:
		if p != nil {
			o := cleanExtra(p)
			return o, o != nil
		}
	case *ToolOutput:
		if p != nil {
			o := *p
			o.ID, o.Name, o.Parts = runes.Clean(p.ID), runes.Clean(p.Name), cleanParts(p.Parts)
			return &o, true
		}
	}
	return p, true
}

// cleanMessage returns m, or a copy in which all text is valid UTF-8.
func cleanMessage(m *Message) *Message {
	length := 1 + uint32(textLen(m.Parts))
	// Checking all text of a long history would take longer than sending it.
	if m.text.Load() == length {
		return m
	}
	if !slices.ContainsFunc(m.Parts, isGarbled) {
		m.text.Store(length)
		return m
	}
	return &Message{Role: m.Role, Parts: cleanParts(m.Parts)}
}

// textLen returns the length of the text that isGarbled checks.
func textLen(parts []Part) (n int) {
	for _, p := range parts {
		if o, ok := p.(*ToolOutput); ok {
			n += len(o.ID) + len(o.Name) + textLen(o.Parts)
			continue
		}
		n += int(partSize(p))
	}
	return n
}

// isGarbled reports whether a part has text that is not valid UTF-8.
func isGarbled(p Part) bool {
	var err error
	switch p := p.(type) {
	case *Text:
		err = cmp.Or(runes.CheckUTF8(p.Text), checkExtra(p.Extra))
	case *Thinking:
		err = runes.CheckUTF8(p.Text, p.Signature, p.Provider)
	case *ToolUse:
		err = cmp.Or(runes.CheckUTF8(p.ID, p.Name), checkExtra(p.Extra))
		if !utf8.Valid(p.Args) {
			err = runes.ErrNotUTF8
		}
	case *ToolOutput:
		return runes.CheckUTF8(p.ID, p.Name) != nil || slices.ContainsFunc(p.Parts, isGarbled)
	case *Media:
		err = runes.CheckUTF8(p.Type, p.Name, p.URL)
	case *Opaque:
		err = checkExtra(p)
	}
	return err != nil
}

func cleanParts(parts []Part) []Part {
	var out []Part
	for _, p := range parts {
		if c, ok := cleanPart(p); ok {
			out = append(out, c)
		}
	}
	return out
}

func cleanThinking(p *Thinking) *Thinking {
	t := &Thinking{Text: runes.Clean(p.Text), Signature: runes.Clean(p.Signature),
		Provider: runes.Clean(p.Provider)}
	if *t != *p {
		t.Signature = ""
	}
	return t
}

func cleanMedia(p *Media) *Media {
	m := *p
	m.Type, m.Name, m.URL = runes.Clean(p.Type), runes.Clean(p.Name), runes.Clean(p.URL)
	return &m
}

// cleanExtra returns o, or nil if it is not valid JSON.
func cleanExtra(o *Opaque) *Opaque {
	if o == nil || !utf8.Valid(o.Raw) || !json.Valid(o.Raw) || runes.Clean(o.Provider) != o.Provider {
		return nil
	}
	return o
}

// cleanCall returns a copy of c, even if c is valid, because the loop tells the calls of different
// attempts apart by their pointers, and a client may yield the same pointer twice.
func cleanCall(c *ToolUse) *ToolUse {
	if c == nil {
		return nil
	}
	args := c.Args
	if len(args) == 0 || string(args) == "null" {
		args = json.RawMessage("{}")
	}
	if !utf8.Valid(args) || bytes.IndexByte(args, 0) >= 0 {
		args = json.RawMessage(runes.Clean(string(args)))
	}
	return &ToolUse{ID: runes.Clean(c.ID), Name: runes.Clean(c.Name), Args: args,
		Extra: cleanExtra(c.Extra)}
}

// cleanDone returns ev, or a copy in which all text is valid UTF-8.
func cleanDone(ev *MessageDone) *MessageDone {
	if runes.CheckUTF8(string(ev.Stop), ev.Model, ev.ID, ev.Provider, ev.RequestID) == nil {
		return ev
	}
	return &MessageDone{Stop: StopReason(runes.Clean(string(ev.Stop))), Usage: ev.Usage, Cost: ev.Cost,
		Model: runes.Clean(ev.Model), ID: runes.Clean(ev.ID), Provider: runes.Clean(ev.Provider),
		RequestID: runes.Clean(ev.RequestID)}
}

func partSize(p Part) int64 {
	switch p := p.(type) {
	case *Text:
		return int64(len(p.Text)) + extraSize(p.Extra)
	case *Thinking:
		return int64(len(p.Text) + len(p.Signature))
	case *ToolUse:
		return int64(len(p.Name)+len(p.ID)+len(p.Args)) + extraSize(p.Extra)
	case *Media:
		return int64(len(p.Type) + len(p.Name) + len(p.URL) + len(p.Data))
	case *Opaque:
		return extraSize(p)
	}
	return 0
}

func extraSize(o *Opaque) int64 {
	if o == nil {
		return 0
	}
	return int64(len(o.Provider) + len(o.Raw))
}
