package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/generate"
	"github.com/aycoder/aycoder/harness"
)

const cutWarning = "the answer was cut off at the token limit (max_tokens); " +
	"ask for the rest, or for less"

// print answers one prompt. If the program was started with nothing, not even a model, it shows the demo.
func (a *app) print(o *options, bare bool) int {
	ctx, stop := a.withSignals()
	defer stop()
	st, err := a.settings(o)
	if err == nil && st.model == "" && !bare {
		err = &noModelError{st.why}
	}
	if err != nil {
		return a.failed(err)
	}
	in, err := a.promptOf(ctx, o)
	if sig, ok := errors.AsType[*signalled](err); ok {
		fmt.Fprintln(a.stderr, "aycoder:", err)
		return exitCode(sig.sig)
	}
	switch empty := in.Prompt == "" && len(in.Parts) == 0; {
	case err != nil:
		a.tell(clean(err.Error()))
		return exitUsage
	case empty && bare && st.guessed:
		return a.unattended(ctx, o, "there is no key of a provider, and no prompt")
	case empty && st.model == demoModel && o.schema == "":
		return a.unattended(ctx, o, "")
	case empty && o.resume == "" && !o.last:
		a.tell("nothing to do: give a prompt, as in aycoder -p \"explain main.go\"\n\n" + strings.TrimSuffix(a.usage(), "\n"))
		return exitUsage
	}
	return a.answer(ctx, o, st, in)
}

// unattended shows the demo where nobody can press a key, and why if nobody has asked for it.
func (a *app) unattended(ctx context.Context, o *options, why string) int {
	o.model, o.allow = demoModel, []string{demoEdit}
	s, err := a.open(ctx, o, &settings{model: demoModel})
	if err != nil {
		return a.failed(err)
	}
	defer s.close()
	label := a.stdout
	if o.output != formatText {
		label = a.stderr
	}
	fmt.Fprintln(label, demoLabel(s.Files.Dir(), why)+
		"Nobody is at a terminal to be asked, so the one change that it makes is allowed.\n")
	p := newPrinter(a, o)
	p.diff = o.output == formatText
	p.start(s)
	return p.run(ctx, s, aycoder.Input{Prompt: demoTask})
}

// answer answers one prompt, or goes on with a run that waits for an approval.
func (a *app) answer(ctx context.Context, o *options, st *settings, in aycoder.Input) int {
	s, err := a.open(ctx, o, st)
	if err != nil {
		return a.opened(ctx, err)
	}
	defer s.close()
	defer a.prune(st) // this one stays, since it is open
	if in.Prompt == "" && len(in.Parts) == 0 && s.Session.Pending() == nil {
		a.tell("nothing to do: the session does not wait for anything; give a prompt")
		return exitUsage
	}
	p := newPrinter(a, o)
	if o.schema != "" {
		if p.schema, err = os.ReadFile(o.schema); err != nil {
			return a.failed(&aycoder.ConfigError{Option: "-schema", Err: err})
		}
	}
	if st.why != "" && o.output == formatText {
		p.view.line("Using " + s.model() + " " + clean(st.why))
	}
	if o.output == formatText {
		if text := a.foresee(ctx, s, st, in.Prompt); text != "" {
			p.view.line(text)
		}
	}
	p.start(s)
	return p.run(ctx, s, in)
}

// A printer answers prompts for a script: the answer on stdout, the activity on stderr.
type printer struct {
	a      *app
	format string
	schema []byte // of the answer, or nil
	view   *view
	text   strings.Builder // of the current message
	broken error           // of stdout
	diff   bool            // show the changes, too

	session   string          // its id
	value     json.RawMessage // the answer, with a schema
	began     time.Time
	conflicts map[string]bool // the files with changes that were left out
}

func newPrinter(a *app, o *options) *printer {
	v := newView(plainPaper(a.stderr), o.verbose)
	v.holdOff = true
	v.begin()
	return &printer{a: a, format: o.output, view: v}
}

// start names the session, the model and the directory, before the events.
func (p *printer) start(s *session) {
	p.session = s.id()
	if p.format == formatEvents {
		p.json(&started{"run_start", 1, p.session, s.model(), s.Files.Dir(), s.Session.Pending() != nil})
	}
}

// started is the first line of the format events.
type started struct {
	Type    string `json:"type"`
	Version int    `json:"version"`
	Session string `json:"session,omitempty"`
	Model   string `json:"model"`
	Dir     string `json:"cwd"`
	Pending bool   `json:"pending,omitempty"`
}

