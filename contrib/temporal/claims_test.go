package temporal_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/contrib/temporal"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/session"
)

// A read whose activity comes again before the first one has learned that it was lost is made again when the other reads have ended.
func TestReadComesAgainTooEarly(t *testing.T) {
	w := newWorld(t, twoReadsAndAnEdit()...)
	w.prompt("go")
	worker := w.worker(nil)
	step := func(ctx context.Context, key string) error { return w.step(ctx, worker, key, func() {}) }
	require.NoError(t, step(t.Context(), "t1/model"))
	working, goOn := w.slowReads()
	claims := func(n int) { await(t, func() (int, bool) { return n, worker.Claims(w.id) == n }) }
	ends := make(chan error, 2)
	go func() { ends <- step(t.Context(), "t1/tool/call_2") }()
	claims(1)
	lost, lose := context.WithCancel(t.Context())
	first := make(chan error, 1)
	go func() { first <- step(lost, "t1/tool/call_1") }()
	working.Wait()
	claims(2)
	ctx, end := context.WithTimeout(t.Context(), time.Minute)
	defer end()
	go func() { ends <- step(ctx, "t1/tool/call_1") }()
	claims(3)
	lose()
	require.Error(t, <-first)
	close(goOn)
	require.NoError(t, <-ends)
	require.NoError(t, <-ends)
	require.NoError(t, step(t.Context(), "t1/tool/call_1"))
	require.Equal(t, 2, w.count("look"))
	require.Equal(t, 1, w.count("find"))
}

// phones is a world whose agent has called a declared tool twice, with a middleware around it. in has both results.
func phones(t *testing.T, around func(ctx context.Context, id string) error) (w *world, in func() temporal.Input) {
	declared, err := aycoder.DeclareTool[struct{}]("phone", "Calls somebody", aycoder.WithEffect(aycoder.EffectReadOnly))
	require.NoError(t, err)
	w = newWorld(t, script.Reply(script.Call("phone", nil), script.Call("phone", nil)), script.Say("done"))
	w.opts = append(w.opts, aycoder.WithTools(declared), aycoder.WithToolMiddleware(func(next aycoder.ToolFunc) aycoder.ToolFunc {
		return func(ctx context.Context, inv *aycoder.Invocation) (*aycoder.ToolResult, error) {
			if err := around(ctx, inv.ID); err != nil {
				return nil, err
			}
			return next(ctx, inv)
		}
	}))
	w.prompt("go")
	return w, func() temporal.Input {
		in := temporal.Input{Session: w.id, Plan: &temporal.Plan{}}
		env := w.env(w.worker(nil))
		env.SetWorkflowRunTimeout(time.Hour)
		env.ExecuteWorkflow(temporal.WorkflowName, temporal.Input{Session: w.id})
		require.Error(t, env.GetWorkflowError())
		p, err := session.ReadPending(t.Context(), w.store, w.id)
		require.NoError(t, err)
		require.Len(t, p.Calls, 2)
		for _, q := range p.Calls {
			a := w.result(q, "yes to "+q.CallID)
			in.Plan.Ask = append(in.Plan.Ask, temporal.Question{Step: temporal.Step{Key: a.Key}, Digest: a.Digest})
			in.Answers = append(in.Answers, a)
		}
		return in
	}
}

// result stores the result of a call of the first message.
func (w *world) result(q aycoder.CallRequest, text string) temporal.Answer {
	ref, err := temporal.PutResult(w.t.Context(), w.store, aycoder.CallResult{CallID: q.CallID, Digest: q.Digest, Parts: []aycoder.Part{&aycoder.Text{Text: text}}})
	require.NoError(w.t, err)
	return temporal.Answer{Key: "t1/tool/" + q.CallID, Digest: q.Digest[:16], Ref: ref}
}

func (w *world) bothAnswered() {
	text := encoded(w.t, w.messages())
	for n := range 2 {
		require.Equal(w.t, 1, strings.Count(text, fmt.Sprintf("yes to call_%d", n+1)), text)
	}
}

