package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/budget"
	"github.com/aycoder/aycoder/contrib/postgres"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/providers/script"
)

// Two hosts share a database. One of them writes a session, and the other one follows it.
func Example() {
	ctx := context.Background()
	address := os.Getenv("AYCODER_POSTGRES") // such as postgres://agents@db.internal/agents
	worker, err := postgres.Open(ctx, address)
	if err != nil {
		log.Fatal(err)
	}
	defer worker.Close()
	server, err := postgres.Open(ctx, address)
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()

	j, err := worker.Create(ctx, "first")
	if err != nil {
		log.Fatal(err)
	}
	if err := j.Append(ctx, true, []byte(`{"n":1}`), []byte(`{"n":2}`)); err != nil {
		log.Fatal(err)
	}
	_, err = server.Open(ctx, "first", true)
	busy, _ := errors.AsType[*journal.BusyError](err)
	fmt.Println("busy:", busy != nil)

	for r, err := range server.Follow(ctx, "first", postgres.Position{}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(r.N, string(r.Data))
		if r.N == 2 { // the worker goes on while the server follows
			if err := j.Append(ctx, true, []byte(`{"n":3}`)); err != nil {
				log.Fatal(err)
			}
		}
		if r.N == 3 {
			break
		}
	}
	if err := errors.Join(j.Close(), worker.Delete(ctx, "first")); err != nil {
		log.Fatal(err)
	}
	// Output:
	// busy: true
	// 1 {"n":1}
	// 2 {"n":2}
	// 3 {"n":3}
}

// All hosts together limit what a tenant uses. The agents of each host have the tenant as the ledger of their pot.
func ExampleTenant() {
	ctx := context.Background()
	store, err := postgres.Open(ctx, os.Getenv("AYCODER_POSTGRES"))
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	if err := store.SetQuota(ctx, "acme", postgres.Quota{Runs: 4, TokensPerMinute: 100_000, Tokens: 1_000}); err != nil {
		log.Fatal(err)
	}

	tenant := store.Tenant("acme")
	pot, err := budget.New(budget.Config{Ledger: tenant})
	if err != nil {
		log.Fatal(err)
	}
	model := script.New(script.Say("done").WithUsage(aycoder.Usage{Input: 700, Output: 50})).With(script.WithLoop(true))
	loop, err := aycoder.New(model, aycoder.WithModelMiddleware(pot.Model))
	if err != nil {
		log.Fatal(err)
	}
	agent := tenant.Agent(loop)
	for range 3 {
		for _, err := range agent.Run(ctx, aycoder.Input{Prompt: "review this"}) {
			if e, ok := errors.AsType[*budget.ExhaustedError](err); ok {
				fmt.Println(e)
			}
		}
	}
	// Output:
	// budget tenant acme today is used up: 1500 tokens of 1000 (limit set by the quota of the tenant)
}
