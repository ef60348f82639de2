// Hello is a complete agent: a model, a tool, a loop. It needs neither network nor key.
package main

import (
	"context"
	"fmt"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/providers/script"
)

func main() {
	type args struct{ Name string }
	greet := func(_ context.Context, _ *aycoder.Invocation, in args) (*aycoder.ToolResult, error) {
		fmt.Println("Hello, " + in.Name + "!")
		return aycoder.TextResult("greeted"), nil
	}
	tool, _ := aycoder.NewTool("greet", "Greets.", greet, aycoder.WithEffect(aycoder.EffectReadOnly))
	model := script.New(script.Call("greet", args{"Ada"}), script.Say("I have greeted Ada.\n"))
	agent, _ := aycoder.New(model, aycoder.WithTools(tool))
	for ev, err := range agent.Run(context.Background(), aycoder.Input{Prompt: "Greet Ada."}) {
		if err != nil {
			panic(err)
		} else if text, ok := ev.(*aycoder.TextDelta); ok {
			fmt.Print(text.Text)
		}
	}
}
