// Bot runs an agent where nobody can be asked, such as in a CI job: calls that its rules do not
// allow are denied, commands are confined to the directory and caches, it stops at limits, and its
// exit status says how the run ended.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
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
	exitCheck  = 5 // the run ended, but the check fails
)

// A job is what the bot has to do.
type job struct {
	dir, task string
	check     string // a shell command for the end, or ""
	confined  bool   // the commands of the agent run in a sandbox
}

func main() {
	var j job
	flag.StringVar(&j.dir, "dir", ".", "directory to work in")
	flag.StringVar(&j.check, "check", "", "shell command that must succeed afterwards, such as 'go test ./...'")
	flag.BoolVar(&j.confined, "confined", true, "run commands in a sandbox (Linux)")
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
	j.task = flag.Arg(0)
	status := run(ctx, os.Stdout, client, j)
	cancel()
	stop()
	os.Exit(status)
}

// run gives the task to an agent, writes a log of the run, and returns the exit status.
func run(ctx context.Context, log io.Writer, model aycoder.ModelClient, j job) int {
	ws, err := workspace.Open(j.dir)
	if err != nil {
		return status(log, err, 0)
	}
	defer ws.Close()
	box := tools.NoSandbox()
	if j.confined {
		local, err := tools.Landlock(ws)
		if err != nil {
			return status(log, err, 0)
		}
		defer local.Close()
		box = local
		// Without all protections no command would run, so the job fails at once.
		if _, err := tools.CheckSandbox(ctx, box, tools.SandboxCall{Require: true}); err != nil {
			return status(log, err, 0)
		}
	}
	agent, err := newAgent(model, ws, tools.WithSandbox(box), tools.WithSandboxRequired(j.confined))
	if err != nil {
		return status(log, err, 0)
	}
	denied := 0
	for ev, err := range agent.Run(ctx, aycoder.Input{Prompt: j.task}) {
		if err != nil {
			return status(log, err, denied)
		}
		switch ev := ev.(type) {
		case *aycoder.TextDelta:
			fmt.Fprint(log, tools.EscapeInvisible(ev.Text))
		case *aycoder.Retrying:
			fmt.Fprintf(log, "\n[asked again: %v]\n", ev.Err)
		case *aycoder.ToolFinished:
			fmt.Fprintf(log, "[%s %s: %s]\n", ev.Call.Name, tools.EscapeInvisible(ev.Subject), tools.EscapeInvisible(ev.Summary))
			if _, ok := errors.AsType[*aycoder.ToolDeniedError](ev.Err); ok {
				fmt.Fprintln(log, tools.EscapeInvisible(ev.Output.Text()))
				denied++
			}
		}
	}
	if err := j.checked(ctx, log, box); err != nil && ctx.Err() == nil {
		fmt.Fprintln(log, "bot: the check failed:", err)
		return exitCheck
	}
	return status(log, ctx.Err(), denied)
}

// shown writes what a program writes, as a log may have it.
type shown struct{ log io.Writer }

// Write implements io.Writer.
func (s shown) Write(p []byte) (int, error) {
	_, err := io.WriteString(s.log, tools.EscapeInvisible(string(p)))
	return len(p), err
}

// checked runs the check, as a model that says that the tests pass proves nothing. It is confined
// too: it may run code that the model has written.
func (j job) checked(ctx context.Context, log io.Writer, box tools.Sandbox) error {
	if j.check == "" {
		return nil
	}
	local, err := tools.LocalExec()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "sh", "-c", j.check)
	cmd.Env = tools.Environ(local) // without the key of the model
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = j.dir, shown{log}, shown{log}, time.Second
	if _, err := box.Start(ctx, cmd, tools.SandboxCall{Require: j.confined}); err != nil {
		return err
	}
	return cmd.Wait()
}

// newAgent makes an agent that may edit the files of the workspace and run the tests.
func newAgent(model aycoder.ModelClient, ws *workspace.Workspace, opts ...tools.Option) (*aycoder.Loop, error) {
	coding, err := tools.Coding(ws, opts...)
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
