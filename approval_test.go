package aycoder_test

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/edit"
)

func lastOutputs(res *aycoder.Result) (texts []string) {
	for _, m := range res.Messages {
		for _, p := range m.Parts {
			if o, ok := p.(*aycoder.ToolOutput); ok {
				texts = append(texts, o.Text())
			}
		}
	}
	return texts
}

// byTool is an approver that decides by the name of the tool. It allows other tools if they
// only read, and otherwise asks.
type byTool map[string]aycoder.Verdict

func (b byTool) Decide(_ context.Context, call *aycoder.ToolUse, spec *aycoder.ToolSpec) aycoder.Verdict {
	v, ok := b[call.Name]
	if !ok && spec.Effect == aycoder.EffectReadOnly && !spec.OpenWorld {
		return aycoder.Allow()
	}
	return v
}

var asks = byTool(nil)

func asking(t testing.TB, turns [][]any, opts ...aycoder.Option) *aycoder.Loop {
	opts = append([]aycoder.Option{
		aycoder.WithApprover(asks),
		aycoder.WithTools(newTool(t, "write", aycoder.EffectWrite, echo), pathTool(t)),
	}, opts...)
	return newLoop(t, &fake{turns: turns}, opts...)
}

type pathArgs struct {
	Path string `json:"path"`
}

func pathTool(t testing.TB) aycoder.Tool {
	t.Helper()
	tool, err := aycoder.NewTool("edit", "Edits.", func(_ context.Context, _ *aycoder.Invocation, in pathArgs) (*aycoder.ToolResult, error) {
		return aycoder.TextResult("edited " + in.Path), nil
	}, aycoder.WithEffect(aycoder.EffectWrite), aycoder.WithSubject(aycoder.SubjectPath, "path"))
	require.NoError(t, err)
	return tool
}

type longPreview struct{ aycoder.Tool }

func (longPreview) Preview(context.Context, *aycoder.Invocation) (string, error) {
	return "echo " + strings.Repeat("x", 100<<10) + "; rm -rf y", nil
}

// A preview that is too long says so, and has its end, where a command might hide.
func TestPreviewOfALongText(t *testing.T) {
	l := newLoop(t, &fake{turns: [][]any{calls(editOf("1", "a")), say("ok")}},
		aycoder.WithApprover(asks), aycoder.WithTools(longPreview{pathTool(t)}))
	asked := 0
	for ev, err := range l.Run(t.Context(), aycoder.Input{Prompt: "go"}) {
		require.NoError(t, err)
		if a, ok := ev.(*aycoder.ApprovalRequested); ok {
			require.LessOrEqual(t, len(a.Request.Preview), 64<<10)
			require.Regexp(t, `^echo x+\n\[\d+ bytes are left out here\]\nx+; rm -rf y$`, a.Request.Preview)
			asked++
			a.Deny("no")
		}
	}
	require.Equal(t, 1, asked)
}

func editOf(id, path string) *aycoder.BlockDone { return use(id, "edit", `{"path":"`+path+`"}`) }

func TestSessionRuleAnswersTheOthers(t *testing.T) {
	l := asking(t, [][]any{
		calls(editOf("1", "src/a.go"), editOf("2", "src/b.go"), editOf("3", "doc/c.md")),
		calls(editOf("4", "src/d.go")),
		say("ok"), calls(editOf("5", "src/e.go")), say("ok"),
	}, aycoder.WithApprover(&keeper{}))
	var asked []string
	run := func(in aycoder.Input) aycoder.Result {
		var res aycoder.Result
		for ev, err := range l.Run(t.Context(), in, aycoder.Into(&res)) {
			require.NoError(t, err)
			a, ok := ev.(*aycoder.ApprovalRequested)
			if !ok {
				continue
			}
			asked = append(asked, a.Request.Subject)
			if a.Request.Subject != "src/a.go" {
				a.Deny("no")
				continue
			}
			require.Equal(t, []string{"edit:src/a.go", "edit:src/*"}, a.Request.Suggested)
			err := a.AllowFor(aycoder.Session, "edit")
			require.ErrorContains(t, err, "not one of the suggested")
			_, ok = errors.AsType[*aycoder.ConfigError](err)
			require.True(t, ok, "%T", err)
			require.NoError(t, a.AllowFor(aycoder.Session, a.Request.Suggested[1]))
			require.ErrorIs(t, a.AllowFor(aycoder.Session, a.Request.Suggested[0]), aycoder.ErrDecided)
		}
		return res
	}
	res := run(aycoder.Input{Prompt: "go"})
	require.Equal(t, []string{"src/a.go", "doc/c.md"}, asked)
	require.Equal(t, []string{"edited src/a.go", "edited src/b.go", "the user refused this call: no", "edited src/d.go"}, lastOutputs(&res))
	res = run(aycoder.Input{Messages: res.Messages, Prompt: "more"})
	require.Len(t, asked, 2, "the rule holds in the session's next run")
	require.Equal(t, "edited src/e.go", lastOutputs(&res)[4])
}

