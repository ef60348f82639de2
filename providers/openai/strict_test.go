package openai

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestStrictSchema(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"required", `{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}`,
			`{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"additionalProperties":false}`},
		{"optional", `{"$schema":"x","type":"object","properties":{"a":{"type":"integer","default":3,"minimum":1}},"additionalProperties":false}`,
			`{"type":"object","properties":{"a":{"type":["integer","null"],"minimum":1}},"required":["a"],"additionalProperties":false}`},
		{"optional with values", `{"type":"object","properties":{"a":{"type":"string","enum":["x"]},"b":{"$ref":"#/$defs/t"}},"$defs":{"t":{"type":"object","properties":{"c":{"type":"null"}}}}}`,
			`{"type":"object","properties":{"a":{"anyOf":[{"type":"string","enum":["x"]},{"type":"null"}]},"b":{"anyOf":[{"$ref":"#/$defs/t"},{"type":"null"}]}},
			"$defs":{"t":{"type":"object","properties":{"c":{"type":"null"}},"required":["c"],"additionalProperties":false}},"required":["a","b"],"additionalProperties":false}`},
		{"formats", `{"type":"object","properties":{"a":{"type":"string","format":"date"},"b":{"type":"string","format":"uri","description":"Where."},"c":{"type":"string","format":"int\"32"},"d":{"type":"string","format":7}},"required":["a","b","c","d"]}`,
			`{"type":"object","properties":{"a":{"type":"string","format":"date"},"b":{"type":"string","description":"Where.\nFormat: uri"},"c":{"type":"string","description":"Format: int\"32"},"d":{"type":"string"}},
			"required":["a","b","c","d"],"additionalProperties":false}`},
		{"lists", `{"type":"object","properties":{"a":{"type":"array","items":{"anyOf":[{"type":"object","properties":{"b":{"type":"string"}},"required":["b"]},{"type":"null"}]}}},"required":["a"]}`,
			`{"type":"object","properties":{"a":{"type":"array","items":{"anyOf":[{"type":"object","properties":{"b":{"type":"string"}},"required":["b"],"additionalProperties":false},{"type":"null"}]}}},"required":["a"],"additionalProperties":false}`},
		{"reference with a description", `{"type":"object","properties":{"a":{"$ref":"#/$defs/t","description":"d"}},"required":["a"],"$defs":{"t":{"type":"string"}}}`,
			`{"type":"object","properties":{"a":{"description":"d","anyOf":[{"$ref":"#/$defs/t"}]}},"required":["a"],"$defs":{"t":{"type":"string"}},"additionalProperties":false}`},
		{"reference with more", `{"type":"object","properties":{"a":{"$ref":"#/$defs/t","pattern":"d"}},"required":["a"],"$defs":{"t":{"type":"string"}}}`, ``},
		{"list of anything", `{"type":"object","properties":{"a":{"type":["array","null"]}},"required":["a"]}`, ``},
		{"described only", `{"type":"object","properties":{"a":{"description":"d"}},"required":["a"]}`, ``},
		{"map", `{"type":"object","additionalProperties":{"type":"string"}}`, ``},
		{"open object", `{"type":"object","properties":{"a":{"type":"string"}},"additionalProperties":true}`, ``},
		{"object without properties", `{"type":"object","properties":{"a":{"type":"object"}}}`, ``},
		{"anything", `{"type":"object","properties":{"a":{}}}`, ``},
		{"true", `{"type":"object","properties":{"a":true}}`, ``},
		{"keyword that is not supported", `{"type":"object","properties":{"a":{"type":"string","minLength":3}}}`, ``},
		{"all of", `{"type":"object","properties":{"a":{"allOf":[{"type":"string"}]}}}`, ``},
		{"root that is not an object", `{"type":"array","items":{"type":"string"}}`, ``},
		{"root of choices", `{"type":"object","anyOf":[{"type":"object"}]}`, ``},
		{"not JSON", `{`, ``},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := strictSchema(json.RawMessage(tt.in))
			require.Equal(t, tt.want != "", ok, "%s", got)
			if ok {
				assert.JSONEq(t, tt.want, string(got))
			}
		})
	}
	deep := `{"type":"string"}`
	for range 2 * maxSchemaDepth {
		deep = `{"type":"object","properties":{"a":` + deep + `}}`
	}
	_, ok := strictSchema(json.RawMessage(deep))
	assert.False(t, ok, "too deep")
}

func FuzzStrictSchema(f *testing.F) {
	f.Add(`{"type":"object","properties":{"a":{"type":["string","null"],"enum":["b"]}},"$defs":{"x":{"items":{"anyOf":[{}]}}}}`)
	f.Add(`{"type":"object","properties":{"a":{"type":"string","format":"uri","description":[]}},"format":"\xff"}`)
	f.Fuzz(func(t *testing.T, s string) {
		if got, ok := strictSchema(json.RawMessage(s)); ok && !json.Valid(got) {
			t.Errorf("schema of %s is %s", s, got)
		}
	})
}
