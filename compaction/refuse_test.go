package compaction_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/compaction"
)

// refusing returns a chat in which somebody refuses each compaction, and what was to be refused.
func refusing(t *testing.T, m *strict) (*chat, *[]aycoder.Compacting) {
	keep, err := compaction.New(m, compaction.WithWindow(m.window))
	require.NoError(t, err)
	asked := new([]aycoder.Compacting)
	refuse := func(next aycoder.ContextBuilder) aycoder.ContextBuilder {
		return aycoder.ContextFunc(func(ctx context.Context, in aycoder.ContextInput) (*aycoder.Request, error) {
			begin := in.Compacting
			in.Compacting = func(c *aycoder.Compacting) error {
				*asked = append(*asked, *c)
				if !c.Needed {
					return errors.New("not now")
				}
				return begin(c)
			}
			return next.Build(ctx, in)
		})
	}
	l, err := aycoder.New(m, aycoder.WithTools(outputs(t, 3000), keep.Recall()), aycoder.WithContextMiddleware(refuse, keep.Middleware),
		aycoder.WithStrictPrefix(true))
	require.NoError(t, err)
	return &chat{t: t, agent: l}, asked
}

// A compaction that is refused is not made as long as the model may take the request, and is made when it does not fit:
// as the count says, or as the model does.
func TestRefused(t *testing.T) {
	m := worker(32_000, 9)
	c, asked := refusing(t, m)
	for i := 0; len(c.events) == 0; i++ {
		require.Less(t, i, 20)
		require.NoError(t, c.ask(fmt.Sprint("prompt ", i)))
	}
	needed := (*asked)[len(*asked)-1]
	require.True(t, needed.Needed)
	require.True(t, needed.Reason == "refusal" || needed.Tokens > m.window-2000, "%+v", needed)
	require.Greater(t, len(*asked), 1, "there is room between the budget and the window")
	for _, a := range (*asked)[:len(*asked)-1] {
		require.Equal(t, "threshold", a.Reason)
		require.False(t, a.Needed)
		require.Less(t, a.Tokens, m.window)
	}

	m = worker(32_000, 9) // whose window nobody knows
	m.window = 100_000
	c, asked = refusing(t, m)
	m.window = 32_000
	for i := 0; len(c.events) == 0; i++ {
		require.Less(t, i, 20)
		require.NoError(t, c.ask(fmt.Sprint("prompt ", i)))
	}
	require.Equal(t, "refusal", (*asked)[0].Reason)
	require.True(t, (*asked)[0].Needed)
	require.Equal(t, 1, m.refused)
}

// A command that is refused is done with, and later ones are asked about again.
func TestCommandRefused(t *testing.T) {
	m := worker(200_000, 3)
	c, asked := refusing(t, m)
	c.messages = append(talk(), &aycoder.Message{Role: aycoder.RoleUser, Parts: []aycoder.Part{compaction.Command("")}})
	require.NoError(t, c.ask("go on"))
	require.Empty(t, c.events)
	require.Len(t, *asked, 1)
	require.Equal(t, "command", (*asked)[0].Reason)
	require.NoError(t, c.ask("go on"))
	require.Len(t, *asked, 1)
	c.messages = append(c.messages, &aycoder.Message{Role: aycoder.RoleUser, Parts: []aycoder.Part{compaction.Command("")}})
	require.NoError(t, c.ask("go on"))
	require.Len(t, *asked, 2)
}
