package api

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
)

func TestWithTail(t *testing.T) {
	said := func(parts ...aycoder.Part) *aycoder.Message {
		return &aycoder.Message{Role: aycoder.RoleAssistant, Parts: parts}
	}
	text := func(s string) *aycoder.Text { return &aycoder.Text{Text: s} }
	output := func(parts ...aycoder.Part) *aycoder.ToolOutput {
		return &aycoder.ToolOutput{ID: "1", Name: "f", Parts: parts}
	}
	user := func(parts ...aycoder.Part) *aycoder.Message {
		return &aycoder.Message{Role: aycoder.RoleUser, Parts: parts}
	}
	call := &aycoder.ToolUse{ID: "1", Name: "f", Args: json.RawMessage(`{}`)}
	think := &aycoder.Thinking{Text: "hm"}
	prompt, thought, called, out := user(text("q")), said(think, call), said(call), user(output(text("out")))
	tail := []*aycoder.Text{text("now"), text(" "), nil}
	list := func(m ...*aycoder.Message) []*aycoder.Message { return m }
	own, inside := user(text("now")), user(output(text("out"), text("now")))
	for _, tt := range []struct {
		name     string
		messages []*aycoder.Message
		tail     []*aycoder.Text
		keeps    bool
		last     *aycoder.Message // nil: there is no tail
		stable   int
	}{
		{"nothing", nil, nil, false, nil, 0},
		{"no messages", nil, tail, false, own, 0},
		{"no tail", list(prompt, thought, out), nil, false, nil, 3},
		{"a blank tail", list(prompt), []*aycoder.Text{text("\n")}, false, nil, 1},
		{"a prompt", list(prompt), tail, false, own, 1},
		{"an output", list(prompt, called, out), tail, false, own, 3},
		{"an output after thinking", list(prompt, thought, out), tail, false, inside, 2},
		{"an output after earlier thinking", list(prompt, thought, out, called, out), tail, false, inside, 4},
		{"thinking that is kept", list(prompt, thought, out), tail, true, own, 3},
		{"a prompt behind an output", list(prompt, thought, out, prompt), tail, false, own, 4},
		{"thinking before the prompt", list(prompt, thought, out, said(text("a")), prompt, called, out), tail, false, own, 7},
		{"a text beside the output", list(prompt, thought, user(output(text("out")), text("and"))), tail, false, own, 3},
		{"two outputs", list(prompt, thought, user(output(text("a")), output(text("out")))), tail, false,
			user(output(text("a")), output(text("out"), text("now"))), 2},
		{"an output without text", list(prompt, thought, user(output())), tail, false, own, 3},
		{"an image", list(prompt, thought, user(output(text("a"), &aycoder.Media{Type: "image/png"}))), tail, false, own, 3},
		{"the model goes on", list(prompt, thought), tail, false, nil, 2},
		{"nil at the end", list(prompt, nil), tail, false, nil, 2},
		{"nil before", list(nil, out), tail, false, own, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before, err := json.Marshal(tt.messages)
			require.NoError(t, err)
			messages, stable := WithTail(&aycoder.Request{Messages: tt.messages, Tail: tt.tail}, tt.keeps)
			require.Equal(t, tt.stable, stable)
			for i := range stable {
				require.Same(t, tt.messages[i], messages[i])
			}
			after, err := json.Marshal(tt.messages)
			require.NoError(t, err)
			require.Equal(t, string(before), string(after), "the history does not change")
			if tt.last == nil {
				require.Len(t, messages, stable)
				return
			}
			require.Len(t, messages, stable+1)
			require.Equal(t, tt.last, messages[stable])
		})
	}
}

func TestClaudeKeepsThinking(t *testing.T) {
	for model, want := range map[string]bool{
		"claude-opus-4-1": false, "claude-opus-4-5-20251101": true, "claude-opus-4-6": true, "claude-sonnet-4-5": false,
		"anthropic/claude-sonnet-4-6": true, "claude-haiku-4-5": false, "us.anthropic.claude-haiku-5-v1:0": false, "claude-sonnet-5": true,
		"claude-fable-5": true, "claude-3-7-sonnet-latest": false, "other": false,
	} {
		require.Equal(t, want, ClaudeKeepsThinking(model), model)
	}
}
