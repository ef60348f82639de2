package temporal_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/log"
	sdk "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	sdkworker "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/contrib/temporal"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/session"
)

// A mortal store records nothing any more once it is dead, as that of a process that was killed.
type mortal struct {
	journal.Store
	mu     sync.Mutex
	dead   bool
	before string // a text in a record, before which it dies
}

func (m *mortal) die(dead bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dead = dead
}

func (m *mortal) Open(ctx context.Context, id string, write bool) (journal.Journal, error) {
	j, err := m.Store.Open(ctx, id, write)
	if err == nil && write {
		j = &mortalJournal{j, m}
	}
	return j, err
}

type mortalJournal struct {
	journal.Journal
	of *mortal
}

func (j *mortalJournal) Append(ctx context.Context, durable bool, records ...[]byte) error {
	j.of.mu.Lock()
	if text := j.of.before; text != "" && bytes.Contains(bytes.Join(records, nil), []byte(text)) {
		j.of.dead, j.of.before = true, ""
	}
	dead := j.of.dead
	j.of.mu.Unlock()
	if dead {
		return errors.New("killed, says /home/alice/secret-place")
	}
	return j.Journal.Append(ctx, durable, records...)
}

// lose makes the process of the first call of a tool die while the call works.
func (w *world) lose(tool string) *mortal {
	m := &mortal{Store: w.store}
	w.store = m
	w.around = func(name string, ctx context.Context, _ *aycoder.Invocation) (*aycoder.ToolResult, error) {
		if name == tool && w.count(tool) == 1 {
			m.die(true)
			return nil, errors.New("its end")
		}
		return nil, nil
	}
	return m
}

func outputsOf(messages []*aycoder.Message) map[string]string {
	out := map[string]string{}
	for _, m := range messages {
		for _, p := range m.Parts {
			if o, ok := p.(*aycoder.ToolOutput); ok {
				out[o.Name] = o.Text()
			}
		}
	}
	return out
}

func (w *world) execute(env *testsuite.TestWorkflowEnvironment) temporal.Output {
	env.ExecuteWorkflow(temporal.WorkflowName, temporal.Input{Session: w.id})
	require.True(w.t, env.IsWorkflowCompleted())
	require.NoError(w.t, env.GetWorkflowError())
	var out temporal.Output
	require.NoError(w.t, env.GetWorkflowResult(&out))
	return out
}

func allowAll(*aycoder.ApprovalRequest) bool { return true }

// A write whose worker is lost is not repeated, and the model is told that nobody knows what it has done. A read is.
func TestLostCalls(t *testing.T) {
	for tool, want := range map[string]struct {
		runs   int
		output string
	}{
		"edit": {1, "interrupted: the program ended while this call worked; its outcome is unknown"},
		"find": {2, "find of b"},
	} {
		t.Run(tool, func(t *testing.T) {
			w := newWorld(t, twoReadsAndAnEdit()...)
			w.prompt("go")
			m := w.lose(tool)
			worker := w.worker(func(c *temporal.Config) {
				c.Store = w.store
				c.Open = func(ctx context.Context, id string) (*temporal.Agent, error) {
					m.die(false) // another process
					return w.open(ctx, id)
				}
			})
			env := w.env(worker)
			env.RegisterDelayedCallback(func() { w.answer(env, allowAll) }, time.Hour)
			require.Equal(t, aycoder.EndDone, w.execute(env).End)
			require.Equal(t, want.runs, w.count(tool))
			got := outputsOf(w.messages())
			require.Contains(t, got[tool], want.output)
			delete(got, tool)
			plain := outputsOf(w.plain("go", true, twoReadsAndAnEdit()...))
			delete(plain, tool)
			require.Equal(t, plain, got)
			require.NoError(t, aycoder.CheckHistory(w.messages()))
		})
	}
}

// Reads of one message work at the same time, and each is an activity.
func TestReadsAreParallel(t *testing.T) {
	w := newWorld(t, twoReadsAndAnEdit()...)
	w.prompt("go")
	var both sync.WaitGroup
	both.Add(2)
	w.around = func(name string, _ context.Context, _ *aycoder.Invocation) (*aycoder.ToolResult, error) {
		if name != "edit" {
			both.Done()
			both.Wait() // ends only if both work
		}
		return nil, nil
	}
	env := w.env(w.worker(nil))
	var keys []string
	env.SetOnActivityStartedListener(func(info *activity.Info, _ context.Context, args converter.EncodedValues) {
		keys = append(keys, info.ActivityType.Name+" "+info.ActivityID)
	})
	env.RegisterDelayedCallback(func() { w.answer(env, allowAll) }, time.Hour)
	w.execute(env)
	slices.Sort(keys)
	require.Equal(t, []string{
		"aycoder.Model t1/model", "aycoder.Model t2/model",
		"aycoder.Tool t1/tool/call_1", "aycoder.Tool t1/tool/call_2", "aycoder.Tool t1/tool/call_3",
	}, slices.Compact(keys)) // the edit may be asked about in a separate activity
}

