package tools_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/tools"
)

func ExampleCoding() {
	dir, err := os.MkdirTemp("", "example-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.WriteFile(filepath.Join(dir, "greet.go"), []byte("package greet\nconst Hello = \"helo\"\n"), 0o644); err != nil {
		log.Fatal(err)
	}
	ws, err := aycoder.OpenWorkspace(dir)
	if err != nil {
		log.Fatal(err)
	}
	defer ws.Close()
	coding, err := tools.Coding(ws)
	if err != nil {
		log.Fatal(err)
	}
	// A model makes these calls; the agent's loop runs them.
	calls := []string{
		`{"path": "greet.go"}`,
		`{"recursive": true}`,
		`{"pattern": "*.go"}`,
		`{"pattern": "hel+o"}`,
		`{"path": "greet.go", "old_string": "\"helo\"", "new_string": "\"hello\""}`,
	}
	for i, args := range calls {
		name := coding[i].Spec().Name
		r, err := coding[i].Call(context.Background(), aycoder.NewInvocation("call-1", name, json.RawMessage(args), nil))
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s (%s)\n%s", name, r.Summary, r.Text())
	}
	// Output:
	// read_file (2 lines)
	//      1	package greet
	//      2	const Hello = "helo"
	// [lines 1-2 of 2]
	// list_files (1 entry)
	// greet.go
	// glob (1 file)
	// greet.go
	// code_search (1 match)
	// greet.go
	// 2:const Hello = "helo"
	//
	// [1 file searched]
	// edit_file (+1 −1)
	// diff --git a/greet.go b/greet.go
	// --- a/greet.go
	// +++ b/greet.go
	// @@ -1,2 +1,2 @@
	//  package greet
	// -const Hello = "helo"
	// +const Hello = "hello"
}
