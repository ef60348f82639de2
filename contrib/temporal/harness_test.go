package temporal_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/contrib/temporal"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/providers/script"
)

// A runtime of package harness works as a workflow without a change: its tools, policy, plans, snapshots and session.
func TestHarness(t *testing.T) {
	steps := func() []script.Step {
		return []script.Step{
			script.Reply(script.Call("read_file", map[string]any{"path": "a.txt"}), script.Call("list_files", map[string]any{"path": "."})),
			script.Reply(
				script.Call("edit_file", map[string]any{"path": "a.txt", "old_string": "one", "new_string": "two"}),
				script.Call("edit_file", map[string]any{"path": "b.txt", "old_string": "one", "new_string": "three"}),
				script.Call("read_file", map[string]any{"path": "a.txt"})),
			script.Say("done"),
		}
	}
	w := newWorld(t)
	dir := func() string {
		d := t.TempDir()
		for _, name := range []string{"a.txt", "b.txt"} {
			require.NoError(t, os.WriteFile(filepath.Join(d, name), []byte("one\n"), 0o644))
		}
		return d
	}
	here, there := dir(), dir()
	w.model = script.New(steps()...)
	env := w.env(w.worker(func(c *temporal.Config) {
		c.Open = func(ctx context.Context, id string) (*temporal.Agent, error) {
			rt, err := harness.New(ctx, here, harness.WithClient(w.model), harness.WithStore(w.store, id))
			if err != nil {
				return nil, err
			}
			return &temporal.Agent{Session: rt.Session, Agent: rt.Agent, Close: rt.Close}, nil
		}
	}))
	for i := range 4 {
		env.RegisterDelayedCallback(func() { w.answer(env, allowAll) }, time.Duration(i+1)*time.Hour)
	}
	env.ExecuteWorkflow(temporal.WorkflowName, temporal.Input{Session: w.id, Say: []string{w.put(aycoder.User("go"))}})
	require.NoError(t, env.GetWorkflowError())

	rt, err := harness.New(t.Context(), there, harness.WithClient(script.New(steps()...)))
	require.NoError(t, err)
	defer rt.Close()
	var want aycoder.Result
	for ev, err := range rt.Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.Into(&want)) {
		require.NoError(t, err)
		if q, ok := ev.(*aycoder.ApprovalRequested); ok {
			q.Allow()
		}
	}
	require.Equal(t, encoded(t, want.Messages), encoded(t, w.messages()))
	for _, name := range []string{"a.txt", "b.txt"} {
		got, err := os.ReadFile(filepath.Join(here, name))
		require.NoError(t, err)
		plain, err := os.ReadFile(filepath.Join(there, name))
		require.NoError(t, err)
		require.Equal(t, string(plain), string(got))
		require.NotEqual(t, "one\n", string(got))
	}
}
