package anthropic_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/agenttest"
	"github.com/aycoder/aycoder/internal/eventstream"
	"github.com/aycoder/aycoder/providers/anthropic"
)

// A dialect is the variant of the API at one host.
type dialect struct {
	model   string
	opts    []anthropic.Option
	path    string // of requests
	frame   func(b []byte, name, data string) []byte
	media   string
	noModel string // the answer to a request for an unknown model
	mark    string // of the moving cache breakpoint
}

func sseFrame(b []byte, name, data string) []byte {
	return fmt.Appendf(b, "event: %s\ndata: %s\n\n", name, data)
}

func chunkFrame(b []byte, _, data string) []byte {
	payload := fmt.Sprintf(`{"bytes":%q,"p":"abcd"}`, base64.StdEncoding.EncodeToString([]byte(data)))
	return eventstream.AppendEvent(b, "chunk", payload)
}

func token(context.Context) (string, error) { return "ya29.token", nil }

func dialects() map[string]dialect {
	const mark = `,"cache_control":{"type":"ephemeral"}}]}]}`
	return map[string]dialect{
		"anthropic": {"claude-test", nil, "/v1/messages", sseFrame, "text/event-stream; charset=utf-8",
			`{"type":"error","error":{"type":"not_found_error","message":"model: claude-test"}}`, ""},
		"vertex": {"claude-test@1", []anthropic.Option{anthropic.WithVertex("p", "europe-west1"), anthropic.WithTokenSource(token)},
			"/v1/projects/p/locations/europe-west1/publishers/anthropic/models/claude-test@1:streamRawPredict",
			sseFrame, "text/event-stream", `{"error":{"code":404,"status":"NOT_FOUND",
			"message":"Publisher Model projects/p/locations/europe-west1/publishers/anthropic/models/x was not found"}}`, mark},
		"bedrock": {"us.anthropic.claude-sonnet-4-5-v1:0", []anthropic.Option{anthropic.WithBedrock("us-east-1")},
			"/model/us.anthropic.claude-sonnet-4-5-v1%3A0/invoke-with-response-stream", chunkFrame,
			"application/vnd.amazon.eventstream", `{"message":"The provided model identifier is invalid."}`, mark},
	}
}

// wire writes the events of a stream.
type wire struct {
	b     []byte
	frame func(b []byte, name, data string) []byte
	index int
}

func (w *wire) event(name, format string, args ...any) {
	w.b = w.frame(w.b, name, fmt.Sprintf(format, args...))
}

func (d *dialect) wire() *wire {
	w := &wire{frame: d.frame}
	w.event("message_start", `{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"claude-test","content":[],"stop_reason":null,"usage":{"input_tokens":3,"output_tokens":1}}}`)
	w.event("ping", `{"type": "ping"}`)
	return w
}

func quote(s string) string {
	data, _ := json.Marshal(s)
	return string(data)
}

func (w *wire) open(block string) {
	w.event("content_block_start", `{"type":"content_block_start","index":%d,"content_block":%s}`,
		w.index, block)
}

func (w *wire) deltas(format string, pieces ...string) {
	for _, p := range pieces {
		w.event("content_block_delta", `{"type":"content_block_delta","index":%d,"delta":%s}`, w.index,
			fmt.Sprintf(format, quote(p)))
	}
}

func (w *wire) close() {
	w.event("content_block_stop", `{"type":"content_block_stop","index":%d}`, w.index)
	w.index++
}

func (w *wire) text(pieces ...string) {
	w.open(`{"type":"text","text":""}`)
	w.deltas(`{"type":"text_delta","text":%s}`, pieces...)
}

func (w *wire) think(text, signature string) {
	w.open(`{"type":"thinking","thinking":"","signature":""}`)
	w.deltas(`{"type":"thinking_delta","thinking":%s}`, text)
	w.deltas(`{"type":"signature_delta","signature":%s}`, signature)
	w.close()
}

func (w *wire) call(c *aycoder.ToolUse) {
	w.open(fmt.Sprintf(`{"type":"tool_use","id":%s,"name":%s,"input":{}}`, quote(c.ID),
		quote(c.Name)))
	half := len(c.Args) / 2
	w.deltas(`{"type":"input_json_delta","partial_json":%s}`, string(c.Args[:half]),
		string(c.Args[half:]))
}

func (w *wire) end(stop string) string {
	w.event("message_delta", `{"type":"message_delta","delta":{"stop_reason":%s,"stop_sequence":null},"usage":{"output_tokens":7}}`, quote(stop))
	w.event("message_stop", `{"type":"message_stop"}`)
	return string(w.b)
}

// serving returns a client with its own server.
func (d *dialect) serving(t testing.TB, h http.HandlerFunc, opts ...anthropic.Option) agenttest.Client {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet { // the list of models
			w.WriteHeader(http.StatusNotFound)
			return
		}
		if r.URL.EscapedPath() != d.path {
			t.Errorf("path %s, want %s", r.URL.EscapedPath(), d.path)
		}
		h(w, r)
	}))
	t.Cleanup(s.Close)
	tr := &http.Transport{}
	t.Cleanup(tr.CloseIdleConnections)
	all := append([]anthropic.Option{anthropic.WithAPIKey("sk-test"), anthropic.WithBaseURL(s.URL),
		anthropic.WithHTTPClient(&http.Client{Transport: tr})}, d.opts...)
	c, err := anthropic.New(d.model, append(all, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	return agenttest.Client{Model: c, Idle: tr.CloseIdleConnections}
}

// answering returns a client of a server that answers with body, and then calls after.
func (d *dialect) answering(t testing.TB, body string, after func(*http.Request)) agenttest.Client {
	t.Helper()
	return d.serving(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", d.media)
		_, _ = io.WriteString(w, body)
		if after != nil {
			w.(http.Flusher).Flush()
			after(r)
		}
	})
}

