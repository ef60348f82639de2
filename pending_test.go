package aycoder_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
)

// runner is a loop whose calls are suspended, with the texts for which its tool ran.
type runner struct {
	*aycoder.Loop

	mu  sync.Mutex
	ran []string
}

func newRunner(t *testing.T, a aycoder.Approver, turns ...[]any) *runner {
	t.Helper()
	return newRunnerWith(t, a, turns)
}

func newRunnerWith(t *testing.T, a aycoder.Approver, turns [][]any, opts ...aycoder.Option) *runner {
	t.Helper()
	r := &runner{}
	tool := newTool(t, "run", aycoder.EffectWrite, func(_ context.Context, s string) (string, error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.ran = append(r.ran, s)
		return "ran " + s, nil
	})
	opts = append(opts, aycoder.WithApprover(aycoder.SuspendAsks(a)), aycoder.WithTools(tool))
	r.Loop = newLoop(t, &fake{turns: turns}, opts...)
	return r
}

// suspend runs until the questions are open, and returns the stored form of the run.
func (r *runner) suspend(t *testing.T) []byte {
	t.Helper()
	var res aycoder.Result
	_, err := collect(r.Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.Into(&res)))
	require.NoError(t, err)
	require.NotNil(t, res.Pending)
	stored, err := json.Marshal(res.Pending)
	require.NoError(t, err)
	return stored
}

// resume allows all stored calls as they were shown.
func (r *runner) resume(t *testing.T, stored []byte, opts ...aycoder.RunOption) error {
	t.Helper()
	var p aycoder.Pending
	require.NoError(t, json.Unmarshal(stored, &p))
	in := aycoder.Input{Pending: &p}
	for _, q := range p.Requests {
		in.Decisions = append(in.Decisions, aycoder.Decision{CallID: q.CallID, Digest: q.Digest, Verdict: aycoder.Allow()})
	}
	_, err := collect(r.Run(t.Context(), in, opts...))
	return err
}

// A call runs as its stored question showed it, or not at all.
func TestPendingIsWhatWasShown(t *testing.T) {
	turns := [][]any{calls(use("c", "run", `{ "text" : "EVIL <&> 1" }`), use("d", "run", `{"text":"d"}`)), say("done")}
	stored := newRunner(t, asks, turns[0]).suspend(t)
	require.NoError(t, newRunner(t, asks, turns[1]).resume(t, stored), "escapes and white space are no change")

	change := func(edit func(p map[string]any, requests []any)) []byte {
		var p map[string]any
		require.NoError(t, json.Unmarshal(stored, &p))
		edit(p, p["requests"].([]any))
		out, err := json.Marshal(p)
		require.NoError(t, err)
		return out
	}
	q := func(requests []any, i int) map[string]any { return requests[i].(map[string]any) }
	tests := map[string][]byte{
		"arguments": change(func(_ map[string]any, rs []any) { q(rs, 0)["args"] = map[string]any{"text": "benign"} }),
		"tool":      change(func(_ map[string]any, rs []any) { q(rs, 0)["name"] = "look" }),
		"preview":   change(func(_ map[string]any, rs []any) { q(rs, 0)["preview"] = "benign" }),
		"subject":   change(func(_ map[string]any, rs []any) { q(rs, 0)["subject"] = "benign" }),
		"digest":    change(func(_ map[string]any, rs []any) { q(rs, 0)["digest"] = q(rs, 1)["digest"] }),
		"of another call": change(func(_ map[string]any, rs []any) {
			q(rs, 0)["args"], q(rs, 0)["digest"] = q(rs, 1)["args"], q(rs, 1)["digest"]
		}),
		"twice":        change(func(p map[string]any, rs []any) { p["requests"] = append(rs, rs[0]) }),
		"no call":      change(func(_ map[string]any, rs []any) { q(rs, 0)["id"] = "x" }),
		"in the state": []byte(strings.Replace(string(stored), `{ \"text\" : \"EVIL`, `{ \"text\" : \"WORSE`, 1)),
	}
	for name, data := range tests {
		require.NotEqual(t, string(stored), string(data), name)
		r := newRunner(t, asks, turns[1])
		err := r.resume(t, data)
		config, ok := errors.AsType[*aycoder.ConfigError](err)
		require.True(t, ok, "%s: %v", name, err)
		require.Equal(t, "Input.Pending", config.Option, name)
		require.Empty(t, r.ran, name)
	}
}