// step carries out a step as an activity of a worker. beat is called with each heartbeat.
func (w *world) step(ctx context.Context, worker *temporal.Worker, key string, beat func()) error {
	var s testsuite.WorkflowTestSuite
	s.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	env := s.NewTestActivityEnvironment()
	env.SetWorkerOptions(sdkworker.Options{BackgroundActivityContext: ctx})
	env.SetOnActivityHeartbeatListener(func(*activity.Info, converter.EncodedValues) { beat() })
	env.RegisterActivityWithOptions(worker.Step(w.id, key), activity.RegisterOptions{Name: key})
	_, err := env.ExecuteActivity(key)
	return err
}

// slowReads makes find wait for goOn, and the first look for its end. working ends when both work.
func (w *world) slowReads() (working *sync.WaitGroup, goOn chan struct{}) {
	working, goOn = new(sync.WaitGroup), make(chan struct{})
	working.Add(2)
	w.around = func(name string, ctx context.Context, _ *aycoder.Invocation) (*aycoder.ToolResult, error) {
		if w.count(name) == 1 {
			working.Done()
		}
		switch {
		case name == "find":
			<-goOn
		case w.count(name) == 1:
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return nil, nil
	}
	return working, goOn
}

// A read whose activity alone is lost comes again to the same worker, which makes it when the other read of the message has ended.
func TestReadIsLostAlone(t *testing.T) {
	w := newWorld(t, twoReadsAndAnEdit()...)
	w.prompt("go")
	worker := w.worker(func(c *temporal.Config) { c.Heartbeat = 4 * time.Millisecond })
	step := func(ctx context.Context, key string, beat func()) error { return w.step(ctx, worker, key, beat) }
	quiet := func() {}
	require.NoError(t, step(t.Context(), "t1/model", quiet))
	working, goOn := w.slowReads()
	ctx, lose := context.WithCancel(t.Context())
	ends := make(chan error, 2)
	go func() { ends <- step(t.Context(), "t1/tool/call_2", quiet) }()
	go func() {
		working.Wait()
		lose()
	}()
	require.Error(t, step(ctx, "t1/tool/call_1", quiet))
	ctx, end := context.WithTimeout(t.Context(), time.Minute)
	defer end()
	beat := sync.OnceFunc(func() { close(goOn) }) // it waits
	go func() { ends <- step(ctx, "t1/tool/call_1", beat) }()
	require.NoError(t, <-ends)
	require.NoError(t, <-ends)
	require.Equal(t, 2, w.count("look"))
	require.Equal(t, 1, w.count("find"))
}

func TestStrayAnswers(t *testing.T) {
	w := newWorld(t, twoReadsAndAnEdit()...)
	w.prompt("go")
	env := w.env(w.worker(nil))
	refused := 0
	env.RegisterDelayedCallback(func() {
		v, err := env.QueryWorkflow(temporal.QueryStatus)
		require.NoError(t, err)
		var status temporal.Status
		require.NoError(t, v.Get(&status))
		require.Len(t, status.Ask, 1)
		q := status.Ask[0]
		for i, a := range []temporal.Answer{
			{Key: "t1/tool/other", Digest: q.Digest, Allow: true},
			{Key: q.Key, Digest: "0123456789abcdef", Allow: true},
			{Key: q.Key, Digest: q.Digest, Ref: "sk-live-0123456789"},
		} {
			env.UpdateWorkflow(temporal.UpdateAnswer, fmt.Sprint(i), &callback{t: t, reject: func(error) { refused++ }}, a)
		}
	}, time.Hour)
	env.RegisterDelayedCallback(func() {
		require.Equal(t, 3, refused)
		require.Equal(t, 0, w.count("edit"))
		w.answer(env, func(*aycoder.ApprovalRequest) bool { return false })
	}, 2*time.Hour)
	w.execute(env)
	require.Equal(t, 0, w.count("edit"))
	require.Contains(t, outputsOf(w.messages())["edit"], "the user refused")
}

// The result of a call of a declared tool comes by reference, and so does an answer that edits the arguments.
func TestAnswersByReference(t *testing.T) {
	declared, err := aycoder.DeclareTool[struct{}]("phone", "Calls somebody")
	require.NoError(t, err)
	w := newWorld(t, script.Call("phone", nil), script.Call("edit", map[string]any{"path": "c"}), script.Say("done"))
	w.opts = append(w.opts, aycoder.WithTools(declared))
	w.prompt("go")
	env := w.env(w.worker(nil))
	answer := func(key, digest, ref string) {
		env.UpdateWorkflow(temporal.UpdateAnswer, ref, &callback{t: t}, temporal.Answer{Key: key, Digest: digest[:16], Ref: ref})
	}
	pending := func() *aycoder.Pending {
		p, err := session.ReadPending(t.Context(), w.store, w.id)
		require.NoError(t, err)
		return p
	}
	env.RegisterDelayedCallback(func() {
		if p := pending(); len(p.Requests) > 0 { // may it be called?
			ref, err := temporal.PutDecision(t.Context(), w.store, aycoder.Decision{CallID: "call_1", Digest: p.Requests[0].Digest, Verdict: aycoder.Allow()})
			require.NoError(t, err)
			answer("t1/tool/call_1", p.Requests[0].Digest, ref)
		}
	}, time.Hour)
	env.RegisterDelayedCallback(func() {
		q := pending().Calls[0]
		ref, err := temporal.PutResult(t.Context(), w.store, aycoder.CallResult{CallID: q.CallID, Digest: q.Digest, Parts: []aycoder.Part{&aycoder.Text{Text: "she says yes"}}})
		require.NoError(t, err)
		answer("t1/tool/call_1", q.Digest, ref)
	}, 2*time.Hour)
	env.RegisterDelayedCallback(func() {
		q := pending().Requests[0]
		ref, err := temporal.PutDecision(t.Context(), w.store, aycoder.Decision{CallID: q.CallID, Digest: q.Digest,
			Verdict: aycoder.AllowWith(json.RawMessage(`{"path":"elsewhere"}`))})
		require.NoError(t, err)
		answer("t2/tool/call_2", q.Digest, ref)
	}, 3*time.Hour)
	require.Equal(t, aycoder.EndDone, w.execute(env).End)
	got := outputsOf(w.messages())
	require.Equal(t, "she says yes", got["phone"])
	require.Contains(t, got["edit"], "edit of elsewhere")
}

// A run continues as a new workflow in the middle of a question, with nothing but references.
func TestContinueAsNewInTheMiddleOfAQuestion(t *testing.T) {
	w := newWorld(t, twoReadsAndAnEdit()...)
	w.prompt("go")
	env := w.env(w.worker(nil))
	ref := w.put(aycoder.User("hurry up"))
	env.RegisterDelayedCallback(func() {
		env.SetContinueAsNewSuggested(true)
		env.SignalWorkflow(temporal.SignalSteer, ref)
	}, time.Hour)
	env.ExecuteWorkflow(temporal.WorkflowName, temporal.Input{Session: w.id})
	again, ok := errors.AsType[*workflow.ContinueAsNewError](env.GetWorkflowError())
	require.True(t, ok, env.GetWorkflowError())
	var in temporal.Input
	require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(again.Input, &in))
	require.Equal(t, []string{ref}, in.Say)
	require.Len(t, in.Plan.Ask, 1)
	require.Less(t, again.Input.Size(), 600)

	env = w.env(w.worker(nil))
	env.RegisterDelayedCallback(func() { w.answer(env, allowAll) }, 48*time.Hour)
	env.ExecuteWorkflow(temporal.WorkflowName, in)
	require.NoError(t, env.GetWorkflowError())
	require.Equal(t, 1, w.count("edit"))
	require.Equal(t, 1, strings.Count(encoded(t, w.messages()), "hurry up"))
	_, err := w.store.Open(t.Context(), ref, false)
	require.Error(t, err, "the reference is still there")
}

