package openai

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/api"
	"github.com/aycoder/aycoder/internal/jsontext"
	"github.com/aycoder/aycoder/internal/rawjson"
)

// emit emits the next piece of t.
func (d *respDecoder) emit(it *respItem, t *respText, piece string) error {
	t.sent += len(piece)
	switch it.kind {
	case respMessage:
		return d.call.EmitText(piece)
	case respReasoning:
		return d.call.EmitThinking(piece)
	}
	return d.call.EmitArgs(it.id, d.toolName(it.name), piece)
}

// toolName returns the host's name of a tool.
func (d *respDecoder) toolName(sent string) string { return cmp.Or(d.names[sent], sent) }

// catchUp emits the new text of t.
func (d *respDecoder) catchUp(it *respItem, t *respText) error {
	if t.buf.Len() == t.sent {
		return nil
	}
	return d.emit(it, t, t.buf.String()[t.sent:])
}

// flush emits the new text of the item at the front. A part of a reasoning item is
// emitted only after the previous part, which ends where this one begins.
func (d *respDecoder) flush(it *respItem) error {
	if err := d.announce(it); err != nil || it.kind == respCall && !it.named {
		return err
	}
	for i, t := range it.texts {
		if err := d.catchUp(it, t); err != nil || i == len(it.texts)-1 {
			return err
		}
		if it.kind != respReasoning || it != d.open[0] {
			return nil
		}
		if err := d.endThought(t, ""); err != nil {
			return err
		}
	}
	return nil
}

// endThought emits the end of a part of the reasoning.
func (d *respDecoder) endThought(t *respText, signature string) error {
	if t.over {
		return nil
	}
	t.over = true
	th := &aycoder.Thinking{Text: api.Fitted(&t.buf), Signature: signature, Provider: d.owner}
	return d.call.Emit(&aycoder.BlockDone{Part: th})
}

// announce announces a call, as soon as its id and name are known.
func (d *respDecoder) announce(it *respItem) error {
	if it.kind != respCall || it.named || it.name == "" || it.callID == "" && !it.complete {
		return nil
	}
	it.id = cmp.Or(it.callID, it.itemID)
	if d.ids == nil {
		d.ids = map[string]bool{}
	}
	for n := d.calls; it.id == "" || d.ids[it.id]; n++ {
		it.id = api.MakeID(d.done.ID, n)
	}
	it.named = true
	d.ids[it.id] = true
	d.calls++
	return d.call.EmitArgs(it.id, d.toolName(it.name), "")
}

// advance emits the complete items whose turn it is, and the text so far of the item
// behind them.
func (d *respDecoder) advance() error {
	for len(d.open) > 0 && d.open[0].complete && !d.held() {
		it := d.open[0]
		it.sum = d.sumOf(it)
		if err := d.give(it); err != nil {
			return err
		}
		d.open = d.open[1:]
		it.texts, it.first[0], it.raw, it.final, it.extra = nil, nil, "", "", nil
	}
	d.front = nil
	for _, it := range d.open {
		if it.kind != respOther {
			d.front = it
			return d.flush(it)
		}
	}
	return nil
}

// held reports whether the item at the front waits for the end of the response, or for
// another item behind it. That is a call without arguments, which may have been cut off
// before the first of them came; not all services mark such a call.
func (d *respDecoder) held() bool { return !d.ended && len(d.open) == 1 && d.open[0].noArgs() }

// noArgs reports whether the item is a call without arguments.
func (it *respItem) noArgs() bool { return it.kind == respCall && isNoArgs(it.said()) }

func isNoArgs(args string) bool { return args == "" || args == "null" }

// said returns all texts of the item.
func (it *respItem) said() string {
	if len(it.texts) == 1 {
		return it.texts[0].buf.String()
	}
	var said strings.Builder
	for _, t := range it.texts {
		said.WriteString(t.buf.String())
	}
	return said.String()
}

// give emits a complete item.
func (d *respDecoder) give(it *respItem) error {
	switch it.kind {
	case respMessage:
		return d.giveMessage(it)
	case respReasoning:
		return d.giveReasoning(it)
	case respCall:
		return d.giveCall(it)
	}
	if it.cut {
		return nil // a server-side call that was cut off is useless
	}
	return d.call.Emit(&aycoder.BlockDone{Part: d.opaque(it.raw)})
}

// opaque keeps an item as the service sent it.
func (d *respDecoder) opaque(raw string) *aycoder.Opaque {
	return &aycoder.Opaque{Provider: d.owner, Raw: json.RawMessage(raw)}
}

// giveMessage emits the texts of a message. A part with annotations only is kept, because
// the service wants it back.
func (d *respDecoder) giveMessage(it *respItem) error {
	for _, t := range it.texts {
		d.refused = d.refused || t.place == respRefusal
		if err := d.catchUp(it, t); err != nil {
			return err
		}
		part := &aycoder.Text{Text: api.Fitted(&t.buf)}
		if len(t.extra) > 0 {
			part.Extra = d.opaque(string(t.extra))
		}
		if part.Text == "" && part.Extra == nil {
			continue
		}
		if err := d.call.Emit(&aycoder.BlockDone{Part: part}); err != nil {
			return err
		}
	}
	return nil
}

// giveReasoning emits the rest of the reasoning. The last part has the item as its
// signature, because the service wants the item back.
func (d *respDecoder) giveReasoning(it *respItem) error {
	left := slices.DeleteFunc(it.texts, func(t *respText) bool { return t.over || t.buf.Len() == 0 })
	if len(left) == 0 {
		left = []*respText{{}}
	}
	for i, t := range left {
		if err := d.catchUp(it, t); err != nil {
			return err
		}
		signature := ""
		if i == len(left)-1 {
			signature = strings.Clone(it.raw) // a substring would keep the whole event in memory
		}
		if signature == "" && t.buf.Len() == 0 {
			continue
		}
		if err := d.endThought(t, signature); err != nil {
			return err
		}
	}
	return nil
}

// giveCall emits a call. Arguments that are not complete JSON were cut off. If the pieces
// differ from the complete item, some pieces were lost: then the call has the arguments
// of the item, but does not run.
func (d *respDecoder) giveCall(it *respItem) error {
	if it.name == "" {
		if it.cut {
			return nil // nothing is known about it
		}
		return d.call.Garbled("item", errRespNoName, it.raw)
	}
	if err := d.flush(it); err != nil {
		return err
	}
	u := &aycoder.ToolUse{ID: it.id, Name: d.toolName(it.name), Args: json.RawMessage(it.said())}
	if len(it.extra) > 0 {
		u.Extra = d.opaque(string(it.extra))
	}
	cut := it.cut || it.partial
	switch {
	case cut:
	case it.final != "" && !sameJSON(u.Args, []byte(it.final)):
		cut, u.Args = true, json.RawMessage(it.final)
	case isNoArgs(string(u.Args)):
		u.Args = json.RawMessage(`{}`)
	default:
		cut = !rawjson.Valid(u.Args)
	}
	if cut {
		return d.call.Emit(&aycoder.BlockTruncated{Call: u})
	}
	return d.call.Emit(&aycoder.BlockDone{Part: u})
}

// sameJSON reports whether a and b are the same JSON value, or the same bytes.
func sameJSON(a, b []byte) bool {
	return bytes.Equal(a, b) || jsontext.Canonical(a) == jsontext.Canonical(b)
}
