package compaction_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/compaction"
)

// The tail counts towards the budget. It is never left out, but a text of it that alone takes more
// than a quarter of the budget is shortened in the middle.
func TestTail(t *testing.T) {
	const first, last, small = "The open files are:", "and that was all of them.", "a small reminder"
	long := 0 // lines in the tail
	m := worker(8_000, 2)
	keep, err := compaction.New(m, compaction.WithWindow(8_000))
	require.NoError(t, err)
	l, err := aycoder.New(m, aycoder.WithTools(outputs(t, 1000), keep.Recall()), aycoder.WithStrictPrefix(true),
		aycoder.WithContextMiddleware(keep.Middleware, func(next aycoder.ContextBuilder) aycoder.ContextBuilder {
			return aycoder.ContextFunc(func(ctx context.Context, in aycoder.ContextInput) (*aycoder.Request, error) {
				req, err := next.Build(ctx, in)
				if err != nil {
					return nil, err
				}
				with := *req
				text := first + strings.Repeat("\nanother file that is open", long) + "\n" + last
				with.Tail = []*aycoder.Text{{Text: text}, {Text: fmt.Sprint(small, in.Turn)}}
				return &with, nil
			})
		}))
	require.NoError(t, err)
	var res aycoder.Result
	shortened := 0
	for i, n := range []int{0, 0, 10, 4000, 400, 20_000, 0} {
		long = n
		events := 0
		for ev, err := range l.Run(t.Context(), aycoder.Input{Messages: res.Messages, Prompt: fmt.Sprint("prompt ", i)}, aycoder.Into(&res)) {
			require.NoError(t, err, "%d lines", n)
			if c, ok := ev.(*aycoder.Compacted); ok {
				events++
				shortened = c.Shortened
			}
		}
		sent := m.last.Tail
		require.Len(t, sent, 2)
		require.True(t, strings.HasPrefix(sent[0].Text, first) && strings.HasSuffix(sent[0].Text, last), "%d lines", n)
		require.Contains(t, sent[1].Text, small)
		require.Less(t, count(sent[0].Text), int64(8_000/3))
		if n > 1000 {
			require.Positive(t, events+shortened)
		}
	}
	require.Zero(t, m.refused)
}
