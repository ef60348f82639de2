package temporal_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/testsuite"
	sdkworker "go.temporal.io/sdk/worker"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/contrib/temporal"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/session"
)

// A world is a store with one session, and the agent that workers make for it.
type world struct {
	t     testing.TB
	store journal.Store
	model *script.Model
	opts  []aycoder.Option
	id    string

	mu     sync.Mutex
	ran    map[string]int
	opened int
	around func(name string, ctx context.Context, inv *aycoder.Invocation) (*aycoder.ToolResult, error) // in place of the tool, or nil
}

func newWorld(t testing.TB, steps ...script.Step) *world {
	w := &world{t: t, store: journal.Memory(), model: script.New(steps...), ran: map[string]int{}}
	w.opts = []aycoder.Option{
		aycoder.WithTools(w.tool("look", aycoder.EffectReadOnly), w.tool("find", aycoder.EffectReadOnly), w.tool("edit", aycoder.EffectWrite)),
		aycoder.WithApprover(aycoder.ApproverFunc(func(_ context.Context, _ *aycoder.ToolUse, s *aycoder.ToolSpec) aycoder.Verdict {
			if s.Effect == aycoder.EffectReadOnly {
				return aycoder.Allow()
			}
			return aycoder.Ask()
		})),
	}
	s, err := session.New(t.Context(), w.store, w.loop())
	require.NoError(t, err)
	w.id = s.ID()
	require.NoError(t, s.Close())
	return w
}

func (w *world) tool(name string, effect aycoder.Effect) aycoder.Tool {
	tool, err := aycoder.NewTool(name, "The tool "+name, func(ctx context.Context, inv *aycoder.Invocation, in struct {
		Path string `json:"path,omitempty"`
	}) (*aycoder.ToolResult, error) {
		w.mu.Lock()
		w.ran[name]++
		around := w.around
		w.mu.Unlock()
		if around != nil {
			if res, err := around(name, ctx, inv); res != nil || err != nil {
				return res, err
			}
		}
		return aycoder.TextResult(name + " of " + in.Path), nil
	}, aycoder.WithEffect(effect))
	require.NoError(w.t, err)
	return tool
}

func (w *world) loop() *aycoder.Loop {
	l, err := aycoder.New(w.model, w.opts...)
	require.NoError(w.t, err)
	return l
}

func (w *world) open(ctx context.Context, id string) (*temporal.Agent, error) {
	s, err := session.Open(ctx, w.store, id, w.loop())
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.opened++
	return &temporal.Agent{Session: s}, nil
}

func (w *world) count(name string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ran[name]
}

// worker returns a worker that forgets everything after each step, as if the next one came to another process.
func (w *world) worker(change func(*temporal.Config)) *temporal.Worker {
	c := temporal.Config{Store: w.store, Open: w.open, Keep: time.Nanosecond}
	if change != nil {
		change(&c)
	}
	made, err := temporal.New(c)
	require.NoError(w.t, err)
	w.t.Cleanup(func() { require.NoError(w.t, made.Close()) })
	return made
}

// prompt queues a message of the user in the session.
func (w *world) prompt(text string) {
	s, err := session.Open(w.t.Context(), w.store, w.id, w.loop())
	require.NoError(w.t, err)
	require.NoError(w.t, s.Steer(w.t.Context(), text))
	require.NoError(w.t, s.Close())
}

func (w *world) messages() []*aycoder.Message {
	v, damage, err := session.Read(w.t.Context(), w.store, w.id)
	require.NoError(w.t, err)
	require.Empty(w.t, damage)
	return v.Messages(v.Head(""))
}

// put stores a message as a client does.
func (w *world) put(m *aycoder.Message) string {
	ref, err := temporal.Put(w.t.Context(), w.store, m)
	require.NoError(w.t, err)
	return ref
}

func (w *world) env(worker *temporal.Worker) *testsuite.TestWorkflowEnvironment {
	var s testsuite.WorkflowTestSuite
	s.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	env := s.NewTestWorkflowEnvironment()
	env.SetTestTimeout(time.Minute)
	env.SetWorkerOptions(sdkworker.Options{DeadlockDetectionTimeout: time.Minute}) // the machine may be busy
	worker.Register(env)
	return env
}

