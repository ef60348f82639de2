package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/background"
)

// beside is what works beside the runs of a branch. The mutex of the session guards it.
type beside struct {
	group *background.Group // or nil
	wake  func(context.Context, iter.Seq2[aycoder.Event, error])
	due   bool                    // a note has come that wakes the branch
	stop  context.CancelCauseFunc // of the run that was woken, or nil
}

// SetBackground gives the branch the agents and commands that work in the background: see package
// background. Call it once after [New], [Open] or [Session.NewBranch], with a different group for each branch.
// The runs of the branch get the events and questions of the jobs, and [Session.Close] closes the group.
//
// When a job has ended, a note is recorded as a message like those of [Branch.Steer]: it arrives once, also
// after a crash. If wake is not nil and the branch is idle then, or becomes idle before the note has been
// sent, the session starts a run, and wake handles its events on a separate goroutine, with the questions
// of the run. A suspended run is not continued for a note: that goes with the resumed run, or wakes the branch
// when the run is settled. ctx ends with the session. If another run has begun meanwhile, the only element is a
// [*CommandError], and the note is sent in that run. If that run ends before it has sent the note, wake is
// called again. wake must not close the session, which waits for it.
//
// Jobs that worked when the session was closed, or when its process ended, are in [Session.Changes], and the
// next run tells the model of them.
func (b *Branch) SetBackground(ctx context.Context, g *background.Group, wake func(ctx context.Context, run iter.Seq2[aycoder.Event, error])) error {
	s := b.session
	return s.do("set background", func() error {
		if g == nil || b.jobs.group != nil {
			return &aycoder.ConfigError{Option: "group", Err: errors.New("is nil, or the branch has one")}
		}
		if err := g.Deliver(b.noted); err != nil {
			return err
		}
		b.jobs.group, b.jobs.wake = g, wake
		key := b.jobsKey()
		known := s.recorded[key]
		s.values[key] = &kept{Value: g, last: known}
		if known == nil {
			return nil
		}
		if err := g.UnmarshalJSON(known); err != nil {
			s.changes = append(s.changes, Change{ChangedValue, key, b.name, "it cannot be restored: " + err.Error()})
			return nil
		}
		return b.tellLost(ctx, g.Lost())
	})
}

// jobsKey is the name of the value with the jobs of the branch.
func (b *Branch) jobsKey() string { return "background/" + b.name }

// countJobs makes the jobs of a fork have other ids than those that its messages name. known is what the original
// has recorded of its jobs, which stay there. The mutex is held.
func (s *Session) countJobs(ctx context.Context, known json.RawMessage) error {
	if known == nil {
		return nil
	}
	var jobs map[string]json.RawMessage
	if json.Unmarshal(known, &jobs) != nil {
		return nil // SetBackground of the original has told of it
	}
	known, err := json.Marshal(map[string]json.RawMessage{"number": jobs["number"]})
	if err != nil {
		return err
	}
	return s.write(ctx, true, &record{Kind: kindValue, Values: map[string]json.RawMessage{s.jobsKey(): known}})
}

// tellLost tells the user and the model which jobs have ended with the session.
func (b *Branch) tellLost(ctx context.Context, lost []aycoder.Job) error {
	if len(lost) == 0 {
		return nil
	}
	s := b.session
	s.changes = slices.DeleteFunc(s.changes, func(c Change) bool { return c.Kind == LostCommand && c.Branch == b.name })
	var ids []string
	for i := range lost {
		ids = append(ids, lost[i].ID)
		kind := LostCommand
		if lost[i].Kind == background.Agent {
			kind = LostAgent
		}
		s.changes = append(s.changes, Change{kind, lost[i].Name, b.name, "it has ended with the process that started it"})
	}
	return b.sayNote(ctx, fmt.Sprintf("[The program was restarted. What worked in the background has ended, and its output is lost: %s. "+
		"How far it came is unknown.]", strings.Join(ids, ", ")))
}

// noted takes the note of a job that has ended.
func (b *Branch) noted(j *background.Job, n background.Note) {
	s := b.session
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.usable("note") != nil {
		return // the next process tells of the job
	}
	j.Told()
	if err := b.sayNote(context.Background(), n.Text); err != nil {
		s.fail(err)
		return // and so it does here
	}
	b.jobs.due = b.jobs.due || n.Wakes
	b.wakeUp()
}

// sayNote records a note together with the jobs that are left, so that after a crash there is either the note
// or the job. The mutex is held.
func (b *Branch) sayNote(ctx context.Context, text string) error {
	s, key := b.session, b.jobsKey()
	jobs, err := b.jobs.group.MarshalJSON()
	if err != nil {
		return err
	}
	k := s.values[key]
	was := k.last
	k.last = jobs // so that there is no other record of it
	say := &aycoder.Steered{Message: aycoder.User(text)}
	if err := s.write(ctx, true, &record{Kind: kindSay, Branch: b.name, Say: say, Values: map[string]json.RawMessage{key: jobs}}); err != nil {
		k.last = was
		return err
	}
	pass(b.steering(), say)
	return nil
}

// wakeUp starts a run if a note waits for one. The mutex is held.
func (b *Branch) wakeUp() {
	s, w := b.session, &b.jobs
	w.due = w.due && len(b.said) > 0
	if w.wake == nil || !w.due || w.stop != nil || b.phase() != PhaseIdle {
		return
	}
	ctx, stop := context.WithCancelCause(context.Background())
	w.due, w.stop = false, stop
	s.waking.Go(func() {
		defer func() {
			stop(nil)
			s.mu.Lock()
			defer s.mu.Unlock()
			w.stop = nil
			b.wakeUp()
		}()
		w.wake(ctx, b.run(ctx, aycoder.Input{}, true))
	})
}
