package wiretest

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
)

// Loopback returns a transport that sends every request to h, which runs in a server on this
// machine, whatever the URL of the request. Tests of clients thereby need no network, and yet
// exercise the HTTP client of the standard library, with its chunks and its broken connections.
func Loopback(t testing.TB, h http.HandlerFunc) http.RoundTripper {
	t.Helper()
	s := httptest.NewServer(h)
	tr := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", s.Listener.Addr().String())
	}}
	t.Cleanup(func() { tr.CloseIdleConnections(); s.Close() })
	return roundTrip(func(r *http.Request) (*http.Response, error) {
		// The server speaks HTTP without TLS, whatever the client asked for.
		r = r.Clone(r.Context())
		r.URL.Scheme = "http"
		return tr.RoundTrip(r)
	})
}

// Answering returns a transport to a server on this machine that answers every request with body.
func Answering(t testing.TB, contentType, body string) http.RoundTripper {
	t.Helper()
	return Loopback(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", contentType)
		_, _ = io.WriteString(w, body)
	})
}

// Stream is the media type of server-sent events.
const Stream = "text/event-stream"
