package openai

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/aycoder/aycoder/internal/rawjson"
)

// maxSchemaDepth is the maximum depth of a schema: "A schema may have up to 5000 object
// properties total, with up to 10 levels of nesting."
const maxSchemaDepth = 10

var (
	// strictKept are the keywords that a strict schema may have and that do not contain
	// schemas.
	strictKept = []string{"type", "enum", "const", "description", "title", "pattern", "multipleOf",
		"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minItems", "maxItems",
		"$ref"}
	// strictFormats are the string formats that strict schemas support: "'uri' is not a
	// valid format."
	strictFormats = []string{"date-time", "time", "date", "duration", "email", "hostname", "ipv4",
		"ipv6", "uuid"}
	// strictDropped do not affect validity.
	strictDropped = []string{"$schema", "$id", "$comment", "default", "examples", "deprecated",
		"readOnly", "writeOnly"}
)

// strictSchema rewrites a schema into the form that a service can enforce:
// "additionalProperties: false must always be set in objects", and "all fields or
// function parameters must be specified as required". Optional properties may be null
// instead. It reports false if that is impossible without changing the meaning of the
// schema: for maps, and for unsupported keywords.
func strictSchema(raw json.RawMessage) (json.RawMessage, bool) {
	o, err := rawjson.Parse(raw)
	if err != nil || string(o.Value("type")) != `"object"` || o.Value("anyOf") != nil {
		return nil, false // "the root level object of a schema must be an object, and not use anyOf"
	}
	return strictObject(o, 0)
}

// strictOf rewrites a subschema.
func strictOf(raw json.RawMessage, depth int) (json.RawMessage, bool) {
	o, err := rawjson.Parse(raw)
	if err != nil || depth > maxSchemaDepth {
		return nil, false
	}
	return strictObject(o, depth)
}

// strictObject makes an object strict, or reports that its meaning would change: a keyword
// that strict schemas do not know cannot be dropped silently.
func strictObject(o rawjson.Object, depth int) (json.RawMessage, bool) {
	out := make(rawjson.Object, 0, len(o)+1)
	var format json.RawMessage
	for _, f := range o {
		switch {
		case slices.Contains(strictKept, f.Key):
			out = append(out, f)
		case f.Key == "format":
			format = f.Val
		case slices.Contains(strictDropped, f.Key), f.Key == "required", f.Key == "properties":
		case f.Key == "additionalProperties":
			if string(f.Val) != "false" {
				return nil, false
			}
		default:
			val, ok := strictNested(f, depth)
			if !ok {
				return nil, false
			}
			out = append(out, rawjson.Field{Key: f.Key, Val: val})
		}
	}
	out = strictFormat(out, format)
	out, ok := strictRef(out)
	if !ok || !strictTyped(out) {
		return nil, false
	}
	if !isObjectSchema(o) {
		return out.AppendTo(nil), true
	}
	props, names, ok := strictProperties(o, depth)
	if !ok {
		return nil, false
	}
	out.Set("properties", props)
	out.Set("required", names)
	out.Set("additionalProperties", json.RawMessage("false"))
	return out.AppendTo(nil), true
}

// strictFormat adds the format of a string. An unsupported format goes into the
// description, because most validators treat formats as hints anyway.
func strictFormat(o rawjson.Object, raw json.RawMessage) rawjson.Object {
	var name, text string
	switch {
	case json.Unmarshal(raw, &name) != nil || name == "":
		return o
	case slices.Contains(strictFormats, name):
		o.Set("format", raw)
		return o
	case o.Value("description") != nil && json.Unmarshal(o.Value("description"), &text) != nil:
		return o
	}
	if text != "" {
		text += "\n"
	}
	o.Set("description", rawjson.AppendString(nil, text+"Format: "+name))
	return o
}

