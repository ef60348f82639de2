package hooks_test

import (
	"context"
	"fmt"
	"os"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/harness/hooks"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/tools"
)

// brokenExec stands in the place of [tools.LocalExec], so that the example needs no shell. It cannot start
// anything.
type brokenExec struct{}

func (brokenExec) Run(context.Context, *tools.ExecCommand) (*tools.ExecResult, error) {
	return nil, os.ErrPermission
}

// A hook that cannot be run refuses the call, and says why.
func Example() {
	list, problems := hooks.Parse("settings.json", []byte(`{"hooks": {"PreToolUse": [
		{"matcher": "Bash", "hooks": [{"type": "command", "command": "./guard.sh"}]},
		{"matcher": "Edit", "hooks": [{"type": "prompt", "prompt": "Is this good?"}]}]}}`))
	for _, p := range problems {
		fmt.Printf("line %d: %s\n", p.Line, p.Message)
	}
	r, err := hooks.New(hooks.Config{Hooks: list, Exec: brokenExec{}, Root: "/work"})
	if err != nil {
		panic(err)
	}
	type args struct {
		Command string `json:"command"`
	}
	bash, err := aycoder.NewTool("bash", "Runs a command.",
		func(context.Context, *aycoder.Invocation, args) (*aycoder.ToolResult, error) {
			return aycoder.TextResult("it ran"), nil
		})
	if err != nil {
		panic(err)
	}
	allow := aycoder.ApproverFunc(func(context.Context, *aycoder.ToolUse, *aycoder.ToolSpec) aycoder.Verdict { return aycoder.Allow() })
	model := script.New(script.Call("bash", map[string]any{"command": "rm -rf /"}), script.Say("I stop."))
	loop, err := aycoder.New(model, aycoder.WithTools(bash), aycoder.WithApprover(r.Approver(allow)), aycoder.WithToolMiddleware(r.Tool))
	if err != nil {
		panic(err)
	}
	for ev, err := range r.Agent(loop).Run(context.Background(), aycoder.Input{Prompt: "clean up"}) {
		if err != nil {
			panic(err)
		}
		if f, ok := ev.(*aycoder.ToolFinished); ok {
			fmt.Println(f.Output.Text())
		}
	}
	// Output:
	// line 3: a hook of PreToolUse is left out: its type is "prompt", and only "command" is supported
	// denied: not run: PreToolUse hook "./guard.sh": cannot be run: permission denied
}
