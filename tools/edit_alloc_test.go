package tools

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/workspace"
)

// An edit of a large file holds the text of before and after, and does not copy what it
// reads again to see whether others have written to it.
func TestEditFileAllocatesLittle(t *testing.T) {
	dir := t.TempDir()
	text := strings.Repeat("\tsome line of code, as long as others\n", 14_000) + "needle\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "f"), []byte(text), 0o644))
	ws, err := workspace.Open(dir)
	require.NoError(t, err)
	defer ws.Close()
	tool, err := EditFile(ws)
	require.NoError(t, err)
	ws.Seen().Add("f", text)
	edit := func(from, to string) uint64 {
		in, err := json.Marshal(args{"path": "f", "old_string": from + "\n", "new_string": to + "\n"})
		require.NoError(t, err)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r, err := tool.Call(t.Context(), aycoder.NewInvocation("c", "edit_file", in, nil))
		runtime.ReadMemStats(&after)
		require.NoError(t, err)
		require.False(t, r.IsError, r.Text())
		return after.TotalAlloc - before.TotalAlloc
	}
	edit("needle", "pin")
	assert.LessOrEqual(t, edit("pin", "needle")/uint64(len(text)), uint64(6))
	now, err := os.ReadFile(filepath.Join(dir, "f"))
	require.NoError(t, err)
	assert.Equal(t, text, string(now))
}
