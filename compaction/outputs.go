package compaction

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/lru"
	"github.com/aycoder/aycoder/internal/whole"
)

// Store keeps whole outputs of tools. It must be safe for concurrent use, and it must be bounded: it
// may let go of what it was given first.
type Store interface {
	// Put stores an output of at most a few megabytes. Equal keys have equal data.
	Put(ctx context.Context, key string, data []byte) error
	// Get returns an output. If the store has let it go, errors.Is(err, fs.ErrNotExist) is true.
	Get(ctx context.Context, key string) ([]byte, error)
}

// WithStore sets where [Compactor.KeepOutput] keeps outputs that belong to no session: the runs of a
// Session of package session keep theirs in the session. Default: [MemoryStore](64 MiB).
func WithStore(s Store) Option {
	return func(c *config) error {
		c.store = s
		return optionError("WithStore", s != nil, errNil)
	}
}

const maxStored = 64 << 20

// MemoryStore returns a store that keeps up to a number of bytes in memory. It lets go of the outputs
// first that were not used for the longest time.
func MemoryStore(most int64) Store { return memoryStore{lru.New(most)} }

type memoryStore struct{ cache *lru.Cache }

// Put implements [Store].
func (s memoryStore) Put(_ context.Context, key string, data []byte) error {
	if !s.cache.Put(key, data) {
		return fmt.Errorf("keep %d bytes: there is no room", len(data))
	}
	return nil
}

// Get implements [Store].
func (s memoryStore) Get(_ context.Context, key string) ([]byte, error) {
	if data, ok := s.cache.Get(key); ok {
		return data, nil
	}
	return nil, fmt.Errorf("output %q: %w", key, fs.ErrNotExist)
}

const pointer = "\n[The whole output has %d bytes; recall returns it for the id %q.]\n"

// KeepOutput keeps the whole of an output that is too large for the model: see
// [aycoder.WithWholeOutputs]. The output names the id by which the tool of [Compactor.Recall] returns
// it, in the same conversation and as long as it is kept. Without that tool, nothing is kept.
func (c *Compactor) KeepOutput(ctx context.Context, out *aycoder.ToolOutput) string {
	text := out.Text()
	if !c.recall.Load() || text == "" {
		return ""
	}
	key, data := whole.Key(out.ID, text), "t"+text
	if out.Untrusted {
		data = "u" + text
	}
	for _, s := range c.stores(ctx) {
		if s.Put(ctx, key, []byte(data)) == nil {
			return fmt.Sprintf(pointer, len(text), key)
		}
	}
	return ""
}

// stores returns where outputs are kept, the best place first.
func (c *Compactor) stores(ctx context.Context) []Store {
	if s := whole.From(ctx); s != nil {
		return []Store{s, c.store}
	}
	return []Store{c.store}
}

// kept returns the key and the size of the whole of an output, if it was kept.
func kept(o *aycoder.ToolOutput) (key string, size int) {
	for _, p := range o.Parts {
		if t, ok := p.(*aycoder.Text); ok {
			if n, _ := fmt.Sscanf(t.Text, pointer, &size, &key); n == 2 {
				return key, size
			}
		}
	}
	return "", 0
}

var errGone = errors.New("is not kept any more")

// maxRecalled is how many bytes of outputs are in memory, because the model reads them page by page.
const maxRecalled = 8 << 20

// whole returns the whole of an output.
func (c *Compactor) whole(ctx context.Context, key string, size int) (found, error) {
	data, ok := c.wholes.Get(key)
	for _, s := range c.stores(ctx) {
		if !ok {
			data, _ = s.Get(ctx, key)
			ok = len(data) == size+1
		}
	}
	if ctx.Err() != nil {
		return found{}, context.Cause(ctx)
	}
	if !ok {
		return found{}, errGone
	}
	c.wholes.Put(key, data)
	return found{text: string(data[1:]), untrusted: data[0] == 'u'}, nil
}
