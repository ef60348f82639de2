package webhook_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/server/webhook"
)

// An occurrence is what a receiver gets.
type occurrence struct {
	Type string         `json:"type"`
	Data map[string]any `json:"data"`
}

// deliver returns what an endpoint gets of what happens in do, in order.
func deliver(t *testing.T, content bool, do func(s *webhook.Sender)) (all []occurrence) {
	synctest.Test(t, func(t *testing.T) {
		r := newReceiver(t)
		s := open(t, t.TempDir(), webhook.Options{Transport: r})
		e := endpoint("a")
		e.Content = content
		require.NoError(t, s.Register(e))
		do(s)
		defer run(t, s)()
		time.Sleep(time.Second)
		synctest.Wait()
		got := r.got()
		for _, id := range slices.Sorted(maps.Keys(got)) {
			var o occurrence
			require.NoError(t, json.Unmarshal([]byte(got[id]), &o))
			all = append(all, o)
		}
	})
	return all
}

// A run is told in order, without what was said unless that is wanted.
func TestWatch(t *testing.T) {
	work := func(s *webhook.Sender) {
		shell, err := aycoder.NewTool("shell", "Runs.", func(context.Context, *aycoder.Invocation, struct{ Command string }) (*aycoder.ToolResult, error) {
			return aycoder.TextResult("the output"), nil
		}, aycoder.WithSubject(aycoder.SubjectCommand, "Command"))
		require.NoError(t, err)
		model := script.New(script.Call("shell", `{"Command":"make ghp_`+token+`"}`), script.Say("All is made."))
		agent, err := aycoder.New(model, aycoder.WithTools(shell))
		require.NoError(t, err)
		w := s.Watch("s1", 0)
		w.Prompt("Make it.")
		for ev, err := range agent.Run(context.Background(), aycoder.Input{Prompt: "Make it."}) {
			require.NoError(t, err)
			if q, ok := ev.(*aycoder.ApprovalRequested); ok {
				q.Allow()
			}
			w.Event(ev)
		}
		w.Failed(nil)
		w.Failed(fmt.Errorf("run: %w", &aycoder.LimitError{}))
		require.NoError(t, w.Close())
	}
	thin, whole := deliver(t, false, work), deliver(t, true, work)
	var types []string
	for i, o := range thin {
		types = append(types, o.Type)
		require.Equal(t, "s1", o.Data["session"])
		require.NotContains(t, o.Data, "content")
		data, err := json.Marshal(o)
		require.NoError(t, err)
		for _, text := range []string{"Make it", "make", "the output", "All is made", token} {
			require.NotContains(t, string(data), text)
		}
		require.Equal(t, o.Type, whole[i].Type)
	}
	// Nobody has allowed the call, so it was not run.
	require.Equal(t, []string{"session.start", "message.sent", "tool.completed", "message.received", "message.received", "error", "session.end"}, types)
	require.Equal(t, "LimitError", thin[5].Data["kind"])
	data, err := json.Marshal(whole)
	require.NoError(t, err)
	for _, text := range []string{"Make it.", "All is made."} {
		require.Contains(t, string(data), text)
	}
	require.NotContains(t, string(data), token)
}

