package tools

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/workspace"
)

// Bash cannot do what a sandbox forbids, and the model is told why.
func TestBashInASandbox(t *testing.T) {
	dir := t.TempDir()
	outside := filepath.Join(t.TempDir(), "f")
	ws, err := workspace.Open(dir)
	require.NoError(t, err)
	defer ws.Close()
	box, err := Landlock(ws)
	require.NoError(t, err)
	defer box.Close()
	if _, err := CheckSandbox(t.Context(), box, SandboxCall{Require: true}); err != nil {
		t.Skip(err)
	}
	bash, err := Bash(ws, WithSandbox(box), WithSandboxRequired(true))
	require.NoError(t, err)
	run := func(command string) *aycoder.ToolResult {
		r, err := bash.Call(t.Context(), aycoder.NewInvocation("1", "bash", mustJSON(t, args{"command": command}), nil))
		require.NoError(t, err)
		return r
	}
	r := run("mkdir d; cd d; echo inside > f; echo x > " + outside)
	assert.NoFileExists(t, outside)
	assert.FileExists(t, filepath.Join(dir, "d/f"))
	assert.Contains(t, r.Text(), "[sandbox: commands change files in the workspace")
	assert.Contains(t, r.Text(), "[exit 1, in d]")
	r = run("cat f; pwd; true")
	assert.Contains(t, r.Text(), "inside\n")
	assert.NotContains(t, r.Text(), "sandbox")
	_, err = os.Stat(outside)
	require.ErrorIs(t, err, os.ErrNotExist)
}

// Where a sandbox is required, nothing runs without one.
func TestRequiredSandbox(t *testing.T) {
	w := newWorld(t, nil)
	bash, err := Bash(w.ws, WithSandboxRequired(true))
	require.NoError(t, err)
	r, err := bash.Call(t.Context(), aycoder.NewInvocation("1", "bash", mustJSON(t, args{"command": "touch f"}), nil))
	require.NoError(t, err)
	assert.True(t, r.IsError)
	assert.Contains(t, r.Text(), "no_sandbox: ")
	assert.NoFileExists(t, w.path("f"))
}
