package aycoder_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/policy"
	"github.com/aycoder/aycoder/providers/anthropic"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
)

// The examples use a scripted model, so that they run offline and always print the
// same. A program uses a provider's client instead.

type cityArgs struct {
	City string `json:"city" jsonschema:"description=Name of the city"`
}

func weather(_ context.Context, _ *aycoder.Invocation, in cityArgs) (*aycoder.ToolResult, error) {
	return aycoder.TextResult("Sunny in " + in.City + "."), nil
}

// weatherTool only reads, so it needs no approval.
func weatherTool() aycoder.Tool {
	tool, err := aycoder.NewTool("weather", "Tells the weather.", weather,
		aycoder.WithEffect(aycoder.EffectReadOnly))
	if err != nil {
		log.Fatal(err)
	}
	return tool
}

type runArgs struct {
	Command string `json:"command"`
}

// shellTool represents tools that may change something. Its subject is a command.
func shellTool() aycoder.Tool {
	run := func(_ context.Context, _ *aycoder.Invocation, in runArgs) (*aycoder.ToolResult, error) {
		return aycoder.TextResult("ran " + in.Command), nil
	}
	tool, err := aycoder.NewTool("shell", "Runs a command.", run,
		aycoder.WithEffect(aycoder.EffectWrite),
		aycoder.WithSubject(aycoder.SubjectCommand, "command"))
	if err != nil {
		log.Fatal(err)
	}
	return tool
}

func newAgent(m aycoder.ModelClient, opts ...aycoder.Option) *aycoder.Loop {
	agent, err := aycoder.New(m, opts...)
	if err != nil {
		log.Fatal(err)
	}
	return agent
}

func Example() {
	model := script.New(
		script.Call("weather", cityArgs{"Oslo"}),
		script.Say("It is sunny."),
	)
	agent, err := aycoder.New(model, aycoder.WithTools(weatherTool()))
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	for ev, err := range agent.Run(ctx, aycoder.Input{Prompt: "How is Oslo?"}) {
		if err != nil {
			log.Fatal(err)
		}
		switch ev := ev.(type) {
		case *aycoder.TextDelta:
			fmt.Print(ev.Text)
		case *aycoder.ToolFinished:
			fmt.Println("tool:", ev.Output.Text())
		}
	}
	// Output:
	// tool: Sunny in Oslo.
	// It is sunny.
}

func ExampleNew() {
	_, err := aycoder.New(nil, aycoder.WithLimits(aycoder.Limits{Turns: -1, Grace: -time.Second}))
	fmt.Println(err)
	// Output:
	// new agent: model: is nil
	// WithLimits: Turns is less than 1
	// WithLimits: Grace is less than 1ns
}

// A conversation continues with the messages of the previous run.
func ExampleInto() {
	agent := newAgent(script.New(script.Say("Hello, Ada."), script.Say("Ada.")))
	ctx := context.Background()
	var res aycoder.Result
	for _, prompt := range []string{"I am Ada.", "Who am I?"} {
		in := aycoder.Input{Messages: res.Messages, Prompt: prompt}
		for _, err := range agent.Run(ctx, in, aycoder.Into(&res)) {
			if err != nil {
				log.Fatal(err)
			}
		}
		fmt.Println(res.End, len(res.Messages), res.Text())
	}
	// Output:
	// done 2 Hello, Ada.
	// done 4 Ada.
}

// Leaving the loop ends the run and leaves a valid history.
func ExampleResult() {
	model := script.New(script.Reply(script.Say("I will look."), script.Call("weather", cityArgs{"Oslo"})))
	agent := newAgent(model, aycoder.WithTools(weatherTool()))
	var res aycoder.Result
	for ev := range agent.Run(context.Background(), aycoder.Input{Prompt: "How is Oslo?"}, aycoder.Into(&res)) {
		if _, ok := ev.(*aycoder.TurnFinished); ok {
			break
		}
	}
	fmt.Println(res.End, len(res.Messages), aycoder.CheckHistory(res.Messages))
	fmt.Println(len(model.Requests()), "request")
	// Output:
	// cancelled 3 <nil>
	// 1 request
}