// run answers one prompt, while nobody can be asked, and returns the exit code. An interrupt ends the run, not the
// program: the result is written in any case.
func (p *printer) run(ctx context.Context, s *session, in aycoder.Input) int {
	d := &driver{printer: p, s: s, gone: new(atomic.Bool)}
	d.gone.Store(true)
	return d.ended(d.turn(ctx, in))
}

func (p *printer) begin() { p.began, p.conflicts, p.value = time.Now(), map[string]bool{}, nil }

// events lets the agent answer, with text or with a document.
func (p *printer) events(ctx context.Context, rt *harness.Runtime, in aycoder.Input, res *aycoder.Result) iter.Seq2[aycoder.Event, error] {
	if p.schema == nil {
		return expander{rt: rt}.Run(ctx, in, aycoder.Into(res))
	}
	return generate.RunAs(ctx, expander{rt: rt}, in, &p.value, generate.WithSchema(p.schema), generate.WithRun(aycoder.Into(res)))
}

// event shows an event. The last message is the answer; earlier texts of the model are
// activity.
func (p *printer) event(ev aycoder.Event) {
	p.conflict(ev)
	if p.format == formatEvents {
		if _, end := ev.(*aycoder.RunFinished); !end {
			p.json(ev)
		}
		return
	}
	switch ev := ev.(type) {
	case *aycoder.TextDelta:
		p.text.WriteString(ev.Text)
	case *aycoder.Retrying:
		p.text.Reset()
	case *aycoder.ToolStarted, *aycoder.ToolFinished:
		p.activity()
	}
	p.view.event(ev)
}

// conflict notes files whose changes were left out, until a later call has changed them.
func (p *printer) conflict(ev aycoder.Event) {
	if child, ok := ev.(*aycoder.ChildEvent); ok {
		ev = child.Innermost()
	}
	switch ev := ev.(type) {
	case *aycoder.Conflicted:
		p.conflicts[ev.File.Path] = true
	case *aycoder.ToolFinished:
		if ev.Changes == nil {
			return
		}
		for _, f := range ev.Changes.Files {
			if f.Outcome == edit.OutcomeApplied || f.Outcome == edit.OutcomeMerged || f.Outcome == edit.OutcomeUnchanged {
				delete(p.conflicts, f.Path)
			}
		}
	}
}

// activity writes the text so far to stderr, since it is not the answer.
func (p *printer) activity() {
	if text := strings.TrimSpace(clean(p.text.String())); text != "" {
		p.view.line(text)
	}
	p.text.Reset()
}

// finish writes the result and returns the exit code.
func (p *printer) finish(res *aycoder.Result, failed, cause error) int {
	code := codeOf(res, failed, cause)
	if code == exitOK && len(p.conflicts) > 0 {
		code = exitConflicts
	}
	answered := failed == nil && res.End == aycoder.EndDone
	if !answered {
		p.activity()
	}
	p.complain(res, failed, code)
	if p.diff && res.Changes != nil {
		p.view.diff(res.Changes.Diff())
	}
	switch {
	case p.broken != nil:
	case p.format != formatText:
		p.json(p.outcome(res, failed, code))
	case p.value != nil:
		_, p.broken = p.a.stdout.Write(append(escapeJSON(p.value), '\n'))
	case answered && res.Text() != "":
		_, p.broken = io.WriteString(p.a.stdout, strings.TrimRight(clean(res.Text()), "\n")+"\n")
	}
	return code
}

// codeOf returns the exit code, which tells a script the outcome.
func codeOf(res *aycoder.Result, failed, cause error) int {
	if sig, ok := errors.AsType[*signalled](cause); ok && failed != nil {
		return exitCode(sig.sig)
	}
	switch {
	case errors.Is(cause, errCancelled) && failed != nil:
		return exitInterrupted
	case is[*aycoder.LimitError](failed):
		return exitLimit
	case is[*aycoder.UnknownModelError](failed), is[*aycoder.ConfigError](failed):
		return exitUsage
	case is[*harness.UntrustedError](failed):
		return exitApproval
	case failed != nil:
		return exitError
	case res.End == aycoder.EndSuspended:
		return exitApproval
	case res.Stop == aycoder.StopMaxTokens:
		return exitLimit
	}
	return exitOK
}

