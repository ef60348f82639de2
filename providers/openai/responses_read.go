package openai

import (
	"encoding/json"
	"errors"

	"github.com/aycoder/aycoder/internal/rawjson"
)

var errRespNoName = errors.New("call without a name")

// Complete items. Their texts are matched with those that were streamed, and settle them.
// Fields that are not known are kept, because the service wants its items back as they
// were.

// read parses a complete item.
func (it *respItem) read(raw string) error {
	switch it.kind {
	case respMessage:
		return it.readMessage(raw)
	case respReasoning:
		return it.readReasoning(raw)
	case respCall:
		return it.readCall(raw)
	}
	return nil
}

// readCall reads a call. The id and the name that came first stay, because the host has
// seen them in a delta: the result of a call must carry the id of its announcement. Fields
// that are not known here are kept as JSON, since the service may want some of them back.
func (it *respItem) readCall(raw string) error {
	var rest rawjson.Object
	r := rawjson.NewReader(raw)
	for r.Object(); r.Next(); {
		switch key := r.Key(); key {
		case "call_id":
			it.unlessNamed(r, &it.callID)
		case "name":
			it.unlessNamed(r, &it.name)
		case "arguments":
			if err := it.arguments(r); err != nil {
				return err
			}
		case "status":
			s, _ := r.Str()
			it.partial = s == "incomplete"
		case "type", "id", "item_id", "output_index":
		default:
			rest = append(rest, rawjson.Field{Key: key, Val: json.RawMessage(r.Raw())})
		}
	}
	it.extra = nil
	if rest = rest.Without(); len(rest) > 0 {
		it.extra = rest.AppendTo(nil)
	}
	return r.End()
}

// unlessNamed reads a string unless an event has already set it.
func (it *respItem) unlessNamed(r *rawjson.Reader, to *string) {
	if it.named {
		r.Skip()
		return
	}
	respString(r, to)
}

// arguments reads the arguments of a call: a string of JSON, or JSON itself.
func (it *respItem) arguments(r *rawjson.Reader) error {
	var args string
	if r.Kind() == '"' {
		args, _ = r.Str()
	} else {
		args = r.Raw()
	}
	if args == "" || args == "null" {
		return nil
	}
	t, err := it.text(respPlain, 0)
	if err == nil {
		t.settle(args)
		it.final = args
	}
	return err
}

// readReasoning reads a reasoning item.
func (it *respItem) readReasoning(raw string) error {
	r := rawjson.NewReader(raw)
	for r.Object(); r.Next(); {
		place := respPlain
		switch r.Key() {
		case "summary":
			place = respSummary
		case "content":
		default:
			continue
		}
		sub := int64(0)
		for r.Array(); r.Next(); sub++ {
			if err := it.readThought(r, place, sub); err != nil {
				return err
			}
		}
	}
	return r.End()
}

// readThought reads the texts of a complete reasoning item. A part that was emitted already
// stays as it was.
func (it *respItem) readThought(r *rawjson.Reader, place respPlace, sub int64) error {
	for r.Object(); r.Next(); {
		if r.Key() != "text" {
			continue
		}
		s, _ := r.Str()
		if s == "" {
			continue
		}
		t, err := it.match(place, sub, s)
		if err != nil {
			return err
		}
		if !t.over {
			t.settle(s)
		}
	}
	return nil
}

// maxPhase is the maximum length in bytes of the phase of a message, because each of its
// texts stores it.
const maxPhase = 64

// readMessage reads a message. Its phase is stored with its texts.
func (it *respItem) readMessage(raw string) error {
	var phase rawjson.Object
	r := rawjson.NewReader(raw)
	for r.Object(); r.Next(); {
		switch key := r.Key(); key {
		case "content":
			sub := int64(0)
			for r.Array(); r.Next(); sub++ {
				if err := it.readContent(r, sub); err != nil {
					return err
				}
			}
		case "phase":
			kind, val := r.Kind(), r.Raw()
			if kind == '"' && len(val) <= maxPhase {
				phase = rawjson.Object{{Key: key, Val: json.RawMessage(val)}}
			}
		}
	}
	if err := r.End(); err != nil || len(phase) == 0 {
		return err
	}
	for _, t := range it.texts {
		t.addExtra(phase)
	}
	return nil
}

// addExtra puts fields before the known ones. An empty text gets none.
func (t *respText) addExtra(o rawjson.Object) {
	if len(t.extra) > 0 {
		o = append(o[:len(o):len(o)], rawjson.Split(t.extra)...)
	} else if t.buf.Len() == 0 {
		return
	}
	t.extra = o.AppendTo(nil)
}

// readContent reads a part of a message.
func (it *respItem) readContent(r *rawjson.Reader, sub int64) error {
	var rest rawjson.Object
	text, place := "", respPlain
	for r.Object(); r.Next(); {
		switch key := r.Key(); key {
		case "type":
			typ := r.Raw()
			if typ == `"refusal"` {
				place = respRefusal
			}
			if typ != `"output_text"` && typ != `"text"` {
				rest = append(rest, rawjson.Field{Key: key, Val: json.RawMessage(typ)})
			}
		case "text", "refusal":
			if s, _ := r.Str(); s != "" {
				text = s
			}
		default:
			rest = append(rest, rawjson.Field{Key: key, Val: json.RawMessage(r.Raw())})
		}
	}
	t, err := it.match(place, sub, text)
	if err != nil {
		return err
	}
	t.settle(text)
	if rest = respNotEmpty(rest.Without()); len(rest) > 0 {
		t.extra = rest.AppendTo(nil)
	}
	return r.Err()
}

// respNotEmpty removes empty lists, which most messages have.
func respNotEmpty(o rawjson.Object) rawjson.Object {
	n := 0
	for _, f := range o {
		if string(f.Val) != "[]" {
			o[n] = f
			n++
		}
	}
	return o[:n]
}