// Every event encodes as one line of JSON.
func ExampleEvent() {
	agent := newAgent(script.New(script.Say("Hi").WithUsage(aycoder.Usage{Input: 8, Output: 1})))
	for ev, err := range agent.Run(context.Background(), aycoder.Input{Prompt: "Say hi."}) {
		if err != nil {
			log.Fatal(err)
		}
		line, err := json.Marshal(ev)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(string(line))
	}
	// Output:
	// {"type":"text_delta","text":"Hi"}
	// {"type":"turn_end","turn":1,"stop":"end_turn","usage":{"input":8,"output":1},"provider":"script","model":"script","id":"msg_1","request_id":"req_1"}
	// {"type":"run_end","reason":"done","stop":"end_turn","turns":1,"usage":{"input":8,"output":1},"spent":[{"provider":"script","model":"script","answers":1,"usage":{"input":8,"output":1},"cost":0,"unpriced":1}],"text":"Hi","messages":[{"role":"user","parts":[{"type":"text","text":"Say hi."}]},{"role":"assistant","parts":[{"type":"text","text":"Hi"}]}]}
}

// A call that may change something raises a question for the reader of the events.
func ExampleApprovalRequested() {
	model := script.New(
		script.Call("shell", runArgs{"go test ./..."}),
		script.Call("shell", runArgs{"rm -r build"}),
		script.Say("Tested, not cleaned."),
	)
	approver, err := policy.New() // asks about each call that does more than read
	if err != nil {
		log.Fatal(err)
	}
	agent := newAgent(model, aycoder.WithTools(shellTool()), aycoder.WithApprover(approver))
	for ev, err := range agent.Run(context.Background(), aycoder.Input{Prompt: "Test and clean up."}) {
		if err != nil {
			log.Fatal(err)
		}
		switch ev := ev.(type) {
		case *aycoder.ApprovalRequested:
			if strings.HasPrefix(ev.Request.Subject, "go ") {
				ev.Allow()
			} else {
				ev.Deny("keep the build")
			}
		case *aycoder.ToolFinished:
			fmt.Println(ev.Output.Text())
		}
	}
	// Output:
	// ran go test ./...
	// the user refused this call: keep the build
}

// A question that is detached can be answered later, from any goroutine.
func ExampleApprovalRequested_Detach() {
	model := script.New(script.Call("shell", runArgs{"make"}), script.Say("Made."))
	agent := newAgent(model, aycoder.WithTools(shellTool()), aycoder.WithApprover(asks))
	questions, answers := make(chan *aycoder.Approval), make(chan bool, 2)
	go func() { // a window, a phone
		q := <-questions
		answers <- q.Allow()
		answers <- q.Deny("too late")
	}()
	for ev, err := range agent.Run(context.Background(), aycoder.Input{Prompt: "Make it."}) {
		if err != nil {
			log.Fatal(err)
		}
		switch ev := ev.(type) {
		case *aycoder.ApprovalRequested:
			questions <- ev.Detach()
		case *aycoder.ToolFinished:
			fmt.Println(ev.Output.Text())
		}
	}
	fmt.Println(<-answers, <-answers)
	// Output:
	// ran make
	// true false
}

// An approver is a policy that the host writes.
func ExampleApproverFunc() {
	approver := aycoder.ApproverFunc(func(_ context.Context, call *aycoder.ToolUse, spec *aycoder.ToolSpec) aycoder.Verdict {
		if spec.Effect == aycoder.EffectReadOnly {
			return aycoder.Allow()
		}
		return aycoder.AllowWith(json.RawMessage(`{"command":"make -n"}`)) // a dry run
	})
	model := script.New(script.Call("shell", runArgs{"make"}), script.Say("ok"))
	agent := newAgent(model, aycoder.WithTools(shellTool()), aycoder.WithApprover(approver))
	for ev, err := range agent.Run(context.Background(), aycoder.Input{Prompt: "Make it."}) {
		if err != nil {
			log.Fatal(err)
		}
		if fin, ok := ev.(*aycoder.ToolFinished); ok {
			fmt.Println(fin.Output.Text())
		}
	}
	// Output:
	// note: whoever approved this call changed its arguments to {"command":"make -n"}
	// ran make -n
}

// A run that waits for an approval can be stored and resumed in another process.
func ExampleSuspend() {
	later := aycoder.ApproverFunc(func(context.Context, *aycoder.ToolUse, *aycoder.ToolSpec) aycoder.Verdict {
		return aycoder.Suspend()
	})
	model := script.New(script.Call("shell", runArgs{"make deploy"}), script.Say("Deployed."))
	agent := newAgent(model, aycoder.WithTools(shellTool()), aycoder.WithApprover(later))
	ctx := context.Background()

	var res aycoder.Result
	for _, err := range agent.Run(ctx, aycoder.Input{Prompt: "Deploy."}, aycoder.Into(&res)) {
		if err != nil {
			log.Fatal(err)
		}
	}
	stored, err := json.Marshal(res.Pending)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(res.End)

	// Next day, next process.
	var pending aycoder.Pending
	if err := json.Unmarshal(stored, &pending); err != nil {
		log.Fatal(err)
	}
	q := pending.Requests[0]
	answer := aycoder.Decision{CallID: q.CallID, Digest: q.Digest, Verdict: aycoder.Allow()}
	in := aycoder.Input{Pending: &pending, Decisions: []aycoder.Decision{answer}}
	for ev, err := range agent.Run(ctx, in, aycoder.Into(&res)) {
		if err != nil {
			log.Fatal(err)
		}
		if fin, ok := ev.(*aycoder.ToolFinished); ok {
			fmt.Println(fin.Output.Text())
		}
	}
	fmt.Println(res.End, res.Text())
	// Output:
	// suspended
	// ran make deploy
	// done Deployed.
}