// A run of 1,000 steps continues as a new workflow whenever the history is long: while a question is open, and between steps that
// nobody is asked about. The transcript is that of an ordinary run.
func TestManySteps(t *testing.T) {
	const turns = 500
	var steps []script.Step
	for n := range turns - 1 {
		tool := "look"
		if n == turns/2 {
			tool = "edit"
		}
		steps = append(steps, script.Call(tool, map[string]any{"path": fmt.Sprint(n)}))
	}
	steps = append(steps, script.Say("done"))
	w := newWorld(t, steps...)
	w.opts = append(w.opts, aycoder.WithLimits(aycoder.Limits{Turns: turns + 1}))
	w.prompt("go")
	worker := w.worker(func(c *temporal.Config) { c.Keep = time.Hour })
	in, workflows, activities, asked := temporal.Input{Session: w.id}, 0, 0, false
	r := &recorder{DataConverter: converter.GetDefaultDataConverter()}
	for {
		workflows++
		env := w.env(worker)
		env.SetDataConverter(r)
		mine := 0
		env.SetOnActivityCompletedListener(func(*activity.Info, converter.EncodedValue, error) {
			activities++
			if mine++; mine == 200 {
				env.SetContinueAsNewSuggested(true)
			}
		})
		if in.Plan != nil && len(in.Plan.Ask) > 0 {
			asked = true
			env.RegisterDelayedCallback(func() { w.answer(env, allowAll) }, 48*time.Hour)
		} else {
			env.RegisterDelayedCallback(func() { env.SetContinueAsNewSuggested(true); env.SignalWorkflow(temporal.SignalSteer, "nothing") }, 24*time.Hour)
		}
		env.ExecuteWorkflow(temporal.WorkflowName, in)
		again, ok := errors.AsType[*workflow.ContinueAsNewError](env.GetWorkflowError())
		if !ok {
			require.NoError(t, env.GetWorkflowError())
			break
		}
		require.Less(t, again.Input.Size(), 600)
		in = temporal.Input{}
		require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(again.Input, &in))
	}
	require.True(t, asked, "the case was not met")
	require.Equal(t, 2*turns, activities) // one of them asks, and its call is another one
	require.GreaterOrEqual(t, workflows, 5)
	for _, data := range r.seen {
		require.LessOrEqual(t, len(data), 256, data)
	}
	require.Equal(t, 1, w.count("edit"))
	require.Equal(t, encoded(t, w.plain("go", true, steps...)), encoded(t, w.messages()))
}

