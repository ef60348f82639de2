package openai_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/agenttest"
	"github.com/aycoder/aycoder/providers/openai"
)

// chatStream writes the chunks of a stream.
type chatStream struct{ b strings.Builder }

func chatQuote(s string) string {
	data, _ := json.Marshal(s)
	return string(data)
}

// delta writes a chunk whose delta has these string fields.
func (w *chatStream) delta(format string, args ...string) {
	quoted := make([]any, len(args))
	for i, a := range args {
		quoted[i] = chatQuote(a)
	}
	fmt.Fprintf(&w.b, `data: {"id":"chatcmpl-1","model":"gpt-test","choices":[{"index":0,"delta":%s,"finish_reason":null}]}`+"\n\n",
		fmt.Sprintf(format, quoted...))
}

func (w *chatStream) text(pieces ...string) {
	for _, p := range pieces {
		w.delta(`{"content":%s}`, p)
	}
}

func (w *chatStream) call(c *aycoder.ToolUse) {
	half := len(c.Args) / 2
	w.delta(`{"tool_calls":[{"index":0,"id":%s,"type":"function","function":{"name":%s,"arguments":""}}]}`, c.ID, c.Name)
	w.delta(`{"tool_calls":[{"index":0,"function":{"arguments":%s}}]}`, string(c.Args[:half]))
	w.delta(`{"tool_calls":[{"index":0,"function":{"arguments":%s}}]}`, string(c.Args[half:]))
}

func (w *chatStream) end(finish string) string {
	fmt.Fprintf(&w.b, `data: {"id":"chatcmpl-1","model":"gpt-test","choices":[{"index":0,"delta":{},"finish_reason":%q}]}`+"\n\n", finish)
	w.b.WriteString(`data: {"id":"chatcmpl-1","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":7,"total_tokens":10}}` + "\n\n")
	w.b.WriteString("data: [DONE]\n\n")
	return w.b.String()
}

// chatServing returns a client with its own server.
func chatServing(t testing.TB, h http.HandlerFunc) agenttest.Client {
	t.Helper()
	return chatKeyed(t, "sk-test", h)
}

func chatKeyed(t testing.TB, key string, h http.HandlerFunc) agenttest.Client {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	tr := &http.Transport{}
	t.Cleanup(tr.CloseIdleConnections)
	c, err := openai.New("gpt-test", openai.WithAPIKey(key), openai.WithBaseURL(s.URL),
		openai.WithHTTPClient(&http.Client{Transport: tr}))
	if err != nil {
		t.Fatal(err)
	}
	return agenttest.Client{Model: c, Idle: tr.CloseIdleConnections}
}

// chatAnswering returns a client of a server that answers with body, and then calls
// after.
func chatAnswering(t testing.TB, body string, after func(*http.Request)) agenttest.Client {
	t.Helper()
	return chatServing(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		_, _ = io.WriteString(w, body)
		if after != nil {
			w.(http.Flusher).Flush()
			after(r)
		}
	})
}

// chatRefusing returns a client of a server that answers with an error.
func chatRefusing(t testing.TB, key string, status int, body string, header ...string) agenttest.Client {
	t.Helper()
	return chatKeyed(t, key, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	})
}

// chatWatched returns a client of a server that records the body of the last request.
func chatWatched(t testing.TB, answer string) (agenttest.Client, func() []byte) {
	t.Helper()
	var last atomic.Pointer[[]byte]
	c := chatServing(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		last.Store(&body)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, answer)
	})
	return c, func() []byte { return *last.Load() }
}

func chatHang(r *http.Request) { <-r.Context().Done() }
func chatLose(*http.Request)   { panic(http.ErrAbortHandler) }

