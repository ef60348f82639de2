package compaction

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"

	"github.com/aycoder/aycoder"
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
		if c.store = s; s == nil {
			return &aycoder.ConfigError{Option: "WithStore", Err: errNil}
		}
		return nil
	}
}

const maxStored = 64 << 20

// MemoryStore returns a store that keeps up to a number of bytes in memory. It lets go of the oldest
// outputs first.
func MemoryStore(most int64) Store { return &memoryStore{most: most, data: map[string][]byte{}} }

type memoryStore struct {
	most int64

	mu   sync.Mutex
	size int64
	keys []string // the oldest first
	data map[string][]byte
}

// Put implements [Store].
func (s *memoryStore) Put(_ context.Context, key string, data []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.data[key] != nil {
		return nil
	}
	if int64(len(data)) > s.most {
		return fmt.Errorf("keep %d bytes: at most %d", len(data), s.most)
	}
	s.keys, s.data[key] = append(s.keys, key), data
	for s.size += int64(len(data)); s.size > s.most; s.keys = s.keys[1:] {
		s.size -= int64(len(s.data[s.keys[0]]))
		delete(s.data, s.keys[0])
	}
	return nil
}

// Get implements [Store].
func (s *memoryStore) Get(_ context.Context, key string) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if data := s.data[key]; data != nil {
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
	err := errNil
	if s := whole.From(ctx); s != nil {
		err = s.Put(ctx, key, []byte(data))
	}
	if err != nil {
		err = c.store.Put(ctx, key, []byte(data))
	}
	if err != nil {
		return ""
	}
	return fmt.Sprintf(pointer, len(text), key)
}

// kept returns the key and the size of the whole of an output, if it was kept.
func kept(o *aycoder.ToolOutput) (key string, size int) {
	for _, p := range o.Parts {
		if t, ok := p.(*aycoder.Text); ok && strings.HasPrefix(t.Text, "\n[The whole output has ") {
			if n, err := fmt.Sscanf(t.Text, pointer, &size, &key); n < 2 && err != nil {
				key, size = "", 0
			}
		}
	}
	return key, size
}

var errGone = errors.New("is not kept any more")

// whole returns the whole of an output. It remembers the last one, which is read page by page.
func (c *Compactor) whole(ctx context.Context, key string, size int) (f found, err error) {
	c.mu.Lock()
	last := c.last
	c.mu.Unlock()
	if last.key == key {
		return last.found, nil
	}
	err = errGone
	var data []byte
	if s := whole.From(ctx); s != nil {
		data, err = s.Get(ctx, key)
	}
	if err != nil {
		data, err = c.store.Get(ctx, key)
	}
	if ctx.Err() != nil {
		return f, context.Cause(ctx)
	}
	if err != nil || len(data) != size+1 {
		return f, errGone
	}
	f = found{text: string(data[1:]), untrusted: data[0] == 'u'}
	c.mu.Lock()
	c.last.key, c.last.found = key, f
	c.mu.Unlock()
	return f, nil
}
