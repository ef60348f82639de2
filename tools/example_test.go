package tools_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
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
	ws, err := workspace.Open(dir)
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

// A host keeps the Shell to know where commands run, and to end what runs in the
// background when it calls the tools outside of a run.
func ExampleWithShell() {
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
	var shell tools.Shell
	defer shell.Close()
	bash, err := tools.Bash(ws, tools.WithShell(&shell))
	if err != nil {
		log.Fatal(err)
	}
	for _, args := range []string{
		`{"command": "mkdir -p web/app; cd web; false"}`,
		`{"command": "ls"}`,
	} {
		r, err := bash.Call(context.Background(), aycoder.NewInvocation("call-1", "bash", json.RawMessage(args), nil))
		if err != nil {
			log.Fatal(err)
		}
		fmt.Print(r.Text())
	}
	fmt.Println("next in", shell.Dir())
	// Output:
	// [no output]
	// [exit 1, in web]
	// app
	// [exit 0, in web]
	// next in web
}

// dockerExec has commands run in a container, where the workspace lies at /work.
type dockerExec struct {
	run func(args ...string) (code int)
}

func (d dockerExec) Run(ctx context.Context, c *tools.ExecCommand) (*tools.ExecResult, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	rel, err := filepath.Rel(c.Root, c.Dir)
	if err != nil {
		return nil, fmt.Errorf("%w: %v", tools.ErrExecDir, err)
	}
	code := d.run("docker", "exec", "--workdir", path.Join("/work", filepath.ToSlash(rel)), "box", "sh", "-c", c.Script)
	fmt.Fprintln(c.Output, "ran in the container")
	return &tools.ExecResult{Code: code, Dir: c.Dir}, nil
}

func ExampleWithExec() {
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
	box := dockerExec{run: func(args ...string) int { // a real one starts this with package os/exec
		fmt.Printf("%q\n", args)
		return 2
	}}
	bash, err := tools.Bash(ws, tools.WithExec(box))
	if err != nil {
		log.Fatal(err)
	}
	r, err := bash.Call(context.Background(), aycoder.NewInvocation("call-1", "bash", json.RawMessage(`{"command": "make test"}`), nil))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(r.Text())
	// Output:
	// ["docker" "exec" "--workdir" "/work" "box" "sh" "-c" "make test"]
	// ran in the container
	// [exit 2]
}

func ExampleLandlock() {
	ws, err := workspace.Open(".")
	if err != nil {
		log.Fatal(err)
	}
	defer ws.Close()
	box, err := tools.Landlock(ws, tools.WithSandboxProtect(".git"))
	if err != nil {
		log.Fatal(err)
	}
	defer box.Close()
	coding, err := tools.Coding(ws, tools.WithSandbox(box), tools.WithSandboxRequired(true))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(coding[0].Spec().Name)
	// Output: read_file
}

// A program that the host talks to, such as a language server, runs in the sandbox of the commands, if there is one.
func ExampleLocalStart() {
	start, err := tools.LocalStart()
	if err != nil {
		log.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^$") // a program that says PASS
	out, err := cmd.StdoutPipe()
	if err != nil {
		log.Fatal(err)
	}
	if err := start(context.Background(), cmd); err != nil {
		log.Fatal(err)
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	fmt.Print(line)
	_, _ = io.Copy(io.Discard, out)
	_ = cmd.Wait()
	// Output: PASS
}

// A rename that a program computes is an edit like any other: it has a plan, and its result is a diff.
func ExampleNewPlanner() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	_ = os.WriteFile(filepath.Join(dir, "a.txt"), []byte("one\ntwo\n"), 0o600)
	ws, err := workspace.Open(dir)
	if err != nil {
		log.Fatal(err)
	}
	defer ws.Close()
	type args struct {
		Path string `json:"path"`
	}
	shout := func(_ context.Context, in args) ([]edit.File, error) {
		data, err := os.ReadFile(filepath.Join(ws.Dir(), filepath.Base(in.Path)))
		text := string(data)
		return []edit.File{{Path: in.Path, Kind: edit.Change, Base: text, Proposed: strings.ToUpper(text)}}, err
	}
	tool, err := tools.NewPlanner(ws, "shout", "Write a file in capitals.",
		aycoder.Subject{Kind: aycoder.SubjectPath, Arg: "path"}, shout)
	if err != nil {
		log.Fatal(err)
	}
	inv := aycoder.NewInvocation("call_1", "shout", []byte(`{"path":"a.txt"}`), nil)
	plan, _ := tool.(aycoder.Planner).Plan(context.Background(), inv)
	fmt.Println(len(plan.Files()), "file is to change")
	result, err := tool.Call(context.Background(), inv)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Summary)
	// Output:
	// 1 file is to change
	// +2 −2
}
