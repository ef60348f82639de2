package temporal_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	sdk "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/contrib/temporal"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/session"
)

// family is a world whose agent starts child agents with the tool delegate. Each child has the steps.
func family(t *testing.T, tasks []string, steps ...script.Step) (w *world, change func(*temporal.Config)) {
	return familyWith(t, tasks, nil, nil, steps...)
}

// familyWith is family with options of the tool and of the parent.
func familyWith(t *testing.T, tasks []string, tool []aycoder.ToolOption, opts []aycoder.Option, steps ...script.Step) (w *world, change func(*temporal.Config)) {
	declared, err := aycoder.DeclareTool[struct {
		Task string `json:"task"`
	}]("delegate", "Gives a task to another agent", tool...)
	require.NoError(t, err)
	var calls []script.Step
	for _, task := range tasks {
		calls = append(calls, script.Call("delegate", map[string]any{"task": task}))
	}
	w = newWorld(t, script.Reply(calls...), script.Say("all done"))
	parent := append(append(slices.Clone(w.opts), opts...), aycoder.WithTools(declared), aycoder.WithApprover(aycoder.ApproverFunc(
		func(context.Context, *aycoder.ToolUse, *aycoder.ToolSpec) aycoder.Verdict { return aycoder.Allow() })))
	models := map[string]*script.Model{} // by session
	tries := 0
	return w, func(c *temporal.Config) {
		c.Open = func(ctx context.Context, id string) (*temporal.Agent, error) {
			w.mu.Lock()
			model, opts := models[id], w.opts
			if model == nil {
				model = script.New(steps...)
			}
			if id == w.id {
				model, opts = w.model, parent
			}
			models[id] = model
			w.mu.Unlock()
			loop, err := aycoder.New(model, opts...)
			if err != nil {
				return nil, err
			}
			s, err := session.Open(ctx, w.store, id, loop)
			return &temporal.Agent{Session: s}, err
		}
		c.Children = map[string]func(context.Context, string, *aycoder.CallRequest) (*aycoder.Message, error){
			"delegate": func(_ context.Context, parent string, call *aycoder.CallRequest) (*aycoder.Message, error) {
				w.mu.Lock()
				defer w.mu.Unlock()
				if tries++; tries == 1 {
					return nil, errors.New("not now")
				}
				if parent != w.id {
					return nil, errors.New("another parent")
				}
				var in struct{ Task string }
				err := json.Unmarshal(call.Args, &in)
				return aycoder.User(in.Task), err
			},
		}
	}
}

// children returns the ids of the child agents that work.
func (w *world) children(env *testsuite.TestWorkflowEnvironment) []string {
	v, err := env.QueryWorkflow(temporal.QueryStatus)
	require.NoError(w.t, err)
	var status temporal.Status
	require.NoError(w.t, v.Get(&status))
	require.Empty(w.t, status.Ask, "nobody but the children can answer")
	return status.Children
}

// Child agents are workflows: they work beside each other, and each asks its own questions for days.
func TestChildren(t *testing.T) {
	w, change := family(t, []string{"mend a", "mend b"}, script.Call("edit", map[string]any{"path": "c"}), script.Say("mended"))
	w.prompt("go")
	env := w.env(w.worker(change))
	var ids []string
	env.RegisterDelayedCallback(func() {
		ids = w.children(env)
		require.Len(t, ids, 2)
		require.Equal(t, 0, w.count("edit"))
	}, 48*time.Hour)
	for i := range 2 {
		env.RegisterDelayedCallback(func() {
			w.answerChild(env, ids[i])
		}, 48*time.Hour+time.Duration(2-i)*time.Hour) // the second one first
	}
	require.Equal(t, aycoder.EndDone, w.execute(env).End)
	require.Equal(t, 2, w.count("edit"))
	for i, id := range ids {
		require.True(t, strings.HasPrefix(id, w.id[:min(len(w.id), 40)]), id)
		v, _, err := session.Read(t.Context(), w.store, id)
		require.NoError(t, err)
		messages := v.Messages(v.Head(""))
		require.Equal(t, []string{"mend a", "mend b"}[i], messages[0].Text())
		require.NoError(t, aycoder.CheckHistory(messages))
	}
	require.Equal(t, 2, strings.Count(encoded(t, w.messages()), `"mended"`), encoded(t, w.messages()))
}

