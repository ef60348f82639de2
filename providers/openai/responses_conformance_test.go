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

// respWire writes the events of a stream.
type respWire struct {
	b     strings.Builder
	index int
}

func newRespWire() *respWire {
	w := &respWire{}
	w.event("response.created", `"response":{"id":"resp_1","object":"response","status":"in_progress","model":"gpt-test","output":[],"usage":null}`)
	w.event("response.in_progress", `"response":{"id":"resp_1","object":"response","status":"in_progress","model":"gpt-test","output":[],"usage":null}`)
	return w
}

func (w *respWire) event(typ, format string, args ...any) {
	fmt.Fprintf(&w.b, "event: %s\ndata: {\"type\":%q,%s}\n\n", typ, typ, fmt.Sprintf(format, args...))
}

func respQuote(s string) string {
	data, _ := json.Marshal(s)
	return string(data)
}

func (w *respWire) add(item string) {
	w.event("response.output_item.added", `"output_index":%d,"item":%s`, w.index, item)
}

func (w *respWire) done(item string) {
	w.event("response.output_item.done", `"output_index":%d,"item":%s`, w.index, item)
	w.index++
}

func (w *respWire) deltas(typ string, pieces ...string) {
	for _, p := range pieces {
		w.event(typ, `"item_id":"x","output_index":%d,"content_index":0,"summary_index":0,"delta":%s`, w.index, respQuote(p))
	}
}

func (w *respWire) open(pieces ...string) {
	w.add(`{"id":"msg_1","type":"message","status":"in_progress","content":[],"role":"assistant"}`)
	w.deltas("response.output_text.delta", pieces...)
}

func (w *respWire) text(pieces ...string) {
	w.open(pieces...)
	w.done(fmt.Sprintf(`{"id":"msg_1","type":"message","status":"completed","content":[{"type":"output_text","annotations":[],"text":%s}],"role":"assistant"}`,
		respQuote(strings.Join(pieces, ""))))
}

func (w *respWire) thinking(text, encrypted string) {
	w.add(`{"id":"rs_1","type":"reasoning","summary":[]}`)
	w.deltas("response.reasoning_summary_text.delta", text)
	w.done(fmt.Sprintf(`{"id":"rs_1","type":"reasoning","encrypted_content":%s,"summary":[{"type":"summary_text","text":%s}]}`,
		respQuote(encrypted), respQuote(text)))
}

func (w *respWire) call(c *aycoder.ToolUse, status string) {
	item := func(status, args string) string {
		return fmt.Sprintf(`{"id":"fc_1","type":"function_call","status":%q,"arguments":%s,"call_id":%s,"name":%s}`,
			status, respQuote(args), respQuote(c.ID), respQuote(c.Name))
	}
	w.add(item("in_progress", ""))
	half := len(c.Args) / 2
	w.deltas("response.function_call_arguments.delta", string(c.Args[:half]), string(c.Args[half:]))
	w.done(item(status, string(c.Args)))
}

func (w *respWire) end(status, details string) string {
	w.event("response."+status, `"response":{"id":"resp_1","object":"response","status":%q,"incomplete_details":%s,"model":"gpt-test","output":[],`+
		`"usage":{"input_tokens":9,"input_tokens_details":{"cached_tokens":2},"output_tokens":7,"output_tokens_details":{"reasoning_tokens":3},"total_tokens":16}}`, status, details)
	return w.b.String()
}

// respServer returns a client with its own server.
func respServer(t testing.TB, key string, h http.HandlerFunc) agenttest.Client {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/responses" {
			http.Error(w, "no such path: "+r.URL.Path, http.StatusNotFound)
			return
		}
		h(w, r)
	}))
	t.Cleanup(s.Close)
	tr := &http.Transport{}
	t.Cleanup(tr.CloseIdleConnections)
	c, err := openai.New("gpt-test", openai.WithResponses(true), openai.WithAPIKey(key), openai.WithBaseURL(s.URL),
		openai.WithHTTPClient(&http.Client{Transport: tr}))
	if err != nil {
		t.Fatal(err)
	}
	return agenttest.Client{Model: c, Idle: tr.CloseIdleConnections}
}

// respAnswer returns a client of a server that answers with body, and then calls after.
func respAnswer(t testing.TB, body string, after func(*http.Request)) agenttest.Client {
	t.Helper()
	return respServer(t, "sk-test", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		_, _ = io.WriteString(w, body)
		if after != nil {
			w.(http.Flusher).Flush()
			after(r)
		}
	})
}

