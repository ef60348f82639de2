package compaction

import (
	"context"
	"errors"
	"slices"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/original"
	"github.com/aycoder/aycoder/internal/part"
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
func Command(keep string) aycoder.Part { return part.Mark{Compact: &keep}.Part() }

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
	last, _ := inMemory(messages).lastNote()
	in := aycoder.ContextInput{Messages: messages, Note: last, Base: &aycoder.Request{},
		Compact: func(_ context.Context, c *aycoder.Compacted) error { done = c; return nil }}
	v := c.conversation(&in, nil, original.In(ctx))
	defer v.mu.Unlock()
	if v.sent != nil {
		in.Base = new(*v.sent)
	}
	plain := aycoder.ContextFunc(func(_ context.Context, in aycoder.ContextInput) (*aycoder.Request, error) {
		req := *in.Base
		req.Messages = in.Messages
		return &req, nil
	})
	b := &build{conversation: v, bounds: *c.now.Load(), next: plain, in: in, turn: c.counter.Turn(nil), force: &keep}
	_, err := b.request(ctx)
	if err == nil && done.After >= done.Before {
		v.messages = nil // the note came to nothing
		err = &aycoder.ContextError{Op: "compact", Err: ErrNothing}
	}
	if err != nil {
		return messages, done, err
	}
	note := &aycoder.Message{Role: aycoder.RoleUser, Parts: []aycoder.Part{part.Mark{Compact: &keep, Note: done.Note}.Part()}}
	return append(slices.Clip(messages), note), done, nil
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
			c, _ := part.MarkOf(p)
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
	v.keep, v.digest = keep, nil // it depends on them
}

// commanded reports whether the user has asked for a compaction that is not made yet.
func (b *build) commanded() bool { return b.force != nil || b.command > b.note.At }

// isMark reports whether no client sends a message.
func isMark(m *aycoder.Message) bool {
	return m.Role == aycoder.RoleUser && !slices.ContainsFunc(m.Parts, func(p aycoder.Part) bool { return !part.IsMark(p) })
}
