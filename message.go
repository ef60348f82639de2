package aycoder

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"sync/atomic"
)

// Role says who speaks in a [Message]. The JSON form uses the same values. Each provider's client
// translates a Role into the provider's own name for it.
type Role string

// The roles of messages.
const (
	// RoleUser is the role of messages from the user, and of messages with the outputs of tools.
	RoleUser Role = "user"
	// RoleAssistant is the role of messages from the model, with its text, thinking and tool calls.
	RoleAssistant Role = "assistant"
	// RoleSystem is the role of an instruction that the host adds in the middle of a conversation.
	// The system prompt is not such a message, see [Request.System].
	RoleSystem Role = "system"
)

// Message is one message of a conversation. Goroutines and conversations share messages without a
// copy, so a message and its parts must not be changed after they were passed to this package or
// returned by it. Do not copy a Message as a value; copy its fields into a new one.
//
// The JSON form is lossless for every message of a run: arguments and opaque blocks come back byte
// for byte, and parts of an unknown kind are kept. See [Message.MarshalJSON].
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

// Encoded returns m in a provider's wire format. If m stores a result for key, Encoded returns
// that result. Otherwise, Encoded calls encode, and stores and returns its result, even an empty
// one. So each request of a client encodes only the new messages, not the whole history.
//
// The key is a pointer or a comparable value that identifies the provider's wire format and
// settings. Create key and encode once per request, before the loop over its messages: to convert
// a struct to any allocates memory, and so does a method value.
//
// A message stores only the result for the last key; [WithEncodedHistory] says for how long. The
// returned bytes must not be changed. Encoded is safe for concurrent use.
func (m *Message) Encoded(key any, encode func(*Message) ([]byte, error)) ([]byte, error) {
	if f := m.wire.Load(); f != nil && f.key == key {
		return f.data, nil
	}
	data, err := encode(m)
	if err != nil {
		return nil, err
	}
	if room := cap(data) - len(data); room > max(128, len(data)/4) {
		data = bytes.Clone(data) // it may live as long as the message
	}
	m.wire.Store(&fragment{key: key, data: data})
	return data, nil
}

// smallHistory is the size in bytes up to which a run drops the encoded form of its history at the
// end, so that an idle agent with a short conversation needs no memory for it.
const smallHistory = 16 << 10

// hold records that a run uses the messages, so that [release] of another run keeps their forms.
func hold(messages []*Message) {
	for _, m := range messages {
		m.runs.Add(1)
	}
}

// release is called at the end of a run, which held the first messages of the list. It drops the
// encoded forms of messages that no other run uses. If keep is set and the history is not small,
// it drops nothing.
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

// packBlock is the size in bytes of the blocks into which a long history is packed. It bounds the
// memory that one message keeps alive after the other messages of its block are gone.
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

// User returns a user message with one [Text] part.
func User(text string) *Message {
	return textMessage(RoleUser, text)
}

// Assistant returns an assistant message with one [Text] part.
func Assistant(text string) *Message {
	return textMessage(RoleAssistant, text)
}

// newMessage makes a message with a copy of parts, in a single allocation for up to two parts.
func newMessage(role Role, parts []Part) *Message {
	switch len(parts) {
	case 1:
		m := &struct {
			Message
			parts [1]Part
		}{parts: [1]Part(parts)}
		m.Role, m.Parts = role, m.parts[:]
		return &m.Message
	case 2:
		m := &struct {
			Message
			parts [2]Part
		}{parts: [2]Part(parts)}
		m.Role, m.Parts = role, m.parts[:]
		return &m.Message
	}
	return &Message{Role: role, Parts: slices.Clone(parts)}
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
	texts := make([]string, 0, 4)
	for _, p := range m.Parts {
		if t, ok := p.(*Text); ok {
			texts = append(texts, t.Text)
		}
	}
	return strings.Join(texts, "") // which does not copy one text
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

// Part is a piece of a [Message]. It is a [*Text], [*Thinking], [*ToolUse], [*ToolOutput],
// [*Media] or [*Opaque].
type Part interface{ part() }

// Text is a piece of text in a prompt, in an answer or in the output of a tool. Unlike [Thinking],
// it is meant for the user to see.
type Text struct {
	Text string
	// Extra is data that the provider must get back with this part, such as citations or a thought
	// signature. It is nil if there is none.
	Extra *Opaque
}

// Thinking is a piece of the model's reasoning. A provider that signs its reasoning must get Text
// and Signature back unchanged. Other providers do not get this part.
type Thinking struct {
	Text      string
	Signature string
	// Provider is the name of the provider that made the part and can read Signature.
	Provider string
}

// ToolUse is a tool call in a message of the model. The next message has the call's [ToolOutput].
type ToolUse struct {
	// ID identifies the call and its [ToolOutput]. It is unique in a conversation: the loop and
	// [Complete] replace an id that is empty or was used before. If a conversation moves to
	// another provider, the calls keep the ids of the earlier provider.
	ID   string
	Name string
	// Args is the JSON text of the arguments as the model wrote it, or "{}" if it wrote
	// none. It is valid JSON unless the call was cut off.
	Args json.RawMessage
	// Extra is data that the provider must get back with this part, or nil if there is none.
	Extra *Opaque
}

// ToolOutput is the output of a tool call. It is a part of a user message.
type ToolOutput struct {
	// ID is the id of the [ToolUse] that the output belongs to. Name is the name of the tool.
	ID, Name string
	// Parts holds the content: [Text] and [Media].
	Parts []Part
	// IsError says that the call failed.
	IsError bool
	// Untrusted says that the text may come from a third party, such as the author of a web page,
	// see [ToolResult]. The flag is not sent to the provider.
	Untrusted bool
}

// Text returns the text of the output: its [Text] parts, concatenated, without [Media].
func (o *ToolOutput) Text() string { return (&Message{Parts: o.Parts}).Text() }

// Media is an image, a document or a sound. Either Data holds the content, or URL is its address.
type Media struct {
	// Type is the media type, such as "image/png".
	Type string
	// Name is the name of the file. The model sees it if the provider supports names.
	Name string
	Data []byte
	URL  string
}

// Opaque is a block that only one provider understands, such as redacted thinking or the result of
// a server-side tool. That provider gets the block back byte for byte; no other provider gets it.
type Opaque struct {
	// Provider is the name of the provider that understands Raw. It is empty if the part was
	// decoded from stored JSON and is of a kind that this version does not know.
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
