// Sandbox runs commands of an agent in a sandbox: they can change only the workspace
// and caches, and have no network. It needs neither a network nor a key.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/policy"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
)

func main() {
	dir, err := os.MkdirTemp("", "sandbox-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := run(context.Background(), os.Stdout, dir, "/etc/aycoder-was-here"); err != nil {
		log.Fatal(err)
	}
}

// run lets a scripted model write to a file in the workspace, and to another outside of it.
func run(ctx context.Context, w io.Writer, dir, outside string) error {
	ws, err := workspace.Open(dir)
	if err != nil {
		return err
	}
	defer ws.Close()
	box, err := tools.Landlock(ws)
	if err != nil {
		return err
	}
	defer box.Close()
	// The protections depend on the machine, so ask which of them there are.
	report, err := tools.CheckSandbox(ctx, box, tools.SandboxCall{})
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "files confined: %t, network blocked: %t, missing: %q\n", report.Filesystem, report.Network, report.Missing)
	// With WithSandboxRequired, no command runs where a part of the sandbox is missing.
	bash, err := tools.Bash(ws, tools.WithSandbox(box), tools.WithSandboxRequired(true))
	if err != nil {
		return err
	}
	model := script.New(
		script.Call("bash", map[string]string{"command": "echo hello > inside.txt && cat inside.txt"}),
		script.Call("bash", map[string]string{"command": "echo hello > " + outside}),
		script.Say("One of the two worked.\n"),
	)
	// The sandbox bounds what commands can do, so this rule lets those of all classes run.
	approver, err := policy.New(policy.WithWorkspace(ws.Dir()), policy.WithRules(policy.User,
		policy.Rule{Action: policy.RuleAllow, Tool: "bash", Class: "escalates"}))
	if err != nil {
		return err
	}
	agent, err := aycoder.New(model, aycoder.WithTools(bash), aycoder.WithApprover(approver))
	if err != nil {
		return err
	}
	for ev, err := range agent.Run(ctx, aycoder.Input{Prompt: "Try to get out."}) {
		if err != nil {
			return err
		}
		switch ev := ev.(type) {
		case *aycoder.ToolFinished:
			fmt.Fprint(w, ev.Output.Text())
		case *aycoder.TextDelta:
			fmt.Fprint(w, ev.Text)
		}
	}
	return nil
}
