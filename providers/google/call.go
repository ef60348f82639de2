package google

import (
	"cmp"
	"encoding/json"
	"errors"
	"strings"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/api"
	"github.com/aycoder/aycoder/internal/rawjson"
)

var errNoName = errors.New("call without a name")

// An openCall is an incomplete call. Most calls come whole. With
// "streamFunctionCallArguments" Vertex AI sends the arguments in pieces, and says of each
// part that "another partial message for the current FunctionCall is expected".
type openCall struct {
	use  *aycoder.ToolUse
	sent string // the service's id
	args *tree  // assembled from pieces
}

// A callPart has the fields of a call in one part. Absent fields are empty.
type callPart struct {
	name, id string
	args     string // JSON text
	pieces   string // JSON text
	more     bool
	odd      bool // args is not an object
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
			c.arguments(r)
		case "partialArgs":
			c.pieces = r.Raw()
		case "willContinue":
			c.more, _ = r.Bool()
		}
	}
	return c
}

// arguments reads an object. Some gateways send a string that contains one, or is empty.
func (c *callPart) arguments(r *rawjson.Reader) {
	switch kind := r.Kind(); kind {
	case '"':
		s, _ := r.Str()
		c.args = strings.TrimSpace(s)
		c.odd = s != "" && !rawjson.IsObject([]byte(c.args))
	case 'n':
		r.Skip()
	default:
		c.args, c.odd = r.Raw(), kind != '{'
	}
}

// function handles a part with a call, or with another piece of one. A name begins a new
// call and thereby ends an open one. An empty piece without an open call repeats the end
// of one.
func (d *decoder) function(p *part) error {
	c := readCall(p.call)
	if c.name != "" {
		if err := d.cutCall(); err != nil {
			return err
		}
		d.open = &openCall{use: &aycoder.ToolUse{ID: d.id(c.id, p.call), Name: d.name(c.name)}, sent: strings.Clone(c.id)}
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
	switch {
	case c.odd:
		return d.cutCall()
	case c.more:
		return nil
	}
	return d.completeCall()
}

// name returns the name of a tool for its name on the wire. A short text is copied where
// it would keep a large event from being freed.
func (d *decoder) name(wire string) string {
	if name, ok := d.names[wire]; ok {
		return name
	}
	return strings.Clone(wire)
}

// id returns the id of a call: the service's, or one derived from the id of the answer
// or, without that, from the call itself.
func (d *decoder) id(given, raw string) string {
	seed := cmp.Or(d.answer.Done.ID, raw)
	given = strings.Clone(given)
	for given == "" || d.ids[given] {
		given = api.MakeID(seed, d.made)
		d.made++
	}
	if d.ids == nil {
		d.ids = map[string]bool{}
	}
	d.ids[given] = true
	return given
}

// add adds the arguments in a part.
func (c *openCall) add(p *callPart) error {
	if p.args != "" {
		c.use.Args = json.RawMessage(p.args)
	}
	if p.pieces == "" {
		return nil
	}
	if c.args == nil {
		c.args = &tree{}
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

// completeCall emits the open call at its last piece. It counts as truncated if a string
// in it was to be continued.
func (d *decoder) completeCall() error {
	c := d.open
	if c.args != nil {
		if !c.args.whole() {
			return d.cutCall()
		}
		c.use.Args = c.args.root.append(nil, true)
	}
	d.open = nil
	if d.answer.Repeats(c.sent, c.use) {
		return nil
	}
	return d.answer.Call(c.use)
}

// cutCall emits the open call, if there is one, as truncated.
func (d *decoder) cutCall() error {
	c := d.open
	if c == nil {
		return nil
	}
	d.open = nil
	if c.args != nil {
		c.use.Args = c.args.root.append(nil, false)
	}
	return d.answer.Cut(c.use)
}
