package tools

import (
	"context"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/providers/script"
)

// alarms collects security events.
type alarms struct {
	mu     sync.Mutex
	events []string
}

func (a *alarms) Audit(_ context.Context, rec *aycoder.AuditRecord) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if rec.Kind == aycoder.AuditSecurity {
		a.events = append(a.events, rec.Event+" "+rec.Tool)
	}
	return nil
}

// Refusals and masked secrets of the tools are recorded.
func TestSecurityEventsAreRecorded(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there is no bash tool")
	}
	w := newWorld(t, map[string]string{"notes.txt": "AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMIK7MDENGbPxRfiCYq8ZrLtOpVs3a\n"})
	coding, err := Coding(w.ws, WithSandboxRequired(true))
	require.NoError(t, err)
	var a alarms
	model := script.New(script.Reply(
		script.Call("read_file", args{"path": "notes.txt"}),
		script.Call("bash", args{"command": "ls"}),
		script.Call("read_file", args{"path": "../x"}),
	), script.Say("done"))
	everything := aycoder.ApproverFunc(func(context.Context, *aycoder.ToolUse, *aycoder.ToolSpec) aycoder.Verdict {
		return aycoder.Allow()
	})
	l, err := aycoder.New(model, aycoder.WithTools(coding...), aycoder.WithApprover(everything), aycoder.WithAudit(&a))
	require.NoError(t, err)
	for _, err := range l.Run(t.Context(), aycoder.Input{Prompt: "go"}) {
		require.NoError(t, err)
	}
	assert.ElementsMatch(t, []string{"masked_secret read_file", "no_sandbox bash", "outside_workspace read_file"}, a.events)
}

// Commands that a host runs elsewhere are not confined by a sandbox of this machine, so
// the combination of both options is an error.
func TestSandboxAndExecExcludeEachOther(t *testing.T) {
	w := newWorld(t, nil)
	for _, o := range []Option{WithSandboxRequired(true), WithSandbox(NoSandbox())} {
		_, err := Bash(w.ws, WithExec(&localExec{}), o)
		require.ErrorContains(t, err, "WithExec goes without")
	}
}