// Open questions come in the order of the calls, in whatever order they were asked.
func TestPendingIsInTheOrderOfTheCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slowFirst := aycoder.ApproverFunc(func(_ context.Context, c *aycoder.ToolUse, _ *aycoder.ToolSpec) aycoder.Verdict {
			time.Sleep(map[string]time.Duration{"a": 3, "b": 1, "c": 2}[c.ID] * time.Second)
			return aycoder.Ask()
		})
		stored := newRunner(t, slowFirst, calls(use("a", "run", `{"text":"1"}`), use("b", "run", `{"text":"2"}`), use("c", "run", `{"text":"3"}`))).suspend(t)
		var p aycoder.Pending
		require.NoError(t, json.Unmarshal(stored, &p))
		var ids []string
		for _, q := range p.Requests {
			ids = append(ids, q.CallID)
		}
		require.Equal(t, []string{"a", "b", "c"}, ids)
	})
}

// A loop does not run the calls of a suspended run twice.
func TestPendingIsResumedOnce(t *testing.T) {
	first := calls(use("c", "run", `{"text":"once"}`))
	r := newRunner(t, asks, first, say("done"), say("done again"), first, say("third"))
	stored := r.suspend(t)
	require.NoError(t, r.resume(t, stored))
	err := r.resume(t, stored)
	require.ErrorContains(t, err, "resumed before")
	_, ok := errors.AsType[*aycoder.ConfigError](err)
	require.True(t, ok)
	require.Equal(t, []string{"once"}, r.ran)

	// Of two resumed at once, one runs the call.
	r = newRunner(t, asks, first, say("done"), say("done"))
	stored = r.suspend(t)
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() { _ = r.resume(t, stored) })
	}
	wg.Wait()
	require.Equal(t, []string{"once"}, r.ran)

	// A call whose start could not be recorded did not run.
	r = newRunner(t, asks, first, say("done"))
	stored = r.suspend(t)
	full := func(_ context.Context, rec *aycoder.FactRecord) error {
		if _, ok := rec.Fact.(*aycoder.ToolBegan); ok {
			return errors.New("disk full")
		}
		return nil
	}
	require.ErrorContains(t, r.resume(t, stored, aycoder.WithFacts(full)), "disk full")
	require.Empty(t, r.ran)
	require.NoError(t, r.resume(t, stored))
	require.Equal(t, []string{"once"}, r.ran)

	// A run that was resumed without running anything may be resumed again.
	r = newRunner(t, asks, first, say("done"))
	stored = r.suspend(t)
	var p aycoder.Pending
	require.NoError(t, json.Unmarshal(stored, &p))
	_, err = collect(r.Run(t.Context(), aycoder.Input{Pending: &p}))
	require.NoError(t, err)
	require.Empty(t, r.ran)
	require.NoError(t, r.resume(t, stored))
	require.Equal(t, []string{"once"}, r.ran)
}

// A call that was approved, and waits behind a suspended one, is run by the tool of the loop
// that takes the run up, also if the state was never stored.
func TestResumeRunsTheToolsOfItsLoop(t *testing.T) {
	allowSecond := aycoder.ApproverFunc(func(_ context.Context, c *aycoder.ToolUse, _ *aycoder.ToolSpec) aycoder.Verdict {
		if c.ID == "d" {
			return aycoder.Allow()
		}
		return aycoder.Ask()
	})
	turns := [][]any{calls(use("c", "run", `{"text":"c"}`), use("d", "run", `{"text":"d"}`)), say("done")}
	first, second := newRunner(t, allowSecond, turns[0]), newRunner(t, allowSecond, turns[1])
	var res aycoder.Result
	_, err := collect(first.Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.Into(&res)))
	require.NoError(t, err)
	q := res.Pending.Requests[0]
	in := aycoder.Input{Pending: res.Pending, Decisions: []aycoder.Decision{{CallID: "c", Digest: q.Digest, Verdict: aycoder.Allow()}}}
	_, err = collect(second.Run(t.Context(), in))
	require.NoError(t, err)
	require.Empty(t, first.ran)
	require.Equal(t, []string{"c", "d"}, second.ran)
}

