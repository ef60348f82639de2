package middleware

import (
	"context"
	"iter"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/part"
)

// CacheStore stores the answers of a [Cache]. The implementations in this package are
// [MemoryStore] and [DirStore]; a host can implement it with a database. An implementation must
// be safe for concurrent use, and may drop any entry at any time. Keys have 64 hexadecimal
// digits.
type CacheStore interface {
	// Load returns the data that was stored under key, and whether there is any. Neither the
	// cache nor the store may change the data afterwards.
	Load(ctx context.Context, key string) ([]byte, bool, error)
	// Store stores data under key, and replaces any data that was there. Neither the cache nor
	// the store may change the data afterwards.
	Store(ctx context.Context, key string, data []byte) error
}

// CacheOptions configures [Cache]. The zero value selects the defaults.
type CacheOptions struct {
	// Namespace separates answers that must not be mixed although provider, model and request are
	// the same: for example the answers of different users, of different base URLs, or of clients
	// that do not implement [aycoder.ModelNamer]. Default: "".
	Namespace string
	// Skip reports whether a request bypasses the cache: the request is always sent, and its
	// answer is not stored. Skip must be safe for concurrent use. Default: no request bypasses
	// the cache.
	Skip func(*aycoder.Request) bool
	// KeepUsage makes an answer from the cache report the usage of the original request. Default:
	// false, which reports a usage of zero, since no tokens were used.
	KeepUsage bool
	// MaxAnswer is the size in bytes up to which an answer is stored. Default: 8 MiB.
	MaxAnswer int
	// Logger gets a warning for each corrupt entry and each error of the store; these never make
	// a request fail. Answers from the cache are logged at debug level. Default: nothing is
	// logged.
	Logger *slog.Logger
}

const defaultMaxAnswer = 8 << 20

// patience is the interval at which a waiting request looks at the request that was sent. If the
// consumer of that request has not moved from one look to the next, the waiting request is sent
// itself: it must not depend on the loop body of another caller.
const patience = time.Second

