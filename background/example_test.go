package background_test

import (
	"context"
	"fmt"
	"log"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/background"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/tools"
)

// An agent works while the conversation rests, and wakes it when it has ended.
func Example() {
	group, err := background.New()
	if err != nil {
		log.Fatal(err)
	}
	defer group.Close()

	free := make(chan struct{})
	helper, err := tools.Subagent(tools.SubagentConfig{Background: group, Model: script.New(script.Func(func(*aycoder.Request) script.Step {
		<-free
		return script.Say("The bug is in line 12.")
	}))})
	if err != nil {
		log.Fatal(err)
	}
	output, err := tools.JobOutput(tools.WithBackground(group))
	if err != nil {
		log.Fatal(err)
	}
	model := script.New( // a model that is scripted
		script.Call("subagent", map[string]any{"task": "Find the bug", "background": true}),
		script.Say("I have sent somebody. What else?"),
		script.Call("job_output", map[string]any{"id": "agent-1"}),
		script.Say("It is in line 12."),
	)
	agent, err := aycoder.New(model, aycoder.WithTools(helper, output))
	if err != nil {
		log.Fatal(err)
	}

	ctx := context.Background()
	var res aycoder.Result
	run := func(in aycoder.Input) {
		for ev, err := range agent.Run(ctx, in, aycoder.Into(&res), group.Attach()) {
			if err != nil {
				log.Fatal(err)
			}
			if e, ok := ev.(*aycoder.JobsChanged); ok {
				for _, j := range e.Jobs {
					fmt.Printf("* %s: %s, %s\n", j.ID, j.Name, j.State)
				}
			}
		}
		fmt.Println(res.Text())
	}
	run(aycoder.Input{Prompt: "There is a bug."})
	close(free)
	for notes := range group.Wakes(ctx) {
		fmt.Println(notes[0].Text())
		run(aycoder.Input{Messages: append(res.Messages, notes...)})
	}
	// Output:
	// * agent-1: Find the bug, running
	// I have sent somebody. What else?
	// [agent-1 has ended in the background: done, 1 turn. The tool job_output returns what it has written since.]
	// * agent-1: Find the bug, done
	// It is in line 12.
}
