package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aycoder/aycoder/config"
)

// A remote is what a connection to an address goes through.
type remote struct {
	base         *http.Transport
	headers      map[string]string
	unauthorized atomic.Bool // the last answer asked for a login
	conn         mcp.Connection
}

// kept keeps the connection that it makes, since the SDK does not close it after some errors.
type kept struct {
	mcp.Transport
	remote *remote
}

// Connect implements [mcp.Transport].
func (k *kept) Connect(ctx context.Context) (mcp.Connection, error) {
	conn, err := k.Transport.Connect(ctx)
	k.remote.conn = conn
	return conn, err
}

// close ends what the address may still send. Nobody connects any more.
func (r *remote) close() {
	if r.conn != nil {
		_ = r.conn.Close() // which most often was closed before
	}
	r.base.CloseIdleConnections()
}

func dial(s config.Server) (*remote, mcp.Transport) {
	base, ok := http.DefaultTransport.(*http.Transport)
	if !ok { // the host has replaced it
		base = &http.Transport{Proxy: http.ProxyFromEnvironment}
	}
	r := &remote{base: base.Clone(), headers: s.Headers}
	client := &http.Client{Transport: r, CheckRedirect: sameHost}
	return r, &mcp.StreamableClientTransport{Endpoint: s.URL, HTTPClient: client, MaxEventSize: maxMessage}
}

// sameHost follows redirects only where the headers of the configuration may go.
func sameHost(req *http.Request, via []*http.Request) error {
	first := via[0].URL
	switch {
	case len(via) >= 10:
		return errors.New("more than 10 redirects")
	case req.URL.Host != first.Host || req.URL.Scheme != first.Scheme:
		return fmt.Errorf("a redirect to %s, another host, is not followed", req.URL.Redacted())
	}
	return nil
}

// RoundTrip implements [http.RoundTripper].
func (r *remote) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	for name, value := range r.headers {
		req.Header.Set(name, value)
	}
	resp, err := r.base.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	r.unauthorized.Store(resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden)
	if kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); kind != "text/event-stream" {
		resp.Body = &bounded{resp.Body, maxMessage}
	}
	return resp, nil
}

// bounded is a body that must not be longer than a message may be. The SDK bounds only events.
type bounded struct {
	io.ReadCloser
	left int
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, fmt.Errorf("the answer has more than %d bytes", maxMessage)
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}
