package server

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/session"
)

// A conversation is a session of a principal that the server has open. It is closed when nobody has used it for a while.
type conversation struct {
	s         *Server
	principal string
	id        string
	store     journal.Store
	started   startedRuns
	failures  failures

	ready chan struct{} // closed when store, and rt or err, are set
	rt    *harness.Runtime
	err   error

	mu   sync.Mutex // held while a run begins, and while the tree is changed
	last *run       // the newest run: the one that works, or the one that has ended

	// The mutex of the server guards these.
	users   int
	working *run // the one that works, or nil
	used    time.Time
	idle    *time.Timer
	gone    chan struct{} // not nil while the session is being closed, and closed then
}

type convKey struct{ principal, id string }

// derivedID returns the id of the session that a request with an Idempotency-Key makes, so that the request finds it again.
func (s *Server) derivedID(principal, key string) string {
	if s.host.Name != "" {
		key += "\x00" + s.host.Name
	}
	sum := sha256.Sum256([]byte(principal + "\x00" + key))
	return strings.ToLower(base32.StdEncoding.EncodeToString(sum[:])[:26])
}

// open returns the session of a principal with an id. If the id is "", it returns the session that a request with the same
// Idempotency-Key has made, or a new one. The caller must call release.
func (s *Server) open(ctx context.Context, principal, id, key string) (*conversation, error) {
	try, make := true, id == ""
	switch {
	case id != "":
		if journal.CheckID(id) != nil {
			return nil, notFound()
		}
	case key != "":
		id = s.derivedID(principal, key)
	default:
		id, try = strings.ToLower(rand.Text()), false
	}
	c, mine, err := s.slot(ctx, convKey{principal, id})
	if err != nil {
		return nil, err
	}
	if mine {
		c.err = c.start(ctx, try, make)
		close(c.ready)
	}
	select {
	case <-c.ready:
		err = c.err
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		s.release(c)
		return nil, err
	}
	return c, nil
}

// has reports whether a session is open.
func (s *Server) has(principal, id string) bool {
	s.mu.Lock()
	c := s.table[convKey{principal, id}]
	s.mu.Unlock()
	if c == nil {
		return false
	}
	select {
	case <-c.ready:
		return c.err == nil
	default:
		return false
	}
}

// slot returns the place of a session in the table. If it is new, the caller fills it.
func (s *Server) slot(ctx context.Context, key convKey) (c *conversation, mine bool, err error) {
	for {
		s.mu.Lock()
		c = s.table[key]
		if c == nil || c.gone == nil {
			break
		}
		gone := c.gone
		s.mu.Unlock()
		select {
		case <-gone:
		case <-ctx.Done():
			return nil, false, ctx.Err()
		}
	}
	defer s.mu.Unlock()
	switch {
	case c != nil:
	case s.draining:
		return nil, false, drains()
	case s.full(key.principal):
		p := refuse(http.StatusServiceUnavailable, "too_many_sessions", "all sessions that may be open are in use")
		p.after = 5 * time.Second
		return nil, false, p
	default:
		c, mine = &conversation{s: s, principal: key.principal, id: key.id, ready: make(chan struct{})}, true
		s.table[key] = c
	}
	c.users++
	return c, mine, nil
}

// full reports whether a principal cannot open another session. If one that nobody uses is in the way, it is closed. The
// mutex is held.
func (s *Server) full(principal string) bool {
	own := 0
	for k := range s.table {
		if k.principal == principal {
			own++
		}
	}
	switch {
	case own >= s.limits.OwnSessions:
		return !s.makeRoom(func(c *conversation) bool { return c.principal == principal })
	case len(s.table) >= s.limits.Sessions:
		return !s.makeRoom(func(*conversation) bool { return true })
	}
	return false
}

// makeRoom closes that of some sessions which nobody has used for the longest time. The mutex is held.
func (s *Server) makeRoom(of func(*conversation) bool) bool {
	var oldest *conversation
	for _, c := range s.table {
		if of(c) && c.users == 0 && c.gone == nil && (oldest == nil || c.used.Before(oldest.used)) {
			oldest = c
		}
	}
	if oldest == nil {
		return false
	}
	s.closeLocked(oldest)
	return true
}

// release lets go of a session, which is closed when nobody has used it for a while.
func (s *Server) release(c *conversation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.used = time.Now()
	if c.users--; c.users > 0 {
		return
	}
	if c.rt == nil || s.draining {
		s.closeLocked(c)
		return
	}
	if c.idle != nil {
		c.idle.Stop()
	}
	c.idle = time.AfterFunc(s.limits.Idle, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if c.users == 0 && c.gone == nil && time.Since(c.used) >= s.limits.Idle {
			s.closeLocked(c)
		}
	})
}

// closeLocked closes a session that nobody uses. Whoever opens it again waits until it is closed. The mutex is held.
func (s *Server) closeLocked(c *conversation) {
	if c.idle != nil {
		c.idle.Stop()
	}
	if c.rt == nil { // it could not be opened, and takes no room any more
		delete(s.table, convKey{c.principal, c.id})
		s.emptied()
		return
	}
	c.gone = make(chan struct{})
	s.work.Go(func() {
		if err := c.rt.Close(); err != nil {
			s.logger.Warn("close session", "session", c.id, "error", err)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.table, convKey{c.principal, c.id})
		close(c.gone)
		s.emptied()
	})
}

