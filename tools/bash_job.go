package tools

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/background"
	"github.com/aycoder/aycoder/internal/proc"
	"github.com/aycoder/aycoder/workspace"
)

// Commands in the background are jobs of a group, see package background.

const (
	firstLook     = 200 * time.Millisecond
	maxJobTimeout = 86_400 // seconds
)

// A job is a command in the background. Its fields are complete when it has ended.
type job struct {
	res        *ExecResult
	err        error
	begun, end time.Time
}

// work runs the command. A panic of an [Exec] must not end the host.
func (j *job) work(ctx context.Context, e Exec, c *ExecCommand, out *sink) {
	defer func() {
		if p := recover(); p != nil {
			j.err = fmt.Errorf("running commands panicked: %v", p)
		}
		j.end = time.Now()
	}()
	defer out.close()
	c.Output = out
	j.begun = time.Now()
	j.res, j.err = e.Run(ctx, c)
	_, memory := errors.AsType[*proc.MemoryError](j.err)
	if cause := context.Cause(ctx); j.err != nil && cause != nil && !j.unknown() && (!memory || !errors.Is(cause, errTimeout)) {
		j.err = cause
	}
}

// outcome describes how the command has ended.
func (j *job) outcome() background.Outcome {
	o := background.Outcome{State: background.Failed}
	switch took := j.end.Sub(j.begun).Round(time.Second / 10).String(); {
	case j.unknown():
		o.Summary, o.Line = "its outcome is unknown", printable(j.err.Error())
	case j.res == nil:
		o.Summary, o.Line = "not started", "not started: "+printable(cmp.Or(j.err, errNoResult).Error())
	case errors.Is(j.err, background.ErrStopped):
		o.State, o.Line = background.Stopped, "killed"
	case errors.Is(j.err, errTimeout):
		o.Summary = "timed out after " + took
		o.Line = o.Summary
	default:
		e := j.ending()
		o.Summary = e.summary()
		if o.Line = o.Summary; e.memory == nil {
			o.Line = "ended, " + o.Summary
		}
		if e.memory == nil && j.res.Signal == "" && j.res.Code == 0 {
			o.State = background.Done
		}
	}
	if j.res != nil {
		var notes strings.Builder
		j.ending().writeNotes(&notes)
		o.Notes = notes.String()
	}
	return o
}

// unknown reports whether nobody knows how the command ended, or whether it has begun.
func (j *job) unknown() bool { return j.res == nil && kindOf(j.err) == workspace.KindInterrupted }

// ending returns how the command ended. The command must have been started, since the result is
// missing otherwise.
func (j *job) ending() *ending {
	e := &ending{res: j.res,
		cancelled: errors.Is(j.err, background.ErrStopped) || errors.Is(j.err, errTimeout)}
	if e.memory, _ = errors.AsType[*proc.MemoryError](j.err); e.memory != nil {
		e.note = "[" + memoryAdvice(e.memory) + "]\n"
	}
	return e
}

// background starts a command and watches it for a moment, since many commands that
// cannot work fail at once.
func (b *basher) background(
	ctx context.Context, inv *invocation, c *ExecCommand, in *bashArgs,
) (*result, error) {
	var command job
	j, err := startJob(ctx, b.jobs, inv, background.Work{Kind: background.Command, Prefix: "bash", Name: in.Command,
		Run: func(ctx context.Context, j *background.Job) background.Outcome {
			if in.Timeout > 0 {
				var stop context.CancelFunc
				ctx, stop = context.WithTimeoutCause(ctx, time.Duration(min(in.Timeout, maxJobTimeout))*time.Second, errTimeout)
				defer stop()
			}
			command.work(ctx, b.exec, c, &sink{w: j})
			return command.outcome()
		}})
	if err != nil {
		return nil, err
	}
	look := time.NewTimer(firstLook)
	defer look.Stop()
	select {
	case <-look.C:
	case <-j.Done():
	case <-ctx.Done(): // its id was not returned to the model yet
		j.Drop()
		return nil, context.Cause(ctx)
	}
	if j.Ended() && command.res == nil {
		j.Drop()
		return nil, b.refused(ctx, inv, nil, command.err, in)
	}
	r, ended := reportJob(j, inv, nil)
	j.Release(ended)
	if dir := path.Clean(b.shell.dir(inv)); dir != "." {
		r.Parts = append(r.Parts, textPart("[the next command runs in "+showPath(dir)+"]\n"))
	}
	return r, nil
}

// startJob starts a job, or tells the model why it cannot.
func startJob(ctx context.Context, g *background.Group, inv *invocation, w background.Work) (*background.Job, error) {
	j, err := g.Start(ctx, inv, w)
	if _, many := errors.AsType[*aycoder.LimitError](err); many {
		var running []string
		for _, other := range g.Of(inv) {
			if v := other.View(); v.Kind == w.Kind && v.Lives() {
				running = append(running, v.ID)
			}
		}
		return nil, problemf("too_many_jobs", "%v (%s); end one with job_stop", err, cmp.Or(strings.Join(running, ", "), "of other agents"))
	}
	if err != nil {
		return nil, problemf("closed", "%v", err)
	}
	return j, nil
}
