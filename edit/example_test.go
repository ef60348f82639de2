package edit_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/workspace"
)

// exampleDir returns a workspace with one file in it.
func exampleDir(text string) (ws *workspace.Workspace, file string, remove func()) {
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

// A conflict changes nothing, and the error tells the model how to go on.
func ExampleConflictError() {
	ws, _, remove := exampleDir("soy milk\nbread\n")
	defer remove()
	plan, _ := edit.NewPlan(edit.File{
		Path: "list.txt", Kind: edit.Change, Base: "milk\nbread\n", Proposed: "oat milk\nbread\n",
	})
	_, err := ws.Apply(context.Background(), plan)
	if e, ok := errors.AsType[*edit.ConflictError](err); ok {
		fmt.Print(e.ModelText())
		fmt.Print("---\n", string(e.Files[0].Merge.Bytes()))
	}
	// Output:
	// The changes were not made: a file is not what you were shown.
	// list.txt: the user changed the same lines (conflicts: 1, the first in line 1).
	// Keep what the user has, and make your change again on top of it:
	// @@ line 1: when you read it @@
	//  milk
	// @@ what the user has there now @@
	//  soy milk
	// @@ what you wanted @@
	//  oat milk
	// ---
	// <<<<<<< the file now
	// soy milk
	// =======
	// oat milk
	// >>>>>>> your change
	// bread
}

// A person keeps one hunk and drops the other, and the model learns of it.
func ExamplePlan_Keep() {
	plan, _ := edit.NewPlan(edit.File{
		Path: "list.txt", Kind: edit.Change, Base: "milk\nbread\neggs\n", Proposed: "oat milk\nbread\nno eggs\n",
	})
	hunks := plan.Hunks()
	for _, h := range hunks {
		fmt.Printf("%s:%d: %q -> %q\n", h.Path, h.OldLine, h.Old, h.New)
	}
	kept, err := plan.Keep(hunks[0].ID)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%q\n", kept.Files()[0].Proposed)
	fmt.Print(kept.OmittedText())
	// Output:
	// list.txt:1: "milk\n" -> "oat milk\n"
	// list.txt:3: "eggs\n" -> "no eggs\n"
	// "oat milk\nbread\neggs\n"
	// The user reviewed your changes and left out a part, or changed it. Do not make these changes again unless asked to.
	//
	// list.txt: your text (-) and what was approved (+):
	// @@ line 3 @@
	// -no eggs
	// +eggs
}
