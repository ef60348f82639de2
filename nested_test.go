package aycoder_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
)

// nest makes a tool that runs a child agent, passes its events on and returns its
// answer.
func nest(t testing.TB, child *aycoder.Loop, opts ...aycoder.ToolOption) aycoder.Tool {
	t.Helper()
	tool, err := aycoder.NewTool("agent", "A tool.",
		func(ctx context.Context, inv *aycoder.Invocation, in echoArgs) (*aycoder.ToolResult, error) {
			var res aycoder.Result
			seq := child.Run(ctx, aycoder.Input{Prompt: in.Text}, aycoder.Into(&res), aycoder.WithParent(inv))
			for ev, err := range seq {
				if err == nil {
					err = inv.Emit(ctx, ev)
				}
				if err != nil {
					return nil, err
				}
			}
			r := aycoder.TextResult(strings.Join(append(lastOutputs(&res), res.Text()), "; "))
			r.Usage = res.Usage
			return r, nil
		}, append([]aycoder.ToolOption{aycoder.WithEffect(aycoder.EffectReadOnly)}, opts...)...)
	require.NoError(t, err)
	return tool
}

// nested makes a parent that calls a child which calls write once.
func nested(t testing.TB, parent, child []aycoder.Option) *aycoder.Loop {
	t.Helper()
	write := newTool(t, "write", aycoder.EffectWrite, echo)
	inner := &fake{turns: [][]any{calls(use("w", "write", `{"text":"x"}`)), say("child done")}}
	outer := &fake{turns: [][]any{
		calls(use("a", "agent", `{"text":"go"}`)), calls(use("b", "write", `{"text":"y"}`)), say("done"),
	}}
	child = append(child, aycoder.WithTools(write))
	tools := aycoder.WithTools(nest(t, newLoop(t, inner, child...)), write)
	return newLoop(t, outer, append(parent, tools)...)
}

func fixed(v aycoder.Verdict) []aycoder.Option {
	return []aycoder.Option{aycoder.WithApprover(aycoder.ApproverFunc(
		func(_ context.Context, call *aycoder.ToolUse, _ *aycoder.ToolSpec) aycoder.Verdict {
			if call.Name == "agent" {
				return aycoder.Allow()
			}
			return v
		}))}
}

// allowed runs a loop of nested, and allows whatever it asks about. It returns whether it has asked, and the output of
// the inner call.
func allowed(t *testing.T, l *aycoder.Loop) (asked bool, out string) {
	t.Helper()
	shown := ""
	for ev, err := range l.Run(t.Context(), aycoder.Input{Prompt: "go"}) {
		require.NoError(t, err)
		c, ok := ev.(*aycoder.ChildEvent)
		if !ok {
			continue
		}
		require.Equal(t, "a", c.CallID)
		switch ev := c.Innermost().(type) {
		case *aycoder.ApprovalRequested:
			asked, shown = true, string(ev.Request.Args)
			require.True(t, ev.Allow())
		case *aycoder.ToolFinished:
			out = ev.Output.Text()
			if text, ok := strings.CutPrefix(out, "got "); ok && asked {
				require.JSONEq(t, shown, `{"text":"`+text[:1]+`"}`, "the question is about what runs")
			}
		}
	}
	return asked, out
}

// The Approver of an inner run cannot get arguments past those around it.
func TestArgumentsOfAnInnerApprover(t *testing.T) {
	about := func(verdicts map[string]aycoder.Verdict) []aycoder.Option {
		return []aycoder.Option{aycoder.WithApprover(aycoder.ApproverFunc(
			func(_ context.Context, call *aycoder.ToolUse, _ *aycoder.ToolSpec) aycoder.Verdict {
				if v, ok := verdicts[string(call.Args)]; ok {
					return v
				}
				return aycoder.Allow()
			}))}
	}
	with := func(text string) aycoder.Verdict {
		return aycoder.AllowWith(json.RawMessage(`{"text":"` + text + `"}`))
	}
	x, z := `{"text":"x"}`, `{"text":"z"}`
	tests := []struct {
		name          string
		parent, child map[string]aycoder.Verdict
		asked         bool
		want          string
	}{
		{"denied", map[string]aycoder.Verdict{z: aycoder.Deny("never z")}, map[string]aycoder.Verdict{x: with("z")}, false, "denied: never z"},
		{"asked", map[string]aycoder.Verdict{z: aycoder.Ask()}, map[string]aycoder.Verdict{x: with("z")}, true, "got z"},
		{"not asked about them", map[string]aycoder.Verdict{x: aycoder.Ask()}, map[string]aycoder.Verdict{x: with("z")}, false, "got z"},
		{"asked about others'", map[string]aycoder.Verdict{x: with("z")}, map[string]aycoder.Verdict{z: aycoder.Ask()}, true, "got z"},
		{"suspended", map[string]aycoder.Verdict{z: aycoder.Suspend()}, map[string]aycoder.Verdict{x: with("z")}, false, "nobody can be asked"},
		{"changed again", map[string]aycoder.Verdict{z: with("w")}, map[string]aycoder.Verdict{x: with("z")}, false, "different arguments"},
		{"changed alike", map[string]aycoder.Verdict{z: with("z")}, map[string]aycoder.Verdict{x: with("z")}, false, "got z"},
		{"both change", map[string]aycoder.Verdict{x: with("y")}, map[string]aycoder.Verdict{`{"text":"y"}`: with("z")}, false, "got z"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			asked, out := allowed(t, nested(t, about(tt.parent), about(tt.child)))
			require.Equal(t, tt.asked, asked)
			require.Contains(t, out, tt.want)
		})
	}
}

