//go:build unix

package harness_test

import (
	"context"
	"fmt"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/providers/script"
)

// ExampleRuntime_Command shows the line "!echo hello" of a terminal program, whose user has decided by typing it.
func ExampleRuntime_Command() {
	ctx := context.Background()
	rt, err := harness.New(ctx, ".", harness.WithClient(script.New()))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rt.Close()
	for ev, err := range rt.Command(ctx, "echo hello") {
		if err != nil {
			fmt.Println(err)
			return
		}
		switch ev := ev.(type) {
		case *aycoder.ApprovalRequested:
			ev.Allow()
		case *aycoder.ToolFinished:
			fmt.Print(ev.Output.Text())
		}
	}
	// Output:
	// hello
	// [exit 0]
}

// ExampleRuntime_Caller makes a call of a tool as a run, for a host that keeps it in a session.
func ExampleRuntime_Caller() {
	ctx := context.Background()
	rt, err := harness.New(ctx, ".", harness.WithClient(script.New()))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rt.Close()
	agent, err := rt.Caller("bash", []byte(`{"command":"echo hello"}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	for ev, err := range agent.Run(ctx, aycoder.Input{Prompt: "Call it."}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		switch ev := ev.(type) {
		case *aycoder.ApprovalRequested:
			ev.Allow()
		case *aycoder.ToolFinished:
			fmt.Print(ev.Output.Text())
		}
	}
	// Output:
	// hello
	// [exit 0]
}
