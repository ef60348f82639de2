package providers_test

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/eventstream"
	"github.com/aycoder/aycoder/internal/wiretest"
	"github.com/aycoder/aycoder/providers"
)

// dialects are the wire formats, each with the name of a model that uses it.
var dialects = map[string]string{"messages": "anthropic/claude-test", "chat": "openai-chat/gpt-test",
	"responses": "openai/gpt-test", "gemini": "google/gemini-test", "ollama": "ollama/qwen-test",
	"converse": "bedrock/amazon.nova-test"}

// asked opens a client that uses rt, and returns its answer.
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

// An answer is complete when its last event is, even without the blank line or the line
// end behind it, or with a comment at the end.
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
				continue // the format has no comments
			}
			a := asked(t, dialects[dialect], wiretest.Answering(t, wiretest.Stream, body+end))
			if assert.NoError(t, a.Err, "%s, %q", name, end) {
				assert.Equal(t, "hi", a.Message().Text(), "%s, %q", name, end)
			}
		}
		a := asked(t, dialects[dialect], wiretest.Answering(t, wiretest.Stream, body[:len(body)-1]))
		if name != "chat/done" { // whose finish_reason was received
			assert.Error(t, a.Err, "%s cut", name)
		}
	}
}

// A proxy's error with a success status is reported as that error, and is not retried if
// a retry is useless.
func TestFailuresInsideSuccess(t *testing.T) {
	var auth, bad, limited, overloaded, unknown error = &aycoder.AuthError{}, &aycoder.BadRequestError{},
		&aycoder.RateLimitError{}, &aycoder.OverloadedError{}, &aycoder.UnknownModelError{}
	const json, html, text = "application/json", "text/html; charset=utf-8", "text/plain"
	for _, tt := range []struct {
		typ, body string
		want      error
	}{
		{json, `{"detail":"Not authenticated"}`, auth},
		{json, `{"detail":"Could not validate credentials"}`, auth},
		{json, `{"message":"Unauthorized"}`, auth},
		{json, `{"error":"Unauthorized"}`, auth},
		{json, `{"error":{"code":401,"message":"who are you?"}}`, auth},
		{json, `{"statusCode":403,"message":"no"}`, auth},
		{json, `{"success":false,"error":"Missing API key"}`, auth},
		{json, `{"base_resp":{"status_code":1004,"status_msg":"login fail: Please carry the API secret key"}}`, auth},
		{html, "<!DOCTYPE html>\n<html><form><input name=user><input type=\"password\"></form></html>", auth},
		{html, "<html><title>Sign in to your account</title></html>", auth},
		{html, "<html><body>Welcome to nginx!</body></html>", bad},
		{text, "\n  <html><body>It works!</body></html>", bad},
		{json, `{"detail":[{"loc":["body","model"],"msg":"field required","type":"value_error.missing"}]}`, bad},
		{json, `{"hello":"world"}`, bad},
		{text, "Unauthorized", auth},
		{text, "invalid api key", auth},
		{json, `{"error":{"message":"Rate limit reached"}}`, limited},
		{json, `{"error":"Service temporarily unavailable, try again"}`, overloaded},
		{json, `{"error":{"message":"The model gpt-x does not exist"}}`, unknown},
	} {
		for name, model := range dialects {
			a := asked(t, model, wiretest.Answering(t, tt.typ, tt.body))
			// both are retried
			if _, broken := errors.AsType[*aycoder.StreamBrokenError](a.Err); tt.want != overloaded || !broken {
				assert.IsType(t, tt.want, a.Err, "%s: %s: %v", name, tt.body, a.Err)
			}
			assert.Nil(t, a.Done)
			again := (aycoder.RetryPolicy{}).Decide(aycoder.Failure{Err: a.Err}).Retry
			assert.Equal(t, tt.want == limited || tt.want == overloaded, again, "%s: %s", name, tt.body)
		}
	}
	for _, body := range []string{"event: error\ndata: {\"detail\":\"Not authenticated\"}\n\n", "data: {\"detail\":\"Not authenticated\"}\n\n",
		"error: {\"error\":{\"code\":401,\"message\":\"x\"}}\n\n", "event: error\ndata: Unauthorized\n\n"} {
		for _, name := range []string{"messages", "chat", "responses", "gemini"} {
			a := asked(t, dialects[name], wiretest.Answering(t, wiretest.Stream, body))
			assert.IsType(t, auth, a.Err, "%s: %s: %v", name, body, a.Err)
		}
	}
}

