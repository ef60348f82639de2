package journal_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/aycoder/aycoder/journal"
)

// A journal has one writer at a time, and gives back what it has acknowledged.
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
	j, err := store.Create(ctx, "first")
	if err != nil {
		log.Fatal(err)
	}
	text := []byte("the content of a file")
	if err := j.Put(ctx, journal.HashOf(text), text); err != nil {
		log.Fatal(err)
	}
	if err := j.Append(ctx, true, []byte(`{"n":1}`), []byte(`{"n":2}`)); err != nil {
		log.Fatal(err)
	}
	_, err = store.Open(ctx, "first", true)
	_, busy := errors.AsType[*journal.BusyError](err)
	fmt.Println("busy:", busy)
	if err := j.Close(); err != nil {
		log.Fatal(err)
	}

	j, err = store.Open(ctx, "first", false)
	if err != nil {
		log.Fatal(err)
	}
	defer j.Close()
	for record, err := range j.Records(ctx) {
		fmt.Println(string(record), err)
	}
	data, err := j.Get(ctx, journal.HashOf(text))
	fmt.Println(string(data), err)
	// Output:
	// busy: true
	// {"n":1} <nil>
	// {"n":2} <nil>
	// the content of a file <nil>
}
