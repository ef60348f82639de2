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
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/config"
	"github.com/aycoder/aycoder/internal/cli/line"
	"github.com/aycoder/aycoder/internal/cli/tty"
)

// The exit statuses: see exitTable.
const (
	exitOK          = 0
	exitError       = 1
	exitUsage       = 2
	exitLimit       = 3
	exitApproval    = 4
	exitConflicts   = 5
	exitHangup      = 129
	exitInterrupted = 130
	exitPipe        = 141
	exitTerminated  = 143
)

// Main runs the program of the process, with the arguments behind its name, and returns the exit
// status. Extensions add what this module does not link. It may be called once in a process.
func Main(args []string, extensions ...Extension) int {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // by nohup
		signal.Notify(signals, syscall.SIGHUP)
	}
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
	asks                  *asks         // of the chat, or nil
	worktree              *worktree     // of this session, or nil
	entered               sync.Map      // the keys that the user has entered, by provider
	mapWait               time.Duration // how long a start waits for the map of the project, if not as usual
}

// run does everything and returns the exit code. It cleans up before it returns.
func (a *app) run(args []string) int {
	if len(args) == 1 && (args[0] == "help" || args[0] == "version") { // as other programs have it
		args = []string{"-" + args[0]}
	}
	command, at := args, ""
	if len(args) > 2 && args[0] == "-C" { // as git has it
		command, at = args[2:], args[1]
	}
	if len(command) > 0 {
		if c, ok := a.subcommand(command[0]); ok {
			if err := (&options{dir: at}).enter(); err != nil {
				a.tell(clean(err.Error()))
				return exitUsage
			}
			return a.call(c, command[1:])
		}
	}
	o, err := parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return a.say(a.usage())
	case err == nil && o.version:
		return a.say(version() + "\n")
	case err == nil: // before the worktree, from which relative paths would lead elsewhere
		err = o.enter()
	}
	if err != nil {
		a.tell(clean(err.Error()))
		return exitUsage
	}
	if o.worktree != "" {
		if a.worktree, err = a.enterWorktree(context.Background(), o.worktree); err != nil {
			return a.failed(err)
		}
		defer a.worktree.end(a)
	}
	// Without a terminal at both ends there is no user to talk to.
	o.print = o.print || !isTerminal(a.stdin) || !isTerminal(a.stdout)
	switch {
	case o.input != "":
		return a.drive(o)
	case o.print:
		return a.print(o, len(args) == 0)
	}
	return a.chat(o)
}

// say prints what was asked for.
func (a *app) say(text string) int {
	if _, err := io.WriteString(a.stdout, text); err != nil {
		return a.unwritten(err)
	}
	return exitOK
}

// unwritten returns the exit code for output that could not be written. That the reader has gone is not a fault.
func (a *app) unwritten(err error) int {
	if errors.Is(err, syscall.EPIPE) {
		return exitPipe
	}
	fmt.Fprintln(a.stderr, "aycoder: write the answer:", err)
	return exitError
}

// tell writes a line about what the program does not do. In a terminal it breaks between words.
func (a *app) tell(text string) {
	text = "aycoder: " + text
	if isTerminal(a.stderr) {
		text = strings.Join(tty.Wrap(text, columnsOf(a.stderr), "  "), "\n")
	}
	fmt.Fprintln(a.stderr, text)
}

// failed tells why the program does not work, and returns the exit code.
func (a *app) failed(err error) int {
	a.tell(explain(err))
	return usageOr(err)
}

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

