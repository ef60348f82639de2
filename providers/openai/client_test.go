package openai

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
)

// Each service has a different name, so that data for one is not sent to another.
func TestProviderName(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "sk-test-key")
	tests := []struct {
		name, want string
		opts       []Option
		own        bool // it speaks OpenAI's dialect
	}{
		{"OpenAI", "openai", nil, true},
		{"region", "openai", []Option{WithBaseURL("https://eu.api.openai.com/v1")}, true},
		{"not encrypted", "eu.api.openai.com", []Option{WithBaseURL("http://eu.api.openai.com/v1")}, false},
		{"other host", "evilapi.openai.com", []Option{WithBaseURL("https://evilapi.openai.com/v1")}, false},
		{"gateway", "localhost:4000", []Option{WithBaseURL("http://localhost:4000/v1")}, false},
		{"named", "gate", []Option{WithProvider("gate"), WithBaseURL("http://localhost:4000/v1")}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, err := New("gpt-5", tt.opts...)
			require.NoError(t, err)
			name, _ := c.ModelName()
			assert.Equal(t, tt.want, name)
			assert.Equal(t, tt.own, c.cfg.dialect == dialect{})
			assert.Equal(t, tt.own, c.cfg.Key() != "", "the key is OpenAI's")
		})
	}
	c, err := VLLM("m", WithBaseURL("http://gpu:8000/v1"))
	require.NoError(t, err)
	name, _ := c.ModelName()
	assert.Equal(t, "vllm", name)
	_, err = New("m", WithProvider("a b"))
	require.ErrorAs(t, err, new(*aycoder.ConfigError))
}

// A token replaces the key, whatever the header.
func TestTokenForKey(t *testing.T) {
	c, err := Azure("res", "d", "", WithAPIKey("sk-azure-key"), WithTokenSource(func(context.Context) (string, error) { return "tok", nil }))
	require.NoError(t, err)
	h := http.Header{}
	c.setHeaders(h)
	assert.Empty(t, h.Get("Api-Key"))
}

func TestEfforts(t *testing.T) {
	tests := []struct {
		name  string
		make  func(string, ...Option) (*Client, error)
		model string
		think int
		want  string
	}{
		{"Groq", Groq, "llama-3.3-70b-versatile", -1, ""},
		{"Groq", Groq, "llama-3.3-70b-versatile", 4000, ""},
		{"Groq", Groq, "qwen/qwen3-32b", 4000, "default"},
		{"Groq", Groq, "qwen/qwen3-32b", -1, "none"},
		{"Groq", Groq, "openai/gpt-oss-120b", -1, "low"},
		{"Groq", Groq, "openai/gpt-oss-120b", 4000, "medium"},
		{"Together", Together, "openai/gpt-oss-20b", -1, "low"},
		{"Together", Together, "some/model", -1, ""},
		{"OpenAI", New, "gpt-5-pro", -1, ""},
		{"OpenAI", New, "gpt-5-pro", 1000, "high"},
		{"OpenAI", New, "gpt-5.1", 1000, "low"},
	}
	for _, tt := range tests {
		t.Run(tt.name+" "+tt.model, func(t *testing.T) {
			c, err := tt.make(tt.model, WithAPIKey("k"))
			require.NoError(t, err)
			var w struct {
				Effort string `json:"reasoning_effort"`
			}
			require.NoError(t, json.Unmarshal(chatEncoded(t, c, &aycoder.Request{Thinking: tt.think}), &w))
			assert.Equal(t, tt.want, w.Effort)
		})
	}
}

// Thinking models refuse stop sequences; the request is an error rather than sent without
// them.
func TestStopRefused(t *testing.T) {
	for model, want := range map[string]bool{"gpt-5": false, "o3": false, "o1": true, "gpt-4.1": true} {
		c, err := New(model, WithAPIKey("k"))
		require.NoError(t, err)
		_, err = c.encodeChat(&aycoder.Request{Stop: []string{"X"}})
		assert.Equal(t, want, err == nil, model)
	}
}

// Schemas of tools are objects with properties.
func TestArgsSchema(t *testing.T) {
	for in, want := range map[string]string{
		``:                         `{"type":"object","properties":{}}`,
		`{}`:                       `{"type":"object","properties":{}}`,
		`{"type":"object"}`:        `{"type":"object","properties":{}}`,
		`{"properties":{"a":{}}}`:  `{"properties":{"a":{}},"type":"object"}`,
		`{"type":"array", "x": 1}`: `{"type":"array", "x": 1}`,
		`{"type":"object","properties":{"b":{}} }`: `{"type":"object","properties":{"b":{}} }`,
		// "schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level"
		`{"type":"object","properties":{"a":{}},"anyOf":[{"required":["a"]}]}`: `{"type":"object","properties":{"a":{}},"description":"The arguments must fit ` +
			`this JSON Schema: {\"type\":\"object\",\"properties\":{\"a\":{}},\"anyOf\":[{\"required\":[\"a\"]}]}","additionalProperties":true}`,
		`{"oneOf":[{"properties":{"a":{}}}]}`: `{"description":"The arguments must fit this JSON Schema: {\"oneOf\":[{\"properties\":{\"a\":{}}}]}",` +
			`"additionalProperties":true,"type":"object","properties":{}}`,
		`{"type":"object","properties":{},"not":{"required":["a"]}}`: `{"type":"object","properties":{},"description":"The arguments must fit this JSON Schema: ` +
			`{\"type\":\"object\",\"properties\":{},\"not\":{\"required\":[\"a\"]}}","additionalProperties":true}`,
		`{"type":"object","properties":{"a":{"anyOf":[{}],"not":{}}}}`: `{"type":"object","properties":{"a":{"anyOf":[{}],"not":{}}}}`,
	} {
		assert.Equal(t, want, string(argsSchema(json.RawMessage(in))), in)
	}
	usual := json.RawMessage(`{"properties":{"a":{"type":"string"}},"additionalProperties":false,"type":"object"}`)
	assert.Zero(t, testing.AllocsPerRun(10, func() { argsSchema(usual) }), "most schemas are sent as they are")
}
