package cli

import (
	"cmp"
	"context"
	"errors"
	"io"
	"iter"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/budget"
	"github.com/aycoder/aycoder/compaction"
	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/internal/cli/line"
	"github.com/aycoder/aycoder/policy"
	sessions "github.com/aycoder/aycoder/session"
)

// A chat is a conversation in a terminal. One goroutine owns the chat and its ui; the run is in another, which waits
// while its events are shown.
type chat struct {
	*ui
	app      *app
	options  *options
	session  *session // nil until it is open
	settings *settings
	label    string // of the prompt
	fill     string // initial text of the next prompt
	history  *line.History
	asks     *asks
	more     []Extension
	unasked  chan func(*chat) // shows what was looked for at the start, once
	seeking  func()           // ends that, or nil
	before   policy.Mode      // in force when the plan mode of this session began, or ""

	heard       string           // outputs of the user's commands, for the next prompt
	own         string           // the command of the user that runs
	compactLine string           // the last /compact while the agent worked, whose message has no text
	pasted      []*aycoder.Media // the last images of the clipboard
	pastes      int              // how many there were

	opened, edited []byte // in the user's editor: a text of this question, or nil, and what came of it

	changes *edit.Changes // of the last turn
	shown   outputs
	last    time.Time     // of the last interrupt at the prompt
	stopAt  time.Time     // of the last stop of a turn
	worked  time.Time     // when the last command at the prompt ended
	waited  time.Duration // for answers, in this turn
	stop    func()        // stops the turn
	code    int           // exit code
	over    bool
}

// talk is the conversation.
func (c *chat) talk() *sessions.Session { return c.session.Session }

// run talks to the user until they quit, and returns the exit code.
func (c *chat) run(ctx context.Context, prompt string) int {
	if err := c.unfinished(ctx); err != nil {
		return c.leave(err)
	}
	if prompt != "" {
		c.line(c.paint(cyan, c.sign()+said(prompt)))
	} else if c.talk().Pending() != nil { // a run that was killed, or that nobody could be asked about
		v := c.talk().View()
		c.line(c.paint(cyan, c.label+"> "+promptOf(v.Node(promptBefore(v, c.talk().Head())))))
		c.turn(ctx, "")
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
	}
	if s, ok := errors.AsType[*signalled](err); ok {
		return exitCode(s.sig)
	}
	return exitOK
}

// prompt asks for the next task.
func (c *chat) prompt(ctx context.Context) (string, error) {
	for {
		text, err := c.entered(ctx)
		if err != nil {
			return "", err
		}
		c.last = time.Time{}
		text = strings.TrimSpace(text)
		if text == "" {
			continue
		}
		if err := c.history.Add(text); err != nil {
			c.hint = cleanLine(err.Error())
		}
		prompt, err := c.command(ctx, text)
		c.dropInterrupts()
		c.worked = time.Now()
		switch {
		case c.over:
			return "", errInterrupt
		case err == io.EOF, is[*signalled](err): // an error around io.EOF is about a file
			return "", err
		case errors.Is(err, errInterrupt):
			continue
		case err != nil:
			c.complain(err)
		case prompt != "":
			return prompt, nil
		}
	}
}

// idleAfter is how long nobody presses a key until hooks are told of it.
const idleAfter = time.Minute

