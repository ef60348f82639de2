package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/internal/option"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/session"
)

// A Host gives a server what it serves. Its functions must be safe for concurrent use.
type Host struct {
	// Name tells apart servers with stores that share the ids of their sessions. The ids of sessions that clients name, and
	// those for an Idempotency-Key, depend on it. Default: "".
	Name string
	// Principal says who sends a request, or returns an error for somebody unknown, who gets the status 401. The name is
	// in logs and in the audit log. If it is nil, there is one principal, "local": the holder of the token of [WithToken],
	// or, without a token, whoever reaches the server on the loopback interface.
	Principal func(r *http.Request) (string, error)
	// Store returns the store of the sessions of a principal. Two principals must not share one.
	Store func(principal string) journal.Store
	// Open opens the runtime of a session of a principal, or makes a new session if id is "". The session must be in the
	// store of the principal, and the options among its own: pass them to [harness.WithStore]. If there is no such session,
	// errors.Is(err, [fs.ErrNotExist]) is true. The server closes the runtime.
	Open func(ctx context.Context, principal, id string, opts ...session.Option) (*harness.Runtime, error)
	// Feed carries live events between processes that share stores. With it, the events of a run that works in another
	// process are streamed here, too: see [Follow]. If principals share the feed, the ids of their sessions must differ.
	// Default: none, so that such a request is answered with the status 409.
	Feed Feed
}

// Limits bound what a server takes. A field that is 0 has its default.
type Limits struct {
	// Body is the largest size of the body of a request, in bytes. Default: 8 MiB.
	Body int64
	// BodyTime is how long a client may take to send a body. Default: 30 s.
	BodyTime time.Duration
	// Sessions is how many sessions may be open at a time. Default: 64.
	Sessions int
	// OwnSessions is how many of them may be of the same principal. Default: a quarter of Sessions if the host tells
	// principals apart, and all of them if not.
	OwnSessions int
	// Idle is how long a session stays open that nobody uses. Default: 5 min.
	Idle time.Duration
	// Streams is how many streams a principal may have at a time. Default: 1,000.
	Streams int
	// Rate is how many requests a principal may send in a second, with bursts of four times as many. All requests
	// from an address together may be four times as many; behind a proxy, these are the requests of all principals,
	// unless the host sets RemoteAddr of a [http.Request] by what a proxy that it trusts says, before it calls the server.
	// Default: 50.
	Rate int
}

// Option configures a [Server] in [New].
type Option func(*config) error

type config struct {
	token   string
	hosts   []string
	origins []string
	limits  Limits
	logger  *slog.Logger
	auditor aycoder.Auditor
}

// WithToken sets the token that requests must have, as "Authorization: Bearer" or in the cookie of the page. It must have 16
// characters or more. It cannot be used with [Host].Principal. Default: no token, so that only requests on the loopback
// interface are served.
func WithToken(token string) Option {
	return func(c *config) error {
		if len(token) < 16 {
			return &aycoder.ConfigError{Option: "WithToken", Err: errors.New("must have 16 characters or more")}
		}
		c.token = token
		return nil
	}
}

// WithHosts sets the names by which the server is reached, such as "agent.example.com" or "10.0.0.7:8080", besides those of
// the loopback interface. A request for another name is refused, because a page of another site may have sent it. It
// appends. Default: none.
func WithHosts(hosts ...string) Option {
	return func(c *config) error {
		c.hosts = append(c.hosts, hosts...)
		return nil
	}
}

// WithOrigins sets the origins whose pages may use the server, such as "https://app.example.com", besides its own. It
// appends. Default: none.
func WithOrigins(origins ...string) Option {
	return func(c *config) error {
		c.origins = append(c.origins, origins...)
		return nil
	}
}

// WithLimits sets the limits.
func WithLimits(l Limits) Option {
	return func(c *config) error {
		if l.Body < 0 || l.BodyTime < 0 || l.Sessions < 0 || l.OwnSessions < 0 || l.Idle < 0 || l.Streams < 0 || l.Rate < 0 {
			return &aycoder.ConfigError{Option: "WithLimits", Err: errors.New("must not be negative")}
		}
		c.limits = l
		return nil
	}
}

