package openai

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/wiretest"
)

// presetTest is a preset and the expected form of its requests.
type presetTest struct {
	vendor string // as in the recordings
	make   func(...Option) (*Client, error)
	env    string
	url    string
	header [2]string // of the key
	fields string    // of the body of presetRequest, without model, stream, tools and messages
	// unseen are fields that are in the services' documentation but not in a recording.
	unseen []string
}

func presetTests() []presetTest {
	named := func(f func(string, ...Option) (*Client, error), model string) func(...Option) (*Client, error) {
		return func(opts ...Option) (*Client, error) { return f(model, opts...) }
	}
	azure := func(version string) func(...Option) (*Client, error) {
		return func(opts ...Option) (*Client, error) { return Azure("res", "gpt-4o", version, opts...) }
	}
	bearer := [2]string{"Authorization", "Bearer sk-test-key"}
	const usage = `"stream_options":{"include_usage":true},`
	const required = `,"tool_choice":"required"`
	return []presetTest{
		{"openai", named(New, "gpt-5"), "OPENAI_API_KEY", "https://api.openai.com/v1/chat/completions", bearer,
			usage + `"max_completion_tokens":9,"reasoning_effort":"low"` + required, nil},
		{"xai", named(XAI, "grok-4"), "XAI_API_KEY", "https://api.x.ai/v1/chat/completions", bearer, usage + `"max_tokens":9` + required, nil},
		{"openrouter", named(OpenRouter, "openai/gpt-5"), "OPENROUTER_API_KEY", "https://openrouter.ai/api/v1/chat/completions", bearer,
			usage + `"max_tokens":2009,"reasoning":{"max_tokens":2000}` + required, nil},
		{"openrouter", named(OpenRouter, "anthropic/claude-sonnet-4"), "OPENROUTER_API_KEY", "https://openrouter.ai/api/v1/chat/completions", bearer,
			usage + `"max_tokens":2009,"reasoning":{"max_tokens":2000}` + required + `,"cache_control":{"type":"ephemeral"}`, []string{"cache_control"}},
		{"groq", named(Groq, "openai/gpt-oss-120b"), "GROQ_API_KEY", "https://api.groq.com/openai/v1/chat/completions", bearer,
			usage + `"max_tokens":9,"reasoning_effort":"low"` + required, nil},
		{"deepseek", named(DeepSeek, "deepseek-chat"), "DEEPSEEK_API_KEY", "https://api.deepseek.com/chat/completions", bearer,
			usage + `"max_tokens":9,"thinking":{"type":"disabled"}` + required, nil},
		{"mistral", named(Mistral, "mistral-small-latest"), "MISTRAL_API_KEY", "https://api.mistral.ai/v1/chat/completions", bearer,
			`"max_tokens":9,"reasoning_effort":"low","tool_choice":"any"`, nil},
		{"zai", named(ZAI, "glm-4.6"), "ZAI_API_KEY", "https://api.z.ai/api/paas/v4/chat/completions", bearer,
			usage + `"max_tokens":9,"thinking":{"type":"enabled"}` + required, nil},
		{"moonshot", named(Moonshot, "kimi-k2-thinking"), "MOONSHOT_API_KEY", "https://api.moonshot.ai/v1/chat/completions", bearer,
			usage + `"max_tokens":9,"thinking":{"type":"disabled"}` + required, []string{"*"}},
		{"together", named(Together, "m"), "TOGETHER_API_KEY", "https://api.together.xyz/v1/chat/completions", bearer,
			`"max_tokens":9,"reasoning_effort":"low"` + required, []string{"reasoning_effort"}},
		{"azure", azure("2025-01-01-preview"), "AZURE_OPENAI_API_KEY",
			"https://res.openai.azure.com/openai/deployments/gpt-4o/chat/completions?api-version=2025-01-01-preview",
			[2]string{"Api-Key", "sk-test-key"}, usage + `"max_completion_tokens":9` + required, nil},
		{"azure", azure(""), "AZURE_OPENAI_API_KEY", "https://res.openai.azure.com/openai/v1/chat/completions",
			[2]string{"Api-Key", "sk-test-key"}, usage + `"max_completion_tokens":9` + required, nil},
		{"copilot", named(Copilot, "gpt-4o"), "COPILOT_API_KEY", "https://api.githubcopilot.com/chat/completions", bearer,
			usage + `"max_tokens":9` + required, []string{"max_tokens"}},
		{"vllm?", named(VLLM, "m"), "", "http://localhost:8000/v1/chat/completions", [2]string{},
			usage + `"max_tokens":9,"chat_template_kwargs":{"enable_thinking":true}` + required, []string{"*"}},
		{"llamacpp", named(LlamaCpp, "m"), "", "http://localhost:8080/v1/chat/completions", [2]string{},
			usage + `"max_tokens":9,"chat_template_kwargs":{"enable_thinking":true}` + required, []string{"chat_template_kwargs"}},
		{"lmstudio", named(LMStudio, "m"), "", "http://localhost:1234/v1/chat/completions", [2]string{},
			usage + `"max_tokens":9,"chat_template_kwargs":{"enable_thinking":true}` + required, []string{"*"}},
	}
}

