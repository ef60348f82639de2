package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/invopop/jsonschema"

	"github.com/aycoder/aycoder/internal/rawjson"
)

// Two makers of schemas meet here. The library reads structures and most tags, but not all
// at every type; drafts are what it made, with the rest added. A finished draft is handed
// back to it in a form that it does not look into, so that no keyword is written twice, or
// lost.

// A draft is a schema that is being made. It is a list of fields with JSON values, because
// the order of the keywords is part of the result: the same type gives the same bytes, for
// prompt caches.
type draft struct{ rawjson.Object }

// typed returns the draft of a schema with only a type.
func typed(typ string) draft {
	var n draft
	n.text("type", typ)
	return n
}

// finished wraps a draft in a schema of the library, which keeps it unchanged. The library
// looks only at the type, and at that of the elements.
func (n draft) finished() *jsonschema.Schema {
	s := &jsonschema.Schema{Type: n.typ(), Items: &jsonschema.Schema{}, Extras: map[string]any{"": n}}
	if items := n.items(); items.Object != nil {
		s.Items = items.finished()
	}
	return s
}

// drafted converts a schema of the library, which may begin with a finished draft. The
// keywords come in a fixed order. Those with the zero value of the library's field are left
// out, as it does itself.
func drafted(s *jsonschema.Schema) draft {
	n, finished := s.Extras[""].(draft)
	if s.Type == "" {
		n.Object = n.Without("type")
	}
	for _, k := range [...]struct {
		key string
		val any
	}{
		{"type", s.Type}, {"title", s.Title}, {"description", s.Description},
		{"format", s.Format}, {"pattern", s.Pattern}, {"contentEncoding", s.ContentEncoding},
		{"minimum", s.Minimum}, {"maximum", s.Maximum}, {"multipleOf", s.MultipleOf},
		{"exclusiveMinimum", s.ExclusiveMinimum}, {"exclusiveMaximum", s.ExclusiveMaximum},
		{"minLength", s.MinLength}, {"maxLength", s.MaxLength},
		{"minItems", s.MinItems}, {"maxItems", s.MaxItems},
		{"uniqueItems", s.UniqueItems}, {"readOnly", s.ReadOnly}, {"writeOnly", s.WriteOnly},
	} {
		switch k.val {
		case "", json.Number(""), (*uint64)(nil), false:
		default:
			n.Set(k.key, literalOf(k.val))
		}
	}
	if s.Items != nil {
		if items := drafted(s.Items); !finished || len(items.Object) > 0 {
			n.child("items", items.orAny())
		}
	}
	// There is never more than one, see mapping, so the order of the map does not matter.
	for pattern, of := range s.PatternProperties {
		var p draft
		p.child(pattern, drafted(of).orAny())
		n.child("patternProperties", p)
	}
	if of := s.AdditionalProperties; of == jsonschema.FalseSchema {
		n.raw("additionalProperties", "false")
	} else if of != nil {
		if of := drafted(of); len(of.Object) > 0 {
			n.child("additionalProperties", of)
		}
	}
	for _, of := range s.OneOf {
		n.add("oneOf", drafted(of).AppendTo(nil))
	}
	for _, of := range s.AnyOf {
		n.add("anyOf", drafted(of).AppendTo(nil))
	}
	for _, v := range s.Enum {
		n.add("enum", literalOf(v))
	}
	for _, v := range s.Examples {
		n.add("examples", literalOf(v))
	}
	if v := literalOf(s.Default); v != nil { // not those of lists, which are all text
		n.Set("default", v)
	}
	return n
}

// literalOf returns nil for a value that JSON cannot express, like the number "inf".
func literalOf(v any) json.RawMessage {
	switch v := v.(type) {
	case string:
		return rawjson.AppendString(nil, v)
	case json.Number:
		if isNumber(string(v)) {
			return json.RawMessage(v)
		}
	case bool:
		return strconv.AppendBool(nil, v)
	case *uint64:
		return strconv.AppendUint(nil, *v, 10)
	}
	return nil
}

// isNumber reports whether the library and JSON take a text for a number.
func isNumber(text string) bool {
	_, err := strconv.ParseFloat(text, 64)
	return err == nil && json.Valid([]byte(text))
}

func (n *draft) text(key, val string) { n.Set(key, rawjson.AppendString(nil, val)) }

func (n *draft) child(key string, of draft) { n.Set(key, of.AppendTo(nil)) }

func (n *draft) raw(key, val string) { n.Set(key, json.RawMessage(val)) }

// typ returns the type of the schema, or "".
func (n *draft) typ() string {
	s, _ := rawjson.Str("type", n.Value("type"))
	return s
}

// add appends a keyword, unless its value is empty.
func (n *draft) add(key string, val json.RawMessage) {
	if val == nil {
		return
	}
	list := n.Value(key)
	if list == nil {
		list = json.RawMessage("[]")
	}
	n.Set(key, append(append(rawjson.AppendComma(list[:len(list)-1:len(list)-1]), val...), ']'))
}

// orAny gives an empty schema a description: some providers refuse the forms {} and true.
func (n draft) orAny() draft {
	if len(n.Object) == 0 {
		n.text("description", "any JSON value")
	}
	return n
}

var errNotOfType = errors.New("does not fit the type")

// amend adds a key of a tag that the library has dropped. A key that applies to the
// elements of a list is added to their schema; depth counts the enclosing lists.
func (n *draft) amend(key, val string, depth int) error {
	k, typ := findTag(key), n.typ()
	if typ == "array" && k.of != "" && k.of != "array" {
		items := n.items()
		err := items.amend(key, val, depth+1)
		n.child("items", items)
		return err
	}
	if k.of != "" && !strings.Contains(k.of, kindOf(typ)) && typ != "" {
		return fmt.Errorf("%s=%s: %w %s", key, val, errNotOfType, typ)
	}
	if k.kind == "" || k.isRead(typ, val, depth) {
		return nil
	}
	v := json.RawMessage(val)
	switch {
	case key == "example":
		n.add("examples", literal(typ, val))
	case key == "enum":
		n.add(key, literal(typ, val))
	case key == "default" && typ == "array":
		items := n.items()
		n.add(key, literal(items.typ(), val))
	case k.kind == "text":
		if key != "default" {
			typ = "string"
		}
		v = literal(typ, val)
		fallthrough
	default:
		n.Set(key, v)
	}
	return nil
}

// items returns the schema of the elements of a list.
func (n *draft) items() (of draft) {
	if items := n.Value("items"); rawjson.IsObject(items) {
		of.Object = rawjson.Split(items)
	}
	return of
}

// isRead reports whether the library reads a key with this value at something of a
// type, which is in depth lists.
func (k *tagKey) isRead(typ, val string, depth int) bool {
	switch {
	case k.read == "all":
		return true
	case typ == "" || !strings.Contains(k.read, kindOf(typ)) || depth > 1:
		return false
	case kindOf(typ) == "number":
		return isNumber(val)
	case typ == "boolean":
		return val == "true" || val == "false"
	case k.kind == "bool":
		return val == "true"
	}
	return depth == 0 || !strings.Contains(val, "=")
}

// kindOf returns the name by which the table of tags knows a type: its rules for numbers
// hold for integers.
func kindOf(typ string) string {
	if typ == "integer" {
		return "number"
	}
	return typ
}

// literal returns the JSON form of a value in a tag. A text that is JSON is taken as such
// unless a string is wanted, where 10 means "10".
func literal(typ, val string) json.RawMessage {
	if typ != "string" && json.Valid([]byte(val)) {
		return json.RawMessage(val)
	}
	return rawjson.AppendString(nil, val)
}
