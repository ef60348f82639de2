package temporal_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdk "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/contrib/temporal"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/session"
)

// family is a world whose agent starts child agents with the tool delegate. Each child has the steps.
func family(t *testing.T, tasks []string, steps ...script.Step) (w *world, change func(*temporal.Config)) {
	declared, err := aycoder.DeclareTool[struct {
		Task string `json:"task"`
	}]("delegate", "Gives a task to another agent")
	require.NoError(t, err)
	var calls []script.Step
	for _, task := range tasks {
		calls = append(calls, script.Call("delegate", map[string]any{"task": task}))
	}
	w = newWorld(t, script.Reply(calls...), script.Say("all done"))
	parent := append(slices.Clone(w.opts), aycoder.WithTools(declared), aycoder.WithApprover(aycoder.ApproverFunc(
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
			p, err := session.ReadPending(t.Context(), w.store, ids[i])
			require.NoError(t, err)
			q := p.Requests[0]
			require.NoError(t, env.UpdateWorkflowByID(ids[i], temporal.UpdateAnswer, ids[i], &callback{t: t},
				temporal.Answer{Key: "t1/tool/" + q.CallID, Digest: q.Digest[:16], Allow: true}))
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
			p, err := session.ReadPending(t.Context(), w.store, id)
			require.NoError(t, err)
			require.Nil(t, p, fmt.Sprint(id, " is not settled"))
		}
		require.Zero(t, w.count("edit"))
	})
}

// Calls of declared tools in one message, among others in any order, are asked for together, and answered one by one or at once.
func TestDeclaredCallsTogether(t *testing.T) {
	declared, err := aycoder.DeclareTool[struct{}]("phone", "Calls somebody")
	require.NoError(t, err)
	for seed := range uint64(100) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		names := []string{"phone", "phone", "phone", "look", "edit", "edit", "patch", "patch"}
		rnd.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		names = names[:2+rnd.IntN(5)]
		atOnce, ask := rnd.IntN(2) == 0, rnd.IntN(2) == 0
		t.Run(fmt.Sprint(seed, names, atOnce, ask), func(t *testing.T) {
			var calls []script.Step
			for _, name := range names {
				calls = append(calls, script.Call(name, nil))
			}
			w := newWorld(t, script.Reply(calls...), script.Say("done"))
			w.opts = append(w.opts, aycoder.WithTools(declared, w.tool("patch", aycoder.EffectWrite)), aycoder.WithApprover(aycoder.ApproverFunc(
				func(_ context.Context, c *aycoder.ToolUse, _ *aycoder.ToolSpec) aycoder.Verdict {
					if c.Name == "edit" || c.Name == "phone" && ask {
						return aycoder.Ask()
					}
					return aycoder.Allow()
				})))
			w.prompt("go")
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
						ref, err := temporal.PutResult(t.Context(), w.store, aycoder.CallResult{CallID: q.CallID, Digest: q.Digest,
							Parts: []aycoder.Part{&aycoder.Text{Text: "yes to " + q.CallID}}})
						require.NoError(t, err)
						answers = append(answers, temporal.Answer{Key: "t1/tool/" + q.CallID, Digest: q.Digest[:16], Ref: ref})
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
