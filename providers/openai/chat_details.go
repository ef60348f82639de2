package openai

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/rawjson"
)

// chatDetails are reasoning_details, which gateways want back unchanged: "preserve the
// complete reasoning_details when passing them back". They are kept in one
// [aycoder.Opaque] of the message, {"reasoning_details":[…]}.
type chatDetails struct {
	list []*chatDetail
}

// A chatDetail is an element of the list. Streams send its text in pieces.
type chatDetail struct {
	src            []byte // unchanged, if it came in one piece
	fields         rawjson.Object
	typ, id, index string
	text           []byte // JSON without quotes, so that pieces can be concatenated
	textAt         int    // index in fields, or -1
}

func (d *chatDetails) empty() bool { return len(d.list) == 0 }

// chatDetailFields is the maximum number of fields of a detail, because each piece is
// searched for in them.
const chatDetailFields = 100

// add adds a list of details, and returns their text.
func (d *chatDetails) add(raw string) (string, error) {
	r := rawjson.NewReader(raw)
	var text strings.Builder
	before := len(d.list)
	for r.Array(); r.Next(); {
		src := []byte(r.Raw()) // a copy, since the chunk is not kept
		o, err := rawjson.Parse(src)
		if err != nil || len(o) == 0 {
			continue
		}
		next := newChatDetail(src, o)
		if s, ok := rawjson.Unquote(string(next.text)); ok {
			text.WriteString(s)
		}
		if err := d.put(before, next); err != nil {
			return "", err
		}
	}
	return text.String(), nil
}

// put adds a detail, or continues one from an earlier chunk.
func (d *chatDetails) put(before int, next *chatDetail) error {
	last := d.open(before, next)
	switch {
	case len(next.fields) > chatDetailFields, last != nil && len(last.fields) > chatDetailFields:
		return &aycoder.LimitError{Limit: "fields of a reasoning detail", Max: chatDetailFields}
	case last != nil:
		last.merge(next)
		return nil
	case len(d.list) == chatMany:
		return &aycoder.LimitError{Limit: "reasoning details", Max: chatMany}
	}
	d.list = append(d.list, next)
	return nil
}

// newChatDetail keeps the fields of a detail, and its text apart, to which later pieces are
// added.
func newChatDetail(src []byte, o rawjson.Object) *chatDetail {
	d := &chatDetail{src: src, fields: o, textAt: -1}
	for i, f := range o {
		switch f.Key {
		case "type":
			d.typ, _ = rawjson.Str(f.Key, f.Val)
		case "id":
			d.id, _ = rawjson.Str(f.Key, f.Val)
		case "index":
			d.index = string(f.Val)
		case "text", "summary":
			if len(f.Val) > 1 && f.Val[0] == '"' && d.textAt < 0 {
				d.text, d.textAt = f.Val[1:len(f.Val)-1], i
			}
		}
	}
	return d
}

// open returns the detail of an earlier chunk that next continues: the last one of the
// same type and index. Encrypted data comes whole, so it always begins a new detail.
func (d *chatDetails) open(before int, next *chatDetail) *chatDetail {
	if next.typ == "reasoning.encrypted" {
		return nil
	}
	for i := before - 1; i >= max(0, before-chatLookBack); i-- {
		if last := d.list[i]; last.typ == next.typ && last.index == next.index {
			if last.id != "" && next.id != "" && last.id != next.id {
				return nil
			}
			return last
		}
	}
	return nil
}

// merge adds a piece: texts are appended, other fields are replaced.
func (d *chatDetail) merge(next *chatDetail) {
	d.src = nil
	for i, f := range next.fields {
		switch {
		case i != next.textAt:
			if !rawjson.IsNull(f.Val) && string(f.Val) != `""` {
				d.fields.Set(f.Key, f.Val)
			}
		case d.textAt < 0:
			d.fields.Set(f.Key, f.Val)
			d.text, d.textAt = next.text, slices.IndexFunc(d.fields, func(g rawjson.Field) bool { return g.Key == f.Key })
		default:
			d.text = append(d.text, next.text...)
		}
	}
}

// raw returns the details as a block, or nil if there are none.
func (d *chatDetails) raw() json.RawMessage {
	if d.empty() {
		return nil
	}
	b := []byte(`{"reasoning_details":[`)
	for i, e := range d.list {
		if i > 0 {
			b = append(b, ',')
		}
		b = e.appendTo(b)
	}
	return append(b, `]}`...)
}

// appendTo writes the detail as the service wants it back: unchanged if it came in one
// piece.
func (d *chatDetail) appendTo(b []byte) []byte {
	if d.src != nil {
		return append(b, d.src...)
	}
	if d.textAt >= 0 {
		d.fields[d.textAt].Val = append(append([]byte{'"'}, d.text...), '"')
	}
	return d.fields.AppendTo(b)
}
