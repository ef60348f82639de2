package background

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/proc"
)

// lookAgain is how long Wait waits for more output, so that a flood is not examined all the time.
const lookAgain = 50 * time.Millisecond

// ErrStopped is the cause of the context of a job that was stopped.
var ErrStopped = errors.New("stopped")

// Outcome says how a job has ended.
type Outcome struct {
	// State is [Done], [Failed] or [Stopped]. Summary says how it ended, in a few words for people and the
	// model, such as "exit 1". It must have nothing that the job has written.
	State, Summary string
	// Line and Notes are for the tool that reports the end to the model.
	Line, Notes string
	// Untrusted says that somebody unknown may have written the output.
	Untrusted bool
	// Spent is what an agent has spent.
	Spent []aycoder.Spent
}

// Job is a job of a [Group], for the tools that start, read and stop it. Its methods are safe for
// concurrent use.
type Job struct {
	group  *Group
	scope  string // the inner run at whose end it is dropped, or ""
	cancel context.CancelCauseFunc
	news   chan struct{} // one slot: there is new output
	done   chan struct{} // closed when nothing of it is left

	// The mutex of the group guards these.
	view     aycoder.Job
	outcome  Outcome
	released bool // the call that started it has not told of its end
	quiet    bool // its end is told by a call, or to nobody
	noted    bool // there is a note
	told     bool // the conversation has the note
	byHost   bool // the host has stopped it

	mu     sync.Mutex
	unread []byte
	lost   int64 // bytes before unread that were dropped unread
}

// View describes the job as it is now.
func (j *Job) View() aycoder.Job {
	j.group.mu.Lock()
	defer j.group.mu.Unlock()
	return j.view
}

// Outcome returns how the job has ended. Before [Job.Done] is closed, it is empty.
func (j *Job) Outcome() Outcome {
	j.group.mu.Lock()
	defer j.group.mu.Unlock()
	return j.outcome
}

// Done returns a channel that is closed when nothing of the job is left.
func (j *Job) Done() <-chan struct{} { return j.done }

// Ended reports whether Done is closed.
func (j *Job) Ended() bool {
	select {
	case <-j.done:
		return true
	default:
		return false
	}
}

// run does the work. A panic must not end the host.
func (j *Job) run(ctx context.Context, work func(context.Context, *Job) Outcome) {
	defer func() {
		close(j.done)
		j.group.mu.Lock()
		defer j.group.mu.Unlock()
		j.group.signal() // Wakes waits for done
	}()
	o := Outcome{State: Failed, Summary: "broke down", Line: "broke down"}
	defer func() {
		_ = recover() // the outcome says that it broke down
		j.cancel(nil)
		j.end(o)
	}()
	o = work(ctx, j)
}

// end notes that the job has ended, and tells the conversation.
func (j *Job) end(o Outcome) {
	j.change(func() {
		g := j.group
		j.outcome = o
		j.view.State, j.view.Summary, j.view.Ended, j.view.Spent = o.State, o.Summary, time.Now(), o.Spent
		g.owed = append(g.owed, o.Spent...)
		g.settle()
		g.publish()
	})
}

// change changes the job, and tells the conversation, once, if the job has then ended and nobody else tells.
func (j *Job) change(f func()) {
	g := j.group
	g.mu.Lock()
	f()
	note := !j.view.Lives() && j.released && !j.quiet && !j.noted && !g.perRun && !g.closed
	j.noted = j.noted || note
	g.mu.Unlock()
	if note {
		g.note(j)
	}
}

// Release says that the call which started the job returns. If ended is true, the result of the call tells
// that the job has ended, so that there is no note.
func (j *Job) Release(ended bool) {
	j.change(func() { j.released, j.quiet = true, j.quiet || ended })
}

// Stop stops the job for a call that tells the model of its end. If ctx is done first, the job still
// ends, and there is a note.
func (j *Job) Stop(ctx context.Context) error {
	j.change(func() { j.quiet = true })
	j.cancel(ErrStopped)
	select {
	case <-j.done:
		return nil
	case <-ctx.Done():
		j.change(func() { j.quiet = false })
		return context.Cause(ctx)
	}
}

// Drop stops the job, waits until nothing of it is left, and forgets it. There is no note.
func (j *Job) Drop() {
	j.change(func() { j.quiet = true })
	j.cancel(ErrStopped)
	<-j.done
	g := j.group
	g.mu.Lock()
	defer g.mu.Unlock()
	g.jobs = slices.DeleteFunc(g.jobs, func(other *Job) bool { return other == j })
	g.publish()
}

// Write implements [io.Writer]. It keeps what the model is to read.
func (j *Job) Write(p []byte) (int, error) {
	most := j.group.limits.Output
	j.mu.Lock()
	j.unread = append(j.unread, p...)
	// It is cut only at twice the bound: cutting at each write would copy all of it for each line.
	if over := len(j.unread) - most; over > most {
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

// Taint says that somebody unknown may have written the output from now on.
func (j *Job) Taint() {
	j.group.mu.Lock()
	defer j.group.mu.Unlock()
	j.outcome.Untrusted = true
}

// Take returns the new output and the number of bytes before it that were lost. While the job works, an
// incomplete character or escape sequence is left for the next call.
func (j *Job) Take() (text []byte, lost int64) {
	ended := j.Ended()
	j.mu.Lock()
	defer j.mu.Unlock()
	text, lost = j.unread, j.lost
	if over := len(text) - j.group.limits.Output; over > 0 {
		text, lost = text[over:], lost+int64(over)
	}
	var rest []byte
	// The rest is copied, since the caller now owns the text, and writes append to the rest.
	if whole := proc.Whole(text); !ended {
		text, rest = whole, slices.Clone(text[len(whole):])
	}
	j.unread, j.lost = rest, 0
	return text, lost
}

// Unread gives the end of what Take has returned back to the next call, such as a line that is incomplete.
func (j *Job) Unread(text []byte) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.unread = append(slices.Clone(text), j.unread...)
}

// Wait waits until there is new output for which want returns true, or until the job has ended, but at
// most for limit. It examines all unread output each time, because a line may be completed by the next
// write. If ctx is done, it returns the cause.
func (j *Job) Wait(ctx context.Context, limit time.Duration, want func([]byte) bool) error {
	late := time.NewTimer(limit)
	defer late.Stop()
	for found := false; !found; {
		j.mu.Lock()
		found = want(proc.Whole(j.unread))
		j.mu.Unlock()
		if !found {
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

// pause waits a little, also so that the end of a command that just printed its last line is reported with
// it.
func (j *Job) pause(ctx context.Context) {
	again := time.NewTimer(lookAgain)
	defer again.Stop()
	select {
	case <-again.C:
	case <-j.done:
	case <-ctx.Done():
	}
}
