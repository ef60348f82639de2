// Package aycoder is a coding agent for Go programs to import: a loop over a model
// and tools that streams what it does, can be left at any point, and asks before it
// does harm.
//
// # Hello
//
// An agent is a model and some tools. [New] makes it, [Loop.Run] answers a prompt,
// and what happens comes as events:
//
//	agent, err := aycoder.New(model, aycoder.WithTools(weatherTool()))
//	if err != nil {
//		log.Fatal(err)
//	}
//	ctx := context.Background()
//	for ev, err := range agent.Run(ctx, aycoder.Input{Prompt: "How is Oslo?"}) {
//		if err != nil {
//			log.Fatal(err)
//		}
//		switch ev := ev.(type) {
//		case *aycoder.TextDelta:
//			fmt.Print(ev.Text)
//		case *aycoder.ToolFinished:
//			fmt.Println("tool:", ev.Output.Text())
//		}
//	}
//
// The model is a [ModelClient], an interface of one method. The packages
// providers/anthropic, openai, google, bedrock and ollama have clients that talk to a
// service, and package providers opens any of them by name; providers/script has one
// that says what a script tells it to, for tests. Package middleware has what clients
// are wrapped with, package catalog what is known of models. Package tools has what a
// coding agent needs: reading, listing, searching, editing, running commands.
//
// A model is asked without an agent by [Complete], and for a value of a Go type by
// [Generate].
//
// An agent holds no conversation. [Into] gives back the messages of a run, which the
// next one starts from:
//
//	in := aycoder.Input{Messages: res.Messages, Prompt: prompt}
//	for _, err := range agent.Run(ctx, in, aycoder.Into(&res)) {
//
// # What always holds
//
// The sequence of a run is lazy and single-use. Its error is terminal: it comes once
// and last. Break is a clean way to stop: running tools end or are abandoned, what is
// missing in the history is written, and only then does the loop statement end, with
// no goroutine left. The model is asked again only when the loop body has seen
// everything before, so leaving at [*TurnFinished] costs no request. However a run
// ends, the messages it leaves are valid: each tool call has its output, and no tool
// ran twice. [Agent] has the whole contract, and agenttest.TestAgent tests it.
//
// # Tools
//
// [NewTool] makes a [Tool] of a function. The schema is made of the struct it takes,
// and arguments are checked against it before anybody is asked about the call:
//
//	tool, err := aycoder.NewTool("weather", "Tells the weather.", weather,
//		aycoder.WithEffect(aycoder.EffectReadOnly))
//
// The [Effect] decides when a call starts. One that only reads starts while the model
// is still talking, beside others; one that may write starts after the message, in
// order, alone. A call that reads behind one that writes waits for it: it sees what
// that one leaves.
//
// An error or a panic of a tool is an output that the model reads, never the end of
// the run, unless it is marked by [Fatal]. The reports of [Invocation.Progress] may be
// dropped, and never hold a tool up.
//
// # Events
//
// [Event] is a closed union: switch on the types you care about. Each encodes as a
// JSON object with a type, for logs and other processes. [ToolFinished] carries what
// the model reads and, in Err, why a call failed, as one of the types below
// [*ToolError].
//
// # Approvals
//
// Without an [Approver], tools that read run and everything else is denied. [Rules] is
// an Approver: deny before ask before allow.
//
//	rules := aycoder.Rules{
//		{Action: aycoder.RuleAllow, Tool: "shell", Pattern: "go test *"},
//		{Action: aycoder.RuleDeny, Tool: "shell", Pattern: "git push*", Reason: "the host pushes"},
//	}
//
// What is to be asked comes as an [*ApprovalRequested]. Its methods answer it: Allow,
// Deny, AllowWith other arguments, AllowFor the session. The first answer wins:
//
//	case *aycoder.ApprovalRequested:
//		if strings.HasPrefix(ev.Request.Subject, "go ") {
//			ev.Allow()
//		} else {
//			ev.Deny("keep the build")
//		}
//
// A tool that changes files is a [Planner]: the question carries the change as a whole,
// AllowPlan lets a part of it be made, and the call makes what was approved. What the
// user writes into the files meanwhile is merged, and [*Merged] or [*Conflicted] tell.
//
// Questions of a run inside a call, such as a subagent's, come in a [*ChildEvent].
// A question that the loop body leaves without an answer is denied, so nothing hangs.
// [ApprovalRequested.Detach] lets it be answered later, by any goroutine. An Approver
// that says [Suspend] ends the run instead: [Result.Pending] encodes as JSON, and
// another process goes on with it:
//
//	answer := aycoder.Decision{CallID: q.CallID, Digest: q.Digest, Verdict: aycoder.Allow()}
//	in := aycoder.Input{Pending: &pending, Decisions: []aycoder.Decision{answer}}
//
// # Errors
//
// Errors have types with what recovery needs, and unwrap to a base:
//
//	if e, ok := errors.AsType[*aycoder.RateLimitError](err); ok {
//		fmt.Println("try again in", e.RetryAfter)
//	}
//	if e, ok := errors.AsType[*aycoder.ModelError](err); ok {
//
// What helps to try again is tried again by the loop, within [RetryPolicy]; the run
// says so with [*Retrying]. A bound that was reached is a [*LimitError], a refusal a
// [*RefusalError]; the conversation that [Into] gave is good for the next run.
//
// # Steering
//
// [Control] lets other goroutines speak into a run and look at it: [Control.Steer] is
// heard at the next turn boundary, [Control.FollowUp] when the run would end, and
// [Control.State] is a snapshot that takes no lock.
//
// # Loops of one's own
//
// [Loop.Turn] asks the model once and runs the tools it calls. The loop around it, and
// the request, are the host's:
//
//	for res.More {
//		for _, err := range loop.Turn(ctx, req, &res) {
//			if err != nil {
//				log.Fatal(err)
//			}
//		}
//		req.Messages = append(req.Messages, res.Messages...)
//
// Smaller changes need no loop: [WithContext] chooses what the model sees, and
// middleware wraps models, tools and builders.
//
// # Engines of one's own
//
// What happens next is decided by [State], a value without goroutine, clock or random
// source. [Start] and [State.Apply] return the [Action]s to do; a [Fact] reports what
// came of one. Run and Turn are drivers of it. An engine that records steps can be
// another: each action has a key that is the same in every replay, a state encodes as
// JSON, and [State.Outstanding] says what is open after a crash.
//
// # Testing
//
// Package providers/script is a model for tests of hosts: it streams, calls tools,
// looks at their outputs, and fails as told. Package agenttest tests agents of one's
// own against the contract.
package aycoder
