package tools_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"strings"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
)

// A command that exceeds its memory limit is killed, and the model is told why.
func ExampleWithMemoryLimit() {
	dir, err := os.MkdirTemp("", "example-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ws, err := workspace.Open(dir)
	if err != nil {
		log.Fatal(err)
	}
	defer ws.Close()
	bash, err := tools.Bash(ws, tools.WithMemoryLimit(64<<20))
	if err != nil {
		log.Fatal(err)
	}
	// tail keeps its input until the end of a line, which never comes.
	args := `{"command": "echo sorting; { head -c 200000000 /dev/zero; sleep 9; } | tail -n 1"}`
	r, err := bash.Call(context.Background(), aycoder.NewInvocation("call-1", "bash", json.RawMessage(args), nil))
	if err != nil {
		log.Fatal(err)
	}
	kind, text, _ := strings.Cut(r.Text(), ": ")
	_, output, _ := strings.Cut(text, "Its output:\n")
	output, _, _ = strings.Cut(output, "[killed")
	fmt.Print(kind, "\n", output)
	// Output:
	// memory_limit
	// sorting
}
