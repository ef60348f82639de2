package script_test

import (
	"context"
	"fmt"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/providers/script"
)

func Example() {
	m := script.New(
		script.Reply(script.Say("Let me look."), script.Call("read_file", map[string]any{"path": "go.mod"})),
		script.Say("It needs Go 1.26."),
	)
	ctx := context.Background()
	req := &aycoder.Request{Messages: []*aycoder.Message{aycoder.User("Which Go is it?")}}
	for range 2 {
		r, err := aycoder.Complete(ctx, m, req)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(r.Stop, r.Text())
		for _, call := range r.Message.Calls() {
			fmt.Println(call.ID, call.Name, string(call.Args))
		}
	}
	fmt.Println(len(m.Requests()), "requests")
	// Output:
	// tool_use Let me look.
	// call_1 read_file {"path":"go.mod"}
	// end_turn It needs Go 1.26.
	// 2 requests
}

func ExampleFunc() {
	m := script.New(script.Func(func(req *aycoder.Request) script.Step {
		if script.LastOutput(req).IsError {
			return script.Say("That did not work: " + script.LastText(req))
		}
		return script.Say("Done.")
	}))
	failed := &aycoder.ToolOutput{ID: "call_1", IsError: true, Parts: []aycoder.Part{&aycoder.Text{Text: "exit 1"}}}
	history := []*aycoder.Message{{Role: aycoder.RoleUser, Parts: []aycoder.Part{failed}}}
	r, err := aycoder.Complete(context.Background(), m, &aycoder.Request{Messages: history})
	fmt.Println(r.Text(), err)
	// Output: That did not work: exit 1 <nil>
}

func ExampleBreak() {
	m := script.New(
		script.Break(2, nil, script.Say("Once upon a time")),
		script.Fail(script.RateLimited(0)),
	)
	req := &aycoder.Request{Messages: []*aycoder.Message{aycoder.User("Tell me a story.")}}
	for range 2 {
		for ev, err := range m.Stream(context.Background(), req) {
			if err != nil {
				fmt.Println(err)
				break
			}
			fmt.Printf("%q\n", ev.(*aycoder.TextDelta).Text)
		}
	}
	// Output:
	// "Once "
	// "upon "
	// script script: connection lost: the script breaks off
	// script script: rate limited (status 429): the script says so
}