// Events that a run may have become these events.
func TestWatchEvents(t *testing.T) {
	cost := 0.6
	got := deliver(t, true, func(s *webhook.Sender) {
		w := s.Watch("s1", 0.5, 5, 1, 0.25)
		call := &aycoder.ToolUse{ID: "c1", Name: "read_file"}
		output := &aycoder.ToolOutput{Parts: []aycoder.Part{&aycoder.Text{Text: strings.Repeat("é", 20<<10)}}}
		w.Event(&aycoder.TextDelta{Text: "thrown away"})
		w.Event(&aycoder.Retrying{})
		w.Event(&aycoder.ChildEvent{CallID: "c0", Event: &aycoder.TextDelta{Text: "of the child"}})
		w.Event(&aycoder.TextDelta{Text: "kept"})
		w.Event(&aycoder.ToolStarted{Call: call, Args: json.RawMessage(`{"path":"` + strings.Repeat("x", 1<<20) + `"}`)})
		w.Event(&aycoder.ToolFinished{Call: call, Subject: "a.go", Output: output})
		w.Event(&aycoder.TurnFinished{Turn: 1, Cost: &cost, Model: "m"})
		w.Event(&aycoder.ChildEvent{CallID: "c0", Event: &aycoder.TurnFinished{Turn: 1}})
		w.Event(&aycoder.ToolFinished{Call: &aycoder.ToolUse{ID: "c2", Name: "edit_file"}, Err: errors.New("no"),
			Output:  &aycoder.ToolOutput{IsError: true},
			Changes: &edit.Result{Files: []edit.FileResult{{Path: "b.go", Written: true, Kind: edit.Change}, {Path: "c.go"}}}})
		w.Event(&aycoder.ApprovalRequested{Request: aycoder.ApprovalRequest{CallID: "c3", Tool: "bash", Class: "network", Preview: "+x"}})
		w.Event(&aycoder.Notice{Text: "of no interest"})
		require.NoError(t, w.Close())
	})
	var types []string
	for _, o := range got {
		types = append(types, o.Type)
	}
	require.Equal(t, []string{"session.start", "tool.called", "tool.completed", "file.read", "message.received", "cost.threshold",
		"message.received", "tool.completed", "file.write", "approval.requested", "session.end"}, types)
	content := func(i int) map[string]any { return got[i].Data["content"].(map[string]any) }
	require.Less(t, len(content(1)["args"].(string)), 17<<10)
	require.Less(t, len(content(2)["output"].(string)), 17<<10)
	require.Equal(t, "a.go", got[3].Data["path"])
	require.Equal(t, "kept", content(4)["text"])
	require.InDelta(t, 0.6, got[4].Data["cost"], 1e-9)
	require.InDelta(t, 1.0, got[5].Data["threshold"], 1e-9)
	require.InDelta(t, 1.1, got[5].Data["cost"], 1e-9)
	require.Equal(t, "c0", got[6].Data["call"])
	require.Equal(t, "of the child", content(6)["text"])
	require.Equal(t, true, got[7].Data["is_error"])
	require.Equal(t, "b.go", got[8].Data["path"])
	require.Equal(t, "network", got[9].Data["class"])
	require.Equal(t, "+x", content(9)["preview"])
}

// A wrapped agent is watched, and what a summary has cost counts for a threshold.
func TestWatchAgent(t *testing.T) {
	cost := 0.6
	got := deliver(t, true, func(s *webhook.Sender) {
		w := s.Watch("s1", 0, 1)
		say := func(prompt string, events ...any) {
			a := w.Agent(fixed(events))
			for range a.Run(t.Context(), aycoder.Input{Prompt: prompt}) {
			}
		}
		say("one", &aycoder.Compacted{Cost: &cost}, &aycoder.TurnFinished{Cost: &cost})
		say("", &aycoder.TextDelta{Text: "resumed"}, fmt.Errorf("run: %w", &aycoder.LimitError{}))
		say("three", fmt.Errorf("run: %w", context.Canceled))
		for range w.Agent(fixed{&aycoder.TurnFinished{}}).Run(t.Context(), aycoder.Input{Prompt: "four"}) {
			break
		}
		in := aycoder.Input{Messages: []*aycoder.Message{aycoder.User("first"), aycoder.Assistant("yes"), aycoder.User("five")}}
		for range w.Agent(fixed{&aycoder.TurnFinished{}}).Run(t.Context(), in) { // as chat completions have it
		}
		require.NoError(t, w.Close())
	})
	var types []string
	for _, o := range got {
		types = append(types, o.Type)
	}
	require.Equal(t, []string{"session.start", "message.sent", "message.received", "cost.threshold", "error", "message.sent", "message.received",
		"message.sent", "message.received", "session.end"}, types)
	require.Equal(t, "five", got[7].Data["content"].(map[string]any)["text"])
	require.InDelta(t, 1.2, got[3].Data["cost"], 1e-9)
	require.Equal(t, "LimitError", got[4].Data["kind"])
}

