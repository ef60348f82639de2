package server_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tmaxmax/go-sse"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/providers/openai"
	"github.com/aycoder/aycoder/providers/script"
)

// The client for chat completions of this library reads the answers: the agent's texts, and nothing of its tools.
func TestChatCompletions(t *testing.T) {
	s := newSite(t, script.New(
		script.Reply(script.Say("Let me look."), script.Call("read_file", `{"path":"a.txt"}`), script.Call("edit_file", map[string]any{"path": "a.txt", "old_string": "two", "new_string": "x"})),
		script.Say("It says two."),
		script.Say("Once more."),
	)).start()
	client, err := openai.New("aycoder", openai.WithBaseURL(s.http.URL+"/v1"), openai.WithAPIKey("none"))
	require.NoError(t, err)
	res, err := aycoder.Complete(t.Context(), client, &aycoder.Request{System: []*aycoder.Text{{Text: "Be short."}}, Messages: []*aycoder.Message{
		aycoder.User("hello"), aycoder.Assistant("Hi."), aycoder.User("what does it say?")}})
	require.NoError(t, err)
	require.Equal(t, "Let me look.\n\nIt says two.", res.Message.Text())
	require.Equal(t, aycoder.StopEndTurn, res.Stop)
	require.Positive(t, res.Usage.Input)
	require.Len(t, res.Message.Parts, 1)
	require.Equal(t, "one\ntwo\n", s.file("a.txt"), "nobody was asked, so nothing was changed")
	asked := s.model.(*script.Model).Requests()[0].Messages
	require.Len(t, asked, 3)
	require.Contains(t, asked[0].Text(), "Be short.")

	var whole struct {
		Object  string
		Choices []struct {
			Finish  string `json:"finish_reason"`
			Message struct{ Role, Content string }
		}
		Usage map[string]int
	}
	s.get(200, &whole, "POST", "/v1/chat/completions", map[string]any{"model": "aycoder", "temperature": 1, "messages": []any{map[string]string{"role": "user", "content": "again"}}})
	require.Equal(t, "chat.completion", whole.Object)
	require.Equal(t, "Once more.", whole.Choices[0].Message.Content)
	require.Equal(t, "stop", whole.Choices[0].Finish)
	require.Equal(t, whole.Usage["total_tokens"], whole.Usage["prompt_tokens"]+whole.Usage["completion_tokens"])
}

// The stream has the form that the reference of OpenAI describes.
func TestChatStream(t *testing.T) {
	s := newSite(t, script.New(script.Say("Hello there.")).With(script.WithChunk(5))).start()
	res := s.do("POST", "/v1/chat/completions", map[string]any{"stream": true, "stream_options": map[string]any{"include_usage": true},
		"messages": []any{map[string]string{"role": "user", "content": "hi"}}})
	defer res.Body.Close()
	var lines []string
	for ev, err := range sse.Read(res.Body, nil) {
		require.NoError(t, err)
		lines = append(lines, ev.Data)
	}
	n := len(lines)
	require.Equal(t, "[DONE]", lines[n-1])
	text, id := "", ""
	for i, line := range lines[:n-1] {
		var c struct {
			ID, Object string
			Created    int64
			Choices    []struct {
				Delta  struct{ Role, Content string }
				Finish *string `json:"finish_reason"`
			}
			Usage map[string]int
		}
		require.NoError(t, json.Unmarshal([]byte(line), &c))
		require.Equal(t, "chat.completion.chunk", c.Object)
		require.Positive(t, c.Created)
		if id == "" {
			id = c.ID
			require.Equal(t, "assistant", c.Choices[0].Delta.Role)
		}
		require.Equal(t, id, c.ID)
		switch i {
		case n - 2:
			require.Empty(t, c.Choices)
			require.Positive(t, c.Usage["total_tokens"])
		case n - 3:
			require.Equal(t, "stop", *c.Choices[0].Finish)
		default:
			require.Nil(t, c.Choices[0].Finish)
			text += c.Choices[0].Delta.Content
		}
	}
	require.Equal(t, "Hello there.", text)

	for name, body := range map[string]any{
		"tools":        map[string]any{"tools": []any{map[string]any{"type": "function"}}, "messages": []any{map[string]string{"role": "user", "content": "hi"}}},
		"no messages":  map[string]any{"messages": []any{}},
		"ends with us": map[string]any{"messages": []any{map[string]string{"role": "user", "content": "hi"}, map[string]string{"role": "assistant", "content": "hi"}}},
		"link":         map[string]any{"messages": []any{map[string]any{"role": "user", "content": []any{map[string]any{"type": "image_url", "image_url": map[string]string{"url": "https://x.example/a.png"}}}}}},
	} {
		var failed struct {
			Error struct{ Message, Type string }
		}
		s.get(400, &failed, "POST", "/v1/chat/completions", body)
		require.Equal(t, "invalid_request_error", failed.Error.Type, name)
		require.NotEmpty(t, strings.TrimSpace(failed.Error.Message))
	}
}
