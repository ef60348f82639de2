package tools

import (
	"context"
	"iter"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
)

// model makes the given calls, one message each, and then says that it is done.
type model struct{ turns [][]*aycoder.ToolUse }

func (m *model) Stream(context.Context, *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
	return func(yield func(aycoder.ModelEvent, error) bool) {
		stop := aycoder.StopEndTurn
		if len(m.turns) > 0 {
			stop = aycoder.StopToolUse
			for _, use := range m.turns[0] {
				if !yield(&aycoder.BlockDone{Part: use}, nil) {
					return
				}
			}
			m.turns = m.turns[1:]
		}
		yield(&aycoder.MessageDone{Stop: stop}, nil)
	}
}

// run makes a call in a run of the whole loop, whose user answers.
func (w *world) run(tool string, in args, answer func(*aycoder.ApprovalRequested)) (string, *aycoder.ToolFinished) {
	w.t.Helper()
	events := w.runAll([]*aycoder.ToolUse{{ID: "c1", Name: tool, Args: mustJSON(w.t, in)}}, answer)
	for _, ev := range events {
		if fin, ok := ev.(*aycoder.ToolFinished); ok {
			return fin.Output.Text(), fin
		}
	}
	require.Fail(w.t, "the call has no end")
	return "", nil
}

// runAll makes calls, one message each, and returns the events.
// asks asks about each call that does not only read.
var asks = aycoder.ApproverFunc(func(_ context.Context, _ *aycoder.ToolUse, spec *aycoder.ToolSpec) aycoder.Verdict {
	if spec.Effect == aycoder.EffectReadOnly && !spec.OpenWorld {
		return aycoder.Allow()
	}
	return aycoder.Ask()
})

func (w *world) runAll(uses []*aycoder.ToolUse, answer func(*aycoder.ApprovalRequested)) (events []aycoder.Event) {
	w.t.Helper()
	m := &model{}
	for _, use := range uses {
		m.turns = append(m.turns, []*aycoder.ToolUse{use})
	}
	coding, err := Coding(w.ws, w.more...)
	require.NoError(w.t, err)
	loop, err := aycoder.New(m, aycoder.WithTools(coding...), aycoder.WithApprover(asks))
	require.NoError(w.t, err)
	for ev, err := range loop.Run(w.t.Context(), aycoder.Input{Prompt: "go"}) {
		require.NoError(w.t, err)
		events = append(events, ev)
		if a, ok := ev.(*aycoder.ApprovalRequested); ok {
			answer(a)
		}
	}
	return events
}