// entered waits for a line at the prompt.
func (c *chat) entered(ctx context.Context) (string, error) {
	ctx, stop := context.WithCancel(ctx)
	var told sync.WaitGroup
	defer told.Wait()
	defer stop()
	idle := time.Now().Add(idleAfter) // zero if hooks were told
	fill := c.fill
	c.fill = ""
	c.editor.SetPrompt(c.sign())
	unasked := c.unasked
	if !c.Fancy() { // where the line is typed, nothing else is printed
		unasked = nil
		select {
		case show := <-c.unasked:
			show(c)
		default:
		}
	}
	c.offer(c.sign(), fill)
	var escaped time.Time
	for {
		due := time.Hour
		if !idle.IsZero() {
			due = time.Until(idle)
		}
		if c.Fancy() && len(c.tasksAndJobs(false)) > 0 {
			due = min(due, time.Second) // the time of a job goes on
		}
		h := c.wait(nil, unasked, time.After(due))
		if h.ask != nil {
			h.ask(c)
			continue
		}
		if h.tick {
			if hooks := c.session.Hooks; !idle.IsZero() && !time.Now().Before(idle) {
				if idle = (time.Time{}); hooks != nil {
					told.Go(func() { hooks.Notify(ctx, "idle_prompt", "aycoder is waiting for your input") })
				}
			}
			continue
		}
		idle = time.Now().Add(idleAfter)
		switch {
		case isKey(h.key, "ctrl+c") && h.key.At.Before(c.worked): // it was for the command
			continue
		case h.sig == os.Interrupt || isKey(h.key, "ctrl+c"):
			if c.interruptedTwice() {
				return "", errInterrupt
			}
			continue
		case h.sig != nil:
			return "", signalError(h.sig)
		case h.ended:
			return c.half()
		case isKey(h.key, "esc") && !c.editor.TakesEsc():
			c.lastKey = h.key.At
			if c.editor.Empty() && h.key.At.Sub(escaped) < twiceWithin {
				return "/tree", nil
			}
			escaped = h.key.At
			c.editor.Clear()
			continue
		}
		switch ev := c.typed(h.key); ev.Kind {
		case line.Submit:
			c.echo(c.sign(), ev.Text)
			return orFill(c.ui, ev.Text, fill), nil
		case line.EndOfInput:
			return "", io.EOF
		case line.PlanMode:
			c.switchPlan()
			c.editor.SetPrompt(c.sign())
		}
	}
}

// interruptedTwice reports whether the user wants to quit. The first interrupt clears the line, and none counts
// that may have been meant for the turn that has just been stopped.
func (c *chat) interruptedTwice() bool {
	now := time.Now()
	c.lastKey = now
	twice := c.editor.Empty() && now.Sub(c.last) < twiceWithin && now.Sub(c.stopAt) >= twiceWithin
	if !twice {
		c.editor.Clear()
		c.last, c.hint = now, "ctrl-c again to quit"
		if !c.Fancy() {
			c.line("(ctrl-c again to quit)")
			c.Print(c.sign())
		}
	}
	return twice
}

// turn lets the agent answer, and keeps the conversation whatever the outcome.
func (c *chat) turn(ctx context.Context, prompt string) {
	if prompt != "" {
		if text := c.app.foresee(ctx, c.session, c.settings, prompt); text != "" {
			c.prose(faint, text)
		}
	}
	var res aycoder.Result
	start, head := time.Now(), c.talk().Head()
	_, before := c.talk().View().Usage()
	c.waited = 0
	c.retitle(true)
	err := c.during(ctx, func(ctx context.Context) iter.Seq2[aycoder.Event, error] {
		in := aycoder.Input{Prompt: prompt, Parts: c.images(prompt)}
		return expander{c.session.Runtime, c.heard}.Run(ctx, in, aycoder.Into(&res))
	})
	c.retitle(false)
	c.changes = res.Changes
	switch {
	case c.over:
		c.line(c.Glyph("—", "--") + " interrupted.") // no process outlives the program
	case c.stopping:
		c.prose("", c.Glyph("—", "--")+" interrupted. The conversation is kept; go on.")
		c.stopAt = time.Now()
	case c.believes(ctx, err):
		c.turn(ctx, prompt)
		return
	case c.forgetKey(err):
		c.prose(red, "! "+clean(err.Error())+"\n  The key that was entered is forgotten; /model asks for another one.")
	case err != nil:
		c.complain(err)
	default:
		if res.Stop == aycoder.StopMaxTokens {
			c.prose(notice, "! "+cutWarning)
		}
	}
	if cut := c.stopping || err != nil; !c.over && (!cut || len(res.Spent) > 0) {
		_, cost := c.talk().View().Usage()
		c.summary(c.session.model(), &res, cost-before, c.filled(), time.Since(start)-c.waited)
	}
	if c.talk().Head() != head { // the prompt is in the conversation
		c.heard = ""
	}
	c.renewStatus()
	c.alert("done")
}

