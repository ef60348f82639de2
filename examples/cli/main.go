// Cli is a coding agent for the command line. It talks to a model about the current
// directory, shows the model's actions, and asks before a change. Without a key and
// without arguments it shows a demo with a scripted model.
//
// It is an example of a host and uses only the public packages.
package main

import (
	"cmp"
	"context"
	"crypto/sha256"
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
	"github.com/aycoder/aycoder/policy"
	"github.com/aycoder/aycoder/providers"
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

func main() {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	// A write to a closed pipe is then an error, and running tools are stopped.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	a := &app{
		stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr,
		getenv: os.Getenv, signals: signals,
	}
	os.Exit(a.run(os.Args[1:]))
}

// An app is the program and its environment.
type app struct {
	stdin, stdout, stderr *os.File
	getenv                func(string) string
	signals               chan os.Signal
}

// run does everything and returns the exit code. It cleans up before it returns.
func (a *app) run(args []string) int {
	o, err := parse(args, a.stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		fmt.Fprintln(a.stderr, "cli:", clean(err.Error()))
		return exitUsage
	}
	// Without a terminal at both ends there is no user to talk to.
	o.print = o.print || !isTerminal(a.stdin) || !isTerminal(a.stdout)
	unattended := o.print && len(args) == 0 && a.keyless() && a.nothingPiped()
	if unattended {
		o.model, o.prompt, o.allow = demoModel, demoTask, []string{demoEdit}
	}
	s, err := a.open(o)
	if err != nil {
		if s != nil {
			s.close()
		}
		fmt.Fprintln(a.stderr, "cli:", explain(err))
		return usageOr(err)
	}
	defer s.close()
	if unattended {
		fmt.Fprintln(a.stdout, demoLabel(s.dir, false)+"Nobody is at a terminal to be asked, so the one change that it makes is allowed.\n")
	}
	if o.print {
		return a.print(o, s)
	}
	return a.chat(o, s)
}

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

func usageOr(err error) int {
	_, config := errors.AsType[*aycoder.ConfigError](err)
	_, auth := errors.AsType[*aycoder.AuthError](err) // without a key no request was sent yet
	if config || auth || errors.Is(err, errNoModel) {
		return exitUsage
	}
	return exitError
}

// A session is an agent with the directory in which it works.
type session struct {
	*harness.Runtime
	name  string // of the model
	dir   string
	demo  bool
	rules string // directory of the saved rules, or ""
	close func()
}

// open makes the agent.
func (a *app) open(o *options) (*session, error) {
	s := &session{close: func() {}, rules: a.rulesDir()}
	if o.model == demoModel || o.model == "" && a.keyless() && !o.print {
		return s, a.openDemo(s, o)
	}
	client, err := a.client(o)
	if err != nil {
		return nil, err
	}
	if namer, ok := aycoder.As[aycoder.ModelNamer](client); ok {
		_, name := namer.ModelName()
		s.name = clean(name)
	}
	return s, s.build(client, ".", o, nil)
}

// keyless reports whether the environment does not configure a model.
func (a *app) keyless() bool { return a.getenv(keyEnv) == "" && a.getenv(baseURLEnv) == "" }

// nothingPiped reports whether standard input is empty.
func (a *app) nothingPiped() bool {
	if isTerminal(a.stdin) {
		return true
	}
	ctx, stop := a.withSignals()
	defer stop()
	piped, _ := readAll(ctx, a.stdin) // input that cannot be read counts as empty
	return strings.TrimSpace(piped) == "" && ctx.Err() == nil
}

// client returns the model's client: that of any provider for a name with a slash,
// otherwise Anthropic's. Anthropic's key is sent to another URL only if the user has set
// both.
func (a *app) client(o *options) (aycoder.ModelClient, error) {
	name := cmp.Or(o.model, defaultModel)
	if !strings.Contains(name, "/") {
		name = "anthropic/" + name
	}
	if !strings.HasPrefix(name, "anthropic/") {
		return providers.Open(name)
	}
	key, base := strings.TrimSpace(a.getenv(keyEnv)), a.getenv(baseURLEnv)
	if key == "" && base == "" {
		return nil, errNoModel
	}
	var opts []providers.Option
	if base != "" {
		opts = append(opts, providers.WithBaseURL(base))
	}
	if key != "" {
		opts = append(opts, providers.WithAPIKey(key))
	}
	return providers.Open(name, opts...)
}

