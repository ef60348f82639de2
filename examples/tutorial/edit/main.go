// Edit is the second step of the tutorial: the agent asks before it changes a file or runs
// a command.
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"strings"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/policy"
	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
)

func main() {
	dir := flag.String("dir", ".", "directory to work in")
	model := flag.String("model", "", "model, such as anthropic/claude-sonnet-4-5; none means a script")
	prompt := flag.String("prompt", "Repair Sum.", "task")
	flag.Parse()
	if err := run(context.Background(), os.Stdin, *dir, *model, *prompt); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, stdin io.Reader, dir, model, prompt string) error {
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
	// Calls that only read run, and every other call is a question.
	approver, err := policy.New(policy.WithWorkspace(ws.Dir()))
	if err != nil {
		return err
	}
	agent, err := aycoder.New(client, aycoder.WithTools(coding...), aycoder.WithApprover(approver))
	if err != nil {
		return err
	}
	lines := bufio.NewScanner(stdin)
	for ev, err := range agent.Run(ctx, aycoder.Input{Prompt: prompt}) {
		if err != nil {
			return err
		}
		show(ev)
		if q, ok := ev.(*aycoder.ApprovalRequested); ok {
			answer(q, lines)
		}
	}
	return nil
}

// answer shows a question to the user. Everything but "y" is a no, also the end of the input.
func answer(q *aycoder.ApprovalRequested, lines *bufio.Scanner) {
	preview := strings.TrimRight(q.Request.Preview, "\n")
	text := fmt.Sprintf("%s %s\n%s\n", q.Request.Tool, q.Request.Subject, preview)
	fmt.Print(tools.EscapeInvisible(text), "Allow this? (y/n) ") // the model wrote the text
	if lines.Scan() && lines.Text() == "y" {
		q.Allow()
		return
	}
	q.Deny("the user said no")
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
