package session_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/session"
	"github.com/aycoder/aycoder/snapshot"
	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
)

// A conversation is closed, opened by another process, branched and undone.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "sessions")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	store, err := journal.Dir(dir)
	if err != nil {
		log.Fatal(err)
	}
	model := script.New(script.Say("Use a map."), script.Say("Use a slice."), script.Say("Sort it first."))
	loop, err := aycoder.New(model)
	if err != nil {
		log.Fatal(err)
	}
	ask := func(s *session.Session, prompt string) {
		for _, err := range s.Run(ctx, aycoder.Input{Prompt: prompt}) {
			if err != nil {
				log.Fatal(err)
			}
		}
	}

	s, err := session.New(ctx, store, loop)
	if err != nil {
		log.Fatal(err)
	}
	ask(s, "How do I find duplicates?")
	if err := s.Close(); err != nil {
		log.Fatal(err)
	}

	s, err = session.Open(ctx, store, s.ID(), loop)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Checkout(ctx, 1); err != nil { // back to the question
		log.Fatal(err)
	}
	ask(s, "Without a map.")
	ask(s, "In less than quadratic time.")
	if _, err := s.Undo(ctx); err != nil {
		log.Fatal(err)
	}
	v := s.View()
	for _, leaf := range v.Leaves() {
		fmt.Printf("branch that ends at node %d:\n", leaf.ID)
		for _, m := range v.Messages(leaf.ID) {
			fmt.Printf("  %s: %s\n", m.Role, m.Text())
		}
	}
	fmt.Println("the conversation continues at node", s.Head())
	// Output:
	// branch that ends at node 2:
	//   user: How do I find duplicates?
	//   assistant: Use a map.
	// branch that ends at node 6:
	//   user: How do I find duplicates?
	//   user: Without a map.
	//   assistant: Use a slice.
	//   user: In less than quadratic time.
	//   assistant: Sort it first.
	// the conversation continues at node 4
}

// A list of tasks is kept with the conversation. A program that opens the session later learns what
// is different.
func ExampleSession_Changes() {
	ctx := context.Background()
	store := journal.Memory()
	tasks := new(tools.TodoList)
	todo, err := tools.Todo(tools.WithTodoList(tasks))
	if err != nil {
		log.Fatal(err)
	}
	model := script.New(
		script.Call("todo", map[string]any{"todos": []any{map[string]any{"content": "find the bug", "status": "in_progress"}}}),
		script.Say("I have a plan."),
	)
	loop, err := aycoder.New(model, aycoder.WithTools(todo))
	if err != nil {
		log.Fatal(err)
	}
	s, err := session.New(ctx, store, loop)
	if err != nil {
		log.Fatal(err)
	}
	if err := s.Keep("tasks", tasks); err != nil {
		log.Fatal(err)
	}
	for _, err := range s.Run(ctx, aycoder.Input{Prompt: "Repair the parser."}) {
		if err != nil {
			log.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		log.Fatal(err)
	}

	loop, err = aycoder.New(script.New()) // another program, without tools
	if err != nil {
		log.Fatal(err)
	}
	s, err = session.Open(ctx, store, s.ID(), loop)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	for _, c := range s.Changes() {
		fmt.Println(c)
	}
	again := new(tools.TodoList)
	if err := s.Keep("tasks", again); err != nil {
		log.Fatal(err)
	}
	fmt.Print(again)
	// Output:
	// tool todo: the agent does not have it any more
	// [>] find the bug
}

// Two ways to do something are tried from the same point of a conversation, and compared.
func ExampleSession_Compare() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "workspace")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ws, err := workspace.Open(dir)
	if err != nil {
		log.Fatal(err)
	}
	defer ws.Close()
	files := snapshot.New(ws)
	list, err := tools.Coding(files)
	if err != nil {
		log.Fatal(err)
	}
	write := func(text string) script.Step {
		return script.Call("write_file", map[string]any{"path": "greet.txt", "content": text})
	}
	model := script.New(write("Hello\n"), script.Say("Done."), write("Good morning\n"), script.Say("Done."))
	allow := aycoder.ApproverFunc(func(context.Context, *aycoder.ToolUse, *aycoder.ToolSpec) aycoder.Verdict {
		return aycoder.Allow()
	})
	loop, err := aycoder.New(model, aycoder.WithTools(list...), aycoder.WithApprover(allow))
	if err != nil {
		log.Fatal(err)
	}
	s, err := session.New(ctx, journal.Memory(), loop, session.WithFiles(files))
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	ask := func(prompt string) session.ID {
		for _, err := range s.Run(ctx, aycoder.Input{Prompt: prompt}) {
			if err != nil {
				log.Fatal(err)
			}
		}
		return s.Head()
	}
	first := ask("Greet everybody.")
	if _, err := s.Undo(ctx); err != nil {
		log.Fatal(err)
	}
	second := ask("Greet everybody politely.")

	changes, err := s.Compare(ctx, first, second)
	if err != nil {
		log.Fatal(err)
	}
	for _, c := range changes {
		fmt.Printf("%s %s\n%s", c.Action, c.Path, c.Diff().Unified())
	}
	// Output:
	// change greet.txt
	// diff --git a/greet.txt b/greet.txt
	// --- a/greet.txt
	// +++ b/greet.txt
	// @@ -1 +1 @@
	// -Hello
	// +Good morning
}

// A host keeps a small value for each order, and the next process has them.
func ExampleSession_SetValues() {
	ctx, store := context.Background(), journal.Memory()
	loop, err := aycoder.New(script.New(script.Say("It is on its way.")))
	if err != nil {
		log.Fatal(err)
	}
	s, err := session.New(ctx, store, loop)
	if err != nil {
		log.Fatal(err)
	}
	if err := s.SetValues(ctx, map[string]json.RawMessage{"order 17": json.RawMessage(`"sent"`)}); err != nil {
		log.Fatal(err)
	}
	if err := s.Close(); err != nil {
		log.Fatal(err)
	}
	s, err = session.Open(ctx, store, s.ID(), loop)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	fmt.Println(string(s.Value("order 17")), s.Value("order 18") == nil)
	// Output: "sent" true
}

// A process that shows a run reads what it asks, while another process has the session open.
func ExampleReadRun() {
	ctx, store := context.Background(), journal.Memory()
	suspend := aycoder.ApproverFunc(func(context.Context, *aycoder.ToolUse, *aycoder.ToolSpec) aycoder.Verdict { return aycoder.Suspend() })
	deploy, err := aycoder.DeclareTool[struct{}]("deploy", "Deploys the program.")
	if err != nil {
		log.Fatal(err)
	}
	loop, err := aycoder.New(script.New(script.Call("deploy", nil)), aycoder.WithTools(deploy), aycoder.WithApprover(suspend))
	if err != nil {
		log.Fatal(err)
	}
	s, err := session.New(ctx, store, loop)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	for _, err := range s.Run(ctx, aycoder.Input{Prompt: "Deploy it."}) {
		if err != nil {
			log.Fatal(err)
		}
	}
	p, err := session.ReadRun(ctx, store, s.ID(), s.Pending().Run)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(p.Requests[0].Tool)
	// Output: deploy
}

// The id of a session is known before the session is made.
func ExampleNewID() {
	fmt.Println(session.NewID(session.WithID("review-7")))
	fmt.Println(len(session.NewID()) >= 20)
	// Output:
	// review-7
	// true
}
