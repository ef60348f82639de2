package google

import (
	"cmp"
	"encoding/json"
	"errors"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/api"
	"github.com/aycoder/aycoder/internal/rawjson"
)

var errNoName = errors.New("call without a name")

// An openCall is a call that more is to come of. Most come whole; with
// "streamFunctionCallArguments" Vertex AI sends the arguments in pieces, and says of
// each part that "another partial message for the current FunctionCall is expected".
type openCall struct {
	use  *aycoder.ToolUse
	args *value // of pieces
}

// A callPart is what one part says of a call. What it does not say is empty.
type callPart struct {
	name, id string
	args     string // JSON text
	pieces   string // JSON text
	more     bool
}

func readCall(raw string) (c callPart) {
	r := rawjson.NewReader(raw)
	for r.Object(); r.Next(); {
		switch r.Key() {
		case "name":
			c.name, _ = r.Str()
		case "id":
			c.id, _ = r.Str()
		case "args":
			c.args = object(r)
		case "partialArgs":
			c.pieces = r.Raw()
		case "willContinue":
			c.more, _ = r.Bool()
		}
	}
	return c
}

// function takes a part with a call, or a further piece of one. A name begins a call,
// which ends the one before. An empty piece of no call ends one that has ended already.
func (d *decoder) function(p *part) error {
	c := readCall(p.call)
	if c.name != "" {
		if err := d.completeCall(); err != nil {
			return err
		}
		d.open = &openCall{use: &aycoder.ToolUse{ID: d.id(c.id, p.call), Name: cmp.Or(d.names[c.name], c.name)}}
	}
	switch {
	case d.open == nil && c.args == "" && c.pieces == "":
		return nil
	case d.open == nil:
		return d.call.Garbled("call", errNoName, p.call)
	}
	if p.signature != "" && d.open.use.Extra == nil {
		d.open.use.Extra = &aycoder.Opaque{Provider: d.provider, Raw: signatureObject(p.signature)}
	}
	if err := d.open.add(&c); err != nil {
		return d.call.Garbled("call", err, p.call)
	}
	if c.more {
		return nil
	}
	return d.completeCall()
}

// id returns the id of a call: the service's, or one that is made of the id of the
// answer, or of the call itself where the answer has none either.
func (d *decoder) id(given, raw string) string {
	seed := cmp.Or(d.answer.Done.ID, raw)
	for given == "" || d.ids[given] {
		given = api.MakeID(seed, d.made)
		d.made++
	}
	d.ids[given] = true
	return given
}

// add adds what a part says of the arguments.
func (c *openCall) add(p *callPart) error {
	if p.args != "" {
		c.use.Args = json.RawMessage(p.args)
	}
	if p.pieces == "" {
		return nil
	}
	if c.args == nil {
		c.args = &value{}
	}
	r := rawjson.NewReader(p.pieces)
	for r.Array(); r.Next(); {
		if err := c.piece(r); err != nil {
			return err
		}
	}
	return nil
}

// piece adds one of the partialArgs.
func (c *openCall) piece(r *rawjson.Reader) error {
	path, s, raw, more := "", "", "", false
	for r.Object(); r.Next(); {
		switch r.Key() {
		case "jsonPath":
			path, _ = r.Str()
		case "stringValue":
			s, _ = r.Str()
		case "numberValue", "boolValue":
			raw = r.Raw()
		case "nullValue":
			raw = "null"
		case "willContinue":
			more, _ = r.Bool()
		}
	}
	return c.args.set(path, leaf{text: []byte(s), raw: raw, more: more})
}

// completeCall emits the call that is open.
func (d *decoder) completeCall() error {
	if d.open == nil {
		return nil
	}
	c := d.open
	d.open = nil
	if c.args != nil {
		c.use.Args = c.args.append(nil, true)
	}
	return d.answer.Call(c.use)
}

// endCall ends the call that is open at the end of the answer. One that the answer did
// not stop for was cut off.
func (d *decoder) endCall(stop aycoder.StopReason) error {
	c := d.open
	if c == nil || stop == aycoder.StopEndTurn {
		return d.completeCall()
	}
	d.open = nil
	if c.args != nil {
		c.use.Args = c.args.append(nil, false)
	}
	if err := d.answer.Close(); err != nil {
		return err
	}
	delta := &aycoder.ToolDelta{ID: c.use.ID, Name: c.use.Name, Args: string(c.use.Args)}
	if err := d.call.Emit(delta); err != nil {
		return err
	}
	return d.call.Emit(&aycoder.BlockCut{Call: c.use})
}
