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

// A tool prints more than the model should get. The model gets the ends, and the rest by recall.
func ExampleCompactor_KeepOutput() {
	numbers, err := aycoder.NewTool("numbers", "Prints numbers.",
		func(_ context.Context, inv *aycoder.Invocation, _ struct{}) (*aycoder.ToolResult, error) {
			var text strings.Builder
			for n := range 10_000 {
				fmt.Fprintln(&text, n)
			}
			res := aycoder.TextResult(text.String())
			res.Head, res.Tail = 6, 10 // of what the model gets
			if inv.Whole == 0 {        // nobody keeps the rest
				res = aycoder.TextResult("0\n1\n2\n…\n9998\n9999\n")
			}
			return res, nil
		}, aycoder.WithEffect(aycoder.EffectReadOnly))
	if err != nil {
		log.Fatal(err)
	}
	model := script.New(
		script.Call("numbers", map[string]any{}),
		script.Call("recall", map[string]any{"id": "call_1", "offset": 48_870}),
		script.Say("The last one is 9999."),
	)
	keep, err := compaction.New(model)
	if err != nil {
		log.Fatal(err)
	}
	loop, err := aycoder.New(model, aycoder.WithTools(numbers, keep.Recall()),
		aycoder.WithContextMiddleware(keep.Middleware), aycoder.WithWholeOutputs(keep.KeepOutput))
	if err != nil {
		log.Fatal(err)
	}
	for ev, err := range loop.Run(context.Background(), aycoder.Input{Prompt: "Count."}) {
		if err != nil {
			log.Fatal(err)
		}
		if fin, ok := ev.(*aycoder.ToolFinished); ok {
			fmt.Print(fin.Output.Text())
		}
	}
	// Output:
	// 0
	// 1
	// 2
	//
	// [48874 bytes are left out here]
	// 9998
	// 9999
	//
	// [The whole output has 48890 bytes; recall returns it for the id "out_723b47e81b833a32".]
	// 9996
	// 9997
	// 9998
	// 9999
	//
	// [bytes 48870 to 48890 of 48890; that is the end]
}

// A host changes the window between two turns, such as when its configuration has changed.
func ExampleCompactor_Configure() {
	model := script.New(script.Say("hello"), script.Say("a summary is there"))
	keep, err := compaction.New(model)
	if err != nil {
		log.Fatal(err)
	}
	loop, err := aycoder.New(model, aycoder.WithContextMiddleware(keep.Middleware))
	if err != nil {
		log.Fatal(err)
	}
	var res aycoder.Result
	for _, prompt := range []string{"Keep this: " + strings.Repeat("a long text ", 2000), "Go on."} {
		for ev, err := range loop.Run(context.Background(), aycoder.Input{Messages: res.Messages, Prompt: prompt}, aycoder.Into(&res)) {
			if err != nil {
				log.Fatal(err)
			}
			if c, ok := ev.(*aycoder.Compacted); ok {
				fmt.Println("smaller:", c.After < c.Before)
			}
		}
		if err := keep.Configure(compaction.WithWindow(4_000)); err != nil {
			log.Fatal(err)
		}
	}
	// Output: smaller: true
}