// The strictest policy counts, and the consumer of the parent's events answers.
func TestPolicyOfNestedRuns(t *testing.T) {
	allow, ask, deny := fixed(aycoder.Allow()), fixed(aycoder.Ask()), fixed(aycoder.Deny("no"))
	suspend := fixed(aycoder.Suspend())
	other := fixed(aycoder.AllowWith(json.RawMessage(`{"text":"z"}`)))
	tests := []struct {
		name          string
		parent, child []aycoder.Option
		asked         bool
		want          string
	}{
		{"both allow", allow, allow, false, "got x"},
		{"child has none", allow, nil, false, "got x"},
		{"parent asks", ask, allow, true, "got x"},
		{"parent asks, child has none", ask, nil, true, "got x"},
		{"child asks", allow, ask, true, "got x"},
		{"both ask", ask, ask, true, "got x"},
		{"parent denies", deny, allow, false, "denied: no"},
		{"child denies", allow, deny, false, "denied: no"},
		{"parent asks, child denies", ask, deny, false, "denied: no"},
		{"parent denies, child asks", deny, ask, false, "denied: no"},
		{"parent suspends", suspend, allow, false, "nobody can be asked"},
		{"child suspends", allow, suspend, false, "nobody can be asked"},
		{"parent changes", other, allow, false, "got z"},
		{"child changes", allow, other, false, "got z"},
		{"child changes, parent asks", ask, other, true, "got z"},
		{"neither has any", nil, nil, false, "nobody can be asked here"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			asked, out := allowed(t, nested(t, tt.parent, tt.child))
			require.Equal(t, tt.asked, asked)
			require.Contains(t, out, tt.want)
		})
	}
}

// A question without an answer is denied; a rule for the session holds in both runs; a
// handle can be answered later.
func TestQuestionsOfNestedRuns(t *testing.T) {
	tests := []struct {
		name   string
		answer func(*aycoder.ApprovalRequested)
		asked  int
		want   string
	}{
		{"ignored", func(*aycoder.ApprovalRequested) {}, 2, "nobody gave it (ignored)"},
		{"refused", func(a *aycoder.ApprovalRequested) { a.Deny("not now") }, 2, "the user refused this call: not now"},
		{"allowed once", func(a *aycoder.ApprovalRequested) { a.Allow() }, 2, "got x"},
		{"allowed for the session", func(a *aycoder.ApprovalRequested) {
			require.NoError(t, a.AllowFor(aycoder.Session, "write"))
		}, 1, "got x"},
		{"later", func(a *aycoder.ApprovalRequested) {
			later := a.Detach()
			go later.Allow()
		}, 2, "got x"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			asked, out := 0, ""
			loop := nested(t, []aycoder.Option{aycoder.WithApprover(&keeper{byTool: byTool{"agent": aycoder.Allow()}})}, nil)
			for ev, err := range loop.Run(t.Context(), aycoder.Input{Prompt: "go"}) {
				require.NoError(t, err)
				c, _ := ev.(*aycoder.ChildEvent)
				if c != nil {
					ev = c.Innermost()
				}
				switch ev := ev.(type) {
				case *aycoder.ApprovalRequested:
					asked++
					tt.answer(ev)
				case *aycoder.ToolFinished:
					if c != nil {
						out = ev.Output.Text()
					}
				}
			}
			require.Equal(t, tt.asked, asked)
			require.Contains(t, out, tt.want)
		})
	}
}

// kinds names events by their JSON type.
func kinds(t testing.TB, events []aycoder.Event) (out []string) {
	t.Helper()
	for _, ev := range events {
		prefix := ""
		for {
			c, ok := ev.(*aycoder.ChildEvent)
			if !ok {
				break
			}
			prefix, ev = prefix+c.CallID+"/", c.Event
		}
		data, err := json.Marshal(ev)
		require.NoError(t, err)
		var typed struct{ Type string }
		require.NoError(t, json.Unmarshal(data, &typed))
		out = append(out, prefix+typed.Type)
	}
	return out
}

