package compaction

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/original"
	"github.com/aycoder/aycoder/internal/part"
	"github.com/aycoder/aycoder/internal/timed"
)

// Two runs that continue one conversation in two ways at once do not share what is known of it.
func TestConversationsAreHeld(t *testing.T) {
	c, err := New(aycoder.ModelFunc(nil))
	require.NoError(t, err)
	begin := []*aycoder.Message{user("begin"), model("ok")}
	v := c.conversation(&aycoder.ContextInput{Run: "1", Messages: begin}, nil, nil)
	v.follow(begin, nil)
	v.mu.Unlock()
	a := append(begin[:2:2], user("a secret of a"))
	b := append(begin[:2:2], user("b"))
	va := c.conversation(&aycoder.ContextInput{Run: "2", Messages: a}, nil, nil)
	vb := c.conversation(&aycoder.ContextInput{Run: "3", Messages: b}, nil, nil)
	require.Same(t, v, va)
	require.NotSame(t, va, vb)
	va.follow(a, nil)
	vb.follow(b, nil)
	require.Equal(t, a, va.out)
	require.Equal(t, b, vb.out)
	va.mu.Unlock()
	vb.mu.Unlock()
}

// Any number of runs can recall their texts at the same time. When they are over, few are remembered.
func TestManyRunsRecall(t *testing.T) {
	const runs = 2*maxKnown + 1
	var all sync.WaitGroup
	all.Add(runs)
	m := aycoder.ModelFunc(func(_ context.Context, req *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
		return func(yield func(aycoder.ModelEvent, error) bool) {
			stop := aycoder.StopEndTurn
			if len(req.Messages) == 1 {
				all.Done()
				all.Wait()
				stop = aycoder.StopToolUse
				if !yield(&aycoder.BlockDone{Part: &aycoder.ToolUse{Name: "recall", Args: []byte(`{"id":"message_0_0"}`)}}, nil) {
					return
				}
			}
			yield(&aycoder.MessageDone{Stop: stop}, nil)
		}
	})
	c, err := New(m, WithWindow(16_000))
	require.NoError(t, err)
	l, err := aycoder.New(m, aycoder.WithTools(c.Recall()), aycoder.WithContextMiddleware(c.Middleware))
	require.NoError(t, err)
	var wg sync.WaitGroup
	outputs := make([]string, runs)
	for i := range runs {
		wg.Go(func() {
			prompt := fmt.Sprintf("log %d\n", i) + strings.Repeat("line of a log\n", 5_000)
			for ev := range l.Run(t.Context(), aycoder.Input{Prompt: prompt}) {
				if fin, ok := ev.(*aycoder.ToolFinished); ok {
					outputs[i] = fin.Output.Text()
				}
			}
		})
	}
	wg.Wait()
	for i, out := range outputs {
		require.True(t, strings.HasPrefix(out, fmt.Sprintf("log %d\n", i)), "%d: %.200s", i, out)
	}
	for _, err := range l.Run(t.Context(), aycoder.Input{Messages: []*aycoder.Message{user("begin"), model("ok")}, Prompt: "go"}) {
		require.NoError(t, err)
	}
	require.LessOrEqual(t, len(c.used), maxKnown)
}

// An agent can be made while others work, and a call outside of a run has no conversation to read.
func TestRecallOutsideOfRuns(t *testing.T) {
	m := aycoder.ModelFunc(nil)
	c, err := New(m)
	require.NoError(t, err)
	var wg sync.WaitGroup
	defer wg.Wait()
	for range 2 {
		wg.Go(func() { c.Recall() })
		wg.Go(func() {
			c.KeepOutput(t.Context(), &aycoder.ToolOutput{ID: "1", Parts: []aycoder.Part{&aycoder.Text{Text: "out"}}})
		})
	}
	messages := []*aycoder.Message{user("mine"), model("ok")}
	_, _, err = c.Compact(t.Context(), messages, "")
	require.ErrorIs(t, err, ErrNothing)
	v := c.conversation(&aycoder.ContextInput{Messages: messages}, nil, nil)
	v.follow(messages, nil)
	v.mu.Unlock()
	res, err := c.Recall().Call(t.Context(), aycoder.NewInvocation("1", "recall", []byte(`{"id":"message_0_0"}`), nil))
	require.NoError(t, err)
	require.True(t, res.IsError, res.Parts)
}