// Other goroutines send messages into a run through its control.
func ExampleControl_Steer() {
	model := script.New(script.Call("weather", cityArgs{"Oslo"}), script.Say("In Celsius then."))
	agent := newAgent(model, aycoder.WithTools(weatherTool()))
	var ctl aycoder.Control
	in := aycoder.Input{Prompt: "How is Oslo?"}
	for ev, err := range agent.Run(context.Background(), in, aycoder.WithControl(&ctl)) {
		if err != nil {
			log.Fatal(err)
		}
		if _, ok := ev.(*aycoder.ToolStarted); ok {
			ctl.Steer("Use Celsius.")
		}
	}
	for _, m := range ctl.State().Messages() {
		fmt.Printf("%s %q\n", m.Role, m.Text())
	}
	// Output:
	// user "How is Oslo?"
	// assistant ""
	// user ""
	// user "Use Celsius."
	// assistant "In Celsius then."
}

// Turn asks the model once and runs the tools. The host writes the loop around it.
func ExampleLoop_Turn() {
	model := script.New(script.Call("weather", cityArgs{"Oslo"}), script.Say("It is sunny."))
	loop := newAgent(model, aycoder.WithTools(weatherTool()))
	ctx := context.Background()
	req := &aycoder.Request{Messages: []*aycoder.Message{aycoder.User("How is Oslo?")}}
	res := aycoder.TurnResult{More: true}
	for res.More {
		for _, err := range loop.Turn(ctx, req, &res) {
			if err != nil {
				log.Fatal(err)
			}
		}
		req.Messages = append(req.Messages, res.Messages...)
		fmt.Println(res.Stop, len(req.Messages))
	}
	// Output:
	// tool_use 3
	// end_turn 4
}

// Errors are typed and carry the data that recovery needs.
func ExampleModelError() {
	model := script.New(script.Fail(script.RateLimited(time.Hour)))
	agent := newAgent(model)
	for _, err := range agent.Run(context.Background(), aycoder.Input{Prompt: "Hi."}) {
		if e, ok := errors.AsType[*aycoder.RateLimitError](err); ok {
			fmt.Println("try again in", e.RetryAfter)
		}
		if e, ok := errors.AsType[*aycoder.ModelError](err); ok {
			fmt.Println("asked", e.Provider, "status", e.Status)
		}
	}
	// Output:
	// try again in 1h0m0s
	// asked script status 429
}

// When a limit is reached, nothing is lost: the conversation can go on.
func ExampleLimitError() {
	model := script.New(script.Call("weather", cityArgs{"Oslo"})).With(script.WithLoop(true))
	agent := newAgent(model, aycoder.WithTools(weatherTool()), aycoder.WithLimits(aycoder.Limits{Turns: 3}))
	var res aycoder.Result
	for _, err := range agent.Run(context.Background(), aycoder.Input{Prompt: "Hi."}, aycoder.Into(&res)) {
		if e, ok := errors.AsType[*aycoder.LimitError](err); ok {
			fmt.Println(e.Limit, e.Max)
		}
	}
	fmt.Println(res.End, res.Turns, aycoder.CheckHistory(res.Messages))
	// Output:
	// turns 3
	// turns 3 <nil>
}

// An error of a tool goes to the model. Only Fatal ends the run.
func ExampleFatal() {
	save := func(_ context.Context, _ *aycoder.Invocation, in runArgs) (*aycoder.ToolResult, error) {
		if in.Command == "" {
			return nil, errors.New("name a command")
		}
		return nil, aycoder.Fatal(errors.New("disk is full"))
	}
	tool, err := aycoder.NewTool("save", "Saves.", save, aycoder.WithEffect(aycoder.EffectReadOnly))
	if err != nil {
		log.Fatal(err)
	}
	model := script.New(script.Call("save", runArgs{""}), script.Call("save", runArgs{"x"}))
	agent := newAgent(model, aycoder.WithTools(tool))
	for ev, err := range agent.Run(context.Background(), aycoder.Input{Prompt: "Save."}) {
		if err != nil {
			fmt.Println("run:", err)
		}
		if fin, ok := ev.(*aycoder.ToolFinished); ok {
			fmt.Println("model reads:", fin.Output.Text())
		}
	}
	// Output:
	// model reads: name a command
	// model reads: disk is full
	// run: tool save: disk is full
}

