package tools

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aycoder/aycoder/internal/proc"
	"github.com/aycoder/aycoder/internal/runes"
	"github.com/aycoder/aycoder/workspace"
)

// Commands in the background. A run waits for none of them, but none outlives it: when the
// run is over, all are ended with everything that they started. Their output is kept until
// it is asked for; of more than maxBacklog bytes, the oldest are dropped and counted.

const (
	maxJobs    = 16        // running at a time
	maxKnown   = 32        // including those that have ended
	maxBacklog = 256 << 10 // bytes of unread output, at times twice that
	firstLook  = 200 * time.Millisecond

	maxJobTimeout = 86_400 // seconds
)

var errStopped = errors.New("stopped")

// job is a background command.
type job struct {
	id, command string
	run         string // the run at whose end the job is killed; "" for none
	begun       time.Time
	cancel      context.CancelCauseFunc
	news        chan struct{} // one slot: new output was written
	done        chan struct{} // closed at the end, after the fields above are written

	res *ExecResult
	err error
	end time.Time

	mu     sync.Mutex
	unread []byte
	lost   int64 // bytes before unread that were dropped unread
}

// Write implements [io.Writer]. It stores the output of the command.
func (j *job) Write(p []byte) (int, error) {
	j.mu.Lock()
	j.unread = append(j.unread, p...)
	// It is cut only at twice the bound: cutting at each write would copy all of it for
	// each line.
	if over := len(j.unread) - maxBacklog; over > maxBacklog {
		j.lost += int64(over)
		j.unread = append(j.unread[:0], j.unread[over:]...)
	}
	j.mu.Unlock()
	select {
	case j.news <- struct{}{}:
	default:
	}
	return len(p), nil
}

// take returns the new output and the number of bytes before it that were lost. While the
// command runs, an incomplete character or escape sequence is left for the next call.
func (j *job) take() (text []byte, lost int64) {
	ended := j.ended()
	j.mu.Lock()
	defer j.mu.Unlock()
	text, lost = j.unread, j.lost
	if over := len(text) - maxBacklog; over > 0 {
		text, lost = text[over:], lost+int64(over)
	}
	var rest []byte
	// The rest is copied, since the caller now owns the text, and writes append to the
	// rest.
	if whole := proc.Whole(text); !ended {
		text, rest = whole, slices.Clone(text[len(whole):])
	}
	j.unread, j.lost = rest, 0
	return text, lost
}

// peek calls f with the output that take would return now.
func (j *job) peek(f func([]byte) bool) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return f(proc.Whole(j.unread))
}

// ended reports whether the command has ended, without waiting for it.
func (j *job) ended() bool {
	select {
	case <-j.done:
		return true
	default:
		return false
	}
}

// work runs the command. A panic of an [Exec] must not end the host.
func (j *job) work(ctx context.Context, e Exec, c *ExecCommand) {
	defer close(j.done)
	defer func() {
		if p := recover(); p != nil {
			j.err = fmt.Errorf("running commands panicked: %v", p)
		}
		j.end = time.Now()
	}()
	out := &sink{w: j}
	defer out.close()
	c.Output = out
	j.res, j.err = e.Run(ctx, c)
	_, memory := errors.AsType[*proc.MemoryError](j.err)
	if cause := context.Cause(ctx); j.err != nil && cause != nil && !j.unknown() && (!memory || !errors.Is(cause, errTimeout)) {
		j.err = cause
	}
}

// state describes the state of the command in a few words.
func (j *job) state() string {
	switch {
	case !j.ended():
		return "running for " + time.Since(j.begun).Round(time.Second/10).String()
	case j.unknown():
		return printable(j.err.Error())
	case j.res == nil:
		return "not started: " + printable(cmp.Or(j.err, errNoResult).Error())
	case errors.Is(j.err, errStopped):
		return "killed"
	case errors.Is(j.err, errTimeout):
		return "timed out after " + j.end.Sub(j.begun).Round(time.Second/10).String()
	}
	e := j.ending()
	if e.memory != nil {
		return e.summary()
	}
	return "ended, " + e.summary()
}

// unknown reports whether nobody knows how the command ended, or whether it has begun.
func (j *job) unknown() bool { return j.res == nil && kindOf(j.err) == workspace.KindInterrupted }

