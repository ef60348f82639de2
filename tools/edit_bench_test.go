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

// largeFile writes a file of 1 MB. The function that it returns lets edit_file, which has
// seen the file, change a line of it, there and back.
func largeFile(t testing.TB, dir string) (text string, edit func()) {
	text = strings.Repeat("\tsome line of code, as long as others\n", 14_000) + "needle\n" +
		strings.Repeat("\tmore of it, which is not much shorter\n", 14_000)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "f"), []byte(text), 0o644))
	ws, err := workspace.Open(dir)
	require.NoError(t, err)
	t.Cleanup(func() { ws.Close() })
	tool, err := EditFile(ws)
	require.NoError(t, err)
	ws.Seen().Add("f", text)
	from, to := "needle\n", "pin\n"
	return text, func() {
		in, err := json.Marshal(args{"path": "f", "old_string": from, "new_string": to})
		require.NoError(t, err)
		r, err := tool.Call(t.Context(), aycoder.NewInvocation("c", "edit_file", in, nil))
		require.NoError(t, err)
		require.False(t, r.IsError, r.Text())
		from, to = to, from
	}
}

// BenchmarkEditFile changes a line of a 1 MB file that the model has read. It measures
// everything from the arguments to the result: plan, file and diff.
func BenchmarkEditFile(b *testing.B) {
	dir := b.TempDir()
	if _, err := os.Stat("/dev/shm"); err == nil { // the speed of the disk must not be measured
		dir, err = os.MkdirTemp("/dev/shm", "edit")
		require.NoError(b, err)
		b.Cleanup(func() { os.RemoveAll(dir) })
	}
	text, edit := largeFile(b, dir)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		edit()
	}
}

// An edit of a large file does not copy the text that it reads again to see whether others
// have written to it.
func TestEditFileAllocatesLittle(t *testing.T) {
	dir := t.TempDir()
	text, edit := largeFile(t, dir)
	edit()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	edit()
	runtime.ReadMemStats(&after)
	assert.LessOrEqual(t, (after.TotalAlloc-before.TotalAlloc)/uint64(len(text)), uint64(6))
	now, err := os.ReadFile(filepath.Join(dir, "f"))
	require.NoError(t, err)
	assert.Equal(t, text, string(now))
}
