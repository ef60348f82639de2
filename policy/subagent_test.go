package policy_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/policy"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/tools"
)

// A subagent's shell has its own directory: its commands are judged by that one, and not by
// that of the run around it.
func TestWhereASubagentsCommandStarts(t *testing.T) {
	dir, ws := directories(t)
	shell := new(tools.Shell)
	sh, err := tools.Bash(ws, tools.WithShell(shell))
	require.NoError(t, err)
	p, err := policy.New(policy.WithWorkspace(ws.Dir()), policy.WithDir(shell.DirOf),
		policy.WithRules(policy.User, rules(t, "allow bash@writes_workspace")...))
	require.NoError(t, err)
	child := script.New(
		bash("echo outside > ../f"), bash("cd a"), bash("echo inside > ../g"), script.Say("done"))
	sub, err := tools.Subagent(tools.SubagentConfig{Model: child, Tools: []aycoder.Tool{sh}})
	require.NoError(t, err)
	model := script.New(bash("cd a"),
		script.Reply(script.Call("subagent", map[string]string{"task": "go"})), bash("echo inside > ../h"), script.Say("done"))
	l, err := aycoder.New(model, aycoder.WithTools(sh, sub), aycoder.WithApprover(p))
	require.NoError(t, err)
	var asked []string
	for ev, err := range l.Run(t.Context(), aycoder.Input{Prompt: "go"}) {
		require.NoError(t, err)
		q, ok := ev.(*aycoder.ApprovalRequested)
		if e, inner := ev.(*aycoder.ChildEvent); inner {
			q, ok = e.Innermost().(*aycoder.ApprovalRequested)
		}
		if ok {
			asked = append(asked, q.Request.Tool+" "+q.Request.Subject)
			if q.Request.Tool == "subagent" {
				q.Allow()
			}
		}
	}
	require.Equal(t, []string{"subagent ", "bash echo outside > ../f"}, asked)
	require.NoFileExists(t, filepath.Join(dir, "../f"))
	require.FileExists(t, filepath.Join(dir, "g"))
	require.FileExists(t, filepath.Join(dir, "h"))
}
