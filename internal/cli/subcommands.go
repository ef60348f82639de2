package cli

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/aycoder/aycoder/internal/cli/line"
	"github.com/aycoder/aycoder/internal/cli/tty"
)

// A subcommand is what the program does if its first argument is the name of the command. The usage, the completion
// and docs/cli.md are made from the table of them.
type subcommand struct {
	name, help string
	actions    []Action // what the first argument may be; the first one is what the command does without
	flags      []Flag   // besides -json and -h
	run        func(ctx context.Context, c *call) error
	raw        bool // the command reads its flags itself
	more       []Action
	extend     func(ctx context.Context, k *call) error // runs one of more, which reads its flags itself
}

// A call is what a command gets of the program that runs it.
type call struct {
	*app
	out    io.Writer
	action string
	args   []string // behind the action
	json   bool
	on     map[string]bool // the other switches
	values map[string]string
	lists  map[string][]string // all values of a flag, the last one of which values has
}

// subcommands lists all commands, those of extensions at the end.
func (a *app) subcommands() []subcommand {
	all := []subcommand{
		{"models", "the models that the catalogue knows, and which of them have a key", []Action{
			{"list", "[text]", "those with the text in their names"},
		}, nil, models, false, nil, nil},
		{"sessions", "conversations: list, show, search, export, import, fork, rename, delete, trim", []Action{
			{"list", "", "those of this directory, the newest first"},
			{"show", "id", "what was said"},
			{"replay", "id [speed]", "what was said and done, message by message, at once or with its pauses divided by the speed"},
			{"diff", "id id", "what differs between two: words, calls, files, costs"},
			{"search", "words", "the conversations with these words"},
			{"export", "id [json|md|html]", "prints it as a document"},
			{"import", "file", "makes a session of an export in JSON, or of a session of Claude Code or Codex"},
			{"fork", "id", "makes another session that begins as this one is now"},
			{"rename", "id title", "gives it a title"},
			{"delete", "id", "removes it with its versions of files"},
			{"trim", "id", "removes versions of files, and records, that nothing needs any more"},
		}, []Flag{{Name: "all", Help: "those of all directories"}}, sessionsCommand, false, nil, nil},
		{"usage", "what conversations have used: tokens, costs, time, tools", []Action{
			{"report", "", "all figures of the conversations of this directory"},
			{"by", "day|week|month|model|project|session|task|tool|agent", "the figures by one of these"},
		}, usageFlags, usageCommand, false, nil, nil},
		{"code", "what this repository looks like: growth, languages, hotspots, people", []Action{
			{"report", "", "all figures, from the history of git and the files of the last commit"},
			{"owners", "file", "who has written the lines of a file that live"},
			{"structure", "", "cycles and layers of directories, and exported names that no other directory uses"},
			{"clones", "", "Go code that stands in several places, with other names and values"},
		}, codeFlags, codeCommand, false, nil, nil},
		{"suggest", "what could be done next here: open work, vulnerable dependencies, secrets, missing tests", []Action{
			{"list", "[kind]", "all suggestions, or those of a kind: secret, advisory, work, risk, check, tests, docs, todo, simpler"},
			{"show", "id", "one suggestion, with the change that would do it, where there is a safe one"},
			{"dismiss", "id words", "hides a suggestion from now on, for the reason that the words say"},
			{"restore", "id", "shows it again"},
		}, suggestFlags, suggestCommand, false, nil, nil},
		{"forecast", "what a task may take, by what was done before", []Action{
			{"task", "words", "kind, time and cost of similar tasks, files that it may touch, and what is risky about them"},
		}, forecastFlags, forecastCommand, false, nil, nil},
		{"config", "the configuration in force, and its mistakes", []Action{
			{"show", "", "each value with the place that it comes from"},
			{"check", "", "all mistakes, with file and line"},
			{"schema", "", "a JSON Schema of the files, for editors"},
		}, nil, configCommand, false, nil, nil},
		{"doctor", "checks what the program needs", nil, []Flag{{Name: "online", Help: "ask the provider, too"}}, doctor, false, nil, nil},
		{"serve", "serves the sessions of this directory over HTTP, with a page", []Action{
			{"start", "[address [name...]]", "listens on the address (" + serveAddress + "), for requests to these names"},
		}, a.serveFlags(), serve, false, nil, nil},
		{"runner", "offers this directory to a server with an agent, which it dials, so that this machine needs no open port", nil, []Flag{
			{"server", "the address of aycoder serve -runner, such as https://agent.example.com", "URL"},
			{"token-env", "the variable with the token that the server knows; without this flag " + runnerToken, "NAME"},
			{Name: "sandbox", Help: "confine commands, and refuse them if that is impossible"},
			{Name: "files-only", Help: "run no commands"},
			{Name: "plain-http", Help: "allow an http address of another machine: everybody on the way sees the token"},
		}, offer, false, nil, nil},
		{"plugin", "plugins: install, trust, update, remove", pluginActions(), nil, plugins, false, nil, nil},
		{"completion", "prints a completion for a shell", []Action{
			{"bash", "", "source <(aycoder completion bash)"},
			{"zsh", "", "source <(aycoder completion zsh)"},
			{"fish", "", "aycoder completion fish | source"},
		}, nil, completion, false, nil, nil},
	}
	for _, e := range a.extensions {
		for _, c := range e.Subcommands {
			run := func(ctx context.Context, k *call) error { return c.Run(ctx, a.program(), k.args) }
			if i := slices.IndexFunc(all, func(x subcommand) bool { return x.name == c.Name }); i >= 0 {
				all[i].more, all[i].extend = c.Actions, run
				continue
			}
			all = append(all, subcommand{name: c.Name, help: c.Help, raw: true, run: run})
		}
	}
	return all
}

