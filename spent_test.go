package aycoder_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
)

// priced is a client of one provider with a price.
type priced struct {
	*fake
	provider string
	price    *aycoder.Price
}

func (p *priced) ModelName() (provider, model string) { return p.provider, "m" }

func (p *priced) ModelInfo(model string) (aycoder.ModelInfo, bool) {
	return aycoder.ModelInfo{Provider: p.provider, Model: model, Price: p.price}, model == "m"
}

func done(provider, model string, in, out int64) *aycoder.MessageDone {
	return &aycoder.MessageDone{Stop: aycoder.StopEndTurn, Provider: provider, Model: model, Usage: aycoder.Usage{Input: in, Output: out}}
}

func answered(d *aycoder.MessageDone) []any {
	return []any{&aycoder.BlockDone{Part: &aycoder.Text{Text: "x"}}, d}
}

// A result tells the tokens and costs of each model and agent, and how much of it is unknown.
func TestSpent(t *testing.T) { synctest.Test(t, testSpent) }

func testSpent(t *testing.T) {
	price := &aycoder.Price{Input: 1, Output: 10, Long: &aycoder.Price{Input: 2, Output: 20}, LongFrom: 1000}
	ask := func(id string) *aycoder.BlockDone { return use(id, "agent", `{"text":"go"}`) }
	turn := func(d *aycoder.MessageDone, blocks ...any) []any {
		d.Stop = aycoder.StopToolUse
		return append(blocks, d)
	}
	free := 0.0
	cached := &aycoder.MessageDone{Stop: aycoder.StopEndTurn, Provider: "b", Model: "n", Cost: &free}
	var child *aycoder.Loop
	other, err := aycoder.NewTool("other", "A tool.", func(context.Context, *aycoder.Invocation, struct{}) (*aycoder.ToolResult, error) {
		return &aycoder.ToolResult{Usage: aycoder.Usage{Input: 7, Output: 1}}, nil
	}, aycoder.WithEffect(aycoder.EffectReadOnly))
	require.NoError(t, err)
	agent := func(report bool) aycoder.Tool {
		tool, err := aycoder.NewTool("agent", "A tool.", func(ctx context.Context, _ *aycoder.Invocation, in echoArgs) (*aycoder.ToolResult, error) {
			var res aycoder.Result
			for _, err := range child.Run(ctx, aycoder.Input{Prompt: in.Text}, aycoder.Into(&res)) {
				if err != nil {
					return nil, err
				}
			}
			r := aycoder.TextResult("ok")
			if report {
				r.Usage = res.Usage.Add(aycoder.Usage{Output: 3}) // of the tool's own request
			}
			return r, nil
		}, aycoder.WithEffect(aycoder.EffectReadOnly))
		require.NoError(t, err)
		return tool
	}
	outer := &priced{&fake{turns: [][]any{
		turn(done("a", "m", 1000, 1), ask("1")), turn(done("a", "m", 1001, 1), ask("2"), use("o", "other", `{}`)),
		{&aycoder.TextDelta{Text: "bro"}, &aycoder.OverloadedError{ModelError: &aycoder.ModelError{Err: errors.New("x")}}},
		turn(done("z", "m", 50, 1), ask("3"), ask("4")), answered(done("a", "m", 1, 0)),
	}}, "a", price}
	for _, report := range []bool{false, true} {
		child = newLoop(t, &priced{&fake{turns: [][]any{
			answered(done("b", "m", 100, 10)), answered(done("b", "n", 5, 5)), answered(&aycoder.MessageDone{Provider: "b", Model: "n"}), answered(cached),
		}}, "b", price})
		outer.fake = &fake{turns: outer.turns}
		loop := newLoop(t, outer, aycoder.WithName("lead"), aycoder.WithTools(agent(report), other), aycoder.WithLimits(aycoder.Limits{Parallel: 1}))
		var res aycoder.Result
		events, err := collect(loop.Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.Into(&res)))
		require.NoError(t, err)
		own := aycoder.Spent{Agent: "lead", Provider: "a", Model: "m", Answers: 3, Usage: aycoder.Usage{Input: 2002, Output: 2},
			Cost: (1000*1 + 1*10 + 1001*2 + 1*20 + 1) / 1e6}
		want := []aycoder.Spent{
			own,
			{Agent: "agent", Provider: "b", Model: "m", Answers: 1, Usage: aycoder.Usage{Input: 100, Output: 10}, Cost: 200 / 1e6},
			{Agent: "agent", Provider: "b", Model: "n", Answers: 3, Usage: aycoder.Usage{Input: 5, Output: 5}, Uncounted: 1, Unpriced: 2},
			{Agent: "lead", Answers: 1, Usage: aycoder.Usage{Input: 7, Output: 1}, Unpriced: 1},
			{Agent: "lead", Provider: "a", Model: "m", Uncounted: 1, Unpriced: 1, Answers: 1}, // broke off; joins the first
			{Agent: "lead", Provider: "z", Model: "m", Answers: 1, Usage: aycoder.Usage{Input: 50, Output: 1}, Unpriced: 1},
		}
		want[0].Answers, want[0].Uncounted, want[0].Unpriced = 4, 1, 1
		want = append(want[:4], want[5])
		if report {
			want[3].Answers, want[3].Unpriced = 5, 5
			want[3].Usage.Output += 4 * 3
		}
		got := map[[3]string]aycoder.Spent{}
		sum := aycoder.Usage{}
		for _, s := range res.Spent {
			key := [3]string{s.Agent, s.Provider, s.Model}
			require.NotContains(t, got, key)
			got[key] = s
			sum = sum.Add(s.Usage)
		}
		require.Len(t, got, len(want))
		for _, w := range want {
			g := got[[3]string{w.Agent, w.Provider, w.Model}]
			require.InDelta(t, w.Cost, g.Cost, 1e-12)
			g.Cost = w.Cost
			require.Equal(t, w, g)
		}
		require.Equal(t, res.Usage, sum)

		data, err := json.Marshal(events[len(events)-1])
		require.NoError(t, err)
		back, err := aycoder.DecodeEvent(data)
		require.NoError(t, err)
		require.Equal(t, res.Spent, back.(*aycoder.RunFinished).Result.Spent)
	}
}