// The error texts of services that belong to a typed error.
func TestErrorTexts(t *testing.T) {
	large, unknown := &aycoder.ContextTooLargeError{}, &aycoder.UnknownModelError{}
	for _, tt := range []struct {
		service, model string
		status         int
		body           string
		want           error
	}{
		// As reported to OpenRouterTeam/ai-sdk-provider, issue 121.
		{"Perplexity", "openai-chat/sonar", 400, `{"error":{"message":"Requested 115120 to generate tokens, following a prompt of length 40055, which exceeds the max limit of 128000 tokens.","type":"requested_too_many_tokens","code":400}}`, large},
		{"Perplexity by OpenRouter", "openrouter/perplexity/sonar", 400, `{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"{\"error\":{\"message\":\"Requested 115120 to generate tokens, following a prompt of length 40055, which exceeds the max limit of 128000 tokens.\",\"type\":\"requested_too_many_tokens\",\"code\":400}}","provider_name":"Perplexity"}}}`, large},
		// Ollama's cloud and server (server/routes.go, runner/ollamarunner).
		{"Ollama", "ollama/gpt-oss:20b", 400, `{"error":"prompt too long; exceeded max context length by 17 tokens (ref: 1)"}`, large},
		{"Ollama, chat", "openai-chat/gpt-oss:20b", 400, `{"error":{"message":"prompt too long; exceeded max context length by 17 tokens","type":"invalid_request_error"}}`, large},
		{"Ollama, old", "ollama/m", 500, `{"error":"the input length exceeds the context length"}`, large},
		// vllm-project/vllm, issue 12165, and vllm/entrypoints.
		{"vLLM", "vllm/m", 400, `{"object":"error","message":"The prompt (total length 25938) is too long to fit into the model (context length 4096). Make sure that max_model_len is no smaller","type":"BadRequestError","code":400}`, large},
		{"vLLM", "vllm/m", 400, `{"error":{"message":"The decoder prompt (length 5000) is longer than the maximum model length of 4096.","type":"BadRequestError","code":400}}`, large},
		// antirez/ds4, pull request 150.
		{"ds4", "openai-chat/m", 400, `{"error":{"message":"Prompt tokens (9000) exceeds context size (8192)","type":"context_exceeded"}}`, large},
		{"Alibaba", "openai-chat/qwen", 400, `{"error":{"message":"Range of input length should be [1, 129024]","type":"invalid_request_error","code":"invalid_parameter_error"}}`, large},
		{"Volcengine", "openai-chat/doubao", 400, `{"error":{"code":"InvalidParameter","message":"Total tokens of image and text exceed max message tokens","type":"BadRequest"}}`, large},
		{"SiliconFlow", "openai-chat/m", 400, `{"code":20015,"message":"length of prompt_tokens (40000) must be less than max_seq_len (32768).","data":null}`, large},
		// DeepSeek: as of July 2026, and before.
		{"DeepSeek", "deepseek/nope", 400, `{"error":{"message":"The supported API model names are deepseek-v4-pro or deepseek-v4-flash, but you passed nope.","type":"invalid_request_error","param":null,"code":"invalid_request_error"}}`, unknown},
		{"DeepSeek, old", "deepseek/nope", 400, `{"error":{"message":"Model Not Exist","type":"invalid_request_error","param":null,"code":"invalid_request_error"}}`, unknown},
		{"DeepSeek, Messages", "anthropic/nope", 400, `{"error":{"message":"The supported API model names are deepseek-v4-pro or deepseek-v4-flash, but you passed nope.","type":"invalid_request_error"}}`, unknown},
		{"SiliconFlow", "openai-chat/nope", 400, `{"code":20012,"message":"Model does not exist. Please check it carefully.","data":null}`, unknown},
		{"Together", "together/nope", 404, `{"error":{"message":"Unable to access model nope. Please visit https://api.together.ai/models to view the list of supported models.","type":"invalid_request_error","code":"model_not_available"}}`, unknown},
		{"Z.AI", "zai/nope", 400, `{"error":{"code":"1211","message":"Unknown Model, please check the model code."}}`, unknown},
	} {
		rt := wiretest.Loopback(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(tt.status)
			_, _ = io.WriteString(w, tt.body)
		})
		a := asked(t, tt.model, rt)
		assert.IsType(t, tt.want, a.Err, "%s: %v", tt.service, a.Err)
	}
}

