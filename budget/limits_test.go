package budget_test

import (
	"context"
	"errors"
	"iter"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/budget"
	"github.com/aycoder/aycoder/providers/script"
)

// New limits count against what was spent already.
func TestSetLimits(t *testing.T) {
	pot, err := budget.New(budget.Config{Name: "night", Tokens: 1_000_000})
	require.NoError(t, err)
	step := script.Say("ok").WithUsage(aycoder.Usage{Input: 600, Output: 400})
	client := pot.Model(script.New(step, step, step))
	ask := func() error {
		_, err := aycoder.Complete(t.Context(), client, &aycoder.Request{Messages: []*aycoder.Message{aycoder.User("hello")}})
		return err
	}
	require.NoError(t, ask())
	require.EqualValues(t, 1000, pot.Status().Spent.Tokens)
	require.NoError(t, pot.SetLimits(budget.Amount{Tokens: 500}))
	require.ErrorAs(t, ask(), new(*budget.ExhaustedError))
	require.Error(t, pot.SetLimits(budget.Amount{Tokens: -1}))
	require.EqualValues(t, 500, pot.Status().Max.Tokens, "what is not valid changes nothing")
	require.NoError(t, pot.SetLimits(budget.Amount{Tokens: 1500}))
	require.NoError(t, ask())
	require.ErrorAs(t, ask(), new(*budget.ExhaustedError))
	require.NoError(t, pot.SetLimits(budget.Amount{}))
	require.NoError(t, ask(), "no limit")
}

// A provider that says no usage is counted by an estimate: nobody could use up the budget otherwise. Only an answer
// whose cost is said to be nothing is free, as that of a cache.
func TestNoUsage(t *testing.T) {
	price := aycoder.Price{Input: 10, Output: 50}
	for name, cost := range map[string]*float64{"silent": nil, "free": new(0.0), "not a number": new(math.NaN()), "negative": new(-1.0)} {
		t.Run(name, func(t *testing.T) {
			pot, err := budget.New(budget.Config{Money: 0.01, Models: func(provider, model string) (aycoder.ModelInfo, bool) {
				return aycoder.ModelInfo{Provider: provider, Model: model, Price: &price}, true
			}})
			require.NoError(t, err)
			silent := aycoder.ModelFunc(func(context.Context, *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
				return func(yield func(aycoder.ModelEvent, error) bool) {
					_ = yield(&aycoder.TextDelta{Text: strings.Repeat("word ", 100)}, nil) &&
						yield(&aycoder.MessageDone{Stop: aycoder.StopEndTurn, Cost: cost}, nil)
				}
			})
			var used error
			for range 10 { // each costs at least 500 bytes / 4 × 0.00005 = 0.00625
				_, err := aycoder.Complete(t.Context(), pot.Model(silent), &aycoder.Request{Messages: []*aycoder.Message{aycoder.User("hello")}})
				used = errors.Join(used, err)
			}
			s := pot.Status()
			if name == "free" {
				require.NoError(t, used)
				require.Zero(t, s.Spent.Money)
				require.Zero(t, s.Uncounted)
				return
			}
			require.ErrorAs(t, used, new(*budget.ExhaustedError))
			require.Equal(t, 2, s.Uncounted)
			require.InDelta(t, 0.0125, s.Spent.Money, 0.005)
		})
	}
}

// A limit of working time that is as large as can be does not overflow, which would make a timer fire without end.
func TestLargestWork(t *testing.T) {
	c := &timers{}
	pot, err := budget.New(budget.Config{Work: math.MaxInt64, Clock: c})
	require.NoError(t, err)
	inner := pot.Tool(func(context.Context, *aycoder.Invocation) (*aycoder.ToolResult, error) { return nil, nil })
	two := pot.Tool(func(ctx context.Context, inv *aycoder.Invocation) (*aycoder.ToolResult, error) {
		return inner(context.WithoutCancel(t.Context()), inv) // beside it, and not inside
	})
	_, err = two(t.Context(), aycoder.NewInvocation("1", "bash", nil, nil))
	require.NoError(t, err)
	require.NotEmpty(t, c.set)
	for _, d := range c.set {
		require.Positive(t, d)
	}
}

// timers is a clock that notes its timers.
type timers struct{ set []time.Duration }

func (c *timers) Now() time.Time { return time.Unix(0, 0) }
func (c *timers) AfterFunc(d time.Duration, _ func()) func() bool {
	c.set = append(c.set, d)
	return func() bool { return true }
}
