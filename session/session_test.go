package session_test

import (
	"context"
	"encoding/json"
	"iter"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/agenttest"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/session"
)

type echoArgs struct {
	Text string `json:"text"`
}

// echo returns a tool that returns its argument.
func echo(t testing.TB, name string, effect aycoder.Effect) aycoder.Tool {
	tool, err := aycoder.NewTool(name, "returns its argument",
		func(_ context.Context, _ *aycoder.Invocation, in echoArgs) (*aycoder.ToolResult, error) {
			return aycoder.TextResult("echo " + in.Text), nil
		}, aycoder.WithEffect(effect))
	require.NoError(t, err)
	return tool
}

func agent(t testing.TB, steps ...script.Step) *aycoder.Loop {
	allow := aycoder.ApproverFunc(func(context.Context, *aycoder.ToolUse, *aycoder.ToolSpec) aycoder.Verdict {
		return aycoder.Allow()
	})
	l, err := aycoder.New(script.New(steps...), aycoder.WithApprover(allow),
		aycoder.WithTools(echo(t, "look", aycoder.EffectReadOnly), echo(t, "write", aycoder.EffectWrite)))
	require.NoError(t, err)
	return l
}

func run(t testing.TB, a aycoder.Agent, prompt string) aycoder.Result {
	t.Helper()
	var res aycoder.Result
	for _, err := range a.Run(t.Context(), aycoder.Input{Prompt: prompt}, aycoder.Into(&res)) {
		require.NoError(t, err)
	}
	return res
}

func asJSON(t testing.TB, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	require.NoError(t, err)
	return string(data)
}

func call(name, text string) script.Step { return script.Call(name, map[string]any{"text": text}) }

// A session keeps all that its runs said, also after it was closed and opened again.
func TestConversationIsKept(t *testing.T) {
	store := newMemory()
	s, err := session.New(t.Context(), store, agent(t,
		script.Reply(script.Say("let me look"), call("look", "a"), call("write", "b")), script.Say("done"), script.Say("again")))
	require.NoError(t, err)
	run(t, s, "first")
	res := run(t, s, "second")
	require.Equal(t, "again", res.Text())
	used, cost := s.View().Usage()
	require.Zero(t, cost)
	require.Positive(t, used.Output)
	require.Equal(t, asJSON(t, res.Messages), asJSON(t, s.View().Messages(s.Head())))
	require.NoError(t, s.Close())

	o, err := session.Open(t.Context(), store, s.ID(), agent(t, script.Say("third answer")))
	require.NoError(t, err)
	require.Empty(t, o.Damage())
	require.Nil(t, o.Pending())
	require.Equal(t, asJSON(t, res.Messages), asJSON(t, o.View().Messages(o.Head())))
	for id := range session.ID(o.View().Len()) {
		a, b := s.View().Node(id), o.View().Node(id)
		require.Equal(t, asJSON(t, a), asJSON(t, b), "node %d", id)
		require.Equal(t, a.Run, b.Run)
	}
	res = run(t, o, "third")
	require.Len(t, res.Messages, 8)
}

// fresh is an agent whose runs are each the first of a session.
type fresh struct {
	t    testing.TB
	loop aycoder.Agent
}

func (f fresh) Run(ctx context.Context, in aycoder.Input, opts ...aycoder.RunOption) iter.Seq2[aycoder.Event, error] {
	s, err := session.New(context.Background(), newMemory(), f.loop)
	require.NoError(f.t, err)
	return s.Run(ctx, in, opts...)
}

func TestSessionIsAnAgent(t *testing.T) {
	agenttest.TestAgent(t, func(t testing.TB, s agenttest.AgentSetup) aycoder.Agent {
		l, err := aycoder.New(s.Model, aycoder.WithTools(s.Tools...), aycoder.WithApprover(s.Approver))
		require.NoError(t, err)
		return fresh{t, l}
	})
}
