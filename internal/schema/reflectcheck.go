package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/invopop/jsonschema"

	"github.com/aycoder/aycoder/internal/closest"
)

// The check of types. It follows encoding/json, which decodes the arguments later:
// whatever that would refuse, skip or read differently than the schema says is an error
// when the tool is made, with the name of the field. That is when its author can still do
// something about it.

// checkType refuses types without a schema and recursive types. It reports whether one of
// the types describes itself.
func checkType(root reflect.Type) (own bool, err error) {
	c := &typeChecker{root: root}
	err = c.check(root, typeName(root))
	return c.own, err
}

// It goes through a type before the library does, which would not return an error but a
// schema that lies.
type typeChecker struct {
	root  reflect.Type
	open  []openType // the types on the current path, to find recursion
	count int        // of types and fields, as types can double at each level
	own   bool       // a type describes itself
}

// Its path is for the message: an author looks for a field, not for a type.
type openType struct {
	t    reflect.Type
	path string
}

// typeName returns the name that the author wrote, without the package, or the structure of
// a type without a name.
func typeName(t reflect.Type) string {
	if t.Name() != "" {
		return t.Name()
	}
	return t.String()
}

// check looks at a type that path leads to: "Node.Children".
func (c *typeChecker) check(t reflect.Type, path string) error {
	if c.count++; c.count > maxNodes {
		return fmt.Errorf("%s: more than %d types and fields", path, maxNodes)
	}
	switch t.Kind() {
	// encoding/json refuses these too, but only when a call arrives.
	case reflect.Func, reflect.Chan, reflect.Complex64, reflect.Complex128,
		reflect.UnsafePointer, reflect.Uintptr:
		return fmt.Errorf("%s: %s has no JSON form", path, t)
	case reflect.Interface:
		if t.NumMethod() > 0 {
			return fmt.Errorf("%s: JSON does not say what is in the interface %s", path, t)
		}
		return nil
	}
	for _, o := range c.open {
		if o.t == t {
			return fmt.Errorf("recursive type: %s → %s", path, typeName(t))
		}
	}
	// The library knows the type and calls it a string, but encoding/json reads an object
	// of its fields.
	if t.PkgPath() == "net/url" && t.Name() == "URL" {
		return fmt.Errorf("%s: url.URL is not read from a JSON string, use a string", path)
	}
	if err := checkMethods(t); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if own, err := c.special(t); own || err != nil {
		return err
	}
	c.open = append(c.open, openType{t, path})
	defer func() { c.open = c.open[:len(c.open)-1] }()
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array:
		return c.check(t.Elem(), path)
	case reflect.Map:
		return c.checkMap(t, path)
	case reflect.Struct:
		return c.checkFields(t, path, map[string]string{})
	}
	return nil
}

// special reports whether a type is not described by its structure.
func (c *typeChecker) special(t reflect.Type) (bool, error) {
	if t.Kind() == reflect.Pointer {
		return false, nil
	}
	c.own = c.own || reflect.PointerTo(t).Implements(describerType)
	_, ok, err := special(t, t == c.root)
	return ok, err
}

// checkMap checks a map, whose keys are the names of members: strings, integers, or types
// that read a text (encoding/json, Unmarshal).
func (c *typeChecker) checkMap(t reflect.Type, path string) error {
	switch k := t.Key(); {
	case reflect.PointerTo(k).Implements(textUnmarshalerType):
	case k.Kind() == reflect.String, k.Kind() >= reflect.Int && k.Kind() <= reflect.Uint64:
	default:
		return fmt.Errorf("%s: no JSON form for keys of type %s", path, k)
	}
	return c.check(t.Elem(), path)
}

