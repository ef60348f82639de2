package ollama_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/agenttest"
	"github.com/aycoder/aycoder/providers/ollama"
)

func quote(s string) string {
	data, _ := json.Marshal(s)
	return string(data)
}

// said returns a line for each piece, in the given field.
func said(field string, pieces ...string) string {
	var b strings.Builder
	for _, p := range pieces {
		extra := ""
		if field != "content" {
			extra = `,"content":""`
		}
		fmt.Fprintf(&b, `{"model":"m","created_at":"2026-01-02T03:04:05Z","message":{"role":"assistant",%s:%s%s},"done":false}`+"\n",
			quote(field), quote(p), extra)
	}
	return b.String()
}

// calls returns a line with a call whose arguments are args.
func calls(c *aycoder.ToolUse, args string) string {
	return fmt.Sprintf(`{"model":"m","message":{"role":"assistant","content":"","tool_calls":[{"id":%s,"function":{"index":0,"name":%s,"arguments":%s}}]},"done":false}`+"\n",
		quote(c.ID), quote(c.Name), args)
}

// serving returns a client with its own server.
func serving(t testing.TB, h http.HandlerFunc, opts ...ollama.Option) agenttest.Client {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	tr := &http.Transport{}
	t.Cleanup(tr.CloseIdleConnections)
	c, err := ollama.New("qwen3:8b", append([]ollama.Option{ollama.WithBaseURL(s.URL),
		ollama.WithHTTPClient(&http.Client{Transport: tr})}, opts...)...)
	require.NoError(t, err)
	return agenttest.Client{Model: c, Idle: tr.CloseIdleConnections}
}

// answering returns a client of a server that answers with body, and then calls after.
func answering(t testing.TB, body string, after func(*http.Request)) agenttest.Client {
	t.Helper()
	return serving(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/x-ndjson")
		_, _ = io.WriteString(w, body)
		if after != nil {
			w.(http.Flusher).Flush()
			after(r)
		}
	})
}

// failing returns a client of a server that answers with an error.
func failing(t testing.TB, status int, text string, opts ...ollama.Option) agenttest.Client {
	t.Helper()
	return serving(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/api/tags" {
			_, _ = io.WriteString(w, `{"models":[{"name":"qwen3:4b","model":"qwen3:4b"}]}`)
			return
		}
		if status == http.StatusTooManyRequests {
			w.Header().Set("Retry-After", "7")
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, `{"error":`+quote(text)+`}`)
	}, opts...)
}

// keeping returns a client of a server that answers with body and records the last
// request.
func keeping(t testing.TB, body string) (agenttest.Client, func() []byte) {
	t.Helper()
	var mu sync.Mutex
	var last []byte
	c := serving(t, func(w http.ResponseWriter, r *http.Request) {
		data, _ := io.ReadAll(r.Body)
		mu.Lock()
		last = data
		mu.Unlock()
		_, _ = io.WriteString(w, body)
	})
	return c, func() []byte {
		mu.Lock()
		defer mu.Unlock()
		return last
	}
}

func hang(r *http.Request) { <-r.Context().Done() }
func lose(*http.Request)   { panic(http.ErrAbortHandler) }

func TestConformance(t *testing.T) {
	agenttest.TestModelClient(t, agenttest.Clients{
		Text: func(t testing.TB, pieces ...string) agenttest.Client {
			return answering(t, said("content", pieces...)+done, nil)
		},
		Thinking: func(t testing.TB, thinking, text string) agenttest.Client {
			return answering(t, said("thinking", thinking)+said("content", text)+done, nil)
		},
		Call: func(t testing.TB, text string, c *aycoder.ToolUse) agenttest.Client {
			return answering(t, said("content", text)+calls(c, string(c.Args))+done, nil)
		},
		// Ollama itself sends only complete calls; servers that imitate it send a string.
		Cut: func(t testing.TB, c *aycoder.ToolUse) agenttest.Client {
			return answering(t, calls(c, quote(string(c.Args)))+
				strings.Replace(done, `"stop"`, `"length"`, 1), nil)
		},
		Broken: func(t testing.TB, pieces ...string) agenttest.Client {
			return answering(t, said("content", pieces...), lose)
		},
		Hang: func(t testing.TB, pieces ...string) agenttest.Client {
			return answering(t, said("content", pieces...), hang)
		},
		Silent: func(t testing.TB) agenttest.Client {
			return serving(t, func(_ http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				hang(r)
			})
		},
		Refuse: func(t testing.TB) agenttest.Client {
			return failing(t, 503, "server busy, please try again.  maximum pending requests exceeded")
		},
		Garbage: func(t testing.TB) agenttest.Client {
			return answering(t, "{\"message\":\xff}\n\x00\x01\n", nil)
		},
		RateLimited: func(t testing.TB) agenttest.Client {
			return failing(t, 429, "you have reached your hourly usage limit")
		},
		TooLarge: func(t testing.TB) agenttest.Client {
			return failing(t, 400, "the input length exceeds the context length")
		},
		NoModel: func(t testing.TB) agenttest.Client { return failing(t, 404, "model 'qwen3:8b' not found") },
		BadKey: func(t testing.TB, key string) agenttest.Client {
			return failing(t, 401, "unauthorized: no such key "+key, ollama.WithAPIKey(key))
		},
		Wire: func(t testing.TB) (agenttest.Client, func() []byte) { return keeping(t, said("content", "Hello")+done) },
		Signed: func(t testing.TB, mark string, c *aycoder.ToolUse) (agenttest.Client, func() []byte) {
			return keeping(t, said("thinking", mark)+calls(c, string(c.Args))+done)
		},
	})
}
