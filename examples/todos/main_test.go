package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/providers/script"
)

func Example() {
	main()
	// Output:
	// todos: 2 lines
	// lib/notes.txt:3: TODO: say what this is
	// main.go:3: // TODO: read the flags
	// Two things are left to do.
}

// A list that lacks something says so.
func TestUnread(t *testing.T) {
	for text, want := range map[string]string{
		strings.Repeat("x", 70_000) + "\nTODO: y\n": "long.txt:2: TODO: y\nDone.",
		strings.Repeat("x\n", 1<<19) + "TODO: y\n":  "no TODO in .\n[1 files were not read to their end]\nDone.",
		strings.Repeat("x", 2<<20) + "\nTODO: y\n":  "no TODO in .\n[1 files were not read to their end]\nDone.",
	} {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "long.txt"), []byte(text), 0o600))
		var out strings.Builder
		require.NoError(t, run(t.Context(), &out, script.New(script.Call("todos", todoArgs{}), script.Say("Done.")), dir))
		require.Contains(t, out.String(), want)
	}
}
