package middleware

import (
	"context"
	"iter"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aycoder/aycoder"
)

// CacheStore stores the answers of a [Cache]: a [MemoryStore], a [DirStore], or a database of
// the host. Implementations must be safe for concurrent use, and may drop any entry at any
// time. Keys have 64 hexadecimal digits.
type CacheStore interface {
	// Load returns the data that was stored under key, and whether there is any. They
	// are not changed afterwards, by neither side.
	Load(ctx context.Context, key string) ([]byte, bool, error)
	// Store keeps data under key, instead of what was there. They are not changed
	// afterwards.
	Store(ctx context.Context, key string, data []byte) error
}

// CacheOptions configures [Cache]. The zero value selects the defaults.
type CacheOptions struct {
	// Namespace keeps answers apart that must not be mixed although provider, model and
	// request are the same: of users, of base URLs, of clients that are no
	// [aycoder.ModelNamer]. Default: none.
	Namespace string
	// Skip says which requests are asked anew, and their answers not kept. It is safe
	// for concurrent use. Default: none.
	Skip func(*aycoder.Request) bool
	// KeepUsage says that an answer from the cache reports the usage of the request that
	// it was the answer to. Default: false, it reports none, since nothing was used.
	KeepUsage bool
	// MaxAnswer is the size in bytes up to which an answer is kept. Default: 8 MiB.
	MaxAnswer int
	// Logger receives corrupt entries and errors of the store as warnings; they never make a
	// request fail. Answers from the cache are logged at debug level. Default: nothing is
	// logged.
	Logger *slog.Logger
}

const defaultMaxAnswer = 8 << 20

// patience is how long those who wait for the same answer let the consumer of the
// one who asks stand still, from one look at it to the next, before they ask by
// themselves.
const patience = time.Second

// Cache answers a repeated request with the stored answer of the first. Two requests are the
// same if they have the same provider, model and namespace, and if the model sees the same
// content. Differences in NoCache or in the effects of tools do not matter.
//
// An answer from the cache has the events of the original in their order, except that adjacent
// deltas may be joined. Only complete answers are stored, those that ended with an
// [aycoder.MessageDone]; errors are not. An answer from the cache reports a usage of zero, so
// that a sum of usages is what was paid for. See [CacheOptions.KeepUsage].
//
// If the same request is already under way, a second one waits for its answer, or shares its
// error. If the first is cancelled, or its consumer leaves or pauses for more than a second,
// one of the waiting requests is sent instead.
//
// Put Cache inside a [Fallback]; otherwise the answer of another client is stored as that of
// the first. Put it outside all other middleware, which is meant for requests that are sent.
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
	return once(func(yield yieldFunc) { c.stream(ctx, req, yield) })
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

// pass asks without the cache.
func (c *cache) pass(ctx context.Context, req *aycoder.Request, yield yieldFunc) {
	if t := forward(ctx, c.next, req, yield); t.err != nil {
		yield(nil, t.err)
	}
}

// lead answers from the store, or asks for all who wait for the same answer.
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
	if ctx.Err() == nil { // else it is of this request only
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

// replay yields the events of an answer.
func (c *cache) replay(ctx context.Context, f *flight, yield yieldFunc) {
	for _, ev := range f.events {
		if ctx.Err() != nil {
			yield(nil, c.cancelled(ctx, "replay answer"))
			return
		}
		if done, ok := ev.(*aycoder.MessageDone); ok && !c.KeepUsage {
			free := *done
			free.Usage = aycoder.Usage{}
			ev = &free
		}
		if !yield(ev, nil) {
			return
		}
	}
}

// flights are the requests that are on their way.
type flights struct {
	mu   sync.Mutex
	open map[string]*flight
}

// A flight is a request that others may wait for.
type flight struct {
	key   string
	steps atomic.Uint64 // odd while the consumer of the one who asks has an event
	done  chan struct{} // closed when the flight is over

	landed bool // there is something for those who wait, in:
	events []aycoder.ModelEvent
	err    error
}

// join returns the flight for key, and whether the caller is the one who asks.
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

// land ends the flight with something for those who wait.
func (f *flight) land(events []aycoder.ModelEvent, err error) {
	f.landed, f.events, f.err = true, events, err
	close(f.done)
}

// end is called by the one who asked. Those who wait for nothing try again.
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

// wait waits for the flight, and reports whether there is something in it. It gives
// up a flight whose consumer stands still.
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