// strictRef wraps a reference that has other keywords: "$ref cannot have keywords
// {'description'}". It reports false if one of them affects validity.
func strictRef(o rawjson.Object) (rawjson.Object, bool) {
	ref := o.Value("$ref")
	if ref == nil || len(o) == 1 {
		return o, true
	}
	var out rawjson.Object
	for _, f := range o {
		switch f.Key {
		case "$ref":
		case "description", "title":
			out = append(out, f)
		default:
			return nil, false
		}
	}
	b := rawjson.Object{{Key: "$ref", Val: ref}}.AppendTo([]byte{'['})
	return append(out, rawjson.Field{Key: "anyOf", Val: append(b, ']')}), true
}

// strictTyped reports whether a schema specifies a type: "schema must have a 'type' key",
// and "array schema missing items".
func strictTyped(o rawjson.Object) bool {
	if o.Value("anyOf") != nil || o.Value("$ref") != nil {
		return true
	}
	typ := o.Value("type")
	return typ != nil && (!strings.Contains(string(typ), `"array"`) || o.Value("items") != nil)
}

// isObjectSchema reports whether a schema is that of objects, also as one of several types.
func isObjectSchema(o rawjson.Object) bool {
	var types []string
	if json.Unmarshal(o.Value("type"), &types) == nil && slices.Contains(types, "object") {
		return true
	}
	return string(o.Value("type")) == `"object"` || o.Value("properties") != nil
}

// strictNested rewrites a keyword that contains schemas.
func strictNested(f rawjson.Field, depth int) (json.RawMessage, bool) {
	switch f.Key {
	case "items":
		return strictOf(f.Val, depth+1)
	case "anyOf":
		return strictList(f.Val, depth)
	case "$defs", "definitions":
		o, err := rawjson.Parse(f.Val)
		if err != nil {
			return nil, false
		}
		for i := range o {
			val, ok := strictOf(o[i].Val, depth+1)
			if !ok {
				return nil, false
			}
			o[i].Val = val
		}
		return o.AppendTo(nil), true
	}
	return nil, false
}

// strictList makes each schema of a list strict.
func strictList(raw json.RawMessage, depth int) (json.RawMessage, bool) {
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil || len(list) == 0 {
		return nil, false
	}
	out := []byte{'['}
	for _, item := range list {
		val, ok := strictOf(item, depth+1)
		if !ok {
			return nil, false
		}
		out = append(rawjson.AppendComma(out), val...)
	}
	return append(out, ']'), true
}

// strictProperties rewrites the properties of an object, and returns the list of their
// names. An object without properties is a map.
func strictProperties(o rawjson.Object, depth int) (props, names json.RawMessage, ok bool) {
	fields, err := rawjson.Parse(o.Value("properties"))
	if err != nil || len(fields) == 0 {
		return nil, nil, false
	}
	var required []string
	if raw := o.Value("required"); raw != nil && json.Unmarshal(raw, &required) != nil {
		return nil, nil, false
	}
	names = json.RawMessage{'['}
	for i, f := range fields {
		val, ok := strictOf(f.Val, depth+1)
		if !ok {
			return nil, nil, false
		}
		if !slices.Contains(required, f.Key) {
			val = nullable(val)
		}
		fields[i].Val = val
		names = rawjson.AppendString(rawjson.AppendComma(names), f.Key)
	}
	return fields.AppendTo(nil), append(names, ']'), true
}

// nullable also allows null.
func nullable(schema json.RawMessage) json.RawMessage {
	var s struct {
		Type  json.RawMessage
		Enum  []json.RawMessage
		Const json.RawMessage
		AnyOf []json.RawMessage
	}
	if json.Unmarshal(schema, &s) != nil {
		return schema
	}
	if s.Enum == nil && s.Const == nil && s.AnyOf == nil && len(s.Type) > 0 && s.Type[0] == '"' {
		if string(s.Type) == `"null"` {
			return schema
		}
		o := rawjson.Split(schema)
		o.Set("type", json.RawMessage(`[`+string(s.Type)+`,"null"]`))
		return o.AppendTo(nil)
	}
	return json.RawMessage(`{"anyOf":[` + string(schema) + `,{"type":"null"}]}`)
}