// Results that are given at once are all taken, also if middleware needs longer for one.
func TestResultsAreTakenTogether(t *testing.T) {
	var worker *temporal.Worker
	var w *world
	w, in := phones(t, func(ctx context.Context, id string) error {
		if id == "call_2" {
			await(t, func() (int, bool) { return 0, worker.Claims(w.id) == 0 }) // the step of the first one is over
		}
		return ctx.Err()
	})
	worker = w.worker(nil)
	start := in()
	env := w.env(worker)
	env.ExecuteWorkflow(temporal.WorkflowName, start)
	require.NoError(t, env.GetWorkflowError())
	w.bothAnswered()
}

// A fatal error about one result ends the run, which waits for another one, as it ends an ordinary run.
func TestFatalResult(t *testing.T) {
	w, in := phones(t, func(context.Context, string) error { return aycoder.Fatal(errors.New("the line is dead")) })
	start := in()
	start.Answers = start.Answers[:1]
	env := w.env(w.worker(nil))
	env.ExecuteWorkflow(temporal.WorkflowName, start)
	require.NoError(t, env.GetWorkflowError())
	var out temporal.Output
	require.NoError(t, env.GetWorkflowResult(&out))
	require.Equal(t, temporal.Output{End: aycoder.EndCancelled, Error: "ToolError"}, out)
	w.settled(w.id)
	require.NoError(t, aycoder.CheckHistory(w.messages()))
}

// Results whose worker is lost when it has recorded one of them are given to the next one.
func TestResultsOfALostWorker(t *testing.T) {
	first := make(chan struct{})
	once := sync.OnceFunc(func() { close(first) })
	var m *mortal
	died := false
	w, in := phones(t, func(ctx context.Context, id string) error {
		if id == "call_2" && !died {
			<-first
			died = true
			m.die(true)
			return errors.New("its end")
		}
		return nil
	})
	start := in()
	m = &mortal{Store: w.store}
	w.store = m
	env := w.env(w.worker(func(c *temporal.Config) {
		c.Events = func(_, _ string, _ int, ev aycoder.Event) {
			if f, ok := ev.(*aycoder.ToolFinished); ok && f.Call.ID == "call_1" {
				once()
			}
		}
		c.Open = func(ctx context.Context, id string) (*temporal.Agent, error) {
			m.die(false)
			return w.open(ctx, id)
		}
	}))
	env.ExecuteWorkflow(temporal.WorkflowName, start)
	require.NoError(t, env.GetWorkflowError())
	w.bothAnswered()
}

// Ids of calls are the model's, whatever words they have.
func TestIDsLikeKeys(t *testing.T) {
	for _, id := range []string{"a/wait/b", "a/ask/b", "a/tool/b", "a/model", "a/result", "wait/1", "model", "result", "tool"} {
		w := newWorld(t, script.Call("look", map[string]any{"path": "a"}).WithID(id), script.Call("edit", map[string]any{"path": "b"}).WithID(id+"/2"), script.Say("done"))
		w.prompt("go")
		env := w.env(w.worker(nil))
		env.RegisterDelayedCallback(func() {
			p, err := session.ReadPending(t.Context(), w.store, w.id)
			require.NoError(t, err)
			v, err := env.QueryWorkflow(temporal.QueryStatus)
			require.NoError(t, err)
			var status temporal.Status
			require.NoError(t, v.Get(&status))
			require.Len(t, p.Requests, 1, id)
			q := status.Ask[0]
			env.UpdateWorkflow(temporal.UpdateAnswer, id, &callback{t: t}, temporal.Answer{Key: q.Key, Digest: q.Digest, Allow: true})
		}, time.Hour)
		require.Equal(t, aycoder.EndDone, w.execute(env).End, id)
		require.Equal(t, 1, w.count("look"), id)
		require.Equal(t, 1, w.count("edit"), id)
	}
}
