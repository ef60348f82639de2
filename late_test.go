package aycoder_test

import (
	"context"
	"encoding/json"
	"iter"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
)

// Answers to the same question may come at the same time. One of them counts.
func TestAnswersAtTheSameTime(t *testing.T) {
	for range 20 {
		loop := newLoop(t, &fake{turns: [][]any{calls(use("a", "write", `{"text":"x"}`)), say("done")}},
			aycoder.WithApprover(asks), aycoder.WithTools(newTool(t, "write", aycoder.EffectWrite, echo)))
		var res aycoder.Result
		for ev, err := range loop.Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.Into(&res)) {
			require.NoError(t, err)
			if q, ok := ev.(*aycoder.ApprovalRequested); ok {
				var wg sync.WaitGroup
				wg.Go(func() { _ = q.AllowWith(json.RawMessage(`{"text":"y"}`)) })
				wg.Go(func() { q.Allow() })
				wg.Wait()
			}
		}
		require.Subset(t, []string{"got x", "note: whoever approved this call changed its arguments to {\"text\":\"y\"}\ngot y"}, lastOutputs(&res))
	}
}

// A carefulKeeper keeps no rule when its context is done.
type carefulKeeper struct{ keeper }

func (k *carefulKeeper) KeepRule(ctx context.Context, scope aycoder.Scope, rule string) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return k.keeper.KeepRule(ctx, scope, rule)
}

// A rule that the user makes for an agent which outlives the run around it is kept by the approver of that run.
func TestRuleAfterTheOuterRun(t *testing.T) {
	var outer *aycoder.Invocation
	start, err := aycoder.NewTool("start", "Starts.", func(_ context.Context, inv *aycoder.Invocation, _ struct{}) (*aycoder.ToolResult, error) {
		outer = inv
		return aycoder.TextResult("started"), nil
	})
	require.NoError(t, err)
	keeps := &carefulKeeper{keeper{byTool: byTool{"start": aycoder.Allow()}}}
	_, err = collect(newLoop(t, &fake{turns: [][]any{calls(use("a", "start", `{}`)), say("done")}}, aycoder.WithApprover(keeps), aycoder.WithTools(start)).
		Run(t.Context(), aycoder.Input{Prompt: "go"}))
	require.NoError(t, err)
	child := newLoop(t, &fake{turns: [][]any{calls(use("w", "write", `{"text":"x"}`)), say("done")}},
		aycoder.WithTools(newTool(t, "write", aycoder.EffectWrite, echo)))
	asked := 0
	for ev, err := range child.Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.WithParent(outer)) {
		require.NoError(t, err)
		if q, ok := ev.(*aycoder.ApprovalRequested); ok {
			asked++
			require.NoError(t, q.AllowFor(aycoder.Session, "write"))
		}
	}
	require.Equal(t, 1, asked)
	require.Equal(t, []string{"write"}, keeps.rules)
}

// A builder that copies messages does not make the loop encode the conversation for a comparison of which nobody learns.
func TestCopiedMessagesAreNotEncoded(t *testing.T) {
	const size, turns = 1 << 20, 10
	again := func(next aycoder.ContextBuilder) aycoder.ContextBuilder {
		return aycoder.ContextFunc(func(ctx context.Context, in aycoder.ContextInput) (*aycoder.Request, error) {
			req, err := next.Build(ctx, in)
			if err != nil {
				return nil, err
			}
			copied := *req
			copied.Messages = nil
			for _, m := range req.Messages {
				copied.Messages = append(copied.Messages, &aycoder.Message{Role: m.Role, Parts: m.Parts})
			}
			return &copied, nil
		})
	}
	m := &fake{}
	for range turns {
		m.turns = append(m.turns, calls(use("", "read", `{"text":"x"}`)))
	}
	m.turns = append(m.turns, say("done"))
	loop := newLoop(t, m, aycoder.WithContextMiddleware(again), aycoder.WithTools(newTool(t, "read", aycoder.EffectReadOnly, echo)))
	prompt := strings.Repeat("x", size)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := collect(loop.Run(t.Context(), aycoder.Input{Prompt: prompt}))
	require.NoError(t, err)
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(turns*size))
}

// Deltas that cannot be joined count with what they take in memory.
func TestAlternatingDeltasAreBounded(t *testing.T) {
	for name, deltas := range map[string][2]aycoder.ModelEvent{
		"kinds": {&aycoder.TextDelta{Text: "a"}, &aycoder.ThinkingDelta{Text: "b"}},
		"calls": {&aycoder.ToolDelta{ID: "a", Args: "1"}, &aycoder.ToolDelta{ID: "b", Args: "2"}},
	} {
		sent := 0
		model := aycoder.ModelFunc(func(context.Context, *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
			return func(yield func(aycoder.ModelEvent, error) bool) {
				for yield(deltas[sent%2], nil) {
					sent++
				}
			}
		})
		_, err := collect(newLoop(t, model, aycoder.WithLimits(aycoder.Limits{Response: 64 << 10})).Run(t.Context(), aycoder.Input{Prompt: "go"}))
		require.True(t, is[*aycoder.LimitError](err), "%v", err)
		require.LessOrEqual(t, sent, 1024, name)
	}
}
