package schema

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/aycoder/aycoder/internal/rawjson"
)

// Reflect returns the schema of T, a struct or a pointer to one, in one tree without
// $schema, $id and $ref: properties in the order of the fields, required are those
// without omitempty and omitzero, no other properties are allowed, and jsonschema
// and jsonschema_description tags add the rest. The same type always gives the same
// bytes. What encoding/json cannot read, a type that contains itself, and a tag that
// would be ignored are errors that name the field.
//
// A type with a method JSONSchema() json.RawMessage is described by what that returns,
// an object. One that reads itself from JSON text is a string if it has UnmarshalText,
// and any value if it has UnmarshalJSON and no exported fields.
func Reflect[T any]() (json.RawMessage, error) { return reflectType(reflect.TypeFor[T]()) }

func reflectType(t reflect.Type) (raw json.RawMessage, err error) {
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
		return nil, fmt.Errorf("schema of %s: not a struct", t)
	}
	err = checkType(root)
	var s draft
	if err == nil {
		s, err = describeRoot(root)
	}
	if err != nil {
		return nil, fmt.Errorf("schema of %s: %w", t, err)
	}
	return bytes.Clone(s.AppendTo(nil)), nil // it is kept, and has grown
}

// describeRoot describes a struct, also one that reads itself.
func describeRoot(t reflect.Type) (draft, error) {
	s, own, err := special(t, true)
	if err == nil && !own {
		s, err = describeStruct(t)
	}
	if err != nil {
		return draft{}, err
	}
	if typ := s.typ(); typ != "object" {
		return draft{}, fmt.Errorf("not an object but %q", typ)
	}
	return s, nil
}

type describer interface{ JSONSchema() json.RawMessage }

var (
	describerType       = reflect.TypeFor[describer]()
	unmarshalerType     = reflect.TypeFor[json.Unmarshaler]()
	textUnmarshalerType = reflect.TypeFor[encoding.TextUnmarshaler]()
	timeType            = reflect.TypeFor[time.Time]()
)

// A draft is a schema that is being made.
type draft struct{ rawjson.Object }

func typed(typ string) draft {
	var n draft
	n.text("type", typ)
	return n
}

func (n *draft) text(key, val string)       { n.Set(key, rawjson.AppendString(nil, val)) }
func (n *draft) child(key string, of draft) { n.Set(key, of.AppendTo(nil)) }
func (n *draft) raw(key, val string)        { n.Set(key, json.RawMessage(val)) }

// typ is what the schema says of the type, or "".
func (n *draft) typ() string {
	s, _ := rawjson.Str("type", n.Value("type"))
	return s
}

// add appends to a list.
func (n *draft) add(key string, val json.RawMessage) {
	list := n.Value(key)
	if list == nil {
		list = json.RawMessage("[]")
	}
	n.Set(key, append(append(rawjson.AppendComma(list[:len(list)-1:len(list)-1]), val...), ']'))
}

// special describes the types that are not what their Go structure says, and says
// whether t is one.
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

// hasFields tells a struct that reads itself to set defaults from one that hides
// what it is, like big.Int.
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

// describe describes a type that was checked. Any value is a schema without fields.
func describe(t reflect.Type) (draft, error) {
	if t.Kind() == reflect.Pointer {
		return describe(t.Elem())
	}
	if s, ok, err := special(t, false); ok || err != nil {
		return s, err
	}
	switch t.Kind() {
	case reflect.Bool:
		return typed("boolean"), nil
	case reflect.Float32, reflect.Float64:
		return typed("number"), nil
	case reflect.String:
		return typed("string"), nil
	case reflect.Slice, reflect.Array:
		return describeList(t)
	case reflect.Map:
		return describeMap(t)
	case reflect.Struct:
		return describeStruct(t)
	case reflect.Interface:
		return draft{}, nil
	}
	return typed("integer"), nil
}

// describeList describes a list, or bytes, which package json writes in base64.
func describeList(t reflect.Type) (draft, error) {
	if t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8 {
		s := typed("string")
		s.text("contentEncoding", "base64")
		return s, nil
	}
	items, err := describe(t.Elem())
	s := typed("array")
	s.child("items", items.orAny())
	if t.Kind() == reflect.Array {
		n := strconv.Itoa(t.Len())
		s.raw("minItems", n)
		s.raw("maxItems", n)
	}
	return s, err
}

// orAny is a schema that is not empty: that is written {} or true, which some
// providers refuse.
func (n draft) orAny() draft {
	if len(n.Object) == 0 {
		n.text("description", "any JSON value")
	}
	return n
}

