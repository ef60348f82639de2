package runner

import (
	"bufio"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/option"
	"github.com/aycoder/aycoder/remote"
)

const (
	joinTime     = 30 * time.Second // for the greeting and the manifest of a new connection
	defaultLease = 90 * time.Second // longer than a runner works without a sign of its server, which is up to 75 s
	defaultWait  = 15 * time.Second
)

// HubOption configures a [Hub] in [NewHub].
type HubOption func(*Hub) error

// WithLease sets how long a name stays that of a runner whose connection was cut, so that no other one works under it
// as long as that one may: a runner without a sign of its server kills its commands after 60 to 75 s. Default: 90 s.
func WithLease(d time.Duration) HubOption {
	return func(h *Hub) error {
		h.lease = d
		return positive("WithLease", d)
	}
}

// WithWait sets how long a call waits for a runner that is not connected, before it is an error. Default: 15 s.
func WithWait(d time.Duration) HubOption {
	return func(h *Hub) error {
		h.wait = d
		return positive("WithWait", d)
	}
}

// WithLogger sets where the hub logs. Default: nowhere.
func WithLogger(l *slog.Logger) HubOption {
	return func(h *Hub) error {
		if l == nil {
			return &aycoder.ConfigError{Option: "WithLogger", Err: errors.New("is nil")}
		}
		h.log = l
		return nil
	}
}

func positive(name string, d time.Duration) error {
	if d <= 0 {
		return &aycoder.ConfigError{Option: name, Err: errors.New("must be positive")}
	}
	return nil
}

// Tokens returns a function for [NewHub] that knows runners by their tokens, which must have 16 characters or more. The
// time that it takes does not depend on them.
func Tokens(byName map[string]string) (func(r *http.Request) (string, error), error) {
	sums := map[string][sha256.Size]byte{}
	for name, token := range byName {
		if len(token) < 16 {
			return nil, &aycoder.ConfigError{Option: "Tokens", Err: fmt.Errorf("the token of %q must have 16 characters or more", name)}
		}
		sums[name] = sha256.Sum256([]byte(token))
	}
	return func(r *http.Request) (found string, err error) {
		given, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		sum := sha256.Sum256([]byte(given))
		err = errors.New("no runner has this token")
		for name, want := range sums {
			if subtle.ConstantTimeCompare(sum[:], want[:]) == 1 {
				found, err = name, nil
			}
		}
		return found, err
	}, nil
}

// A Hub is the side of the server: an [http.Handler] that runners connect to, to be mounted where [Serve] dials. Each
// connection gets a fencing token, which is higher than those of all earlier ones of its name, also after a restart of
// the server as long as its clock is not turned back. A new connection of a runner ends the one before, whose late
// results then reach nobody. It is safe for concurrent use.
type Hub struct {
	authorize   func(r *http.Request) (name string, err error)
	lease, wait time.Duration
	log         *slog.Logger

	ctx  context.Context
	stop context.CancelFunc

	mu      sync.Mutex
	runners map[string]*slot
	work    sync.WaitGroup // connections
}

// A slot is a name, and who has it.
type slot struct {
	instance string      // of the program that had it last
	fence    uint64      // of its last connection
	last     *connection // which may have ended, or not be conn yet
	conn     *connection
	until    time.Time     // the name is that of instance, also without a connection
	changed  chan struct{} // closed when conn has changed
}

// A connection is one of a runner. When it is that of its slot, the runner has said what it offers.
type connection struct {
	*remote.Client
	fence    uint64
	instance string
	manifest *Manifest

	ctx  context.Context // ends when the connection is to end
	end  context.CancelFunc
	gone chan struct{} // closed when it has ended
}

