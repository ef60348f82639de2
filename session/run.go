package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/option"
	"github.com/aycoder/aycoder/internal/original"
	"github.com/aycoder/aycoder/internal/whole"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/snapshot"
)

// An activeRun is a run that works on a branch. Its record method gets each fact that the state of
// the run accepts, before anything that follows from the fact begins.
type activeRun struct {
	branch  *Branch
	agent   aycoder.Agent
	control *aycoder.Control
	cancel  context.CancelCauseFunc
	resumed *aycoder.Pending // or nil
	prompt  *aycoder.Message // that the control had, or nil
	ledger  *snapshot.Ledger // of its files, or nil
	own     []string         // the tools that only this run has

	originals original.Finder                                  // of the messages that the history has as outlines
	then      func(context.Context, *aycoder.FactRecord) error // of the host, or does nothing
	done      chan struct{}

	handing sync.Mutex // guards these two
	last    *handed    // the last fact, or nil
	untold  []*handed  // facts that the host does not know

	// The mutex of the session guards these.
	progress
	known int                      // messages of the state that are in the tree
	facts map[aycoder.Part]*record // the facts that carried the parts of the message in progress
	by    *record                  // the fact that carried the answer
	steps snapshot.Steps           // of the ledger, that are in no record yet
	outer *activeRun               // the run of another branch around this one, or nil
	// inside is what runs of other branches have spent in the calls of the message in progress, as far as no call has told it.
	inside []aycoder.Spent
	began  bool // a fact is recorded
	told   bool // or could not be, as the run has learned
}

// progress says how far a run has come, and what it has that is in no node yet.
type progress struct {
	number int64 // of the run in the session
	id     string
	seq    int64           // of the last fact
	answer *Answer         // of the message in progress
	spent  []aycoder.Spent // in calls, since the last outputs
}

// phase returns the phase of a branch on which a run works.
func (a *activeRun) phase() Phase {
	state := a.control.State()
	for _, action := range state.Outstanding() {
		if _, ok := action.(*aycoder.AskApproval); ok {
			return PhaseQuestion
		}
	}
	if len(state.OpenCalls()) > 0 {
		return PhaseQuestion
	}
	if state.Phase() == "tools" {
		return PhaseTools
	}
	return PhaseModel
}

// Run implements [aycoder.Agent]. The conversation comes from the tree, so in.Messages and
// in.Pending must be empty; only in an empty session, their messages become its first nodes. If a run
// is pending (see [Branch.Pending]), Run continues it, unless there is a prompt. Of an agent that
// ignores [aycoder.WithFacts], only whole runs are recorded, so that a crash loses the run it interrupts.
func (b *Branch) Run(ctx context.Context, in aycoder.Input, opts ...aycoder.RunOption) iter.Seq2[aycoder.Event, error] {
	return b.run(ctx, in, false, opts...)
}

// run is Run, or a run that a note has woken, which begins only if a message waits for it.
func (b *Branch) run(ctx context.Context, in aycoder.Input, woken bool, opts ...aycoder.RunOption) iter.Seq2[aycoder.Event, error] {
	used := false
	return func(yield func(aycoder.Event, error) bool) {
		if used {
			yield(nil, aycoder.ErrConsumed)
			return
		}
		used = true
		if ctx == nil {
			yield(nil, &aycoder.ConfigError{Option: "ctx", Err: errors.New("is nil")})
			return
		}
		var rc aycoder.RunConfig
		err := option.Apply(&rc, opts)
		work, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		if err == nil {
			err = b.session.files.Refresh(ctx)
		}
		var a *activeRun
		if err == nil {
			a, err = b.begin(work, &in, &rc, woken, cancel)
		}
		if err != nil {
			if rc.Into != nil {
				*rc.Into = aycoder.Result{Messages: in.Messages, End: aycoder.EndFailed, Pending: in.Pending}
			}
			yield(nil, err)
			return
		}
		var res aycoder.Result
		into := rc.Into
		rc.Into = &res
		defer func() {
			a.finish(ctx, &res)
			if into != nil {
				*into = res
			}
		}()
		with := func(c *aycoder.RunConfig) error { *c = rc; return nil }
		work = original.With(whole.With(b.seeing(work), outputStore{b.session}), a.originals)
		a.agent.Run(work, in, with)(yield)
	}
}

