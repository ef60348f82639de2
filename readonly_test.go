package aycoder_test

import (
	"bytes"
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
)

// reading returns the verdict with the ground that the call changes nothing.
func reading(v aycoder.Verdict) aycoder.Verdict {
	return v.WithRationale(aycoder.Grounds{Class: "read_only", ReadOnly: true, Suggested: []string{"run"}})
}

// heldTool is a command tool that answers "held" if its call must only read, or "free".
type heldTool struct{ aycoder.Tool }

func newHeldTool(t testing.TB) heldTool {
	t.Helper()
	tool, err := aycoder.NewTool("run", "Runs.",
		func(_ context.Context, inv *aycoder.Invocation, in echoArgs) (*aycoder.ToolResult, error) {
			state := "free "
			if inv.ReadOnly {
				state = "held "
			}
			return aycoder.TextResult(state + in.Text), nil
		}, aycoder.WithEffect(aycoder.EffectWrite), aycoder.WithSubject(aycoder.SubjectCommand, "text"))
	require.NoError(t, err)
	return heldTool{tool}
}

func (heldTool) Preview(_ context.Context, inv *aycoder.Invocation) (string, error) {
	return string(inv.Args), nil
}

func byText(verdicts map[string]aycoder.Verdict) aycoder.ApproverFunc {
	return func(_ context.Context, call *aycoder.ToolUse, _ *aycoder.ToolSpec) aycoder.Verdict {
		var in echoArgs
		_ = json.Unmarshal(call.Args, &in)
		if call.Name == "agent" {
			return aycoder.Allow()
		}
		return verdicts[in.Text]
	}
}

// keepsAll is an approver that is given rules and forgets them.
type keepsAll struct{ aycoder.Approver }

func (k keepsAll) Unwrap() aycoder.Approver { return k.Approver }

func (keepsAll) KeepRule(context.Context, aycoder.Scope, string) error { return nil }

func keeping(a aycoder.Approver) aycoder.Approver { return keepsAll{a} }

// A call must only read if nobody approved it, and in no other case.
func TestReadOnlyReachesTheTool(t *testing.T) {
	tests := []struct {
		name    string
		verdict aycoder.Verdict
		wrap    func(aycoder.Approver) aycoder.Approver
		answer  func(*aycoder.ApprovalRequested)
		want    string
	}{
		{"allowed as it only reads", reading(aycoder.Allow()), nil, nil, "held x"},
		{"allowed", aycoder.Allow(), nil, nil, "free x"},
		{"allowed on other grounds", aycoder.Allow().WithRationale(aycoder.Grounds{Class: "read_only"}), nil, nil, "free x"},
		{"headless", reading(aycoder.Allow()), aycoder.DenyAsks, nil, "held x"},
		{"unattended", reading(aycoder.Allow()), aycoder.SuspendAsks, nil, "held x"},
		{"by a user", reading(aycoder.Ask()), nil, func(a *aycoder.ApprovalRequested) { a.Allow() }, "free x"},
		{"by a user's rule", reading(aycoder.Ask()), keeping, func(a *aycoder.ApprovalRequested) {
			require.NoError(t, a.AllowFor(aycoder.Session, "run"))
		}, "free x"},
		{"edited by a user", reading(aycoder.Ask()), nil, func(a *aycoder.ApprovalRequested) {
			_ = a.AllowWith(json.RawMessage(`{"text":"y"}`))
		}, "free y"},
		{"edited by the policy", reading(aycoder.AllowWith(json.RawMessage(`{"text":"y"}`))), nil, nil, "held y"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var approver aycoder.Approver = byText(map[string]aycoder.Verdict{"x": tt.verdict, "y": aycoder.Ask()})
			if tt.wrap != nil {
				approver = tt.wrap(approver)
			}
			// A middleware that copies the call passes the flag on.
			copies := func(next aycoder.ToolFunc) aycoder.ToolFunc {
				return func(ctx context.Context, inv *aycoder.Invocation) (*aycoder.ToolResult, error) {
					return next(ctx, inv.WithProgress(func(aycoder.Progress) {}))
				}
			}
			l := newLoop(t, &fake{turns: [][]any{calls(use("1", "run", `{"text":"x"}`)), say("ok")}},
				aycoder.WithApprover(approver), aycoder.WithTools(newHeldTool(t)), aycoder.WithToolMiddleware(copies))
			var res aycoder.Result
			for ev, err := range l.Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.Into(&res)) {
				require.NoError(t, err)
				if a, ok := ev.(*aycoder.ApprovalRequested); ok {
					tt.answer(a)
				}
			}
			require.Contains(t, lastOutputs(&res)[0], tt.want)
		})
	}
}

