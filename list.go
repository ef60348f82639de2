package aycoder

import (
	"bytes"
	"encoding/json"
	"slices"
	"sync"

	"github.com/aycoder/aycoder/internal/callid"
	"github.com/aycoder/aycoder/internal/persist"
)

// A transcript is a list of messages that knows the ids of its calls.
type transcript struct {
	persist.List[*Message]
	ids *callIDs
}

// callIDs holds the place of each call id. Lists of different lengths share a callIDs: an id
// belongs to a list if its place is within the length of the list.
type callIDs struct {
	past *past // of the messages, if there are many

	mu    sync.Mutex
	at    map[string]callPlace // nil if there are none
	gone  []byte               // those of the calls for which outlines stand, see package callid
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

// newTranscript makes a transcript of messages. If ids is not nil, it already contains their calls, and the
// transcript may append to messages, which nobody changes.
func newTranscript(messages []*Message, ids *callIDs) transcript {
	if ids != nil {
		return transcript{persist.Own(messages), ids}
	}
	ids = newCallIDs(messages)
	for i, m := range messages {
		ids.note(i, m.Parts...)
	}
	return transcript{persist.New(messages), ids}
}

func (t transcript) append(m *Message) transcript {
	next := transcript{t.List.Append(m), t.ids}
	if !next.Continues(t.List) { // a second branch starts here: it needs separate ids
		return newTranscript(next.Items, nil)
	}
	t.ids.note(len(t.Items), m.Parts...)
	return next
}

func (t transcript) has(id string) bool { return t.ids.has(id, len(t.Items)) }

// hasCall reports whether parts of a message have a call, or an outline for one.
func hasCall(parts []Part, id string) bool {
	return slices.ContainsFunc(parts, func(p Part) bool {
		switch p := p.(type) {
		case *ToolUse:
			return p.ID == id
		case *Opaque:
			var ids callIDs
			ids.outlined(p)
			return callid.Has(ids.gone, id)
		}
		return false
	})
}

func (c *callIDs) note(i int, parts ...Part) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.put(i, parts)
}

func (c *callIDs) put(i int, parts []Part) {
	for _, p := range parts {
		switch p := p.(type) {
		case *ToolUse:
			put(&c.at, p.ID, callPlace{item: int32(i)})
		case *Opaque:
			c.outlined(p)
		}
	}
}

// outlined notes the calls for which an outline stands.
func (c *callIDs) outlined(o *Opaque) {
	var m mark
	if o.Provider == markProvider && bytes.HasPrefix(o.Raw, []byte(`{"calls":`)) && json.Unmarshal(o.Raw, &m) == nil {
		c.gone = m.Calls
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
	return ok && int(p.item) < n || callid.Has(c.gone, id)
}