// WithLogger sets where the server logs. Default: nowhere.
func WithLogger(l *slog.Logger) Option {
	return func(c *config) error {
		if l == nil {
			return &aycoder.ConfigError{Option: "WithLogger", Err: errors.New("is nil")}
		}
		c.logger = l
		return nil
	}
}

// WithAudit sets the auditor that gets a record of each answer to a question, which says who gave it. The record comes once,
// after the answer has taken effect; an error is only logged. Its Seq is 0, and its Digest is that of the arguments in the
// question. The records of the runs come from the runtime, see [aycoder.WithAudit]. Default: none.
func WithAudit(a aycoder.Auditor) Option {
	return func(c *config) error {
		c.auditor = a
		return nil
	}
}

// A Server serves the sessions of a host. It is an [http.Handler], and safe for concurrent use.
type Server struct {
	host    Host
	limits  Limits
	logger  *slog.Logger
	auditor aycoder.Auditor
	guard   *guard
	metrics *metrics
	feed    *Publisher // or nil
	handler http.Handler

	ctx  context.Context // of the runs
	stop context.CancelCauseFunc
	work sync.WaitGroup // runs, and sessions that are being closed

	mu        sync.Mutex // guards all that follows, and some fields of the sessions
	table     map[convKey]*conversation
	draining  bool
	empty     chan struct{} // closed when the server drains and no session is open any more
	streaming map[string]int
	probe     *probe // the newest one, or nil
}

// New makes a server. The error joins everything that is wrong.
func New(host Host, opts ...Option) (*Server, error) {
	c := config{logger: slog.New(slog.DiscardHandler)}
	err := option.Apply(&c, opts)
	if host.Store == nil || host.Open == nil {
		err = errors.Join(err, &aycoder.ConfigError{Option: "Host", Err: errors.New("needs Store and Open")})
	}
	if host.Principal != nil && c.token != "" {
		err = errors.Join(err, &aycoder.ConfigError{Option: "WithToken", Err: errors.New("is not asked for, as Host.Principal says who sends a request")})
	}
	if err != nil {
		return nil, fmt.Errorf("new server: %w", err)
	}
	c.limits.fill(host.Principal != nil)
	s := &Server{host: host, limits: c.limits, logger: c.logger, auditor: c.auditor, metrics: newMetrics(),
		table: map[convKey]*conversation{}, empty: make(chan struct{}), streaming: map[string]int{}}
	s.ctx, s.stop = context.WithCancelCause(context.Background())
	if host.Feed != nil {
		s.feed = NewPublisher(host.Feed)
	}
	s.guard = newGuard(s, &c)
	s.handler = s.guard.around(s.routes())
	return s, nil
}

func (l *Limits) fill(principals bool) {
	l.Body = cmp.Or(l.Body, 8<<20)
	l.BodyTime = cmp.Or(l.BodyTime, 30*time.Second)
	l.Idle = cmp.Or(l.Idle, 5*time.Minute)
	l.Sessions = cmp.Or(l.Sessions, 64)
	if principals {
		l.OwnSessions = cmp.Or(l.OwnSessions, max(1, l.Sessions/4))
	}
	l.OwnSessions = cmp.Or(l.OwnSessions, l.Sessions)
	l.Streams = cmp.Or(l.Streams, 1000)
	l.Rate = cmp.Or(l.Rate, 50)
}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// An operation answers a request, or returns why it cannot.
type operation func(w http.ResponseWriter, r *http.Request) error

// A route is where an operation is. All of them are in openapi.json, too.
type route struct {
	method, path string
	serve        operation
	open         bool // for anybody, without a token
}

