package session_test

import (
	"context"
	"encoding/json"
	"iter"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/payer"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/session"
	"github.com/aycoder/aycoder/tools"
)

// The costs that a session tells are those that the models have charged: in runs that are suspended and go on in this
// process or the next one, in the runs of agents inside, and after the records were rewritten.
func TestSpentIsCharged(t *testing.T) {
	t.Parallel()
	timed.Serial(t)
	inside, resumed := 0, 0
	for seed := range uint64(40) {
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

// told is a model that says what it is told to, and does not know its price.
type told struct {
	name  string
	parts [][]aycoder.Part
	turn  int
}

func (m *told) Stream(context.Context, *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
	return func(yield func(aycoder.ModelEvent, error) bool) {
		stop := aycoder.StopEndTurn
		for _, p := range m.parts[m.turn] {
			if _, ok := p.(*aycoder.ToolUse); ok {
				stop = aycoder.StopToolUse
			}
			if !yield(&aycoder.BlockDone{Part: p}, nil) {
				return
			}
		}
		m.turn++
		yield(&aycoder.MessageDone{Stop: stop, Usage: aycoder.Usage{Input: 10, Output: 1}, Provider: "fake", Model: m.name}, nil)
	}
}

// The costs in a call are those by the host's prices also if the program was killed before the turn ended.
func TestSpentIsPricedAfterKill(t *testing.T) {
	t.Parallel()
	dir, killed := t.TempDir(), t.TempDir()
	sub, err := tools.Subagent(tools.SubagentConfig{Name: "sub", Model: &told{name: "small", parts: [][]aycoder.Part{{&aycoder.Text{Text: "done"}}}}})
	require.NoError(t, err)
	kill, err := aycoder.NewTool("kill", "is running when the program is killed", func(context.Context, *aycoder.Invocation, struct{}) (*aycoder.ToolResult, error) {
		return aycoder.TextResult("ok"), os.CopyFS(killed, os.DirFS(dir))
	})
	require.NoError(t, err)
	model := &told{name: "large", parts: [][]aycoder.Part{
		{&aycoder.ToolUse{ID: "1", Name: "sub", Args: json.RawMessage(`{"task":"x"}`)}}, {&aycoder.Text{Text: "done"}},
	}}
	model.parts[0] = append(model.parts[0], &aycoder.ToolUse{ID: "2", Name: "kill", Args: json.RawMessage(`{}`)})
	loop, err := aycoder.New(model, aycoder.WithTools(sub, kill),
		aycoder.WithApprover(aycoder.ApproverFunc(func(context.Context, *aycoder.ToolUse, *aycoder.ToolSpec) aycoder.Verdict { return aycoder.Allow() })))
	require.NoError(t, err)
	prices := session.WithPrices(func(_, model string) (aycoder.Price, bool) {
		return aycoder.Price{Output: map[string]float64{"large": 1e6, "small": 5e6}[model]}, true
	})
	store, err := journal.Dir(dir)
	require.NoError(t, err)
	s, err := session.New(t.Context(), store, loop, prices)
	require.NoError(t, err)
	for _, err := range s.Run(t.Context(), aycoder.Input{Prompt: "go"}) {
		require.NoError(t, err)
	}
	require.NoError(t, s.Close())
	store, err = journal.Dir(killed)
	require.NoError(t, err)
	s, err = session.Open(t.Context(), store, s.ID(), loop, prices)
	require.NoError(t, err)
	defer s.Close()
	model.turn = 1
	for _, err := range s.Run(t.Context(), aycoder.Input{Prompt: "go on"}) {
		require.NoError(t, err)
	}
	cost, unpriced := 0.0, 0
	for v, i := s.View(), 0; i < v.Len(); i++ {
		n := v.Node(session.ID(i))
		if n.Answer != nil {
			cost += n.Answer.Cost
		}
		for _, x := range n.Spent {
			cost, unpriced = cost+x.Cost, unpriced+x.Unpriced
		}
	}
	require.Equal(t, []int{7, 0}, []int{int(cost), unpriced}, "two answers, and one of the agent inside")
}

// The tokens and costs of an agent that does not tell its facts count as well.
func TestSpentWithoutFacts(t *testing.T) {
	loop, err := aycoder.New(&told{name: "large", parts: [][]aycoder.Part{{&aycoder.Text{Text: "done"}}}})
	require.NoError(t, err)
	quiet := agentFunc(func(ctx context.Context, in aycoder.Input, opts ...aycoder.RunOption) iter.Seq2[aycoder.Event, error] {
		var c aycoder.RunConfig
		for _, opt := range opts {
			require.NoError(t, opt(&c))
		}
		return loop.Run(ctx, in, aycoder.Into(c.Into))
	})
	prices := session.WithPrices(func(string, string) (aycoder.Price, bool) { return aycoder.Price{Output: 3e6}, true })
	store := journal.Memory()
	s, err := session.New(t.Context(), store, quiet, prices)
	require.NoError(t, err)
	res := run(t, s, "go")
	require.NoError(t, s.Close())
	v, damage, err := session.Read(t.Context(), store, s.ID())
	require.NoError(t, err)
	require.Empty(t, damage)
	used, cost := v.Usage()
	require.Equal(t, res.Usage, used)
	require.InDelta(t, 3.0, cost, 1e-9)
}

// An answer without content costs what it costs: one after which the model goes on, one that ends the run, and a refusal. Nothing of
// it is taken for the cost of another answer.
func TestSpentOnEmptyAnswers(t *testing.T) {
	one := aycoder.Usage{Input: 100, Output: 1}
	turns := []struct {
		stop aycoder.StopReason
		text string
	}{
		{aycoder.StopPaused, ""}, {aycoder.StopEndTurn, "hi"}, {aycoder.StopEndTurn, ""}, {aycoder.StopRefusal, ""},
		{aycoder.StopPaused, ""}, {"", "half an ans"},
	}
	n := 0
	model := aycoder.ModelFunc(func(ctx context.Context, _ *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
		turn := turns[n]
		n++
		return func(yield func(aycoder.ModelEvent, error) bool) {
			if turn.text != "" && !yield(&aycoder.TextDelta{Text: turn.text}, nil) {
				return
			}
			if turn.stop == "" { // it is left
				<-ctx.Done()
				return
			}
			yield(&aycoder.MessageDone{Stop: turn.stop, Usage: one}, nil)
		}
	})
	loop, err := aycoder.New(model)
	require.NoError(t, err)
	prices := session.WithPrices(func(string, string) (aycoder.Price, bool) { return aycoder.Price{Output: 3e6}, true })
	store := journal.Memory()
	s, err := session.New(t.Context(), store, loop, prices)
	require.NoError(t, err)
	var want aycoder.Usage
	for range 4 {
		var res aycoder.Result
		for ev := range s.Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.Into(&res)) {
			if d, ok := ev.(*aycoder.TextDelta); ok && d.Text == "half an ans" {
				break
			}
		}
		want = want.Add(res.Usage)
		used, _ := s.View().Usage()
		require.Equal(t, want, used)
	}
	require.Equal(t, aycoder.Usage{Input: 500, Output: 5}, want)
	require.NoError(t, s.Close())
	v, damage, err := session.Read(t.Context(), store, s.ID())
	require.NoError(t, err)
	require.Empty(t, damage)
	used, cost := v.Usage()
	require.Equal(t, want, used)
	require.InDelta(t, 15.0, cost, 1e-9)
}
