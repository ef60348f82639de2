// Package aycoder is a coding agent for Go programs to import. It runs a language model in a loop
// with tools and streams events while it works. It can be stopped at any point, and asks for
// approval before a tool does harm.
//
// # Hello
//
// An agent consists of a model and some tools. [New] makes one, and [Loop.Run] answers a prompt
// and yields events:
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
// The model is a [ModelClient], an interface with one method. The packages providers/anthropic,
// openai, google, bedrock and ollama have clients that talk to a service, and package providers
// opens any of them by name. Package providers/script has a client for tests, which follows a
// script. Package middleware wraps clients, for example to retry or to record. Package catalog
// knows the context sizes, capabilities and prices of models. Package tools has the tools that a
// coding agent needs: they read, list, search and edit files and run commands.
//
// [Complete] asks a model without an agent. Package generate asks a model, or an agent, for a value of
// a Go type.
//
// An agent does not store the conversation. [Into] returns the messages of a run, and the next run
// starts from them:
//
//	in := aycoder.Input{Messages: res.Messages, Prompt: prompt}
//	for _, err := range agent.Run(ctx, in, aycoder.Into(&res)) {
//		if err != nil {
//			log.Fatal(err)
//		}
//	}
//
// # Guarantees
//
// The sequence of a run is lazy and single-use. An error is yielded once, as the last element. The
// loop body may stop the run with break: running tools then end or are abandoned, and missing
// outputs are added to the history. When the loop statement ends, no goroutine is left but those
// of code that did not stop within [Limits].Grace. The model
// is asked again only after the loop body has seen all earlier events, so a break at
// [*TurnFinished] costs no request. However a run ends, its messages are valid: each tool call has
// its output, and no tool has run twice. [Agent] documents the whole contract, and
// agenttest.TestAgent tests it.
//
// # Tools
//
// [NewTool] makes a [Tool] from a function. It derives the JSON schema from the struct that the
// function takes. The arguments of a call are checked against the schema before anybody is asked
// to approve the call:
//
//	tool, err := aycoder.NewTool("weather", "Tells the weather.", weather,
//		aycoder.WithEffect(aycoder.EffectReadOnly))
//
// The [Effect] of a tool decides when its calls start. A read-only call starts while the model is
// still writing its message, in parallel with others. A call that may write starts after the
// message is complete; such calls run in order, one at a time. A read-only call that follows a
// writing call waits for it, so that it sees the result.
//
// If a tool returns an error or panics, the model reads the error as the output of the call, and
// the run continues. Only an error marked by [Fatal] ends the run. A report made with
// [Invocation.Progress] never blocks a tool, and may be dropped.
//
// # Events
//
// [Event] is a closed union: switch on the types that you need. Each event encodes as a JSON
// object with a "type", for logs and other processes. [ToolFinished] carries the output that the
// model reads. If a call failed, its Err is the reason, as an error type based on [*ToolError].
//
// # Approvals
//
// Without an [Approver], tools run that only read in the workspace, and all other calls are denied. Package
// policy has an Approver that decides by rules, and an [ApproverFunc] decides as you like.
//
//	approver, err := policy.New() // asks about each call that does more than read
//
// A question arrives as an [*ApprovalRequested] event, whose methods answer it. Allow and Deny
// decide about the call as it is, AllowWith changes its arguments, and AllowFor adds a rule that
// the Approver suggests. The first answer wins:
//
//	case *aycoder.ApprovalRequested:
//		if strings.HasPrefix(ev.Request.Subject, "go ") {
//			ev.Allow()
//		} else {
//			ev.Deny("keep the build")
//		}
//
// A tool that changes files is a [Planner]: the question shows the whole change, AllowPlan can
// allow a part of it, and the call makes exactly the change that was approved. If the user edits
// the files meanwhile, both changes are merged; [*Merged] and [*Conflicted] report that.
//
// Questions of a nested run, such as a subagent's, arrive in a [*ChildEvent]. If the loop body does
// not answer a question, the call is denied, so nothing hangs. After [ApprovalRequested.Detach],
// any goroutine can answer later. If an Approver returns [Suspend], the run ends instead.
// [Result.Pending] then encodes as JSON, and another process can resume the run:
//
//	answer := aycoder.Decision{CallID: q.CallID, Digest: q.Digest, Verdict: aycoder.Allow()}
//	in := aycoder.Input{Pending: &pending, Decisions: []aycoder.Decision{answer}}
//
// # Errors
//
// Errors are typed, carry the data that recovery needs, and unwrap to a base type:
//
//	if e, ok := errors.AsType[*aycoder.RateLimitError](err); ok {
//		fmt.Println("try again in", e.RetryAfter)
//	}
//	if e, ok := errors.AsType[*aycoder.ModelError](err); ok {
//		fmt.Println("asked", e.Provider, "status", e.Status)
//	}
//
// The loop retries after temporary errors, within [RetryPolicy], and reports each retry with
// [*Retrying]. A run that reaches a limit fails with a [*LimitError], and one that the model
// refuses with a [*RefusalError]. In both cases the next run can start from the conversation that
// [Into] returned.
//
// # Steering
//
// With [Control], other goroutines can send messages into a run and look at its state. A message
// of [Control.Steer] reaches the model at the next turn boundary, and one of [Control.FollowUp]
// when the run would otherwise end. [Control.State] returns a snapshot without taking a lock.
//
// # Custom loops
//
// [Loop.Turn] asks the model once and runs the tools that it calls. The host writes the loop
// around Turn and builds the requests:
//
//	for res.More {
//		for _, err := range loop.Turn(ctx, req, &res) {
//			if err != nil {
//				log.Fatal(err)
//			}
//		}
//		req.Messages = append(req.Messages, res.Messages...)
//		fmt.Println(res.Stop, len(req.Messages))
//	}
//
// Smaller changes do not need a custom loop: [WithContext] chooses what the model sees, and
// middleware wraps models, tools and context builders.
//
// # Custom engines
//
// [State] decides what happens next. It is a value and has no goroutine, clock or random source.
// [Start] and [State.Apply] return the [Action]s to do; a [Fact] reports the outcome of one. Run
// and Turn drive a State. An engine that records steps can drive one too: each action has a key
// that is the same in every replay, a state encodes as JSON, and [State.Outstanding] returns the
// actions that are still open after a crash.
//
// # Testing
//
// Package providers/script is a model for tests of hosts: it streams, calls tools, checks their
// outputs, and fails as the script says. Package agenttest tests other implementations of [Agent],
// [ModelClient] and [Tool] against their contracts.
package aycoder