// Cache answers a repeated request with the stored answer of the first one. Two requests are
// equal if provider, model and [CacheOptions.Namespace] are the same, and if the model sees the
// same content. [aycoder.Request.NoCache] and [aycoder.ToolSpec.Effect] may differ.
//
// An answer from the cache has the events of the original answer in the same order, but adjacent
// deltas may be joined. Only complete answers are stored: those that ended with an
// [aycoder.MessageDone]. Errors are not stored. An answer from the cache reports a usage of zero,
// so that the sum of all usages is what the provider charges (see [CacheOptions.KeepUsage]).
//
// If the same request is already being sent, a second one waits for its answer and gets the same
// answer or error. If the first request is cancelled, or its consumer leaves the loop or pauses
// for more than a second, one of the waiting requests is sent instead.
//
// Put Cache inside of a [Fallback]. Otherwise an answer of another client would be stored as an
// answer of the first client. Put Cache outside of all middleware except Fallback. For example, a
// [RateLimit] inside of Cache delays only the requests that are really sent.
//
// A corrupt entry in the store is logged, ignored and replaced. Cache panics if store is nil.
func Cache(store CacheStore, o CacheOptions) aycoder.ModelMiddleware {
	if store == nil {
		panic("middleware: Cache without a store")
	}
	if o.MaxAnswer <= 0 {
		o.MaxAnswer = defaultMaxAnswer
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	flights := &flights{open: map[string]*flight{}}
	return wrap("Cache",
		func(w wrapper) aycoder.ModelClient { return &cache{w, o, store, flights} })
}

type cache struct {
	wrapper
	CacheOptions
	store   CacheStore
	flights *flights
}

// Stream implements [aycoder.ModelClient].
func (c *cache) Stream(ctx context.Context, req *aycoder.Request) iter.Seq2[aycoder.ModelEvent,
	error] {
	return part.Once(func(yield yieldFunc) { c.stream(ctx, req, yield) })
}

func (c *cache) stream(ctx context.Context, req *aycoder.Request, yield yieldFunc) {
	if c.Skip != nil && c.Skip(req) {
		c.pass(ctx, req, yield)
		return
	}
	key, err := c.key(req)
	if err != nil {
		c.Logger.WarnContext(ctx, "request is not cached", "error", err)
		c.pass(ctx, req, yield)
		return
	}
	for ctx.Err() == nil {
		f, first := c.flights.join(key)
		if first {
			c.lead(ctx, f, req, yield)
			return
		}
		if !c.flights.wait(ctx, f) {
			continue
		}
		if f.err != nil {
			yield(nil, f.err)
			return
		}
		c.replay(ctx, f, yield)
		return
	}
	yield(nil, c.cancelled(ctx, "wait for the answer to the same request"))
}

// pass sends a request without using the cache.
func (c *cache) pass(ctx context.Context, req *aycoder.Request, yield yieldFunc) {
	if t := forward(ctx, c.next, req, yield); t.err != nil {
		yield(nil, t.err)
	}
}

// lead answers from the store, or sends the request for all requests that wait for the same
// answer.
func (c *cache) lead(ctx context.Context, f *flight, req *aycoder.Request, yield yieldFunc) {
	defer c.flights.end(f)
	if events := c.load(ctx, f.key); events != nil {
		f.land(events, nil)
		c.replay(ctx, f, yield)
		return
	}
	rec := &recording{max: c.MaxAnswer}
	t := forward(ctx, c.next, req, func(ev aycoder.ModelEvent, err error) bool {
		rec.add(ev)
		if _, ok := ev.(*aycoder.MessageDone); ok && !rec.over {
			f.land(rec.events, nil)
			c.keep(ctx, f)
		}
		f.steps.Add(1)
		defer f.steps.Add(1)
		return yield(ev, err)
	})
	if t.err == nil {
		return
	}
	if ctx.Err() == nil { // otherwise the error concerns only this request
		f.land(nil, t.err)
	}
	yield(nil, t.err)
}

func (c *cache) load(ctx context.Context, key string) []aycoder.ModelEvent {
	data, ok, err := c.store.Load(ctx, key)
	if err != nil {
		c.Logger.WarnContext(ctx, "load cached answer", "key", key, "error", err)
		return nil
	}
	if !ok {
		return nil
	}
	events, err := decodeAnswer(key, data)
	if err != nil {
		c.Logger.WarnContext(ctx, "cached answer is corrupt", "key", key, "error", err)
		return nil
	}
	c.Logger.DebugContext(ctx, "answer from the cache", "key", key)
	return events
}

func (c *cache) keep(ctx context.Context, f *flight) {
	data, err := encodeAnswer(f.key, f.events)
	if err == nil {
		err = c.store.Store(ctx, f.key, data)
	}
	if err != nil {
		c.Logger.WarnContext(ctx, "store answer", "key", f.key, "error", err)
	}
}

// replay yields the events of a stored answer.
func (c *cache) replay(ctx context.Context, f *flight, yield yieldFunc) {
	for _, ev := range f.events {
		if ctx.Err() != nil {
			yield(nil, c.cancelled(ctx, "replay answer"))
			return
		}
		if done, ok := ev.(*aycoder.MessageDone); ok && !c.KeepUsage {
			free := *done
			free.Usage, free.Cost = aycoder.Usage{}, new(0.0)
			ev = &free
		}
		if !yield(ev, nil) {
			return
		}
	}
}

// flights holds the requests that are being sent, by key.
type flights struct {
	mu   sync.Mutex
	open map[string]*flight
}

// A flight is a request that is being sent, and for whose answer other requests may wait.
type flight struct {
	key   string
	steps atomic.Uint64 // odd while the consumer of the sent request handles an event
	done  chan struct{} // closed when the flight is over

	landed bool // events or err is set, for the waiting requests
	events []aycoder.ModelEvent
	err    error
}

// join returns the flight for key, and whether the caller has to send the request.
func (fs *flights) join(key string) (*flight, bool) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if f := fs.open[key]; f != nil {
		return f, false
	}
	f := &flight{key: key, done: make(chan struct{})}
	fs.open[key] = f
	return f, true
}

// land ends the flight with an answer or an error for the waiting requests.
func (f *flight) land(events []aycoder.ModelEvent, err error) {
	f.landed, f.events, f.err = true, events, err
	close(f.done)
}

// end is called by the request that was sent. If there is neither answer nor error, the waiting
// requests try again.
func (fs *flights) end(f *flight) {
	fs.drop(f)
	if !f.landed {
		close(f.done)
	}
}

func (fs *flights) drop(f *flight) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if fs.open[f.key] == f {
		delete(fs.open, f.key)
	}
}

// wait waits for the flight, and reports whether it ended with an answer or an error. It gives up
// a flight whose consumer does not move.
func (fs *flights) wait(ctx context.Context, f *flight) bool {
	tick := time.NewTicker(patience)
	defer tick.Stop()
	for seen := uint64(0); ; {
		select {
		case <-f.done:
			return f.landed
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
		steps := f.steps.Load()
		if steps%2 == 1 && steps == seen {
			fs.drop(f)
			return false
		}
		seen = steps
	}
}