// begin makes the branch busy with a run, and completes its input.
func (b *Branch) begin(ctx context.Context, in *aycoder.Input, rc *aycoder.RunConfig, woken bool, cancel context.CancelCauseFunc) (*activeRun, error) {
	s := b.session
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable("run"); err != nil {
		return nil, err
	}
	if b.active != nil || b.busy != "" {
		b.jobs.due = b.jobs.due || woken // the note may still be there then
		return nil, &CommandError{Command: "run", Phase: b.phase()}
	}
	if woken && (b.pending != nil || len(b.said) == 0) {
		b.jobs.due = true
		return nil, &CommandError{Command: "run", Phase: b.phase(), Reason: "no message waits for a run any more"}
	}
	if b.agent == nil {
		return nil, &CommandError{Command: "run", Phase: b.phase(), Reason: "the branch has no agent: see SetAgent"}
	}
	for _, o := range s.branches {
		if rc.Control != nil && o.active != nil && o.active.control == rc.Control {
			return nil, &aycoder.ConfigError{Option: "WithControl", Err: errors.New("the control serves another run")}
		}
	}
	foreign := in.Pending != nil
	if foreign && (s.tree.next() > 1 || b.pending != nil) {
		return nil, &aycoder.ConfigError{Option: "Input.Pending", Err: errors.New("the session keeps its pending run itself")}
	}
	if len(in.Messages) > 0 && s.tree.next() > 1 {
		return nil, &aycoder.ConfigError{Option: "Input.Messages", Err: errors.New("the session has messages of its own")}
	}
	a := &activeRun{branch: b, agent: b.agent, control: cmp.Or(rc.Control, &b.control), cancel: cancel, done: make(chan struct{}),
		facts: map[aycoder.Part]*record{}, outer: s.around(ctx, rc.Parent)}
	if x, ok := rc.Extension.(*aycoder.RunExtension); ok && x != nil {
		for _, t := range x.Tools {
			a.own = append(a.own, t.Spec().Name)
		}
	}
	fresh := in.Prompt != "" || len(in.Parts) > 0 || len(in.Messages) > 0
	if fresh && len(in.Decisions)+len(in.Results) > 0 {
		return nil, &aycoder.ConfigError{Option: "Input", Err: errors.New("a message goes without Decisions and Results")}
	}
	if b.pending != nil && fresh {
		if err := b.settle(ctx); err != nil {
			return nil, err
		}
	}
	err := b.recallShown(ctx)
	var records []*record
	if err == nil {
		records, err = b.unsaved(ctx)
	}
	if err == nil && len(records) > 0 {
		err = s.write(ctx, true, records...)
	}
	if err != nil {
		return nil, err
	}
	if a.control != &b.control {
		b.requeue(a.control)
		b.control.Drain()
	}
	a.originals = s.View().originals(s.tree.heads[b.name])
	if b.pending != nil {
		in.Pending, a.resumed = b.pending, b.pending
		a.progress, a.known = b.progress, len(b.pending.State.Messages())
		b.pending = nil
	} else if !foreign {
		if err := b.continues(in, a); err != nil {
			return nil, err
		}
	}
	if a.then = rc.Facts; a.then == nil {
		a.then = func(context.Context, *aycoder.FactRecord) error { return nil }
	}
	with := []aycoder.RunOption{aycoder.WithControl(a.control), aycoder.WithFacts(a.take)}
	if s.files != nil {
		with = append(with, aycoder.WithChanges(a.watch))
	}
	if b.jobs.group != nil {
		with = append(with, b.jobs.group.Attach())
	}
	if err := option.Apply(rc, with); err != nil {
		return nil, err
	}
	b.active = a
	return a, nil
}

// continues completes the input of a new run.
func (b *Branch) continues(in *aycoder.Input, a *activeRun) error {
	s := b.session
	if len(in.Messages) == 0 {
		head := s.tree.heads[b.name]
		var err error
		if in.Messages, err = s.history(head); err != nil {
			return err
		}
		if a.known = len(in.Messages); s.View().unanswered(head) { // the outputs become a node, too
			a.known--
		}
	}
	if in.Prompt == "" && len(in.Parts) == 0 { // a queued message may be the prompt
		if queued := a.control.Drain(); len(queued) > 0 {
			a.prompt, in.Parts = queued[0], queued[0].Parts
			b.giveBack(a.control, queued[1:]...)
		}
	}
	return nil
}