// noEnv denies calls about .env, and asks about others.
var noEnv = aycoder.ApproverFunc(func(_ context.Context, call *aycoder.ToolUse, _ *aycoder.ToolSpec) aycoder.Verdict {
	if strings.Contains(string(call.Args), ".env") {
		return aycoder.Deny("it has secrets")
	}
	return aycoder.Ask()
})

func TestEditedArgumentsArePutToThePolicyAgain(t *testing.T) {
	l := asking(t, [][]any{calls(editOf("1", "a.go")), say("ok")},
		aycoder.WithApprover(noEnv))
	var res aycoder.Result
	for ev, err := range l.Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.Into(&res)) {
		require.NoError(t, err)
		if a, ok := ev.(*aycoder.ApprovalRequested); ok {
			_, denied := errors.AsType[*aycoder.ToolDeniedError](a.AllowWith(json.RawMessage(`{"path":"x/.env"}`)))
			require.True(t, denied)
			_, invalid := errors.AsType[*aycoder.ToolArgsError](a.AllowWith(json.RawMessage(`{"pth":"b.go"}`)))
			require.True(t, invalid)
			require.NoError(t, a.AllowWith(json.RawMessage(`{"path":"b.go"}`)), "the question is still open")
			require.ErrorIs(t, a.AllowWith(json.RawMessage(`{"path":"c.go"}`)), aycoder.ErrDecided)
		}
	}
	require.Contains(t, lastOutputs(&res)[0], "edited b.go")
	require.JSONEq(t, `{"path":"a.go"}`, string(res.Messages[1].Calls()[0].Args), "the model's own words stay")
}

func TestDetachedApproval(t *testing.T) {
	finish := func(t *testing.T, answer func(h *aycoder.Approval), opts ...aycoder.Option) string {
		l := asking(t, [][]any{calls(editOf("1", "a.go")), say("ok")}, opts...)
		var res aycoder.Result
		for ev, err := range l.Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.Into(&res)) {
			require.NoError(t, err)
			if a, ok := ev.(*aycoder.ApprovalRequested); ok {
				answer(a.Detach())
			}
		}
		return lastOutputs(&res)[0]
	}
	t.Run("many answers, one wins", func(t *testing.T) {
		var wg sync.WaitGroup
		var mu sync.Mutex
		won := 0
		out := finish(t, func(h *aycoder.Approval) {
			assert.False(t, h.Decided())
			for range 16 {
				wg.Go(func() {
					if h.Allow() {
						mu.Lock()
						won++
						mu.Unlock()
					}
					assert.True(t, h.Decided())
				})
			}
		})
		wg.Wait()
		require.Equal(t, "edited a.go", out)
		require.Equal(t, 1, won)
	})
	t.Run("lost handle", func(t *testing.T) {
		done := make(chan bool)
		defer close(done)
		out := finish(t, func(*aycoder.Approval) {
			go func() { // the handle is garbage: collect it
				for {
					select {
					case <-done:
						return
					default:
						runtime.GC()
					}
				}
			}()
		})
		require.Equal(t, "this call needs approval, and nobody gave it (abandoned)", out)
	})
	t.Run("timeout", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var keep *aycoder.Approval
			out := finish(t, func(h *aycoder.Approval) { keep = h }, aycoder.WithLimits(aycoder.Limits{Approval: time.Hour}))
			require.Equal(t, "this call needs approval, and nobody gave it (timeout)", out)
			require.False(t, keep.Allow(), "a late answer learns that it was late")
			require.True(t, keep.Decided())
		})
	})
}

func TestAnswerAfterTheRunIsLate(t *testing.T) {
	tests := []struct {
		name  string
		leave func(cancel func()) bool // whether to break
	}{
		{"break", func(func()) bool { return true }},
		{"cancel", func(cancel func()) bool { cancel(); return false }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var h *aycoder.Approval
			var res aycoder.Result
			for ev, err := range asking(t, [][]any{calls(editOf("1", "a.go"))}).Run(ctx, aycoder.Input{Prompt: "go"}, aycoder.Into(&res)) {
				if err != nil {
					require.ErrorIs(t, err, context.Canceled)
				}
				if a, ok := ev.(*aycoder.ApprovalRequested); ok {
					h = a.Detach()
					if tt.leave(cancel) {
						break
					}
				}
			}
			require.False(t, h.Allow())
			require.ErrorIs(t, h.AllowWith(json.RawMessage(`{"path":"a"}`)), aycoder.ErrDecided)
			require.Equal(t, []string{"not run: the run was cancelled"}, lastOutputs(&res))
			require.NoError(t, aycoder.CheckHistory(res.Messages))
		})
	}
}

