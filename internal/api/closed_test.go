package api

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestCloseSchema(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"closed", `{"type":"object","properties":{"b":{"type":"string"},"a":{}},"required":["b"]}`,
			`{"type":"object","properties":{"b":{"type":"string"},"a":{}},"required":["b"],"additionalProperties":false}`},
		{"is closed", `{"additionalProperties":false,"type":"object"}`, `{"additionalProperties":false,"type":"object"}`},
		{"bounds", `{"type":"integer","minimum":1,"maximum": 5,"description":"how many"}`,
			`{"type":"integer","description":"how many (minimum 1, maximum 5)"}`},
		{"bounds without a description", `{"type":"array","items":{"type":"string","maxLength":3},"minItems":2}`,
			`{"type":"array","items":{"type":"string","description":"(maxLength 3)"},"description":"(minItems 2)"}`},
		{"a property of a keyword's name", `{"type":"object","properties":{"minimum":{"type":"string"}}}`,
			`{"type":"object","properties":{"minimum":{"type":"string"}},"additionalProperties":false}`},
		{"alternatives", `{"anyOf":[{"type":"null"},{"properties":{"x":true}}]}`,
			`{"anyOf":[{"type":"null"},{"properties":{"x":true},"additionalProperties":false}]}`},
		{"object or null", `{"type":["object","null"],"properties":{}}`, `{"type":["object","null"],"properties":{},"additionalProperties":false}`},
		{"map", `{"type":"object","additionalProperties":{"type":"string"}}`, ""},
		{"open", `{"type":"object","properties":{"a":{"additionalProperties":true}}}`, ""},
		{"anything", `{"type":"object"}`, ""},
		{"recursive", `{"properties":{"next":{"$ref":"#"}}}`, ""},
		{"all of several", `{"allOf":[{"properties":{"a":{}}},{"properties":{"b":{}}}]}`, ""},
		{"properties and alternatives", `{"properties":{"a":{}},"anyOf":[{"properties":{"b":{}}}]}`, ""},
		{"no object", `[]`, ""},
		{"no JSON", `{"a"`, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := CloseSchema([]byte(tt.in))
			assert.Equal(t, tt.want == "", err != nil, "%v", err)
			assert.Equal(t, tt.want, string(got))
		})
	}
	assert.True(t, strings.HasSuffix(OutputPrompt([]byte(`{}`)), "\n{}"))
}

func FuzzCloseSchema(f *testing.F) {
	f.Add([]byte(`{"type":"object","properties":{"a":{"minimum":1,"items":[{}]}},"anyOf":[{},true],"description":"x"}`))
	f.Add([]byte(`{"properties":{"a":{"anyOf":5,"properties":[]}}}`))
	f.Add([]byte("{\"\x8b\":[],\"\xab\":\"\"}"))
	f.Fuzz(func(t *testing.T, in []byte) {
		got, err := CloseSchema(in)
		if err != nil {
			return
		}
		require.True(t, json.Valid(got), "%q", got)
		again, err := CloseSchema(got)
		require.NoError(t, err)
		require.JSONEq(t, string(got), string(again), "it is closed") // of two keys that are invalid UTF-8, one is left
	})
}

// "input_schema does not support oneOf, allOf, or anyOf at the top level": one tool with such a schema would
// make every request fail.
func TestObjectSchema(t *testing.T) {
	for in, want := range map[string]string{
		``:                            `{"type":"object"}`,
		`{"properties":{"anyOf":{}}}`: `{"type":"object","properties":{"anyOf":{}}}`,
		`{"type":"object","properties":{"a":{"allOf":[{}]}}}`: `{"type":"object","properties":{"a":{"allOf":[{}]}}}`,
		`{"type":"object","description":"d","allOf":[{"properties":{"a":{}}}],"additionalProperties":false}`: `{"type":"object",` +
			`"description":"The arguments must fit this JSON Schema: {\"type\":\"object\",\"description\":\"d\",` +
			`\"allOf\":[{\"properties\":{\"a\":{}}}],\"additionalProperties\":false}","additionalProperties":true}`,
		`{"oneOf":7,"enum":[{}],"required":["c"]}`: `{"type":"object","required":["c"],"description":"The arguments must fit this JSON Schema: ` +
			`{\"oneOf\":7,\"enum\":[{}],\"required\":[\"c\"]}","additionalProperties":true}`,
	} {
		got, err := ObjectSchema([]byte(in))
		require.NoError(t, err)
		assert.Equal(t, want, string(got), in)
	}
	_, err := ObjectSchema([]byte(`[]`))
	assert.Error(t, err)
}

func TestClaudeFormatsOutput(t *testing.T) {
	for model, want := range map[string]bool{
		"claude-sonnet-4-5-20250929": true, "claude-sonnet-4-5": true, "us.anthropic.claude-opus-4-6-v1:0": true,
		"claude-opus-4-1-20250805": true, "claude-haiku-4.5": true, "claude-opus-5": true, "claude-sonnet-10-2": true,
		"claude-sonnet-4-20250514": false, "claude-sonnet-4": false, "claude-3-7-sonnet-20250219": false,
		"claude-opus-4-0": false, "claude-3-5-haiku-latest": false, "claude-": false, "gpt-5": false, "": false,
		"claude-sonnet-4-5@20250929": true,
	} {
		assert.Equal(t, want, ClaudeFormatsOutput(model), model)
	}
}
