package project_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/aycoder/aycoder/harness/project"
	"github.com/aycoder/aycoder/workspace"
)

// A project has a command in the form of another agent. The user calls it with an argument.
func Example() {
	dir, err := os.MkdirTemp("", "project")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	text := "---\ndescription: Reviews a file: carefully\nallowed-tools: Bash(git diff:*), Read\n---\n" +
		"Review $1. The state is: !`git status`\n"
	if err := os.MkdirAll(filepath.Join(dir, ".claude/commands"), 0o700); err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, ".claude/commands/review.md"), []byte(text), 0o600); err != nil {
		log.Fatal(err)
	}
	ws, err := workspace.Open(dir)
	if err != nil {
		log.Fatal(err)
	}
	defer ws.Close()

	lib, err := project.Load(context.Background(), project.Source{Files: ws})
	if err != nil {
		log.Fatal(err)
	}
	for _, w := range lib.Warnings {
		fmt.Println(w)
	}
	c := lib.Command("review")
	fmt.Println(c.Description, c.AllowedTools)
	fmt.Println(c.Scripts())
	prompt, err := c.Expand(context.Background(), "main.go", project.Expansion{Files: ws,
		Run: func(_ context.Context, script string) (string, error) {
			return "(the output of " + script + ", which the policy has allowed)", nil
		}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(prompt)
	// Output:
	// .claude/commands/review.md:2: the front matter is not valid YAML (mapping values are not allowed in this context), so it is read line by line
	// Reviews a file: carefully [{bash git diff *} {read_file }]
	// [{5 git status}]
	// Review main.go. The state is: (the output of git status, which the policy has allowed)
}
