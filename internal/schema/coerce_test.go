package schema

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestCoerce(t *testing.T) {
	const edits = `{"properties":{"edits":{"type":"array","items":{"type":"object","properties":{` +
		`"n":{"type":"integer"},"s":{"type":"string"},"all":{"type":"boolean"}}}}}}`
	tests := []struct{ name, schema, data, want string }{
		{"integer", prop(`{"type":"integer"}`), ` {"x" : "3" } `, ` {"x" : 3 } `},
		{"integer with a point", prop(`{"type":"integer"}`), `{"x":"3.0"}`, `{"x":3.0}`},
		{"not an integer", prop(`{"type":"integer"}`), `{"x":"3.5"}`, `{"x":"3.5"}`},
		{"no number of JSON", prop(`{"type":"integer"}`), `{"x":"0x10"}`, `{"x":"0x10"}`},
		{"leading zero", prop(`{"type":"integer"}`), `{"x":"007"}`, `{"x":"007"}`},
		{"digits stay", prop(`{"type":"number"}`), `{"x":"12345678901234567890.5"}`, `{"x":12345678901234567890.5}`},
		{"number", prop(`{"type":"number"}`), `{"x":"-1e3"}`, `{"x":-1e3}`},
		{"boolean", prop(`{"type":"boolean"}`), `{"x":"true"}`, `{"x":true}`},
		{"boolean in words", prop(`{"type":"boolean"}`), `{"x":"yes"}`, `{"x":"yes"}`},
		{"a number is no boolean", prop(`{"type":"boolean"}`), `{"x":"1"}`, `{"x":"1"}`},
		{"null is not spoken", prop(`{"type":["integer","null"]}`), `{"x":"null"}`, `{"x":"null"}`},
		{"text that may be text", prop(`{"type":["integer","string"]}`), `{"x":"3"}`, `{"x":"3"}`},
		{"any value", prop(`{}`), `{"x":"3"}`, `{"x":"3"}`},
		{"list", edits, `{"edits":"[{\"n\":1}]"}`, `{"edits":[{"n":1}]}`},
		{"list with blanks", edits, `{"edits":"\n[ ]\n"}`, `{"edits":[ ]}`},
		{"list of spoken values", edits, `{"edits":"[\"{\\\"n\\\":\\\"2\\\",\\\"all\\\":\\\"false\\\"}\"]"}`, `{"edits":[{"n":2,"all":false}]}`},
		{"text in a list stays", edits, `{"edits":[{"n":"1","s":"1"}]}`, `{"edits":[{"n":1,"s":"1"}]}`},
		{"an object for a list", edits, `{"edits":"{}"}`, `{"edits":"{}"}`},
		{"half a list", edits, `{"edits":"[{"}`, `{"edits":"[{"}`},
		{"twice the same key", edits, `{"edits":"[{\"n\":1,\"n\":2}]"}`, `{"edits":"[{\"n\":1,\"n\":2}]"}`},
		{"all of", prop(`{"allOf":[{"type":"integer"},{"type":"integer"}]}`), `{"x":"3"}`, `{"x":3}`},
		{"choice", prop(`{"anyOf":[{"type":"integer"},{"type":"string"}]}`), `{"x":"3"}`, `{"x":"3"}`},
		{"reference", `{"$defs":{"n":{"type":"integer"}},"properties":{"x":{"$ref":"#/$defs/n"}}}`, `{"x":"1"}`, `{"x":1}`},
		{"the whole", edits, `"{\"edits\":[]}"`, `{"edits":[]}`},
		{"no JSON", edits, `{"edits":`, `{"edits":`},
		{"nothing", edits, ``, ``},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, tt.want, string(compiled(t, tt.schema).Coerce([]byte(tt.data))))
		})
	}
}

// The escapes of nested strings double at each level, so deep nesting is bounded.
func TestCoerceDeep(t *testing.T) {
	s := compiled(t, `{"$defs":{"l":{"type":"array","items":{"$ref":"#/$defs/l"}}},"properties":{"x":{"$ref":"#/$defs/l"}}}`)
	text := "[]"
	for range 15 {
		raw, err := json.Marshal(text)
		require.NoError(t, err)
		text = "[" + string(raw) + "]"
	}
	out := s.Coerce([]byte(`{"x":` + text + `}`))
	assert.Equal(t, `{"x":`+strings.Repeat("[", 16)+strings.Repeat("]", 16)+`}`, string(out))
}

func FuzzCoerce(f *testing.F) {
	f.Add(`{"x":"3","y":"[\"1\"]","s":"3"}`)
	f.Add(`{"y":"[[1],\"2\", \"x\"]","b":"true"}`)
	s := compiled(f, `{"properties":{"x":{"type":"integer"},"y":{"type":"array","items":{"type":"integer"}},`+
		`"b":{"type":"boolean"},"s":{"type":"string"}}}`)
	f.Fuzz(func(t *testing.T, data string) {
		out := s.Coerce([]byte(data))
		if len(s.Validate([]byte(data))) == 0 {
			require.Equal(t, data, string(out), "what fits stays")
		}
		require.Equal(t, json.Valid([]byte(data)), json.Valid(out))
		require.Equal(t, string(out), string(s.Coerce(out)), "twice is as once")
	})
}
