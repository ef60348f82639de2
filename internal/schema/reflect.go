package schema

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/invopop/jsonschema"

	"github.com/aycoder/aycoder/internal/rawjson"
)

// Reflect returns the schema of T, a struct or a pointer to one, as one tree without
// $schema, $id and $ref. The properties are in the order of the fields. Fields without
// omitempty and omitzero are required, other properties are not allowed, and jsonschema and
// jsonschema_description tags add keywords. The same type always gives the same bytes.
// Values that encoding/json cannot read, a type that contains itself, and a tag that would
// be ignored are errors that name the field.
//
// A type with a method JSONSchema() json.RawMessage is described by the result of the
// method, which must be an object. Any other type with UnmarshalText is a string, and a
// type with UnmarshalJSON and without exported fields is any value.
func Reflect(t reflect.Type) (json.RawMessage, error) {
	if k, ok := schemas.Load(t); ok {
		return bytes.Clone(k.(*knownSchema).raw), nil
	}
	raw, own, err := reflectType(t)
	if err == nil && !own {
		if s, err := Compile(raw); err == nil {
			schemas.Store(t, &knownSchema{bytes.Clone(raw), s})
		}
	}
	return raw, err
}

// CompileOf is [Compile] for a schema that is normally the one which [Reflect] returns for
// a type. That one is compiled once for all agents.
func CompileOf(t reflect.Type, raw json.RawMessage) (*Schema, error) {
	if k, ok := schemas.Load(t); ok && bytes.Equal(raw, k.(*knownSchema).raw) {
		return k.(*knownSchema).schema, nil
	}
	return Compile(raw)
}

// Interned returns the bytes of the schema that is kept for a type in place of raw, if they are
// the same, so that not every tool holds its own. They must not be changed.
func Interned(t reflect.Type, raw json.RawMessage) json.RawMessage {
	if k, ok := schemas.Load(t); ok && bytes.Equal(raw, k.(*knownSchema).raw) {
		return k.(*knownSchema).raw
	}
	return raw
}

// A knownSchema is the schema of a type.
type knownSchema struct {
	raw    []byte
	schema *Schema
}

// schemas caches the schema of each type, a *knownSchema, because programs make the same
// tools for every agent. Its size is bounded by the number of types in the program. A schema in
// which a type describes itself is not cached, because the method may return something else
// next time.
var schemas sync.Map

// reflectType also reports whether a type in it describes itself.
func reflectType(t reflect.Type) (raw json.RawMessage, own bool, err error) {
	defer func() { // the methods that are called may panic
		if p := recover(); p != nil {
			raw, err = nil, fmt.Errorf("schema of %s: %v", t, p)
		}
	}()
	root := t
	for root.Kind() == reflect.Pointer {
		root = root.Elem()
	}
	if root.Kind() != reflect.Struct {
		return nil, false, fmt.Errorf("schema of %s: not a struct", t)
	}
	// The check comes first: the library would overflow the stack on a type that contains
	// itself.
	own, err = checkType(root)
	var s draft
	if err == nil {
		s, err = describe(root)
	}
	if err != nil {
		return nil, own, fmt.Errorf("schema of %s: %w", t, err)
	}
	return s.AppendTo(nil), own, nil
}

// A reflector makes schemas of checked types. It lets invopop/jsonschema read the structure
// and most tags of one struct at a time. The library asks known about every type that it
// meets. So the schemas of the fields can be amended while their tags are at hand, and the
// finished schema of an inner struct is used unchanged in that of the outer one.
type reflector struct {
	lib  jsonschema.Reflector
	root reflect.Type
	open reflect.Type // the struct whose fields are being described
	err  error
}

// describe returns the schema of a struct, also of one with an Unmarshal method.
func describe(t reflect.Type) (draft, error) {
	r := &reflector{root: t}
	r.lib = jsonschema.Reflector{Anonymous: true, DoNotReference: true, Mapper: r.known}
	s, own, err := special(t, true)
	if err == nil && !own {
		s, err = r.structure(t), r.err
	}
	if err != nil {
		return draft{}, err
	}
	if typ := s.typ(); typ != "object" {
		return draft{}, fmt.Errorf("not an object but %q", typ)
	}
	return s, nil
}

// A describer says itself what its JSON looks like, for types whose form cannot be seen
// from outside.
type describer interface{ JSONSchema() json.RawMessage }

var (
	describerType       = reflect.TypeFor[describer]()
	unmarshalerType     = reflect.TypeFor[json.Unmarshaler]()
	textUnmarshalerType = reflect.TypeFor[encoding.TextUnmarshaler]()
	timeType            = reflect.TypeFor[time.Time]()
)

// special returns the schema of a type whose JSON form does not follow from its Go
// structure, and reports whether t is such a type. At the root, UnmarshalJSON and
// UnmarshalText do not count, because arguments are an object in any case.
func special(t reflect.Type, root bool) (s draft, ok bool, err error) {
	p := reflect.PointerTo(t)
	switch {
	case p.Implements(describerType):
		fields, err := rawjson.Parse(reflect.New(t).Interface().(describer).JSONSchema())
		if err != nil {
			return s, true, fmt.Errorf("JSONSchema of %s: %w", t, err)
		}
		return draft{fields}, true, nil
	case t == timeType:
		s = typed("string")
		s.text("format", "date-time")
		return s, true, nil
	case root:
	case p.Implements(unmarshalerType):
		return s, !hasFields(t), nil
	case p.Implements(textUnmarshalerType):
		return typed("string"), true, nil
	}
	return s, false, nil
}

