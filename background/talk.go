package background

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/aycoder/aycoder"
)

// Notes, questions and what was spent: what passes between the jobs and the runs of a conversation.

// A talk is a conversation that has jobs. The mutex of the group guards it.
type talk struct {
	control   *aycoder.Control   // nil before the first run
	run       *aycoder.ActiveRun // nil between runs
	suspended bool               // the last run was
}

// Attach returns an option for the runs of the conversation. A run with it yields an
// [aycoder.JobsChanged] for each change, sends the notes to the model, shows the questions of agents and counts
// what they have spent. A conversation has one run at a time and one [aycoder.Control]: that of the run,
// if it has one, so that Attach must come after [aycoder.WithControl].
func (g *Group) Attach() aycoder.RunOption {
	return func(c *aycoder.RunConfig) error {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.deliver == nil {
			if err := g.root.use(c); err != nil {
				return err
			}
		}
		extend(c, func(a *aycoder.ActiveRun) func() { return g.begin(&g.root, a) })
		return nil
	}
}

// AttachInner is Attach for the inner run of an agent, which has separate jobs.
func (g *Group) AttachInner() aycoder.RunOption {
	return func(c *aycoder.RunConfig) error {
		var t talk
		if err := t.use(c); err != nil {
			return err
		}
		extend(c, func(a *aycoder.ActiveRun) func() {
			id := a.Place().Run
			g.mu.Lock()
			g.inner[id] = &t
			g.mu.Unlock()
			end := g.begin(&t, a)
			return func() {
				end()
				g.mu.Lock()
				defer g.mu.Unlock()
				delete(g.inner, id)
			}
		})
		return nil
	}
}

// use gives the run the control of the conversation, or the conversation that of the run.
func (t *talk) use(c *aycoder.RunConfig) error {
	switch {
	case c.Control == nil:
		if t.control == nil {
			t.control = new(aycoder.Control)
		}
		return aycoder.WithControl(t.control)(c)
	case t.control == nil:
		t.control = c.Control
	case t.control != c.Control:
		return &aycoder.ConfigError{Option: "Attach", Err: errors.New("the group serves another Control")}
	}
	return nil
}

// extend adds a function for the beginning of a run to those that it has.
func extend(c *aycoder.RunConfig, begin func(*aycoder.ActiveRun) func()) {
	var x aycoder.RunExtension
	if before, ok := c.Extension.(*aycoder.RunExtension); ok && before != nil {
		x = *before
	}
	if first := x.Begin; first != nil {
		own := begin
		begin = func(a *aycoder.ActiveRun) func() {
			end1, end2 := first(a), own(a)
			return func() {
				end2()
				if end1 != nil {
					end1()
				}
			}
		}
	}
	x.Begin = begin
	c.Extension = &x
}

// begin notes that a run works on a conversation. end notes that it is over.
func (g *Group) begin(t *talk, a *aycoder.ActiveRun) (end func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	t.run = a
	if g.signal(); t == &g.root {
		g.settle()
		g.show()
	}
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		t.run, t.suspended = nil, a.Suspended()
		g.signal()
	}
}

// settle lets the active run count what agents have spent. The mutex is held.
func (g *Group) settle() {
	if len(g.owed) > 0 && g.root.run != nil && g.root.run.Count(g.owed) {
		g.owed = nil
	}
}

// talk returns the conversation of a job, or nil if it is over. The mutex is held.
func (g *Group) talk(j *Job) *talk {
	if j.scope == "" {
		return &g.root
	}
	return g.inner[j.scope]
}

// Note is what the conversation is told of the end of a job.
type Note struct {
	// Text is the message for the model.
	Text string
	// Wakes says that a run may be started for the note: the job has not been stopped.
	Wakes bool
}

// note tells the conversation that a job has ended.
func (g *Group) note(j *Job) {
	g.mu.Lock()
	n := Note{Wakes: !j.byHost, Text: fmt.Sprintf("[%s has ended in the background: %s. The tool job_output returns what it has written since.]",
		j.view.ID, ended(&j.view))}
	if j.byHost {
		n.Text = fmt.Sprintf("[%s was stopped by the user.]", j.view.ID)
	}
	t, deliver := g.talk(j), g.deliver
	if deliver == nil || j.scope != "" {
		defer g.mu.Unlock()
		if t == nil {
			return // the inner run is over
		}
		if t.control == nil {
			t.control = new(aycoder.Control)
		}
		t.control.Steer(n.Text)
		j.told = true
		if t == &g.root && n.Wakes {
			g.wake = true
		}
		g.signal()
		return
	}
	g.mu.Unlock()
	deliver(j, n)
}

func ended(v *aycoder.Job) string {
	if v.Summary == "" || v.Summary == v.State {
		return v.State
	}
	return v.State + ", " + v.Summary
}

