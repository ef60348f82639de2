package bedrock_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/agenttest"
	"github.com/aycoder/aycoder/internal/eventstream"
	"github.com/aycoder/aycoder/providers/bedrock"
)

const testModel = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"

// wire writes the events of a stream.
type wire struct {
	b     []byte
	index int
}

func newWire() *wire {
	w := &wire{}
	w.event("messageStart", `{"role":"assistant","p":"abc"}`)
	return w
}

func (w *wire) event(name, format string, args ...any) {
	w.b = eventstream.AppendEvent(w.b, name, fmt.Sprintf(format, args...))
}

func quote(s string) string {
	data, _ := json.Marshal(s)
	return string(data)
}

func (w *wire) deltas(format string, pieces ...string) *wire {
	for _, p := range pieces {
		w.event("contentBlockDelta", `{"contentBlockIndex":%d,"delta":%s,"p":"abcdef"}`, w.index, fmt.Sprintf(format, quote(p)))
	}
	return w
}

func (w *wire) text(pieces ...string) *wire { return w.deltas(`{"text":%s}`, pieces...) }

func (w *wire) think(text, signature string) *wire {
	w.deltas(`{"reasoningContent":{"text":%s}}`, text)
	return w.deltas(`{"reasoningContent":{"signature":%s}}`, signature).close()
}

func (w *wire) call(c *aycoder.ToolUse) *wire {
	w.event("contentBlockStart", `{"contentBlockIndex":%d,"start":{"toolUse":{"toolUseId":%s,"name":%s}}}`,
		w.index, quote(c.ID), quote(c.Name))
	half := len(c.Args) / 2
	return w.deltas(`{"toolUse":{"input":%s}}`, string(c.Args[:half]), string(c.Args[half:])).close()
}

func (w *wire) close() *wire {
	w.event("contentBlockStop", `{"contentBlockIndex":%d}`, w.index)
	w.index++
	return w
}

func (w *wire) end(stop string) string {
	w.event("messageStop", `{"stopReason":%s}`, quote(stop))
	w.event("metadata", `{"usage":{"inputTokens":3,"outputTokens":7,"totalTokens":10},"metrics":{"latencyMs":5}}`)
	return string(w.b)
}

// serving returns a client with its own server.
func serving(t testing.TB, key string, h http.HandlerFunc) agenttest.Client {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if want := "/model/us.anthropic.claude-sonnet-4-5-20250929-v1%3A0/converse-stream"; r.URL.EscapedPath() != want {
			t.Errorf("path %s, want %s", r.URL.EscapedPath(), want)
		}
		if got := r.Header.Get("Authorization"); got != "Bearer "+key {
			t.Errorf("authorization %q", got)
		}
		h(w, r)
	}))
	t.Cleanup(s.Close)
	tr := &http.Transport{}
	t.Cleanup(tr.CloseIdleConnections)
	c, err := bedrock.New(testModel, bedrock.WithAPIKey(key), bedrock.WithBaseURL(s.URL),
		bedrock.WithHTTPClient(&http.Client{Transport: tr}))
	if err != nil {
		t.Fatal(err)
	}
	return agenttest.Client{Model: c, Idle: tr.CloseIdleConnections}
}

// answering returns a client of a server that answers with body, and then calls after.
func answering(t testing.TB, body string, after func(*http.Request)) agenttest.Client {
	t.Helper()
	return serving(t, "key", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/vnd.amazon.eventstream")
		_, _ = io.WriteString(w, body)
		if after != nil {
			w.(http.Flusher).Flush()
			after(r)
		}
	})
}

