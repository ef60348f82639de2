package aycoder

import (
	"slices"
	"sync"
	"sync/atomic"
)

// A list is a persistent vector: append returns a longer list and leaves the receiver
// as it was. As long as only the newest list is appended to, that costs no more than an
// ordinary append. So a [State] can be a value and a step has constant cost, however
// long the history is.
type list[T any] struct {
	items []T
	// used is the length of the longest list on this backing array. The list that
	// advances it from its own length owns the next slot.
	used *atomic.Int64
}

func newList[T any](items []T) list[T] {
	l := list[T]{items: slices.Clone(items), used: new(atomic.Int64)}
	l.used.Store(int64(len(items)))
	return l
}

func (l list[T]) append(x T) list[T] {
	n := int64(len(l.items))
	if l.used == nil || !l.used.CompareAndSwap(n, n+1) {
		l.items = slices.Clip(l.items)
		l.used = new(atomic.Int64)
		l.used.Store(n + 1)
	}
	l.items = append(l.items, x)
	return l
}

// all returns the items. Appending to the result does not change the list.
func (l list[T]) all() []T { return slices.Clip(l.items) }

// A transcript is a list of messages that knows the ids of its calls.
type transcript struct {
	list[*Message]
	ids *callIDs
}

// A content is a list of parts that knows the ids of its calls.
type content struct {
	list[Part]
	ids *callIDs
}

// callIDs holds the place of each call id. Lists of different lengths share one: an id
// belongs to those lists that are long enough to include its place.
type callIDs struct {
	past *past // of the messages, if there are many

	mu    sync.Mutex
	at    map[string]callPlace // nil if there are none
	later []*Message           // whose calls are added when an id is first looked up
}

// A callPlace is the place of a call: the index of its item in the list, and its index
// among the calls of that item.
type callPlace struct{ item, call int32 }

// newCallIDs returns a callIDs with room for the calls of messages.
func newCallIDs(messages []*Message) *callIDs {
	n := 0
	for _, m := range messages {
		if m == nil {
			continue
		}
		for _, p := range m.Parts {
			if _, ok := p.(*ToolUse); ok {
				n++
			}
		}
	}
	if n == 0 {
		return &callIDs{}
	}
	return &callIDs{at: make(map[string]callPlace, n)}
}

// newTranscript makes a transcript of messages. If ids is not nil, it holds their
// calls.
func newTranscript(messages []*Message, ids *callIDs) transcript {
	if ids == nil {
		ids = newCallIDs(messages)
		for i, m := range messages {
			ids.note(i, m.Parts...)
		}
	}
	return transcript{newList(messages), ids}
}

func (t transcript) append(m *Message) transcript {
	next := transcript{t.list.append(m), t.ids}
	if next.used != t.used { // a second branch starts here: it needs separate ids
		return newTranscript(next.items, nil)
	}
	t.ids.note(len(t.items), m.Parts...)
	return next
}

func (t transcript) has(id string) bool { return t.ids.has(id, len(t.items)) }

func newContent(parts []Part) content {
	c := content{newList(parts), &callIDs{}}
	for i, p := range parts {
		c.ids.note(i, p)
	}
	return c
}

func (c content) append(p Part) content {
	next := content{c.list.append(p), c.ids}
	if next.used != c.used {
		return newContent(next.items)
	}
	c.ids.note(len(c.items), p)
	return next
}

func (c content) has(id string) bool { return c.ids.has(id, len(c.items)) }

func (c *callIDs) note(i int, parts ...Part) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.put(i, parts)
}

func (c *callIDs) put(i int, parts []Part) {
	for _, p := range parts {
		if u, ok := p.(*ToolUse); ok {
			put(&c.at, u.ID, callPlace{item: int32(i)})
		}
	}
}

// put sets an entry of a map, and makes the map for the first one.
func put[V any](m *map[string]V, key string, value V) {
	if *m == nil {
		*m = map[string]V{}
	}
	(*m)[key] = value
}

func (c *callIDs) has(id string, n int) bool {
	if c == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	later := c.later
	c.later = nil
	for i, m := range later {
		c.put(i, m.Parts)
	}
	p, ok := c.at[id]
	return ok && int(p.item) < n
}
