// Read is the first step of the tutorial: an agent that reads a repository.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
)

func main() {
	dir := flag.String("dir", ".", "directory to work in")
	model := flag.String("model", "", "model, such as anthropic/claude-sonnet-4-5; none means a script")
	prompt := flag.String("prompt", "Repair Sum.", "task")
	flag.Parse()
	if err := run(context.Background(), *dir, *model, *prompt); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, dir, model, prompt string) error {
	ws, err := workspace.Open(dir)
	if err != nil {
		return err
	}
	defer ws.Close()
	coding, err := tools.Coding(ws)
	if err != nil {
		return err
	}
	client, err := open(model)
	if err != nil {
		return err
	}
	agent, err := aycoder.New(client, aycoder.WithTools(coding...))
	if err != nil {
		return err
	}
	for ev, err := range agent.Run(ctx, aycoder.Input{Prompt: prompt}) {
		if err != nil {
			return err
		}
		show(ev)
	}
	return nil
}

// show prints the events that people want to see.
func show(ev aycoder.Event) {
	switch ev := ev.(type) {
	case *aycoder.TextDelta:
		fmt.Print(tools.EscapeInvisible(ev.Text))
	case *aycoder.Retrying: // what is on the screen cannot be taken back
		fmt.Printf("\n[asked again: %v]\n", ev.Err)
	case *aycoder.ToolFinished:
		fmt.Println(tools.EscapeInvisible(fmt.Sprintf("[%s %s: %s]", ev.Call.Name, ev.Subject, ev.Summary)))
	}
}
