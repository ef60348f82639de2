package snapshot_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/snapshot"
	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
)

// A run without a session tells what it has changed, by tools and by commands.
func ExampleFiles_Watch() {
	dir, err := os.MkdirTemp("", "workspace")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.WriteFile(filepath.Join(dir, "greet.txt"), []byte("Hello\nworld\n"), 0o644); err != nil {
		log.Fatal(err)
	}
	ws, err := workspace.Open(dir)
	if err != nil {
		log.Fatal(err)
	}
	defer ws.Close()

	files := snapshot.New(ws)
	list, err := tools.Coding(files, tools.WithExecMiddleware(files.Exec))
	if err != nil {
		log.Fatal(err)
	}
	model := script.New(
		script.Call("read_file", map[string]any{"path": "greet.txt"}),
		script.Call("edit_file", map[string]any{"path": "greet.txt", "old_string": "world", "new_string": "everybody"}),
		script.Call("bash", map[string]any{"command": "echo '*.tmp' > .gitignore; echo x > a.tmp"}),
		script.Say("Done."))
	allow := aycoder.ApproverFunc(func(context.Context, *aycoder.ToolUse, *aycoder.ToolSpec) aycoder.Verdict {
		return aycoder.Allow()
	})
	loop, err := aycoder.New(model, aycoder.WithTools(list...), aycoder.WithApprover(allow))
	if err != nil {
		log.Fatal(err)
	}
	var res aycoder.Result
	in := aycoder.Input{Prompt: "Greet everybody."}
	for _, err := range loop.Run(context.Background(), in, aycoder.WithChanges(files.Watch), aycoder.Into(&res)) {
		if err != nil {
			log.Fatal(err)
		}
	}
	for _, f := range res.Changes.Files() {
		fmt.Printf("%s %s: +%d -%d, by a command: %t\n", f.Kind, f.Path, f.Added, f.Removed, f.By[0].Command)
	}
	fmt.Print(res.Changes.Diff())
	for _, text := range res.Changes.Missing() {
		fmt.Println(text)
	}
	// Output:
	// created .gitignore: +1 -0, by a command: true
	// modified greet.txt: +1 -1, by a command: false
	// diff --git a/.gitignore b/.gitignore
	// new file mode 100644
	// index 0000000000000000000000000000000000000000..1944fd61e7c53bcc19e6f3eb94cc800508944a25
	// --- /dev/null
	// +++ b/.gitignore
	// @@ -0,0 +1 @@
	// +*.tmp
	// diff --git a/greet.txt b/greet.txt
	// --- a/greet.txt
	// +++ b/greet.txt
	// @@ -1,2 +1,2 @@
	//  Hello
	// -world
	// +everybody
	// Commands are not watched in what git ignores: a.tmp.
}

// A host keeps what the files look like at a point, and takes them back to it.
func ExampleTracker() {
	ctx := context.Background()
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
	files := snapshot.New(ws)
	t, _, err := files.Attach(ctx, new(snapshot.Memory), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer t.Detach()
	write := func(f edit.File) {
		plan, err := edit.NewPlan(f)
		if err == nil {
			_, err = files.Apply(ctx, plan)
		}
		if err != nil {
			log.Fatal(err)
		}
	}

	write(edit.File{Path: "a.txt", Kind: edit.Create, Proposed: "one\n"})
	point, _, err := t.Diff(ctx, map[string]snapshot.State{}, nil)
	if err != nil {
		log.Fatal(err)
	}
	write(edit.File{Path: "a.txt", Kind: edit.Change, Base: "one\n", Proposed: "two\n"})
	plan, err := t.Plan(ctx, point)
	if err != nil {
		log.Fatal(err)
	}
	for _, c := range plan {
		fmt.Println(c.Action, c.Path)
	}
	if _, err := t.Checkout(ctx, plan); err != nil {
		log.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "a.txt"))
	fmt.Printf("%q %v\n", text, err)
	// Output:
	// change a.txt
	// "one\n" <nil>
}
