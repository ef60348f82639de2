package workspace_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/workspace"
)

// exampleDirectory returns a workspace with one file in it.
func exampleDirectory(text string) (ws *workspace.Workspace, file string, remove func()) {
	dir, err := os.MkdirTemp("", "aycoder")
	if err != nil {
		panic(err)
	}
	file = filepath.Join(dir, "list.txt")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		panic(err)
	}
	if ws, err = workspace.Open(dir); err != nil {
		panic(err)
	}
	return ws, file, func() { ws.Close(); os.RemoveAll(dir) }
}

// The user saves the file while the approval is open. Both changes are in it after.
func ExampleWorkspace_Apply() {
	shown := "milk\nbread\neggs\n"
	ws, file, remove := exampleDirectory(shown)
	defer remove()
	plan, err := aycoder.NewEditPlan(aycoder.FileEdit{
		Path: "list.txt", Kind: aycoder.EditChange, Base: shown, Proposed: "oat milk\nbread\neggs\n",
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	approved := plan.Digest() // of what the user saw

	_ = os.WriteFile(file, []byte("milk\nbread\neggs\ncheese\n"), 0o644)

	res, err := ws.Apply(context.Background(), plan, workspace.WithApproved(approved))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(res.ModelText())
	text, _ := os.ReadFile(file)
	fmt.Print("---\n", string(text))
	// Output:
	// list.txt: changed and merged; it had changed since you read it. The file now has (+) in place of your text (-):
	// @@ line 4 @@
	// +cheese
	// ---
	// oat milk
	// bread
	// eggs
	// cheese
}

func ExampleOpen() {
	dir, err := os.MkdirTemp("", "workspace")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ws, err := workspace.Open(dir)
	if err != nil {
		log.Fatal(err)
	}
	defer ws.Close()
	for _, name := range []string{"../secret", ".env"} {
		_, err := ws.Open(name)
		if e, ok := errors.AsType[*workspace.Error](err); ok {
			fmt.Println(e.Kind)
		}
	}
	// Output:
	// outside_workspace
	// sensitive_path
}