// serveFlags are the flags of the command serve, with those that extensions bring.
func (a *app) serveFlags() []Flag {
	all := []Flag{
		{"runner", "work in the directory of the runner of this name, and not in this one", "NAME"},
		{Name: "runner-texts", Help: "use the instructions, skills, commands and agents of the runner's project"},
	}
	for _, e := range a.extensions {
		if e.Serve != nil {
			all = append(all, e.Serve.Flags...)
		}
	}
	return all
}

// subcommand returns the command of a name.
func (a *app) subcommand(name string) (subcommand, bool) {
	return first(a.subcommands(), func(c subcommand) bool { return c.name == name })
}

// first returns the first item of a list that fits.
func first[T any](list []T, fits func(T) bool) (found T, ok bool) {
	if i := slices.IndexFunc(list, fits); i >= 0 {
		return list[i], true
	}
	return found, false
}

// call runs a command, and returns the exit code.
func (a *app) call(c subcommand, args []string) int {
	ctx, stop := a.withSignals()
	defer stop()
	k := &call{app: a, out: a.stdout, args: args}
	if len(args) > 0 && slices.ContainsFunc(c.more, func(x Action) bool { return x.Name == args[0] }) {
		c.raw, c.run = true, c.extend
	}
	err := k.parse(c)
	if err == nil {
		err = c.run(ctx, k)
	}
	if errors.Is(err, flag.ErrHelp) {
		return a.say(c.usage(columnsOf(a.stdout)))
	}
	if sig, ok := errors.AsType[*signalled](context.Cause(ctx)); ok {
		return exitCode(sig.sig)
	}
	if err == nil {
		return exitOK
	}
	if is[*brokenError](err) {
		return a.unwritten(err)
	}
	return a.failed(err)
}

// attended reports whether a user in front of a terminal reads the output, and can be asked.
func (k *call) attended() bool {
	return k.out == k.stdout && isTerminal(k.stdin) && isTerminal(k.stdout)
}

// ask asks a user who attends. As in a conversation, no line that was begun before the question answers it.
func (k *call) ask(ctx context.Context, what string) (yes bool, err error) {
	screen, keys, err := tty.Open(k.stdin, k.stdout, tty.Options{Plain: true})
	if err != nil {
		return false, err
	}
	defer screen.Close()
	signals := make(chan os.Signal, 1)
	defer context.AfterFunc(ctx, func() { signals <- os.Interrupt })()
	c := &chat{ui: &ui{view: newView(&paper{Screen: screen}, false), keys: keys, signals: signals, editor: line.New(line.Options{})}}
	key, err := c.answerKey(what, yesNo)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return key == 'y', err
}

// parse reads the flags, and the action.
func (k *call) parse(c subcommand) error {
	if c.raw {
		return nil
	}
	k.on, k.values, k.lists = map[string]bool{}, map[string]string{}, map[string][]string{}
	flags := []flagDef{{name: "json", to: &k.json}}
	for _, f := range c.flags {
		to := func(v string) error {
			k.values[f.Name], k.lists[f.Name] = v, append(k.lists[f.Name], v)
			return nil
		}
		if f.Value == "" {
			to = func(v string) (err error) { k.on[f.Name], err = strconv.ParseBool(v); return err }
		}
		flags = append(flags, flagDef{name: f.Name, arg: f.Value, to: to})
	}
	words, err := parseFlags(flags, k.args)
	switch {
	case errors.Is(err, flag.ErrHelp) || len(words) > 0 && words[0] == "help":
		return flag.ErrHelp
	case err != nil:
		return c.wrong(err.Error())
	case k.json && k.on["html"]:
		return c.wrong("-html and -json exclude each other")
	case len(c.actions) == 0 && len(words) > 0:
		return c.wrong("it takes no arguments")
	case len(c.actions) == 0:
		return nil
	case len(words) == 0:
		k.action, k.args = c.actions[0].Name, nil
		return nil
	}
	i := slices.IndexFunc(c.actions, func(x Action) bool { return x.Name == words[0] })
	switch {
	case i >= 0:
		words = words[1:]
	case len(c.actions) > 1:
		return c.wrong(fmt.Sprintf("there is no %q", words[0]))
	default: // the only action need not be named
		i = 0
	}
	k.action, k.args = c.actions[i].Name, words
	return k.count(c, c.actions[i])
}

