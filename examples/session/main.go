// Session shows a conversation whose process is killed in a tool call. A second process resumes it,
// takes a turn back together with the files, goes on, and returns to the first branch. The model
// follows a script, so the program needs neither a network nor a key.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/session"
	"github.com/aycoder/aycoder/snapshot"
	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
)

func main() {
	if len(os.Args) > 1 { // the first process: its tool kills it
		do(io.Discard, os.Args[1], script.New(plan("by hand"), script.Call("deploy", struct{}{})), "deploy it")
		return
	}
	show(os.Stdout)
}

func show(w io.Writer) {
	dir := must(os.MkdirTemp("", "session"))
	defer os.RemoveAll(dir)
	fmt.Fprintln(w, "the first process:", exec.Command(must(os.Executable()), dir).Run())
	do(w, dir, script.New(script.Say("Was it deployed? I do not know."), plan("by a robot"), script.Say("A robot will."),
		plan("never"), script.Say("Nobody will.")), "", "let a robot do it", "undo", "let nobody do it", "checkout 10")
}

func plan(text string) script.Step {
	return script.Call("write_file", map[string]any{"path": "plan.txt", "content": text})
}

// do opens the session of dir, or makes one, and carries out commands. "" goes on with a run.
func do(w io.Writer, dir string, model aycoder.ModelClient, commands ...string) {
	ctx := context.Background()
	files := snapshot.New(must(workspace.Open(dir)))
	deploy := must(aycoder.NewTool("deploy", "Deploys.",
		func(context.Context, *aycoder.Invocation, struct{}) (*aycoder.ToolResult, error) {
			return nil, must(os.FindProcess(os.Getpid())).Kill()
		}))
	allow := aycoder.ApproverFunc(
		func(context.Context, *aycoder.ToolUse, *aycoder.ToolSpec) aycoder.Verdict { return aycoder.Allow() })
	loop := must(aycoder.New(model, aycoder.WithTools(must(tools.WriteFile(files)), deploy), aycoder.WithApprover(allow)))
	store := must(journal.Dir(filepath.Join(dir, ".sessions")))
	s := must(session.Continue(ctx, store, dir, loop, session.WithFiles(files)))
	defer s.Close()
	for _, c := range commands {
		var id session.ID
		if n, _ := fmt.Sscanf(c, "checkout %d", &id); n == 1 {
			must(s.Checkout(ctx, id))
		} else if c == "undo" {
			must(s.Undo(ctx))
		} else {
			for ev, err := range s.Run(ctx, aycoder.Input{Prompt: c}) {
				must(ev, err)
			}
		}
		said := s.View().Messages(s.Head())
		fmt.Fprintf(w, "%-19q node %2d, plan.txt %-12q model: %s\n", c, s.Head(),
			must(os.ReadFile(filepath.Join(dir, "plan.txt"))), said[len(said)-1].Text())
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}
