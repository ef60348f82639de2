package aycoder

import (
	"bytes"
	"encoding/json"
	"strings"
	"sync/atomic"
)

// Role is the role of the speaker of a [Message]. The values are also those of the JSON
// form; each provider's client translates them.
type Role string

// The roles of messages.
const (
	// RoleUser is the role of the user's messages, and of those that carry the outputs of
	// tools, as [ToolOutput] parts.
	RoleUser Role = "user"
	// RoleAssistant is the role of the model's messages, which hold its text, its thinking
	// and its tool calls.
	RoleAssistant Role = "assistant"
	// RoleSystem is the role of an instruction that the host adds in the middle of a
	// conversation. The system prompt itself is [Request.System].
	RoleSystem Role = "system"
)

// Message is one message of a conversation: a role and its parts. Messages and their
// parts must not be changed once they were passed to this package or came from it, so
// that goroutines and conversations can share them without a copy. A Message must not
// be copied by value; copy the fields instead.
//
// Its JSON form is lossless for every message of a run: arguments and opaque blocks
// come back byte for byte, and parts of a kind that this version does not know are
// kept. See [Message.MarshalJSON].
type Message struct {
	Role  Role
	Parts []Part

	wire atomic.Pointer[fragment]
	past atomic.Pointer[past]
	runs atomic.Int32  // number of active runs that began with it
	text atomic.Uint32 // 1 + the length of its text, if all of it is valid UTF-8
}

// A fragment is a message in one provider's wire format.
type fragment struct {
	key    any
	data   []byte
	packed bool // data is in a shared block, see pack
}

// Encoded returns the wire form of m that was stored under key. If there is none, it
// calls encode and stores the result, even an empty one. With it, a provider encodes
// only the new messages for each request, not the whole history.
//
// The key is a pointer or a value that identifies the provider's dialect and settings. Make key
// and encode once per request, before the loop over its messages: a struct that is converted to
// any inside the loop, or a method value, costs an allocation for each old message. A message
// keeps one form, that of the last key; [WithEncodedHistory] says for how long. The bytes must
// not be changed. Encoded is safe for concurrent use.
func (m *Message) Encoded(key any, encode func(*Message) ([]byte, error)) ([]byte, error) {
	if f := m.wire.Load(); f != nil && f.key == key {
		return f.data, nil
	}
	data, err := encode(m)
	if err != nil {
		return nil, err
	}
	if room := cap(data) - len(data); room > len(data)/4 {
		data = bytes.Clone(data) // it may live as long as the message
	}
	m.wire.Store(&fragment{key: key, data: data})
	return data, nil
}

// smallHistory is the size in bytes up to which a history is encoded again rather than
// kept, so that an idle agent with a short conversation holds nothing.
const smallHistory = 16 << 10

// hold records that a run uses the messages.
func hold(messages []*Message) {
	for _, m := range messages {
		m.runs.Add(1)
	}
}

// release ends a run; it held the first messages of the list. The encoded forms are dropped
// unless another run uses the message, or keep is set and the history is not small.
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

// packBlock is the size in bytes of the blocks into which a long history is packed. It
// bounds what a message keeps alive beside its own form when the others are gone.
const packBlock = 64 << 10

// pack copies the encoded forms of messages into contiguous blocks, where they take no
// more than their length and are quick to read.
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

// User returns a user message with one text.
func User(text string) *Message {
	return textMessage(RoleUser, text)
}

// Assistant returns an assistant message with one text.
func Assistant(text string) *Message {
	return textMessage(RoleAssistant, text)
}

// textMessage makes a message with one text in a single allocation, since long histories have many.
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

// Text returns the visible text of the message: its [Text] parts, concatenated.
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

// Text is text that the user sees: of a prompt, of an answer, or in the output of a tool.
type Text struct {
	Text string
	// Extra is provider data that must be sent back with this part (citations, a thought
	// signature), or nil.
	Extra *Opaque
}

// Thinking is the model's reasoning. A provider that signs it must get text and
// signature back unchanged; other providers get neither.
type Thinking struct {
	Text      string
	Signature string
	// Provider is the provider that wrote the part, and can read Signature.
	Provider string
}

// ToolUse is a tool call in a message of the model. The message after it has a [ToolOutput]
// with the same ID.
type ToolUse struct {
	// ID identifies the call, and its [ToolOutput] names it. It is unique in a
	// conversation: the loop and [Complete] replace an id that is empty or was used
	// before. The provider that a client sends it to may not be the one that issued it.
	ID   string
	Name string
	// Args is the JSON text of the arguments as the model wrote it, or "{}" if it wrote
	// none. It is valid JSON unless the call was cut off.
	Args json.RawMessage
	// Extra is provider data that must be sent back with this part, or nil.
	Extra *Opaque
}

// ToolOutput is the output of a tool call, in a user message.
type ToolOutput struct {
	// ID is the id of the [ToolUse] that it answers, Name the name of the tool.
	ID, Name string
	// Parts are [Text] and [Media].
	Parts []Part
	// IsError says that the call failed.
	IsError bool
	// Untrusted says that strangers may have written the text, as in [ToolResult]. It is
	// not sent to the provider.
	Untrusted bool
}

// Text returns the text of the output: its [Text] parts, concatenated. Media in the output
// do not count.
func (o *ToolOutput) Text() string { return (&Message{Parts: o.Parts}).Text() }

// Media is an image, a document or a sound, given by either Data or URL.
type Media struct {
	// Type is the media type, such as "image/png".
	Type string
	// Name is shown to the model if the provider supports that.
	Name string
	Data []byte
	URL  string
}

// Opaque is a block that only one provider understands, such as redacted thinking or a
// server-side tool and its result. It is kept unchanged, so that the provider gets it
// back byte for byte. Other providers do not get it.
type Opaque struct {
	// Provider is the provider that understands Raw. It is empty if the part was decoded
	// from stored JSON and is of a kind that this version does not know.
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