// NewHub returns a hub. The function authorize says which runner sends a request, such as one of [Tokens], or returns an
// error. A token of a runner must not be one that lets its holder answer approvals.
func NewHub(authorize func(r *http.Request) (name string, err error), opts ...HubOption) (*Hub, error) {
	h := &Hub{authorize: authorize, lease: defaultLease, wait: defaultWait, log: slog.New(slog.DiscardHandler), runners: map[string]*slot{}}
	err := option.Apply(h, opts)
	if authorize == nil {
		err = errors.Join(err, &aycoder.ConfigError{Option: "authorize", Err: errors.New("is nil")})
	}
	if err != nil {
		return nil, fmt.Errorf("new hub: %w", err)
	}
	h.ctx, h.stop = context.WithCancel(context.Background())
	return h, nil
}

// ServeHTTP implements [http.Handler].
func (h *Hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name, err := h.authorize(r)
	if err != nil || name == "" {
		h.log.Warn("runner of nobody known", "address", r.RemoteAddr, "error", err)
		h.answer(w, http.StatusUnauthorized, refuse("", KindUnauthorized, "the request needs the token of a runner"))
		return
	}
	instance := r.Header.Get(headerInstance)
	last, err := strconv.ParseUint(r.Header.Get(headerFence), 10, 64)
	if err != nil || len(instance) < 16 || len(instance) > maxWord || last > math.MaxInt64 {
		h.answer(w, http.StatusBadRequest, refuse(name, KindProtocol, "this is where runners connect"))
		return
	}
	switch {
	case r.Method == http.MethodDelete:
		h.left(name, instance)
		w.WriteHeader(http.StatusNoContent)
	case r.Method != http.MethodGet || r.Header.Get("Upgrade") != protocol:
		w.Header().Set("Upgrade", protocol)
		h.answer(w, http.StatusUpgradeRequired, refuse(name, KindProtocol, "this is where runners connect"))
	default:
		h.connect(w, name, instance, last)
	}
}

// answer refuses a request.
func (h *Hub) answer(w http.ResponseWriter, status int, e *Error) {
	w.Header().Set(headerKind, string(e.Kind))
	if e.after > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(e.after/time.Second)+1))
	}
	http.Error(w, e.Err.Error(), status)
}

// connect makes a connection of a request, and keeps it until it ends.
func (h *Hub) connect(w http.ResponseWriter, name, instance string, last uint64) {
	c, before, refused := h.grant(name, instance, last)
	if refused != nil {
		status := http.StatusConflict
		if refused.after > 0 {
			status = http.StatusServiceUnavailable
		}
		h.answer(w, status, refused)
		return
	}
	defer h.work.Done()
	defer close(c.gone)
	defer c.end()
	if before != nil { // no result of it comes after the new one has begun
		<-before.gone
	}
	conn, buf, err := http.NewResponseController(w).Hijack()
	if err != nil {
		h.answer(w, http.StatusHTTPVersionNotSupported, refuse(name, KindProtocol, "the server cannot make a connection of this request: %v", err))
		return
	}
	defer conn.Close()
	if err := c.greet(name, conn, buf.Reader); err != nil {
		h.log.Warn("runner refused", "runner", name, "error", err)
		return
	}
	if h.join(name, c) {
		h.log.Info("runner connected", "runner", name, "fence", c.fence)
		select {
		case <-c.Done():
		case <-c.ctx.Done():
		}
		h.log.Info("runner gone", "runner", name, "fence", c.fence, "error", c.Err())
	}
	_ = c.Close()
	h.lost(name, c)
}

// greet answers the request of a new connection, and hears what it offers.
func (c *connection) greet(name string, conn net.Conn, buffered *bufio.Reader) error {
	ctx, cancel := context.WithTimeout(c.ctx, joinTime)
	defer cancel()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	_, err := fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n%s: %s\r\n%s: %d\r\n\r\n",
		protocol, headerInstance, c.instance, headerFence, c.fence)
	if err != nil {
		return err
	}
	if c.Client, err = remote.Connect(ctx, io.NopCloser(buffered), conn); err != nil {
		return err
	}
	if c.manifest, err = c.ask(ctx, name); err != nil {
		return errors.Join(err, c.Close())
	}
	return nil
}

