package budget_test

import (
	"testing"

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
