package tools_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/policy"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/tools"
)

// call calls a tool outside of a run.
func call(tool aycoder.Tool, args string) *aycoder.ToolResult {
	name := tool.Spec().Name
	r, err := tool.Call(context.Background(), aycoder.NewInvocation("call-1", name, json.RawMessage(args), nil))
	if err != nil {
		log.Fatal(err)
	}
	return r
}

// Both the written address and the one to which a name resolves are checked.
func ExampleFetch() {
	fetch, err := tools.Fetch()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(call(fetch, `{"url": "http://169.254.169.254/latest/meta-data/"}`).Text())
	fmt.Println(call(fetch, `{"url": "http://user:password@example.com/"}`).Text())
	// Output:
	// blocked_address: 169.254.169.254 is not a host of the public Internet, and fetch reaches no other; to look at a server on this machine use a command
	// invalid_url: the url contains a login; fetch does not log in, leave it out
}

// A host shows the list beside the conversation.
func ExampleTodo() {
	var list tools.TodoList
	todo, err := tools.Todo(tools.WithTodoList(&list))
	if err != nil {
		log.Fatal(err)
	}
	call(todo, `{"todos": [
		{"content": "find the bug", "status": "completed"},
		{"content": "write a test", "status": "in_progress"},
		{"content": "mend it", "status": "pending"}]}`)
	for _, item := range list.Items() {
		fmt.Println(item.Status, item.Content)
	}
	fmt.Print(&list)
	// Output:
	// completed find the bug
	// in_progress write a test
	// pending mend it
	// [x] find the bug
	// [>] write a test
	// [ ] mend it
}

func ExampleAskUser() {
	ask, err := tools.AskUser(func(_ context.Context, q tools.Question) (tools.Answer, error) {
		fmt.Println(q.Text, q.Options)
		return tools.Answer{Options: []int{1}, Text: "it is smaller"}, nil
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(call(ask, `{"question": "Which database?", "options": ["Postgres", "SQLite"]}`).Text())
	headless, err := tools.AskUser(nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(call(headless, `{"question": "Which database?"}`).Text())
	// Output:
	// Which database? [Postgres SQLite]
	// The user chose: SQLite
	// The user says: it is smaller
	// no_user: nobody is there to answer; go on with the most sensible assumption, and say at the end which one you made
}

// The consumer of the outer run sees the events of the agent inside a call, and answers
// its approvals.
func ExampleSubagent() {
	type in struct{ Name string }
	remove, err := aycoder.NewTool("remove", "Removes a branch.",
		func(_ context.Context, _ *aycoder.Invocation, in in) (*aycoder.ToolResult, error) {
			return aycoder.TextResult("removed " + in.Name), nil
		})
	if err != nil {
		log.Fatal(err)
	}
	subagent, err := tools.Subagent(tools.SubagentConfig{
		Model: script.New(script.Call("remove", in{"old"}), script.Say("The branch is gone.")),
		Tools: []aycoder.Tool{remove},
	})
	if err != nil {
		log.Fatal(err)
	}
	model := script.New(script.Call("subagent", `{"task": "Remove the branch old."}`), script.Say("Done."))
	approver, err := policy.New(policy.WithRules(policy.User, policy.Rule{Action: policy.RuleAllow, Tool: "subagent"}))
	if err != nil {
		log.Fatal(err)
	}
	agent, err := aycoder.New(model, aycoder.WithTools(subagent), aycoder.WithApprover(approver))
	if err != nil {
		log.Fatal(err)
	}
	for ev, err := range agent.Run(context.Background(), aycoder.Input{Prompt: "Clean up."}) {
		if err != nil {
			log.Fatal(err)
		}
		inside := ""
		if child, ok := ev.(*aycoder.ChildEvent); ok {
			inside, ev = "inside: ", child.Innermost()
		}
		switch ev := ev.(type) {
		case *aycoder.ApprovalRequested:
			fmt.Println(inside+"may it?", ev.Request.Tool, string(ev.Request.Args))
			ev.Allow()
		case *aycoder.ToolFinished:
			fmt.Println(inside+ev.Call.Name, "gave:", ev.Output.Parts[0].(*aycoder.Text).Text)
		}
	}
	// Output:
	// inside: may it? remove {"Name":"old"}
	// inside: remove gave: removed old
	// subagent gave: The branch is gone.
	// [2 turns, 1 call, 92 tokens]
}