// answer answers the questions of the workflow, as a user does later.
func (w *world) answer(env *testsuite.TestWorkflowEnvironment, verdict func(q *aycoder.ApprovalRequest) bool) {
	if env.IsWorkflowCompleted() {
		return
	}
	v, err := env.QueryWorkflow(temporal.QueryStatus)
	require.NoError(w.t, err)
	var status temporal.Status
	require.NoError(w.t, v.Get(&status))
	p, err := session.ReadPending(context.Background(), w.store, w.id)
	require.NoError(w.t, err)
	if p == nil {
		return
	}
	for i, q := range status.Ask {
		require.Contains(w.t, q.Key, p.Requests[i].CallID)
		env.UpdateWorkflow(temporal.UpdateAnswer, fmt.Sprint(q.Key, q.Digest), &callback{t: w.t},
			temporal.Answer{Key: q.Key, Digest: q.Digest, Allow: verdict(&p.Requests[i])})
	}
}

type callback struct {
	t      testing.TB
	reject func(error)
}

func (c *callback) Accept() {}
func (c *callback) Reject(err error) {
	if c.reject == nil {
		require.NoError(c.t, err)
		return
	}
	c.reject(err)
}
func (c *callback) Complete(_ any, err error) { require.NoError(c.t, err) }

// twoReadsAndAnEdit is a script in which the user is asked once.
func twoReadsAndAnEdit() []script.Step {
	return []script.Step{
		script.Reply(script.Say("I look."), script.Call("look", map[string]any{"path": "a"}), script.Call("find", map[string]any{"path": "b"}),
			script.Call("edit", map[string]any{"path": "c"})),
		script.Say("done"),
	}
}

// plain returns the conversation of an ordinary run, whose questions are all answered alike.
func (w *world) plain(prompt string, allow bool, steps ...script.Step) []*aycoder.Message {
	l, err := aycoder.New(script.New(steps...), w.opts...)
	require.NoError(w.t, err)
	var res aycoder.Result
	for ev, err := range l.Run(w.t.Context(), aycoder.Input{Prompt: prompt}, aycoder.Into(&res)) {
		require.NoError(w.t, err)
		if q, ok := ev.(*aycoder.ApprovalRequested); ok {
			if allow {
				q.Allow()
			} else {
				q.Deny("")
			}
		}
	}
	return res.Messages
}

func encoded(t testing.TB, messages []*aycoder.Message) string {
	data, err := json.MarshalIndent(messages, "", " ")
	require.NoError(t, err)
	return string(data)
}

func TestTranscriptIsThatOfAnOrdinaryRun(t *testing.T) {
	for _, allow := range []bool{true, false} {
		t.Run(fmt.Sprint(allow), func(t *testing.T) {
			w := newWorld(t, twoReadsAndAnEdit()...)
			w.prompt("go")
			env := w.env(w.worker(nil))
			env.RegisterDelayedCallback(func() {
				require.Equal(t, 0, w.count("edit"))
				w.answer(env, func(q *aycoder.ApprovalRequest) bool { return allow })
			}, 72*time.Hour)
			env.ExecuteWorkflow(temporal.WorkflowName, temporal.Input{Session: w.id})
			require.True(t, env.IsWorkflowCompleted())
			require.NoError(t, env.GetWorkflowError())
			var out temporal.Output
			require.NoError(t, env.GetWorkflowResult(&out))
			require.Equal(t, temporal.Output{End: aycoder.EndDone, Turns: 2}, out)
			got := w.messages()
			require.Equal(t, map[bool]int{true: 1}[allow], w.count("edit"), encoded(t, got))
			require.Equal(t, 1, w.count("look"), encoded(t, got))
			require.Equal(t, encoded(t, w.plain("go", allow, twoReadsAndAnEdit()...)), encoded(t, got))
			require.Len(t, w.model.Requests(), 2)
		})
	}
}
