// Hello is a complete agent: a model, a tool and a loop. It needs neither a network nor a key.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/providers/script"
)

func greet(_ context.Context, _ *aycoder.Invocation, in struct{ Name string }) (*aycoder.ToolResult, error) {
	return aycoder.TextResult("Hello, " + in.Name + "!"), nil
}

func main() {
	tool, err := aycoder.NewTool("greet", "Greets.", greet, aycoder.WithEffect(aycoder.EffectReadOnly))
	if err != nil {
		log.Fatal(err)
	}
	model := script.New(script.Call("greet", `{"Name":"Ada"}`), script.Say("I have greeted Ada.\n"))
	agent, err := aycoder.New(model, aycoder.WithTools(tool))
	if err != nil {
		log.Fatal(err)
	}
	for ev, err := range agent.Run(context.Background(), aycoder.Input{Prompt: "Greet Ada."}) {
		if err != nil {
			log.Fatal(err)
		}
		if text, ok := ev.(*aycoder.TextDelta); ok {
			fmt.Print(text.Text)
		}
	}
}