// A run and those inside its calls end when their tokens are used up, also after a resumption.
func TestTotalOfTokens(t *testing.T) {
	asks := []any{use("1", "agent", `{"text":"go"}`), done("a", "m", 40, 10)}
	inner := &fake{turns: [][]any{calls(use("2", "note", `{"text":"x"}`)), calls(use("3", "note", `{"text":"x"}`)), calls(use("4", "note", `{"text":"x"}`)), say("done")}}
	note := newTool(t, "note", aycoder.EffectReadOnly, echo)
	outer := &fake{turns: [][]any{asks, say("done")}}
	// A tool that only reads may start before the outer answer has ended, whose tokens are not known until then.
	agent := nest(t, newLoop(t, inner, aycoder.WithTools(note)), aycoder.WithEffect(aycoder.EffectWrite))
	loop := newLoop(t, outer, aycoder.WithTools(agent), aycoder.WithApprover(allow),
		aycoder.WithLimits(aycoder.Limits{Total: 72}))
	var res aycoder.Result
	events, err := collect(loop.Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.Into(&res)))
	limit, ok := errors.AsType[*aycoder.LimitError](err)
	require.True(t, ok, "%v", err)
	require.Equal(t, int64(72), limit.Max)
	require.Equal(t, 1, res.Turns, "a request that was not sent has no message")
	require.IsType(t, &aycoder.TurnFinished{}, events[len(events)-1])
	require.Equal(t, 1, events[len(events)-1].(*aycoder.TurnFinished).Turn)
	require.Len(t, inner.reqs, 2, "50 tokens outside, 11 for each request inside")
	require.Len(t, outer.reqs, 1)
	require.NoError(t, aycoder.CheckHistory(res.Messages))
	require.Equal(t, int64(72), res.Usage.Input+res.Usage.Output)

	outer = &fake{turns: [][]any{{use("1", "note", `{"text":"x"}`), done("a", "m", 72, 0)}, say("done")}}
	loop = newLoop(t, outer, aycoder.WithTools(newTool(t, "note", aycoder.EffectWrite, echo)),
		aycoder.WithApprover(aycoder.SuspendAsks(aycoder.ApproverFunc(func(context.Context, *aycoder.ToolUse, *aycoder.ToolSpec) aycoder.Verdict { return aycoder.Ask() }))),
		aycoder.WithLimits(aycoder.Limits{Total: 72}))
	_, err = collect(loop.Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.Into(&res)))
	require.NoError(t, err)
	q := res.Pending.Requests[0]
	again := aycoder.Input{Pending: res.Pending, Decisions: []aycoder.Decision{{CallID: q.CallID, Digest: q.Digest, Verdict: aycoder.Allow()}}}
	spent := res.Spent
	_, err = collect(loop.Run(t.Context(), again, aycoder.Into(&res)))
	require.ErrorAs(t, err, &limit)
	require.Len(t, outer.reqs, 1, "resumed with all tokens used up")
	require.Equal(t, spent, res.Spent)
}

