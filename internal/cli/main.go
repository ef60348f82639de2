package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/term"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/config"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/internal/cli/line"
	"github.com/aycoder/aycoder/internal/cli/tty"
	"github.com/aycoder/aycoder/policy"
	sessions "github.com/aycoder/aycoder/session"
)

// The exit codes.
const (
	exitOK          = 0
	exitError       = 1
	exitUsage       = 2 // invalid flags, or no model available
	exitLimit       = 3
	exitApproval    = 4 // a call needed an approval, and there was no user to ask
	exitInterrupted = 130
	exitPipe        = 141 // the reader of the output has gone
	exitTerminated  = 143
)

const (
	keyEnv       = "ANTHROPIC_API_KEY"
	baseURLEnv   = "ANTHROPIC_BASE_URL"
	defaultModel = "anthropic/claude-sonnet-4-5"
	demoModel    = "demo"
	maxStdin     = 4 << 20 // bytes that are appended to the prompt
)

var errNoModel = errors.New("no model: set " + keyEnv + ", name another provider's with -model, or see the demo with -model demo")

// Main runs the program of the process, with the arguments behind its name, and returns the exit
// status. Extensions add what this module does not link. It may be called once in a process.
func Main(args []string, extensions ...Extension) int {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	// A write to a closed pipe is then an error, and running tools are stopped.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	a := &app{
		stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr,
		getenv: os.Getenv, signals: signals, extensions: extensions,
	}
	return a.run(args)
}

// An app is the program and its environment.
type app struct {
	stdin, stdout, stderr *os.File
	getenv                func(string) string
	signals               chan os.Signal
	extensions            []Extension
	conflicts             conflicts // of the chat, or nil
}

// run does everything and returns the exit code. It cleans up before it returns.
func (a *app) run(args []string) int {
	if len(args) > 0 {
		if run, ok := a.subcommand(args[0]); ok {
			return run(args[1:])
		}
	}
	o, err := parse(args, a.stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		fmt.Fprintln(a.stderr, "aycoder:", clean(err.Error()))
		return exitUsage
	}
	// Without a terminal at both ends there is no user to talk to.
	o.print = o.print || !isTerminal(a.stdin) || !isTerminal(a.stdout)
	if o.print {
		return a.print(o, len(args) == 0)
	}
	return a.chat(o)
}

// failed tells why the program does not work, and returns the exit code.
func (a *app) failed(err error) int {
	fmt.Fprintln(a.stderr, "aycoder:", explain(err))
	return usageOr(err)
}

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

func usageOr(err error) int {
	_, option := errors.AsType[*aycoder.ConfigError](err)
	_, invalid := errors.AsType[*config.InvalidError](err)
	_, auth := errors.AsType[*aycoder.AuthError](err) // without a key no request was sent yet
	if option || invalid || auth || errors.Is(err, errNoModel) {
		return exitUsage
	}
	return exitError
}

// A session is an agent with the directory in which it works.
type session struct {
	*harness.Runtime
	dir     string
	demo    bool
	closers []func() error
}

