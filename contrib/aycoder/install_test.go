package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/internal/published"
)

func TestInstallByVersion(t *testing.T) {
	program := published.Install(t, filepath.Join("..", ".."), "contrib/aycoder", ".", "contrib/mcp", "contrib/aycoder")
	if program == "" {
		return
	}
	out, err := exec.CommandContext(t.Context(), program, "-version").Output()
	require.NoError(t, err)
	require.Contains(t, string(out), "aycoder v0.9.9,")
}

// All modules beside this one are in go.work, since go commands in a directory below it would refuse the others.
func TestWorkspace(t *testing.T) {
	work, err := os.ReadFile("../go.work")
	require.NoError(t, err)
	files, err := filepath.Glob("../*/go.mod")
	require.NoError(t, err)
	require.Greater(t, len(files), 2)
	for _, f := range files {
		require.Contains(t, string(work), "\t./"+filepath.Base(filepath.Dir(f))+"\n")
	}
}
