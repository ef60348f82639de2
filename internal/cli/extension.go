package cli

import (
	"context"
	"errors"
	"io"

	"github.com/aycoder/aycoder/harness"
)

// An Extension is a part of the program that another module brings, such as a protocol or telemetry. Each
// field is optional.
type Extension struct {
	Subcommands []Subcommand
	Slash       []SlashCommand
	// Options are added to those of each runtime: servers that bring tools, middleware.
	Options []harness.Option
}

// A Subcommand is what the program does if its first argument is the name of the command.
type Subcommand struct {
	Name string
	Help string // one line
	// Run does it. Its context ends with a signal. The program prints the error, and exits with 1, or with 2
	// if it is an [ErrUsage]; an interrupt has its own exit status.
	Run func(ctx context.Context, p Program, args []string) error
}

// A Program is what a [Subcommand] gets of the program that runs it.
type Program struct {
	In       io.Reader
	Out, Err io.Writer
	Getenv   func(string) string
}

// A SlashCommand is a line such as "/mcp list" at the prompt.
type SlashCommand struct {
	Name string // without the slash
	Help string // one line
	// Run does it with the words behind the name, and returns text to show.
	Run func(ctx context.Context, rt *harness.Runtime, words string) (string, error)
}

// ErrUsage is the error of a [Subcommand] that was called in the wrong way.
var ErrUsage = errors.New("wrong usage")

// extra returns the options that the chat and the extensions add to a runtime.
func (a *app) extra() (opts []harness.Option) {
	if a.conflicts != nil {
		opts = append(opts, a.conflicts.option())
	}
	for _, e := range a.extensions {
		opts = append(opts, e.Options...)
	}
	return opts
}
