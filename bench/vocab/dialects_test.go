package vocab

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/eventstream"
	"github.com/aycoder/aycoder/providers/anthropic"
	"github.com/aycoder/aycoder/providers/bedrock"
	"github.com/aycoder/aycoder/providers/google"
	"github.com/aycoder/aycoder/providers/ollama"
	"github.com/aycoder/aycoder/providers/openai"
)

// A dialect is how a provider's requests, answers and errors look.
type dialect struct {
	name     string
	client   func(url string, hc *http.Client) (aycoder.ModelClient, error)
	messages string   // the field with the messages
	items    bool     // several items are a message
	limit    []string // the fields that limit the answer
	media    string
	answer   func(id, text, args string, tokens int64) []byte
	refuse   func(tokens, answer, window int64) (status int, body string)
}

func quote(s string) string {
	data, _ := json.Marshal(s)
	return string(data)
}

var dialects = []*dialect{
	{
		name: "anthropic",
		client: func(url string, hc *http.Client) (aycoder.ModelClient, error) {
			return anthropic.New("claude-test", anthropic.WithAPIKey("key"), anthropic.WithBaseURL(url), anthropic.WithHTTPClient(hc))
		},
		messages: "messages", limit: []string{"max_tokens"}, media: "text/event-stream",
		answer: func(id, text, args string, tokens int64) (b []byte) {
			event := func(name, format string, args ...any) {
				b = fmt.Appendf(b, "event: %s\ndata: {\"type\":%q,%s}\n\n", name, name, fmt.Sprintf(format, args...))
			}
			stop := "end_turn"
			event("message_start", `"message":{"id":"msg_1","type":"message","role":"assistant","model":"claude-test","content":[],`+
				`"stop_reason":null,"usage":{"input_tokens":%d,"output_tokens":1}}`, tokens)
			event("content_block_start", `"index":0,"content_block":{"type":"text","text":""}`)
			event("content_block_delta", `"index":0,"delta":{"type":"text_delta","text":%s}`, quote(text))
			event("content_block_stop", `"index":0`)
			if args != "" {
				stop = "tool_use"
				event("content_block_start", `"index":1,"content_block":{"type":"tool_use","id":%q,"name":"look","input":{}}`, id)
				event("content_block_delta", `"index":1,"delta":{"type":"input_json_delta","partial_json":%s}`, quote(args))
				event("content_block_stop", `"index":1`)
			}
			event("message_delta", `"delta":{"stop_reason":%q},"usage":{"output_tokens":50}`, stop)
			return append(b, "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"...)
		},
		refuse: func(tokens, answer, window int64) (int, string) {
			text := fmt.Sprintf("prompt is too long: %d tokens > %d maximum", tokens, window)
			if tokens <= window {
				text = fmt.Sprintf("input length and `max_tokens` exceed context limit: %d + %d > %d, decrease input length or `max_tokens` and try again",
					tokens, answer, window)
			}
			return http.StatusBadRequest, `{"type":"error","error":{"type":"invalid_request_error","message":` + quote(text) + `}}`
		},
	},
	{
		name: "chat",
		client: func(url string, hc *http.Client) (aycoder.ModelClient, error) {
			return openai.New("gpt-test", openai.WithAPIKey("key"), openai.WithBaseURL(url), openai.WithHTTPClient(hc))
		},
		messages: "messages", limit: []string{"max_tokens", "max_completion_tokens"}, media: "text/event-stream",
		answer: func(id, text, args string, tokens int64) (b []byte) {
			chunk := func(choices, more string) {
				b = fmt.Appendf(b, "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1766079100,\"model\":\"gpt-test\",\"choices\":[%s]%s}\n\n", choices, more)
			}
			stop := "stop"
			chunk(`{"index":0,"delta":{"role":"assistant","content":`+quote(text)+`},"finish_reason":null}`, "")
			if args != "" {
				stop = "tool_calls"
				chunk(fmt.Sprintf(`{"index":0,"delta":{"tool_calls":[{"index":0,"id":%q,"type":"function","function":{"name":"look","arguments":%s}}]},"finish_reason":null}`,
					id, quote(args)), "")
			}
			chunk(fmt.Sprintf(`{"index":0,"delta":{},"finish_reason":%q}`, stop), "")
			chunk("", fmt.Sprintf(`,"usage":{"prompt_tokens":%d,"completion_tokens":50,"total_tokens":%d}`, tokens, tokens+50))
			return append(b, "data: [DONE]\n\n"...)
		},
		refuse: func(tokens, answer, window int64) (int, string) {
			text := fmt.Sprintf("This model's maximum context length is %d tokens. However, your messages resulted in %d tokens. "+
				"Please reduce the length of the messages.", window, tokens)
			if answer > 0 {
				text = fmt.Sprintf("This model's maximum context length is %d tokens. However, you requested %d tokens (%d in the messages, "+
					"%d in the completion). Please reduce the length of the messages or completion.", window, tokens+answer, tokens, answer)
			}
			return http.StatusBadRequest, `{"error":{"message":` + quote(text) + `,"type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}`
		},
	},
	{
		name: "responses",
		client: func(url string, hc *http.Client) (aycoder.ModelClient, error) {
			return openai.New("gpt-test", openai.WithAPIKey("key"), openai.WithBaseURL(url), openai.WithHTTPClient(hc), openai.WithResponses(true))
		},
		messages: "input", items: true, limit: []string{"max_output_tokens"}, media: "text/event-stream",
		answer: func(id, text, args string, tokens int64) (b []byte) {
			event := func(name, format string, args ...any) {
				b = fmt.Appendf(b, "event: %s\ndata: {\"type\":%q,%s}\n\n", name, name, fmt.Sprintf(format, args...))
			}
			item := `{"id":"msg_` + id + `","type":"message","role":"assistant","status":"completed","content":[{"type":"output_text","annotations":[],"text":` + quote(text) + `}]}`
			event("response.created", `"response":{"id":"resp_1","object":"response","model":"gpt-test","status":"in_progress","output":[]}`)
			event("response.output_item.added", `"output_index":0,"item":{"id":"msg_%s","type":"message","role":"assistant","content":[]}`, id)
			event("response.output_text.delta", `"item_id":"msg_%s","output_index":0,"content_index":0,"delta":%s`, id, quote(text))
			event("response.output_item.done", `"output_index":0,"item":%s`, item)
			if args != "" {
				call := `{"id":"fc_%s","type":"function_call","status":"completed","call_id":%q,"name":"look","arguments":%s}`
				event("response.output_item.added", `"output_index":1,"item":`+call, id, id, `""`)
				event("response.output_item.done", `"output_index":1,"item":`+call, id, id, quote(args))
			}
			event("response.completed", `"response":{"id":"resp_1","object":"response","model":"gpt-test","status":"completed","output":[],`+
				`"usage":{"input_tokens":%d,"output_tokens":50,"total_tokens":%d}}`, tokens, tokens+50)
			return b
		},
		refuse: func(_, _, _ int64) (int, string) {
			return http.StatusBadRequest, `{"error":{"message":"Your input exceeds the context window of this model. Please adjust your input and try again.",` +
				`"type":"invalid_request_error","param":"input","code":"context_length_exceeded"}}`
		},
	},
	{
		name: "google",
		client: func(url string, hc *http.Client) (aycoder.ModelClient, error) {
			return google.New("gemini-test", google.WithAPIKey("key"), google.WithBaseURL(url), google.WithHTTPClient(hc))
		},
		messages: "contents", limit: []string{"generationConfig.maxOutputTokens"}, media: "text/event-stream",
		answer: func(_, text, args string, tokens int64) (b []byte) {
			chunk := func(part, more string) {
				b = fmt.Appendf(b, "data: {\"candidates\": [{\"content\": {\"parts\": [%s],\"role\": \"model\"}%s,\"index\": 0}],\"usageMetadata\": "+
					"{\"promptTokenCount\": %d,\"candidatesTokenCount\": 50,\"totalTokenCount\": %d},\"modelVersion\": \"gemini-test\",\"responseId\": \"r\"}\r\n\r\n",
					part, more, tokens, tokens+50)
			}
			chunk(`{"text": `+quote(text)+`}`, "")
			if args != "" {
				chunk(`{"functionCall": {"name": "look","args": `+args+`}}`, "")
			}
			chunk(`{"text": ""}`, `,"finishReason": "STOP"`)
			return b
		},
		refuse: func(tokens, _, window int64) (int, string) {
			return http.StatusBadRequest, fmt.Sprintf(`{"error":{"code":400,"message":"The input token count (%d) exceeds the maximum number of tokens allowed (%d).",`+
				`"status":"INVALID_ARGUMENT"}}`, tokens, window)
		},
	},
	{
		name: "ollama",
		client: func(url string, hc *http.Client) (aycoder.ModelClient, error) {
			return ollama.New("llama-test", ollama.WithBaseURL(url), ollama.WithHTTPClient(hc))
		},
		messages: "messages", limit: []string{"options.num_predict"}, media: "application/x-ndjson",
		answer: func(id, text, args string, tokens int64) (b []byte) {
			line := func(message, more string) {
				b = fmt.Appendf(b, "{\"model\":\"llama-test\",\"created_at\":\"2026-01-02T03:04:05Z\",\"message\":{\"role\":\"assistant\",%s},%s}\n", message, more)
			}
			line(`"content":`+quote(text), `"done":false`)
			if args != "" {
				line(fmt.Sprintf(`"content":"","tool_calls":[{"id":%q,"function":{"index":0,"name":"look","arguments":%s}}]`, id, args), `"done":false`)
			}
			line(`"content":""`, fmt.Sprintf(`"done":true,"done_reason":"stop","prompt_eval_count":%d,"eval_count":50`, tokens))
			return b
		},
		refuse: func(_, _, _ int64) (int, string) {
			return http.StatusBadRequest, `{"error":"the input length exceeds the context length"}`
		},
	},
	{
		name: "bedrock",
		client: func(url string, hc *http.Client) (aycoder.ModelClient, error) {
			return bedrock.New("amazon.test-v1:0", bedrock.WithAPIKey("key"), bedrock.WithBaseURL(url), bedrock.WithHTTPClient(hc))
		},
		messages: "messages", limit: []string{"inferenceConfig.maxTokens"}, media: "application/vnd.amazon.eventstream",
		answer: func(id, text, args string, tokens int64) (b []byte) {
			event := func(name, format string, args ...any) {
				b = eventstream.AppendEvent(b, name, fmt.Sprintf(format, args...))
			}
			stop := "end_turn"
			event("messageStart", `{"role":"assistant"}`)
			event("contentBlockDelta", `{"contentBlockIndex":0,"delta":{"text":%s}}`, quote(text))
			event("contentBlockStop", `{"contentBlockIndex":0}`)
			if args != "" {
				stop = "tool_use"
				event("contentBlockStart", `{"contentBlockIndex":1,"start":{"toolUse":{"toolUseId":%q,"name":"look"}}}`, id)
				event("contentBlockDelta", `{"contentBlockIndex":1,"delta":{"toolUse":{"input":%s}}}`, quote(args))
				event("contentBlockStop", `{"contentBlockIndex":1}`)
			}
			event("messageStop", `{"stopReason":%q}`, stop)
			event("metadata", `{"usage":{"inputTokens":%d,"outputTokens":50,"totalTokens":%d},"metrics":{"latencyMs":5}}`, tokens, tokens+50)
			return b
		},
		refuse: func(_, _, _ int64) (int, string) {
			return http.StatusBadRequest, `{"message":"Input is too long for requested model."}`
		},
	},
}
