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