// Of a client that never returns, a bounded number of goroutines is left.
func TestStuckSummarizer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int32
		free := make(chan struct{})
		w := aycoder.ModelFunc(func(context.Context, *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
			return func(yield func(aycoder.ModelEvent, error) bool) {
				asked.Add(1)
				<-free
				yield(&aycoder.MessageDone{Stop: aycoder.StopEndTurn}, nil)
			}
		})
		c, err := New(aycoder.ModelFunc(nil), WithWindow(200_000), WithFill(0.1), WithSummarizer(w, ""))
		require.NoError(t, err)
		compact := func() *aycoder.Compacted {
			messages := []*aycoder.Message{user("begin")}
			for i := range 100 {
				messages = append(messages, model("ok"), user(fmt.Sprint("the weather is grey ", i)))
			}
			_, done, err := c.Compact(t.Context(), messages, "")
			require.NoError(t, err)
			return done
		}
		for range 2 * mostAsking {
			require.NotEmpty(t, compact().Error)
		}
		require.EqualValues(t, mostAsking, asked.Load())
		close(free)
		synctest.Wait()
		compact()
		require.EqualValues(t, mostAsking+1, asked.Load())
	})
}

// Recall says what is so of a text that it cannot read, and of one that stands for untrusted text.
func TestRecallOfMessages(t *testing.T) {
	c, err := New(aycoder.ModelFunc(nil))
	require.NoError(t, err)
	host := user("A page says so.")
	host.Parts = append(host.Parts, &aycoder.Opaque{Provider: part.Loop, Raw: []byte(`{"untrusted":true}`)})
	messages := append([]*aycoder.Message{user("mine"), host}, call("look", "{}", aycoder.ToolOutput{}, "out")...)
	id := messages[3].Parts[0].(*aycoder.ToolOutput).ID
	for name, want := range map[string]found{"message_0_0": {text: "mine"}, "message_1_0": {text: "A page says so.", untrusted: true}, id: {text: "out"}} {
		f, err := c.textOf(t.Context(), messages, name)
		require.NoError(t, err)
		require.Equal(t, want, f)
		lost := original.With(t.Context(), func(int, *aycoder.Message) (*aycoder.Message, error) { return nil, errGone })
		outlines := slices.Clone(messages)
		for i, m := range outlines {
			outlines[i] = &aycoder.Message{Role: m.Role, Parts: append([]aycoder.Part{original.Mark()}, m.Parts...)}
			if part.IsOutput(m.Parts[0]) {
				out := &aycoder.ToolOutput{ID: id, Name: "look", Parts: []aycoder.Part{original.Mark()}}
				outlines[i] = &aycoder.Message{Role: m.Role, Parts: []aycoder.Part{out}}
			}
		}
		_, err = c.textOf(lost, outlines, name)
		require.ErrorIs(t, err, errUnread, name)
		_, err = c.textOf(t.Context(), messages, name+"9")
		require.ErrorIs(t, err, errUnknown)
	}
}

// Of conversations whose runs are over, a bounded number of bytes is remembered.
func TestIdleBytes(t *testing.T) {
	timed.Serial(t)
	m := aycoder.ModelFunc(func(context.Context, *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
		return func(yield func(aycoder.ModelEvent, error) bool) {
			yield(&aycoder.MessageDone{Stop: aycoder.StopEndTurn}, nil)
		}
	})
	c, err := New(m, WithWindow(1<<40))
	require.NoError(t, err)
	l, err := aycoder.New(m, aycoder.WithContextMiddleware(c.Middleware))
	require.NoError(t, err)
	page := strings.Repeat("a page of a log\n", 6<<16)
	for i := range 12 {
		for _, err := range l.Run(t.Context(), aycoder.Input{Prompt: fmt.Sprint(i, page)}) {
			require.NoError(t, err)
		}
		bytes := 0
		for _, v := range c.used[1:] {
			bytes += len(v.messages[0].Text())
		}
		require.LessOrEqual(t, bytes, 32<<20)
		require.GreaterOrEqual(t, bytes, min(i, 4)*len(page))
	}
}
