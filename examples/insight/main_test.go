package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// project makes a repository with two packages and three commits.
func project(dir string) error {
	git := func(args ...string) error {
		cmd := exec.Command("git", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GIT_AUTHOR_NAME=Ann", "GIT_AUTHOR_EMAIL=ann@example.com", "GIT_COMMITTER_NAME=Ann", "GIT_COMMITTER_EMAIL=ann@example.com",
			"GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_DATE=2026-01-05T12:00:00Z", "GIT_COMMITTER_DATE=2026-01-05T12:00:00Z")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("git %s: %w: %s", args, err, out)
		}
		return nil
	}
	if err := git("init", "-q"); err != nil {
		return err
	}
	const parser = "package parse\n\nfunc Parse(s string) int {\n\tif s == \"\" {\n\t\treturn 0\n\t}\n\treturn len(s)\n}\n"
	for _, commit := range []struct{ subject, name, text string }{
		{"add the parser", "parse/parse.go", parser},
		{"add the program", "main.go", "package main\n\nimport \"example.com/m/parse\"\n\nfunc main() { println(parse.Parse(\"a\")) }\n"},
		{"fix the parser", "parse/parse.go", strings.Replace(parser, `""`, `"-"`, 1)},
	} {
		name := filepath.Join(dir, filepath.FromSlash(commit.name))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module example.com/m\n"), 0o644); err != nil {
			return err
		}
		if err := os.WriteFile(name, []byte(commit.text), 0o644); err != nil {
			return err
		}
		if err := git("add", "-A"); err != nil {
			return err
		}
		if err := git("commit", "-qm", commit.subject); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(dir, "load.py"), []byte("import yaml\nyaml.load(open('a'))\n"), 0o644)
}

func Example() {
	dir, err := os.MkdirTemp("", "insight")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	if err := project(dir); err != nil {
		fmt.Println(err)
		return
	}
	if err := run(context.Background(), []string{dir, "fix", "another", "crash", "in", "the", "parser"}, os.Stdout); err != nil {
		fmt.Println(err)
	}
	// Output:
	// commits 3, people 1
	// hotspot: parse/parse.go, 2 commits, complexity 2
	// hotspot: main.go, 1 commits, complexity 1
	// layer 0: ["parse"]
	// layer 1: ["."]
	// work in .: 1 new file is not in git: load.py
	// risk in load.py: yaml.load can run code; use yaml.safe_load: yaml.load(open('a'))
	// kind: fix
	// similar commits changed, as a median:
	//   lines    5
	//   files    1
	// files that it may touch:
	//   parse/parse.go (in 2 of the similar commits)
	// risk: medium
	//   no test uses parse/parse.go
}

func TestErrors(t *testing.T) {
	require.Error(t, run(t.Context(), nil, io.Discard))
	require.Error(t, run(t.Context(), []string{t.TempDir()}, io.Discard), "it is not a repository")
}
