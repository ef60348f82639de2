package openai

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/aycoder/aycoder/internal/rawjson"
)

// An xmlCall is a call in a complete text.
type xmlCall struct {
	name  string
	tool  *xmlTool
	args  json.RawMessage
	cut   bool
	after string // the text behind the call
}

// read parses the arguments, between the name and the end of the call. A call without an
// end is complete only if the answer ended by itself. It reports whether the arguments
// are parameters.
func (c *xmlCall) read(s string, ended bool) (rest string, params bool) {
	s = strings.TrimLeft(s, xmlSpace)
	if strings.HasPrefix(s, "{") {
		return c.readJSON(s, ended), false
	}
	var args rawjson.Object
	seen := map[string]bool{}
	for {
		if rest, ok := strings.CutPrefix(s, xmlCallClose); ok {
			c.args = args.AppendTo(nil)
			return rest, len(args) > 0
		}
		if len(args) > 0 && ended && xmlCallEnds(s) {
			c.args = args.AppendTo(nil)
			return "", true
		}
		f, rest, ok := c.param(s, ended)
		if f.Key != "" {
			ok = ok && !seen[f.Key] && c.tool.takes(f.Key) && len(args) < maxXMLParams
			seen[f.Key] = true
			args = append(args, f)
		}
		if !ok {
			args := args.AppendTo(nil)
			c.args, c.cut = args[:len(args)-1], true
			return "", true
		}
		s = rest
	}
}

// xmlCallEnds reports whether s, at the end of the text, may be a truncated end of a
// call.
func xmlCallEnds(s string) bool {
	s = strings.TrimRight(s, xmlSpace)
	return s == xmlWrapClose || strings.HasPrefix(xmlCallClose, s)
}

// readJSON reads arguments in JSON, whose strings may contain any tag.
func (c *xmlCall) readJSON(s string, ended bool) (rest string) {
	raw := rawjson.NewReader(s).Raw()
	c.args = json.RawMessage(raw)
	rest, closed := strings.CutPrefix(strings.TrimLeft(s[len(raw):], xmlSpace), xmlCallClose)
	switch {
	case raw == "" || !closed && !(ended && xmlCallEnds(rest)):
		c.args, c.cut = json.RawMessage(strings.TrimRight(s, xmlSpace)), true
		return ""
	case !closed:
		return ""
	}
	return rest
}

// param reads a parameter. The key is empty if s does not begin with one. Of an
// incomplete value, param returns the part that arrived.
func (c *xmlCall) param(s string, ended bool) (f rawjson.Field, rest string, ok bool) {
	s, ok = strings.CutPrefix(s, xmlParamOpen)
	end := strings.IndexByte(s[:min(len(s), maxXMLName+3)], '>') // the name may be quoted
	if !ok || end < 0 {
		return f, "", false
	}
	key := strings.Trim(s[:end], "\"' ")
	if !xmlKey(key) {
		return f, "", false
	}
	value, rest, ok := xmlValue(s[end+1:], ended)
	return rawjson.Field{Key: key, Val: c.tool.value(key, value)}, rest, ok
}

// xmlValue splits off a value. Its closing tag is the one before another parameter or the
// end of the call, so that a text may contain the tag itself.
func xmlValue(s string, ended bool) (value, rest string, ok bool) {
	for from := 0; ; {
		i := strings.Index(s[from:], xmlParamClose)
		if i < 0 {
			return xmlLastValue(s, ended)
		}
		i += from
		from = i + len(xmlParamClose)
		rest = strings.TrimLeft(s[from:], xmlSpace)
		if strings.HasPrefix(rest, xmlParamOpen) || strings.HasPrefix(rest, xmlCallClose) || xmlCallEnds(rest) {
			return s[:i], rest, true
		}
	}
}

// xmlLastValue returns a value at the end of the text without a closing tag. It is
// complete only if it is followed by the closing tag of the call, and contains no other.
func xmlLastValue(s string, ended bool) (value, rest string, ok bool) {
	value = strings.TrimRight(s, xmlSpace)
	value = strings.TrimRight(strings.TrimSuffix(value, xmlWrapClose), xmlSpace)
	value, closed := strings.CutSuffix(value, xmlCallClose)
	if !closed || !ended || hasXMLTag(value) {
		return s, "", false
	}
	return value, xmlCallClose, true
}

// An xmlTool has the properties of a tool's schema that affect the parsing of its calls.
type xmlTool struct {
	kinds  map[string]xmlKind // of the known arguments
	closed bool               // other arguments are not allowed
}