func presetRequest() *aycoder.Request {
	return &aycoder.Request{
		System: []*aycoder.Text{{Text: "s"}}, Messages: []*aycoder.Message{aycoder.User("hello")},
		Tools:     []*aycoder.ToolSpec{{Name: "f"}},
		MaxTokens: 9, Thinking: 2000, ToolChoice: aycoder.ToolChoice{Mode: aycoder.ToolAny},
	}
}

// seen records the last request.
type seen struct {
	req  *http.Request
	body map[string]json.RawMessage
}

func (s *seen) RoundTrip(r *http.Request) (*http.Response, error) {
	data, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	s.req, s.body = r, nil
	if err := json.Unmarshal(data, &s.body); err != nil {
		return nil, err
	}
	return chatServed(`{"choices":[{"message":{"content":"a"},"finish_reason":"stop"}]}`, 1<<20).RoundTrip(r)
}

func TestPresets(t *testing.T) {
	recorded := presetRecorded(t)
	for _, tt := range presetTests() {
		t.Run(tt.vendor+" "+tt.url, func(t *testing.T) {
			if tt.env != "" {
				t.Setenv(tt.env, "")
				_, err := tt.make()
				require.ErrorContains(t, err, tt.env)
				t.Setenv(tt.env, "sk-test-key")
			}
			s := &seen{}
			c, err := tt.make(WithHTTPClient(&http.Client{Transport: s}))
			require.NoError(t, err)
			_, err = aycoder.Complete(t.Context(), c, presetRequest())
			require.NoError(t, err)
			assert.Equal(t, tt.url, s.req.URL.String())
			if tt.header[0] != "" {
				assert.Equal(t, tt.header[1], s.req.Header.Get(tt.header[0]))
			} else {
				assert.Empty(t, s.req.Header.Get("Authorization"))
			}
			for _, f := range []string{"model", "stream", "tools", "messages"} {
				assert.Contains(t, s.body, f)
				delete(s.body, f)
			}
			got, err := json.Marshal(s.body)
			require.NoError(t, err)
			assert.JSONEq(t, `{`+tt.fields+`}`, string(got))
			for f := range s.body {
				if recorded != nil && !slices.Contains(tt.unseen, f) && !slices.Contains(tt.unseen, "*") {
					assert.True(t, recorded[tt.vendor][f], "no recorded request to %s has %s", tt.vendor, f)
				}
			}
		})
	}
}

