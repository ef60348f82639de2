package usage_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/insight/usage"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/session"
)

// The figures come from the journals of sessions.
func ExampleCollect() {
	ctx := context.Background()
	store := journal.Memory()
	agent, err := aycoder.New(script.New(script.Say("It reads the file twice."), script.Say("Fixed.")))
	if err != nil {
		log.Fatal(err)
	}
	price := func(provider, model string) (aycoder.Price, bool) {
		return aycoder.Price{Input: 1e6, Output: 1e6}, true
	}
	s, err := session.New(ctx, store, agent, session.WithPrices(price))
	if err != nil {
		log.Fatal(err)
	}
	for _, prompt := range []string{"Why is it slow?", "Fix it."} {
		for _, err := range s.Run(ctx, aycoder.Input{Prompt: prompt}) {
			if err != nil {
				log.Fatal(err)
			}
		}
	}
	if err := s.Close(); err != nil {
		log.Fatal(err)
	}

	work, err := usage.Collect(ctx, store, nil)
	if err != nil {
		log.Fatal(err)
	}
	for _, row := range work.By(usage.Task, time.UTC) {
		fmt.Printf("%s: %d prompts, %d answers, $%.0f for %d tokens\n", row.Name, row.Prompts, row.Answers, row.Cost, row.Tokens())
	}
	// Output: question: 2 prompts, 2 answers, $22 for 22 tokens
}
