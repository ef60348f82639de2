package main

import (
	"context"
	"log"
	"os"
	"path/filepath"
)

func Example() {
	dir, err := os.MkdirTemp("", "tutorial-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("..", "testdata"))); err != nil {
		log.Fatal(err)
	}
	if err := run(context.Background(), dir, "", "Repair Sum."); err != nil {
		log.Fatal(err)
	}
	// Output:
	// I will read sum.go.
	// [read_file sum.go: 11 lines]
	// The total must start at 0.
	// [edit_file sum.go: denied]
	// I was not allowed to repair it.
}