// refusing returns a client of a server that answers with an error.
func (d *dialect) refusing(t testing.TB, status int, body string, h map[string]string, opts ...anthropic.Option) agenttest.Client {
	t.Helper()
	return d.serving(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for k, v := range h {
			w.Header().Set(k, v)
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}, opts...)
}

// recording returns a client of a server that answers with body, and a function that
// returns the last request. The cache breakpoint is removed, since it does not belong to
// the prompt.
func (d *dialect) recording(t testing.TB, body string) (agenttest.Client, func() []byte) {
	t.Helper()
	var last atomic.Value
	c := d.serving(t, func(w http.ResponseWriter, r *http.Request) {
		sent, err := io.ReadAll(r.Body)
		if err != nil {
			t.Errorf("read request: %v", err)
		}
		if rest, ok := bytes.CutSuffix(sent, []byte(d.mark)); ok && d.mark != "" {
			sent = append(rest, "}]}]}"...)
		}
		last.Store(sent)
		w.Header().Set("Content-Type", d.media)
		_, _ = io.WriteString(w, body)
	})
	return c, func() []byte { return last.Load().([]byte) }
}

func hang(r *http.Request) { <-r.Context().Done() }
func lose(*http.Request)   { panic(http.ErrAbortHandler) }

func apiError(kind, message string) string {
	return fmt.Sprintf(`{"type":"error","error":{"type":%q,"message":%q}}`, kind, message)
}

func TestConformance(t *testing.T) {
	for name, d := range dialects() {
		t.Run(name, func(t *testing.T) { agenttest.TestModelClient(t, d.clients()) })
	}
}

func (d *dialect) clients() agenttest.Clients {
	texts := func(pieces ...string) *wire {
		w := d.wire()
		w.text(pieces...)
		return w
	}
	called := func(mark string, c *aycoder.ToolUse) string {
		w := d.wire()
		w.think("Hm.", mark)
		w.call(c)
		w.close()
		return w.end("tool_use")
	}
	return agenttest.Clients{
		Text: func(t testing.TB, pieces ...string) agenttest.Client {
			w := texts(pieces...)
			w.close()
			return d.answering(t, w.end("end_turn"), nil)
		},
		Thinking: func(t testing.TB, thinking, text string) agenttest.Client {
			w := d.wire()
			w.think(thinking, "c2lnbmVk")
			w.text(text)
			w.close()
			return d.answering(t, w.end("end_turn"), nil)
		},
		Call: func(t testing.TB, text string, c *aycoder.ToolUse) agenttest.Client {
			w := texts(text)
			w.close()
			w.call(c)
			w.close()
			return d.answering(t, w.end("tool_use"), nil)
		},
		Cut: func(t testing.TB, c *aycoder.ToolUse) agenttest.Client {
			w := d.wire()
			w.call(c)
			w.close()
			return d.answering(t, w.end("max_tokens"), nil)
		},
		Refused: func(t testing.TB, text string) agenttest.Client {
			w := texts(text)
			w.close()
			return d.answering(t, w.end("refusal"), nil)
		},
		Broken: func(t testing.TB, pieces ...string) agenttest.Client {
			return d.answering(t, string(texts(pieces...).b), lose)
		},
		Hang: func(t testing.TB, pieces ...string) agenttest.Client {
			return d.answering(t, string(texts(pieces...).b), hang)
		},
		Silent: func(t testing.TB) agenttest.Client {
			return d.serving(t, func(_ http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				hang(r)
			})
		},
		Refuse: func(t testing.TB) agenttest.Client {
			return d.refusing(t, 529, apiError("overloaded_error", "Overloaded"), nil)
		},
		Garbage: func(t testing.TB) agenttest.Client {
			return d.answering(t, "event: message_start\ndata: {\"type\":\xff\n\n\x00\x01", nil)
		},
		RateLimited: func(t testing.TB) agenttest.Client {
			return d.refusing(t, 429, apiError("rate_limit_error", "slow down"), map[string]string{"Retry-After": "7"})
		},
		TooLarge: func(t testing.TB) agenttest.Client {
			return d.refusing(t, 400, apiError("invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"), nil)
		},
		NoModel: func(t testing.TB) agenttest.Client { return d.refusing(t, 404, d.noModel, nil) },
		BadKey: func(t testing.TB, key string) agenttest.Client {
			tok := func(context.Context) (string, error) { return key, nil }
			own := map[bool]anthropic.Option{true: anthropic.WithTokenSource(tok), false: anthropic.WithAPIKey(key)}
			return d.refusing(t, 401, apiError("authentication_error", "invalid key "+key), nil, own[len(d.opts) == 2])
		},
		Wire: func(t testing.TB) (agenttest.Client, func() []byte) {
			w := texts("Hello")
			w.close()
			return d.recording(t, w.end("end_turn"))
		},
		Signed: func(t testing.TB, mark string, c *aycoder.ToolUse) (agenttest.Client, func() []byte) {
			return d.recording(t, called(mark, c))
		},
	}
}
