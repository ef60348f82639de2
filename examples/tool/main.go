// Tool shows how a host registers a custom tool: with typed arguments, which are checked
// before the user is asked, and a rule that decides which calls need an approval. It
// needs neither a network nor a key.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/policy"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/tools"
)

// deployArgs are the arguments; the model's schema is derived from them.
type deployArgs struct {
	Target   string `json:"target" jsonschema:"description=Where to,enum=staging,enum=production"`
	Version  string `json:"version" jsonschema:"description=Version such as v1.2"`
	Replicas int    `json:"replicas,omitempty" jsonschema:"minimum=1,maximum=9"`
}

// deployer is the state of the tool. A tool is a closure over the state of the host. Runs may
// happen at the same time, so the state has a mutex.
type deployer struct {
	versions []string

	mu   sync.Mutex
	done []string
}

func (d *deployer) deploy(
	_ context.Context, inv *aycoder.Invocation, in deployArgs,
) (*aycoder.ToolResult, error) {
	if !slices.Contains(d.versions, in.Version) {
		// An error is meant for the model: it says what to do instead.
		all := strings.Join(d.versions, ", ")
		return nil, fmt.Errorf("no version %s; there are %s", in.Version, all)
	}
	inv.Progress(aycoder.Progress{Message: "rolling out"})
	d.mu.Lock()
	d.done = append(d.done, in.Version+" to "+in.Target)
	d.mu.Unlock()
	return &aycoder.ToolResult{
		Parts:   []aycoder.Part{&aycoder.Text{Text: in.Version + " runs on " + in.Target}},
		Summary: in.Version,
	}, nil
}

// tool registers the function. The subject is the argument that rules match.
func (d *deployer) tool() (aycoder.Tool, error) {
	return aycoder.NewTool("deploy", "Deploys a version.", d.deploy,
		aycoder.WithEffect(aycoder.EffectWrite),
		aycoder.WithHints(false, true), // not destructive, but beyond the workspace
		aycoder.WithSubject(aycoder.SubjectText, "target"),
	)
}

func main() {
	model := script.New(
		script.Call("deploy", `{"target":"moon","version":"v1.2"}`),
		script.Call("deploy", deployArgs{Target: "staging", Version: "v9"}),
		script.Call("deploy", deployArgs{Target: "staging", Version: "v1.2"}),
		script.Call("deploy", deployArgs{Target: "production", Version: "v1.2", Replicas: 3}),
		script.Say("v1.2 is on staging only."),
	)
	d := &deployer{versions: []string{"v1.1", "v1.2"}}
	refuse := func(a *aycoder.ApprovalRequested) { a.Deny("not on a Friday") }
	if err := run(context.Background(), os.Stdout, model, d, refuse); err != nil {
		log.Fatal(err)
	}
}

// askFunc answers an approval.
type askFunc func(*aycoder.ApprovalRequested)

// run gives the task to an agent that may deploy to staging, and must ask before other
// deployments.
func run(ctx context.Context, w io.Writer, model aycoder.ModelClient, d *deployer, ask askFunc) error {
	tool, err := d.tool()
	if err != nil {
		return err
	}
	approver, err := policy.New(policy.WithRules(policy.User,
		policy.Rule{Action: policy.RuleAllow, Tool: "deploy", Pattern: "staging"}))
	if err != nil {
		return err
	}
	loop, err := aycoder.New(model, aycoder.WithTools(tool), aycoder.WithApprover(approver))
	if err != nil {
		return err
	}
	for ev, err := range loop.Run(ctx, aycoder.Input{Prompt: "Deploy v1.2 everywhere."}) {
		if err != nil {
			return err
		}
		switch ev := ev.(type) {
		case *aycoder.ApprovalRequested:
			fmt.Fprintf(w, "? %s %s\n", ev.Request.Tool, tools.EscapeInvisible(string(ev.Request.Args)))
			ask(ev)
		case *aycoder.ToolFinished:
			fmt.Fprintf(w, "%s %s\n", mark(ev), tools.EscapeInvisible(ev.Output.Text()))
		case *aycoder.TextDelta:
			fmt.Fprint(w, tools.EscapeInvisible(ev.Text))
		case *aycoder.RunFinished:
			fmt.Fprintln(w)
		}
	}
	return nil
}

// mark describes how a call ended: Err has a different type for each way.
func mark(ev *aycoder.ToolFinished) string {
	if _, ok := errors.AsType[*aycoder.ToolDeniedError](ev.Err); ok {
		return "refused:"
	}
	if _, ok := errors.AsType[*aycoder.ToolArgsError](ev.Err); ok {
		return "wrong:"
	}
	if ev.Err != nil {
		return "failed:"
	}
	return "done:"
}