// roundTrip is a transport that is a function.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A server that never responds is abandoned after minutes, rather than after six times as
// many; so is a server that sends only the head of its response.
func TestSilentServer(t *testing.T) {
	t.Setenv("AWS_REGION", "us-east-1")
	silent := roundTrip(func(r *http.Request) (*http.Response, error) {
		<-r.Context().Done()
		return nil, r.Context().Err()
	})
	headOnly := roundTrip(func(r *http.Request) (*http.Response, error) {
		pr, pw := io.Pipe()
		context.AfterFunc(r.Context(), func() { pw.CloseWithError(r.Context().Err()) })
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: pr, Request: r}, nil
	})
	for _, name := range providers.Names() {
		if name == "azure" {
			continue // requires a URL
		}
		for what, rt := range map[string]http.RoundTripper{"silent": silent, "head only": headOnly} {
			t.Run(name+"/"+what, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					m, err := providers.Open(name+"/m", providers.WithAPIKey("key-0123456789"),
						providers.WithHTTPClient(&http.Client{Transport: rt}))
					require.NoError(t, err)
					agent, err := aycoder.New(m)
					require.NoError(t, err)
					start, last := time.Now(), error(nil)
					for _, err := range agent.Run(t.Context(), aycoder.Input{Messages: []*aycoder.Message{aycoder.User("hi")}}) {
						last = err
					}
					var timeout *aycoder.TimeoutError
					require.ErrorAs(t, last, &timeout)
					assert.LessOrEqual(t, time.Since(start), 10*time.Minute)
					assert.GreaterOrEqual(t, time.Since(start), 2*time.Minute, "models load, and read long prompts")
				})
			})
		}
	}
}

// Structured output that is sent as an object rather than as a string becomes the text.
func TestContentThatIsAnObject(t *testing.T) {
	for _, doc := range []string{`{"answer": 42}`, `{"type":"person","name":"a"}`, `{"text":"a","score":1}`, `[{"a":1},{"a":2}]`} {
		for name, body := range map[string]string{
			"chat whole":  `{"choices":[{"message":{"content":` + doc + `},"finish_reason":"stop"}]}`,
			"chat stream": "data: {\"choices\":[{\"delta\":{\"content\":" + doc + "},\"finish_reason\":\"stop\"}]}\n\n",
			"ollama":      `{"message":{"content":` + doc + `},"done":true}`,
		} {
			dialect, _, _ := strings.Cut(name, " ")
			a := asked(t, dialects[dialect], wiretest.Answering(t, "", body))
			require.NoError(t, a.Err, name)
			assert.Equal(t, doc, a.Message().Text(), name)
		}
	}
}

// A conversation that begins with the model is accepted by services: those that want the
// user first get a user message first.
func TestHistoryBeginsWithTheModel(t *testing.T) {
	said := &aycoder.Message{Role: aycoder.RoleAssistant, Parts: []aycoder.Part{&aycoder.Text{Text: "Welcome."}}}
	for _, name := range []string{"converse", "gemini"} {
		var body string
		rt := wiretest.Loopback(t, func(w http.ResponseWriter, r *http.Request) {
			data, _ := io.ReadAll(r.Body)
			body = string(data)
			w.WriteHeader(http.StatusTeapot)
		})
		asked(t, dialects[name], rt, said, aycoder.User("hello"))
		var sent struct {
			Messages, Contents []struct{ Role string }
		}
		require.NoError(t, json.Unmarshal([]byte(body), &sent), body)
		var roles []string
		for _, m := range append(sent.Messages, sent.Contents...) {
			roles = append(roles, strings.ReplaceAll(m.Role, "model", "assistant"))
		}
		assert.Equal(t, []string{"user", "assistant", "user"}, roles, name)
		assert.Contains(t, body, "Welcome.")
	}
}

