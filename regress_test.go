package aycoder_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/timed"
)

// suspended runs one edit up to its question, and returns the run to resume.
func suspended(t *testing.T) *aycoder.Pending {
	t.Helper()
	var res aycoder.Result
	l := asking(t, [][]any{calls(editOf("1", "a.go"))}, aycoder.WithApprover(aycoder.SuspendAsks(asks)))
	_, err := collect(l.Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.Into(&res)))
	require.NoError(t, err)
	require.Len(t, res.Pending.Requests, 1)
	return res.Pending
}

func TestDecisionOfAUserHoldsAgainstLaterRules(t *testing.T) {
	tests := []struct {
		name    string
		policy  aycoder.Approver
		verdict aycoder.Verdict
		want    string
	}{
		{"denial", allow, aycoder.Deny("no"), "the user refused this call: no"},
		{"edit", allow, aycoder.AllowWith(json.RawMessage(`{"path":"b.go"}`)), "edited b.go"},
		{"edit that the policy forbids", noEnv, aycoder.AllowWith(json.RawMessage(`{"path":"x/.env"}`)), "denied: it has secrets"},
		{"edit that does not fit", asks, aycoder.AllowWith(json.RawMessage(`{"p":1}`)), "/path: required"},
		{"allowed", asks, aycoder.Allow(), "edited a.go"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := suspended(t)
			d := aycoder.Decision{CallID: "1", Digest: p.Requests[0].Digest, Verdict: tt.verdict}
			var res aycoder.Result
			l := asking(t, [][]any{say("ok")}, aycoder.WithApprover(tt.policy))
			_, err := collect(l.Run(t.Context(), aycoder.Input{Pending: p, Decisions: []aycoder.Decision{d}}, aycoder.Into(&res)))
			require.NoError(t, err)
			require.Contains(t, lastOutputs(&res)[0], tt.want)
		})
	}
	p := suspended(t)
	d := aycoder.Decision{CallID: "1", Digest: p.Requests[0].Digest, Verdict: aycoder.Allow()}
	_, err := collect(asking(t, nil).Run(t.Context(), aycoder.Input{Pending: p, Decisions: []aycoder.Decision{d, d}}))
	require.ErrorContains(t, err, "two decisions")
	_, err = collect(asking(t, nil).Run(t.Context(), aycoder.Input{Prompt: "x", Decisions: []aycoder.Decision{d}}))
	require.ErrorContains(t, err, "Pending is missing")
}

func TestErrorsWithoutABase(t *testing.T) {
	leaves := []error{
		&aycoder.RateLimitError{RetryAfter: 1}, &aycoder.OverloadedError{}, &aycoder.AuthError{}, &aycoder.UnknownModelError{},
		&aycoder.ContextTooLargeError{}, &aycoder.BadRequestError{}, &aycoder.RefusalError{}, &aycoder.TimeoutError{},
		&aycoder.StreamBrokenError{}, &aycoder.ToolNotFoundError{}, &aycoder.ToolArgsError{}, &aycoder.ToolDeniedError{},
		&aycoder.ToolPanicError{}, &aycoder.ToolTimeoutError{}, &aycoder.ToolCancelledError{},
	}
	for _, err := range leaves {
		require.NotEmpty(t, err.Error())
		require.NotErrorIs(t, err, context.Canceled, "%T", err)
		_, ok := errors.AsType[*aycoder.ModelError](err)
		require.False(t, ok, "%T", err)
		failing := newTool(t, "fails", aycoder.EffectReadOnly, func(context.Context, string) (string, error) { return "", err })
		m := &fake{turns: [][]any{calls(use("a", "fails", `{"text":""}`)), {err}, say("ok"), say("ok")}}
		var res aycoder.Result
		l := newLoop(t, m, aycoder.WithTools(failing), aycoder.WithRetry(aycoder.RetryPolicy{Attempts: -1}))
		_, _ = collect(l.Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.Into(&res)))
		require.NoError(t, aycoder.CheckHistory(res.Messages))
	}
}

func TestExecutorMayBlock(t *testing.T) {
	slot := make(chan bool, 1) // a pool with one worker
	pool := func(ctx context.Context, _ string, step func(context.Context)) {
		slot <- true
		go func() {
			defer func() { <-slot }()
			step(ctx)
		}()
	}
	var blocks []any
	for n := range 6 {
		blocks = append(blocks, use(fmt.Sprint(n), "echo", `{"text":"x"}`))
	}
	l := newLoop(t, &fake{turns: [][]any{calls(blocks...), say("ok")}}, aycoder.WithExecutor(pool),
		aycoder.WithTools(newTool(t, "echo", aycoder.EffectReadOnly, echo)))
	_, err := collect(l.Run(t.Context(), aycoder.Input{Prompt: "go"}))
	require.NoError(t, err)
}

