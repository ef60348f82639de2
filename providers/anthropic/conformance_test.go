package anthropic_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/agenttest"
	"github.com/aycoder/aycoder/providers/anthropic"
)

// wire writes the events of a stream.
type wire struct {
	b     strings.Builder
	index int
}

func (w *wire) event(name, format string, args ...any) {
	fmt.Fprintf(&w.b, "event: %s\ndata: ", name)
	fmt.Fprintf(&w.b, format+"\n\n", args...)
}

func newWire() *wire {
	w := &wire{}
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
	return w.b.String()
}

// serving returns a client of a server of its own.
func serving(t testing.TB, h http.HandlerFunc) agenttest.Client {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	tr := &http.Transport{}
	t.Cleanup(tr.CloseIdleConnections)
	c, err := anthropic.New("claude-test", anthropic.WithAPIKey("sk-test"),
		anthropic.WithBaseURL(s.URL),
		anthropic.WithHTTPClient(&http.Client{Transport: tr}))
	if err != nil {
		t.Fatal(err)
	}
	return agenttest.Client{Model: c, Idle: tr.CloseIdleConnections}
}

// answering returns a client of a server that answers with body, and then does
// what after says.
func answering(t testing.TB, body string, after func(*http.Request)) agenttest.Client {
	t.Helper()
	return serving(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		_, _ = io.WriteString(w, body)
		if after != nil {
			w.(http.Flusher).Flush()
			after(r)
		}
	})
}

func hang(r *http.Request) { <-r.Context().Done() }
func lose(*http.Request)   { panic(http.ErrAbortHandler) }

func TestConformance(t *testing.T) {
	agenttest.TestModelClient(t, agenttest.Clients{
		Text: func(t testing.TB, pieces ...string) agenttest.Client {
			w := newWire()
			w.text(pieces...)
			w.close()
			return answering(t, w.end("end_turn"), nil)
		},
		Thinking: func(t testing.TB, thinking, text string) agenttest.Client {
			w := newWire()
			w.open(`{"type":"thinking","thinking":"","signature":""}`)
			w.deltas(`{"type":"thinking_delta","thinking":%s}`, thinking)
			w.deltas(`{"type":"signature_delta","signature":%s}`, "c2lnbmVk")
			w.close()
			w.text(text)
			w.close()
			return answering(t, w.end("end_turn"), nil)
		},
		Call: func(t testing.TB, text string, c *aycoder.ToolUse) agenttest.Client {
			w := newWire()
			w.text(text)
			w.close()
			w.call(c)
			w.close()
			return answering(t, w.end("tool_use"), nil)
		},
		Cut: func(t testing.TB, c *aycoder.ToolUse) agenttest.Client {
			w := newWire()
			w.call(c)
			w.close()
			return answering(t, w.end("max_tokens"), nil)
		},
		Broken: func(t testing.TB, pieces ...string) agenttest.Client {
			w := newWire()
			w.text(pieces...)
			return answering(t, w.b.String(), lose)
		},
		Hang: func(t testing.TB, pieces ...string) agenttest.Client {
			w := newWire()
			w.text(pieces...)
			return answering(t, w.b.String(), hang)
		},
		Silent: func(t testing.TB) agenttest.Client {
			return serving(t, func(_ http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				hang(r)
			})
		},
		Refuse: func(t testing.TB) agenttest.Client {
			return serving(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(529)
				_, _ = io.WriteString(w, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`)
			})
		},
		Garbage: func(t testing.TB) agenttest.Client {
			return answering(t, "event: message_start\ndata: {\"type\":\xff\n\n\x00\x01", nil)
		},
	})
}
