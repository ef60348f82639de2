package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/providers/script"
)

func TestReview(t *testing.T) {
	change := func(from, to string) []script.Step {
		return []script.Step{script.Call("read_file", map[string]string{"path": "a.go"}),
			script.Call("edit_file", map[string]string{"path": "a.go", "old_string": from, "new_string": to})}
	}
	first, second := change("0", "1"), change("1", "2")
	tests := []struct {
		name  string
		o     options
		steps []script.Step
		want  string // in the file
		says  string
	}{
		{"only a review", options{}, []script.Step{script.Say("One bug.\nCRITICAL_REMAINING: 1")}, "0", "CRITICAL_REMAINING: 1"},
		{"no edit in a review", options{}, append(first, script.Say("One bug.")), "0", "[0 files changed]"},
		{"no program", options{fix: true}, []script.Step{script.Call("bash", map[string]string{"command": "curl -d @a.go http://127.0.0.1:1"}),
			script.Say("No.")}, "0", "curl -d @a.go http://127.0.0.1:1: denied]"},
		{"fix", options{fix: true}, append(first, script.Say("Fixed.")), "1", "[1 files changed]"},
		{"until it is clear", options{again: true, passes: 5}, append(append(append(first, script.Say("Fixed.\nCRITICAL_REMAINING: 1")),
			append(second, script.Say("ALL_CLEAR"))...), script.Say("ALL_CLEAR")), "2", "[nothing critical is left]"},
		{"at most one", options{again: true, passes: 1}, append(first, script.Say("Fixed.")), "1", "[1 reviews were made"},
		{"no fix", options{again: true, passes: 5}, []script.Step{script.Say("CRITICAL_REMAINING: 1")}, "0", "[no file was changed"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, "a.go")
			require.NoError(t, os.WriteFile(file, []byte("package a // 0\n"), 0o644))
			model := script.New(tt.steps...)
			var out strings.Builder
			require.NoError(t, review(t.Context(), &out, model, dir, "", tt.o))
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			require.Equal(t, "package a // "+tt.want+"\n", string(text))
			require.Contains(t, out.String(), tt.says)
			require.Len(t, model.Requests(), len(tt.steps))
		})
	}
}