func TestSuspendAndResumeElsewhere(t *testing.T) {
	suspend := aycoder.SuspendAsks(asks)
	ran := map[string]int{}
	count := func(name string, effect aycoder.Effect) aycoder.Tool {
		return newTool(t, name, effect, func(_ context.Context, s string) (string, error) { ran[name]++; return s, nil })
	}
	tools := aycoder.WithTools(count("read", aycoder.EffectReadOnly), count("write", aycoder.EffectWrite))
	first := newLoop(t, &fake{turns: [][]any{calls(use("r", "read", `{"text":"x"}`), use("w", "write", `{"text":"y"}`), use("v", "write", `{"text":"z"}`))}},
		aycoder.WithApprover(suspend), tools)
	var res aycoder.Result
	_, err := collect(first.Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.Into(&res)))
	require.NoError(t, err)
	require.Equal(t, aycoder.EndSuspended, res.End)
	require.Len(t, res.Pending.Requests, 2)
	require.NoError(t, aycoder.CheckHistory(res.Messages))

	stored, err := json.Marshal(res.Pending)
	require.NoError(t, err)
	resume := func(decisions ...aycoder.Decision) (aycoder.Result, error) {
		var p aycoder.Pending
		require.NoError(t, json.Unmarshal(stored, &p))
		second := newLoop(t, &fake{turns: [][]any{say("done")}}, aycoder.WithApprover(suspend), tools)
		var res aycoder.Result
		_, err := collect(second.Run(t.Context(), aycoder.Input{Pending: &p, Decisions: decisions}, aycoder.Into(&res)))
		return res, err
	}
	w, v := res.Pending.Requests[0], res.Pending.Requests[1]
	if w.CallID != "w" {
		w, v = v, w
	}
	t.Run("another digest", func(t *testing.T) {
		_, err := resume(aycoder.Decision{CallID: "w", Digest: v.Digest, Verdict: aycoder.Allow()})
		_, ok := errors.AsType[*aycoder.ConfigError](err)
		require.True(t, ok, "%v", err)
	})
	t.Run("no digest", func(t *testing.T) {
		_, err := resume(aycoder.Decision{CallID: "w", Verdict: aycoder.Allow()})
		require.ErrorContains(t, err, `decision about call "w": it has no digest`)
	})
	t.Run("no such call", func(t *testing.T) {
		_, err := resume(aycoder.Decision{CallID: "x", Verdict: aycoder.Allow()})
		require.ErrorContains(t, err, `no open question about call "x"`)
	})
	t.Run("one answered, one still open", func(t *testing.T) {
		res, err := resume(aycoder.Decision{CallID: "v", Digest: v.Digest, Verdict: aycoder.Deny("no")})
		require.NoError(t, err)
		require.Equal(t, aycoder.EndSuspended, res.End)
		require.Len(t, res.Pending.Requests, 1)
	})
	t.Run("both answered", func(t *testing.T) {
		res, err := resume(
			aycoder.Decision{CallID: "w", Digest: w.Digest, Verdict: aycoder.Allow()},
			aycoder.Decision{CallID: "v", Digest: v.Digest, Verdict: aycoder.AllowWith(json.RawMessage(`{"text":"edited"}`))})
		require.NoError(t, err)
		require.Equal(t, "done", res.Text())
		require.Equal(t, []string{"x", "y", "note: whoever approved this call changed its arguments to {\"text\":\"edited\"}\nedited"}, lastOutputs(&res))
		require.Equal(t, map[string]int{"read": 1, "write": 2}, ran, "nothing ran twice")
	})
}

func TestNoApproverDenies(t *testing.T) {
	l := newLoop(t, &fake{turns: [][]any{calls(editOf("1", "src/a.go")), say("ok")}}, aycoder.WithTools(pathTool(t)))
	var res aycoder.Result
	_, err := collect(l.Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.Into(&res)))
	require.NoError(t, err)
	require.Equal(t, []string{"approval_required: nobody can be asked here (the host has set no approver)"}, lastOutputs(&res))
}

