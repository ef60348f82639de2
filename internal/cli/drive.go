package cli

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/harness"
)

const maxLine = 64 << 20 // bytes of a line of -input events

// An order is a line that another program sends with -input events.
type order struct {
	Type   string   `json:"type"`
	Text   string   `json:"text"`   // of prompt, steer, follow_up and result
	Images []string `json:"images"` // names of files, of prompt
	// ID is that of the call that allow, deny and result are about. Digest, if it is given, must be that of the
	// question, so that nothing else is decided than what was shown.
	ID      string          `json:"id"`
	Digest  string          `json:"digest"`
	Args    json.RawMessage `json:"args"`   // of allow, in place of the model's
	Rule    string          `json:"rule"`   // of allow, for the rest of the session
	Reason  string          `json:"reason"` // of deny
	IsError bool            `json:"is_error"`
}

// A driver lets another program lead the conversation: orders come as lines, and events go out as lines. Everything
// happens in one goroutine but the reading of lines and the run, which waits while its events are handled.
type driver struct {
	*printer
	s     *session
	lines <-chan inputLine
	led   bool         // by another program
	gone  *atomic.Bool // the input has ended, so that nobody can be asked
	stop  context.CancelCauseFunc
	asks  map[string][]*aycoder.Approval // questions by the id of the call, which several agents may use
	calls map[string][]*aycoder.OpenCall // calls whose results come from the program, by their id
}

type inputLine struct {
	n    int
	data []byte
	err  error
}

// drive leads a conversation by lines on standard input, and returns the exit code of the last run.
func (a *app) drive(o *options) int {
	ctx, stop := a.withSignals()
	defer stop()
	st, err := a.settings(o)
	if err != nil {
		return a.failed(err)
	}
	gone := new(atomic.Bool)
	a.extensions = append(a.extensions, Extension{Options: []harness.Option{harness.WithQuestions(func(next aycoder.Approver) aycoder.Approver {
		return &attended{next, aycoder.SuspendAsks(next), gone}
	})}})
	s, err := a.open(ctx, o, st)
	if err != nil {
		return a.opened(ctx, err)
	}
	defer s.close()
	defer a.prune(st) // this one stays, since it is open
	d := &driver{printer: newPrinter(a, o), s: s, lines: readLines(ctx, a.stdin), led: true, gone: gone}
	d.start(s)
	return d.loop(ctx)
}

// attended asks as long as somebody can answer. After that, a question suspends the run.
type attended struct {
	aycoder.Approver
	suspending aycoder.Approver
	gone       *atomic.Bool
}

// Decide implements [aycoder.Approver].
func (a *attended) Decide(ctx context.Context, call *aycoder.ToolUse, spec *aycoder.ToolSpec) aycoder.Verdict {
	if a.gone.Load() {
		return a.suspending.Decide(ctx, call, spec)
	}
	return a.Approver.Decide(ctx, call, spec)
}

// Unwrap returns the approver that decides.
func (a *attended) Unwrap() aycoder.Approver { return a.Approver }

// readLines sends the lines of r. The goroutine that reads may stay until the program ends.
func readLines(ctx context.Context, r io.Reader) <-chan inputLine {
	lines := make(chan inputLine)
	go func() {
		defer close(lines)
		sc := bufio.NewScanner(r)
		sc.Buffer(nil, maxLine)
		for n := 1; ; n++ {
			more := sc.Scan()
			if !more && sc.Err() == nil {
				return
			}
			select {
			case lines <- inputLine{n, slices.Clone(sc.Bytes()), sc.Err()}:
			case <-ctx.Done():
				return
			}
			if !more {
				return
			}
		}
	}()
	return lines
}

// loop carries out orders until the input ends.
func (d *driver) loop(ctx context.Context) int {
	code := exitOK
	for d.broken == nil && d.lines != nil {
		select {
		case l, ok := <-d.lines:
			if !ok {
				return code
			}
			if in, err := d.between(l); err != nil {
				d.refuse(l, err)
			} else {
				code = d.turn(ctx, in)
			}
		case <-ctx.Done():
		}
		if sig, ok := errors.AsType[*signalled](context.Cause(ctx)); ok {
			return exitCode(sig.sig)
		}
	}
	return d.ended(code)
}

// between carries out an order while no run works, and returns the input of the run that it starts.
func (d *driver) between(l inputLine) (in aycoder.Input, err error) {
	x, err := l.order()
	switch {
	case err != nil:
	case x.Type == "prompt":
		in.Prompt = x.Text
		if in.Parts, err = loadImages(x.Images); err == nil && in.Prompt == "" && len(in.Parts) == 0 {
			err = errors.New("the prompt is empty")
		}
	case x.Type != "resume":
		err = fmt.Errorf("no run works, so there is nothing to %s", x.Type)
	case d.s.Session.Pending() == nil:
		err = errors.New("no run waits to go on")
	}
	return in, err
}

// order decodes a line.
func (l inputLine) order() (x order, err error) {
	if l.err != nil {
		return x, l.err
	}
	if err := json.Unmarshal(l.data, &x); err != nil {
		return x, err
	}
	switch x.Type {
	case "prompt", "resume", "allow", "deny", "result", "steer", "follow_up", "cancel":
		return x, nil
	}
	return x, fmt.Errorf("there is no order %q", x.Type)
}

