package tools

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/background"
	"github.com/aycoder/aycoder/internal/proc"
	"github.com/aycoder/aycoder/internal/runes"
)

// The tools for what works in the background: agents and commands.

const (
	maxWait   = 60   // seconds
	maxFilter = 1000 // bytes
)

// WithBackground sets the group of the background commands of bash, which [JobOutput] reads and
// [JobStop] stops, with the agents of [SubagentConfig].Background. Each conversation needs a separate group.
// Default: a group of the [Shell], whose commands end with the run that started them.
func WithBackground(g *background.Group) Option {
	return func(c *config) error {
		if g == nil {
			return &aycoder.ConfigError{Option: "WithBackground", Err: errors.New("is nil")}
		}
		c.jobs = g
		return nil
	}
}

const outputDescription = `Get the output of a command or an agent in the background since the last call, at
most 30 kB (the beginning and the end), and whether it is running or how it ended. An agent writes its
calls, and its answer at the end. Without id, list all jobs. With wait the call waits for new output, or for
the end. With filter only matching lines are returned, and the others are dropped.`

type outputArgs struct {
	ID     string `json:"id,omitempty" jsonschema_description:"The id that bash or the agent's tool gave. Default: list all."`
	Wait   int    `json:"wait,omitempty" jsonschema:"minimum=0" jsonschema_description:"Seconds to wait for new output that matches, or for the end, at most 60. Default: 0."`
	Filter string `json:"filter,omitempty" jsonschema_description:"Regular expression (RE2) for the lines that are wanted. Default: all."`
}

// JobOutput returns the tool job_output, which reports the state and the new output of an agent or a
// command in the background, or lists all. Pass the same [Shell] by [WithShell], or the same group by
// [WithBackground], as to the tools that start them. Its result is untrusted if an agent has seen untrusted
// content.
func JobOutput(opts ...Option) (aycoder.Tool, error) {
	c, err := optioned(opts)
	if err != nil {
		return nil, err
	}
	return aycoder.NewTool("job_output", outputDescription, guard(jobs{c.jobs}.output),
		aycoder.WithEffect(aycoder.EffectReadOnly), aycoder.WithSubject(aycoder.SubjectText, "id"))
}

// jobs are the jobs that two tools work on.
type jobs struct{ *background.Group }

// output returns what a job has written since the last call. It is dropped with that, so that the
// memory for it is bounded.
func (g jobs) output(ctx context.Context, inv *invocation, in outputArgs) (*result, error) {
	if in.ID == "" {
		return g.list(inv), nil
	}
	j, err := g.find(inv, in.ID)
	if err != nil {
		return nil, err
	}
	filter, err := in.pattern()
	if err != nil {
		return nil, err
	}
	if in.Wait > 0 {
		some := func(b []byte) bool {
			if filter == nil {
				return len(b) > 0
			}
			kept, _ := matching(b, filter)
			return len(kept) > 0
		}
		if err := j.Wait(ctx, time.Duration(min(in.Wait, maxWait))*time.Second, some); err != nil {
			return nil, err
		}
	}
	r, _ := reportJob(j, inv, filter)
	return r, nil
}

// list returns a line for each job.
func (g jobs) list(inv *invocation) *result {
	all := g.Of(inv)
	var b strings.Builder
	for _, j := range all {
		v := j.View()
		fmt.Fprintf(&b, "[%s: %s] %s\n", v.ID, stateOf(&v, j), showHost(strings.Join(strings.Fields(v.Name), " ")))
	}
	if len(all) == 0 {
		b.WriteString("[nothing runs in the background]\n")
	}
	return textResult(b.String(), plural(len(all), "job"))
}

// find returns the job with an id if it belongs to this run, since agents must not read or stop the jobs of each
// other.
func (g jobs) find(inv *invocation, id string) (*background.Job, error) {
	if j := g.Find(inv, id); j != nil {
		return j, nil
	}
	id = showPath(runes.Shorten(id, 40))
	var known []string
	for _, j := range g.Of(inv) {
		known = append(known, j.View().ID)
	}
	if len(known) > 0 {
		return nil, problemf("unknown_job", "there is no job %s in the background; there are %s", id, strings.Join(known, ", "))
	}
	return nil, problemf("unknown_job", "there is no job %s in the background, and no other; start one with the argument "+
		"background of bash", id)
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

// stateOf describes the state of a job in a few words.
func stateOf(v *aycoder.Job, j *background.Job) string {
	switch {
	case !j.Ended() && v.State == background.Waiting:
		return "waiting for an approval or a result since there is no run"
	case !j.Ended():
		return "running for " + time.Since(v.Started).Round(time.Second/10).String()
	}
	return j.Outcome().Line
}

// reportJob describes the state and the new output, and reports whether it tells that the job has ended.
func reportJob(j *background.Job, inv *invocation, filter *regexp.Regexp) (r *result, ended bool) {
	ended = j.Ended()
	text, lost := j.Take()
	var b strings.Builder
	if lost > 0 {
		whole := proc.Behind(text)
		lost += int64(len(text) - len(whole))
		text = whole
		fmt.Fprintf(&b, "[… %d bytes before this are lost: the group keeps the last ones …]\n", lost)
	}
	others := 0
	if filter != nil {
		// The next write may complete the last line.
		last := text[bytes.LastIndexByte(text, '\n')+1:]
		if kept, _ := matching(last, filter); !ended && len(kept) == 0 {
			j.Unread(last)
			text = text[:len(text)-len(last)]
		}
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
	o, v := j.Outcome(), j.View()
	state := stateOf(&v, j)
	if ended {
		b.WriteString(o.Notes)
	}
	fmt.Fprintf(&b, "[%s: %s]\n", v.ID, state)
	r = textResult(b.String(), runes.Shorten(state, 80))
	showEnds(r, begin, end, maxOutput/2, maxOutput/2)
	r.Untrusted = o.Untrusted
	return r, ended
}

const stopDescription = `Stop a command or an agent in the background, with all processes that it started, and
get its output since the last job_output.`

type stopArgs struct {
	ID string `json:"id" jsonschema_description:"The id that bash or the agent's tool gave."`
}

// JobStop returns the tool job_stop, which stops an agent or a command in the background. Pass the same
// options as to [JobOutput].
func JobStop(opts ...Option) (aycoder.Tool, error) {
	c, err := optioned(opts)
	if err != nil {
		return nil, err
	}
	return aycoder.NewTool("job_stop", stopDescription, guard(jobs{c.jobs}.stop),
		aycoder.WithEffect(aycoder.EffectWrite), aycoder.WithSubject(aycoder.SubjectText, "id"))
}

// stop ends a job. If the call is cancelled first, the job still ends.
func (g jobs) stop(ctx context.Context, inv *invocation, in stopArgs) (*result, error) {
	j, err := g.find(inv, in.ID)
	if err != nil {
		return nil, err
	}
	if j.Ended() {
		r, _ := reportJob(j, inv, nil)
		r.Parts = append(r.Parts, textPart("[it had already ended]\n"))
		return r, nil
	}
	if err := j.Stop(ctx); err != nil {
		return nil, err
	}
	r, _ := reportJob(j, inv, nil)
	return r, nil
}

// textPart returns a part of a result that is only text.
func textPart(s string) aycoder.Part { return &aycoder.Text{Text: s} }
