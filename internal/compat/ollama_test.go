package compat

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"testing"
	"time"

	sdk "github.com/ollama/ollama/api"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/providers/ollama"
)

const ollamaAnswer = `{"model":"m","created_at":"2025-01-01T00:00:00Z","message":{"role":"assistant","content":"hi"},` +
	`"done":true,"done_reason":"stop","prompt_eval_count":1,"eval_count":1}` + "\n"

// ollamaReads checks that a body and its options fit Ollama's types.
func ollamaReads(t testing.TB, rules rules, body []byte) {
	t.Helper()
	body = ollamaKnown(t, body)
	var req sdk.ChatRequest
	if requireStrict(t, rules, body, &req) > 0 {
		return
	}
	if len(req.Options) > 0 {
		data, err := json.Marshal(req.Options)
		require.NoError(t, err)
		var options ollamaOptions
		requireStrict(t, rules, data, &options)
	}
	sameBodies(t, withoutEmpty(t, body), withoutEmpty(t, ollamaSends(t, &req)))
}

// ollamaKeywords are the keywords of JSON Schema that Ollama knows, so that its templates
// show them to models.
var ollamaKeywords = []string{"type", "properties", "required", "description", "enum", "items", "anyOf", "$defs"}

// ollamaKnown removes the parts that Ollama ignores: other keywords of JSON Schema, and the
// type of a call, which is in its documentation but not in its types.
func ollamaKnown(t testing.TB, body []byte) []byte {
	t.Helper()
	doc, err := parse(body)
	require.NoError(t, err)
	m := doc.(map[string]any)
	tools, _ := m["tools"].([]any)
	for _, tool := range tools {
		onlyKeywords(tool.(map[string]any)["function"].(map[string]any)["parameters"].(map[string]any))
	}
	for _, message := range m["messages"].([]any) {
		calls, _ := message.(map[string]any)["tool_calls"].([]any)
		for _, call := range calls {
			delete(call.(map[string]any), "type")
		}
	}
	body, err = json.Marshal(doc)
	require.NoError(t, err)
	return body
}

func onlyKeywords(schema map[string]any) {
	maps.DeleteFunc(schema, func(name string, _ any) bool { return !slices.Contains(ollamaKeywords, name) })
	properties, _ := schema["properties"].(map[string]any)
	for _, property := range properties {
		if inner, ok := property.(map[string]any); ok {
			onlyKeywords(inner)
		}
	}
	variants, _ := schema["anyOf"].([]any)
	for _, variant := range variants {
		if inner, ok := variant.(map[string]any); ok {
			onlyKeywords(inner)
		}
	}
}

// ollamaOptions are [sdk.Options], which embed a structure without a name.
type ollamaOptions struct {
	sdk.Options `json:"-"`
	NumCtx      int      `json:"num_ctx"`
	NumPredict  int      `json:"num_predict"`
	Seed        int      `json:"seed"`
	Temperature float32  `json:"temperature"`
	TopK        int      `json:"top_k"`
	Stop        []string `json:"stop"`
}

func ollamaSends(t testing.TB, req *sdk.ChatRequest) []byte {
	t.Helper()
	k := &keeper{answer: ollamaAnswer}
	c := sdk.NewClient(&url.URL{Scheme: "http", Host: "localhost"}, k.client())
	require.NoError(t, c.Chat(t.Context(), req, func(sdk.ChatResponse) error { return nil }))
	return k.body
}

func ollamaClient(t testing.TB, rt http.RoundTripper, model string) aycoder.ModelClient {
	t.Helper()
	c, err := ollama.New(model, ollama.WithHTTPClient(&http.Client{Transport: rt}), ollama.WithContextLength(8192),
		ollama.WithKeepAlive(time.Minute))
	require.NoError(t, err)
	return c
}

func TestOllama(t *testing.T) {
	extra := map[string]json.RawMessage{"options": json.RawMessage(`{"top_k":3,"seed":1}`),
		"keep_alive": json.RawMessage(`"5m0s"`)}
	for _, model := range []string{"qwen3", "gpt-oss:20b"} {
		for _, c := range cases(t, nil, extra) {
			t.Run(model+"/"+c.name, func(t *testing.T) {
				k := &keeper{answer: ollamaAnswer}
				body, err := bodyOf(t, k, ollamaClient(t, k, model), c.req)
				if c.req.ToolChoice.Mode == aycoder.ToolNamed && len(c.req.Tools) == 0 {
					require.ErrorContains(t, err, "is none of the request's")
					return
				}
				require.NoError(t, err)
				ollamaReads(t, rules{}, body)
			})
		}
	}
}

func TestOllamaRecorded(t *testing.T) {
	client := func(rt http.RoundTripper, model string) aycoder.ModelClient { return ollamaClient(t, rt, model) }
	eachResent(t, "ollama", client, func(r *resent) {
		t.Run(r.id, func(t *testing.T) { ollamaReads(t, rules{sent: r.sent}, r.body) })
	})
}
