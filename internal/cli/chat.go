package cli

import (
	"cmp"
	"context"
	"errors"
	"io"
	"iter"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/compaction"
	"github.com/aycoder/aycoder/harness"
	sessions "github.com/aycoder/aycoder/session"
)

const (
	twiceWithin = 2 * time.Second // two interrupts within that time quit
	tickEvery   = 100 * time.Millisecond
)

// A chat is a conversation in a terminal. One goroutine owns the chat, the screen and the
// keyboard; the run is in another, which waits while its events are shown.
type chat struct {
	*view
	keys      *keyboard
	agent     aycoder.Agent
	runtime   *harness.Runtime
	settings  *settings
	compactor *compaction.Compactor
	name      string // of the model
	label     string // of the prompt
	fill      string // initial text of the first prompt
	edit      func(args []byte) ([]byte, error)
	slash     func(line string) (SlashCommand, string, bool) // of extensions
	history   lines

	messages []*aycoder.Message
	control  *aycoder.Control
	typed    []byte    // while the agent worked, and during its questions
	lastKey  time.Time // when typed last grew
	pasting  bool
	last     time.Time     // of the last interrupt
	waited   time.Duration // for answers, in this turn
	stop     func()        // stops the turn
	stopping bool
	code     int // exit code
	over     bool
}

// run talks to the user until they quit, and returns the exit code.
func (c *chat) run(ctx context.Context, prompt string) int {
	c.control = new(aycoder.Control)
	if kept := c.kept(); kept != nil && kept.Pending() != nil && prompt == "" {
		c.turn(ctx, "") // asks again
	}
	if prompt != "" {
		c.line(c.paint(cyan, c.label+"> "+clean(prompt)))
	}
	for !c.over {
		if prompt == "" {
			var err error
			if prompt, err = c.prompt(ctx); err != nil {
				return c.leave(err)
			}
		}
		c.turn(ctx, prompt)
		prompt = ""
	}
	return c.code
}

// kept returns what keeps the conversation, or nil if the chat does.
func (c *chat) kept() *sessions.Session {
	if c.runtime == nil {
		return nil
	}
	return c.runtime.Session
}

// forget begins a new conversation. What was said stays in the tree of the session.
func (c *chat) forget(ctx context.Context) {
	c.messages = nil
	if kept := c.kept(); kept != nil {
		if _, err := kept.Checkout(ctx, sessions.Root, sessions.OnlyConversation()); err != nil {
			c.line(c.paint(red, "! "+explain(err)))
			return
		}
	}
	c.line("The conversation is forgotten.")
}

func (c *chat) leave(err error) int {
	c.fresh()
	switch {
	case c.over:
		return c.code
	case errors.Is(err, errInterrupt):
		return exitInterrupted
	case errors.Is(err, errHangup):
		return exitTerminated
	}
	return exitOK
}

// prompt asks for the next task.
func (c *chat) prompt(ctx context.Context) (string, error) {
	for {
		line, err := c.readLine(c.label+"> ", c.fill)
		switch {
		case errors.Is(err, errInterrupt) && time.Since(c.last) >= twiceWithin:
			c.last = time.Now()
			c.line("(ctrl-c again to quit)")
			continue
		case err != nil:
			return "", err
		}
		c.fill, c.last = "", time.Time{}
		line = strings.TrimSpace(line)
		switch words, compact := compactCommand(line); {
		case line == "":
		case line == "/quit", line == "/exit":
			return "", io.EOF
		case line == "/help":
			c.line(chatHelp)
		case line == "/reload":
			if err := c.reload(ctx); err != nil {
				c.line(c.paint(red, "! "+explain(err)))
				continue
			}
			c.line("The configuration was read again.")
		case line == "/clear":
			c.forget(ctx)
		case compact:
			if c.compact(ctx, words); c.over {
				return "", errInterrupt
			}
		case c.extended(ctx, line):
		default:
			c.history = append(c.history, line)
			return line, nil
		}
	}
}

// extended carries out a line that calls a command of an extension.
func (c *chat) extended(ctx context.Context, line string) bool {
	if c.slash == nil {
		return false
	}
	cmd, words, ok := c.slash(line)
	if !ok {
		return false
	}
	text, err := cmd.Run(ctx, c.runtime, words)
	if err != nil {
		text = c.paint(red, "! "+explain(err))
	} else {
		text = clean(text)
	}
	c.line(text)
	return true
}

const chatHelp = `Say what is to be done. While the agent works, ctrl-c stops it, and what you
type and end with Enter reaches the model at its next step.
A line such as /review main.go calls a command or a skill, from .aycoder or .claude.
/compact lets the model forget details; words behind it say what to keep, also while it works.
/reload reads the configuration again, and asks about what is new in it.
/clear forgets the conversation, /quit or ctrl-d leaves.`

