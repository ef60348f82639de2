package tools_test

import (
	"context"
	"fmt"
	"log"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/tools"
)

// The open tasks are in the tail of each request, and never in the history.
func ExampleTodoList_Remind() {
	list := new(tools.TodoList)
	todo, err := tools.Todo(tools.WithTodoList(list))
	if err != nil {
		log.Fatal(err)
	}
	tasks := func(status tools.TodoStatus) map[string]any {
		return map[string]any{"todos": []tools.TodoItem{{Content: "fix the parser", Status: status}}}
	}
	model := script.New(
		script.Call("todo", tasks(tools.TodoInProgress)),
		script.Call("todo", tasks(tools.TodoCompleted)),
		script.Say("Done."),
	)
	loop, err := aycoder.New(model, aycoder.WithTools(todo), aycoder.WithContextMiddleware(list.Remind))
	if err != nil {
		log.Fatal(err)
	}
	for _, err := range loop.Run(context.Background(), aycoder.Input{Prompt: "Fix the parser."}) {
		if err != nil {
			log.Fatal(err)
		}
	}
	for i, req := range model.Requests() {
		fmt.Printf("request %d: %d messages, tail of %d texts\n", i+1, len(req.Messages), len(req.Tail))
		for _, t := range req.Tail {
			fmt.Print(t.Text)
		}
	}
	// Output:
	// request 1: 1 messages, tail of 0 texts
	// request 2: 3 messages, tail of 1 texts
	// <todo_context>
	// The list of tasks, as the tool todo keeps it now. This is not a message of the user.
	// [>] fix the parser
	// </todo_context>
	// request 3: 5 messages, tail of 0 texts
}
