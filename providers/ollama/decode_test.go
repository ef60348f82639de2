package ollama_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/internal/wiretest"
	"github.com/aycoder/aycoder/providers/ollama"
)

func TestDecode(t *testing.T) {
	const call = `{"message":{"tool_calls":[{"function":{"name":"a","arguments":%}}]},"done":false}` + "\n"
	last := func(reason string) string { return strings.Replace(done, "stop", reason, 1) }
	tests := []struct {
		name, body string
		parts      []aycoder.Part
		stop       aycoder.StopReason
	}{
		{"blank lines and CRLF", "\r\n\n" + strings.ReplaceAll(said("content", "a", "b"), "\n", "\r\n\r\n") + done,
			[]aycoder.Part{&aycoder.Text{Text: "ab"}}, aycoder.StopEndTurn},
		{"no end of the last line", said("content", "a") + strings.TrimSpace(done),
			[]aycoder.Part{&aycoder.Text{Text: "a"}}, aycoder.StopEndTurn},
		{"text in the last line", `{"message":{"content":"a"},"done":true}`,
			[]aycoder.Part{&aycoder.Text{Text: "a"}}, aycoder.StopEndTurn},
		{"generate", `{"response":"a","thinking":"t","done":true,"done_reason":"stop","context":[1,2]}`,
			[]aycoder.Part{&aycoder.Thinking{Text: "t", Provider: "ollama"}, &aycoder.Text{Text: "a"}}, aycoder.StopEndTurn},
		{"all in one line", `{"message":{"tool_calls":[{"id":"x","function":{"name":"n","arguments":{"b":1,"a":2}}}],"content":"a","thinking":"t"},"done":true,"done_reason":"stop"}`,
			[]aycoder.Part{&aycoder.Thinking{Text: "t", Provider: "ollama"}, &aycoder.Text{Text: "a"},
				&aycoder.ToolUse{ID: "x", Name: "n", Args: []byte(`{"b":1,"a":2}`)}}, aycoder.StopToolUse},
		{"length", said("content", "a") + last("length"), []aycoder.Part{&aycoder.Text{Text: "a"}}, aycoder.StopMaxTokens},
		{"length with a call", strings.Replace(call, "%", `{}`, 1) + last("length"),
			[]aycoder.Part{&aycoder.ToolUse{ID: "id0", Name: "a", Args: []byte(`{}`)}}, aycoder.StopMaxTokens},
		{"load", last("load"), nil, "load"},
		{"unload", last("unload"), nil, "unload"},
		{"no arguments", strings.Replace(call, "%", `null`, 1) + done,
			[]aycoder.Part{&aycoder.ToolUse{ID: "id0", Name: "a", Args: []byte(`{}`)}}, aycoder.StopToolUse},
		{"arguments in a text", strings.Replace(call, "%", `"{\"x\":1}"`, 1) + done,
			[]aycoder.Part{&aycoder.ToolUse{ID: "id0", Name: "a", Args: []byte(`{"x":1}`)}}, aycoder.StopToolUse},
		{"printed for people", "\n{\r\n  \"message\": {\n    \"content\": \"a\"\n  },\n\n  \"done\": true\n}\r\n",
			[]aycoder.Part{&aycoder.Text{Text: "a"}}, aycoder.StopEndTurn},
		{"printed for people, without a last line end", "{ \"message\": {\"content\": \"a\"},\n\"done\": true }",
			[]aycoder.Part{&aycoder.Text{Text: "a"}}, aycoder.StopEndTurn},
		{"tags of thinking stay", `{"message":{"content":"<think>t</think>a"},"done":true}`,
			[]aycoder.Part{&aycoder.Text{Text: "<think>t</think>a"}}, aycoder.StopEndTurn},
		{"nulls", `{"message":null,"done":false,"error":null}` + "\n" + `{"message":{"content":null,"tool_calls":null},"done":true,"error":""}`,
			nil, aycoder.StopEndTurn},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := answer(t, tt.body)
			require.NoError(t, a.Err)
			for i, p := range a.Parts {
				if u, ok := p.(*aycoder.ToolUse); ok && strings.HasPrefix(u.ID, "call_") {
					u.ID = "id" + string(rune('0'+i))
				}
			}
			assert.Equal(t, tt.parts, a.Parts)
			assert.Equal(t, tt.stop, a.Done.Stop)
		})
	}
}