// An executor that panics, as one does that sends to a pool which is closed, ends the run and not the program.
func TestExecutorBreaksDown(t *testing.T) {
	for name, end := range map[string]func(){"panic: the pool is closed": func() { panic("the pool is closed") }, "goroutine exited": runtime.Goexit} {
		for _, early := range []bool{true, false} { // before or after it has started the step
			synctest.Test(t, func(t *testing.T) {
				executor := func(ctx context.Context, _ string, step func(context.Context)) {
					if !early {
						go step(ctx)
					}
					end()
				}
				l := newLoop(t, &fake{turns: [][]any{calls(use("a", "echo", `{"text":"x"}`), use("b", "echo", `{"text":"x"}`)), say("ok")}},
					aycoder.WithExecutor(executor), aycoder.WithTools(newTool(t, "echo", aycoder.EffectReadOnly, echo)))
				var res aycoder.Result
				_, err := collect(l.Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.Into(&res)))
				require.ErrorContains(t, err, "executor broke down: "+name)
				require.NoError(t, aycoder.CheckHistory(res.Messages))
			})
		}
	}
}

func TestHandleIsNotLostWhileItAnswers(t *testing.T) {
	policy := aycoder.ApproverFunc(func(_ context.Context, c *aycoder.ToolUse, _ *aycoder.ToolSpec) aycoder.Verdict {
		if strings.Contains(string(c.Args), "edited") {
			runtime.GC()
			runtime.GC()
		}
		return aycoder.Ask()
	})
	var res aycoder.Result
	l := asking(t, [][]any{calls(editOf("1", "a.go")), say("ok")}, aycoder.WithApprover(policy))
	for ev, err := range l.Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.Into(&res)) {
		require.NoError(t, err)
		if a, ok := ev.(*aycoder.ApprovalRequested); ok {
			require.Same(t, a.Detach(), a.Detach())
			require.NoError(t, a.Detach().AllowWith(json.RawMessage(`{"path":"edited"}`)))
		}
	}
	require.Contains(t, lastOutputs(&res)[0], "edited edited")
}

type rawTool struct {
	spec aycoder.ToolSpec
	ran  []string
}

func (r *rawTool) Spec() aycoder.ToolSpec { return r.spec }
func (r *rawTool) Call(_ context.Context, inv *aycoder.Invocation) (*aycoder.ToolResult, error) {
	r.ran = append(r.ran, string(inv.Args))
	return aycoder.TextResult("ok"), nil
}

func TestSubjectCannotBeSpelledTwice(t *testing.T) {
	tool := &rawTool{spec: aycoder.ToolSpec{
		Name: "write", Schema: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"}}}`),
		Subject: aycoder.Subject{Arg: "path", Kind: aycoder.SubjectPath},
	}}
	var res aycoder.Result
	l := newLoop(t, &fake{turns: [][]any{calls(use("1", "write", `{"path":"ok","Path":"secret"}`), use("2", "write", `{"path":"ok"}`)), say("ok")}},
		aycoder.WithTools(tool), aycoder.WithApprover(allow))
	_, err := collect(l.Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.Into(&res)))
	require.NoError(t, err)
	require.Equal(t, []string{`{"path":"ok"}`}, tool.ran)
}

func TestRetryBudgetDoesNotOverflow(t *testing.T) {
	far := &aycoder.RateLimitError{ModelError: base("x"), ResetAt: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)}
	for _, waited := range []time.Duration{0, time.Second, math.MaxInt64} {
		f := aycoder.Failure{Err: far, Now: time.Now(), Waited: waited, Random: 0.9}
		require.Equal(t, aycoder.ModelFailed{}, aycoder.RetryPolicy{}.Decide(f))
	}
	f := aycoder.Failure{Err: &aycoder.OverloadedError{ModelError: base("x")}, Attempt: 3}
	require.Positive(t, aycoder.RetryPolicy{Base: -5}.Decide(f).After)
	require.LessOrEqual(t, aycoder.RetryPolicy{Base: math.MaxInt64}.Decide(f).After, time.Minute)
}

func TestApprovalTimeoutCountsFromWhenItIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := asking(t, [][]any{calls(editOf("1", "a.go"), editOf("2", "b.go")), say("ok")}, aycoder.WithLimits(aycoder.Limits{Approval: time.Minute}))
		var res aycoder.Result
		for ev, err := range l.Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.Into(&res)) {
			require.NoError(t, err)
			if a, ok := ev.(*aycoder.ApprovalRequested); ok {
				<-time.After(40 * time.Second)
				require.True(t, a.Allow())
			}
		}
		require.Equal(t, []string{"edited a.go", "edited b.go"}, lastOutputs(&res))
	})
}

