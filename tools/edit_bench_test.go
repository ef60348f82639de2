package tools

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/workspace"
)

// BenchmarkEditFile changes a line of a 1 MB file that the model has read. It measures
// everything from the arguments to the result: plan, file and diff.
func BenchmarkEditFile(b *testing.B) {
	dir := b.TempDir()
	if _, err := os.Stat("/dev/shm"); err == nil { // the speed of the disk must not be measured
		dir, err = os.MkdirTemp("/dev/shm", "edit")
		require.NoError(b, err)
		b.Cleanup(func() { os.RemoveAll(dir) })
	}
	text := strings.Repeat("\tsome line of code, as long as others\n", 14_000) + "needle\n" +
		strings.Repeat("\tmore of it, which is not much shorter\n", 14_000)
	require.NoError(b, os.WriteFile(filepath.Join(dir, "f"), []byte(text), 0o644))
	ws, err := workspace.Open(dir)
	require.NoError(b, err)
	defer ws.Close()
	tool, err := EditFile(ws)
	require.NoError(b, err)
	ws.Seen().Add("f", text)
	words := []string{"needle", "pin"}
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		in, err := json.Marshal(args{"path": "f", "old_string": words[i%2] + "\n", "new_string": words[(i+1)%2] + "\n"})
		require.NoError(b, err)
		r, err := tool.Call(b.Context(), aycoder.NewInvocation("c", "edit_file", in, nil))
		require.NoError(b, err)
		require.False(b, r.IsError, r.Text())
	}
}
