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

	ready chan struct{} // closed when store, and rt or err, are set
	rt    *harness.Runtime
	err   error

	mu sync.Mutex // held while a run begins, and while the tree is changed

	// The mutex of the server guards these.
	last  *run // the newest run, or nil. It has begun, unless the other mutex is held.
	users int
	used  time.Time
	idle  *time.Timer
	gone  chan struct{} // not nil while the session is being closed, and closed then
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
		return nil, false, later(http.StatusServiceUnavailable, "too_many_sessions", "all sessions that may be open are in use", 5*time.Second)
	default:
		c, mine = &conversation{s: s, principal: key.principal, id: key.id, ready: make(chan struct{})}, true
		s.table[key] = c
	}
	c.users++
	return c, mine, nil
}

// full reports whether a principal cannot open another session. If one is in the way that nobody has used for the longest time,
// it is closed. The mutex is held.
func (s *Server) full(principal string) bool {
	own := 0
	var oldest, oldestOwn *conversation
	for k, c := range s.table {
		idle := c.users == 0 && c.gone == nil
		if idle && (oldest == nil || c.used.Before(oldest.used)) {
			oldest = c
		}
		if k.principal != principal {
			continue
		}
		if own++; idle && (oldestOwn == nil || c.used.Before(oldestOwn.used)) {
			oldestOwn = c
		}
	}
	if own >= s.limits.OwnSessions {
		oldest = oldestOwn
	} else if len(s.table) < s.limits.Sessions {
		return false
	}
	if oldest != nil {
		s.closeLocked(oldest)
	}
	return oldest == nil
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
func (c *conversation) start(ctx context.Context, try, make bool) (err error) {
	defer c.caught("the host", &err)
	ctx = context.WithoutCancel(ctx) // others may wait for the same session
	store := c.s.host.Store(c.principal)
	c.s.mu.Lock()
	c.store = store
	c.s.mu.Unlock()
	open := func(id string, opts ...session.Option) error {
		rt, err := c.s.host.Open(ctx, c.principal, id, append(opts, session.WithLateCreate())...)
		if err == nil && (rt.Session == nil || rt.Session.ID() != c.id) {
			err = errors.Join(errNoSession, rt.Close())
		}
		if err == nil {
			c.rt = rt
		}
		return err
	}
	err = fs.ErrNotExist
	if try {
		err = open(c.id)
	}
	if make && errors.Is(err, fs.ErrNotExist) {
		if err = open("", session.WithID(c.id)); err == nil {
			c.s.metrics.with(c.principal, func(x *figures) { x.Sessions++ })
		}
	}
	if err == nil {
		if err = c.settle(); err != nil {
			err = errors.Join(err, c.rt.Close())
			c.rt = nil
		}
	}
	return err
}

var errNoSession = errors.New("the function Open of the host has not opened the session that it was asked for: pass the options to harness.WithStore")

// A startedRun is what is kept of a request with an Idempotency-Key: the run that it has begun. Each is a separate value of the
// session, so a key holds as long as the session.
type startedRun struct {
	Key  string `json:"key,omitempty"` // hash of the key, of a run that has not told its id
	Body string `json:"body"`          // hash of the request
	Run  string `json:"run,omitempty"`

	After string `json:"after,omitempty"` // the run that was pending when this one was to start
}

// The names of values of a session. A run is noted as starting before it has an id, so that a crash does not lose its key.
const (
	startingValue = "server starting"
	startedValue  = "server key "     // and the hash of the key
	failedValue   = "server failure " // and the run, which no fact of the journal says
)

// kept reads a value of the session, and reports whether there is one.
func (c *conversation) kept(name string, into any) bool {
	data := c.rt.Session.Value(name)
	return data != nil && json.Unmarshal(data, into) == nil
}

// keep records values of the session, and removes those that are nil.
func (c *conversation) keep(values map[string]any) error {
	all := map[string]json.RawMessage{}
	for name, v := range values {
		all[name], _ = json.Marshal(v) // texts and numbers always encode
	}
	return c.rt.Session.SetValues(context.WithoutCancel(c.s.ctx), all)
}

// settle is called when the session is opened. A run that had not told its id began if it is the pending one.
func (c *conversation) settle() error {
	var x startedRun
	if !c.kept(startingValue, &x) {
		return nil
	}
	values := map[string]any{startingValue: nil}
	if p := c.rt.Session.Pending(); p != nil && p.Run != x.After {
		values[startedValue+x.Key] = startedRun{Body: x.Body, Run: p.Run}
	}
	return c.keep(values)
}

func hashOf(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:16])
}