// In a nested run, a call must only read if one of the policies says so.
func TestReadOnlyInNestedRuns(t *testing.T) {
	free, held, ask := aycoder.Allow(), reading(aycoder.Allow()), aycoder.Ask()
	edited := aycoder.AllowWith(json.RawMessage(`{"text":"x"}`))
	for name, tt := range map[string]struct {
		outer, inner aycoder.Verdict
		want         string
	}{
		"both allow": {free, free, "free x"}, "outer": {held, free, "held x"}, "inner": {free, held, "held x"},
		"both": {held, held, "held x"}, "outer, inner edits": {held, edited, "held x"},
		"inner, outer edits": {edited, held, "held x"}, "inner, outer asks": {ask, held, "free x"},
	} {
		t.Run(name, func(t *testing.T) {
			approve := func(v aycoder.Verdict) aycoder.Option {
				return aycoder.WithApprover(byText(map[string]aycoder.Verdict{"x": v}))
			}
			inner := newLoop(t, &fake{turns: [][]any{calls(use("w", "run", `{"text":"x"}`)), say("done")}},
				approve(tt.inner), aycoder.WithTools(newHeldTool(t)))
			l := newLoop(t, &fake{turns: [][]any{calls(use("a", "agent", `{"text":"go"}`)), say("done")}},
				approve(tt.outer), aycoder.WithTools(nest(t, inner)))
			var res aycoder.Result
			for ev, err := range l.Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.Into(&res)) {
				require.NoError(t, err)
				if c, ok := ev.(*aycoder.ChildEvent); ok {
					if a, ok := c.Innermost().(*aycoder.ApprovalRequested); ok {
						a.Allow()
					}
				}
			}
			require.Contains(t, lastOutputs(&res)[0], tt.want)
		})
	}
}

// A call that waits behind a suspended one must only read in the next process, too:
// because the state says so, or because the policy now does.
func TestReadOnlyAfterAResume(t *testing.T) {
	suspended := func(t *testing.T) *aycoder.Pending {
		l := newLoop(t, &fake{turns: [][]any{calls(use("1", "run", `{"text":"ask"}`), use("2", "run", `{"text":"read"}`))}},
			aycoder.WithTools(newHeldTool(t)), aycoder.WithApprover(byText(map[string]aycoder.Verdict{
				"ask": aycoder.Suspend(), "read": reading(aycoder.Allow()),
			})))
		var res aycoder.Result
		for _, err := range l.Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.Into(&res)) {
			require.NoError(t, err)
		}
		require.NotNil(t, res.Pending)
		return res.Pending
	}
	for _, tt := range []struct {
		name  string
		store func([]byte) []byte
		now   aycoder.Verdict // the verdict about "read"
		want  string
	}{
		{"as it was", nil, reading(aycoder.Allow()), "held read"},
		{"allowed by a rule by now", nil, aycoder.Allow(), "held read"},
		{"only reading by now", func(data []byte) []byte {
			return bytes.ReplaceAll(data, []byte(`,"read_only":true`), nil)
		}, reading(aycoder.Allow()), "held read"},
		{"asked about by now", nil, aycoder.Ask(), "not run"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pending := suspended(t)
			data, err := json.Marshal(pending)
			require.NoError(t, err)
			require.Contains(t, string(data), `"read_only":true`)
			if tt.store != nil {
				data = tt.store(data)
			}
			var stored aycoder.Pending
			require.NoError(t, json.Unmarshal(data, &stored))
			l := newLoop(t, &fake{turns: [][]any{say("ok")}}, aycoder.WithTools(newHeldTool(t)),
				aycoder.WithApprover(byText(map[string]aycoder.Verdict{"ask": aycoder.Ask(), "read": tt.now})))
			q := stored.Requests[0]
			var res aycoder.Result
			in := aycoder.Input{Pending: &stored, Decisions: []aycoder.Decision{{CallID: q.CallID, Digest: q.Digest, Verdict: aycoder.Allow()}}}
			for _, err := range l.Run(t.Context(), in, aycoder.Into(&res)) {
				require.NoError(t, err)
			}
			got := lastOutputs(&res)
			require.Equal(t, "free ask", got[0], "a user has approved that")
			require.Contains(t, got[1], tt.want)
		})
	}
}

// An engine that stores decisions keeps all of their content.
func TestReadOnlyVerdictAsJSON(t *testing.T) {
	for _, v := range []aycoder.Verdict{reading(aycoder.Allow()), aycoder.Allow(), reading(aycoder.Deny("no")), aycoder.Ask()} {
		data, err := json.Marshal(v)
		require.NoError(t, err)
		var back aycoder.Verdict
		require.NoError(t, json.Unmarshal(data, &back))
		again, err := json.Marshal(back)
		require.NoError(t, err)
		assert.Equal(t, string(data), string(again))
	}
	data, _ := json.Marshal(reading(aycoder.Allow()))
	assert.JSONEq(t, `{"kind":"allow","read_only":true}`, string(data))
	s, _ := aycoder.Start(aycoder.StartInput{Messages: []*aycoder.Message{aycoder.User("go")}})
	var d aycoder.Decision
	require.NoError(t, json.Unmarshal([]byte(`{"call_id":"1","verdict":{"kind":"allow","read_only":true},"by":"policy"}`), &d))
	var last []aycoder.Action
	for _, f := range []aycoder.Fact{use("1", "run", `{}`), &aycoder.MessageDone{Stop: aycoder.StopToolUse}, &aycoder.Decided{Decision: d}} {
		var err error
		s, last, err = s.Apply(f)
		require.NoError(t, err)
	}
	require.True(t, last[0].(*aycoder.RunTool).ReadOnly)
}