// open makes the agent.
func (a *app) open(ctx context.Context, o *options, st *settings) (*session, error) {
	s := &session{}
	var err error
	switch st.model {
	case "":
		err = errNoModel
	case demoModel:
		err = a.openDemo(ctx, s, o)
	default:
		err = s.openModel(ctx, o, st, a.extra())
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// openModel makes a session with a model that the settings name. The options of extensions come last.
func (s *session) openModel(ctx context.Context, o *options, st *settings, extra []harness.Option) error {
	opts, err := s.options(st)
	if err != nil {
		return err
	}
	if err := s.build(ctx, ".", o, append(opts, extra...)); err != nil {
		return err
	}
	if !st.texts {
		s.Notify("trust", "instructions, skills and lessons of this project are off: you have not trusted them (see -trust)")
	}
	return nil
}

// options returns what the settings say, and opens the user's directory.
func (s *session) options(st *settings) ([]harness.Option, error) {
	opts, err := st.options()
	if err != nil {
		return nil, err
	}
	own, err := st.own()
	if err != nil {
		return nil, err
	}
	if own != nil {
		s.closers = append(s.closers, own.Close)
		opts = append(opts, harness.WithUserFiles(own))
	}
	return append(opts, st.saved()...), nil
}

// model returns the name of the model, which a change of the configuration may exchange.
func (s *session) model() string {
	namer, ok := aycoder.As[aycoder.ModelNamer](s.Client)
	switch {
	case s.demo:
		return demoModel
	case !ok:
		return ""
	}
	_, name := namer.ModelName()
	return clean(name)
}

// close undoes everything, the last thing first.
func (s *session) close() {
	for _, f := range slices.Backward(s.closers) {
		_ = f()
	}
}

// keyless reports whether the environment does not configure a model.
func (a *app) keyless() bool { return a.getenv(keyEnv) == "" && a.getenv(baseURLEnv) == "" }

// nothingPiped reports whether standard input is empty.
func (a *app) nothingPiped(ctx context.Context) bool {
	if isTerminal(a.stdin) {
		return true
	}
	piped, _ := readAll(ctx, a.stdin) // input that cannot be read counts as empty
	return strings.TrimSpace(piped) == "" && ctx.Err() == nil
}

// build makes the agent of a session for a directory.
func (s *session) build(ctx context.Context, dir string, o *options, opts []harness.Option) error {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	if o.print { // where nobody can be asked, a question ends the run
		opts = append(opts, harness.WithQuestions(aycoder.SuspendAsks))
	}
	if !o.print { // the tree and the versions of files of a conversation that nothing else keeps
		opts = append([]harness.Option{harness.WithStore(sessions.Memory(), "")}, opts...)
	}
	if s.Runtime, err = harness.New(ctx, abs, opts...); err != nil {
		return err
	}
	s.closers = append(s.closers, s.Close)
	s.dir = s.Files.Dir()
	allowed, err := parseRules(o.allow, s.Tools)
	if err != nil {
		return err
	}
	for _, r := range allowed {
		if err := s.Policy.KeepRule(ctx, aycoder.Session, r.String()); err != nil {
			return err
		}
	}
	return nil
}

// parseRules parses the -allow flags.
func parseRules(flags []string, all []aycoder.Tool) ([]policy.Rule, error) {
	var names []string
	for _, t := range all {
		names = append(names, t.Spec().Name)
	}
	var rules []policy.Rule
	for _, f := range flags {
		for _, text := range splitRules(f, names) {
			r, err := policy.ParseRule(policy.RuleAllow, text)
			if err != nil {
				return nil, err
			}
			if !slices.Contains(names, r.Tool) {
				return nil, &aycoder.ConfigError{Option: "-allow " + text,
					Err: fmt.Errorf("no tool %q; there are %s", r.Tool, strings.Join(names, ", "))}
			}
			rules = append(rules, r)
		}
	}
	return rules, nil
}

// splitRules splits a list at the commas before the name of a tool; other commas belong
// to a pattern.
func splitRules(list string, names []string) []string {
	var out []string
	for part := range strings.SplitSeq(list, ",") {
		name, _, _ := strings.Cut(part, ":")
		if len(out) > 0 && !slices.Contains(names, strings.TrimSpace(name)) {
			out[len(out)-1] += "," + part
			continue
		}
		out = append(out, part)
	}
	return out
}

// print answers one prompt. If the program was started with nothing, not even a model, it shows the demo.
func (a *app) print(o *options, bare bool) int {
	ctx, stop := a.withSignals()
	defer stop()
	st, err := a.settings(o)
	if err != nil {
		return a.failed(err)
	}
	unattended := bare && st.model == "" && a.nothingPiped(ctx)
	if unattended {
		st.model, o.prompt, o.allow = demoModel, demoTask, []string{demoEdit}
	}
	s, err := a.open(ctx, o, st)
	if err != nil {
		return a.failed(err)
	}
	defer s.close()
	if unattended {
		fmt.Fprintln(a.stdout, demoLabel(s.dir, false)+"Nobody is at a terminal to be asked, so the one change that it makes is allowed.\n")
	}
	prompt, err := a.promptOf(ctx, o)
	if err != nil {
		fmt.Fprintln(a.stderr, "aycoder:", clean(err.Error()))
		if sig, ok := errors.AsType[*signalled](err); ok {
			return exitCode(sig.sig)
		}
		return exitUsage
	}
	p := newPrinter(a.stdout, a.stderr, o)
	p.start(s)
	return p.run(ctx, s.Runtime, prompt)
}

// withSignals returns a context that a signal cancels. A second signal ends the
// program at once.
func (a *app) withSignals() (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	go func() {
		select {
		case sig := <-a.signals:
			cancel(&signalled{sig})
			signal.Reset(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}

// promptOf returns the prompt: the arguments, followed by piped input.
func (a *app) promptOf(ctx context.Context, o *options) (string, error) {
	piped := ""
	if !isTerminal(a.stdin) {
		var err error
		if piped, err = readAll(ctx, a.stdin); err != nil {
			return "", err
		}
	}
	prompt := strings.TrimSpace(o.prompt + "\n\n" + piped)
	if prompt == "" {
		return "", errors.New("nothing to do: give a prompt, as in aycoder -p \"explain main.go\"")
	}
	return prompt, nil
}

// readAll reads to the end, or until ctx is cancelled. In the latter case the reading
// goroutine stays until the program ends, because a read from a pipe cannot be
// interrupted.
func readAll(ctx context.Context, r io.Reader) (string, error) {
	type piped struct {
		data []byte
		err  error
	}
	got := make(chan piped, 1)
	go func() {
		data, err := io.ReadAll(io.LimitReader(r, maxStdin+1))
		got <- piped{data, err}
	}()
	select {
	case p := <-got:
		if len(p.data) > maxStdin {
			return "", fmt.Errorf("standard input is larger than %d MB; name a file instead", maxStdin>>20)
		}
		return string(p.data), p.err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// chat talks to the user in a terminal.
func (a *app) chat(o *options) int {
	screen, keys, err := tty.Open(a.stdin, a.stdout, tty.Options{Getenv: a.getenv})
	if err != nil {
		fmt.Fprintln(a.stderr, "aycoder:", err)
		return exitError
	}
	defer screen.Close()
	ctx := context.Background()
	c := a.newChat(screen, keys, o)
	a.conflicts = c.conflicts
	s, err := c.open(ctx, a, o)
	switch {
	case errors.Is(err, errInterrupt), errors.Is(err, errHangup), errors.Is(err, io.EOF):
		return c.leave(err)
	case err != nil:
		screen.Close()
		return a.failed(err)
	}
	defer s.close()
	c.agent, c.runtime, c.talk, c.compactor, c.name = s.Runtime, s.Runtime, s.Session, s.Runtime, s.model
	c.greet(s, a.getenv(keyEnv) != "")
	return c.run(ctx, strings.TrimSpace(o.prompt))
}

// newChat makes a chat without an agent.
func (a *app) newChat(screen *tty.Screen, keys *tty.Input, o *options) *chat {
	dir, _ := os.Getwd() // entries of no directory come as well
	name := ""
	if home := a.home(); home != "" {
		name = filepath.Join(home, "history.jsonl")
	}
	history, err := line.LoadHistory(name, dir)
	c := &chat{history: history, slash: a.slash, more: a.extensions, conflicts: make(conflicts)}
	c.ui = &ui{
		view: newView(&paper{Screen: screen}, o.verbose), keys: keys, signals: a.signals, edit: a.editor(screen.Lend),
		editor: line.New(line.Options{History: history, Complete: c.complete}),
	}
	if err != nil {
		c.hint = cleanLine(err.Error())
	}
	return c
}

// open makes the agent, after the user was asked about what the project brings.
func (c *chat) open(ctx context.Context, a *app, o *options) (*session, error) {
	st, err := a.settings(o)
	if err != nil {
		return nil, err
	}
	if err := c.trusts(ctx, st); err != nil {
		return nil, err
	}
	c.settings = st
	return a.open(ctx, o, st)
}

// greet names the model.
func (c *chat) greet(s *session, key bool) {
	if !s.demo {
		c.line("Using " + s.model() + ". /help tells what else there is; ctrl-d leaves.")
		return
	}
	c.label, c.fill = "demo", demoTask
	c.line(demoLabel(s.dir, key) + "Press Enter to let it work.\n")
}
