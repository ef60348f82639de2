package ollama_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/wiretest"
	"github.com/aycoder/aycoder/providers/ollama"
)

// done is a last line.
const done = `{"model":"m","created_at":"2026-01-02T03:04:05Z","message":{"role":"assistant","content":""},` +
	`"done":true,"done_reason":"stop","prompt_eval_count":3,"eval_count":7}` + "\n"

// A recorder keeps the last request body.
type recorder struct {
	next http.RoundTripper

	mu   sync.Mutex
	last []byte
}

// RoundTrip implements [http.RoundTripper].
func (r *recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	data, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	r.last = data
	r.mu.Unlock()
	return r.next.RoundTrip(req)
}

func (r *recorder) body() []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}

type roundTrip func(*http.Request) (*http.Response, error)

// RoundTrip implements [http.RoundTripper].
func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// says answers every request with a body, in reads of size bytes.
func says(status int, body string, size int) http.RoundTripper {
	return roundTrip(func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: status, Header: http.Header{}, Request: r,
			Body: io.NopCloser(wiretest.Sized(strings.NewReader(body), size))}, nil
	})
}

// encoded returns the body of a request.
func encoded(t testing.TB, req *aycoder.Request, opts ...ollama.Option) []byte {
	t.Helper()
	rec := &recorder{next: says(http.StatusOK, done, 1<<20)}
	_, err := aycoder.Complete(t.Context(), clientOf(t, rec, opts...), req)
	require.NoError(t, err)
	return rec.body()
}

// answer decodes a body.
func answer(t testing.TB, body string, opts ...ollama.Option) *wiretest.Answer {
	t.Helper()
	return wiretest.Ask(t.Context(), t, clientOf(t, says(http.StatusOK, body, 1<<20), opts...),
		&aycoder.Request{Messages: []*aycoder.Message{aycoder.User("hello")}})
}

// server returns a client of a server.
func server(t testing.TB, h http.HandlerFunc, opts ...ollama.Option) *ollama.Client {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	c, err := ollama.New("qwen3:8b", append([]ollama.Option{ollama.WithBaseURL(s.URL),
		ollama.WithHTTPClient(s.Client())}, opts...)...)
	require.NoError(t, err)
	return c
}