// presetRecorded returns the fields that services accepted, by vendor.
func presetRecorded(t *testing.T) map[string]map[string]bool {
	fields := map[string]map[string]bool{}
	n := 0
	wiretest.Each(t, func(r *wiretest.Recording) {
		for _, i := range r.Interactions {
			var body map[string]json.RawMessage
			if i.Family != "openai-chat" || i.Response.Status != http.StatusOK || json.Unmarshal(i.RequestBody(), &body) != nil {
				continue
			}
			n++
			if fields[i.Vendor] == nil {
				fields[i.Vendor] = map[string]bool{}
			}
			for f := range body {
				fields[i.Vendor][f] = true
			}
		}
	})
	t.Logf("%d recorded requests of %d vendors", n, len(fields))
	return fields
}

func TestPresetOptions(t *testing.T) {
	s := &seen{}
	hc := WithHTTPClient(&http.Client{Transport: s})
	ask := func(c *Client, err error) {
		t.Helper()
		require.NoError(t, err)
		_, err = aycoder.Complete(t.Context(), c, presetRequest())
		require.NoError(t, err)
	}
	t.Setenv("COPILOT_API_KEY", "")
	ask(Copilot("m", hc, WithTokenSource(func(context.Context) (string, error) { return "short-lived", nil }),
		WithHeader("Editor-Version", "mine/1")))
	assert.Equal(t, "Bearer short-lived", s.req.Header.Get("Authorization"))
	assert.Equal(t, "mine/1", s.req.Header.Get("Editor-Version"))
	assert.Equal(t, "vscode-chat", s.req.Header.Get("Copilot-Integration-Id"))

	t.Setenv("ZAI_API_KEY", "sk-of-the-service")
	ask(ZAI("m", hc, WithBaseURL("http://localhost:1/v4")))
	assert.Empty(t, s.req.Header.Get("Authorization"), "the key belongs to the service")
	assert.Contains(t, s.body, "thinking", "what the service is does not change with its address")

	ask(Azure("https://gateway.example/x/", "d", "", hc, WithAPIKey("k")))
	assert.Equal(t, "https://gateway.example/x/openai/v1/chat/completions", s.req.URL.String())
	_, err := Azure("res", "", "", WithAPIKey("k"))
	require.ErrorContains(t, err, "deployment is empty")
	_, err = Azure("http://u:p@x", "d", "", WithAPIKey("k"))
	require.Error(t, err)

	_, err = New("m", WithAPIKey("k"), WithThinkingField("content"))
	require.ErrorContains(t, err, "WithThinkingField")
	_, err = XAI("", WithAPIKey("k"))
	require.ErrorContains(t, err, "name is empty")
}

// Presets differ in their setting for thinking.
func TestPresetThinking(t *testing.T) {
	tests := []struct {
		name     string
		make     func(string, ...Option) (*Client, error)
		thinking int
		effort   string
		want     string
	}{
		{"OpenAI", New, -1, "", `"reasoning_effort":"minimal"`},
		{"Groq", Groq, 0, "default", `"reasoning_effort":"default"`},
		{"DeepSeek", DeepSeek, 5000, "", `"thinking":{"type":"enabled"}`},
		{"DeepSeek", DeepSeek, -1, "", `"thinking":{"type":"disabled"}`},
		{"DeepSeek", DeepSeek, 0, "high", `"reasoning_effort":"high"`},
		{"OpenRouter", OpenRouter, -1, "", `"reasoning":{"enabled":false}`},
		{"OpenRouter", OpenRouter, 0, "high", `"reasoning":{"effort":"high"}`},
		{"VLLM", VLLM, -1, "", `"chat_template_kwargs":{"enable_thinking":false}`},
		{"XAI", XAI, 0, "high", `"reasoning_effort":"high"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			opts := []Option{WithAPIKey("k")}
			if tt.effort != "" {
				opts = append(opts, WithThinking(tt.effort))
			}
			c, err := tt.make("gpt-5", opts...)
			require.NoError(t, err)
			body := string(chatEncoded(t, c, &aycoder.Request{Thinking: tt.thinking}))
			assert.Contains(t, body, ","+tt.want+",")
			var fields map[string]json.RawMessage
			require.NoError(t, json.Unmarshal([]byte(body), &fields))
			assert.Len(t, fields, 5, "one more than model, stream, stream_options and messages")
		})
	}
}
