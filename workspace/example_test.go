package workspace_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/edit"
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

// A tool that only reads passes the errors of the workspace on to the model.
func ExampleWorkspace_ReadDir() {
	ws, _, remove := exampleDirectory("milk\n")
	defer remove()
	type args struct {
		Path string `json:"path,omitempty"`
	}
	list := func(ctx context.Context, _ *aycoder.Invocation, in args) (*aycoder.ToolResult, error) {
		rel, err := ws.Rel(cmp.Or(in.Path, "."))
		if err != nil {
			return nil, err
		}
		entries, err := ws.ReadDir(ctx, rel)
		if err != nil {
			return nil, err
		}
		return aycoder.TextResult(fmt.Sprint(rel, " has ", entries)), nil
	}
	tool, err := aycoder.NewTool("list", "Lists a directory.", list, aycoder.WithEffect(aycoder.EffectReadOnly))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, in := range []string{`{}`, `{"path":".."}`} {
		res, err := tool.Call(context.Background(), aycoder.NewInvocation("1", "list", []byte(in), nil))
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println(res.Text())
	}
	// Output:
	// . has [- list.txt]
	// resolve ..: is outside the workspace; use a path relative to its directory
}

// The user saves the file while the approval is open. Both changes are in it after.
func ExampleWorkspace_Apply() {
	shown := "milk\nbread\neggs\n"
	ws, file, remove := exampleDirectory(shown)
	defer remove()
	plan, err := edit.NewPlan(edit.File{
		Path: "list.txt", Kind: edit.Change, Base: shown, Proposed: "oat milk\nbread\neggs\n",
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

// A conflict changes nothing, and the error tells the model how to go on.
func ExampleWorkspace_Apply_conflict() {
	ws, _, remove := exampleDirectory("soy milk\nbread\n")
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

// A workspace of two directories: one plan changes files of both.
func ExampleWithRoot() {
	lib, err := os.MkdirTemp("", "lib")
	if err != nil {
		log.Fatal(err)
	}
	app, err := os.MkdirTemp("", "app")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(lib)
	defer os.RemoveAll(app)
	ws, err := workspace.Open(app, workspace.WithRoot("lib", lib))
	if err != nil {
		log.Fatal(err)
	}
	defer ws.Close()
	plan, err := edit.NewPlan(
		edit.File{Path: "main.go", Kind: edit.Create, Proposed: "package main\n"},
		edit.File{Path: "lib:/greet.go", Kind: edit.Create, Proposed: "package lib\n"},
	)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := ws.Apply(context.Background(), plan); err != nil {
		log.Fatal(err)
	}
	entries, err := ws.ReadDir(context.Background(), ".")
	fmt.Println(entries, err)
	data, err := os.ReadFile(filepath.Join(lib, "greet.go"))
	fmt.Printf("%q %v\n", data, err)
	_, err = ws.Open("lib:/../secret")
	fmt.Println(err)
	// Output:
	// [d lib:/ - main.go] <nil>
	// "package lib\n" <nil>
	// read lib:/../secret: is outside the workspace; use a path relative to its directory
}
