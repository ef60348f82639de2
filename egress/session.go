package egress

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aycoder/aycoder/internal/publicnet"
)

const (
	maxOpen    = 256      // connections of a session
	maxAsked   = 64       // destinations that a session asks about
	maxDenied  = 8        // destinations that a session tells of
	maxHeader  = 64 << 10 // bytes of the header of a request, and of a response
	headerTime = 30 * time.Second
	idleTime   = 5 * time.Minute
)

// AskFunc asks whether a destination may be reached, if no rule decides. It returns false, with a
// reason for whoever reads the output of the command, if it must not be or if ctx is done first.
// It is called once for each destination of a session, and never twice at the same time for one
// destination of a [Proxy]. Within a session there is one question at a time.
type AskFunc func(ctx context.Context, d Destination) (allowed bool, reason string)

// Session is what one command, or one tool, reaches by a [Proxy]. The answers to its questions
// apply until it is closed. It is safe for concurrent use.
type Session struct {
	proxy     *Proxy
	ask       AskFunc
	ctx       context.Context // ends with the session
	cancel    context.CancelFunc
	transport *http.Transport
	reverse   *httputil.ReverseProxy
	one       chan struct{} // held by the question that is open
	work      sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	open    map[io.Closer]struct{}
	answers map[Destination]*answer
	denied  []*DeniedError
}

// An answer is one to a question; err is nil if it is yes.
type answer struct {
	done chan struct{} // closed when err is set
	err  error
}

// Session starts a session. The caller must call Close. When ctx is done, open questions are
// answered with no. If ask is nil, everything that no rule allows is denied.
func (p *Proxy) Session(ctx context.Context, ask AskFunc) *Session {
	if ask == nil {
		ask = func(context.Context, Destination) (bool, string) { return false, "no rule allows it" }
	}
	s := &Session{proxy: p, ask: ask, one: make(chan struct{}, 1), open: map[io.Closer]struct{}{},
		answers: map[Destination]*answer{}}
	s.ctx, s.cancel = context.WithCancel(ctx)
	config := p.tls.Clone()
	config.ServerName, config.NextProtos = "", []string{"http/1.1"} // the name is that of the host
	s.transport = &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return s.dial(ctx, ctx.Value(destinationKey{}).(Destination)) // which was allowed
		},
		TLSClientConfig: config, DisableCompression: true, MaxResponseHeaderBytes: maxHeader,
		TLSHandshakeTimeout: headerTime, IdleConnTimeout: time.Minute,
	}
	s.reverse = &httputil.ReverseProxy{
		Transport: s, FlushInterval: -1, ErrorHandler: fail, ErrorLog: log.New(io.Discard, "", 0),
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.Host, r.Out.URL.RawQuery = r.In.URL.Host, r.In.URL.RawQuery
		},
	}
	return s
}

// Close ends all connections and open questions, and waits until nothing of the session is left.
func (s *Session) Close() error {
	s.cancel()
	s.mu.Lock()
	s.closed = true
	for c := range s.open {
		c.Close()
	}
	s.mu.Unlock()
	s.work.Wait()
	s.transport.CloseIdleConnections()
	return nil
}

// Denied returns some of the connections that were refused so far, each destination once.
func (s *Session) Denied() []*DeniedError {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*DeniedError(nil), s.denied...)
}

// keep makes Close close c, and wait for whatever calls the function that keep returns. It
// returns nil, and has closed c, if the session is over or too much is open.
func (s *Session) keep(c io.Closer) (done func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || len(s.open) >= maxOpen {
		c.Close()
		return nil
	}
	s.open[c] = struct{}{}
	s.work.Add(1)
	return sync.OnceFunc(func() {
		defer s.work.Done()
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.open, c)
		c.Close()
	})
}

// enter makes Close wait for a call of Done, unless the session is over.
func (s *Session) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.work.Add(1)
	}
	return !s.closed
}

// Serve accepts connections from clients of an HTTP proxy, until l fails or the session is
// closed, which closes l. It returns at once.
func (s *Session) Serve(l net.Listener) {
	done := s.keep(l)
	if done == nil {
		return
	}
	server := s.server(s.handle)
	go func() {
		defer done()
		_ = server.Serve(&keeping{l, s})
	}()
}

