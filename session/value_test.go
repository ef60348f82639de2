package session_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/policy"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/session"
	"github.com/aycoder/aycoder/snapshot"
	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
)

func todo(items ...string) script.Step {
	list := []any{}
	for _, content := range items {
		list = append(list, map[string]any{"content": content, "status": "pending"})
	}
	return script.Call("todo", map[string]any{"todos": list})
}

// Each value of the host is recorded by itself, and the next process has it, also after Trim.
func TestValuesOneByOne(t *testing.T) {
	store := dirStore(t)
	agent, err := aycoder.New(script.New(script.Say("ok")))
	require.NoError(t, err)
	require.Equal(t, "mine", session.NewID(session.WithValue("policy", new(tools.TodoList)), session.WithID("mine")))
	s, err := session.New(t.Context(), store, agent, session.WithValue("policy", new(tools.TodoList)))
	require.NoError(t, err)
	run(t, s, "go")
	lines := func() (all string) {
		j, err := store.Open(t.Context(), s.ID(), false)
		require.NoError(t, err)
		for line, err := range j.Records(t.Context()) {
			require.NoError(t, err)
			all += string(line)
		}
		require.NoError(t, j.Close())
		return all
	}
	first := len(lines())
	for i := range 200 {
		require.NoError(t, s.SetValues(t.Context(), map[string]json.RawMessage{fmt.Sprint("key ", i): json.RawMessage(`"value"`)}))
	}
	require.Less(t, len(lines())-first, 200*100)
	require.NoError(t, s.SetValues(t.Context(), map[string]json.RawMessage{"key 0": nil, "key 1": json.RawMessage(`{"a":1}`)}))
	require.ErrorAs(t, s.SetValues(t.Context(), map[string]json.RawMessage{"policy": nil}), new(*aycoder.ConfigError))
	for _, trim := range []bool{false, true} {
		if trim {
			require.NoError(t, s.Trim(t.Context()))
			require.NotContains(t, lines(), `"key 0"`, "it was removed")
		}
		require.NoError(t, s.Close())
		s, err = session.Open(t.Context(), store, s.ID(), agent)
		require.NoError(t, err)
		require.Nil(t, s.Value("key 0"))
		require.Nil(t, s.Value("none"))
		require.JSONEq(t, `{"a":1}`, string(s.Value("key 1")))
		require.JSONEq(t, `"value"`, string(s.Value("key 199")))
	}
	require.NoError(t, s.Close())
}

// A list of tasks follows the conversation: to another node, and into another process.
func TestTasksFollowTheConversation(t *testing.T) {
	store := dirStore(t)
	list := new(tools.TodoList)
	tool, err := tools.Todo(tools.WithTodoList(list))
	require.NoError(t, err)
	m := script.New(todo("a"), script.Say("ok"), todo("a", "b"), script.Say("ok"), todo(), script.Say("ok"))
	l, err := aycoder.New(m, aycoder.WithTools(tool))
	require.NoError(t, err)
	s, err := session.New(t.Context(), store, l)
	require.NoError(t, err)
	require.NoError(t, s.Keep("todo", list))
	tasks := func() (out []string) {
		for _, it := range list.Items() {
			out = append(out, it.Content)
		}
		return out
	}
	run(t, s, "one")
	run(t, s, "two")
	require.Equal(t, []string{"a", "b"}, tasks())
	reopen := func() {
		require.NoError(t, s.Close())
		require.NoError(t, list.Set(nil))
		s, err = session.Open(t.Context(), store, s.ID(), l)
		require.NoError(t, err)
		require.NoError(t, s.Keep("todo", list))
	}
	move := func(do func(context.Context, ...session.MoveOption) (*session.Move, error), want ...string) {
		_, err := do(t.Context())
		require.NoError(t, err)
		require.Equal(t, want, tasks())
		reopen()
		require.Equal(t, want, tasks())
	}
	move(s.Undo, "a")
	move(func(ctx context.Context, o ...session.MoveOption) (*session.Move, error) { return s.Undo(ctx, o...) })
	move(func(ctx context.Context, o ...session.MoveOption) (*session.Move, error) { return s.Redo(ctx, o...) }, "a")
	move(func(ctx context.Context, o ...session.MoveOption) (*session.Move, error) { return s.Redo(ctx, o...) }, "a", "b")
	require.NoError(t, s.Trim(t.Context()))
	reopen()
	require.Equal(t, []string{"a", "b"}, tasks())
	run(t, s, "three")
	require.Empty(t, tasks())
	move(func(ctx context.Context, o ...session.MoveOption) (*session.Move, error) { return s.Undo(ctx, o...) }, "a", "b")
	f, err := s.Fork(t.Context(), s.Head())
	require.NoError(t, err)
	other := new(tools.TodoList)
	require.NoError(t, f.Keep("todo", other))
	require.Equal(t, list.Items(), other.Items())
}

// After each record of a run, a crash leaves the list that the model has been told.
func TestTasksAfterACrash(t *testing.T) {
	store := newMemory()
	list := new(tools.TodoList)
	tool, err := tools.Todo(tools.WithTodoList(list))
	require.NoError(t, err)
	l, err := aycoder.New(script.New(todo("a"), todo("a", "b"), script.Say("ok")), aycoder.WithTools(tool))
	require.NoError(t, err)
	s, err := session.New(t.Context(), store, l)
	require.NoError(t, err)
	require.NoError(t, s.Keep("todo", list))
	run(t, s, "go")
	all := store.sessions[s.ID()].records
	for n := 1; n <= len(all); n++ {
		store.sessions[s.ID()].records = all[:n:n]
		c, err := session.Open(t.Context(), store, s.ID(), l)
		require.NoError(t, err)
		now := new(tools.TodoList)
		require.NoError(t, c.Keep("todo", now))
		told := 0 // by outputs that the history or the pending run has
		messages := c.View().Messages(c.Head())
		if p := c.Pending(); p != nil {
			messages = p.State.Messages()
		}
		for _, m := range messages {
			for _, p := range m.Parts {
				if o, ok := p.(*aycoder.ToolOutput); ok && !o.IsError {
					told++
				}
			}
		}
		require.GreaterOrEqual(t, len(now.Items()), told, "after %d records", n)
	}
}