// handed is a fact that the run has handed over. When done is closed, the fact is recorded, or err says why it is not.
type handed struct {
	fact *aycoder.FactRecord
	done chan struct{}
	err  error
}

var errNotRecorded = errors.New("the fact was not recorded")

// take records a fact and passes it to the host. If ctx ends first, the grace of the run is over and nothing begins any more. Then
// take does not wait for the journal; finish does.
func (a *activeRun) take(ctx context.Context, rec *aycoder.FactRecord) error {
	f := &handed{rec, make(chan struct{}), errNotRecorded}
	a.handing.Lock()
	go a.keep(ctx, f, a.last)
	a.last, a.untold = f, append(a.untold, f)
	a.handing.Unlock()
	select {
	case <-f.done:
		return a.tell(ctx)
	case <-ctx.Done():
		return nil
	}
}

// keep records a fact after the one before it. The end of ctx does not stop it, because the journal may answer late.
func (a *activeRun) keep(ctx context.Context, f, before *handed) {
	defer close(f.done)
	defer func() {
		if p := recover(); p != nil {
			f.err = fmt.Errorf("panic: %v", p)
		}
	}()
	if before != nil {
		if <-before.done; before.err != nil && f.fact.Fact != nil { // the first fact of another run depends on none
			f.err = before.err
			return
		}
	}
	f.err = a.record(context.WithoutCancel(ctx), f.fact)
}

// tell passes recorded facts to the host, up to an error.
func (a *activeRun) tell(ctx context.Context) error {
	a.handing.Lock()
	facts := a.untold
	a.untold = nil
	a.handing.Unlock()
	for _, f := range facts {
		if <-f.done; f.err != nil {
			return f.err
		}
		if err := a.then(ctx, f.fact); err != nil {
			return err
		}
	}
	return nil
}

// catchUp waits until all facts are recorded, and passes the late ones to the host. Their context has ended with the grace.
func (a *activeRun) catchUp(ctx context.Context) {
	a.handing.Lock()
	last := a.last
	a.handing.Unlock()
	if last == nil {
		return
	}
	<-last.done
	defer func() { _ = recover() }() // the branch must become idle, whatever the host does
	over, cancel := context.WithCancel(ctx)
	cancel()
	_ = a.tell(over)
}