// A message arrives once, also if the step that took it is repeated.
func TestMessagesArriveOnce(t *testing.T) {
	w := newWorld(t, twoReadsAndAnEdit()...)
	m := w.lose("look")
	env := w.env(w.worker(func(c *temporal.Config) {
		c.Store, c.References = w.store, w.store
		c.Open = func(ctx context.Context, id string) (*temporal.Agent, error) {
			m.die(false)
			return w.open(ctx, id)
		}
	}))
	env.RegisterDelayedCallback(func() { w.answer(env, allowAll) }, time.Hour)
	env.ExecuteWorkflow(temporal.WorkflowName, temporal.Input{Session: w.id, Say: []string{w.put(aycoder.User("go")), w.put(aycoder.User("but carefully"))}})
	require.NoError(t, env.GetWorkflowError())
	text := encoded(t, w.messages())
	require.Equal(t, 1, strings.Count(text, `"go"`), text)
	require.Equal(t, 1, strings.Count(text, "but carefully"), text)
}

// A reference that nobody can read is an error, and not a message that is lost.
func TestLostReference(t *testing.T) {
	w := newWorld(t, script.Say("done"))
	env := w.env(w.worker(nil))
	ref := w.put(aycoder.User("go"))
	require.NoError(t, w.store.Delete(t.Context(), ref))
	env.ExecuteWorkflow(temporal.WorkflowName, temporal.Input{Session: w.id, Say: []string{ref}})
	require.Error(t, env.GetWorkflowError())
	require.Empty(t, w.model.Requests())
}

func TestCancel(t *testing.T) {
	for _, while := range []string{"a question", "a call", "the model"} {
		t.Run(while, func(t *testing.T) {
			w := newWorld(t, twoReadsAndAnEdit()...)
			w.prompt("go")
			env := w.env(w.worker(func(c *temporal.Config) { c.Grace = time.Hour })) // which nothing here needs
			switch while {
			case "a question":
				env.RegisterDelayedCallback(env.CancelWorkflow, time.Hour)
			case "a call":
				w.around = func(name string, ctx context.Context, _ *aycoder.Invocation) (*aycoder.ToolResult, error) {
					if name != "find" {
						return nil, nil
					}
					env.CancelWorkflow()
					<-ctx.Done()
					return nil, ctx.Err()
				}
			case "the model":
				w.model = script.New(script.Func(func(*aycoder.Request) script.Step {
					env.CancelWorkflow()
					return twoReadsAndAnEdit()[0]
				}))
			}
			env.ExecuteWorkflow(temporal.WorkflowName, temporal.Input{Session: w.id})
			require.True(t, sdk.IsCanceledError(env.GetWorkflowError()), env.GetWorkflowError())
			require.Equal(t, 0, w.count("edit"))
			p, err := session.ReadPending(t.Context(), w.store, w.id)
			require.NoError(t, err)
			require.Nil(t, p)
			require.NoError(t, aycoder.CheckHistory(w.messages()))
		})
	}
}

