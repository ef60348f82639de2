package config_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/aycoder/aycoder/config"
)

// A file with four mistakes: all are found at once.
func Example() {
	dir, err := os.MkdirTemp("", "config")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	name := filepath.Join(dir, "config.toml")
	text := `
[models.main]
provider = "anthropic"
modle = "claude-sonnet-4-5"

[roles]
main = "mian"

[agent]
max_turns = "many"

[context]
max_tokens = 3_000_000
`
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		panic(err)
	}
	_, err = config.Load(config.WithUserFile(name), config.WithLookup(os.LookupEnv))
	if invalid, ok := errors.AsType[*config.InvalidError](err); ok {
		for _, d := range invalid.Diagnostics {
			d.File = filepath.Base(d.File)
			fmt.Println(d)
		}
	}
	// Output:
	// config.toml:4:1: error: models.main.modle is not a key; did you mean model?
	// config.toml:7:8: error: roles.main names "mian", which is not in models; did you mean "main"?
	// config.toml:10:1: error: agent.max_turns must be an integer and is a text; leave out the quotes
	// config.toml:13:14: warning: context.max_tokens is unreasonably large; the largest value that makes sense is 2000000
}

// The host asks the user about what a project brings, and looks for changes between two turns.
func ExampleReloader() {
	project, err := os.MkdirTemp("", "project")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(project)
	text := "[[hooks]]\nevent = \"Stop\"\ncommand = \"./done.sh\"\n"
	if err := os.Mkdir(filepath.Join(project, ".aycoder"), 0o700); err != nil {
		panic(err)
	}
	if err := os.WriteFile(filepath.Join(project, config.ProjectFile), []byte(text), 0o600); err != nil {
		panic(err)
	}
	trust := config.NewTrust(filepath.Join(project, "..", filepath.Base(project)+"-trust.json")) // the user's directory
	r, err := config.NewReloader(config.WithProject(project), config.WithTrust(trust))
	if err != nil {
		panic(err)
	}
	for _, q := range r.Current().Questions {
		fmt.Printf("%s in line %d: %q with %v\n", q.Kind, q.Line, q.Command, q.Variables)
	}
	fmt.Println("hooks:", len(r.Current().Config.Hooks), "changed:", r.Check() != nil)
	// Output:
	// settings in line 0: "" with []
	// hook in line 1: "./done.sh" with []
	// hooks: 0 changed: false
}

// A model that names no key has that of its provider's variable. Where it is not set, the user learns which role needs it.
func ExampleWithKeys() {
	l, err := config.Load(config.WithFlag("-model", "roles.main", "anthropic/claude-sonnet-4-5"),
		config.WithKeys(map[string][]string{"anthropic": {"ANTHROPIC_API_KEY"}}))
	if err != nil {
		panic(err)
	}
	for _, d := range l.Diagnostics {
		fmt.Println(d.Message)
	}
	// Output:
	// needs the variable ANTHROPIC_API_KEY, which is not set, for the role main (flag -model)
}
