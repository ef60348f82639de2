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
	"github.com/aycoder/aycoder/edit"
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

// planning is a tool that says what it will change.
type planning struct{ aycoder.Tool }

func (planning) Plan(context.Context, *aycoder.Invocation) (edit.Plan, error) {
	return edit.NewPlan(edit.File{Path: "a", Kind: edit.Change, Base: "one", Proposed: "two"})
}

// filesAsked is a world whose agent calls tools in one message. Only the tool mend asks the user, about files.
func filesAsked(t *testing.T, names ...string) (*world, []script.Step) {
	var calls []script.Step
	for _, name := range names {
		calls = append(calls, script.Call(name, nil))
	}
	steps := []script.Step{script.Reply(calls...), script.Say("done")}
	w := newWorld(t, steps...)
	w.opts = append(w.opts, aycoder.WithTools(planning{w.tool("mend", aycoder.EffectWrite)}), aycoder.WithApprover(aycoder.ApproverFunc(
		func(_ context.Context, c *aycoder.ToolUse, _ *aycoder.ToolSpec) aycoder.Verdict {
			if c.Name == "mend" {
				return aycoder.Ask()
			}
			return aycoder.Allow()
		})))
	w.prompt("go")
	return w, steps
}

// A question about files waits for the calls before it. If these are other steps, no step waits for the question.
func TestQuestionBehindOtherSteps(t *testing.T) {
	for _, names := range [][]string{{"edit", "mend"}, {"look", "edit", "mend"}, {"edit", "edit", "mend"}, {"look", "find", "edit", "look", "mend", "look"}} {
		t.Run(fmt.Sprint(names), func(t *testing.T) {
			w, steps := filesAsked(t, names...)
			env := w.env(w.worker(nil))
			env.RegisterDelayedCallback(func() { w.answer(env, allowAll) }, time.Hour)
			require.Equal(t, aycoder.EndDone, w.execute(env).End)
			require.Equal(t, 1, w.count("mend"))
			require.Equal(t, encoded(t, w.plain("go", true, steps...)), encoded(t, w.messages()))
		})
	}
}

// A call that does not stop when its step is over keeps no other step of the message from its end, and is made again.
func TestCallThatDoesNotStop(t *testing.T) {
	w, _ := filesAsked(t, "look", "find", "edit", "mend")
	w.opts = append(w.opts, aycoder.WithLimits(aycoder.Limits{Grace: time.Millisecond}))
	worker := w.worker(func(c *temporal.Config) { c.Grace = time.Millisecond })
	step := func(ctx context.Context, key string) error { return w.step(ctx, worker, key, func() {}) }
	require.NoError(t, step(t.Context(), "t1/model"))
	var working sync.WaitGroup
	working.Add(2)
	goOn, end := make(chan struct{}), make(chan struct{})
	defer close(end)
	w.around = func(name string, _ context.Context, _ *aycoder.Invocation) (*aycoder.ToolResult, error) {
		if w.count(name) == 1 {
			working.Done()
			<-map[string]chan struct{}{"find": goOn, "look": end}[name]
		}
		return nil, nil
	}
	other := make(chan error, 1)
	go func() { other <- step(t.Context(), "t1/tool/call_2") }()
	ctx, lose := context.WithCancel(t.Context())
	go func() {
		working.Wait()
		lose()
	}()
	require.Error(t, step(ctx, "t1/tool/call_1"))
	close(goOn)
	require.NoError(t, <-other)
	require.NoError(t, step(t.Context(), "t1/tool/call_1"))
	require.Equal(t, 2, w.count("look"))
	require.Equal(t, 1, w.count("find"))
}

// A step whose call has ended waits for a question of its message until its time is over, and not for ever.
func TestQuestionThatIsNotMade(t *testing.T) {
	w := newWorld(t, twoReadsAndAnEdit()...)
	end := make(chan struct{})
	defer close(end)
	w.opts = append(w.opts, aycoder.WithLimits(aycoder.Limits{Grace: time.Millisecond}), aycoder.WithApprover(aycoder.ApproverFunc(
		func(_ context.Context, c *aycoder.ToolUse, _ *aycoder.ToolSpec) aycoder.Verdict {
			if c.Name == "edit" {
				<-end
			}
			return aycoder.Allow()
		})))
	w.prompt("go")
	ctx, lose := context.WithCancel(t.Context())
	worker := w.worker(func(c *temporal.Config) {
		c.Grace = time.Millisecond
		c.Events = func(_, _ string, _ int, ev aycoder.Event) {
			if f, ok := ev.(*aycoder.ToolFinished); ok && f.Call.ID == "call_1" {
				lose()
			}
		}
	})
	require.NoError(t, w.step(t.Context(), worker, "t1/model", func() {}))
	require.Error(t, w.step(ctx, worker, "t1/tool/call_1", func() {}))
	require.Equal(t, 1, w.count("look"))
}