// Generated ids are the same when an answer is read again, and differ in another step of
// the conversation.
func TestMadeUpIDs(t *testing.T) {
	body := `{"model":"m","created_at":"now","message":{"tool_calls":[{"function":{"name":"a"}},{"id":"x","function":{"name":"a"}},{"id":"x","function":{"name":"b"}},{"id":"x","function":{"name":"a"}},{"id":"x","function":{"name":"b"}}]},"done":false}` + "\n" + done
	ids := func(messages int) (ids []string) {
		req := &aycoder.Request{}
		for range messages {
			req.Messages = append(req.Messages, aycoder.User("hello"))
		}
		a := wiretest.Ask(t.Context(), t, clientOf(t, says(http.StatusOK, body, 1)), req)
		require.NoError(t, a.Err)
		for _, u := range a.Message().Calls() {
			ids = append(ids, u.ID)
		}
		return ids
	}
	first := ids(1)
	require.Len(t, first, 3)
	assert.Equal(t, first, ids(1))
	assert.Equal(t, "x", first[1])
	other := ids(3)
	seen := map[string]bool{first[0]: true, first[1]: true, first[2]: true, other[0]: true, other[2]: true}
	assert.Len(t, seen, 5)
	assert.NotContains(t, seen, "")
}

func TestDecodeErrors(t *testing.T) {
	timed.Serial(t)
	tests := []struct {
		name, body string
		as         func(error) bool
	}{
		{"no last line", said("content", "a"), is[*aycoder.StreamBrokenError]},
		{"nothing", "", is[*aycoder.StreamBrokenError]},
		{"torn line", said("content", "a") + done[:20], is[*aycoder.StreamBrokenError]},
		{"torn behind a brace", said("content", "a") + `{"message":{"content":"x"}`, is[*aycoder.StreamBrokenError]},
		{"a torn document", "{\n\"message\":{\"content\":\"a\"},\n\"done\":true\n", is[*aycoder.StreamBrokenError]},
		{"a document and more", "{\n\"message\":{\"content\":\"a\"},\n\"done\":true}\n{}", is[*aycoder.StreamBrokenError]},
		{"an endless document", "{\n" + strings.Repeat(" \n", 17<<20) + "}", is[*aycoder.LimitError]},
		{"a list", "[1]\n", is[*aycoder.BadRequestError]},
		{"a web page", "<!DOCTYPE html>\n<html>", is[*aycoder.BadRequestError]},
		{"a call without a name", `{"message":{"tool_calls":[{"function":{}}]},"done":true}`, is[*aycoder.StreamBrokenError]},
		{"an error in the stream", said("content", "a") + `{"error":"an error was encountered while running the model"}` + "\n",
			is[*aycoder.StreamBrokenError]},
		{"too long in the stream", `{"error":"the prompt is longer than the context length currently available to the model"}`,
			is[*aycoder.ContextTooLargeError]},
		{"an error that is an object", `{"error":{"message":"request (5000 tokens) exceeds the available context size (4096 tokens)"}}`,
			is[*aycoder.ContextTooLargeError]},
		{"a line that is too long", `{"message":{"content":"` + strings.Repeat("a", 33<<20), is[*aycoder.LimitError]},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := answer(t, tt.body)
			require.Error(t, a.Err)
			assert.Nil(t, a.Done)
			assert.True(t, tt.as(a.Err), "%T: %.300v", a.Err, a.Err)
			assert.True(t, is[*aycoder.ModelError](a.Err), "%T", a.Err)
		})
	}
}