// newXMLTool finds out what the parameters of a tool may be: in XML, all values are texts,
// so the schema has to tell what a text stands for.
func newXMLTool(schema json.RawMessage) *xmlTool {
	t := &xmlTool{kinds: map[string]xmlKind{}}
	root, err := rawjson.Parse(schema)
	if err != nil {
		return t
	}
	props, _ := rawjson.Parse(root.Value("properties"))
	k := &xmlKinds{root: schema, steps: maxXMLParams}
	for _, f := range props {
		t.kinds[f.Key] = k.of(f.Val, 0)
	}
	more := root.Value("additionalProperties")
	t.closed = len(props) > 0 && (more == nil || string(more) == "false")
	for _, key := range []string{"patternProperties", "$ref", "allOf", "anyOf", "oneOf"} {
		t.closed = t.closed && root.Value(key) == nil
	}
	return t
}

// takes reports whether an argument is allowed. One that is not may be text within the
// previous argument.
func (t *xmlTool) takes(key string) bool {
	_, named := t.kinds[key]
	return named || !t.closed
}

// value converts the text of an argument to JSON. If the schema allows a string, the text
// becomes another JSON value only if the schema explicitly allows the type of that value.
func (t *xmlTool) value(key, value string) json.RawMessage {
	value = xmlLines(value)
	plain := strings.TrimSpace(value)
	kinds := t.kinds[key]
	if json.Valid([]byte(plain)) && (kinds&xmlText == 0 || kinds&xmlKindOf(plain) != 0) {
		return json.RawMessage(plain)
	}
	return rawjson.AppendString(nil, value)
}

// An xmlKind is a set of JSON types.
type xmlKind int

const (
	xmlText xmlKind = 1 << iota
	xmlNumber
	xmlBool
	xmlArray
	xmlObject
)

// xmlKindOf returns the type of valid JSON, and 0 for a string or null.
func xmlKindOf(plain string) xmlKind {
	switch c := plain[0]; c {
	case '{':
		return xmlObject
	case '[':
		return xmlArray
	case 't', 'f':
		return xmlBool
	case '"', 'n':
		return 0
	}
	return xmlNumber
}

// xmlKinds computes the types that a schema allows. Its steps are limited, because a
// schema may refer to itself.
type xmlKinds struct {
	root  json.RawMessage
	steps int
}

// of returns the kinds of values that a schema allows, at most; the steps bound the work
// for a schema that refers to itself.
func (k *xmlKinds) of(schema json.RawMessage, depth int) (kinds xmlKind) {
	o, err := rawjson.Parse(schema)
	if k.steps--; err != nil || k.steps < 0 || depth > maxSchemaDepth {
		return 0
	}
	for _, key := range []string{"anyOf", "oneOf", "allOf"} {
		var list []json.RawMessage
		_ = json.Unmarshal(o.Value(key), &list) // the field is optional
		for _, s := range list {
			kinds |= k.of(s, depth+1)
		}
	}
	var ref string
	if json.Unmarshal(o.Value("$ref"), &ref) == nil && ref != "" {
		kinds |= k.of(k.at(ref), depth+1)
	}
	if typ := o.Value("type"); typ != nil {
		return kinds | xmlTypes(typ)
	}
	var values []json.RawMessage
	_ = json.Unmarshal(o.Value("enum"), &values) // the field is optional
	if c := o.Value("const"); c != nil {
		values = append(values, c)
	}
	for _, v := range values {
		if kinds |= xmlKindOf(string(v)); v[0] == '"' {
			kinds |= xmlText
		}
	}
	return kinds
}

// xmlTypes returns the set for a type, or for a list of types.
func xmlTypes(raw json.RawMessage) (kinds xmlKind) {
	var types []string
	if json.Unmarshal(raw, &types) != nil {
		types = []string{strings.Trim(string(raw), `"`)}
	}
	all := []string{"string", "number", "boolean", "array", "object"}
	for _, typ := range types {
		if typ == "integer" {
			typ = "number"
		}
		if i := slices.Index(all, typ); i >= 0 {
			kinds |= 1 << i
		}
	}
	return kinds
}

// at resolves a reference inside the schema, such as "#/$defs/name". It returns nil for a
// reference to another document, which would have to be fetched.
func (k *xmlKinds) at(ref string) json.RawMessage {
	path, ok := strings.CutPrefix(ref, "#/")
	if !ok {
		return nil
	}
	at := k.root
	for name := range strings.SplitSeq(path, "/") {
		o, err := rawjson.Parse(at)
		if err != nil {
			return nil
		}
		at = o.Value(strings.NewReplacer("~1", "/", "~0", "~").Replace(name))
	}
	return at
}
