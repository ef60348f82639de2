package cli

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/aycoder/aycoder/policy"
	"github.com/aycoder/aycoder/workspace"
)

// The formats of -output, and the one of -input.
const (
	formatText   = "text"
	formatJSON   = "json"
	formatEvents = "events"
)

type options struct {
	prompt    string
	print     bool
	output    string
	input     string
	schema    string
	images    []string
	model     string
	baseURL   string
	mode      policy.Mode
	allow     []string
	maxTurns  string
	maxCost   string
	sandbox   bool
	last      bool   // go on with the newest session
	resume    string // the beginning of the id of a session
	noSession bool
	dir       string
	addDirs   []string
	roots     []workspace.Root // those of addDirs
	worktree  string           // the name of one for this session
	profile   string
	trust     bool
	plain     bool
	verbose   bool
	log       string // the name of a file
	version   bool
}

// A flagDef is a flag of the command line. The usage, the completion and docs/cli.md are made from the table of
// them.
type flagDef struct {
	name   string
	arg    string // what its value is called, or "" for a switch
	help   string
	values []string // those that it can have, or nil
	to     any      // where the value goes: a *string, a *bool, a *[]string, or a func(string) error
}

// flagTable lists the flags, which set options, in the order of the usage.
func flagTable(o *options) []flagDef {
	modes := []string{string(policy.Ask), string(policy.AcceptEdits), string(policy.Plan), string(policy.FullAuto)}
	return []flagDef{
		{"p", "", "print the answer and exit; activity goes to stderr, nothing is asked", nil, &o.print},
		{"output", "format", "with -p: text, json (one object) or events (one a line)", []string{formatText, formatJSON, formatEvents}, &o.output},
		{"input", "format", "events: take prompts, decisions and cancel as JSON lines from stdin", []string{formatEvents}, &o.input},
		{"schema", "file", "with -p: answer with a JSON document that fits the JSON Schema in the file", nil, &o.schema},
		{"i", "image", "show the model an image (PNG, JPEG, GIF, WebP); repeatable", nil, &o.images},
		{"model", "name", "provider/model, such as " + defaultModel + ", or demo", nil, &o.model},
		{"base-url", "address", "the address of the model's service", nil, &o.baseURL},
		{"mode", "name", "ask (before anything is changed), accept-edits, plan (only look), or full-auto (ask only about what is dangerous)", modes, func(s string) (err error) {
			o.mode, err = policy.ParseMode(s)
			return err
		}},
		{"allow", "rules", "calls that need no approval: edit_file, 'bash:go test *'; repeatable", nil, &o.allow},
		{"sandbox", "", "commands change files here only, and have no network unless asked for", nil, &o.sandbox},
		{"max-turns", "n", "answers of the model in one run (50)", nil, &o.maxTurns},
		{"max-cost", "usd", "what the conversation may cost, in US dollars", nil, &o.maxCost},
		{"c", "", "go on with the newest session of this directory", nil, &o.last},
		{"r", "id", "go on with this session; the beginning of its id is enough", nil, filled(&o.resume)},
		{"no-session", "", "keep nothing of the conversation on disk", nil, &o.noSession},
		{"C", "dir", "work in this directory; it may also stand before a command", nil, &o.dir},
		{"add-dir", "dir", "a further directory, whose files are name:/path; name=dir names it; repeatable", nil, &o.addDirs},
		{"w", "name", "work in a git worktree with a branch of that name, which can be kept or removed at the end", nil, filled(&o.worktree)},
		{"profile", "name", "settings of that profile of the configuration", nil, &o.profile},
		{"trust", "", "believe the instructions, skills and lessons of this directory, and show the model a map of its code", nil, &o.trust},
		{"plain", "", "print lines that never change, without symbols, as for a screen reader", nil, &o.plain},
		{"verbose", "", "show thinking, tokens and whole outputs", nil, &o.verbose},
		{"log", "file", "append to this file what happens: ids, names, sizes and times, no texts", nil, filled(&o.log)},
		{"version", "", "print the version and exit", nil, &o.version},
	}
}

// filled is for a flag that would have no effect without a value, as that of a variable that is not set.
func filled(to *string) func(string) error {
	return func(s string) error {
		if *to = s; s == "" {
			return errors.New("it is empty")
		}
		return nil
	}
}

