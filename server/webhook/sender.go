package webhook

import (
	"bytes"
	"cmp"
	"container/heap"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"math"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/aycoder/aycoder/internal/flock"
	"github.com/aycoder/aycoder/internal/late"
	"github.com/aycoder/aycoder/internal/mask"
	"github.com/aycoder/aycoder/internal/publicnet"
	"github.com/aycoder/aycoder/internal/regular"
	"github.com/aycoder/aycoder/internal/replace"
)

// ErrFull is the error of an event that an endpoint does not get because too many deliveries wait for it. Other endpoints
// do get it.
var ErrFull = errors.New("too many webhooks wait to be delivered")

// ErrBusy is the error of a directory from which another process sends.
var ErrBusy = errors.New("another process sends the webhooks of this directory")

// Options configure a [Sender].
type Options struct {
	// Limit is how many deliveries may wait for each endpoint, and how many failed ones of each are kept. So an endpoint that
	// does not answer takes no room from others. Default: 10,000.
	Limit int
	// Mask hides secrets in a text. Default: a masker for secrets that can be told by their form. A host whose
	// tools share a masker passes its method Mask, so that a secret has the same placeholder everywhere.
	Mask func(string) string
	// Transport sends requests in place of the one that dials public addresses only, for tests and for
	// hosts with their own gateway.
	Transport http.RoundTripper
	// Logger reports failed deliveries. Default: none.
	Logger *slog.Logger
}

// An Endpoint is where events are sent to.
type Endpoint struct {
	// ID names the endpoint: 1 to 64 letters, digits, "_" and "-". Deliveries that wait are for this name, and survive
	// a restart.
	ID  string
	URL string
	// Types are the types of events that the endpoint gets; "tool.*" means all that begin with "tool.". None
	// means all.
	Types []string
	// Secrets are one or two keys that sign each request, as "whsec_" and 24 to 64 bytes in base64. To replace one
	// without losing an event, register the endpoint with both until the receiver knows the new one.
	Secrets []string
	// Content says that the endpoint also gets texts, arguments, outputs and commands.
	Content bool
	// AllowPrivate permits a URL on this machine or in a private network, and one with http.
	AllowPrivate bool
	// Disabled says that nothing is sent: not what happens now, and what waits only when it is registered again.
	// An endpoint that answers with status 410 (Gone) is disabled by the [Sender].
	Disabled bool
}

// wants reports whether the endpoint gets events of a type.
func (e *Endpoint) wants(typ string) bool {
	return !e.Disabled && (len(e.Types) == 0 || slices.ContainsFunc(e.Types, func(t string) bool {
		prefix, all := strings.CutSuffix(t, "*")
		return t == typ || all && strings.HasPrefix(typ, prefix)
	}))
}

// An Event is something that has happened.
type Event struct {
	// ID is the webhook-id. An event with the ID of one that waits is not sent again. Default: a new one.
	ID string
	// Type is one of this package or the host's own: words of letters, digits and "_", with "." between them.
	Type string
	// Time is when it happened. Default: now.
	Time time.Time
	// Data encodes as a JSON object. Content does so, too: it becomes the key "content" of the data for endpoints
	// that want it.
	Data, Content any
}

// A Delivery is an event for an endpoint.
type Delivery struct {
	ID       string    `json:"id"` // the webhook-id
	Endpoint string    `json:"endpoint"`
	Type     string    `json:"type"`
	Created  time.Time `json:"created"`
	// Error says why the last try failed. Attempts counts the tries of this process.
	Error    string `json:"error,omitempty"`
	Attempts int    `json:"-"`

	next time.Time // of the next try
	ends time.Time // when it is given up
	turn int       // in the queue of its endpoint
}

// stored is the file of a delivery.
type stored struct {
	Version int `json:"version"`
	Delivery
	Body json.RawMessage `json:"body"`
}

// file returns the name of its file. Names sort by time, as IDs do.
func (d *Delivery) file() string { return d.ID + "." + d.Endpoint + ".json" }

const (
	giveUp       = 3 * 24 * time.Hour
	firstPause   = 5 * time.Second
	longestPause = 8 * time.Hour
	// longestRest bounds for how long an endpoint is left alone, so that it gets what waits soon after it is back.
	longestRest = 5 * time.Minute
	requestTime = 15 * time.Second
	maxBody     = 1 << 20 // of a file
)