func TestApproverThatBreaks(t *testing.T) {
	tests := []struct {
		name string
		fn   aycoder.ApproverFunc
		want string
	}{
		{"panic", func(context.Context, *aycoder.ToolUse, *aycoder.ToolSpec) aycoder.Verdict { panic("x") }, "denied: the approver panicked"},
		{"exit", func(context.Context, *aycoder.ToolUse, *aycoder.ToolSpec) aycoder.Verdict {
			runtime.Goexit()
			return aycoder.Allow()
		}, "tool edit: goroutine exited before it returned"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var res aycoder.Result
			_, err := collect(asking(t, [][]any{calls(editOf("1", "a")), say("ok")}, aycoder.WithApprover(tt.fn)).Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.Into(&res)))
			require.NoError(t, err)
			require.Equal(t, []string{tt.want}, lastOutputs(&res))
		})
	}
}

func TestResumeWithoutTheTool(t *testing.T) {
	stored := func() *aycoder.Pending {
		s, _ := aycoder.Start(aycoder.StartInput{Messages: []*aycoder.Message{aycoder.User("go")}})
		for _, f := range []aycoder.Fact{editOf("1", "a"), &aycoder.MessageDone{}, &aycoder.Decided{Decision: aycoder.Decision{CallID: "1", Verdict: aycoder.Allow()}}} {
			var err error
			s, _, err = s.Apply(f)
			require.NoError(t, err)
		}
		return &aycoder.Pending{Run: "r", State: s}
	}
	var res aycoder.Result
	_, err := collect(newLoop(t, &fake{turns: [][]any{say("ok")}}).Run(t.Context(), aycoder.Input{Pending: stored()}, aycoder.Into(&res)))
	require.NoError(t, err)
	require.Equal(t, []string{"tool edit: no such tool"}, lastOutputs(&res))
}

// plannedKeeper asks until it has kept a rule, and then answers with a plan.
type plannedKeeper struct {
	plan edit.Plan
	kept atomic.Bool
}

func (k *plannedKeeper) Decide(context.Context, *aycoder.ToolUse, *aycoder.ToolSpec) aycoder.Verdict {
	if k.kept.Load() {
		return aycoder.AllowPlan(k.plan)
	}
	return aycoder.Ask().WithRationale(aycoder.Grounds{Suggested: []string{"edit"}})
}

func (k *plannedKeeper) KeepRule(context.Context, aycoder.Scope, string) error {
	k.kept.Store(true)
	return nil
}

// An approver has not seen the plan of a question, so that it cannot answer with one, also
// when it is asked again because of a new rule.
func TestApproverGivesNoPlan(t *testing.T) {
	plan, err := edit.NewPlan(edit.File{Path: "c.go", Kind: edit.Create, Proposed: "x"})
	require.NoError(t, err)
	l := asking(t, [][]any{calls(editOf("1", "a.go"), editOf("2", "b.go")), calls(editOf("3", "c.go")), say("ok")},
		aycoder.WithApprover(&plannedKeeper{plan: plan}))
	var res aycoder.Result
	var first *aycoder.Approval
	for ev, err := range l.Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.Into(&res)) {
		require.NoError(t, err)
		a, ok := ev.(*aycoder.ApprovalRequested)
		switch {
		case !ok:
		case first == nil:
			first = a.Detach()
		default: // both are open
			require.NoError(t, first.AllowFor(aycoder.Session, first.Request.Suggested[0]))
			require.True(t, a.Deny("no"), "an answer with a plan is none")
		}
	}
	require.Equal(t, []string{"edited a.go", "the user refused this call: no",
		"denied: the approver gave a plan that it was not shown"}, lastOutputs(&res))
}

// A State that another driver works with knows by itself whether arguments were edited.
func TestSameArgumentsAreNotEdited(t *testing.T) {
	for args, want := range map[string]bool{
		`{"path":"a.go"}`: false, `{ "path" : "\u0061.go" }`: false, `{"path":"b.go"}`: true,
	} {
		s, _ := aycoder.Start(aycoder.StartInput{
			Messages: []*aycoder.Message{aycoder.User("go")}, Tools: []*aycoder.ToolSpec{{Name: "edit", Effect: aycoder.EffectWrite}},
		})
		d := aycoder.Decision{CallID: "1", Verdict: aycoder.AllowWith(json.RawMessage(args)), By: aycoder.ByUser}
		var actions []aycoder.Action
		for _, f := range []aycoder.Fact{editOf("1", "a.go"), &aycoder.MessageDone{Stop: aycoder.StopToolUse}, &aycoder.Decided{Decision: d}} {
			var err error
			s, actions, err = s.Apply(f)
			require.NoError(t, err)
		}
		require.Equal(t, want, actions[0].(*aycoder.RunTool).Edited, args)
	}
}
