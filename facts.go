package aycoder

import (
	"context"
	"errors"
	"fmt"
)

// FactRecord is a [Fact] that a run has accepted, as [WithFacts] hands it over. The facts of a run,
// applied in order to the State of its first record, give the state of the run at each record.
//
// A FactRecord encodes as a JSON object without State and Start, and decodes without loss:
// arguments, plans and signatures come back byte for byte. The keys are "run", "seq", "fact", such
// as "tool_done", and those of the fact. If a record is of a kind or version that this version of
// the package does not know, the error is a [*FormatError].
type FactRecord struct {
	// Run is the id of the run. Seq numbers the records of the run, from 0.
	Run string
	Seq int64
	// Fact is nil in the record with Seq 0, whose State is the one that the run starts with.
	Fact Fact
	// State is the state after Fact. It is not part of the JSON form.
	State State
	// Start is what [Start] made the first State of, in the record with Seq 0, unless the run is
	// resumed. It is not part of the JSON form.
	Start *StartInput
}

// WithFacts hands each [Fact] of the run to record, so that a host can store it and resume the run
// after a crash, see [Input.Pending]. The first record has no fact, but the state with which the
// run starts, and so the messages that the run added to the conversation. Records come one at a
// time and in order. A record is handed over before anything that follows from it: before the next
// request to the model, a question or a tool starts, and before the loop body gets an event about
// it. For example, [ToolBegan] is recorded before its tool is called. Only deltas and progress
// reports may come earlier. While record works, the rest of the run goes on.
//
// The context of record is not cancelled with the run, so that the last records, such as that of
// [Cancelled], are kept as well. If records are left when the run ends early, [Limits].Grace bounds
// the time for them; then the context is cancelled, and record must return. The loop statement ends
// after the last record. If record returns an error or panics, the run ends with this error, and
// neither an action nor a record follows.
func WithFacts(record func(ctx context.Context, rec *FactRecord) error) RunOption {
	return func(c *RunConfig) error {
		c.Facts = record
		return nil
	}
}

// A factLog hands the facts of a run over, one at a time. The events and actions that follow from a
// fact wait until the fact, and all before it, are recorded. run.mu guards the fields, and is not
// held while a fact is handed over.
type factLog struct {
	record func(context.Context, *FactRecord) error
	ctx    context.Context // is not cancelled before the grace is over
	cancel func()
	seq    int64
	start  *StartInput
	queue  []*heldFact // the first is being handed over
	busy   bool        // a goroutine hands facts over
	failed bool        // nothing more is handed over
}

// A heldFact is a fact that is not recorded yet, with what follows from it.
type heldFact struct {
	FactRecord
	events  []Event
	actions []Action
	done    chan struct{} // closed when the fact is recorded, or never will be
}

var errLateRecord = errors.New("the function did not return in time")

// note queues a fact that the state has accepted. The mutex is held.
func (r *run) note(f Fact) {
	l := r.facts
	if l.failed {
		return
	}
	rec := FactRecord{Run: r.id, Seq: l.seq, Fact: f, State: r.state, Start: l.start}
	l.start = nil
	l.seq++
	l.queue = append(l.queue, &heldFact{FactRecord: rec, done: make(chan struct{})})
	if !l.busy {
		l.busy = true
		go r.recordFacts()
	}
}

// hold keeps an event and actions until the facts before them are recorded. It returns false if
// all are.
func (l *factLog) hold(ev Event, actions ...Action) bool {
	if len(l.queue) == 0 {
		return false
	}
	f := l.queue[len(l.queue)-1]
	if ev != nil {
		f.events = append(f.events, ev)
	}
	f.actions = append(f.actions, actions...)
	return true
}

// recordFacts hands facts over until none is left.
func (r *run) recordFacts() {
	err := errExited // if record ends the goroutine
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.dropFacts(err)
	}()
	for f := r.nextFact(nil); f != nil; f = r.nextFact(f) {
		if failed := r.facts.hand(&f.FactRecord); failed != nil {
			err = failed
			return
		}
	}
	err = nil
}

func (l *factLog) hand(rec *FactRecord) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return l.record(l.ctx, rec)
}

// nextFact does what follows from a fact that is recorded, and returns the next one, or nil.
func (r *run) nextFact(recorded *heldFact) *heldFact {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.facts
	if l.failed {
		return nil
	}
	if recorded != nil {
		l.queue = l.queue[1:]
		r.release(recorded)
	}
	if l.busy = len(l.queue) > 0; l.busy {
		return l.queue[0]
	}
	return nil
}

// release does what follows from a fact. The mutex is held.
func (r *run) release(f *heldFact) {
	for _, ev := range f.events {
		r.out.push(ev)
	}
	close(f.done)
	r.follow(f.actions)
}

// dropFacts ends the run with an error of the record function, unless err is nil. The consumer
// still gets the events, but no action follows. The mutex is held.
func (r *run) dropFacts(err error) {
	l := r.facts
	if err == nil || l.failed {
		return
	}
	r.fail(fmt.Errorf("record fact: %w", err))
	queue := l.queue
	l.queue, l.busy, l.failed = nil, false, true
	for _, f := range queue {
		r.release(f)
	}
}

// awaitRecord waits until all facts are recorded. The mutex is held, but not during the wait.
func (r *run) awaitRecord(ctx context.Context) {
	last := r.facts.queue[len(r.facts.queue)-1]
	r.mu.Unlock()
	defer r.mu.Lock()
	select {
	case <-last.done:
	case <-ctx.Done():
	}
}

// mayStart waits until the fact that a tool begins is recorded, and reports whether the tool may
// start. If not, it settles the call. The mutex is held, but not during the wait.
func (r *run) mayStart(ctx context.Context, a *RunTool) bool {
	if r.recording() {
		r.awaitRecord(ctx)
	}
	text := outCancelled
	switch {
	case r.facts.failed:
		text = outUnrecorded
	case ctx.Err() == nil && !r.stopping:
		return true
	}
	r.mu.Unlock()
	defer r.mu.Lock()
	r.reject(a.Call, &ToolError{Tool: a.Call.Name, CallID: a.Call.ID, Err: errors.New(text)})
	return false
}

// finishFacts waits until the last facts are recorded, as long as the grace allows.
func (r *run) finishFacts() {
	defer r.facts.cancel()
	recorded := func() bool { return !r.facts.busy }
	if r.await(recorded) {
		return
	}
	r.facts.cancel()
	if r.await(recorded) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dropFacts(errLateRecord)
}

// begun records the state that the run starts with.
func (r *run) begun(ctx context.Context) {
	if l := r.facts; l != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		l.ctx, l.cancel = context.WithCancel(context.WithoutCancel(ctx))
		r.note(nil)
	}
}
