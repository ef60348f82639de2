// Agent is a minimal agent on a real provider: a model, a tool, a loop. Its size is
// compared with that of floor, beside it.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/providers/anthropic"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Println("ready")
		return
	}
	if err := ask(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

type lookup struct {
	Word string `json:"word"`
}

func ask(url, prompt string) error {
	client, err := anthropic.New("m", anthropic.WithBaseURL(url))
	if err != nil {
		return err
	}
	found := func(_ context.Context, _ *aycoder.Invocation, in lookup) (*aycoder.ToolResult, error) {
		return aycoder.TextResult(in.Word), nil
	}
	tool, err := aycoder.NewTool("lookup", "Looks up a word.", found, aycoder.WithEffect(aycoder.EffectReadOnly))
	if err != nil {
		return err
	}
	agent, err := aycoder.New(client, aycoder.WithTools(tool))
	if err != nil {
		return err
	}
	for ev, err := range agent.Run(context.Background(), aycoder.Input{Prompt: prompt}) {
		if err != nil {
			return err
		}
		if text, ok := ev.(*aycoder.TextDelta); ok {
			fmt.Print(text.Text)
		}
	}
	return nil
}
