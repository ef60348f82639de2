package tools

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/background"
	"github.com/aycoder/aycoder/internal/runes"
)

// Agents in the background are jobs of a group, see package background.

type backgroundArgs struct {
	subagentArgs
	Background bool `json:"background,omitempty" jsonschema_description:"Return at once with an id for job_output and job_stop, and let the agent work. A message tells when it has ended: do not wait for it."`
}

// runOrStart is the function of the tool if agents may work in the background.
func (s *subagents) runOrStart(ctx context.Context, inv *invocation, in backgroundArgs) (*result, error) {
	if !in.Background {
		return s.run(ctx, inv, in.subagentArgs)
	}
	child, err := s.agent(inv, &in.subagentArgs)
	if err != nil {
		return nil, err
	}
	j, err := startJob(ctx, s.Background, inv, background.Work{
		Kind: background.Agent, Prefix: "agent", Name: cmp.Or(in.Description, in.Task),
		Run: func(ctx context.Context, j *background.Job) background.Outcome {
			return s.workBeside(ctx, child, in.Task, inv, j)
		},
	})
	if err != nil {
		return nil, err
	}
	j.Release(false)
	id := j.View().ID
	return textResult(fmt.Sprintf("[%s works in the background. A message comes when it has ended; job_output then returns its answer.]\n", id), id), nil
}

// workBeside runs an agent as a job, for which the consumer of another run answers.
func (s *subagents) workBeside(ctx context.Context, child *aycoder.Loop, task string, inv *invocation, j *background.Job) background.Outcome {
	w := &follower{inv: inv.Outlive()}
	w.emit = func(ctx context.Context, ev aycoder.Event) error {
		switch ev := ev.(type) {
		case *aycoder.ToolStarted:
			_, _ = fmt.Fprintf(j, "- %s\n", printable(strings.TrimSpace(ev.Call.Name+" "+runes.Shorten(strings.Join(strings.Fields(ev.Subject), " "), 200))))
		case *aycoder.ToolFinished:
			if ev.Output.Untrusted {
				j.Taint()
			}
		}
		inner := ev
		if c, ok := ev.(*aycoder.ChildEvent); ok {
			inner = c.Innermost()
		}
		switch q := inner.(type) {
		case *aycoder.ApprovalRequested:
			return j.Ask(ctx, inv.ID, ev, q.Decided)
		case *aycoder.CallRequested:
			return j.Ask(ctx, inv.ID, ev, q.Decided)
		}
		return nil
	}
	r, err := s.work(ctx, child, task, w)
	o := background.Outcome{State: background.Done, Spent: w.res.Spent}
	switch {
	case err != nil:
		o.State, o.Summary = background.Failed, "error"
		_, _ = fmt.Fprintf(j, "agent_failed: %s\n", runes.Shorten(EscapeInvisible(err.Error()), 1000))
	case errors.Is(context.Cause(ctx), background.ErrStopped):
		o.State = background.Stopped
	case r.IsError:
		o.State, o.Summary = background.Failed, r.Summary
	default:
		o.Summary = r.Summary
	}
	if r != nil {
		o.Untrusted = r.Untrusted
		_, _ = j.Write([]byte(shownText(r)))
	}
	if o.Line = o.State; o.Summary != "" {
		o.Line += ", " + o.Summary
	}
	return o
}