// readLine reads a line. In a plain terminal the terminal itself edits the line, and
// Enter accepts the offered text.
func (c *chat) readLine(prompt, fill string) (string, error) {
	if !c.fancy {
		if fill != "" {
			prompt += "[" + fill + "] "
		}
		c.fresh()
		c.write(prompt)
		line, err := c.plainLine()
		return cmp.Or(line, fill), err
	}
	c.fresh()
	c.keys.ahead = append([]byte(fill), c.keys.ahead...)
	t := term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{c.keys, c.w}, prompt)
	t.History = c.history
	if err := t.SetSize(c.size(), 24); err != nil {
		return "", err
	}
	var text strings.Builder
	for {
		line, err := t.ReadLine()
		text.WriteString(strings.ToValidUTF8(line, ""))
		if errors.Is(err, term.ErrPasteIndicator) {
			text.WriteString("\n")
			continue
		}
		if err != nil {
			c.write("\n")
		}
		return text.String(), err
	}
}

func (c *chat) plainLine() (string, error) {
	var line []byte
	for b := make([]byte, 1); ; {
		switch _, err := c.keys.Read(b); {
		case errors.Is(err, io.EOF) && len(line) > 0, err == nil && b[0] == '\n':
			return strings.TrimRight(strings.ToValidUTF8(string(line), ""), "\r"), nil
		case err != nil:
			c.write("\n")
			return "", err
		}
		line = append(line, b[0])
	}
}

// lines is the history of prompts, for the arrow keys. Answers to other questions are not
// added.
type lines []string

func (lines) Add(string)        {}
func (l lines) Len() int        { return len(l) }
func (l lines) At(i int) string { return l[len(l)-1-i] }

// A step is an event of a run, or how the run ended, as its goroutine hands it over.
type step struct {
	ev    aycoder.Event
	err   error
	panic any
}

// turn lets the agent answer, and keeps the conversation whatever the outcome.
func (c *chat) turn(outer context.Context, prompt string) {
	var ctx context.Context
	ctx, c.stop = context.WithCancel(outer)
	defer c.stop()
	var res aycoder.Result
	start := time.Now()
	c.begin()
	c.stopping, c.waited = false, 0
	err := c.work(c.start(ctx, prompt, &res))
	c.fresh()
	if len(res.Messages) > 0 && c.kept() == nil {
		c.messages = res.Messages
	}
	c.giveBack()
	switch {
	case c.over:
		c.line(c.glyph("—", "--") + " interrupted.") // no process outlives the program
	case c.stopping:
		c.line(c.glyph("—", "--") + " interrupted. The conversation is kept; go on.")
	case c.believes(outer, err):
		c.turn(outer, prompt)
	case err != nil:
		c.line(c.paint(red, "! "+explain(err)))
	default:
		c.warnCut(&res)
		c.summary(c.name, &res, time.Since(start)-c.waited)
	}
}

// believes asks about the command of the project that an error is about, if that is what is missing.
func (c *chat) believes(ctx context.Context, err error) bool {
	e, ok := errors.AsType[*harness.UntrustedError](err)
	if !ok || e.Refused || c.settings == nil {
		return false
	}
	yes, asked := c.decide(ctx, c.settings, e.Question)
	return yes && asked == nil
}

func (c *chat) warnCut(res *aycoder.Result) {
	if res.Stop == aycoder.StopMaxTokens {
		c.line(c.paint(yellow, "! "+cutWarning))
	}
}

// start runs the agent: see stepping.
func (c *chat) start(ctx context.Context, prompt string, res *aycoder.Result) (<-chan step, chan<- struct{}) {
	in := aycoder.Input{Messages: c.messages, Prompt: prompt}
	return stepping(answers(ctx, c.agent, in, aycoder.Into(res), aycoder.WithControl(c.control)))
}

// stepping ranges over events in a goroutine. It hands over one step at a time and continues
// when the step was handled; the channel is closed at the end.
func stepping(seq iter.Seq2[aycoder.Event, error]) (<-chan step, chan<- struct{}) {
	steps, next := make(chan step), make(chan struct{})
	go func() {
		defer close(steps)
		defer func() {
			if p := recover(); p != nil {
				steps <- step{panic: p}
				<-next
			}
		}()
		for ev, err := range seq {
			steps <- step{ev: ev, err: err}
			<-next
		}
	}()
	return steps, next
}

// answers lets an agent answer. A prompt such as "/review main.go" calls a command or a skill of the project or
// of the user.
func answers(ctx context.Context, a aycoder.Agent, in aycoder.Input, opts ...aycoder.RunOption) iter.Seq2[aycoder.Event, error] {
	rt, ok := a.(*harness.Runtime)
	if !ok {
		return a.Run(ctx, in, opts...)
	}
	if in.Prompt == "" { // images, or a run that goes on
		return rt.Run(ctx, in, opts...)
	}
	return func(yield func(aycoder.Event, error) bool) {
		var typed harness.Typed
		for ev, err := range rt.Expand(ctx, in.Prompt, &typed) {
			if !yield(ev, err) || err != nil {
				return
			}
		}
		typed.Input.Messages, typed.Input.Parts = in.Messages, append(typed.Input.Parts, in.Parts...)
		typed.Run(ctx, opts...)(yield)
	}
}

