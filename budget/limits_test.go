package budget_test

import (
	"context"
	"errors"
	"iter"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
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

// tells is a client without a price, each of whose answers takes a second and may tell what it cost.
func tells(cost *float64) aycoder.ModelClient {
	answer := script.Say("hello").WithUsage(aycoder.Usage{Input: 7, Output: 3})
	slow := script.New(answer).With(script.WithLoop(true), script.WithPace(time.Second))
	return aycoder.ModelFunc(func(ctx context.Context, req *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
		return func(yield func(aycoder.ModelEvent, error) bool) {
			for ev, err := range slow.Stream(ctx, req) {
				if done, ok := ev.(*aycoder.MessageDone); ok {
					done.Cost = cost
				}
				if !yield(ev, err) {
					return
				}
			}
		}
	})
}

// A model whose price only its answers tell does not exceed a limit of money by more than one request either: the first
// answer is awaited, and what it has cost is reserved for the others. A model that tells no cost delays nobody after that.
func TestCostInTheAnswer(t *testing.T) {
	for name, tt := range map[string]struct {
		cost    *float64
		refused int
		spent   float64
		seconds time.Duration
	}{
		"dear":   {new(0.4), 5, 1.2, 3},
		"cheap":  {new(0.001), 0, 0.008, 2},
		"free":   {new(0.0), 0, 0, 2},
		"silent": {nil, 0, 0, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, began := newPot(t, budget.Config{Money: 1}), time.Now()
				client := p.Model(tells(tt.cost))
				errs := make([]error, 8)
				var wg sync.WaitGroup
				for i := range errs {
					wg.Go(func() { _, errs[i] = aycoder.Complete(t.Context(), client, prompt(10)) })
				}
				synctest.Wait()
				require.Equal(t, 1.0, p.Status().Reserved.Money)
				wg.Wait()
				refused := 0
				for _, err := range errs {
					if _, ok := errors.AsType[*budget.ExhaustedError](err); ok {
						refused++
					}
				}
				require.Equal(t, tt.refused, refused)
				require.InDelta(t, tt.spent, p.Status().Spent.Money, 1e-9)
				require.Zero(t, p.Status().Reserved)
				require.Equal(t, tt.seconds*time.Second, time.Since(began))
			})
		})
	}
}
