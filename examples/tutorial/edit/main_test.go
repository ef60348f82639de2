package main

import (
	"context"
	"io"
	"log"
	"os"
	"path/filepath"
	"strings"
	"testing/iotest"
)

// typed returns what a user types, which the terminal shows as it is read.
func typed(lines string) io.Reader {
	return iotest.OneByteReader(io.TeeReader(strings.NewReader(lines), os.Stdout))
}

// practice returns a copy of the practice repository.
func practice() (dir string, remove func()) {
	dir, err := os.MkdirTemp("", "tutorial-")
	if err != nil {
		log.Fatal(err)
	}
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("..", "testdata"))); err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module example.com/demo\n\ngo 1.26\n"), 0o644); err != nil {
		log.Fatal(err)
	}
	return dir, func() { os.RemoveAll(dir) }
}

func Example() {
	dir, remove := practice()
	defer remove()
	if err := run(context.Background(), typed("y\ny\n"), dir, "", "Repair Sum."); err != nil {
		log.Fatal(err)
	}
	// Output:
	// I will read sum.go.
	// [read_file sum.go: 11 lines]
	// The total must start at 0.
	// edit_file sum.go
	// diff --git a/sum.go b/sum.go
	// --- a/sum.go
	// +++ b/sum.go
	// @@ -3,7 +3,7 @@
	//  // Sum adds numbers.
	//  // The sum of no numbers is 0.
	//  func Sum(numbers ...int) int {
	// -	total := 1
	// +	total := 0
	//  	for _, n := range numbers {
	//  		total += n
	//  	}
	// Allow this? (y/n) y
	// [edit_file sum.go: +1 −1]
	// bash go test ./...
	// in .: go test ./...
	// Allow this? (y/n) y
	// [bash go test ./...: exit 0]
	// Repaired and tested.
}

func Example_no() {
	dir, remove := practice()
	defer remove()
	if err := run(context.Background(), typed("n\n"), dir, "", "Repair Sum."); err != nil {
		log.Fatal(err)
	}
	// Output:
	// I will read sum.go.
	// [read_file sum.go: 11 lines]
	// The total must start at 0.
	// edit_file sum.go
	// diff --git a/sum.go b/sum.go
	// --- a/sum.go
	// +++ b/sum.go
	// @@ -3,7 +3,7 @@
	//  // Sum adds numbers.
	//  // The sum of no numbers is 0.
	//  func Sum(numbers ...int) int {
	// -	total := 1
	// +	total := 0
	//  	for _, n := range numbers {
	//  		total += n
	//  	}
	// Allow this? (y/n) n
	// [edit_file sum.go: denied]
	// I was not allowed to repair it.
}