// ending returns how the command ended. The command must have been started, since the result is
// missing otherwise.
func (j *job) ending() *ending {
	e := &ending{res: j.res,
		cancelled: errors.Is(j.err, errStopped) || errors.Is(j.err, errTimeout)}
	if e.memory, _ = errors.AsType[*proc.MemoryError](j.err); e.memory != nil {
		e.note = "[" + memoryAdvice(e.memory) + "]\n"
	}
	return e
}

// begin starts a background command. The context of the command is separate from that of the
// call, because the command continues after the call; the end of the run cancels it instead.
func (s *Shell) begin(
	ctx context.Context, e Exec, c *ExecCommand, in *bashArgs, inv *invocation,
) (*job, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, problemf("closed", "no command can be started in the background any more")
	}
	if running := s.ids(func(j *job) bool { return !j.ended() }); len(running) >= maxJobs {
		return nil, problemf("too_many_jobs", "%d commands run in the background (%s); end one with bash_kill",
			len(running), strings.Join(running, ", "))
	}
	s.number++
	// The call is over long before the command.
	work, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	j := &job{
		id: fmt.Sprintf("bash-%d", s.number), command: in.Command, begun: time.Now(), cancel: cancel,
		news: make(chan struct{}, 1), done: make(chan struct{}),
	}
	// Outside of a run, the command lives until the shell is closed.
	if inv.Cleanup(func() { s.drop(j) }) {
		j.run = inv.Run
	}
	stop := context.CancelFunc(func() {})
	if in.Timeout > 0 {
		work, stop = context.WithTimeoutCause(work,
			time.Duration(min(in.Timeout, maxJobTimeout))*time.Second, errTimeout)
	}
	go func() { // returns when the command was cancelled, see drop and Close
		defer stop()
		j.work(work, e, c)
	}()
	if len(s.jobs) >= maxKnown {
		// There is one, since fewer than maxJobs of them run.
		oldest := slices.IndexFunc(s.jobs, (*job).ended)
		s.jobs = slices.Delete(s.jobs, oldest, oldest+1)
	}
	s.jobs = append(s.jobs, j)
	return j, nil
}

// ids returns the ids of the jobs for which want returns true. The caller holds the
// mutex.
func (s *Shell) ids(want func(*job) bool) []string {
	var out []string
	for _, j := range s.jobs {
		if want(j) {
			out = append(out, j.id)
		}
	}
	return out
}

// drop kills a job and forgets it.
func (s *Shell) drop(j *job) {
	s.mu.Lock()
	s.jobs = slices.DeleteFunc(s.jobs, func(other *job) bool { return other == j })
	s.mu.Unlock()
	j.stop()
}

// stop ends the command and waits until all of its processes are gone.
func (j *job) stop() {
	j.cancel(errStopped)
	<-j.done
}

// find returns the job with an id if the job belongs to this run. Subagents can have the same
// Shell, but must not read or kill the commands of each other.
func (s *Shell) find(inv *invocation, id string) (*job, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	mine := func(j *job) bool { return j.run == "" || j.run == inv.Run }
	for _, j := range s.jobs {
		if j.id == id && mine(j) {
			return j, nil
		}
	}
	if known := s.ids(mine); len(known) > 0 {
		return nil, problemf("unknown_job", "there is no command %s in the background; there are %s",
			showPath(runes.Shorten(id, 40)), strings.Join(known, ", "))
	}
	return nil, problemf("unknown_job", "there is no command %s in the background, and no other; "+
		"start one with bash and background", showPath(runes.Shorten(id, 40)))
}

// background starts a command and watches it for a moment, since many commands that
// cannot work fail at once.
func (b *basher) background(
	ctx context.Context, inv *invocation, c *ExecCommand, in *bashArgs,
) (*result, error) {
	j, err := b.shell.begin(ctx, b.exec, c, in, inv)
	if err != nil {
		return nil, err
	}
	look := time.NewTimer(firstLook)
	defer look.Stop()
	select {
	case <-look.C:
	case <-j.done:
	case <-ctx.Done(): // its id was not returned to the model yet
		b.shell.drop(j)
		return nil, context.Cause(ctx)
	}
	if j.ended() && j.res == nil {
		b.shell.drop(j)
		return nil, b.refused(ctx, inv, nil, j.err, in)
	}
	r := j.report(inv, nil)
	if dir := path.Clean(b.shell.dir(inv)); dir != "." {
		r.Parts = append(r.Parts, textPart("[the next command runs in "+showPath(dir)+"]\n"))
	}
	return r, nil
}