// A refusedLine is what the program prints if it cannot carry out an order.
type refusedLine struct {
	Type  string `json:"type"`
	Line  int    `json:"line"`
	Error string `json:"error"`
}

func (d *driver) refuse(l inputLine, err error) {
	d.json(&refusedLine{"input_error", l.n, err.Error()})
}

// turn lets the agent answer, and carries out orders meanwhile.
func (d *driver) turn(ctx context.Context, in aycoder.Input) int {
	ctx, d.stop = context.WithCancelCause(ctx)
	defer d.stop(nil)
	d.asks, d.calls = map[string][]*aycoder.Approval{}, map[string][]*aycoder.OpenCall{}
	d.begin()
	var res aycoder.Result
	var failed error
	beat := time.NewTicker(time.Second)
	defer beat.Stop()
	steps, next := stepping(d.events(ctx, d.s.Runtime, in, &res))
	for open := true; open; {
		select {
		case x, ok := <-steps:
			if open = ok; !ok {
				break
			}
			if x.panic != nil {
				panic(x.panic)
			}
			if failed = asSet(x.err, "WithSchema", "-schema"); x.err == nil {
				d.take(x.ev)
			}
			next <- struct{}{}
		case l, ok := <-d.lines:
			if !ok {
				d.leave()
				continue
			}
			if err := d.during(ctx, l); err != nil {
				d.refuse(l, err)
			}
		case <-beat.C: // a call may take long before the next line tells
			if d.led && d.lines == nil && readerGone(d.a.stdout) {
				d.broken = syscall.EPIPE
			}
		}
		if d.broken != nil {
			d.stop(d.broken)
		}
	}
	if d.broken != nil { // which has stopped the run
		failed = nil
	}
	return d.finish(&res, failed, context.Cause(ctx))
}

// ended returns the exit code at the end of the output.
func (d *driver) ended(code int) int {
	if d.broken != nil {
		return d.a.unwritten(d.broken)
	}
	return code
}

// take shows an event, and keeps what the program can answer.
func (d *driver) take(ev aycoder.Event) {
	inner := ev
	if child, ok := ev.(*aycoder.ChildEvent); ok {
		inner = child.Innermost()
	}
	if !d.gone.Load() { // or else nobody would answer
		switch q := inner.(type) {
		case *aycoder.ApprovalRequested:
			d.asks[q.Request.CallID] = append(d.asks[q.Request.CallID], q.Detach())
		case *aycoder.CallRequested:
			d.calls[q.Request.CallID] = append(d.calls[q.Request.CallID], q.Detach())
		}
	}
	d.event(ev)
}

// leave ends all questions, since the input has ended. Later ones suspend the run.
func (d *driver) leave() {
	d.lines = nil
	d.gone.Store(true)
	for _, q := range slices.Concat(slices.Collect(maps.Values(d.asks))...) {
		q.Deny("nobody can be asked any more")
	}
	for _, c := range slices.Concat(slices.Collect(maps.Values(d.calls))...) {
		c.Leave()
	}
}

// during carries out an order while a run works.
func (d *driver) during(ctx context.Context, l inputLine) error {
	x, err := l.order()
	if err != nil {
		return err
	}
	switch x.Type {
	case "allow", "deny":
		return d.decide(x)
	case "result":
		return d.result(x)
	case "steer":
		return d.s.Session.Steer(ctx, x.Text)
	case "follow_up":
		return d.s.Session.FollowUp(ctx, x.Text)
	case "cancel":
		d.stop(errCancelled)
		return nil
	}
	return errors.New("a run works: send steer or follow_up, or wait for its run_end")
}

// meant returns what an order is about: the open one of its id. If there are several, only the digest says which.
func meant[T interface{ Decided() bool }](x order, what string, all []T, digest func(T) string) (found T, err error) {
	all = slices.DeleteFunc(slices.Clone(all), T.Decided)
	if len(all) == 0 {
		return found, fmt.Errorf("no %s %q is open", what, x.ID)
	}
	if x.Digest == "" && len(all) > 1 {
		return found, fmt.Errorf("more than one %s %q is open: say the digest", what, x.ID)
	}
	found, ok := first(all, func(one T) bool { return x.Digest == "" || x.Digest == digest(one) })
	if !ok {
		err = fmt.Errorf("the %s %q has another digest", what, x.ID)
	}
	return found, err
}

// decide answers a question.
func (d *driver) decide(x order) error {
	q, err := meant(x, "question about a call", d.asks[x.ID], func(q *aycoder.Approval) string { return q.Request.Digest })
	if err != nil {
		return err
	}
	switch {
	case x.Type == "deny":
		q.Deny(cmp.Or(x.Reason, "the user said no"))
		return nil
	case x.Args != nil && x.Rule != "":
		return errors.New("say either other arguments or a rule")
	case x.Args != nil:
		return q.AllowWith(x.Args)
	case x.Rule != "":
		return q.AllowFor(aycoder.Session, x.Rule)
	}
	q.Allow()
	return nil
}

// result answers a call.
func (d *driver) result(x order) error {
	c, err := meant(x, "call", d.calls[x.ID], func(c *aycoder.OpenCall) string { return c.Request.Digest })
	if err != nil {
		return err
	}
	if x.IsError {
		return c.Answer(aycoder.ErrorResult(x.Text))
	}
	return c.Answer(aycoder.TextResult(x.Text))
}
