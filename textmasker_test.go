package aycoder_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
)

type maskingPlanTool struct{ *planTool }

func (maskingPlanTool) Mask(text string) string { return strings.ReplaceAll(text, "hunter2", "***") }

// What is shown of a plan is masked, and the plan itself is what will be written.
func TestTextMasker(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "f"), []byte("hunter2\na\n"), 0o600))
	ws, err := aycoder.OpenWorkspace(dir)
	require.NoError(t, err)
	defer ws.Close()
	loop := newLoop(t, &fake{turns: [][]any{calls(swap("1", "f", "a", "b")), say("done")}},
		aycoder.WithTools(maskingPlanTool{newPlanTool(t, ws)}), aycoder.WithApprover(aycoder.Rules{}))
	asked := 0
	for ev, err := range loop.Run(t.Context(), aycoder.Input{Prompt: "go"}) {
		require.NoError(t, err)
		if q, ok := ev.(*aycoder.ApprovalRequested); ok {
			asked++
			require.Contains(t, q.Request.Preview, "***")
			require.NotContains(t, q.Request.Preview, "hunter2")
			require.Equal(t, "hunter2\nb\n", q.Request.Plan.Files()[0].Proposed)
			require.True(t, q.Allow())
		}
	}
	require.Equal(t, 1, asked)
	data, err := os.ReadFile(filepath.Join(dir, "f"))
	require.NoError(t, err)
	require.Equal(t, "hunter2\nb\n", string(data))
}

func TestWithProgress(t *testing.T) {
	var outer, inner []string
	report := func(to *[]string) func(aycoder.Progress) {
		return func(p aycoder.Progress) { *to = append(*to, p.Message) }
	}
	inv := aycoder.NewInvocation("1", "x", nil, report(&outer))
	inv.Run = "r"
	wrapped := inv.WithProgress(func(p aycoder.Progress) {
		report(&inner)(p)
		inv.Progress(aycoder.Progress{Message: "<" + p.Message + ">"})
	})
	wrapped.Progress(aycoder.Progress{Message: "a"})
	inv.Progress(aycoder.Progress{Message: "b"})
	require.Equal(t, "r", wrapped.Run)
	require.Equal(t, []string{"a"}, inner)
	require.Equal(t, []string{"<a>", "b"}, outer)
	aycoder.NewInvocation("1", "x", nil, nil).Progress(aycoder.Progress{})
}