// A surrogate pair that is split across two pieces is decoded as one character; half of a
// pair becomes U+FFFD.
func TestHalvesOfCharacters(t *testing.T) {
	tests := []struct {
		pieces []string
		want   string
	}{
		{[]string{`a\ud83d`, `\ude00b`}, "a😀b"},
		{[]string{`\uD83D`, `\uDE00`}, "😀"},
		{[]string{`a\ud83d`, `\ude00\ud83d`, `\ude01`, `b`}, "a😀😁b"},
		{[]string{`a\ud83d`, `b`}, "a\uFFFDb"},
		{[]string{`a`, `\ude00b`}, "a\uFFFDb"},
		{[]string{`a\ud83d`}, "a\uFFFD"},
		{[]string{`a\ud83d`, `\ud83d`, `\ude00`}, "a\uFFFD😀"},
		{[]string{`a\\ud83d`, `\\ude00`}, `a\ud83d\ude00`},
		{[]string{`\"\ud83d`, `\ude00\"`}, `"😀"`},
	}
	forms := map[string]func(pieces []string) string{
		"messages": func(pieces []string) string {
			var b strings.Builder
			say := func(data string) { b.WriteString("data: " + data + "\n\n") }
			say(`{"type":"message_start","message":{"id":"m","content":[]}}`)
			say(`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`)
			for _, p := range pieces {
				say(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"` + p + `"}}`)
			}
			say(`{"type":"content_block_stop","index":0}`)
			say(`{"type":"message_stop"}`)
			return b.String()
		},
		"chat": func(pieces []string) string {
			var b strings.Builder
			for _, p := range pieces {
				b.WriteString(`data: {"choices":[{"index":0,"delta":{"content":"` + p + `"}}]}` + "\n\n")
			}
			return b.String() + `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n"
		},
		"responses": func(pieces []string) string {
			var b strings.Builder
			for _, p := range pieces {
				b.WriteString(`data: {"type":"response.output_text.delta","output_index":0,"content_index":0,"delta":"` + p + `"}` + "\n\n")
			}
			return b.String() + `data: {"type":"response.completed","response":{"status":"completed","output":[]}}` + "\n\n"
		},
		"gemini": func(pieces []string) string {
			var b strings.Builder
			for i, p := range pieces {
				end := ""
				if i == len(pieces)-1 {
					end = `,"finishReason":"STOP"`
				}
				b.WriteString(`data: {"candidates":[{"content":{"parts":[{"text":"` + p + `"}]}` + end + "}]}\r\n\r\n")
			}
			return b.String()
		},
		"ollama": func(pieces []string) string {
			var b strings.Builder
			for _, p := range pieces {
				b.WriteString(`{"message":{"content":"` + p + `"},"done":false}` + "\n")
			}
			return b.String() + `{"message":{"content":""},"done":true}` + "\n"
		},
		"converse": func(pieces []string) string {
			b := eventstream.AppendEvent(nil, "messageStart", `{"role":"assistant"}`)
			for _, p := range pieces {
				b = eventstream.AppendEvent(b, "contentBlockDelta", `{"contentBlockIndex":0,"delta":{"text":"`+p+`"}}`)
			}
			b = eventstream.AppendEvent(b, "contentBlockStop", `{"contentBlockIndex":0}`)
			return string(eventstream.AppendEvent(b, "messageStop", `{"stopReason":"end_turn"}`))
		},
	}
	for name, form := range forms {
		for _, tt := range tests {
			a := asked(t, dialects[name], wiretest.Answering(t, "", form(tt.pieces)))
			require.NoError(t, a.Err, "%s: %q", name, tt.pieces)
			assert.Equal(t, tt.want, a.Message().Text(), "%s: %q", name, tt.pieces)
			assert.Equal(t, tt.want, a.Text, "%s: %q, in pieces", name, tt.pieces)
		}
	}
	// Arguments are split in the same way.
	body := `data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\":\"\ud83d"}}]}}]}` +
		"\n\n" + `data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"\ude00\"}"}}]},"finish_reason":"stop"}]}` + "\n\n"
	a := asked(t, dialects["chat"], wiretest.Answering(t, wiretest.Stream, body))
	require.NoError(t, a.Err)
	require.Len(t, a.Message().Calls(), 1)
	assert.Equal(t, `{"x":"😀"}`, string(a.Message().Calls()[0].Args))
}

