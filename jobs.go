package aycoder

import (
	"context"
	"errors"
	"time"
)

// Job is an agent or a command that works in the background, see package background.
type Job struct {
	// ID identifies the job in its conversation, for example "agent-2".
	ID string `json:"id"`
	// Kind is "agent" or "command". Name is the command, or the task of the agent in a few words, cut to
	// 200 bytes.
	Kind string `json:"kind"`
	Name string `json:"name"`
	// State is "running", or "waiting" while an agent has a question, or a call of a declared tool, that nobody
	// has seen. When nothing of the job is left, it is "done", "failed" or "stopped". Summary then says how
	// it ended, for example "exit 1".
	State   string `json:"state"`
	Summary string `json:"summary,omitempty"`
	// Started and Ended are its times. Ended is zero while the job lives.
	Started time.Time `json:"started"`
	Ended   time.Time `json:"ended,omitzero"`
	// By tells the run that started the job, and Call is the id of the call that did.
	By   Place  `json:"by"`
	Call string `json:"call,omitempty"`
	// Spent is what an agent has spent, once it has ended. It is also in the Spent of the [Result] of the
	// run that works on the conversation then, or else of the next one.
	Spent []Spent `json:"spent,omitempty"`
}

// Lives reports whether the job has not ended.
func (j *Job) Lives() bool { return j.Ended.IsZero() }

// JobsChanged reports the jobs of the conversation whenever they have changed: all that live, and the
// last ones that have ended, in the order in which they were started. A reader that is slow gets only the
// latest event, which says what there is.
type JobsChanged struct {
	Jobs []Job `json:"jobs"`
}

func (*JobsChanged) event() {}

// MarshalJSON encodes the event as a JSON object whose type is "jobs".
func (e *JobsChanged) MarshalJSON() ([]byte, error) {
	type plain JobsChanged
	return typedJSON("jobs", (*plain)(e))
}

// ActiveRun is a run at work, for a package that adds to runs: see [RunExtension].Begin. Its methods are
// safe for concurrent use. After the end of the run, Emit, Show and Count have no effect.
type ActiveRun struct {
	run  *run
	over chan struct{}
}

var errRunOver = errors.New("emit event: the run is over")

// activate calls begin for the run.
func (r *run) activate(begin func(*ActiveRun) func()) {
	a := &ActiveRun{r, make(chan struct{})}
	end := begin(a)
	r.ended = func() {
		close(a.over)
		if end != nil {
			end()
		}
	}
}

// Place tells the run.
func (a *ActiveRun) Place() Place { return a.run.place() }

// Suspended reports whether the run has ended with [EndSuspended], so that another run may resume it.
func (a *ActiveRun) Suspended() bool {
	a.run.mu.Lock()
	defer a.run.mu.Unlock()
	return a.run.state.end == EndSuspended
}

// Emit hands an event of a run that works outside of the calls of this one to its consumer, as a
// [ChildEvent]. Call is the id of the call that started the other run. Emit returns nil when the consumer
// has handled the event, and an error if ctx is done, or if the run is over and the consumer has not
// handled the event.
func (a *ActiveRun) Emit(ctx context.Context, call string, ev Event) error {
	e := &ChildEvent{CallID: call, Event: ev, seen: make(chan struct{})}
	if !a.push(e) {
		return errRunOver
	}
	select {
	case <-e.seen:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-a.over:
	}
	select {
	case <-e.seen:
		return nil
	default:
		return errRunOver
	}
}

func (a *ActiveRun) push(ev Event) bool {
	r := a.run
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopping {
		return false
	}
	r.out.push(ev)
	r.signal()
	return true
}

// Show hands the consumer a [JobsChanged]. It does not wait. An earlier one that the consumer has not
// got is dropped.
func (a *ActiveRun) Show(jobs []Job) {
	r, ev := a.run, &JobsChanged{Jobs: jobs}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopping {
		return
	}
	for i := range r.out.items {
		if _, ok := r.out.items[i].ev.(*JobsChanged); ok {
			r.out.items[i].ev = ev
			return
		}
	}
	r.out.push(ev)
	r.signal()
}

// Count adds to what the run has spent, see [Result]. It returns false if the run is over and does not
// count it.
func (a *ActiveRun) Count(spent []Spent) bool {
	r := a.run
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.stopping && r.step(&ToolDone{Spent: spent}) == nil
}

// Outlive returns a copy of inv for a run that goes on after the call has returned: pass it to
// [WithParent]. The guards of the outer runs apply to that run as long as it works. Its tokens do not count
// as spent by the call, but for Total in the [Limits] of the outer runs. Emit and Progress of
// the copy do nothing.
func (inv *Invocation) Outlive() *Invocation {
	c := *inv
	c.progress, c.emit = nil, nil
	return &c
}