// believes asks about the command of the project that an error is about, if that is what is missing.
func (c *chat) believes(ctx context.Context, err error) bool {
	e, ok := errors.AsType[*harness.UntrustedError](err)
	if !ok || e.Refused {
		return false
	}
	yes, asked := c.decide(ctx, c.settings, e.Question)
	return !c.halted(asked) && yes && asked == nil
}

// work shows the events of a run until it is over. After an interrupt that is soon, even if a
// tool does not stop, because the loop abandons it.
func (c *chat) work(run iter.Seq2[aycoder.Event, error]) (failed error) {
	ended := c.asks.work() // before a tool of the run can ask
	steps, next := stepping(run)
	tick := time.NewTicker(tickEvery)
	defer tick.Stop()
	defer c.abandon(steps, next)
	c.working = true
	defer func() { c.working = false }()
	defer ended()
	c.editor.SetPrompt(c.Glyph("› ", "> "))
	for {
		switch h := c.wait(steps, c.asks.c, tick.C); {
		case h.done:
			return failed
		case h.step != nil:
			failed = h.step.err
			c.take(*h.step)
			next <- struct{}{}
		case h.ask != nil:
			h.ask(c)
		case h.sig != nil:
			c.signalled(h.sig)
		case h.key.At.IsZero(): // a tick, or the end of the input
		case c.isStop(h.key):
			c.lastKey = h.key.At
			c.interrupt()
		case isKey(h.key, "alt+enter"):
			c.later()
		default:
			switch ev := c.typed(h.key); ev.Kind {
			case line.Submit:
				c.send(ev.Text)
			case line.PlanMode:
				c.switchPlan()
			}
		}
	}
}

// abandon stops a run whose events nobody shows any more, because of a panic. Otherwise it is over already.
func (c *chat) abandon(steps <-chan step, next chan<- struct{}) {
	c.stop()
	for {
		select {
		case _, ok := <-steps:
			if !ok {
				return
			}
		case next <- struct{}{}:
		}
	}
}

// apart waits for f, which runs in another goroutine and prints nothing. The user can type meanwhile, and an interrupt
// cancels the context.
func (c *chat) apart(ctx context.Context, f func(context.Context) error) (err error) {
	_ = c.during(ctx, func(ctx context.Context) iter.Seq2[aycoder.Event, error] {
		return func(func(aycoder.Event, error) bool) { err = f(ctx) }
	})
	return err
}