// A summary costs what the client of the run says that its model costs, unless another provider wrote it.
func TestSpentOnSummaries(t *testing.T) {
	known := 0.5
	for _, tt := range []struct {
		provider string
		told     *float64
		want     *float64
	}{{"a", nil, new(100.0 / 1e6)}, {"a", &known, &known}, {"b", nil, nil}} {
		summarise := func(next aycoder.ContextBuilder) aycoder.ContextBuilder {
			return aycoder.ContextFunc(func(ctx context.Context, in aycoder.ContextInput) (*aycoder.Request, error) {
				c := &aycoder.Compacted{Usage: aycoder.Usage{Input: 100}, Cost: tt.told, Provider: tt.provider, Model: "m"}
				if err := in.Compact(ctx, c); err != nil {
					return nil, err
				}
				return next.Build(ctx, in)
			})
		}
		m := &priced{&fake{turns: [][]any{answered(done("a", "m", 1, 0))}}, "a", &aycoder.Price{Input: 1}}
		var res aycoder.Result
		events, err := collect(newLoop(t, m, aycoder.WithContextMiddleware(summarise)).Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.Into(&res)))
		require.NoError(t, err)
		require.Equal(t, tt.want, events[0].(*aycoder.Compacted).Cost)
		cost, unpriced := 0.0, 0
		for _, s := range res.Spent {
			cost, unpriced = cost+s.Cost, unpriced+s.Unpriced
		}
		if tt.want == nil {
			require.Equal(t, 1, unpriced)
			continue
		}
		require.Zero(t, unpriced)
		require.InDelta(t, *tt.want+1/1e6, cost, 1e-12)
	}
}

// The spending of runs inside of a call counts also if the call is abandoned: of those that have ended, and
// of those that wait for a tool that does not listen.
func TestSpentInAbandonedCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		deaf := newTool(t, "deaf", aycoder.EffectReadOnly, func(context.Context, string) (string, error) {
			<-free
			return "", nil
		})
		working := calls(use("d", "deaf", `{"text":"x"}`))
		inner := newLoop(t, &fake{turns: [][]any{say("first"), working}}, aycoder.WithTools(deaf))
		agent, err := aycoder.NewTool("agent", "A tool.", func(ctx context.Context, _ *aycoder.Invocation, in echoArgs) (*aycoder.ToolResult, error) {
			for range 2 {
				for _, err := range inner.Run(ctx, aycoder.Input{Prompt: in.Text}) {
					if err != nil {
						return nil, err
					}
				}
			}
			return aycoder.TextResult("ok"), nil
		}, aycoder.WithEffect(aycoder.EffectReadOnly))
		require.NoError(t, err)
		outer := newLoop(t, &fake{turns: [][]any{calls(use("1", "agent", `{"text":"go"}`))}}, aycoder.WithTools(agent))
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			synctest.Wait() // until the deaf tool works
			cancel()
		}()
		var res aycoder.Result
		_, err = collect(outer.Run(ctx, aycoder.Input{Prompt: "go"}, aycoder.Into(&res)))
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, aycoder.Usage{Input: 30, Output: 3}, res.Usage)
		require.Len(t, res.Spent, 2)
		require.Equal(t, "agent", res.Spent[1].Agent)
		require.Equal(t, 2, res.Spent[1].Answers)
		close(free)
	})
}