// A child that fails is a failed call. One of a cancelled parent is cancelled.
func TestChildEnds(t *testing.T) {
	t.Run("failed", func(t *testing.T) {
		w, change := family(t, []string{"mend a"}, script.Fail(&aycoder.AuthError{}))
		w.prompt("go")
		require.Equal(t, aycoder.EndDone, w.execute(w.env(w.worker(change))).End)
		require.Contains(t, encoded(t, w.messages()), "[the agent did not finish: failed]")
	})
	t.Run("cancelled", func(t *testing.T) {
		w, change := family(t, []string{"mend a"}, script.Call("edit", map[string]any{"path": "c"}))
		w.prompt("go")
		env := w.env(w.worker(change))
		var ids []string
		env.RegisterDelayedCallback(func() {
			ids = w.children(env)
			env.CancelWorkflow()
		}, time.Hour)
		env.ExecuteWorkflow(temporal.WorkflowName, temporal.Input{Session: w.id})
		require.True(t, sdk.IsCanceledError(env.GetWorkflowError()), env.GetWorkflowError())
		require.Len(t, ids, 1)
		for _, id := range append(ids, w.id) {
			w.settled(id)
		}
		require.Zero(t, w.count("edit"))
	})
}

// answerChild allows the first question of a child agent.
func (w *world) answerChild(env *testsuite.TestWorkflowEnvironment, id string) {
	p, err := session.ReadPending(w.t.Context(), w.store, id)
	require.NoError(w.t, err)
	q := p.Requests[0]
	require.NoError(w.t, env.UpdateWorkflowByID(id, temporal.UpdateAnswer, id, &callback{t: w.t},
		temporal.Answer{Key: "t1/tool/" + q.CallID, Digest: q.Digest[:16], Allow: true}))
}

// settled requires that no run of a session is open.
func (w *world) settled(id string) {
	p, err := session.ReadPending(w.t.Context(), w.store, id)
	require.NoError(w.t, err)
	require.Nil(w.t, p, id+" is not settled")
}

// The session of a child that has nothing in it, as the worker that made it was lost, is made anew.
func TestChildOfALostWorker(t *testing.T) {
	w, change := family(t, []string{"mend a"}, script.Say("mended"))
	w.prompt("go")
	env := w.env(w.worker(func(c *temporal.Config) {
		change(c)
		prompt := c.Children["delegate"]
		c.Children["delegate"] = func(ctx context.Context, parent string, call *aycoder.CallRequest) (*aycoder.Message, error) {
			m, err := prompt(ctx, parent, call)
			if err != nil { // the first attempt
				j, err := w.store.Create(ctx, temporal.ChildID(parent, call.Digest))
				require.NoError(t, err)
				require.NoError(t, j.Close())
			}
			return m, err
		}
	}))
	require.Equal(t, aycoder.EndDone, w.execute(env).End)
	require.Equal(t, map[string]string{"delegate": "mended"}, outputsOf(w.messages()))
}

// A report that the tool refuses is a failed call, and not a question that nobody answers.
func TestChildReportIsRefused(t *testing.T) {
	type report struct {
		Mended int `json:"mended"`
	}
	w, change := familyWith(t, []string{"mend a"}, []aycoder.ToolOption{aycoder.WithResult[report]()}, nil, script.Say("mended"))
	w.prompt("go")
	require.Equal(t, aycoder.EndDone, w.execute(w.env(w.worker(change))).End)
	require.Contains(t, encoded(t, w.messages()), "the report of the agent does not fit")
}

