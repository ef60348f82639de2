package cli

import (
	"errors"
	"flag"
	"fmt"
	"io"
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
	set    func(o *options, value string) error
}

// flagTable lists the flags in the order of the usage.
func flagTable() []flagDef {
	modes := []string{string(policy.Ask), string(policy.AcceptEdits), string(policy.Plan), string(policy.FullAuto)}
	return []flagDef{
		{"p", "", "print the answer and exit; activity goes to stderr, nothing is asked", nil, onOff(func(o *options) *bool { return &o.print })},
		{"output", "format", "with -p: text, json (one object) or events (one a line)", []string{formatText, formatJSON, formatEvents}, text(func(o *options) *string { return &o.output })},
		{"input", "format", "events: take prompts, decisions and cancel as JSON lines from stdin", []string{formatEvents}, text(func(o *options) *string { return &o.input })},
		{"schema", "file", "with -p: answer with a JSON document that fits the JSON Schema in the file", nil, text(func(o *options) *string { return &o.schema })},
		{"i", "image", "show the model an image (PNG, JPEG, GIF, WebP); repeatable", nil, list(func(o *options) *[]string { return &o.images })},
		{"model", "name", "provider/model, such as " + defaultModel + ", or demo", nil, text(func(o *options) *string { return &o.model })},
		{"base-url", "address", "the address of the model's service", nil, text(func(o *options) *string { return &o.baseURL })},
		{"mode", "name", "ask (before anything is changed), accept-edits, plan (only look), or full-auto (ask only about what is dangerous)", modes, func(o *options, s string) (err error) {
			o.mode, err = policy.ParseMode(s)
			return err
		}},
		{"allow", "rules", "calls that need no approval: edit_file, 'bash:go test *'; repeatable", nil, list(func(o *options) *[]string { return &o.allow })},
		{"sandbox", "", "commands change files here only, and have no network unless asked for", nil, onOff(func(o *options) *bool { return &o.sandbox })},
		{"max-turns", "n", "answers of the model in one run (50)", nil, text(func(o *options) *string { return &o.maxTurns })},
		{"max-cost", "usd", "what the conversation may cost, in US dollars", nil, text(func(o *options) *string { return &o.maxCost })},
		{"c", "", "go on with the newest session of this directory", nil, onOff(func(o *options) *bool { return &o.last })},
		{"r", "id", "go on with this session; the beginning of its id is enough", nil, filled(func(o *options) *string { return &o.resume })},
		{"no-session", "", "keep nothing of the conversation on disk", nil, onOff(func(o *options) *bool { return &o.noSession })},
		{"C", "dir", "work in this directory", nil, text(func(o *options) *string { return &o.dir })},
		{"add-dir", "dir", "a further directory, whose files are name:/path; name=dir names it; repeatable", nil, list(func(o *options) *[]string { return &o.addDirs })},
		{"w", "name", "work in a git worktree with a branch of that name, which can be kept or removed at the end", nil, filled(func(o *options) *string { return &o.worktree })},
		{"profile", "name", "settings of that profile of the configuration", nil, text(func(o *options) *string { return &o.profile })},
		{"trust", "", "believe the instructions, skills and lessons of this directory, and show the model a map of its code", nil, onOff(func(o *options) *bool { return &o.trust })},
		{"plain", "", "print lines that never change, without symbols, as for a screen reader", nil, onOff(func(o *options) *bool { return &o.plain })},
		{"verbose", "", "show thinking, tokens and whole outputs", nil, onOff(func(o *options) *bool { return &o.verbose })},
		{"log", "file", "append to this file what happens: ids, names, sizes and times, no texts", nil, filled(func(o *options) *string { return &o.log })},
		{"version", "", "print the version and exit", nil, onOff(func(o *options) *bool { return &o.version })},
	}
}

func text(field func(*options) *string) func(*options, string) error {
	return func(o *options, s string) error {
		*field(o) = s
		return nil
	}
}

// filled is text for a flag that would have no effect without a value, as that of a variable that is not set.
func filled(field func(*options) *string) func(*options, string) error {
	return func(o *options, s string) error {
		if *field(o) = s; s == "" {
			return errors.New("it is empty")
		}
		return nil
	}
}

func list(field func(*options) *[]string) func(*options, string) error {
	return func(o *options, s string) error {
		*field(o) = append(*field(o), s)
		return nil
	}
}

func onOff(field func(*options) *bool) func(*options, string) error {
	return func(o *options, s string) (err error) {
		*field(o), err = strconv.ParseBool(s)
		return err
	}
}

// parse parses the arguments. Flags may precede, follow and interrupt the words of the prompt, up to "--".
func parse(args []string) (*options, error) {
	o := &options{output: formatText}
	fs := flag.NewFlagSet("aycoder", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	for _, f := range flagTable() {
		set := func(s string) error { return f.set(o, s) }
		if f.arg == "" {
			fs.BoolFunc(f.name, "", set)
			continue
		}
		fs.Func(f.name, "", set)
	}
	words, err := interspersed(fs, args)
	if errors.Is(err, flag.ErrHelp) {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("%s; aycoder -h shows the flags", unknownFlag(err, fs))
	}
	o.prompt = strings.Join(words, " ")
	return o, o.check()
}

// check reports flags that do not go together, and sets those that others imply.
func (o *options) check() error {
	if o.input == formatEvents && o.output == formatText {
		o.print, o.output = true, formatEvents
	}
	switch {
	case o.output != formatText && o.output != formatJSON && o.output != formatEvents:
		return fmt.Errorf("-output %s: there are text, json and events", o.output)
	case o.input != "" && o.input != formatEvents:
		return fmt.Errorf("-input %s: there is events", o.input)
	case o.input != "" && (o.output != formatEvents || o.schema != "" || o.prompt != "" || len(o.images) > 0):
		return errors.New("-input events goes without -output, -schema, -i and a prompt: prompts come from stdin")
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

// interspersed parses flags in any position, and returns the other words.
func interspersed(fs *flag.FlagSet, args []string) ([]string, error) {
	var words []string
	for {
		if err := fs.Parse(args); err != nil {
			return nil, err
		}
		rest := fs.Args()
		if n := len(args) - len(rest); n > 0 && args[n-1] == "--" || len(rest) == 0 {
			return append(words, rest...), nil
		}
		words, args = append(words, rest[0]), rest[1:]
	}
}

// unknownFlag returns the text of an error of package flag. That of a flag that there is not names those like it.
func unknownFlag(err error, fs *flag.FlagSet) string {
	name, unknown := strings.CutPrefix(err.Error(), "flag provided but not defined: -")
	if !unknown {
		return err.Error()
	}
	var names []string
	fs.VisitAll(func(f *flag.Flag) { names = append(names, f.Name) })
	text := "there is no flag -" + name
	if near := similar(name, names); len(near) > 0 {
		text += " (did you mean -" + strings.Join(near, " or -") + "?)"
	}
	return text
}