// onClose registers a function that is called when the session is closed, before the
// earlier ones.
func (s *session) onClose(f func() error) {
	done := s.close
	s.close = func() {
		_ = f()
		done()
	}
}

// build makes the agent of a session for a directory. Rules hold from the start.
func (s *session) build(m aycoder.ModelClient, dir string, o *options, rules []policy.Rule) error {
	ctx := context.Background()
	opts, err := s.options(m, o)
	if err != nil {
		return err
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	own := []policy.Option{policy.WithRules(policy.Session, rules...)}
	if s.rules != "" && !s.demo { // rules that were saved for a directory hold in that directory
		sum := sha256.Sum256([]byte(abs))
		own = append(own, policy.WithFile(filepath.Join(s.rules, fmt.Sprintf("rules-%x.json", sum[:8]))))
	}
	if s.Runtime, err = harness.New(ctx, abs, append(opts, harness.WithPolicyOptions(own...))...); err != nil {
		return err
	}
	s.onClose(s.Close)
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

// options are those of the runtime. Where nobody can be asked, a question ends the run.
func (s *session) options(m aycoder.ModelClient, o *options) ([]harness.Option, error) {
	loaded, err := config.Load()
	if err != nil {
		return nil, err
	}
	settings := loaded.Config.Settings
	settings.Agent.MaxTurns, settings.Approval.Mode = o.maxTurns, o.mode
	if o.sandbox {
		settings.Sandbox.Mode = "on"
	}
	opts := []harness.Option{harness.WithClient(m), harness.WithSummaryClient(m), harness.WithSettings(settings)}
	if o.print {
		opts = append(opts, harness.WithQuestions(aycoder.SuspendAsks))
	}
	return opts, nil
}

// rulesDir returns the directory for saved rules, or "" if the environment does not set
// one.
func (a *app) rulesDir() string {
	dir := cmp.Or(a.getenv("XDG_CONFIG_HOME"), a.getenv("APPDATA"))
	if home := a.getenv("HOME"); dir == "" && home != "" {
		dir = filepath.Join(home, ".config")
	}
	if !filepath.IsAbs(dir) {
		return ""
	}
	return filepath.Join(dir, "aycoder-cli")
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

// print answers one prompt.
func (a *app) print(o *options, s *session) int {
	ctx, stop := a.withSignals()
	defer stop()
	prompt, err := a.promptOf(ctx, o)
	if err != nil {
		fmt.Fprintln(a.stderr, "cli:", clean(err.Error()))
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
		return "", errors.New("nothing to do: give a prompt, as in cli -p \"explain main.go\"")
	}
	return prompt, nil
}

// readAll reads to the end, or until ctx is cancelled. In the latter case the reading
// goroutine stays until the program ends, because a read from a pipe cannot be
// interrupted.
func readAll(ctx context.Context, r io.Reader) (string, error) {
	got := make(chan chunk, 1)
	go func() {
		data, err := io.ReadAll(io.LimitReader(r, maxStdin+1))
		got <- chunk{data: data, err: err}
	}()
	select {
	case c := <-got:
		if len(c.data) > maxStdin {
			return "", fmt.Errorf("standard input is larger than %d MB; name a file instead", maxStdin>>20)
		}
		return string(c.data), c.err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// chat talks to the user in a terminal.
func (a *app) chat(o *options, s *session) int {
	screen, err := openScreen(a.stdin, a.stdout, a.getenv)
	if err != nil {
		fmt.Fprintln(a.stderr, "cli:", err)
		return exitError
	}
	defer screen.close()
	c := &chat{
		view: newView(screen, o.verbose), keys: newKeyboard(a.stdin, a.signals),
		agent: s.Runtime, compactor: s.Compactor, name: s.name, edit: a.editor(screen),
	}
	c.greet(s, a.getenv(keyEnv) != "")
	return c.run(context.Background(), strings.TrimSpace(o.prompt))
}

// greet names the model.
func (c *chat) greet(s *session, key bool) {
	if !s.demo {
		c.line("Using " + s.name + ". /help tells what else there is; ctrl-d leaves.")
		return
	}
	c.label, c.fill = "demo", demoTask
	c.line(demoLabel(s.dir, key) + "Press Enter to let it work.\n")
}