// checkFields checks the fields of a struct and of its embedded structs, whose fields are
// promoted. The map names leads from JSON names to fields.
func (c *typeChecker) checkFields(t reflect.Type, path string, names map[string]string) error {
	for f := range t.Fields() {
		at := path + "." + f.Name
		name, use := jsonField(f)
		switch use {
		case unused:
			continue
		case inlined:
			if err := c.checkEmbedded(f, at, names); err != nil {
				return err
			}
			continue
		}
		if f.Anonymous && !f.IsExported() && f.Type.Kind() != reflect.Struct {
			return fmt.Errorf("%s: encoding/json does not read an unexported embedded %s", at, f.Type.Kind())
		}
		// encoding/json would read neither of the two, silently, or the outer one only.
		if other, dup := names[name]; dup {
			return fmt.Errorf("%s: has the JSON name %q of %s", at, name, other)
		}
		names[name] = at
		if err := checkTags(f); err != nil {
			return fmt.Errorf("%s: %w", at, err)
		}
		if err := c.check(f.Type, at); err != nil {
			return err
		}
	}
	return nil
}

// checkEmbedded checks the fields that an embedded struct promotes.
func (c *typeChecker) checkEmbedded(
	f reflect.StructField, at string, names map[string]string,
) error {
	t := f.Type
	if t.Kind() == reflect.Pointer {
		if t = t.Elem(); !f.IsExported() {
			return fmt.Errorf("%s: encoding/json leaves an unexported embedded pointer nil", at)
		}
	}
	own, err := c.special(t)
	if err != nil {
		return err
	}
	if t.Kind() != reflect.Struct || own {
		return fmt.Errorf("%s: embedded %s needs a json tag with a name", at, t)
	}
	for _, o := range c.open {
		if o.t == t {
			return fmt.Errorf("recursive type: %s → %s", at, typeName(t))
		}
	}
	c.open = append(c.open, openType{t, at})
	defer func() { c.open = c.open[:len(c.open)-1] }()
	return c.checkFields(t, at, names)
}

// A fieldUse describes the role of a struct field in the JSON form.
type fieldUse int

const (
	unused  fieldUse = iota
	named            // a property
	inlined          // its fields are promoted
)

// jsonField returns the name of a field in JSON, and its role. It follows encoding/json,
// apart from the tag jsonschema:"-", which leaves a field out of the schema.
func jsonField(f reflect.StructField) (name string, use fieldUse) {
	name, _, _ = strings.Cut(f.Tag.Get("json"), ",")
	switch {
	case name == "-", f.Tag.Get("jsonschema") == "-", !f.Anonymous && !f.IsExported():
		return "", unused
	case name != "":
		return name, named
	case f.Anonymous:
		return "", inlined
	}
	return f.Name, named
}

// hooks are the methods with which types can change their schema in the library. They are
// refused: they return types of the library, which are not part of our API, and their
// results would be unchecked. They have no place in a schema of ours in any case, which is
// made field by field.
var hooks = []reflect.Type{
	reflect.TypeFor[interface{ JSONSchema() *jsonschema.Schema }](),
	reflect.TypeFor[interface{ JSONSchemaExtend(*jsonschema.Schema) }](),
	reflect.TypeFor[interface{ JSONSchemaAlias() any }](),
	reflect.TypeFor[interface{ JSONSchemaProperty(string) any }](),
	reflect.TypeFor[interface{ GetFieldDocString(string) string }](),
}

// checkMethods refuses the hooks.
func checkMethods(t reflect.Type) error {
	p := reflect.PointerTo(t)
	for _, hook := range hooks {
		if p.Implements(hook) {
			return fmt.Errorf("%s has the method of %s, describe it with JSONSchema() json.RawMessage", t, hook)
		}
	}
	return nil
}

// A tagKey describes a key of a jsonschema tag: the kind of its value, the types it applies
// to (empty for all), and those for which the library reads it. On a list, a key that does
// not apply to lists applies to the elements.
type tagKey struct{ key, kind, of, read string }