// respKept is respAnswer, with a function that returns the body of the last request.
func respKept(t testing.TB, body string) (agenttest.Client, func() []byte) {
	t.Helper()
	var last atomic.Pointer[[]byte]
	c := respServer(t, "sk-test", func(w http.ResponseWriter, r *http.Request) {
		data, _ := io.ReadAll(r.Body)
		last.Store(&data)
		_, _ = io.WriteString(w, body)
	})
	return c, func() []byte { return *last.Load() }
}

// respRefuse returns a client of a server that answers with an error.
func respRefuse(t testing.TB, key string, status int, body string, header ...string) agenttest.Client {
	t.Helper()
	return respServer(t, key, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	})
}

func respHang(r *http.Request) { <-r.Context().Done() }

func TestResponsesConformance(t *testing.T) {
	agenttest.TestModelClient(t, agenttest.Clients{
		Text: func(t testing.TB, pieces ...string) agenttest.Client {
			w := newRespWire()
			w.text(pieces...)
			return respAnswer(t, w.end("completed", "null"), nil)
		},
		Thinking: func(t testing.TB, thinking, text string) agenttest.Client {
			w := newRespWire()
			w.thinking(thinking, "gAAAAA")
			w.text(text)
			return respAnswer(t, w.end("completed", "null"), nil)
		},
		Call: func(t testing.TB, text string, c *aycoder.ToolUse) agenttest.Client {
			w := newRespWire()
			w.text(text)
			w.call(c, "completed")
			return respAnswer(t, w.end("completed", "null"), nil)
		},
		Cut: func(t testing.TB, c *aycoder.ToolUse) agenttest.Client {
			w := newRespWire()
			w.call(c, "incomplete")
			return respAnswer(t, w.end("incomplete", `{"reason":"max_output_tokens"}`), nil)
		},
		Refused: func(t testing.TB, text string) agenttest.Client {
			w := newRespWire()
			w.text(text)
			return respAnswer(t, w.end("incomplete", `{"reason":"content_filter"}`), nil)
		},
		Broken: func(t testing.TB, pieces ...string) agenttest.Client {
			w := newRespWire()
			w.open(pieces...)
			return respAnswer(t, w.b.String(), func(*http.Request) { panic(http.ErrAbortHandler) })
		},
		Hang: func(t testing.TB, pieces ...string) agenttest.Client {
			w := newRespWire()
			w.open(pieces...)
			return respAnswer(t, w.b.String(), respHang)
		},
		Silent: func(t testing.TB) agenttest.Client {
			return respServer(t, "sk-test", func(_ http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				respHang(r)
			})
		},
		Refuse: func(t testing.TB) agenttest.Client {
			return respRefuse(t, "sk-test", http.StatusServiceUnavailable, `{"error":{"message":"The server is overloaded","type":"server_error","param":null,"code":null}}`)
		},
		Garbage: func(t testing.TB) agenttest.Client {
			return respAnswer(t, "event: response.created\ndata: {\"type\":\xff\n\n\x00\x01", nil)
		},
		RateLimited: func(t testing.TB) agenttest.Client {
			return respRefuse(t, "sk-test", http.StatusTooManyRequests,
				`{"error":{"message":"Rate limit reached for gpt-test on requests per min (RPM): Limit 3, Used 3, Requested 1. Please try again in 7s.","type":"requests","param":null,"code":"rate_limit_exceeded"}}`,
				"Retry-After", "7")
		},
		TooLarge: func(t testing.TB) agenttest.Client {
			return respRefuse(t, "sk-test", http.StatusBadRequest,
				`{"error":{"message":"Your input exceeds the context window of this model. Please adjust your input and try again.","type":"invalid_request_error","param":"input","code":"context_length_exceeded"}}`)
		},
		NoModel: func(t testing.TB) agenttest.Client {
			return respRefuse(t, "sk-test", http.StatusBadRequest,
				`{"error":{"message":"The requested model 'gpt-test' does not exist.","type":"invalid_request_error","param":"model","code":"model_not_found"}}`)
		},
		BadKey: func(t testing.TB, key string) agenttest.Client {
			return respRefuse(t, key, http.StatusUnauthorized,
				`{"error":{"message":"Incorrect API key provided: `+key+`.","type":"invalid_request_error","param":null,"code":"invalid_api_key"}}`)
		},
		Wire: func(t testing.TB) (agenttest.Client, func() []byte) {
			w := newRespWire()
			w.text("Hello")
			return respKept(t, w.end("completed", "null"))
		},
		Signed: func(t testing.TB, mark string, c *aycoder.ToolUse) (agenttest.Client, func() []byte) {
			w := newRespWire()
			w.thinking("Hm.", mark)
			w.call(c, "completed")
			return respKept(t, w.end("completed", "null"))
		},
	})
}