// start opens the session, or makes it.
func (c *conversation) start(ctx context.Context, try, make bool) error {
	ctx = context.WithoutCancel(ctx) // others may wait for the same session
	c.store = c.s.host.Store(c.principal)
	open := func(id string, opts ...session.Option) error {
		rt, err := c.s.host.Open(ctx, c.principal, id, append(opts, session.WithValue("server", &c.started), session.WithValue("server failures", &c.failures), session.WithLateCreate())...)
		if err == nil && (rt.Session == nil || rt.Session.ID() != c.id) {
			err = errors.Join(errNoSession, rt.Close())
		}
		if err == nil {
			c.rt = rt
		}
		return err
	}
	err := fs.ErrNotExist
	if try {
		err = open(c.id)
	}
	if make && errors.Is(err, fs.ErrNotExist) {
		if err = open("", session.WithID(c.id)); err == nil {
			c.s.metrics.with(c.principal, func(x *figures) { x.Sessions++ })
		}
	}
	if err == nil {
		c.started.settle(c)
	}
	return err
}

var errNoSession = errors.New("the function Open of the host has not opened the session that it was asked for: pass the options to harness.WithStore")

// startedRuns are the runs that requests with an Idempotency-Key have begun. It is a value of the session.
type startedRuns struct {
	mu   sync.Mutex
	runs []startedRun // the oldest first
	data []byte       // as JSON, unless it is nil: the session asks for it with each record
}

type startedRun struct {
	Key  string `json:"key"`  // hash of the key
	Body string `json:"body"` // hash of the request
	Run  string `json:"run"`  // "" until it has begun
	At   int64  `json:"at"`   // when, in seconds since 1970
}

const (
	// keyTime is how long a key holds. Clients that repeat a request do so within minutes.
	keyTime = 24 * time.Hour
	// maxStarted is how many keys a session takes in that time. It refuses more, since it can forget none.
	maxStarted = 1000
)

// MarshalJSON implements [session.Value].
func (v *startedRuns) MarshalJSON() (data []byte, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.data == nil {
		v.data, err = json.Marshal(v.runs)
	}
	return v.data, err
}

// UnmarshalJSON implements [session.Value].
func (v *startedRuns) UnmarshalJSON(data []byte) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.data = nil
	return json.Unmarshal(data, &v.runs)
}

// room forgets keys that do not hold any more. It returns how long it takes until there is room for another one.
func (v *startedRuns) room(now time.Time) time.Duration {
	v.mu.Lock()
	defer v.mu.Unlock()
	n := len(v.runs)
	v.runs = slices.DeleteFunc(v.runs, func(r startedRun) bool { return now.Sub(time.Unix(r.At, 0)) > keyTime })
	if len(v.runs) != n {
		v.data = nil
	}
	if len(v.runs) < maxStarted {
		return 0
	}
	return time.Unix(v.runs[0].At, 0).Add(keyTime).Sub(now) + time.Second
}

func hashOf(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:16])
}

func (v *startedRuns) find(key string) (startedRun, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	i := slices.IndexFunc(v.runs, func(r startedRun) bool { return r.Key == key })
	if i < 0 {
		return startedRun{}, false
	}
	return v.runs[i], true
}

// put notes a run, in the place of what was noted of its key.
func (v *startedRuns) put(r startedRun) {
	v.mu.Lock()
	defer v.mu.Unlock()
	r.At = time.Now().Unix()
	v.runs = append(slices.DeleteFunc(v.runs, func(o startedRun) bool { return o.Key == r.Key }), r)
	v.data = nil
}

func (v *startedRuns) remove(key string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.runs = slices.DeleteFunc(v.runs, func(r startedRun) bool { return r.Key == key })
	v.data = nil
}

// settle is called when the session is opened. A run that had not told its id began if it is the pending one.
func (v *startedRuns) settle(c *conversation) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.data = nil
	v.runs = slices.DeleteFunc(v.runs, func(r startedRun) bool { return r.Run == "" && c.rt.Session.Pending() == nil })
	for i := range v.runs {
		if v.runs[i].Run == "" {
			v.runs[i].Run = c.rt.Session.Pending().Run
		}
	}
}

// failures say why the newest runs have failed, which no fact of the journal tells. It is a value of the session.
type failures struct {
	mu   sync.Mutex
	list []failure // the oldest first
}

type failure struct {
	Run     string   `json:"run"`
	Problem *problem `json:"problem"`
}

const maxFailures = 64

// MarshalJSON implements [session.Value].
func (v *failures) MarshalJSON() ([]byte, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return json.Marshal(v.list)
}

// UnmarshalJSON implements [session.Value].
func (v *failures) UnmarshalJSON(data []byte) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	return json.Unmarshal(data, &v.list)
}

func (v *failures) put(run string, why *problem) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.list = append(slices.Clone(v.list[max(0, len(v.list)-maxFailures+1):]), failure{run, why})
}

// of returns why a run has failed, or nil.
func (v *failures) of(run string) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, f := range slices.Backward(v.list) {
		if f.Run == run {
			return f.Problem
		}
	}
	return nil
}
