package project_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/aycoder/aycoder/harness/project"
	"github.com/aycoder/aycoder/workspace"
	"github.com/stretchr/testify/require"
)

// dir makes a workspace of files, by their names.
func dir(t testing.TB, files map[string]string) *workspace.Workspace {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		put(t, root, name, text)
	}
	ws, err := workspace.Open(root)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, ws.Close()) })
	return ws
}

func put(t testing.TB, root, name, text string) {
	t.Helper()
	file := filepath.Join(root, filepath.FromSlash(name))
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
	require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
}

// load reads the library of some files.
func load(t testing.TB, files map[string]string) *project.Library {
	t.Helper()
	lib, err := project.Load(t.Context(), project.Source{Files: dir(t, files)})
	require.NoError(t, err)
	return lib
}

// texts returns warnings as texts.
func texts(warnings []project.Warning) []string {
	out := []string{}
	for _, w := range warnings {
		out = append(out, w.String())
	}
	return out
}