func TestChatConformance(t *testing.T) {
	agenttest.TestModelClient(t, agenttest.Clients{
		Text: func(t testing.TB, pieces ...string) agenttest.Client {
			w := &chatStream{}
			w.delta(`{"role":"assistant","content":""}`)
			w.text(pieces...)
			return chatAnswering(t, w.end("stop"), nil)
		},
		Thinking: func(t testing.TB, thinking, text string) agenttest.Client {
			w := &chatStream{}
			w.delta(`{"role":"assistant","reasoning_content":%s}`, thinking)
			w.text(text)
			return chatAnswering(t, w.end("stop"), nil)
		},
		Call: func(t testing.TB, text string, c *aycoder.ToolUse) agenttest.Client {
			w := &chatStream{}
			w.text(text)
			w.call(c)
			return chatAnswering(t, w.end("tool_calls"), nil)
		},
		Cut: func(t testing.TB, c *aycoder.ToolUse) agenttest.Client {
			w := &chatStream{}
			w.call(c)
			return chatAnswering(t, w.end("length"), nil)
		},
		Refused: func(t testing.TB, text string) agenttest.Client {
			w := &chatStream{}
			w.text(text)
			return chatAnswering(t, w.end("content_filter"), nil)
		},
		Broken: func(t testing.TB, pieces ...string) agenttest.Client {
			w := &chatStream{}
			w.text(pieces...)
			return chatAnswering(t, w.b.String(), chatLose)
		},
		Hang: func(t testing.TB, pieces ...string) agenttest.Client {
			w := &chatStream{}
			w.text(pieces...)
			return chatAnswering(t, w.b.String(), chatHang)
		},
		Silent: func(t testing.TB) agenttest.Client {
			return chatServing(t, func(_ http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				chatHang(r)
			})
		},
		Refuse: func(t testing.TB) agenttest.Client {
			return chatRefusing(t, "sk-test", http.StatusServiceUnavailable,
				`{"error":{"message":"The server is overloaded","type":"server_error"}}`)
		},
		RateLimited: func(t testing.TB) agenttest.Client {
			return chatRefusing(t, "sk-test", http.StatusTooManyRequests, `{"error":{"message":"Rate limit reached for gpt-test `+
				`on tokens per min (TPM): Limit 30000, Used 29421, Requested 1206. Please try again in 7s.","type":"tokens",`+
				`"param":null,"code":"rate_limit_exceeded"}}`, "Retry-After", "7")
		},
		TooLarge: func(t testing.TB) agenttest.Client {
			return chatRefusing(t, "sk-test", http.StatusBadRequest, `{"error":{"message":"This model's maximum context length is `+
				`128000 tokens. However, your messages resulted in 150000 tokens. Please reduce the length of the messages.",`+
				`"type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}`)
		},
		NoModel: func(t testing.TB) agenttest.Client {
			return chatRefusing(t, "sk-test", http.StatusNotFound, `{"error":{"message":"The model gpt-test does not exist or you `+
				`do not have access to it.","type":"invalid_request_error","param":null,"code":"model_not_found"}}`)
		},
		BadKey: func(t testing.TB, key string) agenttest.Client {
			return chatRefusing(t, key, http.StatusUnauthorized, `{"error":{"message":"Incorrect API key provided: `+key+
				`.","type":"invalid_request_error","param":null,"code":"invalid_api_key"}}`)
		},
		Wire: func(t testing.TB) (agenttest.Client, func() []byte) {
			w := &chatStream{}
			w.text("Hel", "lo")
			return chatWatched(t, w.end("stop"))
		},
		Signed: func(t testing.TB, mark string, c *aycoder.ToolUse) (agenttest.Client, func() []byte) {
			w := &chatStream{}
			w.delta(`{"reasoning":%s,"reasoning_details":[{"type":"reasoning.text","text":%s,"index":0}]}`, "Hm.", "Hm.")
			w.delta(`{"reasoning_details":[{"type":"reasoning.text","signature":%s,"index":0}]}`, mark)
			w.call(c)
			return chatWatched(t, w.end("tool_calls"))
		},
		Garbage: func(t testing.TB) agenttest.Client {
			return chatAnswering(t, "data: {\"choices\":\xff\n\n\x00\x01", nil)
		},
	})
}
