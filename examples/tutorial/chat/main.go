// Chat is the third step of the tutorial: the user talks with the agent, which may run the
// tests without asking.
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"strings"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/policy"
	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
)

func main() {
	dir := flag.String("dir", ".", "directory to work in")
	model := flag.String("model", "", "model, such as anthropic/claude-sonnet-4-5; none means a script")
	flag.Parse()
	if err := run(context.Background(), os.Stdin, *dir, *model); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, stdin io.Reader, dir, model string) error {
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
	approver, err := policy.New(policy.WithWorkspace(ws.Dir()), policy.WithRules(policy.User,
		policy.Rule{Action: policy.RuleAllow, Tool: "bash", Pattern: "go test *"}))
	if err != nil {
		return err
	}
	agent, err := aycoder.New(client, aycoder.WithTools(coding...), aycoder.WithApprover(approver),
		aycoder.WithSystem("You are a coding agent. Run the tests after each change."))
	if err != nil {
		return err
	}
	lines := bufio.NewScanner(stdin)
	var res aycoder.Result // holds the conversation
	for fmt.Print("> "); lines.Scan(); fmt.Print("> ") {
		if err := reply(ctx, agent, lines, &res); err != nil {
			fmt.Println("stopped:", err)
		}
	}
	return lines.Err()
}

// reply runs the agent on the line that the user typed. Ctrl-C ends the run, but not the
// conversation: however a run ends, the messages in res are valid.
func reply(ctx context.Context, agent *aycoder.Loop, lines *bufio.Scanner, res *aycoder.Result) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	in := aycoder.Input{Messages: res.Messages, Prompt: lines.Text()}
	for ev, err := range agent.Run(ctx, in, aycoder.Into(res)) {
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
