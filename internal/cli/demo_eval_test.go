//go:build unix

package cli

import (
	"context"
	"log"
	"os"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/agenttest/eval"
	"github.com/aycoder/aycoder/config"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/policy"
)

// The demo is evaluated like any other agent: it does its task in files of the case, and says that it knows no other.
func Example_evaluation() {
	files := map[string]string{"greet.sh": demoGreet, "bye.sh": demoBye, "check.sh": demoChecks}
	cases := []eval.Case{{
		Name: "task", Files: files, Prompts: []string{demoTask},
		Checks: []eval.Check{eval.Command("sh", "check.sh"), eval.Unchanged("bye.sh", "check.sh"), eval.Called("edit_file", 1)},
	}, {
		Name: "question", Files: files, Prompts: []string{"What is a monad?"},
		Checks: []eval.Check{eval.AnswerMatches("scripted demo model"), eval.Unchanged("greet.sh"), eval.NotCalled("bash")},
	}}
	build := func(ctx context.Context, dir string, _ *eval.Case) (*eval.Subject, error) {
		loaded, err := config.Load()
		if err != nil {
			return nil, err
		}
		rt, err := harness.New(ctx, dir, harness.WithClient(newDemoModel(0)), harness.WithSettings(loaded.Config.Settings),
			harness.WithPolicyOptions(policy.WithMode(policy.FullAuto)), harness.WithQuestions(aycoder.DenyAsks))
		if err != nil {
			return nil, err
		}
		return &eval.Subject{Agent: rt, Close: rt.Close}, nil
	}
	table, err := eval.Run(context.Background(), cases, build, eval.Options{Tries: 3, Parallel: 2})
	if err != nil {
		log.Fatal(err)
	}
	if err := table.WriteText(os.Stdout); err != nil {
		log.Fatal(err)
	}
	// Output:
	// case       passed  pass^k   turns      cost
	// task          3/3    1.00      21  $0.0000+
	// question      3/3    1.00       3  $0.0000+
	// all           6/6              24  $0.0000+
}