// refusing returns a client of a server that answers with an error.
func refusing(t testing.TB, key string, status int, kind, message string) agenttest.Client {
	t.Helper()
	return serving(t, key, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("X-Amzn-ErrorType", kind+":http://internal.amazon.com/coral/com.amazon.bedrock/")
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"message":%s}`, quote(message))
	})
}

// recording returns a client of a server that answers with body, and a function that
// returns the last request. The cache breakpoint is removed, since it does not belong to
// the prompt.
func recording(t testing.TB, body string) (agenttest.Client, func() []byte) {
	t.Helper()
	var last atomic.Value
	c := serving(t, "key", func(w http.ResponseWriter, r *http.Request) {
		sent, err := io.ReadAll(r.Body)
		if err != nil {
			t.Errorf("read request: %v", err)
		}
		mark := []byte(`,{"cachePoint":{"type":"default"}}`)
		at := bytes.LastIndex(sent, mark)
		if rest := string(sent[at+len(mark):]); rest != "]}]}" && rest != `,{"text":"tailsays"}]}]}` {
			t.Errorf("no breakpoint at the end of %s, or before the tail", sent)
		}
		last.Store(slices.Delete(sent, at, at+len(mark)))
		_, _ = io.WriteString(w, body)
	})
	return c, func() []byte { return last.Load().([]byte) }
}

func hang(r *http.Request) { <-r.Context().Done() }
func lose(*http.Request)   { panic(http.ErrAbortHandler) }

func TestConformance(t *testing.T) {
	agenttest.TestModelClient(t, agenttest.Clients{
		Text: func(t testing.TB, pieces ...string) agenttest.Client {
			return answering(t, newWire().text(pieces...).close().end("end_turn"), nil)
		},
		Thinking: func(t testing.TB, thinking, text string) agenttest.Client {
			return answering(t, newWire().think(thinking, "c2lnbmVk").text(text).close().end("end_turn"), nil)
		},
		Call: func(t testing.TB, text string, c *aycoder.ToolUse) agenttest.Client {
			return answering(t, newWire().text(text).close().call(c).end("tool_use"), nil)
		},
		Cut: func(t testing.TB, c *aycoder.ToolUse) agenttest.Client {
			return answering(t, newWire().call(c).end("max_tokens"), nil)
		},
		Refused: func(t testing.TB, text string) agenttest.Client {
			return answering(t, newWire().text(text).close().end("content_filtered"), nil)
		},
		Broken: func(t testing.TB, pieces ...string) agenttest.Client {
			return answering(t, string(newWire().text(pieces...).b), lose)
		},
		Hang: func(t testing.TB, pieces ...string) agenttest.Client {
			return answering(t, string(newWire().text(pieces...).b), hang)
		},
		Silent: func(t testing.TB) agenttest.Client {
			return serving(t, "key", func(_ http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				hang(r)
			})
		},
		Refuse: func(t testing.TB) agenttest.Client {
			return refusing(t, "key", 503, "ServiceUnavailableException", "Bedrock is unable to process your request.")
		},
		Garbage: func(t testing.TB) agenttest.Client { return answering(t, "\x00\x00\x00\x20garbage\xff\xff\xff", nil) },
		RateLimited: func(t testing.TB) agenttest.Client {
			return refusing(t, "key", 429, "ThrottlingException", "Too many requests, please wait before trying again.")
		},
		TooLarge: func(t testing.TB) agenttest.Client {
			return refusing(t, "key", 400, "ValidationException", "The model returned the following errors: Input is too long for requested model.")
		},
		NoModel: func(t testing.TB) agenttest.Client {
			return refusing(t, "key", 400, "ValidationException", "The provided model identifier is invalid.")
		},
		BadKey: func(t testing.TB, key string) agenttest.Client {
			return refusing(t, key, 403, "UnrecognizedClientException", "The security token "+key+" included in the request is invalid.")
		},
		Wire: func(t testing.TB) (agenttest.Client, func() []byte) {
			return recording(t, newWire().text("Hello").close().end("end_turn"))
		},
		Signed: func(t testing.TB, mark string, c *aycoder.ToolUse) (agenttest.Client, func() []byte) {
			return recording(t, newWire().think("Hm.", mark).call(c).end("tool_use"))
		},
	})
}
