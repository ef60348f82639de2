package aycoder_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/providers/script"
)

// extended is a RunOption with an extension.
func extended(x aycoder.RunExtension) aycoder.RunOption {
	return func(c *aycoder.RunConfig) error {
		c.Extension = &x
		return nil
	}
}

// finalTool is a tool whose result is final unless its argument says that it failed.
func finalTool(t testing.TB, name string, opts ...aycoder.ToolOption) aycoder.Tool {
	t.Helper()
	type in struct {
		Fail bool `json:"fail,omitempty"`
		Go   bool `json:"go,omitempty"`
	}
	tool, err := aycoder.NewTool(name, "Ends.", func(_ context.Context, _ *aycoder.Invocation, in in) (*aycoder.ToolResult, error) {
		res := aycoder.TextResult("ended")
		res.Final, res.IsError = !in.Go, in.Fail
		return res, nil
	}, append(opts, aycoder.WithEffect(aycoder.EffectReadOnly))...)
	require.NoError(t, err)
	return tool
}

func TestFinal(t *testing.T) {
	final, work := script.Call("end", nil), script.Call("end", `{"go":true}`)
	failed := script.Call("end", `{"fail":true}`)
	tests := []struct {
		name  string
		steps []script.Step
		end   aycoder.EndReason
	}{
		{"alone", []script.Step{final}, aycoder.EndDone},
		{"beside others", []script.Step{work, script.Reply(work, final, work)}, aycoder.EndDone},
		{"failed", []script.Step{failed, script.Say("ok")}, aycoder.EndDone},
		{"beside one that failed", []script.Step{script.Reply(final, failed), script.Say("ok")}, aycoder.EndDone},
		{"beside one that is unknown", []script.Step{script.Reply(final, script.Call("nope", nil)), final}, aycoder.EndDone},
		{"beside one too many", []script.Step{script.Reply(final, work, work, work), script.Say("ok")}, aycoder.EndDone},
		{"before a refusal", []script.Step{script.Reply(script.Say("No."), final).WithStop(aycoder.StopRefusal)}, aycoder.EndRefused},
		{"at a pause", []script.Step{script.Reply(final).WithStop(aycoder.StopPaused), script.Say("ok")}, aycoder.EndDone},
		{"in a broken stream", []script.Step{script.Break(4, nil, script.Reply(final, script.Say("more"))), script.Say("ok")}, aycoder.EndDone},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := script.New(tt.steps...)
			l, err := aycoder.New(m, aycoder.WithTools(finalTool(t, "end")), aycoder.WithLimits(aycoder.Limits{Calls: 3}))
			require.NoError(t, err)
			var res aycoder.Result
			var records [][]byte
			var failed error
			for _, err := range l.Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.Into(&res), aycoder.WithFacts(func(_ context.Context, rec *aycoder.FactRecord) error {
				data, err := json.Marshal(rec)
				records = append(records, data)
				return err
			})) {
				failed = err
			}
			require.Equal(t, tt.end == aycoder.EndRefused, failed != nil, "%v", failed)
			require.Equal(t, tt.end, res.End)
			require.Len(t, m.Requests(), len(tt.steps))
			require.NoError(t, aycoder.CheckHistory(res.Messages))

			// The recorded facts lead to the same end, and so does each state that is stored and read.
			in := l.StartInput()
			in.Messages = []*aycoder.Message{aycoder.User("go")}
			state, _ := aycoder.Start(in)
			for _, data := range records[1:] {
				var rec aycoder.FactRecord
				require.NoError(t, json.Unmarshal(data, &rec))
				state, _, err = state.Apply(rec.Fact)
				require.NoError(t, err)
				stored, err := json.Marshal(state)
				require.NoError(t, err)
				state = aycoder.State{}
				require.NoError(t, json.Unmarshal(stored, &state))
			}
			require.Equal(t, tt.end, state.End())
			want, _ := json.Marshal(res.Messages)
			got, _ := json.Marshal(state.Messages())
			require.JSONEq(t, string(want), string(got))
		})
	}
}

// A message of the user is answered before a final result ends the run.
func TestFinalAfterSteering(t *testing.T) {
	for _, say := range []func(*aycoder.Control, string, ...aycoder.Part){(*aycoder.Control).Steer, (*aycoder.Control).FollowUp} {
		m := script.New(script.Call("end", nil), script.Say("Bye."))
		l, err := aycoder.New(m, aycoder.WithTools(finalTool(t, "end")))
		require.NoError(t, err)
		var ctl aycoder.Control
		var res aycoder.Result
		for ev, err := range l.Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.Into(&res), aycoder.WithControl(&ctl)) {
			require.NoError(t, err)
			if e, ok := ev.(*aycoder.TurnFinished); ok && e.Turn == 1 {
				say(&ctl, "Wait.")
			}
		}
		require.Equal(t, "Bye.", res.Text())
		require.Equal(t, "Wait.", script.LastText(m.Requests()[1]))
	}
}

