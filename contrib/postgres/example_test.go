package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/aycoder/aycoder/contrib/postgres"
	"github.com/aycoder/aycoder/journal"
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
