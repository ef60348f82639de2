package tools_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/merge"
	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
)

// The user and the model have changed the same line. A person would be shown both; here, both lines stay.
func ExampleWithConflicts() {
	dir, err := os.MkdirTemp("", "example-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "list.txt")
	ws, err := workspace.Open(dir)
	if err != nil {
		log.Fatal(err)
	}
	defer ws.Close()
	keepBoth := func(_ context.Context, f *edit.FileResult) (string, bool) {
		resolved := *f.Merge
		for i, g := range resolved.Regions {
			if g.Kind != merge.Conflict {
				continue
			}
			ours, theirs := g.Ours.Of([]byte(f.Ours)), g.Theirs.Of([]byte(f.Theirs))
			fmt.Printf("yours: %sthe model's: %s", ours, theirs)
			if resolved.ResolveWith(i, append(ours, theirs...)) != nil {
				return "", false
			}
		}
		return string(resolved.Bytes()), true
	}
	editFile, err := tools.EditFile(ws, tools.WithConflicts(keepBoth))
	if err != nil {
		log.Fatal(err)
	}
	ws.Seen().Add("list.txt", "milk\nbread\n") // as the model has read it
	if err := os.WriteFile(file, []byte("milk\nbread and butter\n"), 0o644); err != nil {
		log.Fatal(err)
	}
	args := json.RawMessage(`{"path": "list.txt", "old_string": "bread", "new_string": "rolls"}`)
	res, err := editFile.Call(context.Background(), aycoder.NewInvocation("call-1", "edit_file", args, nil))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(res.Text())
	text, err := os.ReadFile(file)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%q\n", text)
	// Output:
	// yours: bread and butter
	// the model's: rolls
	// list.txt: changed and merged; it had changed since you read it. The file now has (+) in place of your text (-):
	// @@ line 2 @@
	// +bread and butter
	// "milk\nbread and butter\nrolls\n"
}
