package temporal_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"log/slog"
	"time"

	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/testsuite"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/contrib/temporal"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/session"
)

// A run in the test environment of the SDK, which needs no server. A worker of the SDK takes its place in a program.
func Example() {
	ctx := context.Background()
	deploy, err := aycoder.NewTool("deploy", "Deploys the service",
		func(context.Context, *aycoder.Invocation, struct{}) (*aycoder.ToolResult, error) {
			fmt.Println("deployed")
			return aycoder.TextResult("ok"), nil
		})
	if err != nil {
		log.Fatal(err)
	}
	loop, err := aycoder.New(script.New(script.Call("deploy", nil), script.Say("It is deployed.")),
		aycoder.WithTools(deploy), aycoder.WithApprover(aycoder.ApproverFunc(
			func(context.Context, *aycoder.ToolUse, *aycoder.ToolSpec) aycoder.Verdict { return aycoder.Ask() })))
	if err != nil {
		log.Fatal(err)
	}
	store := journal.Memory()
	s, err := session.New(ctx, store, loop)
	if err != nil {
		log.Fatal(err)
	}
	_ = s.Steer(ctx, "Deploy it.") // as Client.Start does
	_ = s.Close()

	worker, err := temporal.New(temporal.Config{Store: store, Open: func(ctx context.Context, id string) (*temporal.Agent, error) {
		s, err := session.Open(ctx, store, id, loop)
		return &temporal.Agent{Session: s}, err
	}})
	if err != nil {
		log.Fatal(err)
	}
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	env := suite.NewTestWorkflowEnvironment()
	worker.Register(env)
	env.RegisterDelayedCallback(func() { // Client.Decide does this
		p, _ := session.ReadPending(ctx, store, s.ID())
		q := p.Requests[0]
		fmt.Println("three days later, somebody allows", q.Tool)
		env.UpdateWorkflow(temporal.UpdateAnswer, "", &testsuite.TestUpdateCallback{},
			temporal.Answer{Key: "t1/tool/" + q.CallID, Digest: q.Digest[:16], Allow: true})
	}, 72*time.Hour)
	env.ExecuteWorkflow(temporal.WorkflowName, temporal.Input{Session: s.ID()})

	var out temporal.Output
	if err := env.GetWorkflowResult(&out); err != nil {
		log.Fatal(err)
	}
	fmt.Println(out.End, "after", out.Turns, "turns")
	_ = worker.Close()
	// Output:
	// three days later, somebody allows deploy
	// deployed
	// done after 2 turns
}

// A call of the tool delegate is answered by another agent, which works in a new session, as a child workflow.
func ExampleConfig_children() {
	ctx := context.Background()
	store := journal.Memory()
	delegate, err := aycoder.DeclareTool[struct {
		Task string `json:"task"`
	}]("delegate", "Gives a task to another agent")
	if err != nil {
		log.Fatal(err)
	}
	allow := aycoder.WithApprover(aycoder.ApproverFunc(
		func(context.Context, *aycoder.ToolUse, *aycoder.ToolSpec) aycoder.Verdict { return aycoder.Allow() }))
	lead := script.New(script.Call("delegate", map[string]string{"task": "Count the tests."}), script.Say("There are 12 tests."))
	helper := script.New(script.Say("12"))
	worker, err := temporal.New(temporal.Config{
		Store: store,
		Open: func(ctx context.Context, id string) (*temporal.Agent, error) {
			var loop *aycoder.Loop
			var err error
			if id == "lead" {
				loop, err = aycoder.New(lead, aycoder.WithTools(delegate), allow)
			} else {
				loop, err = aycoder.New(helper)
			}
			if err != nil {
				return nil, err
			}
			s, err := session.Open(ctx, store, id, loop)
			return &temporal.Agent{Session: s}, err
		},
		Children: map[string]func(context.Context, string, *aycoder.CallRequest) (*aycoder.Message, error){
			"delegate": func(_ context.Context, parent string, call *aycoder.CallRequest) (*aycoder.Message, error) {
				fmt.Printf("%s delegates %s\n", parent, call.Args)
				var in struct{ Task string }
				err := json.Unmarshal(call.Args, &in)
				return aycoder.User(in.Task), err
			},
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	c := &temporal.Client{Store: store}
	if err := c.Create(ctx, "lead"); err != nil {
		log.Fatal(err)
	}
	loop, err := aycoder.New(lead)
	if err != nil {
		log.Fatal(err)
	}
	s, err := session.Open(ctx, store, "lead", loop)
	if err != nil {
		log.Fatal(err)
	}
	_ = s.Steer(ctx, "How many tests are there?") // as Client.Start does
	_ = s.Close()

	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	env := suite.NewTestWorkflowEnvironment()
	worker.Register(env)
	env.ExecuteWorkflow(temporal.WorkflowName, temporal.Input{Session: "lead"})
	if err := env.GetWorkflowError(); err != nil {
		log.Fatal(err)
	}
	v, _, err := session.Read(ctx, store, "lead")
	if err != nil {
		log.Fatal(err)
	}
	messages := v.Messages(v.Head(""))
	fmt.Println(messages[len(messages)-1].Text())
	_ = worker.Close()
	// Output:
	// lead delegates {"task":"Count the tests."}
	// There are 12 tests.
}