// during shows the events of a run: see work. Text for the model that has not reached it is in the line afterwards.
func (c *chat) during(ctx context.Context, run func(context.Context) iter.Seq2[aycoder.Event, error]) error {
	ctx, c.stop = context.WithCancel(ctx)
	defer c.stop()
	c.begin()
	c.stopping = false
	err := c.work(run(ctx))
	c.saidAll()
	c.fresh()
	c.giveBack()
	return err
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
		if c.decidedByTyping(&a.Request) {
			a.Allow()
			return
		}
		c.ask(a)
		return
	}
	if f, ok := s.ev.(*aycoder.ToolFinished); ok {
		c.number = c.shown.add(f)
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

// interrupt stops the turn. It never quits: the run ends soon, whatever its tools do.
func (c *chat) interrupt() {
	c.stopAt, c.stopping = time.Now(), true
	c.stop()
}

// halted stops the turn, or the program, if the error of a question says so.
func (c *chat) halted(err error) bool {
	s, ends := errors.AsType[*signalled](err)
	switch {
	case ends:
		c.quit(exitCode(s.sig))
	case !errors.Is(err, errInterrupt):
		return false
	case !c.stopping:
		c.interrupt()
	}
	return true
}

func (c *chat) quit(code int) {
	c.over, c.code, c.stopping = true, code, true
	c.stop()
}

// send gives a line to the model at its next step. Some commands work at once. Where nothing works, the line is for
// the next prompt.
func (c *chat) send(text string) {
	text = strings.TrimSpace(text)
	switch {
	case text == "":
		return
	case !c.working:
		c.fill = strings.TrimSpace(c.fill + " " + text)
		return
	}
	c.line(c.paint(cyan, c.Glyph("› ", "> ")+said(text)))
	_ = c.history.Add(text)
	if name, words, ok := called(text); ok && name == "compact" {
		c.compactLine = text
		c.complain(c.talk().Steer(context.Background(), "", compaction.Command(words)))
		return
	}
	if handled, err := c.besides(text); handled {
		c.complain(err)
		return
	}
	c.complain(c.talk().Steer(context.Background(), text, c.images(text)...))
}

// later gives the line to the model when it would otherwise end.
func (c *chat) later() {
	text := strings.TrimSpace(c.editor.Text())
	if text == "" {
		return
	}
	_ = c.history.Add(text)
	if err := c.talk().FollowUp(context.Background(), text, c.images(text)...); err != nil {
		c.complain(err)
		return
	}
	c.editor.Clear()
	c.line(c.paint(cyan, c.Glyph("» ", ">> ")+said(text)))
}

// complain shows an error, if there is one.
func (c *chat) complain(err error) {
	if err == nil {
		return
	}
	text := explain(err)
	if s := c.session; s != nil && s.Session.Err() != nil && errors.Is(err, s.Session.Err()) {
		text += "\n  Nothing more of this conversation is kept. Leave, and go on with aycoder -c when it can be kept again."
	}
	c.prose(red, "! "+text)
}

// giveBack puts text that the model has not received into the line.
func (c *chat) giveBack() {
	queued, err := c.talk().Drain(context.Background())
	if c.talk().Err() == nil { // else the turn tells
		c.complain(err)
	}
	var text []string
	for _, m := range queued {
		text = append(text, cmp.Or(m.Text(), c.compactLine))
	}
	if len(text) == 0 {
		return
	}
	if c.Fancy() {
		c.editor.SetText(strings.TrimSpace(strings.Join(append(text, c.editor.Text()), " ")))
		return
	}
	c.fill = strings.TrimSpace(strings.Join(append(text, c.fill), " "))
}

// explain describes an error, and what the user can do.
func explain(err error) string {
	return clean(err.Error()) + remedy(err)
}

func remedy(err error) string {
	key, network := "Check the provider's key, or get a new one.", "Check the network, and that the service runs."
	if e, ok := errors.AsType[*aycoder.ModelError](err); ok {
		if v, ok := vendorOf(e.Provider); ok {
			key = "Check the provider's key, usually in " + strings.Join(v.keys, " or ") + ", or get a new one."
		}
		if e.Provider == "anthropic" {
			network = "Check the network, and the address in " + baseURLEnv + " if it is set."
		}
	}
	limit := "What was done is kept."
	if e, ok := errors.AsType[*aycoder.LimitError](err); ok {
		if key := map[string]string{"turns": "-max-turns", "tokens of a run": "agent.max_tokens"}[e.Limit]; key != "" {
			limit = "What was done is kept; go on, or allow more with " + key + "."
		}
	}
	if e, ok := errors.AsType[*budget.ExhaustedError](err); ok {
		limit = "What was done is kept; to go on, allow more with " + map[string]string{"agent.max_cost": "-max-cost or "}[e.Key] + e.Key + "."
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
		{is[*aycoder.LimitError], limit},
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