// idOrName is what IDs of events and endpoints look like. They become parts of file names, and a "." would
// make the signed text ambiguous.
var idOrName = late.Regexp(`^[A-Za-z0-9_-]{1,64}$`)

// eventType is what types look like.
var eventType = late.Regexp(`^[A-Za-z0-9_]+(\.[A-Za-z0-9_]+)*$`)

// Sender sends events. It is safe for concurrent use.
type Sender struct {
	o               Options
	dir             string
	public, private *http.Client
	lock            *os.File

	mu              sync.Mutex
	endpoints       map[string]*endpoint
	waiting, failed box
	sweeps          time.Time     // when one of those that wait may have to be given up
	changed         chan struct{} // wakes Run
	last            time.Time     // in an ID
}

// endpoint is a registered endpoint.
type endpoint struct {
	Endpoint
	keys  [][]byte
	busy  bool      // with a request
	fails int       // in a row
	rests time.Time // until when
}

// Open returns a sender that keeps what waits in a directory, which it makes if it is missing. Only one sender
// may use the directory: the error is [ErrBusy] if another one does. Deliveries that waited when the last
// sender ended are made when their endpoint is registered and [Sender.Run] runs.
func Open(dir string, o Options) (_ *Sender, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("open webhooks in %s: %w", dir, err)
		}
	}()
	o.Limit = cmp.Or(max(o.Limit, 0), 10_000)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Mask == nil {
		o.Mask = mask.New().Excerpt
	}
	s := &Sender{o: o, dir: dir, endpoints: map[string]*endpoint{}, changed: make(chan struct{}, 1),
		waiting: newBox(), failed: newBox()}
	s.public, s.private = o.client(publicnet.Control), o.client(nil)
	if err := os.MkdirAll(s.failedDir(), 0o700); err != nil {
		return nil, err
	}
	if s.lock, err = lock(filepath.Join(dir, "lock")); err != nil {
		return nil, err
	}
	err = s.read(s.failedDir(), s.failed.put)
	if err == nil {
		err = s.read(dir, func(d *Delivery) {
			if s.failed.all[d.file()] != nil { // given up, but not yet removed
				_ = os.Remove(filepath.Join(dir, d.file()))
				return
			}
			s.wait(d)
		})
	}
	if err != nil {
		return nil, errors.Join(err, s.lock.Close())
	}
	return s, nil
}

