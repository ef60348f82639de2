package providers_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/wiretest"
	"github.com/aycoder/aycoder/providers"
)

// Where the tail is, and the cache markers before it, in the form of each API.
func TestTail(t *testing.T) {
	t.Setenv("AWS_REGION", "us-east-1")
	history := func(thinking bool) []*aycoder.Message {
		said := &aycoder.Message{Role: aycoder.RoleAssistant, Parts: []aycoder.Part{
			&aycoder.ToolUse{ID: "call00001", Name: "f", Args: json.RawMessage(`{}`)}}}
		if thinking { // of a model elsewhere, which is not sent
			said.Parts = append([]aycoder.Part{&aycoder.Thinking{Text: "hm", Provider: "x"}}, said.Parts...)
		}
		return []*aycoder.Message{aycoder.User("q"), said, {Role: aycoder.RoleUser, Parts: []aycoder.Part{
			&aycoder.ToolOutput{ID: "call00001", Name: "f", Parts: []aycoder.Part{&aycoder.Text{Text: "out"}}}}}}
	}
	const mark, point = `,"cache_control":{"type":"ephemeral"}`, `,{"cachePoint":{"type":"default"}}`
	for _, tt := range []struct {
		name, model string
		thinking    bool
		want        string // at the end of the body
		marks       int
	}{
		{"keeps", "anthropic/claude-opus-4-6", true, `{"role":"user","content":[{"type":"tool_result","tool_use_id":"call00001","content":[{"type":"text","text":"out"}]` + mark +
			`}]},{"role":"user","content":[{"type":"text","text":"now"}]}]}`, 1},
		{"calm", "anthropic/claude-haiku-4-5", false, `"content":[{"type":"text","text":"out"}]` + mark + `}]},{"role":"user","content":[{"type":"text","text":"now"}]}]}`, 1},
		{"forgets", "anthropic/claude-haiku-4-5", true, `"messages":[{"role":"user","content":[{"type":"text","text":"q"` + mark +
			`}]},{"role":"assistant","content":[{"type":"tool_use","id":"call00001","name":"f","input":{}}]},{"role":"user","content":[` +
			`{"type":"tool_result","tool_use_id":"call00001","content":[{"type":"text","text":"out"},{"type":"text","text":"now"}]}]}]}`, 1},
		{"keeps", "bedrock/us.anthropic.claude-opus-4-6-v1", true,
			`{"role":"user","content":[{"toolResult":{"toolUseId":"call00001","content":[{"text":"out"}]}}` + point + `,{"text":"now"}]}]}`, 2}, // one is behind the tools
		{"forgets", "bedrock/us.anthropic.claude-haiku-4-5-v1", true, `{"role":"user","content":[{"text":"q"}` + point +
			`]},{"role":"assistant","content":[{"toolUse":{"toolUseId":"call00001","name":"f","input":{}}}]},` +
			`{"role":"user","content":[{"toolResult":{"toolUseId":"call00001","content":[{"text":"out"},{"text":"now"}]}}]}]}`, 2},
		{"calm", "openai/m", false, `{"type":"function_call_output","call_id":"call00001","output":"out"},{"role":"user","content":"now"}]}`, 0},
		{"forgets", "openai/m", true, `{"type":"function_call_output","call_id":"call00001","output":"out\nnow"}]}`, 0},
		{"calm", "openai-chat/m", false, `{"role":"tool","content":"out","tool_call_id":"call00001"},{"role":"user","content":"now"}]}`, 0},
		{"forgets", "openai-chat/m", true, `{"role":"tool","content":"out\n\nnow","tool_call_id":"call00001"}]}`, 0},
		{"calm", "openrouter/anthropic/claude-opus-4.6", false, `{"role":"tool","content":"out","tool_call_id":"call00001"` + mark +
			`},{"role":"user","content":[{"type":"text","text":"now"}]}]}`, 1},
		{"forgets", "openrouter/anthropic/claude-opus-4.6", true, `"messages":[{"role":"user","content":[{"type":"text","text":"q"` + mark + `}]},`, 1},
		{"calm", "openrouter/google/gemini", false, `{"role":"tool","content":"out","tool_call_id":"call00001"},{"role":"user","content":"now"}]}`, 0},
		{"calm", "mistral/m", false, `{"role":"tool","content":"out","tool_call_id":"call00001"},{"role":"assistant","content":"OK."},{"role":"user","content":"now"}]}`, 0},
		{"", "google/gemini-3-pro", true, `"response":{"output":"out"}}},{"text":"now"}]}]}`, 0},
		{"calm", "ollama/m", false, `{"role":"tool","content":"out","tool_name":"f","tool_call_id":"call00001"},{"role":"user","content":"now"}]}`, 0},
		{"forgets", "ollama/m", true, `{"role":"tool","content":"out\nnow","tool_name":"f","tool_call_id":"call00001"}]}`, 0},
	} {
		t.Run(tt.model+" "+tt.name, func(t *testing.T) {
			var sent string
			c, err := providers.Open(tt.model, providers.WithAPIKey("key-0123456789"), providers.WithHTTPClient(&http.Client{
				Transport: wiretest.Loopback(t, func(w http.ResponseWriter, r *http.Request) {
					data, _ := io.ReadAll(r.Body)
					sent = string(data)
					w.WriteHeader(http.StatusTeapot)
				})}))
			require.NoError(t, err)
			ask := func(req *aycoder.Request) string {
				_, err := aycoder.Complete(t.Context(), c, req)
				require.Error(t, err)
				require.True(t, json.Valid([]byte(sent)), sent)
				return sent
			}
			marks := func(body string) int { return strings.Count(body, mark) + strings.Count(body, point) }
			tail := []*aycoder.Text{{Text: "now"}}
			messages := history(tt.thinking)
			body := ask(&aycoder.Request{Messages: messages, Tail: tail})
			assert.Contains(t, body, tt.want)
			assert.True(t, strings.Contains(tt.want, `"messages":[`) || strings.HasSuffix(body, tt.want), body)
			assert.Equal(t, 1, strings.Count(body, "now"))
			assert.Equal(t, tt.marks, marks(body))
			assert.Zero(t, marks(ask(&aycoder.Request{Messages: messages, Tail: tail, NoCache: true})))
			// A message that the model has to continue stays the last one.
			assert.Equal(t, ask(&aycoder.Request{Messages: messages[:2]}), ask(&aycoder.Request{Messages: messages[:2], Tail: tail}))
		})
	}
}
