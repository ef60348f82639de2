package acme

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/agenttest"
)

// serve returns a client of a test server.
func serve(t testing.TB, key string, handler http.HandlerFunc) agenttest.Client {
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	client := New(server.URL, "acme-1", key, &http.Client{Transport: transport})
	return agenttest.Client{Model: client, Idle: transport.CloseIdleConnections}
}

// answer returns a client whose server sends the events, and then calls after.
func answer(t testing.TB, events string, after func(*http.Request)) agenttest.Client {
	return serve(t, "", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, events)
		w.(http.Flusher).Flush()
		if after != nil {
			after(r)
		}
	})
}

// fail returns a client whose server refuses each request.
func fail(t testing.TB, key string, status int, code, message string) agenttest.Client {
	return serve(t, key, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(map[string]string{"code": code, "message": message})
	})
}

// event encodes one event of the service.
func event(name string, value any) string {
	data, err := json.Marshal(map[string]any{name: value})
	if err != nil {
		panic(err)
	}
	return "data: " + string(data) + "\n\n"
}

func text(pieces ...string) string {
	var b strings.Builder
	for _, p := range pieces {
		b.WriteString(event("text", p))
	}
	return b.String()
}

// call sends the arguments in two pieces.
func call(c *aycoder.ToolUse) string {
	half := len(c.Args) / 2
	return event("call", wireCall{c.ID, c.Name, string(c.Args[:half])}) +
		event("call", wireCall{ID: c.ID, Args: string(c.Args[half:])})
}

func done(stop string) string {
	return event("done", map[string]any{"stop": stop, "input": 12, "output": 3})
}

// keep returns a client whose server sends the events and keeps the body of the last request.
func keep(t testing.TB, events string) (agenttest.Client, func() []byte) {
	var mu sync.Mutex
	var last []byte
	c := serve(t, "", func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		last, _ = io.ReadAll(r.Body)
		_, _ = io.WriteString(w, events)
	})
	return c, func() []byte {
		mu.Lock()
		defer mu.Unlock()
		return last
	}
}

func lose(*http.Request)   { panic(http.ErrAbortHandler) }
func hang(r *http.Request) { <-r.Context().Done() }

func TestConformance(t *testing.T) {
	agenttest.TestModelClient(t, agenttest.Clients{
		Text: func(t testing.TB, pieces ...string) agenttest.Client {
			return answer(t, text(pieces...)+done("end"), nil)
		},
		Thinking: func(t testing.TB, thinking, said string) agenttest.Client {
			return answer(t, event("thinking", thinking)+event("signature", "c2ln")+text(said)+done("end"), nil)
		},
		Call: func(t testing.TB, said string, c *aycoder.ToolUse) agenttest.Client {
			return answer(t, text(said)+call(c)+done("call"), nil)
		},
		Cut: func(t testing.TB, c *aycoder.ToolUse) agenttest.Client {
			return answer(t, call(c)+done("length"), nil)
		},
		Broken: func(t testing.TB, pieces ...string) agenttest.Client { return answer(t, text(pieces...), lose) },
		Hang:   func(t testing.TB, pieces ...string) agenttest.Client { return answer(t, text(pieces...), hang) },
		Silent: func(t testing.TB) agenttest.Client {
			return serve(t, "", func(_ http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body) // else the server does not see that the client leaves
				hang(r)
			})
		},
		Refuse:      func(t testing.TB) agenttest.Client { return fail(t, "", 503, "busy", "try later") },
		Garbage:     func(t testing.TB) agenttest.Client { return answer(t, "data: {\xff\n\n", nil) },
		RateLimited: func(t testing.TB) agenttest.Client { return fail(t, "", 429, "rate", "slow down") },
		TooLarge: func(t testing.TB) agenttest.Client {
			return fail(t, "", 400, "context_too_large", "too many tokens")
		},
		NoModel: func(t testing.TB) agenttest.Client { return fail(t, "", 404, "model", "no such model") },
		BadKey: func(t testing.TB, key string) agenttest.Client {
			return fail(t, key, 401, "key", "no such key: "+key)
		},
		Wire: func(t testing.TB) (agenttest.Client, func() []byte) {
			return keep(t, text("Hello")+done("end"))
		},
		Signed: func(t testing.TB, mark string, c *aycoder.ToolUse) (agenttest.Client, func() []byte) {
			return keep(t, event("thinking", "Hm.")+event("signature", mark)+call(c)+done("call"))
		},
	})
}
