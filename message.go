package aycoder

import (
	"bytes"
	"encoding/json"
	"strings"
	"sync/atomic"
)

// Role says who speaks in a [Message].
type Role string

// The roles. What tools put out is in user messages, as a [ToolOutput]. A system
// message in the middle of a conversation is an instruction by the host.
const (
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleSystem    Role = "system"
)

// Message is one turn of a conversation: a role and its parts. Messages and their
// parts are immutable once they were given to this package or came from it, so
// that they can be shared by goroutines and between conversations without a copy.
// A Message must not be copied by value; clone the fields instead.
//
// Its JSON form is lossless for every message that a run produced: arguments and
// opaque blocks come back with the same bytes, parts that this version does not
// know are kept. See [Message.MarshalJSON].
type Message struct {
	Role  Role
	Parts []Part

	wire atomic.Pointer[fragment]
	past atomic.Pointer[past]
	runs atomic.Int32  // that began with it and go on
	text atomic.Uint32 // 1 + the length of its text, if that was found valid
}

// A fragment is a message in one provider's wire format.
type fragment struct {
	key    any
	data   []byte
	packed bool // data is part of a block, see pack
}

// Encoded returns the wire form of m that was stored under key, or makes it with
// encode and stores it. A provider calls it with a key of its own (a pointer or a
// value that names dialect and settings) so that a request costs what is new in
// it, not the whole history. It makes key and encode once for a request, before the
// loop over its messages: a struct that becomes an any in the loop, or a method that
// becomes a func, is an allocation for each old message. One form is kept, that of
// the last key, and for how long says [WithEncodedHistory]. The bytes must not be
// changed. It is safe for concurrent use.
func (m *Message) Encoded(key any, encode func(*Message) ([]byte, error)) ([]byte, error) {
	if f := m.wire.Load(); f != nil && f.key == key {
		return f.data, nil
	}
	data, err := encode(m)
	if err != nil {
		return nil, err
	}
	if room := cap(data) - len(data); room > len(data)/8 {
		data = bytes.Clone(data) // it may be kept for as long as the message
	}
	m.wire.Store(&fragment{key: key, data: data})
	return data, nil
}

// smallHistory is how many encoded bytes are made again rather than kept: an idle agent
// holds nothing for a short conversation.
const smallHistory = 16 << 10

// hold says that a run goes on with messages.
func hold(messages []*Message) {
	for _, m := range messages {
		m.runs.Add(1)
	}
}

// release ends a run of messages, the first of which it held. What is encoded of them is
// let go of, unless another run goes on with it, or it is to be kept and is not small.
func release(messages []*Message, held int, keep bool) {
	size, loose := 0, 0
	for i, m := range messages {
		if i < held {
			m.runs.Add(-1)
		}
		if f := m.wire.Load(); f != nil {
			size += len(f.data)
			if !f.packed {
				loose += len(f.data)
			}
		}
	}
	if keep && size > smallHistory {
		if loose > size/16 {
			pack(messages)
		}
		return
	}
	for _, m := range messages {
		if m.runs.Load() == 0 {
			m.wire.Store(nil)
		}
	}
}

// packBlock is the size of the blocks that a long history is packed into. It is what a
// message may hold beside its own form when all others are gone.
const packBlock = 64 << 10

// pack moves the encoded forms of messages side by side into blocks: there they take no
// more than their length, and are quick to read.
func pack(messages []*Message) {
	for len(messages) > 0 {
		n, size := 0, 0
		for ; n < len(messages); n++ {
			f := messages[n].wire.Load()
			if f == nil || f.packed {
				continue
			}
			if size > 0 && size+len(f.data) > packBlock {
				break
			}
			size += len(f.data)
		}
		packInto(make([]byte, 0, size), messages[:n])
		messages = messages[n:]
	}
}