func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// Impossible counts are ignored: sums of them would overflow.
func TestCounts(t *testing.T) {
	for count, want := range map[string]int64{"-1": 0, "9223372036854775807": 1 << 40, "1e300": 0, `"7"`: 0} {
		body := strings.NewReplacer(`count":3`, `count":`+count, `count":7`, `count":`+count).Replace(done)
		a := answer(t, body)
		require.NoError(t, a.Err)
		assert.Equal(t, aycoder.Usage{Input: want, Output: want}, a.Done.Usage, count)
	}
}

// If no context is left for an answer, the conversation was too long.
func TestContextIsFull(t *testing.T) {
	full := strings.NewReplacer(`"stop"`, `"length"`, `count":3`, `count":4096`, `count":7`, `count":0`).Replace(done)
	a := answer(t, full, ollama.WithContextLength(4096))
	e, ok := errors.AsType[*aycoder.ContextTooLargeError](a.Err)
	require.True(t, ok, "%v", a.Err)
	assert.Equal(t, int64(4096), e.Actual)
	assert.Equal(t, int64(4096), e.Max)

	for name, a := range map[string]*wiretest.Answer{
		"longer context":     answer(t, full, ollama.WithContextLength(8192)),
		"unknown context":    answer(t, full),
		"something was said": answer(t, said("content", "a")+full, ollama.WithContextLength(4096)),
	} {
		require.NoError(t, a.Err, name)
		assert.Equal(t, aycoder.StopMaxTokens, a.Done.Stop, name)
	}
}

func TestStatusErrors(t *testing.T) {
	tests := []struct {
		status int
		text   string
		as     func(error) bool
		retry  bool
	}{
		{404, "model 'x' not found", is[*aycoder.UnknownModelError], false},
		{404, `model "x" not found, try pulling it first`, is[*aycoder.UnknownModelError], false},
		{400, "registry.ollama.ai/library/gemma3:1b does not support tools", is[*aycoder.BadRequestError], false},
		{400, `"gemma3:1b" does not support thinking`, is[*aycoder.BadRequestError], false},
		{400, "the input length exceeds the context length", is[*aycoder.ContextTooLargeError], false},
		{400, "the prompt is longer than the context length currently available to the model; shorten the prompt, adjust the context length in settings, or use a model with a longer context length",
			is[*aycoder.ContextTooLargeError], false},
		{500, "input length (9000 tokens) exceeds the model's maximum context length (8192 tokens)", is[*aycoder.ContextTooLargeError], false},
		{500, "model requires more system memory (5.6 GiB) than is available (2.0 GiB)", is[*aycoder.ModelError], false},
		{500, "unable to load model: /root/.ollama/models/blobs/sha256-1", is[*aycoder.ModelError], false},
		{500, "model runner has unexpectedly stopped, this may be due to resource limitations", is[*aycoder.OverloadedError], true},
		{503, "server busy, please try again.  maximum pending requests exceeded", is[*aycoder.OverloadedError], true},
		{401, "unauthorized", is[*aycoder.AuthError], false},
		{429, "too many requests", is[*aycoder.RateLimitError], true},
		{502, "upstream is gone", is[*aycoder.OverloadedError], true},
	}
	for _, tt := range tests {
		t.Run(tt.text, func(t *testing.T) {
			c := clientOf(t, says(tt.status, `{"error":`+quote(tt.text)+`}`, 7), ollama.WithContextLength(8192))
			_, err := aycoder.Complete(t.Context(), c, &aycoder.Request{Messages: []*aycoder.Message{aycoder.User("hi")}})
			require.Error(t, err)
			assert.True(t, tt.as(err), "%T: %v", err, err)
			assert.ErrorContains(t, err, "ollama qwen3:4b")
			decided := aycoder.RetryPolicy{}.Decide(aycoder.Failure{Err: err, Shrunk: true})
			assert.Equal(t, tt.retry, decided.Retry, "%T: %v", err, err)
			if e, ok := errors.AsType[*aycoder.ContextTooLargeError](err); ok {
				assert.Equal(t, int64(8192), e.Max, "%v", err)
			}
		})
	}
}