// The decider of a call is not forgotten while the call waits, stored, behind an open one.
func TestDeciderOutlivesSuspensions(t *testing.T) {
	for third, by := range map[string]aycoder.DecidedBy{"asked": aycoder.ByUser, "allowed": aycoder.ByPolicy} {
		t.Run(third, func(t *testing.T) {
			policy := byText(map[string]aycoder.Verdict{"allowed": aycoder.Allow()})
			started, decided := map[string]aycoder.DecidedBy{}, map[string]aycoder.DecidedBy{}
			run := func(in aycoder.Input, turns ...[]any) (stored []byte) {
				log := &auditLog{}
				r := newRunnerWith(t, policy, turns, aycoder.WithAudit(log))
				var res aycoder.Result
				for ev, err := range r.Run(t.Context(), in, aycoder.Into(&res)) {
					require.NoError(t, err)
					if s, ok := ev.(*aycoder.ToolStarted); ok {
						started[s.Call.ID] = s.By
					}
				}
				for _, rec := range log.recs {
					if rec.Verdict == "allow" {
						decided[rec.CallID] += rec.By
					}
				}
				stored, err := json.Marshal(res.Pending)
				require.NoError(t, err)
				return stored
			}
			resume := func(stored []byte, ids ...string) []byte {
				var p aycoder.Pending
				require.NoError(t, json.Unmarshal(stored, &p))
				in := aycoder.Input{Pending: &p}
				for _, q := range p.Requests {
					if slices.Contains(ids, q.CallID) {
						in.Decisions = append(in.Decisions, aycoder.Decision{CallID: q.CallID, Digest: q.Digest, Verdict: aycoder.Allow()})
					}
				}
				return run(in, say("done"))
			}
			stored := run(aycoder.Input{Prompt: "go"},
				calls(use("1", "run", `{"text":"one"}`), use("2", "run", `{"text":"two"}`), use("3", "run", `{"text":"`+third+`"}`)))
			stored = resume(stored, "2", "3")
			stored = resume(stored)
			require.Empty(t, started)
			stored = resume(stored, "1")
			require.Equal(t, "null", string(stored))
			want := map[string]aycoder.DecidedBy{"1": aycoder.ByUser, "2": aycoder.ByUser, "3": by}
			require.Equal(t, want, started)
			require.Equal(t, want, decided, "on record, once each")
		})
	}
}

// A question that is left open suspends the run, and the answer comes in another one.
func TestLeaveQuestion(t *testing.T) {
	r := &runner{}
	tool := newTool(t, "run", aycoder.EffectWrite, func(_ context.Context, s string) (string, error) {
		r.ran = append(r.ran, s)
		return "ran " + s, nil
	})
	ask := aycoder.ApproverFunc(func(context.Context, *aycoder.ToolUse, *aycoder.ToolSpec) aycoder.Verdict { return aycoder.Ask() })
	r.Loop = newLoop(t, &fake{turns: [][]any{calls(use("a", "run", `{"text":"x"}`), use("b", "run", `{"text":"y"}`)), say("done")}}, aycoder.WithApprover(ask), aycoder.WithTools(tool))
	var res aycoder.Result
	var left []*aycoder.Approval
	for ev, err := range r.Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.Into(&res)) {
		require.NoError(t, err)
		if q, ok := ev.(*aycoder.ApprovalRequested); ok {
			a := q.Detach()
			left = append(left, a)
			require.True(t, a.Leave())
			require.False(t, a.Leave())
			require.False(t, a.Allow())
		}
	}
	require.Equal(t, aycoder.EndSuspended, res.End)
	require.Len(t, left, 2)
	require.Len(t, res.Pending.Requests, 2)
	require.Empty(t, r.ran)
	stored, err := json.Marshal(res.Pending)
	require.NoError(t, err)
	require.NoError(t, r.resume(t, stored))
	require.Equal(t, []string{"x", "y"}, r.ran)
	require.False(t, left[0].Leave())
	decoded := &aycoder.ApprovalRequested{}
	require.False(t, decoded.Detach().Leave())
}

// An answer that a program could not record before its end counts if it is given again, and about the same question.
func TestDecisionAfterTheEndOfTheProgram(t *testing.T) {
	for _, same := range []bool{true, false} {
		ran, asked := 0, 0
		tool := newTool(t, "run", aycoder.EffectWrite, func(context.Context, string) (string, error) { ran++; return "ran", nil })
		made := func(turns ...[]any) *aycoder.Loop {
			ask := aycoder.ApproverFunc(func(context.Context, *aycoder.ToolUse, *aycoder.ToolSpec) aycoder.Verdict { return aycoder.Ask() })
			return newLoop(t, &fake{turns: turns}, aycoder.WithApprover(ask), aycoder.WithTools(tool))
		}
		var last aycoder.FactRecord // as far as the program has come
		var p aycoder.Pending
		var d aycoder.Decision
		record := func(_ context.Context, rec *aycoder.FactRecord) error { last = *rec; return nil }
		for ev := range made(calls(use("a", "run", `{"text":"x"}`))).Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.WithFacts(record)) {
			if q, ok := ev.(*aycoder.ApprovalRequested); ok {
				p = aycoder.Pending{Run: last.Run, State: last.State}
				d = aycoder.Decision{CallID: q.Request.CallID, Digest: q.Request.Digest, Verdict: aycoder.Allow()}
				break
			}
		}
		if !same {
			d.Digest = "of another question"
		}
		for ev, err := range made(say("done")).Run(t.Context(), aycoder.Input{Pending: &p, Decisions: []aycoder.Decision{d}}) {
			require.NoError(t, err)
			if q, ok := ev.(*aycoder.ApprovalRequested); ok {
				asked++
				q.Deny("")
			}
		}
		require.Equal(t, same, ran == 1)
		require.Equal(t, same, asked == 0)
	}
}
