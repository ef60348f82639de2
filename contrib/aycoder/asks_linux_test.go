package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/internal/cli/ttytest"
)

// A server's question goes to the user at a terminal, whose answer it gets.
func TestServerAsks(t *testing.T) {
	dir, home := t.TempDir(), t.TempDir()
	self, err := os.Executable()
	require.NoError(t, err)
	own := filepath.Join(home, ".config", "aycoder", "config.toml")
	require.NoError(t, os.MkdirAll(filepath.Dir(own), 0o700))
	require.NoError(t, os.WriteFile(own, fmt.Appendf(nil, "[servers.weather]\ncommand = %q\nenv = {AYCODER_TEST = \"server\"}\n", self), 0o600))
	cmd := program(t, dir, home, "-no-session", "-allow", "mcp__weather__now", "go")
	model := newModel(t)
	cmd.Env = append(cmd.Env, "TERM=xterm-256color", "ANTHROPIC_API_KEY=k", "ANTHROPIC_BASE_URL="+model.URL)
	p := ttytest.Start(t, cmd, 80, 24)
	p.Expect("y answer · n refuse")
	require.Contains(t, p.Text(), "server weather")
	require.Contains(t, p.Text(), "Where are you?")
	p.Type("y")
	p.Expect("town (string)")
	p.Type("Hull", "\r")
	p.Until("the next prompt", func(e *ttytest.Emulator) bool {
		text := strings.TrimSpace(e.Text())
		return strings.Contains(text, "done") && strings.HasSuffix(text, "\n>")
	})
	p.Type("\x04")
	require.Zero(t, p.Wait(), p.Text())
	require.Contains(t, model.heard(), "rain in Hull")
}
