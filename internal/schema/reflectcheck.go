package schema

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/aycoder/aycoder/internal/closest"
)

// checkType refuses the types that jsonschema describes wrongly, panics at, or
// follows until the stack overflows.
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
	if err := c.checkMethods(t, path); err != nil {
		return err
	}
	if c.special(t) {
		return nil
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
func (c *typeChecker) special(t reflect.Type) bool {
	return t.Kind() != reflect.Pointer && (special(t, t == c.root) != nil || t == timeType)
}

// checkMethods refuses the hooks of jsonschema that put another type in the place of
// this one: what comes of them is not checked for cycles.
func (c *typeChecker) checkMethods(t reflect.Type, path string) error {
	// Implements, as the linker keeps all methods in a program that calls MethodByName.
	switch {
	case t.Implements(reflect.TypeFor[interface{ JSONSchemaAlias() any }]()):
		return fmt.Errorf("%s: %s has a method JSONSchemaAlias, give it JSONSchema instead", path, t)
	case t.Implements(reflect.TypeFor[interface{ JSONSchemaProperty(string) any }]()):
		return fmt.Errorf("%s: %s has a method JSONSchemaProperty, give it JSONSchema instead", path, t)
	}
	if t.PkgPath() == "net/url" && t.Name() == "URL" {
		return fmt.Errorf("%s: url.URL is not read from a JSON string, use a string", path)
	}
	return nil
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
	if t.Kind() != reflect.Struct || c.special(t) {
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

// tagKeys are the keys of a jsonschema tag that have a value, by the kind of it.
var tagKeys = map[string]string{
	"title": "text", "description": "text", "type": "text", "anchor": "text",
	"oneof_required": "text", "anyof_required": "text", "oneof_ref": "text",
	"anyof_ref": "text", "oneof_type": "text", "anyof_type": "text",
	"pattern": "text", "format": "text", "default": "text", "example": "text", "enum": "text",
	"readOnly": "bool", "writeOnly": "bool", "uniqueItems": "bool",
	"minLength": "count", "maxLength": "count", "minItems": "count", "maxItems": "count",
	"multipleOf": "number", "minimum": "number", "maximum": "number",
	"exclusiveMinimum": "number", "exclusiveMaximum": "number",
}

// checkTags refuses what jsonschema drops without a word: a description that has a
// comma in it loses what follows.
func checkTags(f reflect.StructField) error {
	if _, opts, _ := strings.Cut(f.Tag.Get("json"), ","); strings.Contains(","+opts+",", ",inline,") {
		return errors.New(`encoding/json knows no "inline", embed the struct instead`)
	}
	tag := f.Tag.Get("jsonschema")
	for part := range strings.SplitSeq(strings.ReplaceAll(tag, `\,`, ";"), ",") {
		key, value, ok := strings.Cut(part, "=")
		if !ok {
			if part != "" && part != "required" && part != "nullable" {
				return fmt.Errorf(`jsonschema tag: %q is not key=value, write \\, for a comma`, part)
			}
			continue
		}
		if err := checkTag(key, value); err != nil {
			return fmt.Errorf("jsonschema tag: %w", err)
		}
	}
	return nil
}

func checkTag(key, value string) error {
	var err error
	switch tagKeys[key] {
	case "text":
	case "bool":
		_, err = strconv.ParseBool(value)
	case "count":
		_, err = strconv.ParseUint(value, 10, 64)
	case "number":
		_, err = strconv.ParseFloat(value, 64)
	default:
		keys := slices.Sorted(maps.Keys(tagKeys))
		if near := closest.Closest(key, keys, 1); len(near) > 0 {
			return fmt.Errorf("unknown key %q, did you mean %q?", key, near[0])
		}
		return fmt.Errorf("unknown key %q", key)
	}
	if err != nil {
		return fmt.Errorf("%s=%s: not a %s", key, value, tagKeys[key])
	}
	return nil
}