// work shows the events until the run is over. After an interrupt that is soon, even if a
// tool does not stop, because the loop abandons it.
func (c *chat) work(steps <-chan step, next chan<- struct{}) (failed error) {
	tick := time.NewTicker(tickEvery)
	defer tick.Stop()
	for {
		select {
		case s, ok := <-steps:
			if !ok {
				return failed
			}
			failed = s.err
			c.take(s)
			next <- struct{}{}
		case in := <-c.keys.listen():
			c.keys.took(in)
			c.typing(in.data)
		case sig := <-c.keys.signals:
			c.signalled(sig)
		case <-tick.C:
			c.progress(string(c.typed), c.stopping)
		}
	}
}

func (c *chat) take(s step) {
	if s.panic != nil {
		panic(s.panic) // in the goroutine that restores the terminal
	}
	ev := s.ev
	if e, ok := ev.(*aycoder.ChildEvent); ok {
		ev = e.Innermost()
	}
	if a, ok := ev.(*aycoder.ApprovalRequested); ok {
		c.ask(a)
		return
	}
	c.event(s.ev)
}

func (c *chat) signalled(sig os.Signal) {
	if sig == os.Interrupt {
		c.interrupt()
		return
	}
	c.quit(exitCode(sig))
}

// interrupt stops the turn; twice quits.
func (c *chat) interrupt() {
	if c.stopping || time.Since(c.last) < twiceWithin {
		c.quit(exitInterrupted)
	}
	c.last = time.Now()
	c.stopping = true
	c.stop()
}

func (c *chat) quit(code int) {
	c.over, c.code, c.stopping = true, code, true
	c.stop()
}

// typing handles text that is typed while the agent works. It waits for the next prompt;
// Enter sends it to the model.
func (c *chat) typing(data []byte) {
	c.lastKey = time.Now()
	if len(data) == 1 && data[0] == keyEsc {
		c.interrupt()
		return
	}
	for len(data) > 0 {
		if data[0] == keyEsc {
			data = c.escape(data)
			continue
		}
		c.key(data[0])
		data = data[1:]
	}
}

func (c *chat) key(b byte) {
	switch {
	case b == keyCtrlC:
		c.interrupt()
	case c.pasting && b < ' ':
		c.typed = append(c.typed, ' ')
	case b == '\r' || b == '\n':
		c.steer()
	case b == 0x7f || b == '\b':
		_, n := utf8.DecodeLastRune(c.typed)
		c.typed = c.typed[:len(c.typed)-n]
	case b == keyCtrlU:
		c.typed = nil
	case b >= ' ':
		c.typed = append(c.typed, b)
	}
}

// escape skips the escape sequence of a key without a function, and detects the beginning
// and the end of a paste.
func (c *chat) escape(data []byte) []byte {
	for i, b := range data[1:] {
		if b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b == '~' {
			switch string(data[:i+2]) {
			case "\x1b[200~":
				c.pasting = true
			case "\x1b[201~":
				c.pasting = false
			}
			return data[i+2:]
		}
	}
	return nil
}

// steer sends the typed text to the model.
func (c *chat) steer() {
	text := strings.TrimSpace(strings.ToValidUTF8(string(c.typed), ""))
	c.typed = nil
	if text == "" {
		return
	}
	if words, ok := compactCommand(text); ok {
		c.control.Steer("", compaction.Command(words))
	} else {
		c.control.Steer(text)
	}
	c.line(c.paint(cyan, c.glyph("›", ">")+" "+clean(text)))
}

// giveBack puts text that the model has not received into the next prompt.
func (c *chat) giveBack() {
	var text []string
	for _, m := range c.control.Drain() {
		text = append(text, m.Text())
	}
	text = append(text, strings.ToValidUTF8(string(c.typed), ""))
	c.fill = strings.TrimSpace(strings.Join(text, " "))
	c.typed = nil
}

// explain describes an error, and what the user can do.
func explain(err error) string {
	return clean(err.Error()) + remedy(err)
}

func remedy(err error) string {
	key, network := "Check the provider's key, or get a new one.", "Check the network, and that the service runs."
	if e, ok := errors.AsType[*aycoder.ModelError](err); ok && e.Provider == "anthropic" {
		key = "Check the key in " + keyEnv + ", or get a new one."
		network = "Check the network, and the address in " + baseURLEnv + " if it is set."
	}
	for _, r := range []struct {
		fits func(error) bool
		text string
	}{
		{is[*aycoder.AuthError], key},
		{is[*aycoder.UnknownModelError], "Choose another model with -model."},
		{is[*aycoder.ContextTooLargeError], "Begin a new conversation (/clear), or ask about less."},
		{is[*aycoder.ContextError], "Begin a new conversation (/clear), or ask about less."},
		{is[*aycoder.RateLimitError], "Wait a while, then try again."},
		{is[*aycoder.OverloadedError], "Try again later, or choose another model with -model."},
		{is[*aycoder.StreamBrokenError], network},
		{is[*aycoder.TimeoutError], network},
		{is[*aycoder.LimitError], "What was done is kept; go on, or allow more with -max-turns."},
	} {
		if r.fits(err) {
			return "\n  " + r.text
		}
	}
	return ""
}

func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}
