package harness_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/config"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/tools"
)

func withAgents(t *testing.T, names ...string) config.Settings {
	return settings(t, func(s *config.Settings) {
		s.AgentServers = map[string]config.AgentServer{}
		for _, name := range names {
			s.AgentServers[name] = config.AgentServer{Command: "of " + name}
		}
		s.Tools.Disabled = []string{"off"}
	})
}

// The main model has the tools of other agents, and subagents do not.
func TestAgentServers(t *testing.T) {
	var opened []string
	var files func() tools.FS
	opener := func(name string, c config.AgentServer, f func() tools.FS, m *tools.Masker, opts ...aycoder.Option) (aycoder.Tool, error) {
		require.NotNil(t, m)
		require.NotEmpty(t, opts)
		opened, files = append(opened, name+" "+c.Command), f
		if name == "none" {
			return nil, nil
		}
		return aycoder.NewTool(name, "Works.", func(context.Context, *aycoder.Invocation, struct{}) (*aycoder.ToolResult, error) {
			return aycoder.TextResult("done"), nil
		}, aycoder.WithEffect(aycoder.EffectReadOnly))
	}
	model := script.New(script.Call("colleague", nil), script.Call("subagent", map[string]string{"task": "go"}), script.Say("sub"), script.Say("ok"))
	rt := open(t, t.TempDir(), harness.WithClient(model), harness.WithAgentServers(opener), harness.WithSettings(withAgents(t, "bash", "colleague", "none", "off")))
	require.Equal(t, []string{"bash of bash", "colleague of colleague", "none of none", "off of off"}, opened)
	require.Same(t, rt.Workspace, files())
	require.Len(t, rt.OtherAgents, 1)
	require.Equal(t, "colleague", rt.OtherAgents[0].Spec().Name)
	var notices []string
	for ev, err := range rt.Run(t.Context(), aycoder.Input{Prompt: "go"}) {
		require.NoError(t, err)
		switch ev := ev.(type) {
		case *aycoder.ApprovalRequested:
			ev.Allow()
		case *aycoder.Notice:
			notices = append(notices, ev.Text)
		}
	}
	require.Equal(t, []string{"tool bash of the agent server bash is left out: there is another of this name"}, notices)
	requests := model.Requests()
	require.Contains(t, toolNames(requests[0]), "colleague")
	require.NotContains(t, toolNames(requests[0]), "off")
	require.Equal(t, "done", script.LastOutput(requests[1]).Text())
	require.NotContains(t, toolNames(requests[2]), "colleague")
	require.Contains(t, toolNames(requests[2]), "bash", "which is not that of the other agent")

	// A host may wrap the tools.
	model = script.New(script.Call("subagent", map[string]string{"task": "go"}), script.Say("sub"), script.Say("ok"))
	type wrapped struct{ aycoder.Tool }
	rt = open(t, t.TempDir(), harness.WithClient(model), harness.WithAgentServers(opener), harness.WithSettings(withAgents(t, "colleague")),
		harness.WithToolFilter(func(all []aycoder.Tool) (out []aycoder.Tool) {
			for _, tool := range all {
				out = append(out, &wrapped{tool})
			}
			return out
		}))
	require.Len(t, rt.OtherAgents, 1)
	for ev, err := range rt.Run(t.Context(), aycoder.Input{Prompt: "go"}) {
		require.NoError(t, err)
		if q, ok := ev.(*aycoder.ApprovalRequested); ok {
			q.Allow()
		}
	}
	require.Len(t, model.Requests(), 3)
	require.Contains(t, toolNames(model.Requests()[0]), "colleague")
	require.NotContains(t, toolNames(model.Requests()[1]), "colleague")

	exec, err := tools.LocalExec()
	require.NoError(t, err)
	far := open(t, "/nowhere", harness.WithClient(script.New(script.Say("ok"))), harness.WithAgentServers(opener), harness.WithSettings(withAgents(t, "colleague")),
		harness.WithEnvironment(harness.Environment{Files: rt.Workspace, Exec: exec, System: "plan9", Texts: rt.Workspace}))
	require.Contains(t, strings.Join(run(t, far, "go"), "\n"), "agent server colleague is off: the workspace is on another machine")
	require.Len(t, opened, 5)
}

func TestAgentServersMissing(t *testing.T) {
	for _, tt := range []struct {
		opts []harness.Option
		want error
	}{
		{nil, harness.ErrNotLinked},
		{[]harness.Option{harness.WithAgentServers(func(string, config.AgentServer, func() tools.FS, *tools.Masker, ...aycoder.Option) (aycoder.Tool, error) {
			return nil, errBroken
		})}, errBroken},
	} {
		_, err := harness.New(t.Context(), t.TempDir(), append(tt.opts, harness.WithClient(script.New()), harness.WithSettings(withAgents(t, "colleague")))...)
		var wrong *aycoder.ConfigError
		require.ErrorAs(t, err, &wrong)
		require.Equal(t, "agent_servers.colleague", wrong.Option)
		require.ErrorIs(t, err, tt.want)
	}
}

var errBroken = errors.New("broken")