func (s *Server) operations() []route {
	return []route{
		{"POST", "/api/prompt", s.streams(taking(s.prompt)), false},
		{"GET", "/api/runs/{run}", s.inRun(s.runState), false},
		{"GET", "/api/runs/{run}/events", s.streams(s.eventsAnywhere), false},
		{"POST", "/api/runs/{run}/approvals/{call}", taking(s.approve), false},
		{"POST", "/api/runs/{run}/results/{call}", taking(s.result), false},
		{"POST", "/api/runs/{run}/steer", taking(s.steer), false},
		{"POST", "/api/runs/{run}/cancel", s.cancel, false},
		{"GET", "/api/sessions", s.sessions, false},
		{"GET", "/api/sessions/{session}", s.inSession(s.session1), false},
		{"GET", "/api/sessions/{session}/tree", s.inSession(s.tree), false},
		{"POST", "/api/sessions/{session}/checkout", taking(s.checkout), false},
		{"GET", "/api/tools", s.tools, false},
		{"POST", "/api/tools/{tool}", s.streams(taking(s.call)), false},
		{"GET", "/api/metrics", s.figures, false},
		{"GET", "/api/openapi.json", s.openAPI, false},
		{"POST", "/api/agui", s.streams(takingForeign(s.agui)), false},
		{"POST", "/api/chat", s.streams(takingForeign(s.uiChat)), false},
		{"GET", "/api/chat/{session}/stream", s.streams(s.uiResume), false},
		{"POST", "/v1/chat/completions", s.streams(takingForeign(s.chat)), false},
		{"GET", "/v1/models", s.models, false},
		{"GET", "/health", s.health, true},
		{"GET", "/ready", s.ready, true},
	}
}

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	for _, x := range s.operations() {
		mux.Handle(x.method+" "+x.path, s.serve(x))
	}
	methods := map[string][]string{}
	for _, x := range s.operations() {
		methods[x.path] = append(methods[x.path], x.method)
	}
	for path, allowed := range methods {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Allow", strings.Join(allowed, ", "))
			s.fail(w, r, refuse(http.StatusMethodNotAllowed, "method", "the operation has another method"))
		})
	}
	s.pages(mux)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { s.fail(w, r, notFound()) })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != path.Clean(r.URL.Path) { // the mux would redirect
			s.fail(w, r, notFound())
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// serve makes a handler of an operation.
func (s *Server) serve(x route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !x.open {
			var err error
			if r, err = s.guard.admit(r); err != nil {
				s.fail(w, r, err)
				return
			}
		}
		if err := x.serve(w, r); err != nil {
			s.fail(w, r, err)
		}
	})
}

func drains() *problem {
	return later(http.StatusServiceUnavailable, "draining", "the server ends; try again soon", 5*time.Second)
}

// Shutdown ends the server so that no work is lost. No run begins any more. One that waits for an answer is suspended, and
// one that works ends before its next request to the model; another process goes on with both, when a client asks for their
// events. Streams then end. Shutdown returns when all sessions are closed, or when ctx is done, with an error that says how
// many sessions are still in use; if the process ends then, other processes go on with their runs as after a crash. [Server.Close] cancels
// them instead.
func (s *Server) Shutdown(ctx context.Context) error {
	s.drain()
	select {
	case <-s.empty:
	case <-ctx.Done():
		return fmt.Errorf("shut down: %d sessions are still in use: %w", s.busy(), ctx.Err())
	}
	s.mu.Lock()
	p := s.probe
	s.mu.Unlock()
	if p != nil {
		select {
		case <-p.done:
		case <-ctx.Done():
			return fmt.Errorf("shut down: a store of sessions does not answer: %w", ctx.Err())
		}
	}
	s.work.Wait()
	return nil
}

// Close ends the server at once: it cancels all runs and waits for them.
func (s *Server) Close() error {
	s.stop(errClosed)
	s.drain()
	<-s.empty
	s.work.Wait()
	return nil
}

func (s *Server) busy() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.table)
}

// drain lets runs end, and closes sessions that nobody uses.
func (s *Server) drain() {
	var runs []*run
	s.mu.Lock()
	s.draining = true
	for _, c := range s.table {
		if c.last.working() {
			runs = append(runs, c.last)
		}
		if c.users == 0 && c.gone == nil {
			s.closeLocked(c)
		}
	}
	s.emptied()
	s.mu.Unlock()
	for _, r := range runs {
		r.drain()
	}
}

// emptied tells those who wait for it that no session is open any more. The mutex is held.
func (s *Server) emptied() {
	if !s.draining || len(s.table) > 0 {
		return
	}
	select {
	case <-s.empty:
	default:
		close(s.empty)
	}
}