// record records a fact with what it adds to the conversation.
func (a *activeRun) record(ctx context.Context, rec *aycoder.FactRecord) (err error) {
	b, s := a.branch, a.branch.session
	s.mu.Lock()
	defer s.mu.Unlock()
	var records []*record
	durable := s.config.sync == SyncRecords
	if len(rec.State.Messages()) < a.known {
		return &aycoder.ConfigError{Option: "agent", Err: errors.New("it has shortened the conversation, which Compact can do")}
	}
	if rec.Fact == nil {
		records = append(records, a.started(rec))
	} else {
		var err error
		var alone *record
		a.seq++
		fact := &record{seq: a.seq}
		if fact.line, err = (aycoder.FactRecord{Run: runRef(a.number), Seq: a.seq, Fact: rec.Fact}).MarshalJSON(); err != nil {
			return &journal.OpError{Op: "append to", Session: s.id, Err: err}
		}
		records = append(records, fact)
		if p := carried(rec.Fact); p != nil {
			a.facts[p] = fact
		}
		switch f := rec.Fact.(type) {
		case *aycoder.MessageDone:
			a.answer, a.by = s.config.charged(answerOf(f)), fact
		case *aycoder.ToolBegan, *aycoder.CallRequested: // somebody may begin
			durable = true
		case *aycoder.ToolDone:
			if spent := s.config.priced(a.ownSpent(f.Spent)); f.ID != "" {
				a.spent = append(slices.Clip(a.spent), spent...)
			} else {
				alone = &record{Spent: spent}
			}
		case *aycoder.Compacted: // the model has not answered yet
			if spent := s.config.spent(f); spent != nil {
				alone = &record{Answer: spent}
			}
		}
		if alone != nil { // has a node to itself
			alone.Run, alone.runID = a.number, a.id
			records = append(records, b.next(alone))
		}
	}
	answer, spent := a.answer, a.spent
	defer func() {
		if err != nil { // the nodes that have them are not in the tree
			a.answer, a.spent = answer, spent
		}
	}()
	nodes, err := a.nodes(rec.State.Messages()[a.known:])
	if err != nil {
		return &journal.OpError{Op: "append to", Session: s.id, Err: err}
	}
	if n := len(nodes); n > 0 {
		_, err := b.addFiles(ctx, nodes[n-1])
		if err == nil {
			err = b.tellShown(ctx, outputsOf(nodes))
		}
		if err != nil {
			return &journal.OpError{Op: "append to", Session: s.id, Err: err}
		}
		a.steps = a.steps.Join(a.ledger.Unsaved())
		nodes[n-1].Steps = a.steps
	}
	records = append(records, nodes...)
	if _, done := rec.Fact.(*aycoder.MessageDone); done && a.answer != nil && rec.State.Phase() != "tools" { // of an empty message
		alone := b.next(&record{Answer: a.answer, Run: a.number, runID: a.id})
		if n := len(nodes); n > 0 {
			alone.at(nodes[n-1].ID+1, nodes[n-1].ID)
		}
		records = append(records, alone)
		a.answer, a.by = nil, nil
	}
	if rec.Fact == nil {
		for _, r := range nodes[:max(0, len(nodes)-1)] { // only the prompt begins the run
			r.Run, r.Name, r.runID = 0, "", ""
		}
		if records[0].ID = s.tree.heads[b.name]; len(nodes) > 0 {
			records[0].ID, records[0].Name = nodes[len(nodes)-1].ID, "" // the node has the id of the run, too
		}
	}
	if err := s.write(ctx, durable || len(nodes) > 0, records...); err != nil {
		a.told = true
		return err
	}
	if len(nodes) > 0 {
		a.steps, a.inside = nil, nil
	}
	a.known, a.began, a.told = len(rec.State.Messages()), true, false
	return nil
}

// outputsOf returns the node with the outputs of calls, or else the last one. It says what the model
// was shown. A crash that cuts off the nodes behind it does not matter then.
func outputsOf(nodes []*record) *record {
	if i := slices.IndexFunc(nodes, func(r *record) bool { return r.Message.Role == aycoder.RoleUser }); i >= 0 {
		return nodes[i]
	}
	return nodes[len(nodes)-1]
}

func answerOf(f *aycoder.MessageDone) *Answer {
	a := &Answer{Provider: f.Provider, Model: f.Model, ID: f.ID, RequestID: f.RequestID, Usage: f.Usage}
	if f.Cost != nil {
		a.Cost = *f.Cost
	}
	return a
}

// started returns the record of the start of a run.
func (a *activeRun) started(rec *aycoder.FactRecord) *record {
	s := a.branch.session
	r := &record{Kind: kindRun, Branch: a.branch.name, Name: rec.Run, Loose: s.config.memory}
	if a.number == 0 || a.began && rec.Start != nil { // an agent may run another one several times
		s.runs++
		a.progress, a.by = progress{number: s.runs}, nil
		clear(a.facts)
	}
	a.id, r.Run = rec.Run, a.number
	switch {
	case rec.Start != nil:
		start := startOf(rec.Start)
		start.Own = a.own
		start.GitBranch = s.config.gitBranch()
		if a.branch.start = start; !start.equal(s.start) {
			r.Start = start
		}
	case a.known == 0: // a run that was suspended elsewhere
		r.State = &rec.State
	}
	return r
}

// nodes returns the records of nodes for messages that the state of the run has added.
func (a *activeRun) nodes(messages []*aycoder.Message) ([]*record, error) {
	var out []*record
	for _, m := range messages {
		w, err := wire(m, a.facts)
		if err != nil {
			return nil, err
		}
		r := a.branch.next(&record{Run: a.number, Name: a.id, Message: w, message: m, runID: a.id})
		if len(out) > 0 {
			r.at(out[len(out)-1].ID+1, out[len(out)-1].ID)
		}
		for _, p := range m.Parts {
			r.needs(a.facts[p])
		}
		if m.Role == aycoder.RoleAssistant {
			if r.needs(a.by); a.by != nil {
				r.answer, r.Cost = a.answer, a.answer.Cost
			} else {
				r.Answer = a.answer
			}
			a.answer, a.by = nil, nil
		}
		out = append(out, r)
	}
	if len(out) > 0 && len(a.spent) > 0 {
		outputsOf(out).Spent, a.spent = a.spent, nil
	}
	if len(messages) > 0 && (a.answer == nil) {
		clear(a.facts)
	}
	return out, nil
}