// A call that is stopped as the workflow is cancelled says what it has done, as it does when an ordinary run is cancelled.
func TestCancelledCallSaysWhatItHasDone(t *testing.T) {
	w := newWorld(t, script.Call("edit", map[string]any{"path": "c"}))
	allow := aycoder.ApproverFunc(func(context.Context, *aycoder.ToolUse, *aycoder.ToolSpec) aycoder.Verdict { return aycoder.Allow() })
	w.opts = append(w.opts, aycoder.WithApprover(allow))
	w.prompt("go")
	ctx, cancel := context.WithCancelCause(t.Context())
	w.around = func(_ string, work context.Context, _ *aycoder.Invocation) (*aycoder.ToolResult, error) {
		cancel(sdk.NewCanceledError()) // as a heartbeat does
		<-work.Done()
		res := aycoder.TextResult("killed; 3 of 5 files are edited")
		res.IsError = true
		return res, nil
	}
	worker := w.worker(func(c *temporal.Config) { c.Grace = time.Hour })
	require.NoError(t, w.step(t.Context(), worker, "t1/model", func() {}))
	require.Error(t, w.step(ctx, worker, "t1/tool/call_1", func() {}))
	s, err := session.Open(t.Context(), w.store, w.id, w.loop())
	require.NoError(t, err)
	require.NoError(t, s.Cancel(t.Context()))
	require.NoError(t, s.Close())

	w.model = script.New(script.Call("edit", map[string]any{"path": "c"}))
	ctx, cancel = context.WithCancelCause(t.Context())
	defer cancel(nil)
	var plain aycoder.Result
	for range w.loop().Run(ctx, aycoder.Input{Prompt: "go"}, aycoder.Into(&plain)) {
	}
	require.Equal(t, aycoder.EndCancelled, plain.End)
	require.Equal(t, map[string]string{"edit": "killed; 3 of 5 files are edited"}, outputsOf(plain.Messages))
	require.Equal(t, encoded(t, plain.Messages), encoded(t, w.messages()))
}

// Answers that are given together are all taken, also by a worker that comes after one that was lost before it had recorded them.
func TestDecisionsOfALostWorker(t *testing.T) {
	w := newWorld(t, script.Reply(script.Call("edit", map[string]any{"path": "a"}), script.Call("edit", map[string]any{"path": "b"})), script.Say("done"))
	w.prompt("go")
	m := &mortal{Store: w.store}
	w.store = m
	env := w.env(w.worker(func(c *temporal.Config) {
		c.Open = func(ctx context.Context, id string) (*temporal.Agent, error) {
			m.die(false) // another process
			return w.open(ctx, id)
		}
	}))
	env.RegisterDelayedCallback(func() {
		p, err := session.ReadPending(t.Context(), w.store, w.id)
		require.NoError(t, err)
		require.Len(t, p.Requests, 2)
		for _, q := range p.Requests {
			ref, err := temporal.PutDecision(t.Context(), w.store, aycoder.Decision{CallID: q.CallID, Digest: q.Digest, Verdict: aycoder.Allow()})
			require.NoError(t, err)
			env.UpdateWorkflow(temporal.UpdateAnswer, ref, &callback{t: t}, temporal.Answer{Key: "t1/tool/" + q.CallID, Digest: q.Digest[:16], Ref: ref})
		}
		m.before = `"decided"`
	}, time.Hour)
	env.RegisterDelayedCallback(func() {
		p, err := session.ReadPending(t.Context(), w.store, w.id)
		require.NoError(t, err)
		require.Nil(t, p, "the questions are asked again")
	}, 2*time.Hour)
	require.Equal(t, aycoder.EndDone, w.execute(env).End)
	require.Equal(t, 2, w.count("edit"))
	require.Empty(t, m.before, "the case was not met")
}

