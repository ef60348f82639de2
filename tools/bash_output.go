package tools

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/proc"
	"github.com/aycoder/aycoder/internal/runes"
)

const (
	maxWait   = 60   // seconds
	maxFilter = 1000 // bytes
	lookAgain = 50 * time.Millisecond
)

const outputDescription = `Get the output of a background command since the last call, at most 30 kB
(the beginning and the end), and whether it is running or how it ended. With wait the call waits for
new output, or for the end. With filter only matching lines are returned, and the others are
dropped.`

type outputArgs struct {
	ID     string `json:"id" jsonschema_description:"The id that bash gave."`
	Wait   int    `json:"wait,omitempty" jsonschema:"minimum=0" jsonschema_description:"Seconds to wait for new output that matches, or for the end, at most 60. Default: 0."`
	Filter string `json:"filter,omitempty" jsonschema_description:"Regular expression (RE2) for the lines that are wanted. Default: all."`
}

// BashOutput returns the tool bash_output, which reports the state and the new output of a
// background command of bash. Pass the same [Shell] to both tools by [WithShell].
func BashOutput(ws FS, opts ...Option) (aycoder.Tool, error) {
	c, err := configure(ws, opts)
	if err != nil {
		return nil, err
	}
	return aycoder.NewTool("bash_output", outputDescription, guard(c.shell.output),
		aycoder.WithEffect(aycoder.EffectReadOnly), aycoder.WithSubject(aycoder.SubjectText, "id"))
}

// output returns what the command has printed since the last call. It is dropped with that,
// so that the memory for it is bounded.
func (s *Shell) output(ctx context.Context, inv *invocation, in outputArgs) (*result, error) {
	j, err := s.find(inv, in.ID)
	if err != nil {
		return nil, err
	}
	filter, err := in.pattern()
	if err != nil {
		return nil, err
	}
	if in.Wait > 0 {
		limit := time.Duration(min(in.Wait, maxWait)) * time.Second
		if err := j.await(ctx, limit, filter); err != nil {
			return nil, err
		}
	}
	return j.report(inv, filter), nil
}

// pattern compiles the filter; it returns nil for an empty one.
func (in *outputArgs) pattern() (*regexp.Regexp, error) {
	switch {
	case in.Wait < 0:
		return nil, problemf("invalid_arguments", "wait must not be negative")
	case in.Filter == "":
		return nil, nil
	case len(in.Filter) > maxFilter:
		return nil, problemf("invalid_regex", "the filter has more than %d bytes", maxFilter)
	}
	re, err := regexp.Compile(in.Filter)
	if err != nil {
		return nil, problemf("invalid_regex", "filter: %v; RE2 syntax, without lookaround", err)
	}
	return re, nil
}

// await waits until there is something to report: output that matches, or the end. It
// examines all unread output each time, because a line may be completed by the next write.
func (j *job) await(ctx context.Context, limit time.Duration, filter *regexp.Regexp) error {
	late := time.NewTimer(limit)
	defer late.Stop()
	some := func(b []byte) bool {
		if filter == nil {
			return len(b) > 0
		}
		kept, _ := matching(b, filter)
		return len(kept) > 0
	}
	for found := false; !found; {
		if found = j.peek(some); !found {
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-late.C:
				return nil
			case <-j.done:
				return nil
			case <-j.news:
			}
		}
		j.pause(ctx)
	}
	return context.Cause(ctx)
}

// pause waits a little, so that a flood of output is not examined all the time, and so
// that the end of a command that just printed its last line is reported with it.
func (j *job) pause(ctx context.Context) {
	again := time.NewTimer(lookAgain)
	defer again.Stop()
	select {
	case <-again.C:
	case <-j.done:
	case <-ctx.Done():
	}
}

// matching returns the lines that match, and the number of the others. The filter sees a line
// as the model will, without escape sequences and line ends.
func matching(b []byte, filter *regexp.Regexp) (kept []byte, others int) {
	for line := range bytes.Lines(b) {
		text, _ := proc.Clean(bytes.TrimRight(line, "\r\n"))
		if filter.MatchString(text) {
			kept = append(kept, line...)
		} else {
			others++
		}
	}
	return kept, others
}

// report describes the state and the new output.
func (j *job) report(inv *invocation, filter *regexp.Regexp) *result {
	text, lost := j.take()
	var b strings.Builder
	if lost > 0 {
		fmt.Fprintf(&b, "[… %d bytes before this are lost: at most %d are kept …]\n",
			lost, maxBacklog)
	}
	others := 0
	if filter != nil {
		text, others = matching(text, filter)
	}
	out := proc.NewOutput(max(maxOutput, inv.Whole))
	_, _ = out.Write(text)
	begin := b.Len()
	switch {
	case out.Total() > 0:
		writeText(&b, out)
	case filter != nil:
		b.WriteString("[no new line matches]\n")
	default:
		b.WriteString("[no new output]\n")
	}
	end := b.Len()
	if others > 0 {
		fmt.Fprintf(&b, "[%s left out]\n", plural(others, "other line"))
	}
	if j.ended() && j.res != nil {
		j.ending().writeNotes(&b)
	}
	state := j.state()
	fmt.Fprintf(&b, "[%s: %s]\n", j.id, state)
	r := textResult(b.String(), runes.Shorten(state, 80))
	showEnds(r, begin, end, maxOutput/2, maxOutput/2)
	return r
}

const killDescription = `Kill a background command and all processes that it started, and get its
output since the last bash_output.`

type killArgs struct {
	ID string `json:"id" jsonschema_description:"The id that bash gave."`
}

// BashKill returns the tool bash_kill, which kills a background command of bash. Pass the same
// [Shell] to both tools by [WithShell].
func BashKill(ws FS, opts ...Option) (aycoder.Tool, error) {
	c, err := configure(ws, opts)
	if err != nil {
		return nil, err
	}
	return aycoder.NewTool("bash_kill", killDescription, guard(c.shell.kill),
		aycoder.WithEffect(aycoder.EffectWrite), aycoder.WithSubject(aycoder.SubjectText, "id"))
}

// kill ends a command. If the call is cancelled first, the command still ends.
func (s *Shell) kill(ctx context.Context, inv *invocation, in killArgs) (*result, error) {
	j, err := s.find(inv, in.ID)
	if err != nil {
		return nil, err
	}
	if j.ended() {
		r := j.report(inv, nil)
		r.Parts = append(r.Parts, textPart("[it had already ended]\n"))
		return r, nil
	}
	j.cancel(errStopped)
	select {
	case <-j.done:
		return j.report(inv, nil), nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// textPart returns a part of a result that is only text.
func textPart(s string) aycoder.Part { return &aycoder.Text{Text: s} }
