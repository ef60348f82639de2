package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/aycoder/aycoder/config"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/internal/cli/line"
	"github.com/aycoder/aycoder/journal"
)

// An Extension is a part of the program that another module brings, such as a protocol or telemetry. Each
// field is optional.
type Extension struct {
	Subcommands []Subcommand
	Slash       []SlashCommand
	// Options are added to those of each runtime: servers that bring tools, middleware.
	Options []harness.Option
	// Asking returns options that ask the user. They are added after Options to the runtime of a conversation at a
	// terminal, and to no other.
	Asking func(*User) []harness.Option
	// Serve adds to the command serve.
	Serve *Serving
	// Forms are files of a project that the program reads besides its configuration.
	Forms []config.Form
}

// A Subcommand is what the program does if its first argument is the name of the command. If the program has a command of
// that name itself, the subcommand does those of its actions that are in Actions.
type Subcommand struct {
	Name    string
	Help    string // one line
	Actions []Action
	// Run does it. Its context ends with a signal. The program prints the error, and exits with 1, or with 2
	// if it is an [ErrUsage]; an interrupt has its own exit status.
	Run func(ctx context.Context, p Program, args []string) error
}

// An Action is what may be the first argument of a command.
type Action struct {
	Name, Args string // Args names what follows, such as "[text]"
	Help       string // one line
}

// Serving is what an extension adds to the command serve, such as metrics of what it serves.
type Serving struct {
	Flags []Flag // each has a value
	// Start is called before the server listens, with the values of the flags that were given, and returns options that each
	// runtime gets. The program calls end when the server has ended. The context ends with a signal.
	Start func(ctx context.Context, p Program, values map[string]string) (opts []harness.Option, end func() error, err error)
}

// A Flag is a flag of a command. Value is the name of its value, or "" for a switch.
type Flag struct{ Name, Help, Value string }

// A Program is what a [Subcommand] gets of the program that runs it.
type Program struct {
	In       io.Reader
	Out, Err io.Writer
	Getenv   func(string) string
	// Open makes a runtime for the current directory, as flags of the program say, with the configuration, the
	// extensions, and then the options. It keeps no conversation, and asks nothing: what the user has not trusted is off.
	// Without a model, the options must bring one. The caller calls end, which closes it.
	Open func(ctx context.Context, flags []string, opts ...harness.Option) (rt *harness.Runtime, end func(), err error)
	// Converse is like Open, with a conversation: a new one, or the one that -c or -r names. It is kept where the program
	// keeps its own.
	Converse func(ctx context.Context, flags []string, opts ...harness.Option) (rt *harness.Runtime, end func(), err error)
	// Store returns where the program keeps its conversations with these flags.
	Store func(flags []string) (journal.Store, error)
	// Models returns the models that /model offers with a configuration, with the name for [harness.Runtime.SetModel] and a
	// description.
	Models func(*config.Loaded) []line.Candidate
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

// program returns what a subcommand gets.
func (a *app) program() Program {
	return Program{In: a.stdin, Out: a.stdout, Err: a.stderr, Getenv: a.getenv, Open: a.openFor, Converse: a.converseFor, Store: a.storeFor,
		Models: func(l *config.Loaded) []line.Candidate { return a.choices(l, "") }}
}

// storeFor returns the store of the conversations for a subcommand of an extension.
func (a *app) storeFor(flags []string) (journal.Store, error) {
	o, err := parse(flags)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUsage, err)
	}
	st, err := a.load(o)
	if err != nil { // each runtime will say it
		st = &settings{}
	}
	p := a.place(o, st)
	if p.note != "" {
		a.tell(clean(p.note))
	}
	return p.store, nil
}

// openFor makes a runtime for a subcommand of an extension.
func (a *app) openFor(ctx context.Context, flags []string, more ...harness.Option) (*harness.Runtime, func(), error) {
	return a.runtimeFor(flags, func(s *session, o *options, st *settings) error {
		if o.last || o.resume != "" {
			return errNoConversation
		}
		opts, err := s.options(ctx, o, st)
		if err != nil {
			return err
		}
		return s.build(ctx, ".", o, slices.Concat(opts, a.extra(), more))
	})
}

// converseFor makes a runtime with a conversation for a subcommand of an extension.
func (a *app) converseFor(ctx context.Context, flags []string, more ...harness.Option) (*harness.Runtime, func(), error) {
	return a.runtimeFor(flags, func(s *session, o *options, st *settings) error {
		if st.model == "" {
			return &noModelError{st.why}
		}
		return a.openModel(ctx, s, o, st, more...)
	})
}

var errNoConversation = fmt.Errorf("%w: there is no conversation here", ErrUsage)

// runtimeFor opens a session with the settings of flags.
func (a *app) runtimeFor(flags []string, open func(s *session, o *options, st *settings) error) (*harness.Runtime, func(), error) {
	o, err := parse(flags)
	switch {
	case err != nil:
		return nil, nil, fmt.Errorf("%w: %w", ErrUsage, err)
	case o.prompt != "" || o.print || o.worktree != "" || o.model == demoModel:
		return nil, nil, errNoConversation
	}
	if err := o.enter(); err != nil {
		return nil, nil, err
	}
	st, err := a.load(o)
	if err != nil {
		return nil, nil, err
	}
	a.choose(&options{model: o.model, print: true}, st)
	s := &session{}
	if err := open(s, o, st); err != nil {
		s.close()
		return nil, nil, err
	}
	return s.Runtime, func() {
		a.prune(st)
		s.close()
	}, nil
}

// forms returns the files of a project that the program reads besides its configuration.
func (a *app) forms() []config.Form {
	forms := harness.HookForms()
	for _, e := range a.extensions {
		forms = append(forms, e.Forms...)
	}
	return forms
}

// extra returns the options that the chat and the extensions add to a runtime.
func (a *app) extra() (opts []harness.Option) {
	for _, e := range a.extensions {
		opts = append(opts, e.Options...)
	}
	if a.asks != nil {
		opts = append(append(opts, a.asks.conflicts(), a.asks.questions()), a.asks.options(a.extensions)...)
	}
	return opts
}
