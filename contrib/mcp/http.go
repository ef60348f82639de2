package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aycoder/aycoder/config"
)

// A remote is what a connection to an address goes through.
type remote struct {
	base    *http.Transport
	listen  *http.Transport // the same, for the first GET request for what the server says unasked
	listens atomic.Bool     // it was made
	headers map[string]string
	login   *login                // nil if a login is out of the question
	refusal atomic.Pointer[error] // why the last request was refused, or nil
	others  atomic.Int64          // the number of POST requests that are not known to be those of a call
	conn    atomic.Pointer[mcp.Connection]
}

// postedKey is the key of a context's [posted]. Requests whose contexts have none are counted: if the SDK passes another context
// one day, a call does not look unsent.
type postedKey struct{}

// posted is what became of a request: whether it was sent to the address, and found what it was for, and why it was refused, or nil. The SDK ends the
// connection after a refusal, and with it requests that were not refused.
type posted struct {
	sent    atomic.Bool
	missing atomic.Bool // what it was sent to is not there, such as its session
	refusal atomic.Pointer[error]
}

// refused notes why a request was refused, or nil.
func (r *remote) refused(ctx context.Context, why *error) {
	r.refusal.Store(why)
	if p, ok := ctx.Value(postedKey{}).(*posted); ok {
		p.refusal.Store(why)
	}
}

// why returns why the request with a context was refused, or the last one if it is not known which that is, or nil.
func (r *remote) why(ctx context.Context) *error {
	if p, ok := ctx.Value(postedKey{}).(*posted); ok {
		return p.refusal.Load()
	}
	return r.refusal.Load()
}

// kept keeps the connection that it makes, since the SDK does not close it after some errors.
type kept struct {
	mcp.Transport
	remote *remote
}

// Connect implements [mcp.Transport].
func (k *kept) Connect(ctx context.Context) (mcp.Connection, error) {
	conn, err := k.Transport.Connect(ctx)
	if err == nil {
		k.remote.conn.Store(&conn)
	}
	return conn, err
}

// close ends what the address may still send. Nobody connects any more.
func (r *remote) close() {
	if conn := r.conn.Load(); conn != nil {
		_ = (*conn).Close() // which most often was closed before
	}
	r.base.CloseIdleConnections()
	r.listen.CloseIdleConnections()
}

func dial(s config.Server, l *login, listen time.Duration) (*remote, mcp.Transport) {
	base, ok := http.DefaultTransport.(*http.Transport)
	if !ok { // the host has replaced it
		base = &http.Transport{Proxy: http.ProxyFromEnvironment}
	}
	r := &remote{base: base.Clone(), listen: base.Clone(), headers: s.Headers, login: l}
	r.listen.ResponseHeaderTimeout = listen
	client := &http.Client{Transport: r, CheckRedirect: sameHost}
	return r, &mcp.StreamableClientTransport{Endpoint: s.URL, HTTPClient: client, MaxEventSize: maxMessage}
}

// sameHost follows redirects only where the headers of the configuration, and the secrets of a login, may go.
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

// RoundTrip implements [http.RoundTripper]. A request whose token is refused was not carried out: it is sent again with
// another token, once.
func (r *remote) RoundTrip(req *http.Request) (*http.Response, error) {
	if r.login == nil {
		return r.send(req, "")
	}
	ctx := req.Context()
	token, err := r.login.token(ctx)
	if err != nil {
		return r.refuse(req, err)
	}
	resp, err := r.send(req, token)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusUnauthorized && (resp.StatusCode != http.StatusForbidden || !asksForScope(resp)) {
		r.login.worked(token)
		return resp, nil
	}
	next, err := r.login.refuse(ctx, token, resp)
	if err == nil && req.Body != nil && req.Body != http.NoBody {
		if req.GetBody == nil {
			return resp, nil
		}
		req = req.Clone(ctx)
		req.Body, err = req.GetBody()
	}
	resp.Body.Close()
	if err != nil {
		return r.refuse(req, err)
	}
	if resp, err = r.send(req, next); err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusUnauthorized {
		r.login.worked(next)
		return resp, nil
	}
	resp.Body.Close()
	if _, err = r.login.refuse(ctx, next, resp); err == nil {
		err = ErrUnauthorized // others have got another one meanwhile, which the next request uses
	}
	return r.refuse(req, err)
}

// refuse answers a request in place of the server, which would refuse it.
func (r *remote) refuse(req *http.Request, err error) (*http.Response, error) {
	if req.Context().Err() != nil {
		return nil, context.Cause(req.Context())
	}
	r.refused(req.Context(), &err)
	return synthetic(req, http.StatusUnauthorized), nil
}

// synthetic returns a response that the server has not sent.
func synthetic(req *http.Request, status int) *http.Response {
	return &http.Response{
		Status: fmt.Sprintf("%d %s", status, http.StatusText(status)), StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{}, Body: http.NoBody, Request: req,
	}
}

// send sends a request to the server.
func (r *remote) send(req *http.Request, token string) (*http.Response, error) {
	req = req.Clone(req.Context())
	for name, value := range r.headers {
		req.Header.Set(name, value)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if p, ok := req.Context().Value(postedKey{}).(*posted); ok {
		p.sent.Store(true)
	} else if req.Method == http.MethodPost {
		r.others.Add(1)
	}
	base := r.base
	if req.Method == http.MethodGet && req.Header.Get("Last-Event-Id") == "" && !r.listens.Swap(true) { // and not of an answer that goes on
		base = r.listen
	}
	resp, err := base.RoundTrip(req)
	if e, ok := errors.AsType[net.Error](err); ok && base == r.listen && e.Timeout() && req.Context().Err() == nil {
		// Some answer only when they have something to say, and the SDK does not connect before: it learns that they say nothing.
		return synthetic(req, http.StatusMethodNotAllowed), nil
	}
	if err != nil {
		return nil, err
	}
	if p, ok := req.Context().Value(postedKey{}).(*posted); ok && req.Method == http.MethodPost && resp.StatusCode == http.StatusNotFound {
		p.missing.Store(true)
	}
	r.refused(req.Context(), r.refusalOf(resp))
	if kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); kind != "text/event-stream" {
		resp.Body = &bounded{resp.Body, maxMessage}
	}
	return resp, nil
}

// refusalOf returns why a server has not carried out a request, or nil if that is not known.
func (r *remote) refusalOf(resp *http.Response) *error {
	switch {
	case resp.StatusCode == http.StatusForbidden && r.login != nil && !asksForScope(resp):
		return &errForbidden
	case resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden:
		return &ErrUnauthorized
	}
	return nil
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
