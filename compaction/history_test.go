package compaction_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/compaction"
)

// A note does not count in a history from which a host has removed messages, or to which it added some: it
// would leave out others than those that its summary has.
func TestNoteOfAnotherHistory(t *testing.T) {
	for name, change := range map[string]func([]*aycoder.Message) []*aycoder.Message{
		"removed": func(m []*aycoder.Message) []*aycoder.Message { return slices.Concat(m[:1], m[3:]) },
		"added": func(m []*aycoder.Message) []*aycoder.Message {
			return slices.Concat(m[:1], []*aycoder.Message{aycoder.User("added")}, m[1:])
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := worker(32_000, 5)
			c := newChat(t, m, compaction.WithWindow(32_000))
			for i := 0; len(c.events) == 0 || c.events[len(c.events)-1].Replaced == 0; i++ {
				require.NoError(t, c.ask(fmt.Sprint("prompt ", i)))
			}
			again := newChat(t, m, compaction.WithWindow(400_000))
			again.messages = change(c.messages)
			require.NoError(t, aycoder.CheckHistory(again.messages))
			m.window = 400_000
			require.NoError(t, again.ask("go on"))
			require.Len(t, m.last.Messages, len(again.messages)-1)
		})
	}
}
