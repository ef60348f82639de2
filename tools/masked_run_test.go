package tools_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/policy"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
)

// Nothing that a host can log or record of a run contains the secret, while the model's
// edit keeps it.
func TestMaskedRun(t *testing.T) {
	token := strings.Join([]string{"gh", "p_", "k5Ns3qB6Rh7Hj4Gz9KR4LB3Nt4ZN6bh2Sj9D"}, "")
	file := filepath.Join(t.TempDir(), "a.env")
	require.NoError(t, os.WriteFile(file, []byte("TOKEN="+token+"\n"), 0o600))
	ws, err := workspace.Open(filepath.Dir(file))
	require.NoError(t, err)
	defer ws.Close()
	m := tools.NewMasker([]byte("k"))
	hidden := m.Mask(token)
	coding, err := tools.Coding(ws, tools.WithMasker(m))
	require.NoError(t, err)
	leaky, err := aycoder.NewTool("leaky", "Leaks.", func(context.Context, *aycoder.Invocation, struct{}) (*aycoder.ToolResult, error) {
		return nil, errors.New("not with " + token)
	})
	require.NoError(t, err)
	model := script.New(
		script.Reply(script.Call("read_file", map[string]any{"path": "a.env"}), script.Call("bash", map[string]any{"command": "cat a.env; echo 1"}), script.Call("leaky", map[string]any{})),
		script.Reply(script.Call("edit_file", map[string]any{"path": "a.env", "old_string": "TOKEN=" + hidden, "new_string": "KEY=" + hidden})),
		script.Say("done"),
	)
	approver, err := policy.New(policy.WithWorkspace(ws.Dir()))
	require.NoError(t, err)
	agent, err := aycoder.New(model, aycoder.WithTools(append(coding, leaky)...), aycoder.WithToolMiddleware(tools.Masking(m)),
		aycoder.WithApprover(approver))
	require.NoError(t, err)
	var events []string
	for ev, err := range agent.Run(t.Context(), aycoder.Input{Prompt: "go"}) {
		require.NoError(t, err)
		if q, ok := ev.(*aycoder.ApprovalRequested); ok {
			assert.NotContains(t, q.Request.Preview, token)
			q.Allow()
		}
		events = append(events, string(encoded(t, ev)))
	}
	assert.NotContains(t, strings.Join(events, "\n"), token)
	assert.Contains(t, strings.Join(events, "\n"), hidden)
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, "KEY="+token+"\n", string(data))
	for _, req := range model.Requests() {
		for _, msg := range req.Messages {
			assert.NotContains(t, string(encoded(t, msg)), token)
		}
	}
}

func encoded(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	require.NoError(t, err)
	return string(raw)
}