// server returns a server whose handlers the session waits for.
func (s *Session) server(handle http.HandlerFunc) *http.Server {
	return &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			if s.enter() {
				defer s.work.Done()
				handle(w, req)
			}
		}),
		ReadHeaderTimeout: headerTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHeader,
		BaseContext: func(net.Listener) context.Context { return s.ctx }, ErrorLog: log.New(io.Discard, "", 0),
	}
}

// keeping is a listener whose connections are closed with the session.
type keeping struct {
	net.Listener
	s *Session
}

func (k *keeping) Accept() (net.Conn, error) {
	for {
		conn, err := k.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if done := k.s.keep(conn); done != nil {
			return &kept{conn, done}, nil
		}
	}
}

// kept is a connection that the session forgets when it is closed.
type kept struct {
	net.Conn
	done func()
}

func (k *kept) Close() error {
	k.done()
	return nil
}

// CloseWrite ends what is sent, where the connection can do that.
func (k *kept) CloseWrite() error {
	if c, ok := k.Conn.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return nil
}

// dial connects to a destination, for as long as the session lasts.
func (s *Session) dial(ctx context.Context, d Destination) (net.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	conn, err := s.proxy.dial(ctx, d)
	if blocked, ok := errors.AsType[*publicnet.BlockedError](err); ok {
		return nil, s.deny(d, "it leads to "+blocked.Host+", which is not public; a rule with Private permits that")
	}
	if err != nil {
		return nil, err
	}
	done := s.keep(conn)
	if done == nil {
		return nil, net.ErrClosed
	}
	return &kept{conn, done}, nil
}

// allow returns the rule for a destination, nil if there is none, once it may be reached. It asks
// if that is not known. A question outlives the request that raised it: the client may come again.
func (s *Session) allow(ctx context.Context, d Destination) (*rule, error) {
	r := s.proxy.match(d)
	switch {
	case r != nil && r.Action == Deny:
		return r, s.deny(d, "by the rule "+r.String())
	case r != nil && r.Action == Allow:
		return r, nil
	}
	a, err := s.question(d)
	if err != nil {
		return r, err
	}
	select {
	case <-a.done:
	case <-ctx.Done():
		return r, context.Cause(ctx)
	}
	return r, a.err
}

// deny returns the error for a destination, and remembers it.
func (s *Session) deny(d Destination, reason string) *DeniedError {
	err := &DeniedError{d, reason}
	s.mu.Lock()
	defer s.mu.Unlock()
	known := slices.ContainsFunc(s.denied, func(e *DeniedError) bool { return e.Destination == d })
	if !known && len(s.denied) < maxDenied {
		s.denied = append(s.denied, err)
	}
	return err
}

// question returns the answer for a destination, which may be yet to come.
func (s *Session) question(d Destination) (*answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a := s.answers[d]; a != nil {
		return a, nil
	}
	switch {
	case s.closed:
		return nil, &DeniedError{d, "the command has ended"}
	case len(s.answers) >= maxAsked:
		return nil, &DeniedError{d, "this command has asked for too many hosts"}
	}
	a := &answer{done: make(chan struct{})}
	s.answers[d] = a
	s.work.Go(func() {
		defer close(a.done)
		ok, reason := false, ""
		defer func() {
			_ = recover() // asking has panicked
			if !ok {
				a.err = s.deny(d, cmp.Or(reason, "the question was not answered"))
			}
		}()
		ok, reason = s.put(d)
	})
	return a, nil
}

// put puts a question, when it is its turn: when no other of the session is open, and no other session asks
// about the destination. The answer there may have made a rule that answers the question here.
func (s *Session) put(d Destination) (bool, string) {
	select {
	case s.one <- struct{}{}:
		defer func() { <-s.one }()
	case <-s.ctx.Done():
		return false, ""
	}
	own := make(chan struct{})
	for {
		other, asked := s.proxy.asking.LoadOrStore(d, own)
		if !asked {
			break
		}
		select {
		case <-other.(chan struct{}):
		case <-s.ctx.Done():
			return false, ""
		}
	}
	defer close(own)
	defer s.proxy.asking.Delete(d)
	ctx, cancel := context.WithTimeout(s.ctx, s.proxy.patience)
	defer cancel()
	ok, reason := s.ask(ctx, d)
	return ok && ctx.Err() == nil, reason
}

