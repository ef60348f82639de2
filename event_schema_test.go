package aycoder

import (
	"bytes"
	"encoding"
	"encoding/json"
	"flag"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/edit"
)

// eventTypes are the types whose fields are the keys of the events.
func eventTypes() map[string]reflect.Type {
	return map[string]reflect.Type{
		"text_delta": reflect.TypeFor[plainDelta](), "thinking_delta": reflect.TypeFor[plainDelta](), "tool_delta": reflect.TypeFor[ToolDelta](),
		"tool_start": reflect.TypeFor[wireStart](), "tool_progress": reflect.TypeFor[ToolProgress](), "tool_end": reflect.TypeFor[wireEnd](),
		"approval_request": reflect.TypeFor[ApprovalRequest](), "call_request": reflect.TypeFor[CallRequest](),
		"merged": reflect.TypeFor[wireFile](), "conflicted": reflect.TypeFor[wireFile](), "child": reflect.TypeFor[wireChild](),
		"turn_end": reflect.TypeFor[TurnFinished](), "retry": reflect.TypeFor[wireRetry](),
		"compacting": reflect.TypeFor[Compacting](), "compacted": reflect.TypeFor[Compacted](), "setup_changed": reflect.TypeFor[SetupChanged](),
		"jobs": reflect.TypeFor[JobsChanged](), "notice": reflect.TypeFor[Notice](), "run_end": reflect.TypeFor[wireRun](),
	}
}

type schemaObject = map[string]any

// cliLines describes what the lines of the command line have besides the events. Tests of package cli check its
// lines with the schema.
func cliLines() (lines, ends schemaObject) {
	text, list := schemaObject{"type": "string"}, schemaObject{"type": "array", "items": schemaObject{"type": "string"}}
	integer := schemaObject{"type": "integer"}
	lines = schemaObject{
		"run_start": schemaObject{"type": "object", "additionalProperties": false, "required": []string{"type", "version", "model", "cwd"},
			"properties": schemaObject{"type": schemaObject{"const": "run_start"}, "version": schemaObject{"const": 1},
				"session": text, "model": text, "cwd": text, "pending": schemaObject{"type": "boolean"}}},
		"input_error": schemaObject{"type": "object", "additionalProperties": false, "required": []string{"type", "line", "error"},
			"properties": schemaObject{"type": schemaObject{"const": "input_error"}, "line": integer, "error": text}},
	}
	need := schemaObject{"type": "object", "additionalProperties": false, "required": []string{"name", "args", "allow"},
		"properties": schemaObject{"name": text, "subject": text, "args": schemaObject{}, "allow": text}}
	ends = schemaObject{"exit_code": integer, "error": text, "needs_approval": schemaObject{"type": "array", "items": need},
		"conflicts": list, "value": schemaObject{}, "cost": schemaObject{"type": "number"}, "ms": integer, "session": text}
	return lines, ends
}

// A schemaMaker makes a JSON Schema from Go types.
type schemaMaker struct{ defs schemaObject }

// of returns the schema of a type, which is a reference if the type has a name and fields.
func (m *schemaMaker) of(t reflect.Type) schemaObject {
	switch t {
	case reflect.TypeFor[time.Time]():
		return schemaObject{"type": "string"}
	case reflect.TypeFor[json.RawMessage]():
		return schemaObject{}
	case reflect.TypeFor[State](), reflect.TypeFor[edit.Plan](), reflect.TypeFor[edit.File]():
		return schemaObject{"type": "object"}
	case reflect.TypeFor[Message]():
		t = reflect.TypeFor[wireMessage]()
	}
	if kind := reflect.PointerTo(t); t.Kind() != reflect.Struct && (kind.Implements(reflect.TypeFor[json.Marshaler]()) ||
		kind.Implements(reflect.TypeFor[encoding.TextMarshaler]())) {
		panic("no schema of the JSON of " + t.String())
	}
	switch t.Kind() {
	case reflect.String:
		return schemaObject{"type": "string"}
	case reflect.Bool:
		return schemaObject{"type": "boolean"}
	case reflect.Float64:
		return schemaObject{"type": "number"}
	case reflect.Int, reflect.Int64, reflect.Uint32:
		return schemaObject{"type": "integer"}
	case reflect.Map:
		return schemaObject{"type": "object", "additionalProperties": m.of(t.Elem())}
	case reflect.Pointer:
		return m.of(t.Elem())
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return schemaObject{"type": "string"}
		}
		return schemaObject{"type": "array", "items": m.of(t.Elem())}
	case reflect.Struct:
		return m.named(t)
	}
	panic("no schema of " + t.String())
}

