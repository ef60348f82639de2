package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/part"
)

// Compact makes what the model gets of the conversation so far smaller. shorten gets the messages and
// returns those with which the conversation goes on, which must be a valid history. With a compactor
// of package compaction, they have one more message, which records the compaction:
//
//	err := s.Compact(ctx, func(ctx context.Context, m []*aycoder.Message) ([]*aycoder.Message, *aycoder.Compacted, error) {
//		return keep.Compact(ctx, m, "keep the API decisions")
//	})
//
// Messages that are added become nodes, so that [Branch.Undo] takes the compaction back. Others take
// the place of all messages before; their nodes stay in the tree. The tokens of the [aycoder.Compacted]
// count for the session; it may be nil. shorten must not call Close, which waits for it.
func (b *Branch) Compact(
	ctx context.Context, shorten func(context.Context, []*aycoder.Message) ([]*aycoder.Message, *aycoder.Compacted, error),
	opts ...MoveOption,
) error {
	c, err := moveOptions(opts)
	if err != nil {
		return fmt.Errorf("compact: %w", err)
	}
	s := b.session
	s.mu.Lock()
	defer s.mu.Unlock()
	work, release, err := b.occupy(ctx, "compact", c)
	if err != nil {
		return err
	}
	defer release()
	if err := b.settle(ctx); err != nil {
		return err
	}
	messages := s.View().Messages(s.tree.heads[b.name])
	short, done, err := func() ([]*aycoder.Message, *aycoder.Compacted, error) {
		s.mu.Unlock()
		defer s.mu.Lock() // also if it panics
		return shorten(work, messages)
	}()
	err = cmp.Or(err, context.Cause(work))
	if err == nil {
		err = aycoder.CheckHistory(short)
	}
	var records []*record
	if err == nil {
		records, err = b.compacted(messages, short)
	}
	if err != nil {
		err = fmt.Errorf("compact: %w", err)
	}
	if spent := s.config.spent(done); len(records) > 0 {
		records[0].Answer = spent
	} else if spent != nil {
		records = append(records, b.next(&record{Answer: spent}))
	}
	if len(records) == 0 {
		return err
	}
	if records[0].Context != nil { // it may lack what has shown files, and later calls may get the same ids
		b.reviewShown()
	}
	return errors.Join(err, s.write(context.WithoutCancel(ctx), true, records...))
}

// compacted returns the nodes that let the conversation go on with other messages.
func (b *Branch) compacted(messages, short []*aycoder.Message) ([]*record, error) {
	if n := len(messages); len(short) >= n && slices.Equal(short[:n], messages) {
		return (&activeRun{branch: b}).nodes(short[n:])
	}
	short = trusting(messages, append([]*aycoder.Message{}, short...))
	return []*record{b.next(&record{Context: short})}, nil
}

// trusting returns short, which stands for messages. If messages have text of an untrusted source, and
// short does not say so, a part is added that does: the loop looks for it, and no client sends it.
func trusting(messages, short []*aycoder.Message) []*aycoder.Message {
	i := slices.IndexFunc(short, func(m *aycoder.Message) bool { return m.Role == aycoder.RoleUser })
	if i < 0 || !slices.ContainsFunc(messages, part.Untrusted) || slices.ContainsFunc(short, part.Untrusted) {
		return short
	}
	short[i] = &aycoder.Message{Role: aycoder.RoleUser, Parts: append(slices.Clip(short[i].Parts), part.Mark{Untrusted: true}.Part())}
	return short
}