// A text is masked before it is cut, so that no part of a secret is left at its end.
func TestWatchMasksWhatIsCut(t *testing.T) {
	for _, left := range []int{5, 20, 35, 40} { // bytes of the token before the end
		text := strings.Repeat("x", 16<<10-left-1) + " ghp_" + token
		got := deliver(t, true, func(s *webhook.Sender) {
			w := s.Watch("s1", 0)
			for i := 0; i < len(text); i += 4 {
				w.Event(&aycoder.TextDelta{Text: text[i:min(i+4, len(text))]})
			}
			w.Event(&aycoder.TurnFinished{Turn: 1})
			call := &aycoder.ToolUse{ID: "c1", Name: "bash"}
			w.Event(&aycoder.ToolFinished{Call: call, Output: &aycoder.ToolOutput{Parts: []aycoder.Part{&aycoder.Text{Text: text}}}})
			require.NoError(t, w.Close())
		})
		data, err := json.Marshal(got)
		require.NoError(t, err)
		require.NotContains(t, string(data), "xxx g", left)
		require.Equal(t, 2, strings.Count(string(data), "xxx ["), "both are told")
	}
}

// A secret that only the name before it tells is hidden, too.
func TestWatchMasksByNames(t *testing.T) {
	got := deliver(t, true, func(s *webhook.Sender) {
		w := s.Watch("s1", 0)
		args := `{"url":"https://a.example","password":"hunter2-Kq9vLm2R","n":1,"env":["API_TOKEN=hunter2-x7Kq9vLm2Rt5"]}`
		w.Event(&aycoder.ToolStarted{Call: &aycoder.ToolUse{ID: "c1", Name: "login"}, Args: json.RawMessage(args)})
		require.NoError(t, w.Close())
	})
	data, err := json.Marshal(got)
	require.NoError(t, err)
	require.Contains(t, string(data), "https://a.example")
	require.NotContains(t, string(data), "hunter2")
}

// The cost of calls and of agents in the background counts for a threshold, once, although no event of the run has it.
func TestWatchCountsWhatCallsSpend(t *testing.T) {
	cost := 0.5
	got := deliver(t, false, func(s *webhook.Sender) {
		model := priced{script.New(script.Call("delegate", `{}`), script.Say("Done.")), cost}
		inner, err := aycoder.New(priced{script.New(script.Say("Inner.")).With(script.WithLoop(true)), cost})
		require.NoError(t, err)
		delegate, err := aycoder.NewTool("delegate", "Delegates.", func(ctx context.Context, inv *aycoder.Invocation, _ struct{}) (*aycoder.ToolResult, error) {
			for range 2 { // the events of the second run are seen, too
				for ev, err := range inner.Run(ctx, aycoder.Input{Prompt: "do it"}, aycoder.WithParent(inv)) {
					if err != nil {
						return nil, err
					}
					if err := inv.Emit(ctx, ev); err != nil {
						return nil, err
					}
				}
			}
			for _, err := range inner.Run(ctx, aycoder.Input{Prompt: "do it"}, aycoder.WithParent(inv)) {
				if err != nil {
					return nil, err
				}
			}
			return aycoder.TextResult("done"), nil
		}, aycoder.WithEffect(aycoder.EffectReadOnly))
		require.NoError(t, err)
		agent, err := aycoder.New(model, aycoder.WithTools(delegate))
		require.NoError(t, err)
		w := s.Watch("s1", 0, 2.4, 2.6)
		for _, err := range w.Agent(agent).Run(context.Background(), aycoder.Input{Prompt: "go"}) {
			require.NoError(t, err)
		}
		require.NoError(t, w.Close())
	})
	end := got[len(got)-1]
	require.InDelta(t, 2.5, end.Data["cost"], 1e-9)
	reached := 0
	for _, o := range got {
		if o.Type == webhook.CostThreshold {
			reached++
		}
	}
	require.Equal(t, 1, reached)
}

// priced is a model whose answers have a cost.
type priced struct {
	aycoder.ModelClient
	cost float64
}

func (p priced) Stream(ctx context.Context, req *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
	return func(yield func(aycoder.ModelEvent, error) bool) {
		for ev, err := range p.ModelClient.Stream(ctx, req) {
			if d, ok := ev.(*aycoder.MessageDone); ok {
				priced := *d
				priced.Cost = &p.cost
				ev = &priced
			}
			if !yield(ev, err) {
				return
			}
		}
	}
}

// fixed is an agent whose runs have these events, and end with an error if the last one is one.
type fixed []any

func (f fixed) Run(context.Context, aycoder.Input, ...aycoder.RunOption) iter.Seq2[aycoder.Event, error] {
	return func(yield func(aycoder.Event, error) bool) {
		for _, x := range f {
			ev, _ := x.(aycoder.Event)
			err, _ := x.(error)
			if !yield(ev, err) {
				return
			}
		}
	}
}