// The mode, the rules of the session, and that untrusted text came in outlive the process, and an
// Undo does not change them.
func TestPolicyOutlivesTheProcess(t *testing.T) {
	store := dirStore(t)
	newPolicy := func() *policy.Policy {
		p, err := policy.New(policy.WithWorkspace(t.TempDir()))
		require.NoError(t, err)
		return p
	}
	p := newPolicy()
	s, err := session.New(t.Context(), store, agent(t, script.Say("a"), script.Say("b")), session.WithValue("policy", p))
	require.NoError(t, err)
	run(t, s, "go")
	require.NoError(t, p.SetMode(policy.AcceptEdits))
	require.NoError(t, p.KeepRule(t.Context(), aycoder.Session, "bash:go vet *"))
	require.NoError(t, p.Audit(t.Context(), &aycoder.AuditRecord{Untrusted: true}))
	require.NoError(t, s.Save(t.Context()))
	_, err = s.Undo(t.Context())
	require.NoError(t, err)
	require.NoError(t, s.Close())

	q := newPolicy()
	s, err = session.Open(t.Context(), store, s.ID(), agent(t, script.Say("c")), session.WithValue("policy", q))
	require.NoError(t, err)
	require.Empty(t, s.Changes())
	require.Equal(t, policy.AcceptEdits, q.Mode())
	require.True(t, q.Tainted())
	require.Len(t, q.Rules(policy.Session), 1)
	require.Equal(t, "bash:go vet *", q.Rules(policy.Session)[0].String())
	require.Empty(t, q.Rules(policy.User))
	require.NoError(t, s.Close())
}

type badValue struct{}

func (badValue) MarshalJSON() ([]byte, error) { return []byte(`"x"`), nil }
func (badValue) UnmarshalJSON([]byte) error   { return errors.New("broken") }

// Open tells what is not as it was.
func TestChangesAreReported(t *testing.T) {
	store, dir := newMemory(), t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	write("a.txt", "a\n")
	write("b.txt", "b\n")
	write("c.txt", "c\n")
	tooled := func(m aycoder.ModelClient, extra ...aycoder.Tool) (*snapshot.Files, *aycoder.Loop) {
		ws, err := workspace.Open(dir)
		require.NoError(t, err)
		files := snapshot.New(ws)
		list, err := tools.Coding(files, tools.WithExecMiddleware(files.Exec))
		require.NoError(t, err)
		l, err := aycoder.New(m, aycoder.WithTools(append(list, extra...)...), aycoder.WithApprover(verdict(aycoder.Allow())))
		require.NoError(t, err)
		return files, l
	}
	var id string
	var crashed [][]byte // the records when the process ends
	wait, err := aycoder.NewTool("wait", "Waits.", func(context.Context, *aycoder.Invocation, struct{}) (*aycoder.ToolResult, error) {
		crashed = slices.Clone(store.sessions[id].records)
		return aycoder.TextResult("ok"), nil
	}, aycoder.WithEffect(aycoder.EffectWrite))
	require.NoError(t, err)
	files, l := tooled(named{script.New(
		script.Reply(script.Call("read_file", map[string]any{"path": "a.txt"}), script.Call("read_file", map[string]any{"path": "b.txt"})),
		script.Call("bash", map[string]any{"command": "sleep 1000", "background": true}),
		script.Call("wait", map[string]any{}), script.Say("ok"),
	), "one"}, wait)
	s, err := session.New(t.Context(), store, l, session.WithDir(dir), session.WithFiles(files), session.WithValue("bad", badValue{}))
	require.NoError(t, err)
	id = s.ID()
	run(t, s, "go")
	require.NoError(t, s.Close())
	store.sessions[id].records = crashed
	write("a.txt", "changed\n")
	require.NoError(t, os.Remove(filepath.Join(dir, "b.txt")))
	write("c.txt", "nobody has read it\n")

	files, l = tooled(named{script.New(script.Say("x")), "two"})
	other := filepath.Join(dir, "sub")
	s, err = session.Open(t.Context(), store, s.ID(), l, session.WithDir(other), session.WithFiles(files), session.WithValue("bad", badValue{}))
	require.NoError(t, err)
	var got []string
	for _, c := range s.Changes() {
		got = append(got, fmt.Sprintf("%s %s: %s", c.Kind, c.Name, c.Reason))
		require.Equal(t, got[len(got)-1], c.String())
	}
	require.ElementsMatch(t, []string{
		"value bad: it cannot be restored: broken",
		"workspace " + dir + ": the session continues in " + other,
		"command sleep 1000: it has ended with the process that started it",
		"file a.txt: it was changed",
		"file b.txt: it was removed",
		"model p/one: the agent asks p/two",
		"tool wait: the agent does not have it any more",
	}, got)
	require.NoError(t, s.Close())
}

// named is a model with a name.
type named struct {
	aycoder.ModelClient
	name string
}

func (n named) ModelName() (string, string) { return "p", n.name }
func (n named) Unwrap() aycoder.ModelClient { return n.ModelClient }