func ExampleComplete() {
	model := script.New(script.Reply(script.Think("Short."), script.Say("A monoid of endofunctors.")))
	resp, err := aycoder.Complete(context.Background(), model, &aycoder.Request{
		Messages: []*aycoder.Message{aycoder.User("What is a monad?")},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(resp.Stop, len(resp.Message.Parts), resp.Text())
	// Output: end_turn 2 A monoid of endofunctors.
}

// coder is a coding agent on Anthropic's API. The key is in ANTHROPIC_API_KEY.
func coder(ws *workspace.Workspace) (*aycoder.Loop, error) {
	client, err := anthropic.New("claude-sonnet-4-5")
	if err != nil {
		return nil, err
	}
	coding, err := tools.Coding(ws) // read_file, code_search, edit_file, apply_patch, bash …
	if err != nil {
		return nil, err
	}
	approver, err := policy.New(policy.WithWorkspace(ws.Dir()), policy.WithRules(policy.User,
		policy.Rule{Action: policy.RuleAllow, Tool: "bash", Pattern: "go test *"}))
	if err != nil {
		return nil, err
	}
	return aycoder.New(client, aycoder.WithTools(coding...), aycoder.WithApprover(approver))
}

func TestCoder(t *testing.T) {
	t.Setenv("ANTHROPIC_API_KEY", "example")
	ws, err := workspace.Open(t.TempDir())
	require.NoError(t, err)
	defer ws.Close()
	_, err = coder(ws)
	require.NoError(t, err)
}

// The test of a host: a script takes the place of the model, and its requests are
// checked.
func TestHostRetriesAfterAnError(t *testing.T) {
	model := script.New(
		script.Call("weather", `{"town":"Oslo"}`), // wrong: the argument is called city
		script.Func(func(req *aycoder.Request) script.Step {
			if script.LastOutput(req).IsError {
				return script.Call("weather", cityArgs{"Oslo"})
			}
			return script.Say("no error?")
		}),
		script.Say("It is sunny."),
	)
	agent, err := aycoder.New(model, aycoder.WithTools(weatherTool()))
	require.NoError(t, err)
	var res aycoder.Result
	for _, err := range agent.Run(t.Context(), aycoder.Input{Prompt: "How is Oslo?"}, aycoder.Into(&res)) {
		require.NoError(t, err)
	}
	require.Equal(t, "It is sunny.", res.Text())
	require.Len(t, model.Requests(), 3)
}

// A declared tool has no function: somebody else carries its calls out, here in a later process.
func ExampleDeclareTool() {
	deploy, err := aycoder.DeclareTool[runArgs]("deploy", "Runs a command in production.")
	if err != nil {
		log.Fatal(err)
	}
	allow := aycoder.ApproverFunc(func(context.Context, *aycoder.ToolUse, *aycoder.ToolSpec) aycoder.Verdict {
		return aycoder.Allow()
	})
	model := script.New(script.Call("deploy", runArgs{"make deploy"}), script.Say("Deployed."))
	agent := newAgent(model, aycoder.WithTools(deploy), aycoder.WithApprover(allow))
	ctx := context.Background()

	var res aycoder.Result
	for _, err := range agent.Run(ctx, aycoder.Input{Prompt: "Deploy."}, aycoder.Into(&res)) {
		if err != nil {
			log.Fatal(err)
		}
	}
	stored, err := json.Marshal(res.Pending)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(res.End)

	// Next day, next process.
	var pending aycoder.Pending
	if err := json.Unmarshal(stored, &pending); err != nil {
		log.Fatal(err)
	}
	call := pending.Calls[0]
	fmt.Println(call.Tool, string(call.Args))
	result := call.Result(aycoder.TextResult("version 2 is live"))
	in := aycoder.Input{Pending: &pending, Results: []aycoder.CallResult{result}}
	for _, err := range agent.Run(ctx, in, aycoder.Into(&res)) {
		if err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println(res.End, res.Text())
	// Output:
	// suspended
	// deploy {"command":"make deploy"}
	// done Deployed.
}
