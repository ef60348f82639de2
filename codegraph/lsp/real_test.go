package lsp

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aycoder/aycoder/workspace"
	"github.com/stretchr/testify/require"
)

// program returns a language server of this machine: from a variable, or found in PATH.
func program(t testing.TB, variable, name string) string {
	if p := os.Getenv(variable); p != "" {
		return p
	}
	p, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("%s is not installed: set %s to its path", name, variable)
	}
	return p
}

// real returns a client of a real server, in a directory.
func real(t testing.TB, known, path, dir string, opts ...Option) (*Client, *workspace.Workspace) {
	s, ok := Known(known)
	require.True(t, ok)
	s.Command[0] = path
	s.Memory = -1
	ws, err := workspace.Open(dir)
	require.NoError(t, err)
	t.Cleanup(func() { ws.Close() })
	c, err := New(ws, append([]Option{WithServer(s)}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return c, ws
}

func copyTree(t testing.TB, from string) string {
	dir := filepath.Join(t.TempDir(), "ws")
	require.NoError(t, os.CopyFS(dir, os.DirFS(from)))
	return dir
}

func TestTryGopls(t *testing.T) {
	dir := copyTree(t, "/tmp/repos/go-sdk")
	os.RemoveAll(filepath.Join(dir, ".git"))
	c, _ := real(t, "gopls", program(t, "AYCODER_GOPLS", "gopls"), dir, WithWait(60*time.Second))
	start := time.Now()
	at := func() time.Duration { d := time.Since(start); start = time.Now(); return d }
	locs, err := c.References(t.Context(), "mcp/tool.go", Position{41, 6})
	t.Log(locs, err, at())
	for i := range 4 {
		edit1(t, c, dir, "mcp/tool.go", "package mcp\n", "package mcp\n\nvar x"+strings.Repeat("y", i)+" int = \"a\"\n")
		t.Log(at())
	}
	edit1(t, c, dir, "mcp/tool.go", "func ", "func X")
	t.Log(at())
	edit1(t, c, dir, "mcp/client.go", "func NewClient(", "func NewClientx(")
	t.Log(at())
}

func edit1(t testing.TB, c *Client, dir, name, old, new string) {
	data, err := os.ReadFile(filepath.Join(dir, name))
	require.NoError(t, err)
	after := strings.Replace(string(data), old, new, 1)
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(after), 0o644))
	lines := c.newErrors(context.Background(), []change{{name, string(data), after, true, true}})
	t.Log(strings.Join(lines, "\n"))
}