// Unknown fields of an answer are not sent back: services refuse them, and with them the
// whole conversation. Fields that services need are sent back.
func TestUnknownFieldsStay(t *testing.T) {
	messages := `data: {"type":"message_start","message":{"id":"m","content":[]}}` + "\n\n" +
		`data: {"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"hm","signature":"sig-1","news":"N1"}}` + "\n\n" +
		`data: {"type":"content_block_stop","index":0}` + "\n\n" +
		`data: {"type":"content_block_start","index":1,"content_block":{"type":"text","text":"hi","news":"N2","citations":[{"type":"c","cited":"keep"}]}}` + "\n\n" +
		`data: {"type":"content_block_delta","index":1,"delta":{"type":"news_delta","news2":"N3"}}` + "\n\n" +
		`data: {"type":"content_block_stop","index":1}` + "\n\n" +
		`data: {"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"a","name":"f","input":{},"caller":{"type":"direct"},"news":"N4"}}` + "\n\n" +
		`data: {"type":"content_block_delta","index":2,"delta":{"type":"news_delta","news2":"N5"}}` + "\n\n" +
		`data: {"type":"content_block_stop","index":2}` + "\n\n" + `data: {"type":"message_stop"}` + "\n\n"
	responses := `{"id":"r","status":"completed","output":[` +
		`{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"sealed-1"},` +
		`{"type":"message","role":"assistant","content":[{"type":"output_text","text":"hi","annotations":[],"news":"N1"}],"news":"N2"},` +
		`{"type":"function_call","id":"fc","call_id":"a","name":"f","arguments":"{}","status":"completed","namespace":"ns-1","news":"N3"}]}`
	chat := `data: {"choices":[{"index":0,"delta":{"reasoning_content":"hm","content":"hi","news":"N1","tool_calls":[{"index":0,"id":"a","news":"N2","function":{"name":"f","arguments":"{}","news":"N3"}}]},"finish_reason":"stop"}]}` + "\n\n"
	for _, tt := range []struct {
		model, body string
		back        []string
	}{
		{dialects["messages"], messages, []string{"sig-1", `"cited":"keep"`, `"caller":{"type":"direct"}`}},
		{dialects["responses"], responses, []string{"sealed-1", `"namespace":"ns-1"`}},
		{dialects["chat"], chat, nil},
		{"deepseek/m", chat, []string{`"reasoning_content":"hm"`}},
	} {
		a := asked(t, tt.model, wiretest.Answering(t, "", tt.body))
		require.NoError(t, a.Err, tt.model)
		require.Len(t, a.Message().Calls(), 1)
		result := &aycoder.Message{Role: aycoder.RoleUser, Parts: []aycoder.Part{&aycoder.ToolOutput{ID: "a", Name: "f"}}}
		var sent string
		rt := wiretest.Loopback(t, func(w http.ResponseWriter, r *http.Request) {
			data, _ := io.ReadAll(r.Body)
			sent = string(data)
			w.WriteHeader(http.StatusTeapot)
		})
		asked(t, tt.model, rt, aycoder.User("hello"), a.Message(), result)
		assert.NotContains(t, sent, "news", tt.model)
		for _, field := range tt.back {
			assert.Contains(t, sent, field, tt.model)
		}
	}
}

