package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/aycoder/aycoder/internal/closest"
)

// checkType refuses the types that have no schema, or no end.
func checkType(root reflect.Type) error {
	c := &typeChecker{root: root}
	return c.check(root, typeName(root))
}

type typeChecker struct {
	root  reflect.Type
	open  []openType // the types that are being looked into
	count int        // of types and fields, as types can double at each level
}

type openType struct {
	t    reflect.Type
	path string
}

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
	if t.PkgPath() == "net/url" && t.Name() == "URL" {
		return fmt.Errorf("%s: url.URL is not read from a JSON string, use a string", path)
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
	_, ok, err := special(t, t == c.root)
	return ok, err
}

func (c *typeChecker) checkMap(t reflect.Type, path string) error {
	switch k := t.Key(); {
	case reflect.PointerTo(k).Implements(textUnmarshalerType):
	case k.Kind() == reflect.String, k.Kind() >= reflect.Int && k.Kind() <= reflect.Uint64:
	default:
		return fmt.Errorf("%s: no JSON form for keys of type %s", path, k)
	}
	return c.check(t.Elem(), path)
}

// checkFields looks at the fields of a struct and of those it embeds, whose fields
// count as its own. Names maps JSON names to fields.
func (c *typeChecker) checkFields(t reflect.Type, path string, names map[string]string) error {
	for f := range t.Fields() {
		at := path + "." + f.Name
		name, tagged := jsonName(f)
		if name == "-" || f.Tag.Get("jsonschema") == "-" {
			continue
		}
		if f.Anonymous && !tagged {
			if err := c.checkEmbedded(f, at, names); err != nil {
				return err
			}
			continue
		}
		if !f.IsExported() {
			continue
		}
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

// checkEmbedded looks at the fields that an embedded struct gives to the outer one.
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

func jsonName(f reflect.StructField) (name string, tagged bool) {
	name, _, _ = strings.Cut(f.Tag.Get("json"), ",")
	if name == "" {
		return f.Name, false
	}
	return name, true
}

// A tagKey is a key of a jsonschema tag: the kind of its value, and the types of what
// it may stand at, if not any. What stands at a list and is not for lists is for its
// elements.
type tagKey struct{ kind, of string }

var tagKeys = map[string]tagKey{
	"title": {kind: "text"}, "description": {kind: "text"}, "type": {kind: "text"},
	"default": {kind: "text"}, "example": {kind: "text"},
	"oneof_type": {kind: "types"}, "anyof_type": {kind: "types"},
	"enum":    {"text", "string number boolean"},
	"pattern": {"text", "string"}, "format": {"text", "string number"},
	"readOnly": {kind: "bool"}, "writeOnly": {kind: "bool"}, "uniqueItems": {"bool", "array"},
	"minLength": {"count", "string"}, "maxLength": {"count", "string"},
	"minItems": {"count", "array"}, "maxItems": {"count", "array"},
	"multipleOf": {"number", "number"}, "minimum": {"number", "number"}, "maximum": {"number", "number"},
	"exclusiveMinimum": {"number", "number"}, "exclusiveMaximum": {"number", "number"},
}

// A tagPart is a key of a jsonschema tag, with its value if it has one.
type tagPart struct {
	key, val string
	valued   bool
}

// tagParts returns the keys and values of a jsonschema tag. A comma in a value is
// written \\, in the tag, which is \, in the text of it.
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

// checkTags refuses what would be dropped without a word: a description that has a
// comma in it loses what follows.
func checkTags(f reflect.StructField) error {
	if _, opts, _ := strings.Cut(f.Tag.Get("json"), ","); strings.Contains(","+opts+",", ",inline,") {
		return errors.New(`encoding/json knows no "inline", embed the struct instead`)
	}
	if _, ok := f.Tag.Lookup("jsonschema_extras"); ok {
		return errors.New("there is no tag jsonschema_extras, use a method JSONSchema")
	}
	for _, p := range tagParts(f) {
		switch {
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

func checkTag(key, value string) error {
	var err error
	switch tagKeys[key].kind {
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
		keys := slices.Sorted(maps.Keys(tagKeys))
		if near := closest.Closest(key, keys, 1); len(near) > 0 {
			return fmt.Errorf("unknown key %q, did you mean %q?", key, near[0])
		}
		return fmt.Errorf("unknown key %q", key)
	}
	if err != nil {
		return fmt.Errorf("%s=%s: not a %s", key, value, tagKeys[key].kind)
	}
	return nil
}