// named returns a reference to the schema of a struct.
func (m *schemaMaker) named(t reflect.Type) schemaObject {
	name := strings.TrimPrefix(t.Name(), "wire")
	if t == reflect.TypeFor[leafPart]() || t == reflect.TypeFor[extraPart]() {
		t, name = reflect.TypeFor[wirePart](), "Part"
	}
	if _, ok := m.defs[name]; !ok {
		m.defs[name] = schemaObject{} // for types that contain themselves
		m.defs[name] = m.object(t)
	}
	return schemaObject{"$ref": "#/$defs/" + name}
}

// object returns the schema of the fields of a struct. Parts of messages may have types that are not known here.
func (m *schemaMaker) object(t reflect.Type) schemaObject {
	properties, required := schemaObject{}, []string{}
	m.fields(t, properties, &required)
	return schemaObject{"type": "object", "properties": properties, "required": required, "additionalProperties": t == reflect.TypeFor[wirePart]()}
}

func (m *schemaMaker) fields(t reflect.Type, properties schemaObject, required *[]string) {
	for f := range t.Fields() {
		name, opts, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			m.fields(f.Type, properties, required)
			continue
		case !f.IsExported() || name == "-":
			continue
		}
		s := m.of(f.Type)
		if !strings.Contains(opts, "omit") {
			*required = append(*required, name)
			if k := f.Type.Kind(); f.Type != reflect.TypeFor[json.RawMessage]() && (k == reflect.Pointer || k == reflect.Slice || k == reflect.Map) {
				s = schemaObject{"anyOf": []any{s, schemaObject{"type": "null"}}}
			}
		}
		properties[name] = s
	}
}

// eventSchema returns the JSON Schema of the lines of the command line.
func eventSchema() []byte {
	m := &schemaMaker{schemaObject{}}
	lines, ends := cliLines()
	var any []any
	for _, kind := range slices.Sorted(maps.Keys(eventTypes())) {
		o := m.object(eventTypes()[kind])
		properties := o["properties"].(schemaObject)
		properties["type"] = schemaObject{"const": kind}
		o["required"] = append([]string{"type"}, o["required"].([]string)...)
		switch kind {
		case "child":
			properties["event"] = schemaObject{"$ref": "#"}
		case "run_end":
			maps.Copy(properties, ends)
		}
		lines[kind] = o
	}
	maps.Copy(m.defs, lines)
	for _, kind := range slices.Sorted(maps.Keys(lines)) {
		any = append(any, schemaObject{"$ref": "#/$defs/" + kind})
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetIndent("", " ")
	_ = enc.Encode(schemaObject{ // texts and numbers always encode
		"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "A line of aycoder -output events",
		"anyOf": any, "$defs": m.defs,
	})
	return b.Bytes()
}

// docs/events.schema.json is made from the types, and has the events that docs/events.md lists.
func TestEventSchema(t *testing.T) {
	const file = "docs/events.schema.json"
	if flag.Lookup("update").Value.String() == "true" {
		require.NoError(t, os.WriteFile(file, eventSchema(), 0o644))
	}
	got, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(eventSchema()), string(got), "write it with: go test -run TestEventSchema -update .")

	text, err := os.ReadFile("docs/events.md")
	require.NoError(t, err)
	table, _, _ := strings.Cut(string(text), "\n- `id`")
	var listed []string
	for _, row := range regexp.MustCompile("(?m)^\\| `\\w+` \\| `(\\w+)`").FindAllStringSubmatch(table, -1) {
		listed = append(listed, row[1])
	}
	require.ElementsMatch(t, slices.Collect(maps.Keys(eventTypes())), listed)
}