func packInto(block []byte, messages []*Message) {
	forms := make([]fragment, len(messages))
	for i, m := range messages {
		f := m.wire.Load()
		if f == nil || f.packed || len(f.data) > cap(block)-len(block) {
			continue
		}
		start := len(block)
		block = append(block, f.data...)
		forms[i] = fragment{f.key, block[start:len(block):len(block)], true}
		m.wire.CompareAndSwap(f, &forms[i])
	}
}

// User returns a user message of one text.
func User(text string) *Message {
	return textMessage(RoleUser, text)
}

// Assistant returns an assistant message of one text.
func Assistant(text string) *Message {
	return textMessage(RoleAssistant, text)
}

// textMessage makes a message of one text, in one piece: long histories have many.
func textMessage(role Role, text string) *Message {
	m := &struct {
		Message
		text  Text
		parts [1]Part
	}{text: Text{Text: text}}
	m.parts[0] = &m.text
	m.Role, m.Parts = role, m.parts[:]
	return &m.Message
}

// Text returns the message's visible text: its [Text] parts, one after the other.
func (m *Message) Text() string {
	if m == nil {
		return ""
	}
	var b strings.Builder
	for _, p := range m.Parts {
		if t, ok := p.(*Text); ok {
			b.WriteString(t.Text)
		}
	}
	return b.String()
}

// Calls returns the tool calls of the message, in order.
func (m *Message) Calls() []*ToolUse {
	var calls []*ToolUse
	for _, p := range m.Parts {
		if c, ok := p.(*ToolUse); ok {
			calls = append(calls, c)
		}
	}
	return calls
}

// Part is a piece of a [Message]: [*Text], [*Thinking], [*ToolUse], [*ToolOutput],
// [*Media] or [*Opaque].
type Part interface{ part() }

// Text is visible text.
type Text struct {
	Text string
	// Extra is what the provider wants back with this part (citations, a thought
	// signature), or nil.
	Extra *Opaque
}

// Thinking is what the model thought. A provider that signs it wants text and
// signature back unchanged; another provider gets neither.
type Thinking struct {
	Text      string
	Signature string
	// Provider is who wrote it, and can read Signature.
	Provider string
}

// ToolUse is the model's wish to have a tool called.
type ToolUse struct {
	// ID pairs the call with its [ToolOutput]. It is unique in a conversation.
	ID   string
	Name string
	// Args is the JSON text of the arguments as the model wrote it, "{}" where it
	// wrote nothing. It is valid JSON unless the call was cut off.
	Args json.RawMessage
	// Extra is what the provider wants back with this part, or nil.
	Extra *Opaque
}

// ToolOutput is what a tool gave back, in a user message.
type ToolOutput struct {
	// ID is that of the [ToolUse] it answers, Name its tool.
	ID, Name string
	// Parts are [Text] and [Media].
	Parts []Part
	// IsError says that the call did not do what it was to do.
	IsError bool
	// Untrusted says that the text is a stranger's, as in [ToolResult]. The provider
	// does not learn of it.
	Untrusted bool
}

// Text returns the text of the output.
func (o *ToolOutput) Text() string { return (&Message{Parts: o.Parts}).Text() }

// Media is an image, a document or a sound: either Data or a URL.
type Media struct {
	// Type is the media type, such as "image/png".
	Type string
	// Name is shown to the model where the provider has a place for it.
	Name string
	Data []byte
	URL  string
}

// Opaque is a block of a provider's own, kept as it came so that the provider can
// have it back byte for byte: redacted thinking, server-side tools and their
// results. Another provider does not get it.
type Opaque struct {
	// Provider is who understands Raw. It is empty for a part that was read from
	// stored JSON and is of a kind this version does not know.
	Provider string
	// Raw is the JSON text of the block.
	Raw json.RawMessage
}

func (*Text) part()       {}
func (*Thinking) part()   {}
func (*ToolUse) part()    {}
func (*ToolOutput) part() {}
func (*Media) part()      {}
func (*Opaque) part()     {}
