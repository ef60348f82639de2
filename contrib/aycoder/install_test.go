package main

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/internal/published"
)

func TestInstallByVersion(t *testing.T) {
	program := published.Install(t, filepath.Join("..", ".."), "contrib/aycoder", ".", "contrib/acp", "contrib/local", "contrib/mcp", "contrib/otel", "contrib/aycoder")
	if program == "" {
		return
	}
	out, err := exec.CommandContext(t.Context(), program, "-version").Output()
	require.NoError(t, err)
	require.Contains(t, string(out), "aycoder v0.9.9,")
}
