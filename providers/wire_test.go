package providers_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/wiretest"
	"github.com/aycoder/aycoder/providers"
)

// dialects are the forms of the wire, each by the name of a model that is asked in it.
var dialects = map[string]string{"messages": "anthropic/claude-test", "chat": "openai-chat/gpt-test",
	"responses": "openai/gpt-test", "gemini": "google/gemini-test", "ollama": "ollama/qwen-test",
	"converse": "bedrock/amazon.nova-test"}

// asked opens a client whose requests go through rt, and returns what it answers.
func asked(t testing.TB, model string, rt http.RoundTripper, messages ...*aycoder.Message) *wiretest.Answer {
	t.Helper()
	t.Setenv("AWS_REGION", "us-east-1")
	c, err := providers.Open(model, providers.WithAPIKey("key-0123456789"), providers.WithHTTPClient(&http.Client{Transport: rt}))
	require.NoError(t, err)
	if len(messages) == 0 {
		messages = []*aycoder.Message{aycoder.User("hello")}
	}
	return wiretest.Ask(t.Context(), t, c, &aycoder.Request{Messages: messages})
}

// An answer is complete when its last event is, also where the blank line behind it is
// missing, or the line end, or where a comment comes last.
func TestLastEventWithoutItsEnd(t *testing.T) {
	streams := map[string]string{
		"messages": "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"content\":[]}}\n\n" +
			"event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"hi\"}}\n\n" +
			"event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n" +
			"event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"}}\n\n" +
			"event: message_stop\ndata: {\"type\":\"message_stop\"}",
		"chat": "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"}}]}\n\n" +
			"data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}",
		"chat/done": "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]",
		"responses": "data: {\"type\":\"response.completed\",\"response\":{\"status\":\"completed\",\"output\":[" +
			"{\"type\":\"message\",\"content\":[{\"type\":\"output_text\",\"text\":\"hi\"}]}]}}",
		"gemini": "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"hi\"}]},\"finishReason\":\"STOP\"}]}",
		"ollama": `{"message":{"content":"hi"},"done":true,"done_reason":"stop"}`,
	}
	for name, body := range streams {
		dialect := name
		if name == "chat/done" {
			dialect = "chat"
		}
		for _, end := range []string{"", "\n", "\r\n", "\n\n", "\n: ping", "\n\n: ping\n"} {
			if dialect == "ollama" && len(end) > 2 {
				continue // knows no comments
			}
			a := asked(t, dialects[dialect], wiretest.Answering(t, wiretest.Stream, body+end))
			if assert.NoError(t, a.Err, "%s, %q", name, end) {
				assert.Equal(t, "hi", a.Message().Text(), "%s, %q", name, end)
			}
		}
		a := asked(t, dialects[dialect], wiretest.Answering(t, wiretest.Stream, body[:len(body)-1]))
		if name != "chat/done" { // whose finish_reason came
			assert.Error(t, a.Err, "%s cut", name)
		}
	}
}