func TestRunExtension(t *testing.T) {
	m := script.New(script.Call("end", `{"go":true}`), script.Say("Done."), script.Say("Really."))
	l, err := aycoder.New(m, aycoder.WithTools(finalTool(t, "own")), aycoder.WithStrictPrefix(true))
	require.NoError(t, err)
	asked := 0
	x := aycoder.RunExtension{
		Tools: []aycoder.Tool{finalTool(t, "end")},
		Context: func(next aycoder.ContextBuilder) aycoder.ContextBuilder {
			return aycoder.ContextFunc(func(ctx context.Context, in aycoder.ContextInput) (*aycoder.Request, error) {
				req, err := next.Build(ctx, in)
				req.Tail = []*aycoder.Text{{Text: "tail"}}
				return req, err
			})
		},
		Continue: func(res *aycoder.Result) *aycoder.Message {
			require.Equal(t, aycoder.EndDone, res.End)
			if asked++; asked == 2 {
				return nil
			}
			require.Equal(t, "Done.", res.Text())
			require.Equal(t, 2, res.Turns)
			return aycoder.User("Really?")
		},
	}
	var res aycoder.Result
	finished := 0
	for ev, err := range l.Run(t.Context(), aycoder.Input{Prompt: "go"}, extended(x), aycoder.Into(&res)) {
		require.NoError(t, err)
		if _, ok := ev.(*aycoder.RunFinished); ok {
			finished++
		}
	}
	require.Equal(t, 1, finished)
	require.Equal(t, 2, asked)
	require.Equal(t, "Really.", res.Text())
	for _, r := range m.Requests() {
		require.Equal(t, "end", r.Tools[1].Name)
		require.Equal(t, "tail", r.Tail[0].Text)
	}

	nothing := func(c *aycoder.RunConfig) error {
		c.Extension = (*aycoder.RunExtension)(nil)
		return nil
	}
	plain, err := aycoder.New(script.New(script.Say("ok")))
	require.NoError(t, err)
	for _, err := range plain.Run(t.Context(), aycoder.Input{Prompt: "go"}, nothing) {
		require.NoError(t, err)
	}

	fails := func(want string, x aycoder.RunExtension) {
		t.Helper()
		for _, err := range l.Run(t.Context(), aycoder.Input{Prompt: "go"}, extended(x)) {
			require.ErrorContains(t, err, want)
		}
	}
	fails("tool own: the run adds", aycoder.RunExtension{Tools: []aycoder.Tool{finalTool(t, "own")}})
	fails("tool end: the run adds", aycoder.RunExtension{Tools: []aycoder.Tool{finalTool(t, "end"), finalTool(t, "end")}})
	fails("tool: is nil", aycoder.RunExtension{Tools: []aycoder.Tool{nil}})
	fails("builder of RunExtension.Context: is nil", aycoder.RunExtension{Context: func(aycoder.ContextBuilder) aycoder.ContextBuilder { return nil }})
}

// At the end of its turns a run is not continued, and no message is left for the next run. A panic of
// Continue is one of the loop body.
func TestContinueAtTheEnd(t *testing.T) {
	l, err := aycoder.New(script.New(script.Say("a"), script.Say("b")), aycoder.WithLimits(aycoder.Limits{Turns: 1}))
	require.NoError(t, err)
	var ctl aycoder.Control
	var res aycoder.Result
	x := aycoder.RunExtension{Continue: func(*aycoder.Result) *aycoder.Message { return aycoder.User("More.") }}
	for _, err := range l.Run(t.Context(), aycoder.Input{Prompt: "go"}, extended(x), aycoder.WithControl(&ctl), aycoder.Into(&res)) {
		require.NoError(t, err)
	}
	require.Equal(t, aycoder.EndDone, res.End)
	require.Empty(t, ctl.Queued())

	res = aycoder.Result{}
	x.Continue = func(*aycoder.Result) *aycoder.Message { panic("no") }
	l, err = aycoder.New(script.New(script.Say("a")))
	require.NoError(t, err)
	require.PanicsWithValue(t, "no", func() {
		for range l.Run(t.Context(), aycoder.Input{Prompt: "go"}, extended(x), aycoder.WithControl(&ctl), aycoder.Into(&res)) {
		}
	})
	require.Equal(t, "a", res.Text())
}
