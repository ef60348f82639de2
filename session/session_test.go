package session_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"strings"
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

// A crash after any record leaves a session that is opened, resumed and ended, in which no write
// runs twice.
func TestCrashAfterEachRecord(t *testing.T) {
	steps := func() []script.Step {
		return []script.Step{
			script.Reply(script.Say("let me look"), call("look", "a"), call("write", "b"), call("write", "c")),
			script.Reply(call("write", "d")), script.Say("done"),
		}
	}
	whole := newMemory()
	s, err := session.New(t.Context(), whole, agent(t, steps()...))
	require.NoError(t, err)
	want := run(t, s, "go")
	records := whole.sessions[s.ID()].records
	require.NotEmpty(t, records)
	for n := 1; n <= len(records); n++ {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			store := newMemory()
			store.sessions["x"] = &memoryJournal{records: records[:n:n], objects: map[session.Hash][]byte{}}
			began := map[string]bool{} // writes that began before the crash
			for _, r := range records[:n] {
				var f struct{ Fact, ID string }
				require.NoError(t, json.Unmarshal(r, &f))
				if f.Fact == "tool_began" {
					began[f.ID] = true
				}
			}
			ran := map[string]int{}
			note := func(next aycoder.ToolFunc) aycoder.ToolFunc {
				return func(ctx context.Context, inv *aycoder.Invocation) (*aycoder.ToolResult, error) {
					if inv.Name == "write" {
						ran[inv.ID]++
					}
					return next(ctx, inv)
				}
			}
			allow := aycoder.ApproverFunc(func(context.Context, *aycoder.ToolUse, *aycoder.ToolSpec) aycoder.Verdict {
				return aycoder.Allow()
			})
			var said []string // what the model has still to say
			all := steps()
			o, err := session.Open(t.Context(), store, "x", agent(t))
			require.NoError(t, err)
			turns := 0
			for _, m := range o.View().Messages(o.Head()) {
				if m.Role == aycoder.RoleAssistant {
					turns++
				}
			}
			if p := o.Pending(); p != nil && p.State.Phase() == "tools" {
				turns++
			}
			_ = said
			l, err := aycoder.New(script.New(all[turns:]...), aycoder.WithApprover(allow), aycoder.WithToolMiddleware(note),
				aycoder.WithTools(echo(t, "look", aycoder.EffectReadOnly), echo(t, "write", aycoder.EffectWrite)))
			require.NoError(t, err)
			require.NoError(t, o.SetAgent(l))
			var res aycoder.Result
			in := aycoder.Input{}
			if o.Pending() == nil && o.View().Len() == 1 {
				in.Prompt = "go" // the prompt was not recorded, so nothing was done
			}
			if o.Pending() != nil || in.Prompt != "" {
				for _, err := range o.Run(t.Context(), in, aycoder.Into(&res)) {
					require.NoError(t, err)
				}
			} else {
				res.Messages = o.View().Messages(o.Head())
			}
			require.NoError(t, aycoder.CheckHistory(res.Messages))
			require.Equal(t, "done", res.Text())
			require.Equal(t, len(want.Messages), len(res.Messages))
			for id := range ran {
				require.Equal(t, 1, ran[id])
				require.False(t, began[id], "%s ran twice", id)
			}
			require.Equal(t, asJSON(t, res.Messages), asJSON(t, o.View().Messages(o.Head())))
			text := asJSON(t, res.Messages)
			for id := range began {
				if strings.Count(text, "interrupted") == 0 && ran[id] > 0 {
					t.Errorf("%s: %s", id, text)
				}
			}
			// and what is stored now is what a further process reads
			view, damage, err := session.Read(t.Context(), store, "x")
			require.NoError(t, err)
			require.Empty(t, damage)
			require.Equal(t, asJSON(t, res.Messages), asJSON(t, view.Messages(view.Head(""))))
		})
	}
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