// A message that no step has taken when the workflow is cancelled is in the session, for the next run.
func TestCancelKeepsMessages(t *testing.T) {
	for _, while := range []string{"a question", "the session is opened", "the run is settled"} {
		t.Run(while, func(t *testing.T) {
			w := newWorld(t, twoReadsAndAnEdit()...)
			w.prompt("go")
			var env *testsuite.TestWorkflowEnvironment
			var opened atomic.Int32
			env = w.env(w.worker(func(c *temporal.Config) {
				c.Heartbeat = time.Second // by which it learns of the end
				c.Open = func(ctx context.Context, id string) (*temporal.Agent, error) {
					if opened.Add(1) == 1 && while == "the session is opened" {
						env.CancelWorkflow()
						<-ctx.Done()
						return nil, ctx.Err()
					}
					return w.open(ctx, id)
				}
			}))
			in := temporal.Input{Session: w.id}
			ref := w.put(aycoder.User("hurry up"))
			switch while {
			case "a question":
				env.RegisterDelayedCallback(func() {
					env.SignalWorkflow(temporal.SignalSteer, ref)
					env.CancelWorkflow()
				}, time.Hour)
			case "the session is opened":
				in.Say = []string{ref}
			default:
				env.RegisterDelayedCallback(env.CancelWorkflow, time.Hour)
				env.SetOnActivityStartedListener(func(info *activity.Info, _ context.Context, _ converter.EncodedValues) {
					if info.ActivityType.Name == temporal.CancelName {
						env.SignalWorkflow(temporal.SignalSteer, ref)
					}
				})
			}
			env.ExecuteWorkflow(temporal.WorkflowName, in)
			require.True(t, sdk.IsCanceledError(env.GetWorkflowError()), env.GetWorkflowError())
			s, err := session.Open(t.Context(), w.store, w.id, w.loop())
			require.NoError(t, err)
			defer s.Close()
			found := 0
			for _, m := range append(s.Queued(), w.messages()...) {
				found += strings.Count(encoded(t, []*aycoder.Message{m}), "hurry up")
			}
			require.Equal(t, 1, found)
		})
	}
}

// A workflow that fails, as all attempts of a step have, keeps the messages that no step has taken, also one that comes while it
// keeps them. The run stays open, and another workflow goes on with it.
func TestFailureKeepsMessages(t *testing.T) {
	w := newWorld(t, script.Say("one"), script.Say("two"), script.Say("three"))
	var opened atomic.Int32
	var env *testsuite.TestWorkflowEnvironment
	second := w.put(aycoder.User("and this"))
	env = w.env(w.worker(func(c *temporal.Config) {
		c.Limits = func(string, aycoder.Effect) temporal.Limits { return temporal.Limits{Attempts: 2} }
		c.Open = func(ctx context.Context, id string) (*temporal.Agent, error) {
			switch opened.Add(1) {
			case 1, 2:
				return nil, errors.New("no disk")
			case 3:
				env.SignalWorkflow(temporal.SignalSteer, second)
			}
			return w.open(ctx, id)
		}
	}))
	env.ExecuteWorkflow(temporal.WorkflowName, temporal.Input{Session: w.id, Say: []string{w.put(aycoder.User("hurry up"))}})
	require.ErrorContains(t, env.GetWorkflowError(), "did not work")
	s, err := session.Open(t.Context(), w.store, w.id, w.loop())
	require.NoError(t, err)
	require.Len(t, s.Queued(), 2)
	require.NoError(t, s.Close())
	w.execute(w.env(w.worker(nil)))
	got := encoded(t, w.messages())
	require.Equal(t, 1, strings.Count(got, "hurry up"))
	require.Equal(t, 1, strings.Count(got, "and this"))
}

// A message that is lost takes no other one with it when the workflow fails.
func TestFailureKeepsOtherMessages(t *testing.T) {
	w := newWorld(t, script.Say("one"))
	env := w.env(w.worker(func(c *temporal.Config) {
		c.Limits = func(string, aycoder.Effect) temporal.Limits { return temporal.Limits{Attempts: 2} }
	}))
	lost := w.put(aycoder.User("nobody reads this"))
	require.NoError(t, w.store.Delete(t.Context(), lost))
	env.ExecuteWorkflow(temporal.WorkflowName, temporal.Input{Session: w.id, Say: []string{lost, w.put(aycoder.User("hurry up"))}})
	require.Error(t, env.GetWorkflowError())
	s, err := session.Open(t.Context(), w.store, w.id, w.loop())
	require.NoError(t, err)
	defer s.Close()
	require.Len(t, s.Queued(), 1)
	require.Equal(t, "hurry up", s.Queued()[0].Text())
}

