package server

import (
	"context"
	"iter"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
)

// A text is split into pieces that are as large as a message can be, or half of that, also if it is not valid UTF-8.
func TestSplit(t *testing.T) {
	for name, text := range map[string]string{
		"valid":         strings.Repeat("世", 10_000),
		"continuations": strings.Repeat("\x80", 20_000),
		"beginnings":    strings.Repeat("\xf0", 20_000),
	} {
		list := split(text, true)
		var whole strings.Builder
		for _, ev := range list {
			piece, _, _ := textIn(ev)
			whole.WriteString(piece)
		}
		require.Equal(t, text, whole.String(), name)
		// JSON needs at most six bytes for one, so a piece of half a message has 600 at least.
		require.LessOrEqual(t, len(list), len(text)/600, name)
	}
}

type silentFeed struct{}

func (silentFeed) Publish(string, []byte)                                     {}
func (silentFeed) Subscribe(context.Context, string) iter.Seq2[[]byte, error] { return nil }

// The publisher keeps nothing of an attempt that ends without an event.
func TestPublisherForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPublisher(silentFeed{})
		sessions := func() int {
			p.mu.Lock()
			defer p.mu.Unlock()
			return len(p.sessions)
		}
		p.Event("a", "run", 0, &aycoder.TextDelta{Text: "a text"})
		time.Sleep(9 * time.Minute)
		p.Event("a", "run", 0, &aycoder.Compacted{})
		time.Sleep(9 * time.Minute)
		require.Equal(t, 1, sessions()) // it goes on
		time.Sleep(2 * time.Minute)
		require.Zero(t, sessions())
	})
}
