// Package minimal is a minimal agent: a model, a tool and a loop. The programs beside it
// link it with one provider each; their size and start time are compared with those of
// floor.
package minimal

import (
	"context"
	"fmt"
	"os"

	"github.com/aycoder/aycoder"
)

type lookup struct {
	Word string `json:"word"`
}

// Main sends the second argument to the model at the address in the first. Without
// arguments it only reports that it has started.
func Main(ctx context.Context, open func(url string) (aycoder.ModelClient, error)) {
	if len(os.Args) < 3 {
		fmt.Println("ready")
		return
	}
	client, err := open(os.Args[1])
	if err == nil {
		err = ask(ctx, client, os.Args[2])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func ask(ctx context.Context, client aycoder.ModelClient, prompt string) error {
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
	for ev, err := range agent.Run(ctx, aycoder.Input{Prompt: prompt}) {
		if err != nil {
			return err
		}
		if text, ok := ev.(*aycoder.TextDelta); ok {
			fmt.Print(text.Text)
		}
	}
	return nil
}