// An error around the end of a context is said without its text, as others are.
func TestCancelledErrorsHaveNoText(t *testing.T) {
	w := newWorld(t, script.Say("done"))
	w.prompt("go")
	env := w.env(w.worker(func(c *temporal.Config) {
		c.Limits = func(string, aycoder.Effect) temporal.Limits { return temporal.Limits{Attempts: 1} }
		c.Open = func(context.Context, string) (*temporal.Agent, error) {
			return nil, fmt.Errorf("open /home/alice/secret: %w", context.Canceled)
		}
	}))
	env.ExecuteWorkflow(temporal.WorkflowName, temporal.Input{Session: w.id})
	require.Error(t, env.GetWorkflowError())
	require.NotContains(t, env.GetWorkflowError().Error(), "alice")
}

// The engine waits after a rate limit, and the model is asked as often as by an ordinary run.
func TestRateLimit(t *testing.T) {
	w := newWorld(t, script.Fail(script.RateLimited(40*time.Second)), script.Fail(script.Overloaded()), script.Say("done"))
	w.prompt("go")
	env := w.env(w.worker(nil))
	began := env.Now()
	require.Equal(t, temporal.Output{End: aycoder.EndDone, Turns: 1}, w.execute(env))
	require.Len(t, w.model.Requests(), 3)
	require.GreaterOrEqual(t, env.Now().Sub(began), 40*time.Second)
	require.Equal(t, encoded(t, w.plain("go", true, script.Say("done"))), encoded(t, w.messages()))
}

// The result has the kind of the error that ends a run, and nothing else of it.
func TestFailedRun(t *testing.T) {
	w := newWorld(t, script.Fail(&aycoder.AuthError{ModelError: &aycoder.ModelError{Err: errors.New("key sk-live-1 is wrong")}}))
	w.prompt("go")
	require.Equal(t, temporal.Output{End: aycoder.EndFailed, Error: "AuthError"}, w.execute(w.env(w.worker(nil))))
}

// A tool that panics, or has no more time, leaves a valid history, and the run goes on.
func TestBadTools(t *testing.T) {
	for how, want := range map[string]string{"panic": "the tool broke down", "late": "stopped"} {
		t.Run(how, func(t *testing.T) {
			w := newWorld(t, twoReadsAndAnEdit()...)
			w.prompt("go")
			w.around = func(name string, ctx context.Context, _ *aycoder.Invocation) (*aycoder.ToolResult, error) {
				if name == "find" && how == "panic" {
					panic("sk-live-1")
				} else if name == "find" {
					<-ctx.Done()
					return nil, ctx.Err()
				}
				return nil, nil
			}
			env := w.env(w.worker(func(c *temporal.Config) {
				c.Limits = func(tool string, _ aycoder.Effect) temporal.Limits {
					return map[string]temporal.Limits{"find": {Timeout: time.Second}}[tool]
				}
			}))
			env.RegisterDelayedCallback(func() { w.answer(env, allowAll) }, time.Hour)
			require.Equal(t, aycoder.EndDone, w.execute(env).End)
			require.Contains(t, outputsOf(w.messages())["find"], want)
			require.Equal(t, 1, w.count("find"))
		})
	}
}

// A recorder is a data converter that notes everything that would go into the history.
type recorder struct {
	converter.DataConverter
	mu   sync.Mutex
	seen []string
}

func (r *recorder) note(list ...*commonpb.Payload) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range list {
		r.seen = append(r.seen, string(p.GetData()))
	}
}

func (r *recorder) ToPayload(v any) (*commonpb.Payload, error) {
	p, err := r.DataConverter.ToPayload(v)
	r.note(p)
	return p, err
}

func (r *recorder) ToPayloads(v ...any) (*commonpb.Payloads, error) {
	p, err := r.DataConverter.ToPayloads(v...)
	r.note(p.GetPayloads()...)
	return p, err
}

// secrets has texts that must not reach the engine, and an agent that says, does and finds them.
type secrets struct {
	*world
	n int
}

func (s *secrets) text(n int) string { return fmt.Sprintf("s3cr3t-%02d-XyZ", n) }

func (s *secrets) next() string {
	s.n++
	return s.text(s.n)
}

