package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/compaction"
)

// compact makes the conversation smaller between two turns. An interrupt stops it.
func (c *chat) compact(ctx context.Context, words string) (string, error) {
	c.view.event(&aycoder.Compacting{})
	var done *aycoder.Compacted
	err := c.apart(ctx, func(ctx context.Context) error {
		return c.talk().Compact(ctx, func(ctx context.Context, m []*aycoder.Message) (left []*aycoder.Message, _ *aycoder.Compacted, err error) {
			left, done, err = c.session.Compact(ctx, m, words)
			return left, done, err
		})
	})
	switch {
	case errors.Is(err, compaction.ErrNothing):
		c.line("Nothing more can be left out.")
	case c.stopping:
		c.line(c.Glyph("—", "--") + " interrupted.")
	case err != nil:
		return "", err
	default:
		c.compacted(done)
	}
	return "", nil
}

// compacted tells how much of the conversation the model still gets.
func (v *view) compacted(ev *aycoder.Compacted) {
	if ev.Note == nil { // it was stopped
		return
	}
	text := fmt.Sprintf("compacted: about %d tokens instead of %d", ev.After, ev.Before)
	if ev.Error != "" {
		text += "; the model wrote no summary: " + cleanLine(ev.Error)
	}
	v.prose(faint, text)
}
