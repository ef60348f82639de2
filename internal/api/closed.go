package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"

	"github.com/aycoder/aycoder/internal/rawjson"
)

// errOpen means that a schema cannot be closed.
var errOpen = errors.New("schema has properties of any name, references or conditions")

// CloseSchema converts the schema of an answer to the form that services require for
// constrained generation. It adds "additionalProperties": false to every object, and
// moves the bounds that services do not support, such as "maximum", into the description.
// It returns an error for a schema with free property names, references or conditions,
// because the converted schema would allow other answers than the original. So it does for
// an object whose properties are in several schemas, because each would be closed to the others.
func CloseSchema(schema []byte) ([]byte, error) {
	if !rawjson.IsObject(schema) {
		return nil, errors.New("schema is not a JSON object")
	}
	return closeSchema(schema, 0)
}

// maxSchemaDepth is the deepest nesting of schemas that is closed. Services that take
// closed schemas allow less.
const maxSchemaDepth = 64

// closeSchema restricts a schema to the keywords that all services with constrained
// generation accept. It names the removed bounds in the description, so that the model
// still learns of them. If the schema uses a keyword that cannot be removed without
// changing the meaning, closeSchema returns errOpen.
func closeSchema(raw []byte, depth int) ([]byte, error) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || raw[0] != '{' {
		return raw, nil // true and false
	}
	if depth > maxSchemaDepth {
		return nil, errOpen
	}
	var out rawjson.Object
	var told []string
	for _, f := range rawjson.Split(raw) {
		switch f.Key {
		case "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf",
			"minLength", "maxLength", "minItems", "maxItems", "uniqueItems", "pattern":
			told = append(told, f.Key+" "+string(f.Val))
			continue
		case "$schema", "$id", "$comment", "$defs", "definitions", "examples":
			continue
		case "patternProperties", "unevaluatedProperties", "propertyNames", "minProperties",
			"maxProperties", "$ref", "$dynamicRef", "oneOf", "not", "if", "then", "else",
			"contains", "prefixItems", "dependentSchemas", "allOf":
			return nil, errOpen
		case "additionalProperties":
			if string(f.Val) != "false" {
				return nil, errOpen
			}
		}
		val, err := closeField(f.Key, f.Val, depth)
		if err != nil {
			return nil, err
		}
		out.Set(f.Key, val)
	}
	return describe(out, told)
}

// closeField closes the schemas in the value of a keyword.
func closeField(key string, val json.RawMessage, depth int) (json.RawMessage, error) {
	switch key {
	case "items":
		return closeSchema(val, depth+1)
	case "properties":
		if val[0] != '{' {
			return val, nil
		}
		o := rawjson.Split(val)
		for i := range o {
			var err error
			if o[i].Val, err = closeSchema(o[i].Val, depth+1); err != nil {
				return nil, err
			}
		}
		return o.AppendTo(nil), nil
	case "anyOf":
		return closeList(val, depth)
	}
	return val, nil
}

// closeList closes each schema of a list.
func closeList(val json.RawMessage, depth int) (json.RawMessage, error) {
	var list []json.RawMessage
	if json.Unmarshal(val, &list) != nil {
		return val, nil
	}
	b := []byte{'['}
	for i, raw := range list {
		data, err := closeSchema(raw, depth+1)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, data...)
	}
	return append(b, ']'), nil
}

// describe closes an object and appends texts to its description.
func describe(o rawjson.Object, told []string) ([]byte, error) {
	if isObjectType(o) && o.Value("additionalProperties") == nil {
		if o.Value("properties") == nil || o.Value("anyOf") != nil {
			return nil, errOpen
		}
		o.Set("additionalProperties", json.RawMessage("false"))
	}
	if len(told) > 0 {
		text, err := rawjson.Str("description", o.Value("description"))
		if err != nil {
			return nil, err
		}
		text = strings.TrimSpace(text + " (" + strings.Join(told, ", ") + ")")
		o.Set("description", rawjson.AppendString(nil, text))
	}
	return o.AppendTo(nil), nil
}

// isObjectType reports whether a schema describes objects. A schema without a type does
// so if it has the keyword "properties".
func isObjectType(o rawjson.Object) bool {
	typ := o.Value("type")
	return o.Value("properties") != nil || bytes.Contains(typ, []byte(`"object"`))
}

// OutputPrompt returns an instruction to the model to answer with a JSON document that
// follows a schema. Clients use it for models whose output the API cannot constrain.
func OutputPrompt(schema []byte) string {
	return "Answer with one JSON document and nothing else. It must fit this JSON Schema:\n" + string(schema)
}