// newSecrets returns a script of some turns, in each of which the model reads and writes, and then of a failure of the model.
func newSecrets(t testing.TB, turns, size int) *secrets {
	s := &secrets{world: newWorld(t)}
	var steps []script.Step
	for range turns {
		steps = append(steps, script.Reply(script.Think(s.next()), script.Say(s.next()),
			script.Call("look", map[string]any{"path": "/home/alice/" + s.next()}), script.Call("edit", map[string]any{"path": s.next()})))
	}
	s.model = script.New(append(steps, script.Fail(errors.New(s.next())))...)
	s.opts = append(s.opts, aycoder.WithSystem(s.next()), aycoder.WithLimits(aycoder.Limits{ToolOutput: size}))
	s.around = func(_ string, _ context.Context, inv *aycoder.Invocation) (*aycoder.ToolResult, error) {
		inv.Progress(aycoder.Progress{Message: s.text(39)})
		return aycoder.TextResult(s.text(40) + strings.Repeat("x", size)), nil
	}
	return s
}

// check looks for the texts, also in what is encoded in base64.
func (s *secrets) check(data string) {
	plain, _ := base64.StdEncoding.DecodeString(data)
	for i := range 41 {
		require.NotContains(s.t, data+string(plain), s.text(i))
	}
	require.NotContains(s.t, data+string(plain), "alice")
}

// Nothing of what is said, done or found goes to the engine, and what goes there is small, whatever the size of outputs.
func TestNothingButReferences(t *testing.T) {
	for turns, size := range map[int]int{9: 5 << 10, 2: 500 << 10} {
		w := newSecrets(t, turns, size)
		r := &recorder{DataConverter: converter.GetDefaultDataConverter()}
		env := w.env(w.worker(func(c *temporal.Config) { c.Keep = time.Minute }))
		env.SetDataConverter(r)
		for i := range turns {
			env.RegisterDelayedCallback(func() { w.answer(env, func(*aycoder.ApprovalRequest) bool { return i%2 == 0 }) }, time.Duration(i+1)*time.Hour)
		}
		env.ExecuteWorkflow(temporal.WorkflowName, temporal.Input{Session: w.id, Say: []string{w.put(aycoder.User(w.text(38)))}})
		require.NoError(t, env.GetWorkflowError())
		require.Greater(t, len(r.seen), 4*turns)
		require.Contains(t, encoded(t, w.messages()), w.text(40), "the case was not met")
		for _, data := range r.seen {
			require.LessOrEqual(t, len(data), 256, data)
			w.check(data)
		}
	}
}

// A refusing client of a server refuses everything, and is of no use for anything else.
type refusing struct {
	client.Client
	err error
}

func (r refusing) ExecuteWorkflow(context.Context, client.StartWorkflowOptions, any, ...any) (client.WorkflowRun, error) {
	return nil, r.err
}

func (r refusing) SignalWorkflow(context.Context, string, string, string, any) error { return r.err }

func (r refusing) UpdateWorkflow(context.Context, client.UpdateWorkflowOptions) (client.WorkflowUpdateHandle, error) {
	return nil, r.err
}

// A message that the server has refused leaves nothing. If it is not certain that it was, its content stays.
func TestRefusedMessagesLeaveNothing(t *testing.T) {
	for _, tt := range []struct {
		err  error
		kept int
	}{
		{serviceerror.NewNotFound("no such workflow"), 0},
		{serviceerror.NewWorkflowExecutionAlreadyStarted("it works", "", ""), 0},
		{sdk.NewNonRetryableApplicationError("no such open question", "NoQuestion", nil), 0},
		{serviceerror.NewUnavailable("try again"), 3},
		{context.DeadlineExceeded, 3},
	} {
		store := journal.Memory()
		c := &temporal.Client{Temporal: refusing{err: tt.err}, Store: store}
		_, err := c.Start(t.Context(), client.StartWorkflowOptions{}, temporal.Input{}, aycoder.User("hello"))
		require.ErrorIs(t, err, tt.err)
		require.ErrorIs(t, c.Steer(t.Context(), "w", &aycoder.Steered{Message: aycoder.User("hello")}), tt.err)
		require.ErrorIs(t, c.Decide(t.Context(), "w", &aycoder.Pending{}, aycoder.Decision{CallID: "1"}), tt.err)
		left := 0
		for _, err := range store.List(t.Context()) {
			require.NoError(t, err)
			left++
		}
		require.Equal(t, tt.kept, left, "%v", tt.err)
	}
}
