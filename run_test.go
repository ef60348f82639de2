package aycoder_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/timed"
)

// fake answers the n-th request with the n-th list of events; an error in a list
// ends the stream.
type fake struct {
	mu    sync.Mutex
	turns [][]any
	reqs  []*aycoder.Request
}

func (f *fake) Stream(ctx context.Context, req *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
	return func(yield func(aycoder.ModelEvent, error) bool) {
		f.mu.Lock()
		n := len(f.reqs)
		f.reqs = append(f.reqs, req)
		f.mu.Unlock()
		if n >= len(f.turns) {
			yield(nil, &aycoder.BadRequestError{ModelError: &aycoder.ModelError{Err: fmt.Errorf("no turn %d", n)}})
			return
		}
		for _, x := range f.turns[n] {
			if ctx.Err() != nil {
				yield(nil, ctx.Err())
				return
			}
			switch x := x.(type) {
			case aycoder.ModelEvent:
				if !yield(x, nil) {
					return
				}
			case error:
				yield(nil, x)
				return
			case func(context.Context):
				x(ctx)
			}
		}
	}
}

func say(s string) []any {
	return []any{&aycoder.TextDelta{Text: s}, &aycoder.BlockDone{Part: &aycoder.Text{Text: s}},
		&aycoder.MessageDone{Stop: aycoder.StopEndTurn, Usage: aycoder.Usage{Input: 10, Output: 1}}}
}

func use(id, name, args string) *aycoder.BlockDone {
	return &aycoder.BlockDone{Part: &aycoder.ToolUse{ID: id, Name: name, Args: json.RawMessage(args)}}
}

func calls(blocks ...any) []any {
	return append(blocks, &aycoder.MessageDone{Stop: aycoder.StopToolUse, Usage: aycoder.Usage{Input: 10, Output: 1}})
}

type echoArgs struct {
	Text string `json:"text"`
}

func newTool(t testing.TB, name string, effect aycoder.Effect, fn func(ctx context.Context, text string) (string, error)) aycoder.Tool {
	t.Helper()
	tool, err := aycoder.NewTool(name, "A tool.", func(ctx context.Context, _ *aycoder.Invocation, in echoArgs) (*aycoder.ToolResult, error) {
		out, err := fn(ctx, in.Text)
		return aycoder.TextResult(out), err
	}, aycoder.WithEffect(effect))
	require.NoError(t, err)
	return tool
}

func echo(_ context.Context, text string) (string, error) { return "got " + text, nil }

func newLoop(t testing.TB, m aycoder.ModelClient, opts ...aycoder.Option) *aycoder.Loop {
	t.Helper()
	l, err := aycoder.New(m, opts...)
	require.NoError(t, err)
	return l
}

var allow = aycoder.ApproverFunc(func(context.Context, *aycoder.ToolUse, *aycoder.ToolSpec) aycoder.Verdict {
	return aycoder.Allow()
})

func collect(seq iter.Seq2[aycoder.Event, error]) (events []aycoder.Event, err error) {
	for ev, e := range seq {
		if e != nil {
			return events, e
		}
		events = append(events, ev)
	}
	return events, nil
}

func TestRunCallsToolsAndAnswers(t *testing.T) {
	m := &fake{turns: [][]any{
		calls(use("a", "echo", `{"text":"x"}`), use("b", "write", `{"text":"y"}`)),
		say("done"),
	}}
	l := newLoop(t, m, aycoder.WithApprover(allow),
		aycoder.WithTools(newTool(t, "echo", aycoder.EffectReadOnly, echo), newTool(t, "write", aycoder.EffectWrite, echo)))
	var res aycoder.Result
	events, err := collect(l.Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.Into(&res)))
	require.NoError(t, err)
	require.Equal(t, "done", res.Text())
	require.Equal(t, aycoder.EndDone, res.End)
	require.NoError(t, aycoder.CheckHistory(res.Messages))
	require.Len(t, res.Messages, 4)
	outs := res.Messages[2].Parts
	require.Equal(t, "got x", outs[0].(*aycoder.ToolOutput).Text())
	require.Equal(t, "got y", outs[1].(*aycoder.ToolOutput).Text())
	require.IsType(t, &aycoder.RunFinished{}, events[len(events)-1])
	require.Equal(t, int64(20), res.Usage.Input)
}

func TestApprovalByConsumer(t *testing.T) {
	tests := []struct {
		name   string
		answer func(*aycoder.ApprovalRequested)
		want   string
	}{
		{"allow", func(a *aycoder.ApprovalRequested) { a.Allow() }, "got y"},
		{"deny", func(a *aycoder.ApprovalRequested) { a.Deny("not now") }, "the user refused this call: not now"},
		{"ignore", func(*aycoder.ApprovalRequested) {}, "this call needs approval, and nobody gave it (ignored)"},
		{"edit", func(a *aycoder.ApprovalRequested) { _ = a.AllowWith(json.RawMessage(`{"text":"z"}`)) }, "note: whoever approved this call changed its arguments to {\"text\":\"z\"}\ngot z"},
		{"detach", func(a *aycoder.ApprovalRequested) { h := a.Detach(); go h.Allow() }, "got y"},
		{"twice", func(a *aycoder.ApprovalRequested) { a.Allow(); a.Deny("late") }, "got y"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := &fake{turns: [][]any{calls(use("b", "write", `{"text":"y"}`)), say("done")}}
			l := newLoop(t, m, aycoder.WithApprover(asks), aycoder.WithTools(newTool(t, "write", aycoder.EffectWrite, echo)))
			var res aycoder.Result
			for ev, err := range l.Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.Into(&res)) {
				require.NoError(t, err)
				if a, ok := ev.(*aycoder.ApprovalRequested); ok {
					tt.answer(a)
				}
			}
			require.Equal(t, tt.want, res.Messages[2].Parts[0].(*aycoder.ToolOutput).Text())
		})
	}
}

func TestEagerReadOnlyOverlapsStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pause := func(d time.Duration) func(context.Context) { return func(context.Context) { <-time.After(d) } }
		m := &fake{turns: [][]any{
			calls(use("a", "slow", `{"text":"x"}`), pause(500*time.Millisecond), &aycoder.TextDelta{Text: "…"}, &aycoder.BlockDone{Part: &aycoder.Text{Text: "…"}}),
			say("done"),
		}}
		slow := newTool(t, "slow", aycoder.EffectReadOnly, func(ctx context.Context, s string) (string, error) {
			<-time.After(400 * time.Millisecond)
			return s, nil
		})
		start := time.Now()
		_, err := collect(newLoop(t, m, aycoder.WithTools(slow)).Run(t.Context(), aycoder.Input{Prompt: "go"}))
		require.NoError(t, err)
		require.Equal(t, 500*time.Millisecond, time.Since(start))
	})
}

func TestBreakAtEveryEvent(t *testing.T) {
	var running, started atomic.Int64
	work := func(ctx context.Context, s string) (string, error) {
		running.Add(1)
		started.Add(1)
		defer running.Add(-1)
		return s, ctx.Err()
	}
	tools := aycoder.WithTools(newTool(t, "read", aycoder.EffectReadOnly, work), newTool(t, "write", aycoder.EffectWrite, work))
	// once breaks at event n, and returns the number of events.
	once := func(n int) int {
		m := &fake{turns: [][]any{
			calls(&aycoder.TextDelta{Text: "a"}, use("a", "read", `{"text":"x"}`), &aycoder.TextDelta{Text: "b"},
				use("b", "write", `{"text":"y"}`), use("c", "ask", `{}`), use("d", "read", `{"text":"z"}`)),
			{&aycoder.ThinkingDelta{Text: "hm"}, use("e", "write", `{"text":"y"}`), &aycoder.StreamBrokenError{ModelError: base("x")}},
			calls(&aycoder.BlockTruncated{Call: &aycoder.ToolUse{ID: "f", Name: "write", Args: json.RawMessage(`{"te`)}}),
			say("done"),
		}}
		l := newLoop(t, m, aycoder.WithApprover(allow), tools, aycoder.WithRetry(aycoder.RetryPolicy{Base: 1}))
		before := started.Load()
		var res aycoder.Result
		i := 0
		for _, err := range l.Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.Into(&res)) {
			require.NoError(t, err)
			if i++; i > n {
				break
			}
		}
		require.Zero(t, running.Load(), "a tool outlives the loop")
		require.LessOrEqual(t, started.Load()-before, int64(3), "a tool ran twice")
		require.NoError(t, aycoder.CheckHistory(res.Messages))
		require.NotEmpty(t, res.End)
		return i
	}
	runs := 1000
	if testing.Short() {
		runs = 50
	} else if timed.Reduced(t) {
		runs = 200
	}
	total := once(1 << 30)
	before := runtime.NumGoroutine()
	for n := range total {
		for range runs {
			once(n)
		}
	}
	for end := time.Now().Add(5 * time.Second); runtime.NumGoroutine() > before && time.Now().Before(end); {
		runtime.Gosched() // lets goroutines that have reported execute their last instructions
	}
	require.LessOrEqual(t, runtime.NumGoroutine(), before, "goroutines are left")
	t.Logf("%d runs at each of %d events", runs, total)
}

func TestRetryDiscardsOrKeeps(t *testing.T) {
	broken := &aycoder.StreamBrokenError{ModelError: &aycoder.ModelError{Err: errors.New("reset")}}
	t.Run("discards", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			m := &fake{turns: [][]any{{&aycoder.TextDelta{Text: "hal"}, broken}, say("done")}}
			var res aycoder.Result
			events, err := collect(newLoop(t, m).Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.Into(&res)))
			require.NoError(t, err)
			require.Len(t, res.Messages, 2)
			require.True(t, events[1].(*aycoder.Retrying).Discarded)
		})
	})
	t.Run("keeps what ran", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ran := 0
			began := make(chan bool)
			wait := func(context.Context) { <-began }
			m := &fake{turns: [][]any{{use("a", "echo", `{"text":"x"}`), wait, broken}, say("done")}}
			var res aycoder.Result
			tool := newTool(t, "echo", aycoder.EffectReadOnly, func(context.Context, string) (string, error) {
				ran++
				close(began)
				return "ok", nil
			})
			_, err := collect(newLoop(t, m, aycoder.WithTools(tool)).Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.Into(&res)))
			require.NoError(t, err)
			require.Equal(t, 1, ran)
			require.Len(t, res.Messages, 4)
			require.NoError(t, aycoder.CheckHistory(res.Messages))
		})
	})
}

type seq = iter.Seq2[aycoder.ModelEvent, error]
