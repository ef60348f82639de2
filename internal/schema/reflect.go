package schema

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"time"

	"github.com/invopop/jsonschema"
)

// Reflect returns the schema of T, a struct or a pointer to one, in one tree without
// $schema, $id and $ref: properties in the order of the fields, required are those
// without omitempty and omitzero, no other properties are allowed, and jsonschema
// and jsonschema_description tags add the rest. The same type always gives the same
// bytes. What encoding/json cannot read, a type that contains itself, and a tag that
// would be ignored are errors that name the field.
//
// A type with a JSONSchema method is described by what that returns. One that reads
// itself from JSON text is a string if it has UnmarshalText, and any value if it has
// UnmarshalJSON and no exported fields.
func Reflect[T any]() (raw json.RawMessage, err error) {
	t := reflect.TypeFor[T]()
	defer func() { // jsonschema and the methods it calls panic
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
	if err := checkType(root); err != nil {
		return nil, fmt.Errorf("schema of %s: %w", t, err)
	}
	r := &jsonschema.Reflector{
		DoNotReference: true,
		Anonymous:      true,
		Mapper:         func(t reflect.Type) *jsonschema.Schema { return special(t, t == root) },
		LookupComment:  ownDescription,
	}
	s := r.ReflectFromType(root)
	if s.Type != "object" {
		return nil, fmt.Errorf("schema of %s: not an object but %q", t, s.Type)
	}
	s.Version = ""
	finish(s)
	return json.Marshal(s)
}

type describer interface{ JSONSchema() *jsonschema.Schema }

var (
	describerType       = reflect.TypeFor[describer]()
	unmarshalerType     = reflect.TypeFor[json.Unmarshaler]()
	textUnmarshalerType = reflect.TypeFor[encoding.TextUnmarshaler]()
	timeType            = reflect.TypeFor[time.Time]() // jsonschema describes it well
)

// special describes the types that are not what their Go structure says, and
// returns nil for the others.
func special(t reflect.Type, root bool) *jsonschema.Schema {
	p := reflect.PointerTo(t)
	switch {
	case p.Implements(describerType):
		// A copy, as the tags of a field are written into it.
		s := *reflect.New(t).Interface().(describer).JSONSchema()
		return &s
	case root, t == timeType:
		return nil
	case p.Implements(unmarshalerType):
		if hasFields(t) {
			return nil
		}
		return &jsonschema.Schema{}
	case p.Implements(textUnmarshalerType):
		return &jsonschema.Schema{Type: "string"}
	}
	return nil
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

// ownDescription keeps the description that a type gives itself, which jsonschema
// overwrites for a field without one.
func ownDescription(t reflect.Type, field string) string {
	if field == "" || t.Kind() != reflect.Struct {
		return ""
	}
	f, ok := t.FieldByName(field)
	if !ok {
		return ""
	}
	ft := f.Type
	for ft.Kind() == reflect.Pointer {
		ft = ft.Elem()
	}
	if !reflect.PointerTo(ft).Implements(describerType) {
		return ""
	}
	return special(ft, false).Description
}

// finish mends what jsonschema gets wrong for providers and models: an empty schema
// is written as true, which some refuse, and the default of an array has strings in
// it whatever the elements are.
func finish(s *jsonschema.Schema) {
	if s == nil {
		return
	}
	if s.Properties != nil {
		for p := s.Properties.Oldest(); p != nil; p = p.Next() {
			p.Value = finishValue(p.Value)
		}
	}
	if s.Items != nil {
		s.Items = finishValue(s.Items)
		fixDefault(s)
	}
	finish(s.AdditionalProperties)
	for _, o := range s.OneOf {
		finish(o)
	}
	for _, p := range s.PatternProperties {
		finish(p)
	}
}

func finishValue(s *jsonschema.Schema) *jsonschema.Schema {
	if reflect.DeepEqual(s, &jsonschema.Schema{}) || reflect.DeepEqual(s, jsonschema.TrueSchema) {
		return &jsonschema.Schema{Description: "any JSON value"}
	}
	finish(s)
	return s
}

func fixDefault(s *jsonschema.Schema) {
	values, ok := s.Default.([]any)
	if !ok {
		return
	}
	for i, v := range values {
		text, ok := v.(string)
		if !ok {
			continue
		}
		switch s.Items.Type {
		case "integer", "number":
			values[i] = json.Number(text)
		case "boolean":
			values[i] = text == strconv.FormatBool(true)
		}
	}
}
