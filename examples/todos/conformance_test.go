package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aycoder/aycoder/agenttest"
	"github.com/aycoder/aycoder/workspace"
)

func TestConformance(t *testing.T) {
	newTool := func(t testing.TB) agenttest.ToolSetup {
		dir := t.TempDir()
		write(t, dir, "lib/a.go", "package lib // TODO: name it\n")
		write(t, dir, ".env", "TODO=secret\n")
		for i := range 200 {
			write(t, dir, fmt.Sprintf(".slow/%d.go", i), "package slow\n")
		}
		ws, err := workspace.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { ws.Close() })
		tool, err := (&finder{ws, slowly(ws)}).tool()
		if err != nil {
			t.Fatal(err)
		}
		return agenttest.ToolSetup{Tool: tool, Dir: dir}
	}
	agenttest.TestTool(t, newTool,
		agenttest.ToolCase{Name: "all", Args: `{}`, Want: "lib/a.go:1: package lib // TODO: name it"},
		agenttest.ToolCase{Name: "workspace named by an empty text", Args: `{"path":""}`, Want: "lib/a.go:1: "},
		agenttest.ToolCase{Name: "no such directory", Args: `{"path":"src"}`, Want: "src", Fails: true},
		agenttest.ToolCase{Name: "outside", Args: `{"path":".."}`, Want: "use a path relative", Fails: true},
		agenttest.ToolCase{Name: "none of them", Args: `{"max":0}`, Want: "/max", Fails: true},
		agenttest.ToolCase{Name: "slow", Args: `{"path":".slow"}`, Slow: true},
	)
}

// slowly opens files of a workspace. Each file of one directory takes 10 ms, as on a busy
// network drive: 2 s in all.
func slowly(ws *workspace.Workspace) func(name string) (fs.File, error) {
	return func(name string) (fs.File, error) {
		if strings.HasPrefix(name, ".slow/") {
			<-time.After(10 * time.Millisecond)
		}
		return ws.Open(name)
	}
}

func write(t testing.TB, dir, name, text string) {
	name = filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
