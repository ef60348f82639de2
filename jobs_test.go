package aycoder_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/providers/script"
)

var besides = []aycoder.Spent{{Agent: "other", Answers: 2, Usage: aycoder.Usage{Input: 30, Output: 4}, Unpriced: 2}}

// A run counts what others have spent for it, until it is over, and its facts tell of it.
func TestActiveRunCounts(t *testing.T) {
	var a *aycoder.ActiveRun
	ends := 0
	l := newLoop(t, script.New(script.Say("one").WithUsage(aycoder.Usage{Input: 1, Output: 1})), aycoder.WithName("main"))
	var res aycoder.Result
	var state, last aycoder.State
	facts := aycoder.WithFacts(func(_ context.Context, rec *aycoder.FactRecord) error {
		last = rec.State
		if rec.Fact == nil {
			state = rec.State
			return nil
		}
		data, err := json.Marshal(rec)
		require.NoError(t, err)
		var again aycoder.FactRecord
		require.NoError(t, json.Unmarshal(data, &again))
		state, _, err = state.Apply(again.Fact)
		return err
	})
	begin := extended(aycoder.RunExtension{Begin: func(run *aycoder.ActiveRun) func() {
		a = run
		require.NotEmpty(t, a.Place().Run)
		return func() { ends++ }
	}})
	for ev, err := range l.Run(t.Context(), aycoder.Input{Prompt: "go"}, facts, begin, aycoder.Into(&res)) {
		require.NoError(t, err)
		switch ev.(type) {
		case *aycoder.TurnFinished:
			require.Zero(t, ends)
			require.True(t, a.Count(besides))
		case *aycoder.RunFinished:
			require.False(t, a.Count(besides), "the result is there")
		}
	}
	require.Equal(t, 1, ends)
	require.False(t, a.Count(besides))
	require.Equal(t, aycoder.Usage{Input: 31, Output: 5}, res.Usage)
	require.Len(t, res.Spent, 2)
	require.Contains(t, res.Spent, besides[0])
	require.Equal(t, last.Spent(), state.Spent())
	require.Equal(t, res.Usage, state.Usage())
}

// Emit returns when the consumer has handled the event, and never waits for one that has left.
func TestActiveRunEmits(t *testing.T) {
	for _, leave := range []bool{false, true} {
		var a *aycoder.ActiveRun
		result := make(chan error, 1)
		handled := 0
		l := newLoop(t, script.New(script.Say("one"), script.Say("two")))
		for ev, err := range l.Run(t.Context(), aycoder.Input{Prompt: "go"}, extended(aycoder.RunExtension{Begin: func(run *aycoder.ActiveRun) func() {
			a = run
			go func() { result <- a.Emit(context.Background(), "c", &aycoder.TextDelta{Text: "x"}) }()
			return nil
		}, Continue: func(res *aycoder.Result) *aycoder.Message { // until the event has come
			if handled == 0 && res.Turns < 2 {
				return aycoder.User("go on")
			}
			return nil
		}})) {
			require.NoError(t, err)
			if c, ok := ev.(*aycoder.ChildEvent); ok {
				require.Equal(t, "c", c.CallID)
				handled++
				if leave {
					break
				}
			}
		}
		err := <-result
		require.Equal(t, handled == 1 && !leave, err == nil, "%v", err)
		require.Error(t, a.Emit(t.Context(), "c", &aycoder.TextDelta{Text: "x"}), "the run is over")
		a.Show(nil)
	}
}

// A reader gets the last set, and none of those that were outdated before it came.
func TestActiveRunShowsTheLast(t *testing.T) {
	l := newLoop(t, script.New(script.Say("one")))
	var got [][]aycoder.Job
	for ev, err := range l.Run(t.Context(), aycoder.Input{Prompt: "go"}, extended(aycoder.RunExtension{Begin: func(a *aycoder.ActiveRun) func() {
		for _, id := range []string{"a", "b", "c"} {
			a.Show([]aycoder.Job{{ID: id}})
		}
		return nil
	}})) {
		require.NoError(t, err)
		if e, ok := ev.(*aycoder.JobsChanged); ok {
			got = append(got, e.Jobs)
		}
	}
	require.Equal(t, [][]aycoder.Job{{{ID: "c"}}}, got)
}

// A run that outlives its call is not counted by the call, even if it ends first, and its guards stay.
func TestOutlive(t *testing.T) {
	child := newLoop(t, script.New(script.Say("inner").WithUsage(aycoder.Usage{Input: 70, Output: 7})), aycoder.WithName("child"))
	for _, outlive := range []bool{false, true} {
		var inner aycoder.Result
		tool, err := aycoder.NewTool("agent", "A tool.", func(ctx context.Context, inv *aycoder.Invocation, _ echoArgs) (*aycoder.ToolResult, error) {
			if outlive {
				inv = inv.Outlive()
				require.NoError(t, inv.Emit(ctx, &aycoder.TextDelta{Text: "nobody gets this"}))
				inv.Progress(aycoder.Progress{})
			}
			_, err := collect(child.Run(ctx, aycoder.Input{Prompt: "x"}, aycoder.WithParent(inv), aycoder.Into(&inner)))
			return aycoder.TextResult("ok"), err
		})
		require.NoError(t, err)
		child = newLoop(t, script.New(script.Say("inner").WithUsage(aycoder.Usage{Input: 70, Output: 7})), aycoder.WithName("child"))
		l := newLoop(t, script.New(script.Call("agent", `{"text":"x"}`), script.Say("done")), aycoder.WithTools(tool), aycoder.WithApprover(allow))
		var res aycoder.Result
		events, err := collect(l.Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.Into(&res)))
		require.NoError(t, err)
		counted := false
		for _, s := range res.Spent {
			counted = counted || s.Agent == "child"
		}
		require.Equal(t, !outlive, counted)
		require.Equal(t, int64(70), inner.Usage.Input)
		for _, ev := range events {
			_, child := ev.(*aycoder.ChildEvent)
			require.False(t, child)
		}
	}
}