// complain describes an error on stderr, and what the user can do.
func (p *printer) complain(res *aycoder.Result, failed error, code int) {
	switch {
	case code == exitInterrupted || code == exitTerminated || code == exitHangup:
		fmt.Fprintln(p.a.stderr, "aycoder: interrupted")
	case failed != nil:
		fmt.Fprintln(p.a.stderr, "aycoder: "+explain(failed))
	case code == exitApproval:
		for _, need := range approvals(res) {
			rule, again := "", ""
			if p.session != "" {
				again = ", or go on with -r " + p.session
			}
			if need.Allow != "" {
				rule = "allow it with -allow " + quoteShell(clean(need.Allow)) + ", or "
			}
			what := cleanLine(need.Tool) + " needs approval"
			if need.Subject != "" {
				what += ": " + cleanLine(need.Subject)
			}
			fmt.Fprintf(p.a.stderr, "aycoder: %s (%srun without -p%s)\n", what, rule, again)
		}
	case code == exitConflicts:
		fmt.Fprintln(p.a.stderr, "aycoder: changes were left out because they conflict with yours: "+
			clean(strings.Join(slices.Sorted(maps.Keys(p.conflicts)), ", ")))
	case res.Stop == aycoder.StopMaxTokens:
		fmt.Fprintln(p.a.stderr, "aycoder: warning: "+cutWarning)
	}
}

// An approval is a missing approval.
type approval struct {
	Tool    string          `json:"name"`
	Subject string          `json:"subject,omitempty"`
	Args    json.RawMessage `json:"args"`
	// Allow is the narrowest rule that would let the call run, for -allow. It is "" if there is none.
	Allow string `json:"allow"`
}

func approvals(res *aycoder.Result) []approval {
	if res.Pending == nil {
		return nil
	}
	var out []approval
	for _, r := range res.Pending.Requests {
		out = append(out, approval{r.Tool, r.Subject, r.Args, narrowest(&r)})
	}
	return out
}

// narrowest returns the suggested rule that covers the least, or "" if no rule describes the call.
func narrowest(r *aycoder.ApprovalRequest) string {
	if len(r.Suggested) == 0 {
		return ""
	}
	return r.Suggested[0]
}

// An outcome is the last line of a run in the JSON formats: a run_end for every outcome, with what a script needs
// besides.
type outcome struct {
	end       aycoder.RunFinished
	Exit      int             `json:"exit_code"`
	Error     string          `json:"error,omitempty"`
	Approvals []approval      `json:"needs_approval,omitempty"`
	Conflicts []string        `json:"conflicts,omitempty"`
	Value     json.RawMessage `json:"value,omitempty"`
	Cost      *float64        `json:"cost,omitempty"`
	Millis    int64           `json:"ms"`
	Session   string          `json:"session,omitempty"`
}

func (p *printer) outcome(res *aycoder.Result, failed error, code int) *outcome {
	o := &outcome{
		end: aycoder.RunFinished{Result: res}, Exit: code, Approvals: approvals(res), Conflicts: slices.Sorted(maps.Keys(p.conflicts)),
		Value: p.value, Cost: costOf(res), Millis: time.Since(p.began).Milliseconds(), Session: p.session,
	}
	if failed != nil {
		o.Error = failed.Error()
	}
	return o
}

// costOf returns what a run has cost in US dollars, or nil if that is unknown of a part of it.
func costOf(res *aycoder.Result) *float64 {
	sum := 0.0
	for _, s := range res.Spent {
		if s.Unpriced > 0 {
			return nil
		}
		sum += s.Cost
	}
	return &sum
}

// MarshalJSON adds the fields of o to those of the event.
func (o *outcome) MarshalJSON() ([]byte, error) {
	event, err := json.Marshal(&o.end)
	if err != nil {
		return nil, err
	}
	type fields outcome
	more, err := json.Marshal((*fields)(o))
	if err != nil {
		return nil, err
	}
	return append(append(event[:len(event)-1], ','), more[1:]...), nil
}

// json writes one line.
func (p *printer) json(v any) {
	line, err := json.Marshal(v)
	if err == nil {
		_, err = p.a.stdout.Write(append(escapeJSON(line), '\n'))
	}
	p.broken = err
}

// errCancelled is the cause of a run that the program at the other end has cancelled.
var errCancelled = errors.New("cancelled")

// signalled is the cause of a run that a signal ended.
type signalled struct{ sig os.Signal }

func (s *signalled) Error() string { return "ended by " + s.sig.String() }
