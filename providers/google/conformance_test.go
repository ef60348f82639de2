package google_test

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
	"github.com/aycoder/aycoder/providers/google"
)

// wire writes the events of a stream.
type wire struct{ b strings.Builder }

func (w *wire) event(candidate string) *wire {
	fmt.Fprintf(&w.b, "data: {\"candidates\": [%s],\"usageMetadata\": {\"promptTokenCount\": 3,\"totalTokenCount\": 3},"+
		"\"modelVersion\": \"gemini-test\",\"responseId\": \"r1\"}\r\n\r\n", candidate)
	return w
}

func (w *wire) part(format string, args ...any) *wire {
	part := fmt.Sprintf(format, args...)
	return w.event(fmt.Sprintf(`{"content": {"parts": [%s],"role": "model"},"index": 0}`, part))
}

func (w *wire) texts(pieces ...string) *wire {
	for _, p := range pieces {
		w.part(`{"text": %s}`, quote(p))
	}
	return w
}

func (w *wire) end(reason string) string {
	w.event(fmt.Sprintf(`{"finishReason": %q,"index": 0}`, reason))
	return w.b.String()
}

func quote(s string) string {
	data, _ := json.Marshal(s)
	return string(data)
}

// serving returns a client with its own server.
func serving(t testing.TB, h http.HandlerFunc) agenttest.Client {
	t.Helper()
	return servingKey(t, "test-key", h)
}

func servingKey(t testing.TB, key string, h http.HandlerFunc) agenttest.Client {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	tr := &http.Transport{}
	t.Cleanup(tr.CloseIdleConnections)
	c, err := google.New("gemini-3-test", google.WithAPIKey(key), google.WithBaseURL(s.URL),
		google.WithHTTPClient(&http.Client{Transport: tr}))
	if err != nil {
		t.Fatal(err)
	}
	return agenttest.Client{Model: c, Idle: tr.CloseIdleConnections}
}

// answering returns a client of a server that answers with body, and then calls after.
func answering(t testing.TB, body string, after func(*http.Request)) agenttest.Client {
	t.Helper()
	return serving(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, body)
		if after != nil {
			w.(http.Flusher).Flush()
			after(r)
		}
	})
}

// refusing returns a client of a server that answers with an error.
func refusing(t testing.TB, key string, status int, body string) agenttest.Client {
	t.Helper()
	return servingKey(t, key, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json; charset=UTF-8")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	})
}

// watched is answering, and returns the body of the last request.
func watched(t testing.TB, answer string) (agenttest.Client, func() []byte) {
	t.Helper()
	var last atomic.Pointer[[]byte]
	c := serving(t, func(w http.ResponseWriter, r *http.Request) {
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

func hang(r *http.Request) { <-r.Context().Done() }
func lose(*http.Request)   { panic(http.ErrAbortHandler) }

func TestConformance(t *testing.T) {
	agenttest.TestModelClient(t, agenttest.Clients{
		Text: func(t testing.TB, pieces ...string) agenttest.Client {
			return answering(t, new(wire).texts(pieces...).end("STOP"), nil)
		},
		Thinking: func(t testing.TB, thinking, text string) agenttest.Client {
			w := new(wire).part(`{"text": %s,"thought": true}`, quote(thinking))
			return answering(t, w.texts(text).part(`{"text": "","thoughtSignature": "c2lnbmVk"}`).end("STOP"), nil)
		},
		Call: func(t testing.TB, text string, c *aycoder.ToolUse) agenttest.Client {
			w := new(wire).texts(text)
			w.part(`{"functionCall": {"id": %q,"name": %q,"args": %s},"thoughtSignature": "c2lnbmVk"}`, c.ID, c.Name, c.Args)
			return answering(t, w.end("STOP"), nil)
		},
		Cut: func(t testing.TB, c *aycoder.ToolUse) agenttest.Client {
			text := strings.TrimPrefix(string(c.Args), `{"path":"`)
			w := new(wire).part(`{"functionCall": {"id": %q,"name": %q,"willContinue": true}}`, c.ID, c.Name)
			w.part(`{"functionCall": {"partialArgs": [{"jsonPath": "$.path","stringValue": %s,"willContinue": true}],"willContinue": true}}`,
				quote(text))
			return answering(t, w.end("MAX_TOKENS"), nil)
		},
		Refused: func(t testing.TB, text string) agenttest.Client {
			return answering(t, new(wire).texts(text).end("SAFETY"), nil)
		},
		Broken: func(t testing.TB, pieces ...string) agenttest.Client {
			return answering(t, new(wire).texts(pieces...).b.String(), lose)
		},
		Hang: func(t testing.TB, pieces ...string) agenttest.Client {
			return answering(t, new(wire).texts(pieces...).b.String(), hang)
		},
		Silent: func(t testing.TB) agenttest.Client {
			return serving(t, func(_ http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				hang(r)
			})
		},
		Refuse: func(t testing.TB) agenttest.Client {
			return refusing(t, "test-key", http.StatusServiceUnavailable,
				`{"error":{"code":503,"message":"The model is overloaded. Please try again later.","status":"UNAVAILABLE"}}`)
		},
		Garbage: func(t testing.TB) agenttest.Client {
			return answering(t, "data: {\"candidates\":\xff\r\n\r\n\x00\x01", nil)
		},
		RateLimited: func(t testing.TB) agenttest.Client {
			return refusing(t, "test-key", http.StatusTooManyRequests, `{"error": {"code": 429,
				"message": "You exceeded your current quota, please check your plan and billing details.\nPlease retry in 7.0s.",
				"status": "RESOURCE_EXHAUSTED", "details": [
				{"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaId": "x", "quotaValue": "10"}]},
				{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "7s"}]}}`)
		},
		TooLarge: func(t testing.TB) agenttest.Client {
			return refusing(t, "test-key", http.StatusBadRequest, `{"error": {"code": 400, "message": "The input token count `+
				`(1200003) exceeds the maximum number of tokens allowed (1048576).", "status": "INVALID_ARGUMENT"}}`)
		},
		NoModel: func(t testing.TB) agenttest.Client {
			return refusing(t, "test-key", http.StatusNotFound, `{"error": {"code": 404, "message": "models/gemini-3-test is not `+
				`found for API version v1beta, or is not supported for generateContent. Call ListModels to see the list of `+
				`available models and their supported methods.", "status": "NOT_FOUND"}}`)
		},
		BadKey: func(t testing.TB, key string) agenttest.Client {
			return refusing(t, key, http.StatusBadRequest, `{"error": {"code": 400, "message": "API key not valid: `+key+
				`. Please pass a valid API key.", "status": "INVALID_ARGUMENT", "details": [
				{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID", "domain": "googleapis.com"}]}}`)
		},
		Wire: func(t testing.TB) (agenttest.Client, func() []byte) {
			return watched(t, new(wire).texts("Hel", "lo").end("STOP"))
		},
		Signed: func(t testing.TB, mark string, c *aycoder.ToolUse) (agenttest.Client, func() []byte) {
			w := new(wire).part(`{"text": "Hm.","thought": true}`)
			w.part(`{"functionCall": {"id": %q,"name": %q,"args": %s},"thoughtSignature": %q}`, c.ID, c.Name, c.Args, mark)
			return watched(t, w.end("STOP"))
		},
	})
}
