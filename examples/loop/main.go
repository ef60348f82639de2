// Loop shows a custom loop over [aycoder.Loop.Turn]: the host decides when to send the
// next request to the model, and with what content. A compactor keeps the requests within the window
// of a small model. It needs neither a network nor a key.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"strings"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/compaction"
	"github.com/aycoder/aycoder/providers/script"
)

type wordsArgs struct {
	Text string `json:"text" jsonschema:"description=Text to count the words of"`
}

func main() {
	model := script.New(
		script.Reply(script.Say("I will count."), script.Call("words", wordsArgs{"to be or not to be"})),
		script.Call("words", wordsArgs{strings.Repeat("that is the question ", 500)}),
		script.Say("Six and two thousand."),
	)
	if err := run(context.Background(), os.Stdout, model, 10); err != nil {
		log.Fatal(err)
	}
}

// run sends requests until the model is done, for at most that many turns.
func run(ctx context.Context, w io.Writer, model aycoder.ModelClient, turns int) error {
	words, err := aycoder.NewTool("words", "Counts words.", countWords,
		aycoder.WithEffect(aycoder.EffectReadOnly))
	if err != nil {
		return err
	}
	keep, err := compaction.New(model, compaction.WithWindow(3_000))
	if err != nil {
		return err
	}
	loop, err := aycoder.New(model, aycoder.WithTools(words, keep.Recall()), aycoder.WithContextMiddleware(keep.Middleware))
	if err != nil {
		return err
	}
	// The request belongs to the host, which may change it between two turns. It has the whole
	// conversation, of which the model gets as much as fits.
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

// show prints the events of a turn. Events are a closed set of types.
func show(w io.Writer, ev aycoder.Event) {
	switch ev := ev.(type) {
	case *aycoder.TextDelta:
		fmt.Fprint(w, ev.Text)
	case *aycoder.Retrying:
		fmt.Fprintf(w, "\n[asked again: %v]\n", ev.Err)
	case *aycoder.ToolFinished:
		fmt.Fprintf(w, "[%s: %s]\n", ev.Call.Name, ev.Output.Text())
	case *aycoder.Compacted:
		fmt.Fprintf(w, "[compacted: %d texts are shortened]\n", ev.Shortened)
	case *aycoder.TurnFinished:
		fmt.Fprintf(w, "\n-- turn ended: %s\n", ev.Stop)
	}
}