// client returns a client whose connections have a control, unless the host has its own transport.
func (o *Options) client(control func(network, address string, c syscall.RawConn) error) *http.Client {
	c := &http.Client{Transport: o.Transport, Timeout: requestTime,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	if c.Transport == nil {
		d := net.Dialer{Timeout: requestTime, Control: control}
		c.Transport = &http.Transport{DialContext: d.DialContext, ForceAttemptHTTP2: true,
			MaxIdleConnsPerHost: 1, IdleConnTimeout: time.Minute, TLSHandshakeTimeout: requestTime, MaxResponseHeaderBytes: 64 << 10}
	}
	return c
}

// lock locks a file until it is closed, or returns ErrBusy.
func lock(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	ok, err := flock.Try(f)
	if err == nil && !ok {
		err = ErrBusy
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func (s *Sender) failedDir() string { return filepath.Join(s.dir, "failed") }

// read calls f with the deliveries in a directory. It removes what a killed process has left half written, and leaves
// alone what is not a delivery.
func (s *Sender) read(dir string, f func(*Delivery)) error {
	files, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, file := range files {
		name := filepath.Join(dir, file.Name())
		if strings.HasPrefix(file.Name(), partial) {
			_ = os.Remove(name)
			continue
		}
		if d, err := load(name); err != nil {
			if strings.HasSuffix(file.Name(), ".json") {
				s.o.Logger.Warn("webhook: unreadable delivery", "file", name, "error", err)
			}
		} else if d.file() == file.Name() {
			f(&d.Delivery)
		}
	}
	return nil
}

// load reads the file of a delivery.
func load(name string) (d stored, err error) {
	data, err := regular.Read(name, 2*maxBody)
	if err == nil {
		err = json.Unmarshal(data, &d)
	}
	if err == nil && d.Version != 1 {
		err = fmt.Errorf("its version is %d", d.Version)
	}
	return d, err
}

// partial begins the name of a file that is being written.
const partial = ".part-"

// store writes the file of a delivery.
func (d *stored) store(dir string) error {
	data, err := json.Marshal(d)
	if err != nil {
		return err
	}
	return replace.File(filepath.Join(dir, d.file()), partial+"*", func(f *os.File) error {
		_, err := f.Write(data)
		return err
	})
}

// Close frees the directory. Run must have ended.
func (s *Sender) Close() error {
	s.public.CloseIdleConnections()
	s.private.CloseIdleConnections()
	return s.lock.Close()
}

// Register adds an endpoint, or replaces the one with its ID.
func (s *Sender) Register(e Endpoint) error {
	one := &endpoint{Endpoint: e}
	err := e.check()
	for _, secret := range e.Secrets {
		key, bad := parseSecret(secret)
		err = cmp.Or(err, bad)
		one.keys = append(one.keys, key)
	}
	if err != nil {
		return fmt.Errorf("register the webhook endpoint %q: %w", e.ID, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.endpoints[e.ID]; old != nil {
		one.busy = old.busy
	}
	s.endpoints[e.ID] = one
	s.wake()
	return nil
}

// check checks an endpoint.
func (e *Endpoint) check() error {
	u, err := url.Parse(e.URL)
	switch {
	case !idOrName().MatchString(e.ID):
		return errors.New("the id must have 1 to 64 letters, digits, _ and -")
	case err != nil || u.Host == "" || u.User != nil || u.Fragment != "":
		return errors.New("the URL must be an absolute one, without a user")
	case u.Scheme != "https" && (u.Scheme != "http" || !e.AllowPrivate):
		return errors.New("the URL must begin with https; AllowPrivate permits http")
	case len(e.Secrets) < 1 || len(e.Secrets) > 2:
		return errors.New("there must be one secret or two")
	case !e.AllowPrivate && publicnet.Local(u.Hostname()):
		return &publicnet.BlockedError{Host: u.Hostname()}
	}
	return nil
}

// Endpoints returns the endpoints, in the order of their IDs, without secrets.
func (s *Sender) Endpoints() []Endpoint {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Endpoint
	for _, id := range slices.Sorted(maps.Keys(s.endpoints)) {
		e := s.endpoints[id].Endpoint
		e.Secrets = nil
		out = append(out, e)
	}
	return out
}

// Disable disables an endpoint. It reports whether there is one with the ID.
func (s *Sender) Disable(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.endpoints[id]
	if e != nil {
		e.Disabled = true
	}
	return e != nil
}

// Waiting returns the deliveries that have not been made. The oldest is first.
func (s *Sender) Waiting() []Delivery { return s.list(&s.waiting) }

// Failed returns the deliveries that were given up: after three days, or since the endpoint is gone. The oldest is first.
func (s *Sender) Failed() []Delivery { return s.list(&s.failed) }

func (s *Sender) list(b *box) []Delivery {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Delivery
	for _, name := range slices.Sorted(maps.Keys(b.all)) {
		out = append(out, *b.all[name])
	}
	return out
}

// Retry lets a failed delivery wait again, for another three days. It reports whether there is one.
func (s *Sender) Retry(d Delivery) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := d.file()
	known := s.failed.all[name]
	if known == nil {
		return false, nil
	}
	from := filepath.Join(s.failedDir(), name)
	one, err := load(from)
	if err != nil {
		return true, err
	}
	one.Created, one.Error = time.Now(), ""
	if err := one.store(s.dir); err != nil {
		return true, err
	}
	if err := os.Remove(from); err != nil { // while both are there, it counts as given up
		return true, err
	}
	s.failed.remove(known)
	s.wait(&one.Delivery)
	s.wake()
	return true, nil
}

// Send stores an event for each endpoint that wants it, and returns its ID. It does not wait for the delivery. If too many
// deliveries wait for some endpoints, the others get the event, and the error is [ErrFull]. After another error, some endpoints
// may get the event.
func (s *Sender) Send(ev Event) (id string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	ev.ID = cmp.Or(ev.ID, s.newID(now))
	ev.Time = cmp.Or(ev.Time, now)
	defer func() {
		if err != nil {
			err = fmt.Errorf("send the webhook %s: %w", ev.Type, err)
		}
	}()
	if !eventType().MatchString(ev.Type) || !idOrName().MatchString(ev.ID) {
		return ev.ID, errors.New("the type or the id has wrong characters")
	}
	defer s.wake() // also after an error, for what was stored
	var full []error
	for _, name := range slices.Sorted(maps.Keys(s.endpoints)) {
		e := s.endpoints[name]
		d := stored{Version: 1, Delivery: Delivery{ID: ev.ID, Endpoint: name, Type: ev.Type, Created: now}}
		if !e.wants(ev.Type) || s.waiting.all[d.file()] != nil {
			continue
		}
		if len(s.waiting.of(name)) >= s.o.Limit {
			full = append(full, fmt.Errorf("%w to the endpoint %s", ErrFull, name))
			continue
		}
		if d.Body, err = s.body(ev, e.Content); err != nil {
			return ev.ID, err
		}
		if err := d.store(s.dir); err != nil {
			return ev.ID, err
		}
		if old := s.failed.all[d.file()]; old != nil { // while both are there, it counts as given up
			if err := os.Remove(filepath.Join(s.failedDir(), d.file())); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return ev.ID, err
			}
			s.failed.remove(old)
		}
		s.wait(&d.Delivery)
	}
	return ev.ID, errors.Join(full...)
}

// newID returns an ID that no other event has. IDs sort in the order of the events.
func (s *Sender) newID(now time.Time) string {
	if !now.After(s.last) {
		now = s.last.Add(1)
	}
	s.last = now
	return fmt.Sprintf("msg_%016x%s", now.UnixNano(), rand.Text())
}

// body returns the body of the requests for an event.
func (s *Sender) body(ev Event, content bool) (json.RawMessage, error) {
	data, err := s.masked(ev.Data)
	if err == nil && content && ev.Content != nil {
		data["content"], err = s.masked(ev.Content)
	}
	if err != nil {
		return nil, err
	}
	out, err := json.Marshal(struct {
		Type      string         `json:"type"`
		Timestamp time.Time      `json:"timestamp"`
		Version   int            `json:"version"`
		Data      map[string]any `json:"data"`
	}{ev.Type, ev.Time.UTC(), 1, data})
	if err == nil && len(out) > maxBody {
		err = fmt.Errorf("it has %d bytes, and may have %d", len(out), maxBody)
	}
	return out, err
}

// masked returns v as a JSON object whose strings are masked.
func (s *Sender) masked(v any) (map[string]any, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	out := map[string]any{}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := d.Decode(&out); err != nil {
		return nil, fmt.Errorf("the data is not an object: %w", err)
	}
	if out == nil {
		out = map[string]any{}
	}
	mask.JSON(out, s.o.Mask)
	return out, nil
}

func (s *Sender) wake() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// Run delivers until the context ends, one request at a time to each endpoint. Then it waits for the requests that
// it has begun, which end with the context, and returns the context's error.
func (s *Sender) Run(ctx context.Context) error {
	var requests sync.WaitGroup
	defer requests.Wait()
	for {
		wait := s.begin(func(e *endpoint, d *Delivery) {
			requests.Go(func() { s.deliver(ctx, e, d) })
		})
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-s.changed:
			timer.Stop()
		case <-timer.C:
		}
	}
}

// begin begins the deliveries that are due, and returns in how long the next one is. It looks at the first one of each queue.
func (s *Sender) begin(deliver func(*endpoint, *Delivery)) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if !now.Before(s.sweeps) {
		s.sweep(now)
	}
	wait := min(time.Hour, s.sweeps.Sub(now))
	for name, e := range s.endpoints {
		q := s.waiting.of(name)
		if e.Disabled || e.busy || len(q) == 0 {
			continue
		}
		d := q[0]
		due := d.next
		if e.rests.After(due) {
			due = e.rests
		}
		if due.After(now) {
			wait = min(wait, due.Sub(now))
			continue
		}
		e.busy = true
		deliver(e, d)
	}
	return wait
}

// wait puts a delivery into the queues. The lock is held.
func (s *Sender) wait(d *Delivery) {
	d.ends = d.Created.Add(giveUp)
	if d.ends.Before(s.sweeps) {
		s.sweeps = d.ends
	}
	s.waiting.put(d)
}

// sweep gives up what has waited for too long, and finds out when to look again. The lock is held.
func (s *Sender) sweep(now time.Time) {
	s.sweeps = now.Add(giveUp)
	for _, d := range s.waiting.all {
		if !d.ends.After(now) {
			s.giveUp(d, now)
		}
		if d.ends.After(now) && d.ends.Before(s.sweeps) {
			s.sweeps = d.ends
		}
	}
}

// giveUp keeps a delivery as a failed one, in place of the oldest of its endpoint if there are too many. If it cannot be
// kept, it goes on waiting for a while. The lock is held.
func (s *Sender) giveUp(d *Delivery, now time.Time) {
	name := d.file()
	s.o.Logger.Warn("webhook given up", "endpoint", d.Endpoint, "id", d.ID, "type", d.Type, "error", d.Error)
	one, err := load(filepath.Join(s.dir, name))
	if err == nil {
		one.Delivery = *d
		err = one.store(s.failedDir())
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.o.Logger.Error("webhook: cannot keep a failed delivery", "file", name, "error", err)
		d.ends = now.Add(longestRest)
		return
	}
	s.remove(d)
	d.next = time.Time{}
	s.failed.put(d)
	for len(s.failed.of(d.Endpoint)) > s.o.Limit {
		oldest := s.failed.of(d.Endpoint)[0]
		s.failed.remove(oldest)
		_ = os.Remove(filepath.Join(s.failedDir(), oldest.file()))
	}
}

// remove forgets a delivery that waits. If its file cannot be removed, it is made once more after a restart.
func (s *Sender) remove(d *Delivery) {
	name := d.file()
	s.waiting.remove(d)
	if err := os.Remove(filepath.Join(s.dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.o.Logger.Error("webhook: cannot remove a delivery", "file", name, "error", err)
	}
}

// deliver tries a delivery.
func (s *Sender) deliver(ctx context.Context, e *endpoint, d *Delivery) {
	status, after, err := s.post(ctx, e, d)
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.wake()
	replaced := false
	if now := s.endpoints[e.ID]; now != nil {
		e, replaced = now, now != e // it may have been registered again meanwhile
	}
	e.busy = false
	if s.waiting.all[d.file()] != d {
		return // it was given up meanwhile
	}
	switch {
	case err == nil:
		e.fails, e.rests = 0, time.Time{}
		s.remove(d)
	case ctx.Err() != nil:
	case status == http.StatusGone && !replaced: // the address that it has now may be another one
		d.Error = err.Error()
		e.Disabled = true
		s.giveUp(d, time.Now())
	default:
		now := time.Now()
		d.Attempts++
		d.Error = err.Error()
		d.next = now.Add(max(pause(d.Attempts, longestPause), after))
		heap.Fix(s.waiting.queues[d.Endpoint], d.turn)
		e.fails++
		e.rests = now.Add(min(max(pause(e.fails, longestRest), after), longestRest))
		s.o.Logger.Info("webhook not delivered", "endpoint", d.Endpoint, "id", d.ID, "type", d.Type,
			"attempt", d.Attempts, "next", d.next, "error", d.Error)
	}
}

// pause returns how long to wait after n failures: four times as long as before, up to most, and up to a fifth more
// or less, so that many senders do not come at once.
func pause(n int, most time.Duration) time.Duration {
	d := min(float64(firstPause)*math.Pow(4, float64(n-1)), float64(most))
	return time.Duration(d * (0.8 + 0.4*mathrand.Float64()))
}

// post sends the request of a delivery. After an error, it returns for how long the endpoint wants to be left alone.
func (s *Sender) post(ctx context.Context, e *endpoint, d *Delivery) (status int, after time.Duration, err error) {
	one, err := load(filepath.Join(s.dir, d.file()))
	if err != nil {
		return 0, 0, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.URL, bytes.NewReader(one.Body))
	if err != nil {
		return 0, 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "aycoder-webhook")
	sign(req.Header, e.keys, d.ID, one.Body, time.Now())
	client := s.public
	if e.AllowPrivate {
		client = s.private
	}
	resp, err := client.Do(req)
	if err != nil {
		if e, ok := errors.AsType[*url.Error](err); ok {
			err = e.Err // without the URL, which may hold a secret
		}
		return 0, 0, err
	}
	defer resp.Body.Close()
	_, _ = io.CopyN(io.Discard, resp.Body, 64<<10) // so that the connection can be used again
	if resp.StatusCode/100 == 2 {
		return resp.StatusCode, 0, nil
	}
	if n, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && n > 0 {
		after = min(time.Duration(n)*time.Second, longestPause)
	}
	return resp.StatusCode, after, errors.New("the endpoint answered " + resp.Status)
}