// RoundTrip implements [http.RoundTripper] for tools of the host program: it sends a request if
// the session may, with the Header of the rule. It does not follow redirects. The error is a
// [*DeniedError] if the host may not be reached.
func (s *Session) RoundTrip(req *http.Request) (*http.Response, error) {
	l := s.begin(req.Method, req.URL.Path)
	resp, err := s.roundTrip(req, l)
	if err != nil {
		if req.Body != nil {
			req.Body.Close()
		}
		l.end(err)
		return nil, err
	}
	resp.Body = &counted{resp.Body, &l.received, sync.OnceFunc(func() { l.end(nil) })}
	return resp, nil
}

func (s *Session) roundTrip(req *http.Request, l *entry) (*http.Response, error) {
	d, err := s.proxy.destination(req.URL)
	if err != nil {
		return nil, err
	}
	r, err := l.allow(req.Context(), d)
	if err != nil {
		return nil, err
	}
	out := req.Clone(toward{req.Context(), d})
	to := *req.URL
	to.Scheme, to.Host = "http", d.String()
	if d.TLS {
		to.Scheme = "https"
	}
	out.URL = &to
	out.Host = strings.TrimPrefix(d.URL(), to.Scheme+"://")
	if out.Body != nil && out.Body != http.NoBody {
		out.Body = &counted{out.Body, &l.sent, func() {}}
	}
	secret := r != nil && len(r.Header) > 0
	if req.Method == http.MethodTrace {
		return nil, s.deny(d, "the method TRACE returns what was sent")
	}
	if secret || !strings.EqualFold(out.Header.Get("Upgrade"), "websocket") {
		out.Header.Del("Upgrade") // a server goes on without it (RFC 9110, section 7.8)
		out.Header.Del("Connection")
	}
	if secret {
		maps.Copy(out.Header, r.Header)
		out.Header.Set("Accept-Encoding", "identity")
	}
	resp, err := s.transport.RoundTrip(out)
	if resp != nil {
		resp.Request = req // out has the credentials
	}
	if !secret {
		return resp, err
	}
	forms := secrets(r.Header)
	if err != nil {
		return nil, forms.error(err)
	}
	encoded := slices.ContainsFunc(resp.Header.Values("Content-Encoding"), func(v string) bool { return v != "identity" })
	if encoded || resp.StatusCode == http.StatusSwitchingProtocols {
		resp.Body.Close()
		return nil, errors.New("the response is encoded, so that the credentials in it could not be masked")
	}
	forms.mask(resp)
	return resp, nil
}

// toward is the context of a request to a destination. Other values than that would show the responses before the last
// one (httptrace), which are not masked.
type toward struct {
	context.Context
	to Destination
}

type destinationKey struct{}

// Value implements [context.Context].
func (t toward) Value(key any) any {
	if key == any(destinationKey{}) {
		return t.to
	}
	return nil
}

// handle serves a request of a client of the proxy.
func (s *Session) handle(w http.ResponseWriter, req *http.Request) {
	switch {
	case req.Method == http.MethodConnect:
		s.tunnel(w, req)
	case req.URL.Host == "":
		fail(w, req, badRequest("this is a proxy, and no server"))
	default:
		s.reverse.ServeHTTP(w, req)
	}
}

// fail answers a request that was not carried out.
func fail(w http.ResponseWriter, _ *http.Request, err error) {
	code := http.StatusBadGateway
	if _, ok := errors.AsType[*DeniedError](err); ok {
		code = http.StatusForbidden
	} else if _, ok := errors.AsType[badRequest](err); ok {
		code = http.StatusBadRequest
	}
	http.Error(w, "proxy: "+err.Error(), code)
}
