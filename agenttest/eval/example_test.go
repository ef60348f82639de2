package eval_test

import (
	"context"
	"log"
	"os"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/agenttest/eval"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
)

// A change of a prompt, a tool or a model is compared by the tables before and after. The model here is scripted.
func ExampleRun() {
	cases := []eval.Case{{
		Name:    "greeting",
		Files:   map[string]string{"greet.sh": "echo Helo\n"},
		Prompts: []string{"Correct the spelling."},
		Checks:  []eval.Check{eval.FileIs("greet.sh", "echo Hello\n"), eval.NotCalled("bash"), eval.TurnsAtMost(3)},
	}, {
		Name:    "question",
		Files:   map[string]string{"greet.sh": "echo Hello\n"},
		Prompts: []string{"What does greet.sh print?"},
		Checks:  []eval.Check{eval.AnswerMatches(`Hello`), eval.Unchanged("greet.sh")},
	}}
	steps := map[string][]script.Step{
		"greeting": {
			script.Call("read_file", map[string]any{"path": "greet.sh"}),
			script.Call("edit_file", map[string]any{"path": "greet.sh", "old_string": "Helo", "new_string": "Hello"}),
			script.Say("Corrected."),
		},
		"question": {script.Say("It prints a greeting.")},
	}
	allow := aycoder.ApproverFunc(func(context.Context, *aycoder.ToolUse, *aycoder.ToolSpec) aycoder.Verdict { return aycoder.Allow() })
	build := func(_ context.Context, dir string, c *eval.Case) (*eval.Subject, error) {
		ws, err := workspace.Open(dir)
		if err != nil {
			return nil, err
		}
		list, err := tools.Coding(ws)
		if err != nil {
			return nil, err
		}
		agent, err := aycoder.New(script.New(steps[c.Name]...), aycoder.WithTools(list...), aycoder.WithApprover(allow))
		return &eval.Subject{Agent: agent, Close: ws.Close}, err
	}
	table, err := eval.Run(context.Background(), cases, build, eval.Options{Tries: 2, Parallel: 2})
	if err != nil {
		log.Fatal(err)
	}
	if err := table.WriteText(os.Stdout); err != nil {
		log.Fatal(err)
	}
	// Output:
	// case       passed  pass^k   turns      cost
	// greeting      2/2    1.00       6  $0.0000+
	// question      0/2    0.00       2  $0.0000+
	//     the answer does not match "Hello": it is "It prints a greeting."
	// all           2/4               8  $0.0000+
}
