package session_test

import (
	"context"
	"encoding/json"
	"iter"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/session"
)

// The tokens and costs of a branch that runs in a call of another branch count once: for its own messages. Those of other agents
// in the call count for the call.
func TestBranchInACallIsCountedOnce(t *testing.T) {
	say := []aycoder.Part{&aycoder.Text{Text: "done"}}
	call := func(name string) []aycoder.Part {
		return []aycoder.Part{&aycoder.ToolUse{ID: "1", Name: name, Args: json.RawMessage(`{}`)}}
	}
	agent := func(model string, tool aycoder.Tool, parts ...[]aycoder.Part) *aycoder.Loop {
		opts := []aycoder.Option{aycoder.WithApprover(aycoder.ApproverFunc(func(context.Context, *aycoder.ToolUse, *aycoder.ToolSpec) aycoder.Verdict {
			return aycoder.Allow()
		}))}
		if tool != nil {
			opts = append(opts, aycoder.WithTools(tool))
		}
		loop, err := aycoder.New(&told{name: model, parts: parts}, opts...)
		require.NoError(t, err)
		return loop
	}
	var s *session.Session
	runs := func(name string, agents ...aycoder.Agent) aycoder.Tool {
		tool, err := aycoder.NewTool(name, "runs agents", func(ctx context.Context, inv *aycoder.Invocation, _ struct{}) (*aycoder.ToolResult, error) {
			for _, a := range agents {
				for _, err := range a.Run(ctx, aycoder.Input{Prompt: "go"}, aycoder.WithParent(inv)) {
					require.NoError(t, err)
				}
			}
			return aycoder.TextResult("ok"), nil
		})
		require.NoError(t, err)
		return tool
	}
	branch := func(name string, a aycoder.Agent) aycoder.Agent {
		return agentFunc(func(ctx context.Context, in aycoder.Input, opts ...aycoder.RunOption) iter.Seq2[aycoder.Event, error] {
			b, err := s.NewBranch(ctx, name, session.Root, a)
			require.NoError(t, err)
			return b.Run(ctx, in, opts...)
		})
	}
	innermost := branch("innermost", agent("small", nil, say))
	inner := branch("inner", agent("medium", runs("third", innermost, agent("small", nil, say)), call("third"), say))
	outer := agent("large", runs("second", inner, agent("medium", nil, say)), call("second"), say)
	store := journal.Memory()
	prices := session.WithPrices(func(_, model string) (aycoder.Price, bool) {
		return aycoder.Price{Output: map[string]float64{"large": 1e6, "medium": 10e6, "small": 100e6}[model]}, true
	})
	var err error
	s, err = session.New(t.Context(), store, outer, prices)
	require.NoError(t, err)
	run(t, s, "go")
	check := func() {
		t.Helper()
		used, cost := s.View().Usage()
		require.Equal(t, aycoder.Usage{Input: 70, Output: 7}, used)
		require.InDelta(t, 2*1+3*10+2*100, cost, 1e-6)
	}
	check()
	require.NoError(t, s.Close())
	s, err = session.Open(t.Context(), store, s.ID(), outer, prices)
	require.NoError(t, err)
	defer s.Close()
	check()
}
