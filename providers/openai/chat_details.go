package openai

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/aycoder/aycoder/internal/rawjson"
)

// chatDetails are reasoning_details, which gateways want back as they came: "preserve
// the complete reasoning_details when passing them back". They are kept in one
// [aycoder.Opaque] of the message, {"reasoning_details":[…]}.
type chatDetails struct {
	list []*chatDetail
}

// A chatDetail is an element of the list. Streams send its text in pieces.
type chatDetail struct {
	src            string // as it came, if it came in one piece
	fields         rawjson.Object
	typ, id, index string
	text           []byte // JSON without quotes: pieces of it can be joined
	textAt         int    // of fields, or -1
}

func (d *chatDetails) empty() bool { return len(d.list) == 0 }

// add takes a list of details, and returns the text that it holds.
func (d *chatDetails) add(raw string) string {
	r := rawjson.NewReader(raw)
	var text strings.Builder
	before := len(d.list)
	for r.Array(); r.Next(); {
		src := r.Raw()
		o, err := rawjson.Parse([]byte(src))
		if err != nil {
			continue
		}
		next := newChatDetail(src, o)
		if s, ok := rawjson.Unquote(string(next.text)); ok {
			text.WriteString(s)
		}
		if last := d.open(before, next); last != nil {
			last.merge(next)
			continue
		}
		d.list = append(d.list, next)
	}
	return text.String()
}

func newChatDetail(src string, o rawjson.Object) *chatDetail {
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

// open returns the detail of a chunk before that next goes on with: the last of the same
// type and index. Data that is encrypted comes whole, and each time for another.
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

// merge adds a piece: texts are appended, anything else is replaced.
func (d *chatDetail) merge(next *chatDetail) {
	d.src = ""
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

func (d *chatDetail) appendTo(b []byte) []byte {
	if d.src != "" {
		return append(b, d.src...)
	}
	if d.textAt >= 0 {
		d.fields[d.textAt].Val = append(append([]byte{'"'}, d.text...), '"')
	}
	return d.fields.AppendTo(b)
}
