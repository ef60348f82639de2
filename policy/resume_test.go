package policy_test

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/policy"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
)

// directories opens a workspace for commands, which has a directory "a" and whose own is "ws" in
// an empty one.
func directories(t *testing.T) (dir string, ws *workspace.Workspace) {
	if runtime.GOOS == "windows" {
		t.Skip("there is no bash tool")
	}
	dir = filepath.Join(t.TempDir(), "ws")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "a"), 0o700))
	ws, err := workspace.Open(dir)
	require.NoError(t, err)
	t.Cleanup(func() { _ = ws.Close() })
	return dir, ws
}

// A command that was allowed waits behind a call that was suspended. In the next process
// the shell is in another directory, and there it may not run.
func TestAllowedCommandIsJudgedAgainAfterAResume(t *testing.T) {
	dir, ws := directories(t)
	process := func(in aycoder.Input, steps ...script.Step) *aycoder.Result {
		shell := new(tools.Shell)
		coding, err := tools.Coding(ws, tools.WithShell(shell))
		require.NoError(t, err)
		p, err := policy.New(policy.WithWorkspace(ws.Dir()), policy.WithDir(shell.DirOf),
			policy.WithRules(policy.User, rules(t, "allow bash@writes_workspace")...))
		require.NoError(t, err)
		l, err := aycoder.New(script.New(steps...), aycoder.WithTools(coding...), aycoder.WithApprover(aycoder.SuspendAsks(p)))
		require.NoError(t, err)
		var res aycoder.Result
		for _, err := range l.Run(t.Context(), in, aycoder.Into(&res)) {
			require.NoError(t, err)
		}
		return &res
	}
	res := process(aycoder.Input{Prompt: "go"}, bash("cd a"), script.Reply(
		script.Call("write_file", map[string]string{"path": "n", "content": "new\n"}),
		script.Call("bash", map[string]string{"command": "echo x > ../f"}),
		script.Call("bash", map[string]string{"command": "echo x > g"})))
	require.NotNil(t, res.Pending)
	require.Len(t, res.Pending.Requests, 1)
	q := res.Pending.Requests[0]
	res = process(aycoder.Input{Pending: res.Pending, Decisions: []aycoder.Decision{
		{CallID: q.CallID, Digest: q.Digest, Verdict: aycoder.Allow(), By: aycoder.ByUser},
	}}, script.Say("done"))
	require.Nil(t, res.Pending)
	require.NoError(t, aycoder.CheckHistory(res.Messages))
	require.FileExists(t, filepath.Join(dir, "n"))
	require.FileExists(t, filepath.Join(dir, "g"), "this one is allowed there, too")
	require.NoFileExists(t, filepath.Join(dir, "../f"))
}
