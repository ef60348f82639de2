package compaction

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/aycoder/aycoder"
)

// ErrNothing is the cause of the error of [Compactor.Compact] if nothing can be left out.
var ErrNothing = errors.New("nothing more can be left out")

// Command returns a part of a message of the user that asks for a compaction before the next request.
// keep says in words what is most important, or is "". A host sends it into a run:
//
//	control.Steer("", compaction.Command("keep the API decisions"))
//
// or together with a prompt, in [aycoder.Input].Parts. No client sends the part to its model. If
// nothing could be left out, After of the [aycoder.Compacted] is not less than Before.
func Command(keep string) aycoder.Part { return mark(commandMark{Compact: &keep}) }

// A commandMark is the part of a message that asks for a compaction or, with a note, records one. The
// loop finds notes in parts of this form, see [aycoder.ContextInput].
type commandMark struct {
	Compact *string         `json:"compact,omitempty"`
	Note    json.RawMessage `json:"note,omitempty"`
	// Untrusted says that the message stands for untrusted text. Package session sets it.
	Untrusted bool `json:"untrusted,omitempty"`
}

// loop is the provider of parts that no client sends.
const loop = "aycoder"

func mark(m commandMark) aycoder.Part {
	raw, _ := json.Marshal(m) // never fails: the note is valid
	return &aycoder.Opaque{Provider: loop, Raw: raw}
}

func markOf(p aycoder.Part) (m commandMark) {
	if o, ok := p.(*aycoder.Opaque); ok && o.Provider == loop {
		_ = json.Unmarshal(o.Raw, &m)
	}
	return m
}

// Compact makes a conversation smaller now, between two runs. keep says in words what is most
// important, or is "". The history that it returns has one more message, which records the
// compaction: the conversation goes on with it. Compact can do the work of Branch.Compact of package
// session, which stores that message. If nothing can be left out, the error wraps [ErrNothing]. With
// an error, the history is the one that was given; [aycoder.Compacted] then has what a summary cost.
func (c *Compactor) Compact(ctx context.Context, messages []*aycoder.Message, keep string) (
	[]*aycoder.Message, *aycoder.Compacted, error,
) {
	done := &aycoder.Compacted{}
	if err := aycoder.CheckHistory(messages); err != nil {
		return messages, done, err
	}
	in := aycoder.ContextInput{Messages: messages, Note: lastNote(messages), Base: &aycoder.Request{},
		Compact: func(_ context.Context, c *aycoder.Compacted) error { done = c; return nil }}
	v := c.conversation(&in, nil)
	defer v.mu.Unlock()
	if v.sent != nil {
		in.Base = new(*v.sent)
	}
	plain := aycoder.ContextFunc(func(_ context.Context, in aycoder.ContextInput) (*aycoder.Request, error) {
		req := *in.Base
		req.Messages = in.Messages
		return &req, nil
	})
	b := &build{Compactor: c, conversation: v, next: plain, in: in, turn: c.counter.Turn(nil), force: &keep}
	_, err := b.request(ctx)
	if err == nil && done.After >= done.Before {
		v.messages = nil // the note came to nothing
		err = &aycoder.ContextError{Op: "compact", Err: ErrNothing}
	}
	if err != nil {
		return messages, done, err
	}
	note := &aycoder.Message{Role: aycoder.RoleUser, Parts: []aycoder.Part{mark(commandMark{Compact: &keep, Note: done.Note})}}
	return append(slices.Clip(messages), note), done, nil
}

// lastNote returns the note in force, as the loop finds it.
func lastNote(messages []*aycoder.Message) json.RawMessage {
	for _, m := range slices.Backward(messages) {
		if n := len(m.Parts); n > 0 {
			if note := markOf(m.Parts[n-1]).Note; note != nil {
				return note
			}
		}
	}
	return nil
}

// heard is what the user has asked for, in the messages that were looked at.
type heard struct {
	looked  int    // how many messages
	command int    // how many messages there were with the last command
	keep    string // the last words about what to keep
}

// listen looks at new messages.
func (v *conversation) listen(messages []*aycoder.Message) {
	for ; v.looked < len(messages); v.looked++ {
		m := messages[v.looked]
		if m.Role != aycoder.RoleUser {
			continue
		}
		for _, p := range m.Parts {
			c := markOf(p)
			if c.Compact == nil {
				continue
			}
			v.says(*c.Compact)
			if c.Note == nil {
				v.command = v.looked + 1
			}
		}
	}
}

// says takes words about what to keep.
func (v *conversation) says(keep string) {
	if keep == "" || keep == v.keep {
		return
	}
	v.keep = keep
	v.digest, v.digested = digest{focus: focusOf(keep)}, 0
}

// commanded reports whether the user has asked for a compaction that is not made yet.
func (b *build) commanded() bool { return b.force != nil || b.command > b.note.At }

// isMark reports whether a message has only parts that no client sends.
func isMark(m *aycoder.Message) bool {
	return m.Role == aycoder.RoleUser && !slices.ContainsFunc(m.Parts, func(p aycoder.Part) bool {
		o, ok := p.(*aycoder.Opaque)
		return !ok || o.Provider != loop
	})
}