func usageOr(err error) int {
	switch {
	case is[*aycoder.ConfigError](err), is[*config.InvalidError](err), is[*noModelError](err), errors.Is(err, ErrUsage),
		is[*aycoder.AuthError](err): // without a key no request was sent yet
		return exitUsage
	}
	return exitError
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

// opened tells why a session could not be opened, and returns the exit code: that of a signal, if one came meanwhile.
func (a *app) opened(ctx context.Context, err error) int {
	code := a.failed(err)
	if sig, ok := errors.AsType[*signalled](context.Cause(ctx)); ok {
		code = exitCode(sig.sig)
	}
	return code
}

// chat talks to the user in a terminal.
func (a *app) chat(o *options) int {
	screen, keys, err := tty.Open(a.stdin, a.stdout, tty.Options{Getenv: a.getenv, Plain: o.plain})
	if err != nil {
		fmt.Fprintln(a.stderr, "aycoder:", err)
		return exitError
	}
	defer screen.Close()
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	c := a.newChat(screen, keys, o)
	a.asks = c.asks
	s, err := c.open(ctx, cancel)
	switch {
	case errors.Is(err, errInterrupt), is[*signalled](err), err == io.EOF: // an error around io.EOF is about a file
		return c.leave(err)
	case err != nil:
		screen.Close()
		return a.failed(err)
	}
	c.enter(s)
	defer func() {
		_ = screen.Close() // at once, also if the session takes long
		c.status.end()
		a.prune(c.settings)
		c.session.close() // which may be another one then
	}()
	c.greet(s)
	c.suggest(ctx)
	defer c.endSuggest()
	code := c.run(ctx, strings.TrimSpace(o.prompt))
	if code == exitOK || code == exitInterrupted { // a signal does not wait for an answer
		if sig, ok := errors.AsType[*signalled](a.worktree.ask(ctx, c)); ok {
			code = exitCode(sig.sig)
		}
	}
	return code
}

// newChat makes a chat without an agent.
func (a *app) newChat(screen *tty.Screen, keys *tty.Input, o *options) *chat {
	dir, _ := os.Getwd() // entries of no directory come as well
	name := ""
	if home := a.home(); home != "" {
		name = filepath.Join(home, "history.jsonl")
	}
	history, err := line.LoadHistory(name, dir)
	c := &chat{app: a, options: o, history: history, more: a.extensions, asks: newAsks()}
	c.ui = &ui{
		view: newView(&paper{Screen: screen}, o.verbose), keys: keys, signals: a.signals,
		edit: a.editor(func(f func() error) error {
			defer c.dropInterrupts() // the other program has got them, too
			return screen.Lend(f)
		}),
		editor: line.New(line.Options{History: history, Complete: c.complete}),
	}
	c.image, c.around = c.pasteImage, c.tasksAndJobs
	if err != nil {
		c.hint = cleanLine(err.Error())
	}
	return c
}

// open makes the agent, after the user was asked about what the project brings. A signal cancels the context, and is
// the error.
func (c *chat) open(ctx context.Context, cancel context.CancelCauseFunc) (*session, error) {
	st, err := c.app.settings(c.options)
	if err != nil {
		return nil, err
	}
	c.configure(st.terminal())
	if err := c.trusts(ctx, st); err != nil {
		return nil, err
	}
	c.settings = st
	c.early(st)
	opened, waiting := make(chan struct{}), sync.WaitGroup{}
	waiting.Go(func() {
		select {
		case sig := <-c.signals:
			cancel(signalError(sig))
		case <-opened:
		}
	})
	s, err := c.app.open(ctx, c.options, st)
	close(opened)
	waiting.Wait()
	if ctx.Err() != nil {
		if err == nil {
			s.close()
		}
		return nil, context.Cause(ctx)
	}
	return s, err
}

// early shows the prompt of a new conversation before its agent is made. Keys that are pressed meanwhile wait.
func (c *chat) early(st *settings) {
	if o := c.options; st.model == demoModel || st.model == "" || o.last || o.resume != "" || o.prompt != "" {
		return
	}
	c.editor.SetPrompt(c.label + "> ")
	c.refresh()
	_ = c.Flush() // the error comes again
}

// enter goes on in a session.
func (c *chat) enter(s *session) {
	c.session, c.before = s, ""
	for _, n := range s.notes {
		c.event(n)
	}
	c.retitle(false)
	c.renewStatus()
}

// exchange goes on in another session, and closes the one before.
func (c *chat) exchange(s *session) {
	before := c.session
	c.endSuggest()
	c.enter(s)
	before.close()
	c.changes, c.shown, c.heard = nil, outputs{}, ""
}

// greet names the model.
func (c *chat) greet(s *session) {
	if s.demo {
		c.label, c.fill = "demo", demoTask
		text := demoLabel(s.Files.Dir(), c.settings.why)
		if c.options.prompt == "" {
			text += "Press Enter to let it work. "
		}
		c.prose("", text+"/model takes the key of a provider.\n")
		return
	}
	c.prose("", strings.TrimSpace("Using "+s.model()+". "+c.settings.why)+" /help tells what else there is; ctrl-d leaves.")
	if id := s.id(); id != "" && s.Session.Head() != 0 {
		c.prose("", "Going on with session "+id+".")
	}
}