// finish ends the run: the branch is idle again, or suspended.
func (a *activeRun) finish(ctx context.Context, res *aycoder.Result) {
	b, s := a.branch, a.branch.session
	ctx = context.WithoutCancel(ctx)
	a.catchUp(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	defer close(a.done)
	b.active = nil
	failed := !a.began && (a.told || res.End == "" || res.End == aycoder.EndFailed || len(res.Messages) < a.known)
	if failed {
		b.pending = a.resumed
		if a.prompt != nil && a.control != &b.control && !slices.ContainsFunc(b.said, sayOf(a.prompt)) {
			b.giveBack(a.control, append([]*aycoder.Message{a.prompt}, a.control.Drain()...)...)
		}
	}
	if !failed && a.outer != nil {
		a.outer.inside = append(a.outer.inside, res.Spent...)
	}
	if !failed {
		b.recent = slices.Clone(slices.DeleteFunc(slices.Clone(res.Messages), original.IsOutline)) // no more than it has to
	}
	if res.Pending != nil && a.number > 0 {
		b.pending, b.progress = res.Pending, a.progress
	}
	defer b.wakeUp()
	defer b.requeue(&b.control)
	if s.failed != nil && !s.config.memory {
		return
	}
	messages := res.Messages
	if res.Pending != nil {
		messages = res.Pending.State.Messages()
	}
	switch {
	case failed: // it never began
		return
	case !a.began, a.told, len(messages) > a.known: // the agent does not tell of facts, or the last ones are lost
		a.by = nil
		clear(a.facts) // a node has itself what those carried that are not recorded
		if !a.began && a.resumed == nil {
			a.spent = s.config.priced(a.ownSpent(res.Spent))
		}
		records, err := a.nodes(messages[min(a.known, len(messages)):])
		if err == nil && len(records) > 0 {
			err = b.tellShown(ctx, outputsOf(records))
		}
		if a.number > 0 {
			records = append(records, &record{Kind: kindEnd, Run: a.number, Branch: b.name})
		}
		if res.Pending != nil {
			s.runs++
			b.pending, b.progress = res.Pending, progress{number: s.runs, id: res.Pending.Run, answer: a.answer, spent: a.spent}
			records = append(records, b.suspended()...)
		}
		if err == nil {
			s.fail(s.write(ctx, true, records...))
		}
	case b.pending != nil:
		ask := b.ask()
		ask.Steps = ask.Steps.Join(a.steps).Join(a.ledger.Unsaved())
		if b.tellShown(ctx, ask) == nil {
			s.fail(s.write(ctx, true, ask))
		}
	}
	_ = s.describe(ctx) // the list of sessions is a convenience
}

// settle ends the pending run, if there is one: its open calls get outputs that say that they were not
// run, and its message joins the tree. The mutex is held.
func (b *Branch) settle(ctx context.Context) error {
	s := b.session
	if b.pending == nil {
		return nil
	}
	state := b.pending.State
	known := len(state.Messages())
	if next, _, err := state.Apply(&aycoder.Resumed{}); err == nil {
		state = next // calls that had begun are told apart from those that had not
	}
	if next, _, err := state.Apply(&aycoder.Cancelled{}); err == nil {
		state = next
	}
	a := &activeRun{branch: b, progress: b.progress}
	a.id = b.pending.Run
	records, err := a.nodes(state.Messages()[known:])
	if err != nil {
		return &journal.OpError{Op: "append to", Session: s.id, Err: err}
	}
	if err = b.recallShown(ctx); err == nil && len(records) > 0 {
		err = b.tellShown(ctx, outputsOf(records))
	}
	if err != nil {
		return err
	}
	records = append(records, &record{Kind: kindEnd, Run: b.number, Branch: b.name})
	if err := s.write(ctx, true, records...); err != nil {
		return err
	}
	for _, q := range state.Queued() {
		pass(&b.control, q)
	}
	b.pending = nil
	return nil
}
