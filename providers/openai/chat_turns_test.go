package openai

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
)

// Messages are sent in an order of roles that the service accepts, and sent bytes do not
// change.
func TestChatTurns(t *testing.T) {
	text := func(s string) aycoder.Part { return &aycoder.Text{Text: s} }
	image := func() aycoder.Part { return &aycoder.Media{Type: "image/png", Data: []byte("x")} }
	user := func(p ...aycoder.Part) *aycoder.Message { return &aycoder.Message{Role: aycoder.RoleUser, Parts: p} }
	call := &aycoder.Message{Role: aycoder.RoleAssistant, Parts: []aycoder.Part{
		&aycoder.ToolUse{ID: "a", Name: "read", Args: json.RawMessage(`{}`)}}}
	output := func(p aycoder.Part) aycoder.Part {
		return &aycoder.ToolOutput{ID: "a", Name: "read", Parts: []aycoder.Part{p}}
	}
	system := &aycoder.Message{Role: aycoder.RoleSystem, Parts: []aycoder.Part{text("brief")}}
	tests := []struct {
		name     string
		open     func(string, ...Option) (*Client, error)
		messages []*aycoder.Message
		want     string
	}{
		{"steered", Mistral, []*aycoder.Message{user(text("go")), call, user(output(text("x")), text("now?"))}, "user assistant tool assistant user"},
		{"cancelled", Mistral, []*aycoder.Message{user(text("go")), call, user(output(text("x"))), user(text("y"))}, "user assistant tool assistant user"},
		{"system", Mistral, []*aycoder.Message{user(text("go")), call, user(output(text("x"))), system}, "user assistant tool assistant user"},
		{"image", Mistral, []*aycoder.Message{user(text("go")), call, user(output(image()))}, "user assistant tool assistant user"},
		{"answered", Mistral, []*aycoder.Message{user(text("go")), call, user(output(text("x"))), aycoder.Assistant("y"), user(text("z"))},
			"user assistant tool assistant user"},
		{"OpenAI", New, []*aycoder.Message{user(text("go")), call, user(output(text("x"))), user(text("y")), user(text("z"))}, "user assistant tool user user"},
		{"texts", VLLM, []*aycoder.Message{user(text("a")), system, user(text("c")), aycoder.Assistant("d"), user(text("e"))}, "user assistant user"},
		{"text and images", VLLM, []*aycoder.Message{user(text("a")), user(text("b")), user(image()), user(text("c")), user(image())}, "user"},
		{"image first", VLLM, []*aycoder.Message{aycoder.Assistant("x"), user(image()), user(image()), user(text("c"))}, "assistant user"},
		{"blank first", New, []*aycoder.Message{user(text(" ")), aycoder.Assistant("x"), user(text("c"))}, "user assistant user"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, err := tt.open("m", WithAPIKey("k"))
			require.NoError(t, err)
			var before []byte
			for n := range tt.messages {
				body := chatEncoded(t, c, &aycoder.Request{Messages: tt.messages[:n+1]})
				alone := n == 0 || tt.messages[n].Role == aycoder.RoleAssistant || tt.messages[n-1].Role == aycoder.RoleAssistant
				if alone {
					assert.True(t, bytes.HasPrefix(body, bytes.TrimSuffix(before, []byte("]}"))), "%s\n%s", before, body)
				}
				assert.Equal(t, body, chatEncoded(t, c, &aycoder.Request{Messages: tt.messages[:n+1]}))
				before = body
			}
			var w struct {
				Messages []struct {
					Role    string
					Content any
				}
			}
			require.NoError(t, json.Unmarshal(before, &w))
			var roles []string
			for _, m := range w.Messages {
				roles = append(roles, m.Role)
			}
			assert.Equal(t, tt.want, strings.Join(roles, " "))
			switch tt.name {
			case "texts":
				assert.Equal(t, "a\n\n<system>\nbrief\n</system>\n\nc", w.Messages[0].Content)
			case "text and images":
				assert.Len(t, w.Messages[0].Content, 4)
			}
		})
	}
}
