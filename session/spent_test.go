package session_test

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/payer"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/session"
	"github.com/aycoder/aycoder/tools"
)

// The costs that a session tells are those that the models have charged: in runs that are suspended and go on in this
// process or the next one, in the runs of agents inside, and after the records were rewritten.
func TestSpentIsCharged(t *testing.T) {
	t.Parallel()
	inside, resumed := 0, 0
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 12))
		bill := new(payer.Bill)
		look := func(name string, effect aycoder.ToolOption) aycoder.Tool {
			tool, err := aycoder.NewTool(name, "returns its argument",
				func(_ context.Context, _ *aycoder.Invocation, in struct {
					Text string `json:"text"`
				}) (*aycoder.ToolResult, error) {
					return aycoder.TextResult(in.Text), nil
				}, effect)
			require.NoError(t, err)
			return tool
		}
		read := look("read", aycoder.WithEffect(aycoder.EffectReadOnly))
		sub, err := tools.Subagent(tools.SubagentConfig{Name: "sub", Model: payer.New(bill, seed, "small", "read"), Tools: []aycoder.Tool{read}, MaxTurns: 4})
		require.NoError(t, err)
		suspend := aycoder.ApproverFunc(func(_ context.Context, call *aycoder.ToolUse, _ *aycoder.ToolSpec) aycoder.Verdict {
			if call.Name == "write" {
				return aycoder.Suspend()
			}
			return aycoder.Allow()
		})
		loop, err := aycoder.New(payer.New(bill, seed+1, "large", "read", "write", "sub"), aycoder.WithTools(read, look("write", aycoder.WithEffect(aycoder.EffectWrite)), sub),
			aycoder.WithApprover(suspend), aycoder.WithLimits(aycoder.Limits{Turns: 8}))
		require.NoError(t, err)
		store := journal.Memory()
		s, err := session.New(t.Context(), store, loop)
		require.NoError(t, err)
		check := func(when string) {
			t.Helper()
			if s.Pending() != nil { // what the open turn costs is known when it ends
				return
			}
			answers, cost := 0, 0.0
			var usage aycoder.Usage
			v := s.View()
			for i := range v.Len() {
				n := v.Node(session.ID(i))
				if a := n.Answer; a != nil {
					answers, usage, cost = answers+1, usage.Add(a.Usage), cost+a.Cost
				}
				for _, x := range n.Spent {
					answers, usage, cost = answers+x.Answers, usage.Add(x.Usage), cost+x.Cost
					inside += x.Answers
				}
			}
			charged, tokens, cents := bill.Total()
			require.Equal(t, charged, answers, "seed %d, %s", seed, when)
			require.Equal(t, tokens, usage, "seed %d, %s", seed, when)
			require.InDelta(t, float64(cents)/100, cost, 1e-6, "seed %d, %s", seed, when)
		}
		for range 12 {
			in := aycoder.Input{Prompt: "go on"}
			if p := s.Pending(); p != nil && r.IntN(3) > 0 {
				in = aycoder.Input{}
				resumed++
				for _, q := range p.Requests {
					verdict := aycoder.Allow()
					if r.IntN(3) == 0 {
						verdict = aycoder.Deny("no")
					}
					in.Decisions = append(in.Decisions, aycoder.Decision{CallID: q.CallID, Digest: q.Digest, Verdict: verdict})
				}
			}
			for range s.Run(t.Context(), in) {
			}
			check("after a run")
			if r.IntN(3) == 0 {
				require.NoError(t, s.Trim(t.Context()))
				check("trimmed")
			}
			if r.IntN(3) == 0 {
				require.NoError(t, s.Close())
				s, err = session.Open(t.Context(), store, s.ID(), loop)
				require.NoError(t, err)
				check("opened again")
			}
		}
		require.NoError(t, s.Close())
	}
	require.Positive(t, inside)
	require.Positive(t, resumed)
}
