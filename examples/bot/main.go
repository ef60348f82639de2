// Bot runs an agent where nobody can be asked, such as in a CI job: what its rules do not
// allow is denied, it stops at limits, and its exit status says how the run ended.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/policy"
	"github.com/aycoder/aycoder/providers"
	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
)

// The exit statuses.
const (
	exitDone   = 0
	exitError  = 1
	exitUsage  = 2
	exitLimit  = 3 // turns or time are used up
	exitDenied = 4 // the run ended, but a call was denied
)

func main() {
	dir := flag.String("dir", ".", "directory to work in")
	model := flag.String("model", "anthropic/claude-sonnet-4-5", "model")
	timeout := flag.Duration("timeout", 10*time.Minute, "limit of time")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: bot [flags] TASK")
		os.Exit(exitUsage)
	}
	client, err := providers.Open(*model)
	if err != nil {
		fmt.Fprintln(os.Stderr, "bot:", err)
		os.Exit(exitUsage)
	}
	// CI systems end a job with SIGTERM. The run then stops its commands and returns.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ctx, cancel := context.WithTimeout(ctx, *timeout)
	status := run(ctx, os.Stdout, client, *dir, flag.Arg(0))
	cancel()
	stop()
	os.Exit(status)
}

// run gives the task to an agent, writes a log of the run, and returns the exit status.
func run(ctx context.Context, log io.Writer, model aycoder.ModelClient, dir, task string) int {
	ws, err := workspace.Open(dir)
	if err != nil {
		return status(log, err, 0)
	}
	defer ws.Close()
	agent, err := newAgent(model, ws)
	if err != nil {
		return status(log, err, 0)
	}
	denied := 0
	for ev, err := range agent.Run(ctx, aycoder.Input{Prompt: task}) {
		if err != nil {
			return status(log, err, denied)
		}
		switch ev := ev.(type) {
		case *aycoder.TextDelta:
			fmt.Fprint(log, tools.EscapeInvisible(ev.Text))
		case *aycoder.ToolFinished:
			fmt.Fprintf(log, "[%s %s: %s]\n", ev.Call.Name, tools.EscapeInvisible(ev.Subject), ev.Summary)
			if _, ok := errors.AsType[*aycoder.ToolDeniedError](ev.Err); ok {
				fmt.Fprintln(log, tools.EscapeInvisible(ev.Output.Text()))
				denied++
			}
		}
	}
	return status(log, nil, denied)
}

// newAgent makes an agent that may edit the files of the workspace and run the tests.
func newAgent(model aycoder.ModelClient, ws *workspace.Workspace) (*aycoder.Loop, error) {
	coding, err := tools.Coding(ws)
	if err != nil {
		return nil, err
	}
	rules := policy.WithRules(policy.Managed,
		policy.Rule{Action: policy.RuleAllow, Tool: "bash", Pattern: "go test *"},
		policy.Rule{Action: policy.RuleDeny, Tool: "fetch", Reason: "this job works offline"},
	)
	p, err := policy.New(policy.WithWorkspace(ws.Dir()), policy.WithMode(policy.AcceptEdits), rules)
	if err != nil {
		return nil, err
	}
	return aycoder.New(model, aycoder.WithTools(coding...),
		aycoder.WithApprover(aycoder.DenyAsks(p)), aycoder.WithLimits(aycoder.Limits{Turns: 30}))
}

// status logs how a run ended, and returns the exit status for it.
func status(log io.Writer, err error, denied int) int {
	_, limit := errors.AsType[*aycoder.LimitError](err)
	switch {
	case limit || errors.Is(err, context.DeadlineExceeded):
		fmt.Fprintln(log, "bot: stopped:", err)
		return exitLimit
	case err != nil:
		fmt.Fprintln(log, "bot:", err)
		return exitError
	case denied > 0:
		fmt.Fprintf(log, "bot: %d calls were denied\n", denied)
		return exitDenied
	}
	return exitDone
}