// count checks the number of the arguments of an action: those in brackets may be left out, and a text takes all
// words.
func (k *call) count(c subcommand, x Action) error {
	want := strings.Fields(x.Args)
	least := slices.IndexFunc(append(want, "["), func(s string) bool { return s[0] == '[' })
	open := len(want) > 0 && slices.Contains([]string{"words", "title"}, want[len(want)-1])
	if len(k.args) < least || len(k.args) > len(want) && !open {
		return c.wrong("it is used so: aycoder " + strings.TrimSpace(c.name+" "+x.Name+" "+x.Args))
	}
	return nil
}

func (c subcommand) wrong(what string) error {
	return fmt.Errorf("%w: %s; aycoder %s -h tells more", ErrUsage, what, c.name)
}

// usage returns the text of -h.
func (c subcommand) usage(width int) string {
	var b strings.Builder
	form := "usage: aycoder " + c.name + " [flags]"
	if len(c.actions) > 0 {
		form = "usage: aycoder " + c.name + " [command] [flags]"
	}
	b.WriteString(form + "\n\n" + c.help + "\n\n")
	for _, x := range slices.Concat(c.actions, c.more) {
		entry(&b, strings.TrimSpace(x.Name+" "+x.Args), x.Help)
	}
	if c.raw { // the flags are those of the extension
		return shaped(strings.TrimRight(b.String(), "\n")+"\n", width)
	}
	b.WriteString("\nflags:\n")
	for _, f := range c.flags {
		entry(&b, strings.TrimSpace("-"+f.Name+" "+f.Value), f.Help)
	}
	entry(&b, "-json", "print JSON")
	return shaped(b.String(), width)
}

// arg returns an argument behind the action, or "".
func (k *call) arg(n int) string {
	if n < len(k.args) {
		return k.args[n]
	}
	return ""
}

// brokenError reports that the output could not be written.
type brokenError struct{ error }

// Unwrap returns the cause.
func (e *brokenError) Unwrap() error { return e.error }

// print writes a value as JSON with -json, and else as text.
func (k *call) print(value any, text func(w io.Writer)) error {
	var b strings.Builder
	if k.json {
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		if err := enc.Encode(value); err != nil {
			return err
		}
	} else {
		text(&b)
	}
	return k.write(safe(k.json, b.String()))
}

// printList prints a list as JSON with -json, and else a line about each, or in place of an empty list what none says.
func printList[T any](k *call, list []T, line func(*T) string, none string) error {
	return k.print(append([]T{}, list...), func(w io.Writer) {
		for i := range list {
			fmt.Fprintln(w, line(&list[i]))
		}
		if len(list) == 0 && none != "" {
			fmt.Fprintln(w, none)
		}
	})
}

// A report is written in several forms.
type report interface {
	WriteText(w io.Writer) error
	WriteHTML(w io.Writer) error
}

// printReport prints a report as JSON with -json, as a page with -html, and else as text.
func (k *call) printReport(r report) error {
	switch {
	case k.json:
		return k.print(r, nil)
	case k.on["html"]:
		return k.writeBy(r.WriteHTML)
	}
	return k.writeBy(r.WriteText)
}

// writeBy writes the text that a function writes.
func (k *call) writeBy(f func(w io.Writer) error) error {
	var b strings.Builder
	if err := f(&b); err != nil {
		return err
	}
	return k.write(clean(b.String()))
}

// write writes text.
func (k *call) write(text string) error {
	if _, err := io.WriteString(k.out, text); err != nil {
		return &brokenError{err}
	}
	return nil
}

// safe makes text safe for a terminal.
func safe(isJSON bool, text string) string {
	if !isJSON {
		return clean(text)
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		body, end := strings.CutSuffix(line, "\n")
		b.Write(escapeJSON([]byte(body)))
		if end {
			b.WriteString("\n")
		}
	}
	return b.String()
}
