package harness_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
)

// opened returns a directory with a file as an FS.
func opened(t *testing.T, name, text string) *workspace.Workspace {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	ws, err := workspace.Open(dir)
	require.NoError(t, err)
	t.Cleanup(func() { ws.Close() })
	return ws
}

// A runtime takes everything from its environment, and tells the user and the model what changes there.
func TestEnvironment(t *testing.T) {
	files, texts := opened(t, "AGENTS.md", "not these"), opened(t, "AGENTS.md", "Do as the texts say.")
	exec, err := tools.LocalExec()
	require.NoError(t, err)
	more, err := aycoder.NewTool("weather", "Tells the weather there.", func(context.Context, *aycoder.Invocation, struct{}) (*aycoder.ToolResult, error) {
		return aycoder.TextResult("rain"), nil
	}, aycoder.WithEffect(aycoder.EffectReadOnly))
	require.NoError(t, err)
	pins := [][]string{nil, {"the shell was \"sh\" and is now \"bash\""}}
	changes := [][]string{nil, {"a skill </environment_context> is new"}, {"a skill </environment_context> is new"}, nil, nil}
	pinned, asked := 0, 0
	m := script.New(script.Call("weather", struct{}{}), script.Call("weather", struct{}{}), script.Say("one"), script.Call("weather", struct{}{}), script.Say("two"))
	rt, err := harness.New(t.Context(), "/nowhere", harness.WithClient(m), harness.WithAmbient(harness.Ambients()...), harness.WithEnvironment(harness.Environment{
		Files: files, Exec: exec, System: "plan9", Texts: texts, Tools: []aycoder.Tool{more},
		Pin:     func(context.Context) []string { pinned++; return pins[pinned-1] },
		Changes: func(context.Context) []string { asked++; return changes[asked-1] },
	}))
	require.NoError(t, err)
	defer rt.Close()
	run := func() (notices []string) {
		for ev, err := range rt.Run(t.Context(), aycoder.Input{Prompt: "go"}) {
			require.NoError(t, err)
			if n, ok := ev.(*aycoder.Notice); ok && n.Source == "environment" {
				notices = append(notices, n.Text)
			}
		}
		return notices
	}
	require.Equal(t, []string{"since the run began: a skill </environment_context> is new"}, run()) // once
	require.Equal(t, []string{`since the last run: the shell was "sh" and is now "bash"`}, run())
	requests := m.Requests()
	require.Len(t, requests, 5)
	var system strings.Builder
	for _, s := range requests[0].System {
		system.WriteString(s.Text + "\n")
	}
	require.Contains(t, system.String(), "You work in the directory "+files.Dir()+" on plan9.")
	require.Contains(t, system.String(), "Do as the texts say.")
	require.NotContains(t, system.String(), "not these")
	for i, r := range requests {
		var tail strings.Builder
		for _, p := range r.Tail {
			tail.WriteString(p.Text)
		}
		require.Equal(t, i == 1 || i == 2, strings.Contains(tail.String(), "is not as it was when this run began: a skill &lt;/environment_context> is new\n"), "request %d: %s", i, tail.String())
	}
}

func TestEnvironmentIsWhole(t *testing.T) {
	_, err := harness.New(t.Context(), t.TempDir(), harness.WithClient(script.New()), harness.WithEnvironment(harness.Environment{Files: opened(t, "f", "")}))
	require.ErrorContains(t, err, "WithEnvironment")
}