// The report of a child whose question was settled meanwhile goes to nobody. The workflow of the parent does not fail, and cancels the
// other children.
func TestChildWithoutQuestion(t *testing.T) {
	w, change := family(t, []string{"mend a", "mend b"}, script.Call("edit", map[string]any{"path": "c"}), script.Say("mended"))
	w.prompt("go")
	env := w.env(w.worker(change))
	var ids []string
	env.RegisterDelayedCallback(func() {
		ids = w.children(env)
		s, err := session.Open(t.Context(), w.store, w.id, w.loop())
		require.NoError(t, err)
		require.NoError(t, s.Cancel(t.Context()))
		require.NoError(t, s.Close())
		w.answerChild(env, ids[0])
	}, time.Hour)
	require.Equal(t, temporal.EndUnknown, w.execute(env).End)
	require.Len(t, ids, 2)
	w.settled(ids[0])
	w.settled(ids[1])
	require.Equal(t, 1, w.count("edit"))
}

// A workflow that is started again goes on with the children of the one before: none is told twice what to do.
func TestChildrenGoOn(t *testing.T) {
	w, change := family(t, []string{"mend a"}, script.Call("edit", map[string]any{"path": "c"}), script.Say("mended"))
	w.prompt("go")
	env := w.env(w.worker(change))
	env.SetWorkflowRunTimeout(time.Hour)
	env.ExecuteWorkflow(temporal.WorkflowName, temporal.Input{Session: w.id})
	require.Error(t, env.GetWorkflowError())
	env = w.env(w.worker(change))
	var ids []string
	env.RegisterDelayedCallback(func() {
		ids = w.children(env)
		w.answerChild(env, ids[0])
	}, time.Hour)
	require.Equal(t, aycoder.EndDone, w.execute(env).End)
	v, _, err := session.Read(t.Context(), w.store, ids[0])
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(encoded(t, v.Messages(v.Head(""))), `"mend a"`))
	require.Equal(t, 1, w.count("edit"))
}

// The result of a child that comes together with an answer which is refused is not lost with it.
func TestChildBesideARefusedAnswer(t *testing.T) {
	phone, err := aycoder.DeclareTool[struct{}]("phone", "Calls somebody", aycoder.WithResult[struct {
		Said string `json:"said"`
	}]())
	require.NoError(t, err)
	reported := make(chan struct{})
	slow := aycoder.WithToolMiddleware(func(next aycoder.ToolFunc) aycoder.ToolFunc {
		return func(ctx context.Context, inv *aycoder.Invocation) (*aycoder.ToolResult, error) {
			if inv.ID == "call_1" {
				<-reported
			}
			return next(ctx, inv)
		}
	})
	w, change := familyWith(t, []string{"mend a"}, nil, []aycoder.Option{aycoder.WithTools(phone), slow},
		script.Call("edit", map[string]any{"path": "c"}), script.Say("mended"))
	w.model = script.New(script.Reply(script.Call("phone", nil), script.Call("phone", nil), script.Call("delegate", map[string]any{"task": "mend a"})), script.Say("done"))
	w.prompt("go")
	env := w.env(w.worker(change))
	var p *aycoder.Pending
	phoned := func(n int, text string) {
		a := w.result(p.Calls[n], text)
		env.UpdateWorkflow(temporal.UpdateAnswer, a.Ref, &callback{t: t}, a)
	}
	during := sync.OnceFunc(func() {
		phoned(1, "not JSON")
		w.answerChild(env, temporal.ChildID(w.id, p.Calls[2].Digest))
	})
	once := sync.OnceFunc(func() { close(reported) })
	env.SetOnActivityStartedListener(func(info *activity.Info, _ context.Context, _ converter.EncodedValues) {
		if info.ActivityID == "t1/tool/call_1" && p != nil { // the step that takes the first answer
			during()
		}
	})
	env.SetOnActivityCompletedListener(func(info *activity.Info, _ converter.EncodedValue, _ error) {
		if info.ActivityType.Name == temporal.ReportName {
			once()
		}
	})
	env.RegisterDelayedCallback(func() {
		var err error
		p, err = session.ReadPending(t.Context(), w.store, w.id)
		require.NoError(t, err)
		require.Len(t, p.Calls, 3)
		phoned(0, `{"said":"yes"}`)
	}, time.Hour)
	env.RegisterDelayedCallback(func() { phoned(1, `{"said":"no"}`) }, 2*time.Hour)
	require.Equal(t, aycoder.EndDone, w.execute(env).End)
	require.NoError(t, aycoder.CheckHistory(w.messages()))
	require.Equal(t, 1, strings.Count(encoded(t, w.messages()), `"mended"`))
	require.Equal(t, 1, w.count("edit"))
}

