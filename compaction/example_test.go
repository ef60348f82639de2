package compaction_test

import (
	"context"
	"fmt"
	"log"
	"strings"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/compaction"
	"github.com/aycoder/aycoder/providers/script"
)

// A model with a small window reads a long log twice. The second request has only the ends of the
// first one.
func Example() {
	read, err := aycoder.NewTool("read_log", "Reads the log.",
		func(context.Context, *aycoder.Invocation, struct{}) (*aycoder.ToolResult, error) {
			return aycoder.TextResult(strings.Repeat("request served in 12 ms\n", 400)), nil
		}, aycoder.WithEffect(aycoder.EffectReadOnly))
	if err != nil {
		log.Fatal(err)
	}
	model := script.New(
		script.Call("read_log", map[string]any{}),
		script.Call("read_log", map[string]any{}),
		script.Say("Nothing unusual."),
	)
	keep, err := compaction.New(model, compaction.WithWindow(4_000))
	if err != nil {
		log.Fatal(err)
	}
	loop, err := aycoder.New(model, aycoder.WithTools(read, keep.Recall()), aycoder.WithContextMiddleware(keep.Middleware))
	if err != nil {
		log.Fatal(err)
	}
	var res aycoder.Result
	for ev, err := range loop.Run(context.Background(), aycoder.Input{Prompt: "What is in the log?"}, aycoder.Into(&res)) {
		if err != nil {
			log.Fatal(err)
		}
		if c, ok := ev.(*aycoder.Compacted); ok {
			fmt.Println("shortened texts:", c.Shortened, "smaller:", c.After < c.Before)
		}
	}
	fmt.Println(res.Text())
	fmt.Println("the history has everything:", len(res.Messages[2].Parts[0].(*aycoder.ToolOutput).Text()) == 24*400)
	// Output:
	// shortened texts: 1 smaller: true
	// Nothing unusual.
	// the history has everything: true
}