// ObjectSchema returns the schema of a tool's arguments as valid UTF-8. If the schema has
// no "type", ObjectSchema adds "type": "object", because services require it. See also
// [Flatten].
func ObjectSchema(schema []byte) ([]byte, error) {
	schema = bytes.TrimSpace(schema)
	if len(schema) == 0 {
		return []byte(`{"type":"object"}`), nil
	}
	schema = ValidUTF8(schema)
	switch {
	case !rawjson.IsObject(schema):
		return nil, errors.New("schema is not a JSON object")
	case rawjson.Has(schema, "type") && !MayCombine(schema):
		return schema, nil
	}
	o := Flatten(rawjson.Split(schema))
	if o.Value("type") == nil {
		o = append(rawjson.Object{{Key: "type", Val: []byte(`"object"`)}}, o...)
	}
	return o.AppendTo(nil), nil
}

// MayCombine reports whether [Flatten] may change a schema, but for an enum alone. Most schemas are not even split for it.
func MayCombine(schema []byte) bool {
	return bytes.Contains(schema, []byte(`Of"`)) || bytes.Contains(schema, []byte(`"not"`))
}

// Flatten removes the keywords that services refuse at the top of a tool's schema: a single
// tool with one of them would make every request fail. The description then has the whole
// schema, with which the arguments of a call are validated.
func Flatten(o rawjson.Object) rawjson.Object {
	var flat rawjson.Object
	for _, f := range o {
		switch f.Key {
		case "anyOf", "oneOf", "allOf", "not", "enum":
		default:
			flat = append(flat, f)
		}
	}
	if len(flat) < len(o) {
		flat.Set("description", rawjson.AppendString(nil, "The arguments must fit this JSON Schema: "+string(o.AppendTo(nil))))
		flat.Set("additionalProperties", json.RawMessage("true")) // those that only the keywords had
	}
	return flat
}

// ClaudeFormatsOutput reports whether a Claude model's output can be constrained to a
// schema. It parses the name that any service has for the model, such as
// "claude-sonnet-4-5-20250929" or "us.anthropic.claude-opus-4-6-v1".
func ClaudeFormatsOutput(model string) bool {
	family, major, minor := claudeVersion(model)
	return major > 4 || major == 4 && (minor >= 5 || minor == 1 && family == "opus")
}

// ClaudeAdapts reports in adapts whether a Claude model chooses by itself how much it
// thinks, as models from version 4.7 on do. Such models accept neither a thinking budget
// nor a temperature: "Use thinking.type.adaptive and output_config.effort to control
// thinking behavior." ByDefault reports whether the model thinks even if the request does
// not ask for it, as models from version 5 on do. An adaptive model that does not think
// by default refuses a request that turns thinking off.
func ClaudeAdapts(model string) (adapts, byDefault bool) {
	_, major, minor := claudeVersion(model)
	return major > 4 || major == 4 && minor >= 7, major > 4
}

// ClaudeKeepsThinking reports whether a Claude model still sees its thinking when the user has
// said something since: "On Opus 4.5+ and Sonnet 4.6+, thinking blocks are preserved by default
// even when non-tool-result user content is added … On earlier Opus/Sonnet models and all Haiku
// models, … all previous thinking blocks [are] stripped from context."
func ClaudeKeepsThinking(model string) bool {
	switch family, major, minor := claudeVersion(model); family {
	case "haiku":
		return false
	case "opus":
		return major > 4 || major == 4 && minor >= 5
	default:
		return major > 4 || major == 4 && minor >= 6
	}
}

// ClaudeCompacts reports whether Anthropic's service can summarise conversations with a Claude model.
// Its documentation names Opus and Sonnet from 4.6 on, and newer families, but not Haiku.
func ClaudeCompacts(model string) bool {
	family, major, minor := claudeVersion(model)
	return family != "haiku" && (major > 4 || major == 4 && minor >= 6)
}

// ClaudeEffort returns the effort for a thinking budget in tokens: "low" up to 4096,
// "medium" up to 16384, and "high" above.
func ClaudeEffort(budget int) string {
	switch {
	case budget <= 4096:
		return "low"
	case budget <= 16384:
		return "medium"
	}
	return "high"
}

// claudeVersion parses a name of the form "claude-opus-4-7", and returns zeros for older
// forms, such as "claude-3-5-haiku".
func claudeVersion(model string) (family string, major, minor int) {
	_, rest, ok := strings.Cut(model, "claude-")
	if !ok {
		return "", 0, 0
	}
	family, rest, _ = strings.Cut(rest, "-")
	if n, _ := leadingInt(family); n > 0 {
		return "", 0, 0
	}
	if major, rest = leadingInt(rest); major > maxVersion { // a date rather than a version
		return family, 0, 0
	}
	if minor, _ = leadingInt(strings.TrimLeft(rest, "-.")); minor > maxVersion {
		minor = 0
	}
	return family, major, minor
}

const maxVersion = 99

// leadingInt parses up to eight digits at the beginning of s.
func leadingInt(s string) (n int, rest string) {
	i := 0
	for i < min(len(s), 8) && s[i] >= '0' && s[i] <= '9' {
		n = n*10 + int(s[i]-'0')
		i++
	}
	return n, s[i:]
}