// hasFields reports whether a struct has exported fields. With UnmarshalJSON, such a struct
// usually just sets defaults; one without, like big.Int, has another form in JSON.
func hasFields(t reflect.Type) bool {
	if t.Kind() != reflect.Struct {
		return false
	}
	for f := range t.Fields() {
		if f.IsExported() {
			return true
		}
	}
	return false
}

// known returns the schema of a type for which the library and encoding/json disagree, or
// nil. It is asked about every type before the library looks at it, so whatever it returns
// is final.
func (r *reflector) known(t reflect.Type) *jsonschema.Schema {
	if t == r.open {
		return nil
	}
	if s, ok, err := special(t, t == r.root); ok || err != nil {
		r.fail(err)
		return s.finished()
	}
	switch k := t.Kind(); {
	case k == reflect.Struct:
		return r.structure(t).finished()
	// The library writes true for any value, which some providers refuse.
	case k == reflect.Interface:
		return draft{}.finished()
	case k == reflect.Slice && t.Elem().Kind() == reflect.Uint8: // of any name
		return &jsonschema.Schema{Type: "string", ContentEncoding: "base64"}
	case k >= reflect.Int && k <= reflect.Uint64: // also enums of protobuf
		return &jsonschema.Schema{Type: "integer"}
	case k == reflect.Map && t.Key().Kind() != reflect.String:
		return r.mapping(t)
	}
	return nil
}

// mapping returns the schema of a map with keys that are not strings. Integer keys may be
// negative if the type is signed, and are any string if the type has UnmarshalText.
func (r *reflector) mapping(t reflect.Type) *jsonschema.Schema {
	of, pattern := r.lib.ReflectFromType(t.Elem()), ""
	switch k := t.Key(); {
	case reflect.PointerTo(k).Implements(textUnmarshalerType):
		return &jsonschema.Schema{Type: "object", AdditionalProperties: of}
	case k.Kind() <= reflect.Int64:
		pattern = "^-?[0-9]+$"
	default:
		pattern = "^[0-9]+$"
	}
	return &jsonschema.Schema{
		Type: "object", PatternProperties: map[string]*jsonschema.Schema{pattern: of},
		AdditionalProperties: jsonschema.FalseSchema,
	}
}

// structure describes a struct. The library finds the properties and which are required;
// order, tags and inner structs are ours.
func (r *reflector) structure(t reflect.Type) draft {
	outer := r.open
	r.open = t
	s := r.lib.ReflectFromType(t)
	r.open = outer
	n, props := typed("object"), draft{}
	r.describeFields(t, s, &props)
	n.child("properties", props)
	n.raw("additionalProperties", "false")
	for _, name := range s.Required {
		n.add("required", rawjson.AppendString(nil, name))
	}
	return n
}

// describeFields adds the fields of a struct, and of those it embeds. The order is that of
// the fields, since a model writes arguments in the order of the schema: a reason in front
// of a decision has to be thought of first.
func (r *reflector) describeFields(t reflect.Type, s *jsonschema.Schema, props *draft) {
	for f := range t.Fields() {
		name, use := jsonField(f)
		switch use {
		case inlined:
			inner := f.Type
			if inner.Kind() == reflect.Pointer {
				inner = inner.Elem()
			}
			r.describeFields(inner, s, props)
		case named:
			p, err := describeField(f, s.Properties.Value(name))
			if err != nil {
				r.fail(fmt.Errorf("%s.%s: jsonschema tag: %w", typeName(t), f.Name, err))
			}
			props.child(name, p)
		}
	}
}

// fail keeps the first error, since the library offers no way to return one.
func (r *reflector) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

// describeField returns the schema of a field; s is the schema that the library made.
func describeField(f reflect.StructField, s *jsonschema.Schema) (draft, error) {
	parts := tagParts(f)
	nullable := slices.ContainsFunc(parts, func(p tagPart) bool { return p.key == "nullable" })
	if nullable {
		s = s.OneOf[0]
	}
	if of := s.Items; s.Type == "array" { // these are said of the list, or of what is in an inner one
		of.Examples, of.ReadOnly, of.WriteOnly = nil, false, false
		if of.Type == "array" || of.Type == "" {
			of.Format, of.Pattern = "", ""
		}
	}
	if s.Type == "string" && isQuoted(f) { // a type describes the value without the quotes
		s.Items, s.Extras = nil, nil
	}
	n := drafted(s)
	for _, p := range parts {
		if err := n.amend(p.key, p.val, 0); err != nil {
			return n, err
		}
	}
	if text := f.Tag.Get("jsonschema_description"); text != "" {
		n.text("description", text)
	}
	n = n.orAny()
	if nullable {
		var both draft
		both.add("oneOf", n.AppendTo(nil))
		both.add("oneOf", json.RawMessage(`{"type":"null"}`))
		n = both
	}
	return n, nil
}

// isQuoted reports whether the value stands in a text.
func isQuoted(f reflect.StructField) bool {
	_, opts, _ := strings.Cut(f.Tag.Get("json"), ",")
	return strings.Contains(","+opts+",", ",string,")
}