// parse parses the arguments. Flags may precede, follow and interrupt the words of the prompt, up to "--".
func parse(args []string) (*options, error) {
	o := &options{output: formatText}
	words, err := parseFlags(flagTable(o), args)
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		err = fmt.Errorf("%w; aycoder -h shows the flags", err)
	}
	if err != nil {
		return nil, err
	}
	o.prompt = strings.Join(words, " ")
	return o, o.check()
}

// check reports flags that do not go together, and sets those that others imply.
func (o *options) check() error {
	if o.input == formatEvents && (o.output == formatText || o.output == formatEvents) {
		o.print, o.output = true, formatEvents
	}
	switch {
	case o.output != formatText && o.output != formatJSON && o.output != formatEvents:
		return fmt.Errorf("-output %s: there are text, json and events", o.output)
	case o.input != "" && o.input != formatEvents:
		return fmt.Errorf("-input %s: there is events", o.input)
	case o.input != "" && (o.output != formatEvents || o.schema != "" || o.prompt != "" || len(o.images) > 0):
		return errors.New("-input events goes without -output json, -schema, -i and a prompt: prompts come from stdin")
	case o.output != formatText && !o.print:
		return fmt.Errorf("-output %s goes with -p", o.output)
	case o.schema != "" && !o.print:
		return errors.New("-schema goes with -p")
	case o.last && o.resume != "":
		return errors.New("-c and -r name different sessions; give one of them")
	case o.noSession && (o.last || o.resume != ""):
		return errors.New("-no-session starts a conversation that is not kept; it does not go with -c or -r")
	}
	return nil
}

// enter goes to the directory of the flag, and gives the log and the further directories their whole paths.
func (o *options) enter() (err error) {
	if o.dir != "" {
		err = os.Chdir(o.dir)
	}
	if err == nil && o.log != "" {
		o.log, err = filepath.Abs(o.log)
	}
	if err != nil {
		return err
	}
	return o.nameDirs()
}

// nameDirs gives each further directory a name, its own or the one that the flag has for it.
func (o *options) nameDirs() error {
	for _, text := range o.addDirs {
		name, dir, named := strings.Cut(text, "=")
		if !named || name != workspace.RootName(name) {
			dir, named = text, false
		}
		abs, err := filepath.Abs(dir)
		if err != nil {
			return err
		}
		taken := func(r workspace.Root) bool { return strings.EqualFold(r.Name, name) }
		if !named {
			base := workspace.RootName(abs)
			name = base
			for n := 2; slices.ContainsFunc(o.roots, taken); n++ {
				name = base + "-" + strconv.Itoa(n)
			}
		}
		o.roots = append(o.roots, workspace.Root{Name: name, Dir: abs})
	}
	return nil
}

// parseFlags sets flags, in any position up to "--", and returns the other words.
func parseFlags(flags []flagDef, args []string) (words []string, err error) {
	fs := flag.NewFlagSet("", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	for _, f := range flags {
		switch to := f.to.(type) {
		case *string:
			fs.StringVar(to, f.name, *to, "")
		case *bool:
			fs.BoolVar(to, f.name, *to, "")
		case *[]string:
			fs.Func(f.name, "", func(s string) error { *to = append(*to, s); return nil })
		case func(string) error:
			if f.arg == "" {
				fs.BoolFunc(f.name, "", to)
				continue
			}
			fs.Func(f.name, "", to)
		}
	}
	for {
		if err := fs.Parse(args); errors.Is(err, flag.ErrHelp) {
			return nil, err
		} else if err != nil {
			return nil, errors.New(unknownFlag(err, flags))
		}
		rest := fs.Args()
		if n := len(args) - len(rest); n > 0 && args[n-1] == "--" || len(rest) == 0 {
			return append(words, rest...), nil
		}
		words, args = append(words, rest[0]), rest[1:]
	}
}

// unknownFlag returns the text of an error of package flag. That of a flag that there is not names those like it.
func unknownFlag(err error, flags []flagDef) string {
	name, unknown := strings.CutPrefix(err.Error(), "flag provided but not defined: -")
	if !unknown {
		return err.Error()
	}
	var names []string
	for _, f := range flags {
		names = append(names, f.name)
	}
	text := "there is no flag -" + name
	if near := similar(name, names); len(near) > 0 {
		text += " (did you mean -" + strings.Join(near, " or -") + "?)"
	}
	return text
}
