package config

import (
	"encoding/json"

	"github.com/aycoder/aycoder/internal/vars"
)

// Schema returns a JSON Schema (draft 2020-12) of a configuration file, for editors. Texts may also have
// variables in them where the schema lists values, which [Load] checks after it has put them in.
func Schema() []byte {
	root := shape().schema()
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["title"] = "aycoder configuration"
	data, err := json.MarshalIndent(root, "", "\t")
	if err != nil {
		panic(err) // there are only maps, texts and numbers
	}
	return append(data, '\n')
}

// types are the names of the kinds in a schema.
var types = map[kind]string{
	kindText: "string", kindInteger: "integer", kindNumber: "number", kindTruth: "boolean",
	kindDuration: "string", kindList: "array", kindTable: "object", kindDict: "object",
}

// durations is the form of a duration.
const durations = `^[-+]?(0|([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$`

func (f *field) schema() map[string]any {
	s := map[string]any{}
	if f.kind != kindFree { // which has any type
		s["type"] = types[f.kind]
	}
	if f.doc != "" {
		s["description"] = f.doc
	}
	switch f.kind {
	case kindTable:
		f.object(s)
	case kindDict:
		s["additionalProperties"] = f.elem.schema()
	case kindList:
		s["items"] = f.elem.schema()
	case kindDuration:
		s["pattern"] = durations
	case kindText:
		f.choices(s)
	case kindInteger, kindNumber:
		f.bounds(s)
	}
	if text, has := f.tag.Lookup("default"); has {
		s["default"], _ = f.convert(text)
		if f.kind == kindDuration {
			s["default"] = text
		}
	}
	return s
}

func (f *field) object(s map[string]any) {
	properties, required := map[string]any{}, []string{}
	for _, g := range f.fields {
		properties[g.name] = g.schema()
		if g.tag.Get("required") != "" {
			required = append(required, g.name)
		}
	}
	s["properties"], s["additionalProperties"] = properties, false
	if len(required) > 0 {
		s["required"] = required
	}
}

// choices adds the possible values. A text with a variable is checked when the variable is known.
func (f *field) choices(s map[string]any) {
	if f.enum != nil {
		s["anyOf"] = []any{map[string]any{"enum": f.enum}, map[string]any{"pattern": vars.Pattern}}
	}
}

func (f *field) bounds(s map[string]any) {
	if f.min != nil {
		s["minimum"] = f.min.value
	}
	if f.max != nil {
		s["maximum"] = f.max.value
	}
}
