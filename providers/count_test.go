package providers_test

import (
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/wiretest"
	"github.com/aycoder/aycoder/providers/anthropic"
	"github.com/aycoder/aycoder/providers/google"
	"github.com/aycoder/aycoder/providers/openai"
	"github.com/aycoder/aycoder/tokens"
)

// Clients send to the methods that count only what these document, and return their number.
func TestCountTokens(t *testing.T) {
	req := &aycoder.Request{
		System:   []*aycoder.Text{{Text: "Be brief."}},
		Messages: []*aycoder.Message{aycoder.User("What is in the file?")},
		Tools:    []*aycoder.ToolSpec{{Name: "look", Description: "Reads a file.", Schema: []byte(`{"type":"object","properties":{}}`)}},
		Thinking: 2000,
	}
	token := func(client *http.Client) []openai.Option {
		return []openai.Option{openai.WithAPIKey("key"), openai.WithHTTPClient(client)}
	}
	for _, tt := range []struct {
		name   string
		client func(*http.Client) (aycoder.ModelClient, error)
		path   string
		inside string   // the field around the request
		fields []string // of the request
		answer string
	}{
		{
			"anthropic", func(hc *http.Client) (aycoder.ModelClient, error) {
				return anthropic.New("claude-sonnet-4-5", anthropic.WithAPIKey("key"), anthropic.WithHTTPClient(hc))
			}, "/v1/messages/count_tokens", "", []string{"messages", "model", "system", "thinking", "tools"}, `{"input_tokens": 2095}`,
		},
		{
			"google", func(hc *http.Client) (aycoder.ModelClient, error) {
				return google.New("gemini-2.5-flash", google.WithAPIKey("key"), google.WithHTTPClient(hc))
			}, "/v1beta/models/gemini-2.5-flash:countTokens", "generateContentRequest",
			[]string{"contents", "generationConfig", "model", "systemInstruction", "tools"},
			`{"totalTokens": 2095, "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 2095}]}`,
		},
		{
			"openai", func(hc *http.Client) (aycoder.ModelClient, error) {
				return openai.New("gpt-5", append(token(hc), openai.WithResponses(true))...)
			}, "/v1/responses/input_tokens", "", []string{"input", "instructions", "model", "reasoning", "tools"},
			`{"object": "response.input_tokens", "input_tokens": 2095}`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			status, answer := http.StatusOK, tt.answer
			client, err := tt.client(&http.Client{Transport: wiretest.Loopback(t, func(w http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				if err != nil {
					return
				}
				var got map[string]json.RawMessage
				if err := json.Unmarshal(body, &got); err == nil && tt.inside != "" {
					_ = json.Unmarshal(got[tt.inside], &got)
					delete(got, tt.inside)
				}
				if fields := slices.Sorted(maps.Keys(got)); r.URL.Path != tt.path || !slices.Equal(fields, tt.fields) {
					t.Errorf("%s %s has the fields %q, want %s %q", r.Method, r.URL.Path, fields, tt.path, tt.fields)
				}
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(status)
				_, _ = io.WriteString(w, answer)
			})})
			require.NoError(t, err)
			counter := client.(tokens.TokenCounter)
			n, err := counter.CountTokens(t.Context(), req)
			require.NoError(t, err)
			require.Equal(t, int64(2095), n)
			for _, answer = range []string{`{}`, `{"error":{"message":"no"}}`, `[1]`, `{"input_tokens":-1,"totalTokens":0}`, `{"input_tokens":`, "data: {}\n\n", ""} {
				_, err = counter.CountTokens(t.Context(), req)
				_, ok := errors.AsType[*aycoder.ModelError](err)
				require.True(t, ok, "%s: %v (%T)", answer, err, err)
			}
			status, answer = http.StatusTooManyRequests, `{"error":{"message":"slow down"}}`
			_, err = counter.CountTokens(t.Context(), req)
			_, ok := errors.AsType[*aycoder.RateLimitError](err)
			require.True(t, ok, "%v (%T)", err, err)
		})
	}
	chat, err := openai.New("gpt-5", token(nil)[:1]...)
	require.NoError(t, err)
	vertex, err := anthropic.New("claude-sonnet-4-5", anthropic.WithBedrock("us-east-1"), anthropic.WithAPIKey("key"))
	require.NoError(t, err)
	// Nobody knows whether another service has the method: a proxy, or one that offers the same API.
	refuse := &http.Client{Transport: wiretest.Loopback(t, func(_ http.ResponseWriter, r *http.Request) { t.Errorf("asked %s", r.URL) })}
	const base = "https://proxy.example/v1"
	own, err := openai.New("gpt-5", append(token(refuse), openai.WithResponses(true), openai.WithBaseURL(base))...)
	require.NoError(t, err)
	proxy, err := anthropic.New("claude-sonnet-4-5", anthropic.WithBaseURL(base), anthropic.WithAPIKey("key"), anthropic.WithHTTPClient(refuse))
	require.NoError(t, err)
	gemini, err := google.New("gemini-2.5-flash", google.WithBaseURL(base), google.WithAPIKey("key"), google.WithHTTPClient(refuse))
	require.NoError(t, err)
	t.Setenv("OPENAI_BASE_URL", base)
	env, err := openai.New("gpt-5", append(token(refuse), openai.WithResponses(true))...)
	require.NoError(t, err)
	for _, client := range []tokens.TokenCounter{chat, vertex, own, proxy, gemini, env} {
		_, err := client.CountTokens(t.Context(), req)
		require.ErrorIs(t, err, errors.ErrUnsupported)
	}
	name, _ := env.CompactFrom("", 0)
	require.Empty(t, name)
}