// ask asks a runner for its manifest, as it is now.
func (c *connection) ask(ctx context.Context, name string) (*Manifest, error) {
	data, err := c.About(ctx)
	if err != nil {
		return nil, err
	}
	m, err := parseManifest(name, data)
	if err == nil && m.Root != c.Dir() {
		err = refuse(name, KindManifest, "it is for %.200q, and the connection for %.200q", m.Root, c.Dir())
	}
	return m, err
}

// slot returns that of a name. The mutex is held.
func (h *Hub) slot(name string) *slot {
	s := h.runners[name]
	if s == nil {
		s = &slot{changed: make(chan struct{})}
		h.runners[name] = s
	}
	return s
}

// grant gives a name to a program, with the next fencing token, and ends the connection before, if there was one.
func (h *Hub) grant(name, instance string, last uint64) (c, before *connection, refused *Error) {
	now := time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.slot(name)
	if other := s.instance != instance; h.ctx.Err() != nil {
		refused = refuse(name, KindOffline, "the server ends")
		refused.after = time.Second
	} else if other && last > 0 && last < s.fence {
		refused = refuse(name, KindFenced, "another program has had the name %q since this one was connected; look at what this one has done before you start it again", name)
	} else if other && s.conn != nil {
		refused = refuse(name, KindTaken, "another program is connected as %q", name)
	} else if other && now.Before(s.until) {
		refused = refuse(name, KindHeld, "another program was connected as %q, and may still work there", name)
		refused.after = s.until.Sub(now)
	}
	if refused != nil {
		return nil, nil, refused
	}
	s.instance, s.fence = instance, max(last, s.fence, uint64(now.UnixNano())-1)+1
	s.until = now.Add(joinTime + h.lease)
	if before = s.last; before != nil {
		before.end()
	}
	s.set(nil)
	s.last = &connection{fence: s.fence, instance: instance, gone: make(chan struct{})}
	s.last.ctx, s.last.end = context.WithCancel(h.ctx)
	h.work.Add(1)
	return s.last, before, nil
}

// set replaces the connection. The mutex of the hub is held.
func (s *slot) set(c *connection) {
	s.conn = c
	close(s.changed)
	s.changed = make(chan struct{})
}

// join makes a connection that of its name, unless it is to end.
func (h *Hub) join(name string, c *connection) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c.ctx.Err() != nil {
		return false
	}
	h.slot(name).set(c)
	return true
}

// lost takes note of the end of a connection.
func (h *Hub) lost(name string, c *connection) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s := h.slot(name); s.conn == c {
		s.until = time.Now().Add(h.lease)
		s.set(nil)
	}
}

// left takes the name from a program that says that nothing of it works any more.
func (h *Hub) left(name, instance string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s := h.slot(name); s.instance == instance {
		s.until = time.Time{}
		if s.set(nil); s.last != nil {
			s.last.end()
		}
	}
}

// connected returns the connection of a name, for which it waits until ctx ends or the time of [WithWait] is over.
func (h *Hub) connected(ctx context.Context, name string) (*connection, error) {
	late := time.NewTimer(h.wait)
	defer late.Stop()
	for {
		h.mu.Lock()
		s := h.slot(name)
		c, changed := s.conn, s.changed
		h.mu.Unlock()
		if c != nil && c.Err() == nil {
			return c, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, &Error{Runner: name, Kind: KindOffline, Err: context.Cause(ctx)}
		case <-h.ctx.Done():
			return nil, refuse(name, KindOffline, "the server ends")
		case <-late.C:
			return nil, refuse(name, KindOffline, "it has not been connected for %s: %w", h.wait, os.ErrDeadlineExceeded)
		}
	}
}

// Close ends all connections, and waits until nothing of them is left. Calls that are under way are interrupted.
func (h *Hub) Close() error {
	h.mu.Lock()
	h.stop() // no connection begins after that
	h.mu.Unlock()
	h.work.Wait()
	return nil
}
