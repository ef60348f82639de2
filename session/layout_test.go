package session_test

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/session"
	"github.com/aycoder/aycoder/snapshot"
	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
)

// The files of a session whose machine is lost are laid out elsewhere, while the lost process still holds the session: contents,
// modes and links. A file whose content is not held is named, and one that is there stays.
func TestLayOut(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("it has neither modes nor links without more rights")
	}
	ctx, here, there, store := t.Context(), t.TempDir(), t.TempDir(), journal.Memory()
	write := func(dir, name, text string, mode os.FileMode) {
		t.Helper()
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), mode))
	}
	write(here, "run.sh", "echo one\n", 0o755)
	write(here, "sub/read.txt", "as it was\n", 0o640)
	write(here, "mine.txt", "first\n", 0o644)
	write(there, "mine.txt", "of the user there\n", 0o644)
	ws, err := workspace.Open(here)
	require.NoError(t, err)
	files := snapshot.New(ws)
	list, err := tools.Coding(files, tools.WithExecMiddleware(files.Exec))
	require.NoError(t, err)
	model := script.New(
		script.Reply(
			script.Call("edit_file", map[string]any{"path": "run.sh", "old_string": "one", "new_string": "two"}),
			script.Call("edit_file", map[string]any{"path": "mine.txt", "old_string": "first", "new_string": "second"}),
			script.Call("bash", map[string]any{"command": "ln -s run.sh link && mkdir new && echo made >new/file && chmod 600 new/file && rm sub/read.txt && echo again >sub/read.txt"})),
		script.Call("hang", nil))
	hanging := make(chan struct{})
	hang, err := aycoder.NewTool("hang", "Hangs", func(ctx context.Context, _ *aycoder.Invocation, _ struct{}) (*aycoder.ToolResult, error) {
		close(hanging)
		<-ctx.Done()
		return nil, ctx.Err()
	})
	require.NoError(t, err)
	all := aycoder.ApproverFunc(func(context.Context, *aycoder.ToolUse, *aycoder.ToolSpec) aycoder.Verdict { return aycoder.Allow() })
	loop, err := aycoder.New(model, aycoder.WithTools(append(list, hang)...), aycoder.WithApprover(all))
	require.NoError(t, err)
	s, err := session.New(ctx, store, loop, session.WithFiles(files), session.WithDir(here))
	require.NoError(t, err)
	run, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for range s.Run(run, aycoder.Input{Prompt: "go"}) {
		}
	}()
	<-hanging

	elsewhere, err := workspace.Open(there)
	require.NoError(t, err)
	missing, err := session.LayOut(ctx, store, s.ID(), elsewhere)
	require.NoError(t, err)
	var names []string
	for _, c := range missing {
		names = append(names, c.Path)
		require.NotEmpty(t, c.Reason, c.Path)
	}
	require.Equal(t, []string{"mine.txt"}, names)
	for _, name := range []string{"run.sh", "new/file", "sub/read.txt"} {
		want, err := os.ReadFile(filepath.Join(here, name))
		require.NoError(t, err)
		got, err := os.ReadFile(filepath.Join(there, name))
		require.NoError(t, err)
		require.Equal(t, string(want), string(got), name)
		a, err := os.Stat(filepath.Join(here, name))
		require.NoError(t, err)
		b, err := os.Stat(filepath.Join(there, name))
		require.NoError(t, err)
		require.Equal(t, a.Mode(), b.Mode(), name)
	}
	link, err := os.Readlink(filepath.Join(there, "link"))
	require.NoError(t, err)
	require.Equal(t, "run.sh", link)
	text, err := os.ReadFile(filepath.Join(there, "mine.txt"))
	require.NoError(t, err)
	require.Equal(t, "of the user there\n", string(text))
	again, err := session.LayOut(ctx, store, s.ID(), elsewhere)
	require.NoError(t, err)
	require.Len(t, again, 1) // and nothing else is left to do
	stop()
	<-ended
	require.NoError(t, s.Close())
}