func describeMap(t reflect.Type) (draft, error) {
	of, err := describe(t.Elem())
	s := typed("object")
	keys := ""
	if k := t.Key(); !reflect.PointerTo(k).Implements(textUnmarshalerType) {
		switch {
		case k.Kind() >= reflect.Int && k.Kind() <= reflect.Int64:
			keys = "^-?[0-9]+$"
		case k.Kind() >= reflect.Uint && k.Kind() <= reflect.Uint64:
			keys = "^[0-9]+$"
		}
	}
	switch {
	case keys != "":
		var p draft
		p.child(keys, of.orAny())
		s.child("patternProperties", p)
		s.raw("additionalProperties", "false")
	case len(of.Object) > 0:
		s.child("additionalProperties", of)
	}
	return s, err
}

func describeStruct(t reflect.Type) (draft, error) {
	s := typed("object")
	s.raw("properties", "{}")
	s.raw("additionalProperties", "false")
	var props draft
	err := describeFields(t, &s, &props)
	if len(props.Object) > 0 {
		s.child("properties", props)
	}
	return s, err
}

// describeFields adds the fields of a struct, and of those it embeds.
func describeFields(t reflect.Type, s, props *draft) error {
	for f := range t.Fields() {
		name, tagged := jsonName(f)
		if name == "-" || f.Tag.Get("jsonschema") == "-" {
			continue
		}
		if f.Anonymous && !tagged {
			inner := f.Type
			if inner.Kind() == reflect.Pointer {
				inner = inner.Elem()
			}
			if err := describeFields(inner, s, props); err != nil {
				return err
			}
			continue
		}
		if !f.IsExported() {
			continue
		}
		required, err := describeField(f, name, props)
		if err != nil {
			return fmt.Errorf("%s.%s: %w", typeName(t), f.Name, err)
		}
		if required {
			s.add("required", rawjson.AppendString(nil, name))
		}
	}
	return nil
}

func describeField(f reflect.StructField, name string, props *draft) (required bool, err error) {
	p, err := describe(f.Type)
	if err != nil {
		return false, err
	}
	_, opts, _ := strings.Cut(f.Tag.Get("json"), ",")
	opts = "," + opts + ","
	if strings.Contains(opts, ",string,") && p.isQuotable() {
		p = typed("string")
	}
	required = !strings.Contains(opts, ",omitempty,") && !strings.Contains(opts, ",omitzero,")
	nullable := false
	for _, part := range tagParts(f) {
		switch part.key {
		case "required":
			required = true
		case "nullable":
			nullable = true
		default:
			if err := p.keyword(part.key, part.val); err != nil {
				return false, fmt.Errorf("jsonschema tag: %w", err)
			}
		}
	}
	if text := f.Tag.Get("jsonschema_description"); text != "" {
		p.text("description", text)
	}
	p = p.orAny()
	if nullable {
		var both draft
		both.add("oneOf", p.AppendTo(nil))
		both.add("oneOf", json.RawMessage(`{"type":"null"}`))
		p = both
	}
	props.child(name, p)
	return required, nil
}

// isQuotable says what the option "string" of a json tag is for: "It applies only to
// fields of string, floating point, integer, or boolean types".
func (n *draft) isQuotable() bool {
	switch n.typ() {
	case "string", "number", "integer", "boolean":
		return true
	}
	return false
}

var errNotOfType = errors.New("does not fit the type")

// keyword adds what a tag says. What is about the elements of a list goes there.
func (n *draft) keyword(key, val string) error {
	k, typ := tagKeys[key], n.typ()
	if typ == "array" && k.of != "" && k.of != "array" {
		items := draft{rawjson.Split(n.Value("items"))}
		if err := items.keyword(key, val); err != nil {
			return err
		}
		n.child("items", items)
		return nil
	}
	if k.of != "" && !strings.Contains(k.of, kindOf(typ)) && typ != "" {
		return fmt.Errorf("%s=%s: %w %s", key, val, errNotOfType, typ)
	}
	switch {
	case key == "example":
		n.add("examples", literal(typ, val))
	case key == "enum":
		n.add(key, literal(typ, val))
	case key == "default" && typ == "array":
		items := draft{rawjson.Split(n.Value("items"))}
		n.add(key, literal(items.typ(), val))
	case key == "default":
		n.Set(key, literal(typ, val))
	case k.kind == "types":
		n.choose(key, val)
	case k.kind == "text":
		n.text(key, val)
	default:
		n.raw(key, val)
	}
	return nil
}

func kindOf(typ string) string {
	if typ == "integer" {
		return "number"
	}
	return typ
}

// choose puts a choice of types in the place of the type: "string;integer".
func (n *draft) choose(key, val string) {
	n.Object = n.Without("type")
	key = strings.TrimSuffix(key, "_type")
	key = key[:len(key)-len("of")] + "Of"
	for typ := range strings.SplitSeq(val, ";") {
		n.add(key, typed(typ).AppendTo(nil))
	}
}

// literal is the JSON form of a value in a tag.
func literal(typ, val string) json.RawMessage {
	if typ != "string" && json.Valid([]byte(val)) {
		return json.RawMessage(val)
	}
	return rawjson.AppendString(nil, val)
}
