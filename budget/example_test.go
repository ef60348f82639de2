package budget_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/budget"
	"github.com/aycoder/aycoder/providers/script"
)

// A budget of 100 tokens, which two agents share.
func Example() {
	pot, err := budget.New(budget.Config{Name: "review", Tokens: 100})
	if err != nil {
		panic(err)
	}
	answer := script.Say("done").WithUsage(aycoder.Usage{Input: 50, Output: 10})
	for _, name := range []string{"first", "second", "third"} {
		agent, err := aycoder.New(script.New(answer), aycoder.WithName(name),
			aycoder.WithModelMiddleware(pot.Model), aycoder.WithToolMiddleware(pot.Tool))
		if err != nil {
			panic(err)
		}
		for _, err := range agent.Run(context.Background(), aycoder.Input{Prompt: "review this"}) {
			if e, ok := errors.AsType[*budget.ExhaustedError](err); ok {
				fmt.Println(name+":", e)
			}
		}
	}
	fmt.Println(pot.Status().Spent.Tokens)
	// Output:
	// third: budget review is used up: 120 tokens of 100 (limit set by budget.review.tokens)
	// 120
}
