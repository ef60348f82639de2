package cli

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/compaction"
	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/policy"
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
	agent     aycoder.Agent // the runtime, or the conversation alone
	talk      *sessions.Session
	runtime   *harness.Runtime
	settings  *settings
	compactor *compaction.Compactor
	name      string // of the model
	label     string // of the prompt
	fill      string // initial text of the first prompt
	edit      func(ending string, text []byte) ([]byte, error)
	conflicts conflicts
	slash     func(line string) (SlashCommand, string, bool) // of extensions
	more      []Extension
	before    policy.Mode // in force when the plan mode began
	history   lines

	changes  *edit.Changes // of the last turn
	shown    outputs
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
	if prompt != "" {
		c.line(c.paint(cyan, c.label+"> "+clean(prompt)))
	} else if c.talk.Pending() != nil {
		c.turn(ctx, "") // asks again what nobody could be asked
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
		if line == "" {
			continue
		}
		c.history = append(c.history, line)
		prompt, err := c.command(ctx, line)
		switch {
		case c.over:
			return "", errInterrupt
		case errors.Is(err, io.EOF), errors.Is(err, errInterrupt), errors.Is(err, errHangup):
			return "", err
		case err != nil:
			c.line(c.paint(red, "! "+explain(err)))
		case prompt != "":
			return prompt, nil
		}
	}
}

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
	c.changes = res.Changes
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
	return stepping(answers(ctx, c.agent, aycoder.Input{Prompt: prompt}, aycoder.Into(res)))
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
		case ask := <-c.conflicts:
			c.resolve(ask)
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
	if f, ok := s.ev.(*aycoder.ToolFinished); ok {
		c.shown.add(f)
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
	var err error
	if words, ok := compactCommand(text); ok {
		err = c.talk.Steer(context.Background(), "", compaction.Command(words))
	} else {
		err = c.talk.Steer(context.Background(), text)
	}
	if err != nil {
		c.line(c.paint(red, "! "+explain(err)))
		return
	}
	c.line(c.paint(cyan, c.glyph("›", ">")+" "+clean(text)))
}

// giveBack puts text that the model has not received into the next prompt.
func (c *chat) giveBack() {
	var text []string
	queued, err := c.talk.Drain(context.Background())
	if err != nil {
		c.line(c.paint(red, "! "+explain(err)))
	}
	for _, m := range queued {
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
