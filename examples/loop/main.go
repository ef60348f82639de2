// Loop shows a loop of one's own over [aycoder.Loop.Turn]: the host decides when the
// model is asked again, and with what. It needs no network and no key.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"strings"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/providers/script"
)

type wordsArgs struct {
	Text string `json:"text" jsonschema:"description=Text to count the words of"`
}

func main() {
	model := script.New(
		script.Reply(script.Say("I will count."), script.Call("words", wordsArgs{"to be or not to be"})),
		script.Call("words", wordsArgs{"that is the question"}),
		script.Say("Six and four."),
	)
	if err := run(context.Background(), os.Stdout, model, 10); err != nil {
		log.Fatal(err)
	}
}

// run asks the model until it has nothing more to do, at most so many turns.
func run(ctx context.Context, w io.Writer, model aycoder.ModelClient, turns int) error {
	words, err := aycoder.NewTool("words", "Counts words.", countWords,
		aycoder.WithEffect(aycoder.EffectReadOnly))
	if err != nil {
		return err
	}
	loop, err := aycoder.New(model, aycoder.WithTools(words))
	if err != nil {
		return err
	}
	// The request is the host's: it may change anything in it between two turns.
	req := &aycoder.Request{Messages: []*aycoder.Message{aycoder.User("Count the words.")}}
	for turn := range turns {
		var res aycoder.TurnResult
		for ev, err := range loop.Turn(ctx, req, &res) {
			if err != nil {
				return fmt.Errorf("turn %d: %w", turn+1, err)
			}
			show(w, ev)
		}
		req.Messages = append(req.Messages, res.Messages...)
		if !res.More {
			fmt.Fprintf(w, "%d turns, %d messages\n", turn+1, len(req.Messages))
			return nil
		}
	}
	return &aycoder.LimitError{Limit: "turns", Max: int64(turns)}
}

func countWords(_ context.Context, _ *aycoder.Invocation, in wordsArgs) (*aycoder.ToolResult, error) {
	n := len(strings.Fields(in.Text))
	return aycoder.TextResult(fmt.Sprintf("%d words", n)), nil
}

// show prints what a turn does. An event is one of a closed set of types.
func show(w io.Writer, ev aycoder.Event) {
	switch ev := ev.(type) {
	case *aycoder.TextDelta:
		fmt.Fprint(w, ev.Text)
	case *aycoder.ToolFinished:
		fmt.Fprintf(w, "[%s %s: %s]\n", ev.Call.Name, ev.Call.Args, ev.Output.Text())
	case *aycoder.TurnFinished:
		fmt.Fprintf(w, "\n-- turn ended: %s\n", ev.Stop)
	}
}
