package compaction

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/part"
)

// ServerCompactor is an optional ability of an [aycoder.ModelClient], which [aycoder.As] finds: its
// service can compact a conversation while it answers. See [WithServer].
type ServerCompactor interface {
	// CompactFrom returns the field of [aycoder.Request].Extra that lets the service compact requests
	// with more than a number of tokens, or with more than its own default if that is 0. The name is
	// empty if the service cannot do so for the named model. An empty model means the client's default.
	// Whether it is empty does not depend on the number.
	CompactFrom(model string, tokens int64) (name string, value json.RawMessage)
	// CompactedBy reports whether a part of an answer takes the place of everything before it, in
	// requests with that field. It also returns the summary in it, or "" if only the service can read it.
	CompactedBy(part *aycoder.Opaque) (summary string, ok bool)
}

// WithServer lets the service of the model compact the conversation where it can, which is when a
// request has more than 70 % of the budget: see [ServerCompactor]. The first request of the user,
// pinned messages and all that comes after the service's summary stay. The next request announces it
// with an [aycoder.Compacted], whose Usage is empty: its tokens count as those of the answer. With any
// other service, or if the service leaves too much, the Compactor works as without this option. A
// client of another provider gets the messages from before the summary again, so all of them stay in
// memory, also with WithCompactor of package session. But a client that answers in the place of the first
// one, as in Fallback of package middleware, gets neither them nor the summary. The option replaces the
// service's field in Extra of the request, if a builder has set it. Default: false.
func WithServer(use bool) Option {
	return func(c *config) error {
		c.server = use
		return nil
	}
}

// A service is what the service of a client does for a conversation.
type service struct {
	ServerCompactor
	provider string
	field    string // or "" if it does nothing
	value    json.RawMessage
	searched int   // messages that were searched for summaries of the service
	saved    int64 // tokens, by the summary that is not announced yet
}

// serve lets the service of the client compact this request, if it can. It takes over what the service
// has compacted in its answers since the request before, and reports whether that was anything.
func (b *build) serve() bool {
	if b.saved = 0; b.client != nil { // there is none between two runs
		before := b.service
		b.service = b.serviceOf()
		if b.provider != before.provider || b.field != before.field {
			b.load()
		} else {
			b.searched = before.searched
		}
	}
	if b.field == "" {
		return false
	}
	from := max(b.head, b.note.At, b.searched)
	b.searched = len(b.messages)
	for i := len(b.messages) - 1; i >= from; i-- {
		if block, summary := b.block(b.messages[i]); block != nil {
			b.take(i, summary)
			return true
		}
	}
	return false
}

// serviceOf returns what the service of the client does for a conversation.
func (b *build) serviceOf() service {
	s, ok := aycoder.As[ServerCompactor](b.client)
	if !ok || !b.bounds.server {
		return service{}
	}
	name, value := s.CompactFrom(b.model.Name, b.budget*7/10)
	if name == "" {
		return service{}
	}
	return service{ServerCompactor: s, provider: b.model.Provider, field: name, value: value}
}

// take makes the note say that the block in message i replaces what is before it.
func (b *build) take(i int, summary string) {
	was, before := b.note, b.estimate(b.out...)
	old := b.messages[max(b.head, was.From):i]
	if b.force == nil && b.commanded() { // a command after it is still to be done
		b.force = new(string)
	}
	b.note.Version, b.note.At = noteVersion, len(b.messages)
	b.replace(i, summary, true)
	b.note.Untrusted = was.Untrusted || slices.ContainsFunc(old, part.Untrusted)
	b.note.Kept = b.kept(&was, i)
	b.render()
	b.saved = before - b.estimate(b.out...)
}

// declare returns the request with the field that the service needs. It also needs the field to
// accept its own summaries.
func (b *build) declare(req *aycoder.Request) *aycoder.Request {
	if b.field == "" {
		return req
	}
	sent := *req
	sent.Extra = maps.Collect(maps.All(req.Extra))
	sent.Extra[b.field] = b.value
	return &sent
}

// block returns the last part of a message that takes the place of everything before it, or nil, and the
// summary in it.
func (s *service) block(m *aycoder.Message) (block *aycoder.Opaque, summary string) {
	if s.field == "" || m.Role != aycoder.RoleAssistant {
		return nil, ""
	}
	for _, p := range m.Parts {
		if o, is := p.(*aycoder.Opaque); is && o.Provider != part.Loop {
			if text, ok := s.CompactedBy(o); ok {
				block, summary = o, text
			}
		}
	}
	return block, summary
}

// compacted reports whether the service has replaced what was before a message.
func (s *service) compacted(m *aycoder.Message) bool {
	block, _ := s.block(m)
	return block != nil
}

// opening begins a request with the summary of the service. The messages from before it that stay come
// behind it, because the service ignores everything in front, and none of them has such a part.
func (v *conversation) opening() []*aycoder.Message {
	block, _ := v.block(v.messages[v.note.From])
	return []*aycoder.Message{{Role: aycoder.RoleAssistant, Parts: []aycoder.Part{block}}, aycoder.User(
		"[The summary above replaces older messages of this conversation. Files that it names have to be read again before they " +
			"are edited. The messages of the user between here and your next answer are older ones, kept word for word.]")}
}
