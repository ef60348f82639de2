package session

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/journal"
)

// resume makes each run that has not ended the pending run of its branch. If the crash came between
// the last fact of a message and the nodes for it, these are written now, or, if the session is only read,
// shown all the same. They have the time of the last record before the crash, and not that of the reader.
func (l *loader) resume(ctx context.Context, readOnly bool) error {
	s := l.session
	write := func(records ...*record) error { return s.write(ctx, true, records...) }
	if readOnly {
		write = func(records ...*record) error {
			for _, r := range records {
				s.apply(r)
			}
			s.publish()
			return nil
		}
	}
	for _, number := range slices.Sorted(maps.Keys(l.open)) {
		run := l.open[number]
		b := s.branches[run.branch]
		end := &record{Kind: kindEnd, Run: number, Branch: run.branch}
		outlines := func(id ID) ([]*aycoder.Message, error) { return s.View().outlined(id), nil }
		state, known, ok, _ := run.state(s, outlines)
		if over := state.End() != "" && state.End() != aycoder.EndSuspended; ok && !(over && len(state.Messages()) <= known) {
			var err error
			if state, known, ok, err = run.state(s, s.history); err != nil {
				return err
			}
		}
		if b == nil || !ok {
			if err := write(end); err != nil {
				return err
			}
			continue
		}
		a := &activeRun{branch: b, progress: run.progress}
		a.answer, a.spent = s.config.charged(run.answer), s.config.priced(run.spent)
		records, err := a.nodes(state.Messages()[min(known, len(state.Messages())):])
		if err != nil {
			return &journal.OpError{Op: "open", Session: s.id, Err: err}
		}
		if state.End() == "" || state.End() == aycoder.EndSuspended {
			if state.End() != aycoder.EndSuspended { // facts before the questions were lost, so they are asked again
				run.requests = nil
			}
			b.pending = &aycoder.Pending{Run: run.id, Requests: run.requests, Calls: state.OpenCalls(), State: state}
			b.progress, b.unsure = a.progress, run.unsure
			s.changes = append(s.changes, lostCommands(b.name, state.Messages()[max(0, known-run.added-1):])...)
		}
		if len(records) > 0 {
			for _, r := range records {
				r.At = cmp.Or(l.at, r.At)
			}
			outputsOf(records).Forgot, b.unsure = run.unsure, false
			if err := write(records...); err != nil {
				return err
			}
		}
		if run.damaged && !readOnly { // facts that follow fit this state, and not that which the records give
			if err := write(b.suspended()...); err != nil && !errors.Is(err, journal.ErrTooLarge) { // it can be computed again
				return err
			}
		}
	}
	return nil
}

// begins returns the first state of the run, if the records of its start are there.
func (run *openRun) begins(s *Session, history func(ID) ([]*aycoder.Message, error)) (state aycoder.State, ok bool, err error) {
	switch {
	case run.first != nil:
		return *run.first, true, nil
	case run.start == nil || run.from >= s.tree.next():
		return state, false, nil
	}
	messages, err := history(run.from)
	if n := len(messages); n == 0 || messages[n-1].Role == aycoder.RoleAssistant {
		return state, false, err
	}
	in := aycoder.StartInput{
		Messages: messages, Model: run.start.Model, MaxTurns: run.start.MaxTurns, MaxCalls: run.start.MaxCalls,
	}
	for _, name := range slices.Sorted(maps.Keys(run.start.Tools)) {
		in.Tools = append(in.Tools, &aycoder.ToolSpec{Name: name, Effect: aycoder.Effect(run.start.Tools[name])})
	}
	state, _ = aycoder.Start(in)
	return state, true, nil
}

// state applies the facts of the run to its first state. known is how many of its messages are in
// the tree.
func (run *openRun) state(
	s *Session, history func(ID) ([]*aycoder.Message, error),
) (state aycoder.State, known int, ok bool, err error) {
	state, known, ok, err = run.replay(s, history)
	if ok && len(state.Messages()) < known { // the tree has more than the facts give: it counts up to its last node
		run.first, run.from, run.added, run.facts, run.damaged = nil, s.tree.heads[run.branch], 0, run.facts[run.since:], true
		state, known, ok, err = run.replay(s, history)
	}
	if run.damaged = run.damaged || run.loose; run.damaged && ok {
		state = uncertain(state)
	}
	return state, known, ok, err
}

// replay is state without the end of a run of which records are missing.
func (run *openRun) replay(
	s *Session, history func(ID) ([]*aycoder.Message, error),
) (state aycoder.State, known int, ok bool, err error) {
	if state, ok, err = run.begins(s, history); !ok {
		return state, 0, false, err
	}
	known = len(state.Messages()) + run.added
	for _, f := range run.facts {
		next, _, err := state.Apply(f)
		if err != nil { // a fact before it is lost
			run.damaged = true
			continue
		}
		state = next
	}
	return state, known, true, nil
}

// uncertain settles every call of a state whose further facts are lost: a call that may have begun
// must not run again.
func uncertain(s aycoder.State) aycoder.State {
	apply := func(f aycoder.Fact) bool {
		next, _, err := s.Apply(f)
		if err == nil {
			s = next
		}
		return err == nil
	}
	apply(&aycoder.Resumed{})
	if s.Phase() == "model" {
		apply(&aycoder.MessageDone{Stop: aycoder.StopToolUse})
	}
	for call := unsettled(s); call != nil; call = unsettled(s) {
		text := "interrupted: records of this run are damaged or missing; whether the call ran is unknown, check before making it again"
		if !apply(&aycoder.ToolDone{ID: call.ID, Output: &aycoder.ToolOutput{
			ID: call.ID, Name: call.Name, Parts: []aycoder.Part{&aycoder.Text{Text: text}}, IsError: true,
		}}) {
			return s
		}
	}
	return s
}

// unsettled returns a call that is about to be asked about or run, or nil.
func unsettled(s aycoder.State) *aycoder.ToolUse {
	for _, action := range s.Outstanding() {
		switch a := action.(type) {
		case *aycoder.AskApproval:
			return a.Call
		case *aycoder.RunTool:
			return a.Call
		}
	}
	return nil
}