// tagKeys are the keys of tags, in the order in which a message lists them.
var tagKeys = []tagKey{
	{"title", "text", "", "all"},
	{"description", "text", "", "all"},
	{"type", "text", "", "all"},
	{"oneof_type", "types", "", "all"},
	{"anyof_type", "types", "", "all"},
	{"default", "text", "", "string number boolean"},
	{"example", "text", "", "string number"},
	{"enum", "text", "string number boolean", "string number"},
	{"pattern", "text", "string", "string"},
	{"format", "text", "string number", "string"},
	{"readOnly", "bool", "", "string"},
	{"writeOnly", "bool", "", "string"},
	{"minLength", "count", "string", "string"},
	{"maxLength", "count", "string", "string"},
	{"minItems", "count", "array", "array"},
	{"maxItems", "count", "array", "array"},
	{"uniqueItems", "bool", "array", "array"},
	{"multipleOf", "number", "number", "number"},
	{"minimum", "number", "number", "number"},
	{"maximum", "number", "number", "number"},
	{"exclusiveMinimum", "number", "number", "number"},
	{"exclusiveMaximum", "number", "number", "number"},
}

// findTag returns the entry of a key, or the zero value.
func findTag(key string) *tagKey {
	for i := range tagKeys {
		if tagKeys[i].key == key {
			return &tagKeys[i]
		}
	}
	return &tagKey{}
}

// A tagPart is a key of a jsonschema tag, with its value if it has one.
type tagPart struct {
	key, val string
	valued   bool
}

// tagParts returns the keys and values of a jsonschema tag. A comma in a value is written
// \\, in the tag, which is \, in the text of it. The library splits at each comma, so a
// description that has one needs the escape.
func tagParts(f reflect.StructField) (parts []tagPart) {
	const comma = "\x00"
	for part := range strings.SplitSeq(strings.ReplaceAll(f.Tag.Get("jsonschema"), `\,`, comma), ",") {
		if part == "" {
			continue
		}
		key, val, ok := strings.Cut(strings.ReplaceAll(part, comma, ","), "=")
		parts = append(parts, tagPart{key, val, ok})
	}
	return parts
}

// checkTags refuses tags that the library would silently drop: a description with a comma
// loses the text after it.
func checkTags(f reflect.StructField) error {
	if _, opts, _ := strings.Cut(f.Tag.Get("json"), ","); strings.Contains(","+opts+",", ",inline,") {
		return errors.New(`encoding/json knows no "inline", embed the struct instead`)
	}
	if _, ok := f.Tag.Lookup("jsonschema_extras"); ok {
		return errors.New("there is no tag jsonschema_extras, use a method JSONSchema")
	}
	for _, p := range tagParts(f) {
		switch val := p.val + ","; {
		case strings.Contains(val, ",required,"), strings.Contains(val, ",nullable,"):
			return fmt.Errorf("jsonschema tag: the comma in %q needs a space behind it, or a word would be a key", p.val)
		case p.key == "required" || p.key == "nullable":
		case !p.valued:
			return fmt.Errorf(`jsonschema tag: %q is not key=value, write \\, for a comma`, p.key)
		default:
			if err := checkTag(p.key, p.val); err != nil {
				return fmt.Errorf("jsonschema tag: %w", err)
			}
		}
	}
	return nil
}

// checkTag refuses a key or a value that would have no effect. A misspelt key is the
// author's mistake that nobody would notice otherwise.
func checkTag(key, value string) error {
	var err error
	kind := findTag(key).kind
	switch kind {
	case "text", "types":
	case "bool":
		if value != "true" && value != "false" {
			err = strconv.ErrSyntax
		}
	case "count":
		_, err = strconv.ParseUint(value, 10, 64)
	case "number":
		if !json.Valid([]byte(value)) || strings.Trim(value[:1], "-0123456789") != "" {
			err = strconv.ErrSyntax
		}
	default:
		var keys []string
		for _, k := range tagKeys {
			keys = append(keys, k.key)
		}
		if near := closest.Closest(key, keys, 1); len(near) > 0 {
			return fmt.Errorf("unknown key %q, did you mean %q?", key, near[0])
		}
		return fmt.Errorf("unknown key %q", key)
	}
	if err != nil {
		return fmt.Errorf("%s=%s: not a %s", key, value, kind)
	}
	return nil
}
