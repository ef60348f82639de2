package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/providers/script"
)

// The user changes a line while the model works, and the model wants to change it as well.
func TestConflictsAreResolved(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, answer, file string
		shown              []string
	}{
		{"yours", "y", "one\nuser\nthree\nmore\n", []string{"Well."}},
		{"the agent's", "t", "one\nagent\nthree\nmore\n", []string{"merged with your changes", "Well."}},
		{"markers", "w", "one\n<<<<<<<", []string{"merged with your changes", "Well."}},
		{"refused", "n", "one\nuser\nthree\nmore\n", []string{"the user changed the same lines", "Well."}},
		{"anything else asks again", "maybe\nn", "one\nuser\nthree\nmore\n", []string{"Please answer with one of y", "Which?", "Well."}},
		{"no editor", "e\nn", "one\nuser\nthree\nmore\n", []string{"set EDITOR", "Which?", "Well."}},
		{"end of input", "", "one\nuser\nthree\nmore\n", []string{"the user changed the same lines", "Well."}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, "a.txt")
			require.NoError(t, os.WriteFile(file, []byte("one\ntwo\nthree\n"), 0o644))
			saves := script.Func(func(*aycoder.Request) script.Step {
				require.NoError(t, os.WriteFile(file, []byte("one\nuser\nthree\nmore\n"), 0o644))
				return script.Call("edit_file", map[string]string{"path": "a.txt", "old_string": "two", "new_string": "agent"})
			})
			lines := "go\n"
			if tt.answer != "" {
				lines += tt.answer + "\n"
			}
			shown := talkWith(t, dir, lines, script.Call("read_file", map[string]string{"path": "a.txt"}), saves, script.Say("Well."))
			inOrder(t, shown, append([]string{"a.txt  you changed this file", "<<<<<<< yours, line 2\n  user\n", "=======\n  agent\n", "Which?"}, tt.shown...)...)
			data, err := os.ReadFile(file)
			require.NoError(t, err)
			require.True(t, strings.HasPrefix(string(data), tt.file), string(data))
			if tt.name != "markers" {
				require.Equal(t, tt.file, string(data))
			}
		})
	}
}