// Output that the service could not parse as a call is neither an answer nor an empty
// success: the request is retried.
func TestMalformedCalls(t *testing.T) {
	converse := string(eventstream.AppendEvent(eventstream.AppendEvent(nil, "messageStart", `{"role":"assistant"}`),
		"messageStop", `{"stopReason":"malformed_tool_use"}`))
	for name, body := range map[string]string{
		"gemini":   `data: {"candidates":[{"finishReason":"MALFORMED_FUNCTION_CALL","finishMessage":"Malformed function call: print(x)"}]}` + "\n\n",
		"chat":     `data: {"choices":[{"index":0,"delta":{},"finish_reason":"function_call_filter: MALFORMED_FUNCTION_CALL"}]}` + "\n\ndata: [DONE]\n\n",
		"converse": converse,
	} {
		a := asked(t, dialects[name], wiretest.Answering(t, "", body))
		require.Error(t, a.Err, name)
		assert.Contains(t, strings.ToLower(a.Err.Error()), "malformed", name)
		assert.True(t, (aycoder.RetryPolicy{}).Decide(aycoder.Failure{Err: a.Err}).Retry, name)
	}
}

// An answer that ends because the context is full was cut off.
func TestContextIsFull(t *testing.T) {
	const full = "model_context_window_exceeded"
	converse := eventstream.AppendEvent(nil, "messageStart", `{"role":"assistant"}`)
	converse = eventstream.AppendEvent(converse, "contentBlockDelta", `{"contentBlockIndex":0,"delta":{"text":"hi"}}`)
	converse = eventstream.AppendEvent(converse, "contentBlockStop", `{"contentBlockIndex":0}`)
	for name, body := range map[string]string{
		"messages": lines(`{"type":"message_start","message":{"id":"m","content":[]}}`,
			`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"hi"}}`,
			`{"type":"content_block_stop","index":0}`, `{"type":"message_delta","delta":{"stop_reason":"`+full+`"}}`, `{"type":"message_stop"}`),
		"chat":     lines(`{"choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":"` + full + `"}]}`),
		"converse": string(eventstream.AppendEvent(converse, "messageStop", `{"stopReason":"`+full+`"}`)),
	} {
		a := asked(t, dialects[name], wiretest.Answering(t, "", body))
		require.NoError(t, a.Err, name)
		assert.Equal(t, "hi", a.Message().Text(), name)
		assert.Equal(t, aycoder.StopMaxTokens, a.Done.Stop, name)
	}
}

// Proxies add comments, byte order marks, other line ends and compression, and close
// connections in different ways.
func TestWaysOfProxies(t *testing.T) {
	const body = ": OPENROUTER PROCESSING\n\n\ndata: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"}}]}\n\n: ping\n\n" +
		"data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"
	for name, h := range map[string]http.HandlerFunc{
		"as it is":        func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) },
		"byte order mark": func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "\uFEFF"+body) },
		"CRLF": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, strings.ReplaceAll(body, "\n", "\r\n"))
		},
		"CR": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, strings.ReplaceAll(body, "\n", "\r"))
		},
		"gzip": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			zw := gzip.NewWriter(w)
			_, _ = io.WriteString(zw, body)
			_ = zw.Close()
		},
		"a filter's event first": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `data: {"id":"","choices":[],"prompt_filter_results":[{"prompt_index":0,"content_filter_results":{}}]}`+"\n\n"+body)
		},
		"a reset behind the end": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, body)
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		},
		"a reset behind the last event without its end": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, strings.TrimRight(body, "\n"))
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		},
	} {
		a := asked(t, dialects["chat"], wiretest.Loopback(t, h))
		if assert.NoError(t, a.Err, name) {
			assert.Equal(t, "hi", a.Message().Text(), name)
		}
	}
	a := asked(t, dialects["chat"], wiretest.Loopback(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, body[:strings.Index(body, ": ping")])
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}))
	assert.IsType(t, &aycoder.StreamBrokenError{}, a.Err)
}
