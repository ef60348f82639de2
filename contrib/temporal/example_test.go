package temporal_test

import (
	"context"
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