// A schedule whose message is gone fails, and does not try for ever.
func TestScheduleWithoutMessage(t *testing.T) {
	w := newWorld(t)
	env := w.env(w.worker(nil))
	ref := w.put(aycoder.User("go"))
	require.NoError(t, w.store.Delete(t.Context(), ref))
	env.ExecuteWorkflow(temporal.ScheduledName, map[string]any{"id": w.id, "queue": "q", "r": ref})
	require.ErrorContains(t, env.GetWorkflowError(), "no such message")
}

// calling is a world whose agent calls tools in one message: the declared phone, patch, which writes, and those of every world. asks
// says about which calls the user is asked.
func calling(t *testing.T, names []string, asks func(name string) bool) *world {
	declared, err := aycoder.DeclareTool[struct{}]("phone", "Calls somebody")
	require.NoError(t, err)
	var calls []script.Step
	for _, name := range names {
		calls = append(calls, script.Call(name, nil))
	}
	w := newWorld(t, script.Reply(calls...), script.Say("done"))
	w.opts = append(w.opts, aycoder.WithTools(declared, w.tool("patch", aycoder.EffectWrite)), aycoder.WithApprover(aycoder.ApproverFunc(
		func(_ context.Context, c *aycoder.ToolUse, _ *aycoder.ToolSpec) aycoder.Verdict {
			if asks(c.Name) {
				return aycoder.Ask()
			}
			return aycoder.Allow()
		})))
	w.prompt("go")
	return w
}

// Calls of declared tools in one message, among others in any order, are asked for together, and answered one by one or at once.
func TestDeclaredCallsTogether(t *testing.T) {
	for seed := range uint64(100) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		names := []string{"phone", "phone", "phone", "look", "edit", "edit", "patch", "patch"}
		rnd.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		names = names[:2+rnd.IntN(5)]
		atOnce, ask := rnd.IntN(2) == 0, rnd.IntN(2) == 0
		t.Run(fmt.Sprint(seed, names, atOnce, ask), func(t *testing.T) {
			w := calling(t, names, func(name string) bool { return name == "edit" || name == "phone" && ask })
			env := w.env(w.worker(nil))
			answered := map[string]int{}
			for hour := range 20 {
				env.RegisterDelayedCallback(func() {
					p, err := session.ReadPending(t.Context(), w.store, w.id)
					require.NoError(t, err)
					if p == nil {
						return
					}
					var answers []temporal.Answer
					for _, q := range p.Requests {
						answers = append(answers, temporal.Answer{Key: "t1/tool/" + q.CallID, Digest: q.Digest[:16], Allow: true})
					}
					for _, q := range p.Calls {
						answers = append(answers, w.result(q, "yes to "+q.CallID))
					}
					if !atOnce {
						answers = answers[:1]
					}
					for _, a := range answers {
						env.UpdateWorkflow(temporal.UpdateAnswer, fmt.Sprint(a), &callback{t: t}, a)
						answered[a.Key+a.Ref[:min(len(a.Ref), 4)]]++
					}
				}, time.Duration(hour+1)*time.Hour)
			}
			require.Equal(t, aycoder.EndDone, w.execute(env).End)
			require.NoError(t, aycoder.CheckHistory(w.messages()))
			text := encoded(t, w.messages())
			for i, name := range names {
				if name == "phone" {
					require.Equal(t, 1, strings.Count(text, fmt.Sprintf("yes to call_%d", i+1)), text)
					require.Equal(t, 1, answered[fmt.Sprintf("t1/tool/call_%d", i+1)+"ref-"], "asked again")
				}
			}
			for _, name := range []string{"look", "edit", "patch"} {
				n := 0
				for _, called := range names {
					if called == name {
						n++
					}
				}
				require.Equal(t, n, w.count(name))
			}
		})
	}
}
