package linked_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/aycoder/aycoder/config"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/harness/linked"
	"github.com/aycoder/aycoder/providers/script"
)

// ExampleCode gives the model a map of the project, and the tools of the code graph.
func ExampleCode() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	for name, text := range map[string]string{"go.mod": "module example.org/shop\n", "main.go": "package main\n\nfunc main() {}\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			fmt.Println(err)
			return
		}
	}
	loaded, err := config.Load()
	if err != nil {
		fmt.Println(err)
		return
	}
	settings := loaded.Config.Settings
	settings.Tools.Code = []config.Code{"graph"}
	rt, err := harness.New(context.Background(), dir, harness.WithSettings(settings), harness.WithClient(script.New()),
		harness.WithAmbient(harness.Map), harness.WithCode(linked.Code(nil, time.Minute, nil)))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rt.Close()
	for _, s := range rt.Sections {
		if s.Name == "map" {
			fmt.Println(s.Text)
		}
	}
	for _, t := range rt.Tools {
		if name := t.Spec().Name; name == "dependents" || name == "find_file" {
			fmt.Println(name)
		}
	}
	// Output:
	// Projects: Go module example.org/shop
	// Source files: 1 go
	// Programs: main.go
	// Commands found: go build ./...; go test ./...
	// The directory contains: go.mod, main.go.
	// dependents
	// find_file
}
