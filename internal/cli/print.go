package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/harness"
)

const cutWarning = "the answer was cut off at the token limit (max_tokens); " +
	"ask for the rest, or for less"

// A printer answers one prompt for a script: the answer on stdout, the activity on
// stderr.
type printer struct {
	out, err io.Writer
	format   string
	view     *view
	text     strings.Builder // of the current message
	broken   error           // of stdout
}

func newPrinter(out, errw io.Writer, o *options) *printer {
	v := newView(plainPaper(errw), o.verbose)
	v.holdOff = true
	v.begin()
	return &printer{out: out, err: errw, format: o.output, view: v}
}

// start names the model, in the streaming format.
func (p *printer) start(s *session) {
	if p.format == formatStream {
		p.json(struct {
			Type    string `json:"type"`
			Version int    `json:"version"`
			Model   string `json:"model"`
			Dir     string `json:"cwd"`
		}{"run_start", 1, s.model(), s.dir})
	}
}

// run answers the prompt and returns the exit code. An interrupt ends the run, not the
// program: the result is written in any case.
func (p *printer) run(ctx context.Context, agent aycoder.Agent, prompt string) int {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var res aycoder.Result
	var failed error
	for ev, err := range answers(ctx, agent, aycoder.Input{Prompt: prompt}, aycoder.Into(&res)) {
		if err != nil {
			failed = err
			break
		}
		if p.event(ev); p.broken != nil {
			break
		}
	}
	code := p.finish(&res, failed, context.Cause(ctx))
	if p.broken == nil {
		return code
	}
	if errors.Is(p.broken, syscall.EPIPE) {
		return exitPipe // the reader has gone
	}
	fmt.Fprintln(p.err, "aycoder: write the answer:", p.broken)
	return exitError
}

// event shows an event. The last message is the answer; earlier texts of the model are
// activity.
func (p *printer) event(ev aycoder.Event) {
	if p.format == formatStream {
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
	if code != exitOK {
		p.activity()
	}
	p.complain(res, failed, code)
	switch {
	case p.broken != nil:
	case p.format != formatText:
		p.json(newOutcome(res, failed, code))
	case code == exitOK && res.Text() != "":
		_, p.broken = io.WriteString(p.out, strings.TrimRight(clean(res.Text()), "\n")+"\n")
	}
	return code
}

// codeOf returns the exit code, which tells a script the outcome.
func codeOf(res *aycoder.Result, failed, cause error) int {
	if sig, ok := errors.AsType[*signalled](cause); ok && failed != nil {
		return exitCode(sig.sig)
	}
	if _, ok := errors.AsType[*aycoder.LimitError](failed); ok {
		return exitLimit
	}
	if _, ok := errors.AsType[*aycoder.UnknownModelError](failed); ok {
		return exitUsage
	}
	_, untrusted := errors.AsType[*harness.UntrustedError](failed)
	switch {
	case untrusted:
		return exitApproval
	case failed != nil:
		return exitError
	case res.End == aycoder.EndSuspended:
		return exitApproval
	}
	return exitOK
}

// complain describes an error on stderr, and what the user can do.
func (p *printer) complain(res *aycoder.Result, failed error, code int) {
	switch {
	case code == exitInterrupted || code == exitTerminated:
		fmt.Fprintln(p.err, "aycoder: interrupted")
	case failed != nil:
		fmt.Fprintln(p.err, "aycoder: "+explain(failed))
	case code == exitApproval:
		for _, need := range approvals(res) {
			fmt.Fprintf(p.err, "aycoder: %s needs approval: %s (allow it with -allow %s, or run without -p)\n",
				cleanLine(need.Tool), cleanLine(need.Subject), quoteShell(clean(need.Allow)))
		}
	case res.Stop == aycoder.StopMaxTokens:
		fmt.Fprintln(p.err, "aycoder: warning: "+cutWarning)
	}
}

// An approval is a missing approval.
type approval struct {
	Tool    string          `json:"name"`
	Subject string          `json:"subject,omitempty"`
	Args    json.RawMessage `json:"args"`
	// Allow is the narrowest rule that would let the call run, for -allow.
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

// narrowest returns the suggested rule that covers the least.
func narrowest(r *aycoder.ApprovalRequest) string {
	if len(r.Suggested) == 0 {
		return r.Tool
	}
	return r.Suggested[0]
}

// An outcome is the last line of the JSON formats: a run_end for every outcome, with the
// details of a failure that a script needs.
type outcome struct {
	end       aycoder.RunFinished
	Exit      int        `json:"exit_code"`
	Error     string     `json:"error,omitempty"`
	Approvals []approval `json:"needs_approval,omitempty"`
}

func newOutcome(res *aycoder.Result, failed error, code int) *outcome {
	o := &outcome{end: aycoder.RunFinished{Result: res}, Exit: code, Approvals: approvals(res)}
	if failed != nil {
		o.Error = failed.Error()
	}
	return o
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
		_, err = p.out.Write(append(escapeJSON(line), '\n'))
	}
	p.broken = err
}

// signalled is the cause of a run that a signal ended.
type signalled struct{ sig os.Signal }

func (s *signalled) Error() string { return "ended by " + s.sig.String() }
