package ollama

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/aycoder/aycoder/internal/api"
	"github.com/aycoder/aycoder/internal/rawjson"
)

// maxSchema limits the bytes of a schema that are processed, expanded references
// included: references may contain each other many times over.
const maxSchema = 1 << 20

var errSchema = errors.New("schema is not a JSON object")

// parameters returns the schema of a tool's arguments in the form that Ollama supports:
// types, descriptions, enums, properties, items and anyOf. Other keywords are lost on the
// way to the model, and a schema that is true or false, or a list of types at the top, is
// refused. So references are expanded, and other keywords are expressed with the
// supported ones where possible. The rest is still validated when the model calls.
func parameters(raw json.RawMessage) ([]byte, error) {
	if len(bytes.TrimSpace(raw)) == 0 {
		raw = json.RawMessage(`{}`)
	}
	root, err := rawjson.Parse(api.ValidUTF8(raw))
	if err != nil {
		return nil, errSchema
	}
	a := &adapter{root: root, left: maxSchema}
	o := a.object(slices.Clone(root)).Without("$defs", "definitions", "$schema", "$id")
	o.Set("type", json.RawMessage(`"object"`))
	if p := o.Value("properties"); len(p) == 0 || p[0] != '{' {
		o.Set("properties", json.RawMessage(`{}`))
	}
	return o.AppendTo(nil), nil
}

// An adapter rewrites a schema.
type adapter struct {
	root rawjson.Object
	open []string // the references that lead to the current schema
	left int      // bytes left to process
}

// schema rewrites a subschema. A boolean schema becomes the empty one, and so does a
// schema beyond the limit.
func (a *adapter) schema(raw json.RawMessage) json.RawMessage {
	a.left -= len(raw)
	if raw[0] != '{' || a.left < 0 {
		return json.RawMessage(`{}`)
	}
	return a.object(rawjson.Split(raw)).AppendTo(nil)
}

func (a *adapter) object(o rawjson.Object) rawjson.Object {
	open := len(a.open)
	o = a.inline(o)
	for i, f := range o {
		switch f.Key {
		case "properties":
			o[i].Val = a.properties(f.Val)
		case "items":
			o[i].Val = a.schema(f.Val)
		case "oneOf":
			if o.Value("anyOf") == nil {
				o[i] = rawjson.Field{Key: "anyOf", Val: a.list(f.Val)}
			}
		case "anyOf":
			o[i].Val = a.list(f.Val)
		case "const":
			if o.Value("enum") == nil {
				o[i] = rawjson.Field{Key: "enum", Val: slices.Concat([]byte("["), f.Val, []byte("]"))}
			}
		}
	}
	a.open = a.open[:open]
	return o
}

// inline replaces a reference by its target; the keywords of o itself win.
func (a *adapter) inline(o rawjson.Object) rawjson.Object {
	for {
		target, ok := a.target(o)
		if !ok {
			return o
		}
		o = o.Without("$ref", "allOf")
		if a.left -= len(target); len(target) == 0 || target[0] != '{' || a.left < 0 {
			return o
		}
		for _, f := range rawjson.Split(target) {
			if o.Value(f.Key) == nil {
				o.Set(f.Key, f.Val)
			}
		}
	}
}

// target returns the schema to which a $ref, or an allOf of one schema, refers. A
// recursive reference is not expanded.
func (a *adapter) target(o rawjson.Object) (json.RawMessage, bool) {
	ref, err := rawjson.Str("$ref", o.Value("$ref"))
	if err != nil || ref == "" {
		list := elements(o.Value("allOf"))
		if len(list) != 1 {
			return nil, false
		}
		return list[0], true
	}
	if slices.Contains(a.open, ref) {
		return nil, true
	}
	a.open = append(a.open, ref)
	return a.lookup(ref), true
}

// lookup resolves a reference into the schema itself: "#/$defs/Name".
func (a *adapter) lookup(ref string) json.RawMessage {
	path, ok := strings.CutPrefix(ref, "#/")
	if !ok {
		return nil
	}
	o := a.root
	var val json.RawMessage
	for key := range strings.SplitSeq(path, "/") {
		key = strings.NewReplacer("~1", "/", "~0", "~").Replace(key)
		if val = o.Value(key); len(val) == 0 || val[0] != '{' {
			return nil
		}
		o = rawjson.Split(val)
	}
	return val
}

// elements returns the elements of a list.
func elements(raw json.RawMessage) (list []json.RawMessage) {
	r := rawjson.NewReader(string(raw))
	for r.Array(); r.Next(); {
		list = append(list, json.RawMessage(r.Raw()))
	}
	return list
}

func (a *adapter) properties(raw json.RawMessage) json.RawMessage {
	if raw[0] != '{' {
		return json.RawMessage(`{}`)
	}
	o := rawjson.Split(raw)
	for i, f := range o {
		o[i].Val = a.schema(f.Val)
	}
	return o.AppendTo(nil)
}

func (a *adapter) list(raw json.RawMessage) json.RawMessage {
	b := []byte{'['}
	for _, s := range elements(raw) {
		b = append(rawjson.AppendComma(b), a.schema(s)...)
	}
	return append(b, ']')
}