// Deliver lets deliver have the notes of the conversation, for a host that keeps them, such as package
// session. It calls [Job.Told] when it has a note. Default: the notes go to the [aycoder.Control] of the
// runs. A group has one conversation: if it has one, the error is an [*aycoder.ConfigError].
func (g *Group) Deliver(deliver func(*Job, Note)) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.deliver != nil || g.root.control != nil || g.closed {
		return &aycoder.ConfigError{Option: "group", Err: errors.New("has a conversation, or is closed")}
	}
	g.deliver = deliver
	return nil
}

// Told says that the conversation has the note of the job: the JSON form of the group has it no more.
func (j *Job) Told() {
	j.group.mu.Lock()
	defer j.group.mu.Unlock()
	j.told = true
}

// Wakes yields the messages that wait for a run, whenever a job has ended and no run is active: notes, and
// what else waits in the [aycoder.Control]. They are removed, so the loop body must send them to
// the model, in a run with [Group.Attach]. After a run that was suspended they are left to the run that resumes
// it: Wakes yields nothing until a later run has ended in another way. Wakes ends when ctx is done, or when no job
// lives, no run is active, and no message is to be yielded. Do not use it in a session.
func (g *Group) Wakes(ctx context.Context) iter.Seq[[]*aycoder.Message] {
	return func(yield func([]*aycoder.Message) bool) {
		for {
			var notes []*aycoder.Message
			g.mu.Lock()
			idle, changed := g.root.run == nil, g.changed
			if idle && g.wake && !g.root.suspended {
				g.wake = false
				notes = g.root.control.Drain()
			}
			over := idle && (g.closed || !g.coming())
			g.mu.Unlock()
			if len(notes) > 0 {
				if !yield(notes) {
					return
				}
				continue
			}
			if over {
				return
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
		}
	}
}

// coming reports whether a job of the conversation may still have a note. The mutex is held.
func (g *Group) coming() bool {
	for _, j := range g.jobs {
		if j.scope == "" && (!j.Ended() || !j.released) {
			return true
		}
	}
	return false
}

// Ask hands a question of an agent, or its call of a declared tool, to the consumer of the run that works on
// its conversation. It waits until there is such a run, its consumer has handled the event, or the question
// has an answer. If ctx is done first, it returns the cause.
func (j *Job) Ask(ctx context.Context, call string, ev aycoder.Event, decided func() bool) error {
	g := j.group
	defer j.setState(Running)
	for !decided() {
		g.mu.Lock()
		var run *aycoder.ActiveRun
		if t := g.talk(j); t != nil {
			run = t.run
		}
		changed := g.changed
		g.mu.Unlock()
		if run != nil {
			if err := run.Emit(ctx, call, ev); err == nil {
				return nil
			}
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if j.setState(Waiting) {
			continue
		}
		again := time.NewTimer(time.Second) // a consumer that has left its loop may have detached the question
		select {
		case <-changed:
		case <-again.C:
		case <-ctx.Done():
		}
		again.Stop()
	}
	return nil
}

// setState reports whether it has changed the state of a job that lives.
func (j *Job) setState(state string) bool {
	g := j.group
	g.mu.Lock()
	defer g.mu.Unlock()
	if j.view.State == state || !j.view.Lives() {
		return false
	}
	j.view.State = state
	g.publish()
	return true
}

// stored is the JSON form of a group.
type stored struct {
	Number int             `json:"number,omitempty"`
	Jobs   []aycoder.Job   `json:"jobs,omitempty"`
	Owed   []aycoder.Spent `json:"owed,omitempty"`
}

// MarshalJSON encodes which jobs live, or lived when the group was closed, and what agents have spent that no run has counted.
func (g *Group) MarshalJSON() ([]byte, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := stored{g.number, g.left, g.owed}
	if !g.closed {
		s.Jobs = g.untold()
	}
	return json.Marshal(s)
}

// untold returns the jobs of whose end the conversation does not know yet, in their first state, so that their
// JSON form changes only when one begins or ends. The mutex is held.
func (g *Group) untold() []aycoder.Job {
	var out []aycoder.Job
	for _, j := range g.jobs {
		if j.scope == "" && !j.told && (j.view.Lives() || !j.quiet) {
			v := j.view
			v.State, v.Summary, v.Ended, v.Spent = Running, "", time.Time{}, nil
			out = append(out, v)
		}
	}
	return out
}

// UnmarshalJSON restores what MarshalJSON has encoded, in another process or for another group: the ids of
// new jobs differ from those that were used, the next run counts what none has counted, and [Group.Lost] returns
// the jobs that lived.
func (g *Group) UnmarshalJSON(data []byte) error {
	var s stored
	if err := json.Unmarshal(data, &s); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.number, g.owed = max(g.number, s.Number), append(g.owed, s.Owed...)
	g.lost = s.Jobs
	return nil
}

// Lost returns the jobs that lived when the group was stored, and forgets them. They have ended with
// the process, or with the group, that had them.
func (g *Group) Lost() []aycoder.Job {
	g.mu.Lock()
	defer g.mu.Unlock()
	lost := g.lost
	g.lost = nil
	return lost
}