func TestEventsOfNestedRuns(t *testing.T) {
	var res aycoder.Result
	events, err := collect(nested(t, fixed(aycoder.Allow()), nil).
		Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.Into(&res)))
	require.NoError(t, err)
	require.Equal(t, []string{
		"tool_start", "a/tool_start", "a/tool_end", "a/turn_end", "a/text_delta", "a/turn_end", "a/run_end",
		"tool_end", "turn_end", "tool_start", "tool_end", "turn_end", "text_delta", "turn_end", "run_end",
	}, kinds(t, events))
	require.Equal(t, aycoder.Usage{Input: 50, Output: 5}, res.Usage, "three requests of the parent, two of the child")
	fin := events[7].(*aycoder.ToolFinished)
	require.Equal(t, aycoder.Usage{Input: 20, Output: 2}, fin.Usage)
	line, err := json.Marshal(events[1])
	require.NoError(t, err)
	require.JSONEq(t, `{"type":"child","id":"a","event":{"type":"tool_start","id":"w","name":"write",
		"args":{"text":"x"},"by":"policy"}}`, string(line))
}

// However the loop is left, neither run leaves anything running, and the history is
// valid.
func TestBreakInNestedRuns(t *testing.T) {
	for n := 1; ; n++ {
		over := false
		synctest.Test(t, func(t *testing.T) {
			var res aycoder.Result
			seen := 0
			seq := nested(t, fixed(aycoder.Allow()), nil).Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.Into(&res))
			for range seq {
				if seen++; seen == n {
					break
				}
			}
			over = seen < n
			require.NoError(t, aycoder.CheckHistory(res.Messages))
		})
		if over {
			return
		}
	}
}

// A slow consumer delays the child, and no goroutine of the child is lost when the run
// is cancelled meanwhile.
func TestNestedRunIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var last error
		for ev, err := range nested(t, fixed(aycoder.Ask()), nil).Run(ctx, aycoder.Input{Prompt: "go"}) {
			last = err
			if c, ok := ev.(*aycoder.ChildEvent); ok {
				if a, ok := c.Event.(*aycoder.ApprovalRequested); ok {
					cancel()
					synctest.Wait()
					require.False(t, a.Allow())
				}
			}
		}
		require.ErrorIs(t, last, context.Canceled)
	})
}

func TestEmitWithoutAConsumer(t *testing.T) {
	alone := aycoder.NewInvocation("a", "t", nil, nil)
	require.NoError(t, alone.Emit(t.Context(), &aycoder.TextDelta{Text: "x"}))
	var late *aycoder.Invocation
	tool, err := aycoder.NewTool("keep", "A tool.",
		func(ctx context.Context, inv *aycoder.Invocation, _ struct{}) (*aycoder.ToolResult, error) {
			late = inv
			gone, cancel := context.WithCancelCause(ctx)
			cancel(errors.New("enough"))
			require.NoError(t, inv.Emit(ctx, nil))
			require.Equal(t, 0, inv.Depth)
			err := inv.Emit(gone, &aycoder.TextDelta{Text: "x"})
			return aycoder.TextResult("ok"), err
		})
	require.NoError(t, err)
	m := &fake{turns: [][]any{calls(use("a", "keep", `{}`)), say("done")}}
	events, err := collect(newLoop(t, m, aycoder.WithTools(tool), aycoder.WithApprover(allow)).
		Run(t.Context(), aycoder.Input{Prompt: "go"}))
	require.NoError(t, err)
	require.Subset(t, kinds(t, events), []string{"a/text_delta", "tool_end"})
	require.ErrorContains(t, late.Emit(t.Context(), &aycoder.TextDelta{}), "the call is over")
}

// Three runs deep, the events carry the calls they came through.
func TestRunsInNestedRuns(t *testing.T) {
	write := newTool(t, "write", aycoder.EffectWrite, echo)
	deepest := newLoop(t, &fake{turns: [][]any{calls(use("w", "write", `{"text":"x"}`)), say("3")}}, aycoder.WithTools(write))
	middle := newLoop(t, &fake{turns: [][]any{calls(use("b", "agent", `{"text":"go"}`)), say("2")}},
		aycoder.WithTools(nest(t, deepest)))
	top := newLoop(t, &fake{turns: [][]any{calls(use("a", "agent", `{"text":"go"}`)), say("1")}},
		aycoder.WithApprover(&keeper{byTool: byTool{"agent": aycoder.Allow()}}), aycoder.WithTools(nest(t, middle)))
	asked := 0
	var events []aycoder.Event
	for ev, err := range top.Run(t.Context(), aycoder.Input{Prompt: "go"}) {
		require.NoError(t, err)
		events = append(events, ev)
		if c, ok := ev.(*aycoder.ChildEvent); ok {
			if a, ok := c.Innermost().(*aycoder.ApprovalRequested); ok {
				asked++
				require.NoError(t, a.AllowFor(aycoder.Session, a.Request.Suggested[0]))
			}
		}
	}
	require.Equal(t, 1, asked)
	require.Contains(t, kinds(t, events), "a/b/approval_request")
	require.Contains(t, kinds(t, events), "a/b/tool_end")
}