func TestResumeTellsNothingTwice(t *testing.T) {
	tools := aycoder.WithTools(newTool(t, "read", aycoder.EffectReadOnly, echo), pathTool(t))
	l := newLoop(t, &fake{turns: [][]any{calls(use("r", "read", `{"text":"x"}`), editOf("w", "a.go"))}}, tools, aycoder.WithApprover(aycoder.SuspendAsks(asks)))
	var res aycoder.Result
	_, err := collect(l.Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.Into(&res)))
	require.NoError(t, err)
	events, err := collect(newLoop(t, &fake{turns: [][]any{say("ok")}}, tools, aycoder.WithApprover(allow)).Run(t.Context(), aycoder.Input{Pending: res.Pending}))
	require.NoError(t, err)
	var told []string
	for _, ev := range events {
		if f, ok := ev.(*aycoder.ToolFinished); ok {
			told = append(told, f.Call.ID)
		}
	}
	require.Equal(t, []string{"w"}, told)
}

func TestTurnThatWasSuspendedGoesOnWithRun(t *testing.T) {
	l := asking(t, [][]any{calls(editOf("1", "a.go")), say("ok")}, aycoder.WithApprover(aycoder.SuspendAsks(asks)))
	var turn aycoder.TurnResult
	_, err := collect(l.Turn(t.Context(), &aycoder.Request{Messages: []*aycoder.Message{aycoder.User("go")}}, &turn))
	require.NoError(t, err)
	d := aycoder.Decision{CallID: "1", Digest: turn.Pending.Requests[0].Digest, Verdict: aycoder.Allow()}
	var res aycoder.Result
	_, err = collect(l.Run(t.Context(), aycoder.Input{Pending: turn.Pending, Decisions: []aycoder.Decision{d}}, aycoder.Into(&res)))
	require.NoError(t, err)
	require.Equal(t, "ok", res.Text())
	_, err = collect(l.Turn(t.Context(), nil, nil))
	require.Error(t, err)
}

func TestResultIsTheHosts(t *testing.T) {
	var ctl aycoder.Control
	var res aycoder.Result
	_, err := collect(newLoop(t, &fake{turns: [][]any{say("ok")}}).Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.Into(&res), aycoder.WithControl(&ctl)))
	require.NoError(t, err)
	_ = slices.Delete(res.Messages, 0, 1)
	require.NoError(t, aycoder.CheckHistory(ctl.State().Messages()))
}

func TestClientThatPanicsWhenItIsDone(t *testing.T) {
	m := aycoder.ModelFunc(func(context.Context, *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
		return func(yield func(aycoder.ModelEvent, error) bool) {
			yield(textDone("answer"), nil)
			yield(&aycoder.MessageDone{Stop: aycoder.StopEndTurn}, nil)
			panic("clean-up")
		}
	})
	var res aycoder.Result
	_, err := collect(newLoop(t, m).Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.Into(&res)))
	require.NoError(t, err)
	require.Equal(t, "answer", res.Text())
}

func TestWhatTheModelIsToldIsBounded(t *testing.T) {
	timed.Serial(t)
	long := strings.Repeat("x", 4<<20)
	shell := &rawTool{spec: aycoder.ToolSpec{
		Name: "bash", Schema: json.RawMessage(`{"type":"object","properties":{"command":{"type":"string"}}}`),
		Subject: aycoder.Subject{Arg: "command", Kind: aycoder.SubjectCommand},
	}}
	edited := aycoder.ApproverFunc(func(_ context.Context, c *aycoder.ToolUse, _ *aycoder.ToolSpec) aycoder.Verdict {
		return aycoder.AllowWith(c.Args)
	})
	for name, opts := range map[string][]aycoder.Option{
		"denied": nil,
		"edited": {aycoder.WithApprover(edited)},
		"reason": {aycoder.WithApprover(byTool{"bash": aycoder.Deny(long)})},
	} {
		t.Run(name, func(t *testing.T) {
			var res aycoder.Result
			l := newLoop(t, &fake{turns: [][]any{calls(use("1", "bash", `{"command":"`+long+`"}`)), say("ok")}}, append(opts, aycoder.WithTools(shell))...)
			_, err := collect(l.Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.Into(&res)))
			require.NoError(t, err)
			require.Less(t, len(lastOutputs(&res)[0]), 10<<10)
		})
	}
}

func TestModelIsToldOfAnEditThatFailed(t *testing.T) {
	fails := newTool(t, "fails", aycoder.EffectWrite, func(context.Context, string) (string, error) { return "", errors.New("disk on fire") })
	edited := aycoder.ApproverFunc(func(context.Context, *aycoder.ToolUse, *aycoder.ToolSpec) aycoder.Verdict {
		return aycoder.AllowWith(json.RawMessage(`{"text":"other"}`))
	})
	var res aycoder.Result
	_, err := collect(newLoop(t, &fake{turns: [][]any{calls(use("1", "fails", `{"text":"x"}`)), say("ok")}}, aycoder.WithTools(fails), aycoder.WithApprover(edited)).Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.Into(&res)))
	require.NoError(t, err)
	require.Contains(t, lastOutputs(&res)[0], `changed its arguments to {"text":"other"}`)
	require.Contains(t, lastOutputs(&res)[0], "disk on fire")
}
