package aycoder

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Fact is something that happened to a run and is passed to [State.Apply]: [*BlockDone],
// [*BlockTruncated], [*MessageDone], [*ModelFailed], [*Waited], [*Decided], [*ToolBegan],
// [*CallRequested], [*ToolDone], [*Steered], [*Compacted], [*SetupChanged], [*Cancelled] or [*Resumed].
type Fact interface{ fact() }

// ModelFailed reports that the model did not finish its message. [RetryPolicy.Decide] returns a
// ModelFailed that says whether and how to retry.
type ModelFailed struct {
	// Retry says whether the model is asked again. After is how long to wait before that.
	Retry bool          `json:"retry"`
	After time.Duration `json:"after,omitempty"`
	// Shrink says that the next request must be smaller. If nothing more can be left out, the run
	// fails. Limit is the maximum size of the request's text, in bytes, or 0 if it is unknown.
	Shrink bool  `json:"shrink,omitempty"`
	Limit  int64 `json:"limit,omitempty"`
	// Keep says that the message exceeded a limit. The complete blocks of the message then join
	// the history, and those of its calls that have not begun do not run.
	Keep bool `json:"keep,omitempty"`
	// Began says that the answer had begun, so that its unknown tokens may cost something.
	Began bool `json:"began,omitempty"`
}

// Waited reports that a [Wait] is over.
type Waited struct{}

// ToolBegan reports that the tool of a call is about to start. After the state has accepted this
// fact, the call is never run again.
type ToolBegan struct{ ID string }

// ToolDone reports the outcome of a call. A call that cannot run gets an error as its Output. A ToolDone
// without ID and Output only tells what was spent outside of the calls, see [ActiveRun.Count].
type ToolDone struct {
	ID     string
	Output *ToolOutput
	// Spent is what the tool's requests to models have used. The usage of the run includes it.
	Spent []Spent
	// Final says that the run ends after this message, see [ToolResult].Final.
	Final bool
}

// Decided reports the answer to an [AskApproval]. The answer may replace the arguments or the plan. If it
// is to suspend a call after its [CallRequested], nobody will give the result while the run lives.
type Decided struct {
	Decision Decision
	// Outside says that the tool of the call is only declared: see [ToolSpec.Outside].
	Outside bool
}

// Steered carries a message of the user to the model. The message normally joins the history
// before the next request to the model, or, with FollowUp, only when the run would otherwise end.
// There is one exception: after [CallModel], and before the first block of the answer, a message
// without FollowUp joins the history at once, even if the request was already sent without the
// message. So apply Steered before that request is sent, or after the first block has come.
type Steered struct {
	Message  *Message `json:"message"`
	FollowUp bool     `json:"follow_up,omitempty"`
}

// Cancelled ends the run. Open calls get an output that says so, which keeps the history valid.
// Complete blocks of an unfinished message stay in the history.
type Cancelled struct {
	// Began says that an answer had begun, whose tokens are unknown.
	Began bool
}

// Resumed reports that a new program continues the run of a program that is gone. For each call
// that was running, the model is told that its outcome is unknown. Open approvals are asked for
// again, and so are the results of declared tools. Resumed is for programs that use a [State]; others use [Input.Pending].
type Resumed struct {
	// Model is the name of the model that continues the run, or "" if it is not known to be
	// another one. If it is another one, the limits that the old one had do not apply to it.
	Model string `json:"model,omitempty"`
	// MaxTurns is how many messages the model may send in the whole run, or 0 for no change.
	MaxTurns int `json:"max_turns,omitempty"`
	// RepeatReads says that read-only calls which were running are run again.
	RepeatReads bool `json:"repeat_reads,omitempty"`
}

func (*BlockDone) fact()      {}
func (*BlockTruncated) fact() {}
func (*MessageDone) fact()    {}
func (*ModelFailed) fact()    {}
func (*Waited) fact()         {}
func (*ToolBegan) fact()      {}
func (*CallRequested) fact()  {}
func (*ToolDone) fact()       {}
func (*Decided) fact()        {}
func (*Steered) fact()        {}
func (*Compacted) fact()      {}
func (*SetupChanged) fact()   {}
func (*Cancelled) fact()      {}
func (*Resumed) fact()        {}

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
		c.Facts, c.log = record, newFacts
		return nil
	}
}

func newFacts(r *run, record func(context.Context, *FactRecord) error) factLog {
	return &recordedFacts{run: r, record: record}
}

// A factLog hands the facts of a run over. Only WithFacts and WithLogger refer to implementations: programs
// without these options do not link them. All methods are called with the mutex of the run held, except
// finish. Those that wait give it up meanwhile.
type factLog interface {
	// begin notes the state that the run starts with.
	begin(ctx context.Context, start *StartInput)
	// note queues a fact that the state has accepted.
	note(f Fact)
	// hold keeps an event and actions until the facts before them are recorded. It returns false if
	// all are.
	hold(ev Event, actions ...Action) bool
	// retried is told of a retry of the client, which no fact is about.
	retried(ev *Retrying)
	// wait waits until all facts are recorded, and reports whether they are.
	wait(ctx context.Context) bool
	// behind reports whether there are facts that are not recorded yet.
	behind() bool
	// ends reports whether no action follows, because the run has failed.
	ends() bool
	// finish waits until the last facts are recorded, as long as the grace allows.
	finish()
}

// recordedFacts hands the facts of a run over, one at a time. The events and actions that follow from
// a fact wait until the fact, and all before it, are recorded. run.mu guards the fields, and is not
// held while a fact is handed over.
type recordedFacts struct {
	run    *run
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

func (l *recordedFacts) begin(ctx context.Context, start *StartInput) {
	l.ctx, l.cancel = context.WithCancel(context.WithoutCancel(ctx))
	l.start = start
	l.note(nil)
}

func (l *recordedFacts) note(f Fact) {
	if l.failed {
		return
	}
	rec := FactRecord{Run: l.run.id, Seq: l.seq, Fact: l.named(f), State: State{l.run.state}, Start: l.start}
	l.start = nil
	l.seq++
	l.queue = append(l.queue, &heldFact{FactRecord: rec, done: make(chan struct{})})
	if !l.busy {
		l.busy = true
		go l.handOver()
	}
}

// named returns a fact about a call with the id that the call has in the history, if that is not the model's. The facts
// that follow use it, and so must those who have no state.
func (l *recordedFacts) named(f Fact) Fact {
	parts := l.run.state.parts.Items
	if len(parts) == 0 {
		return f
	}
	use, ok := parts[len(parts)-1].(*ToolUse)
	switch b := f.(type) {
	case *BlockDone:
		if _, calls := b.Part.(*ToolUse); ok && calls {
			return &BlockDone{use}
		}
	case *BlockTruncated:
		return &BlockTruncated{use}
	}
	return f
}

func (l *recordedFacts) hold(ev Event, actions ...Action) bool {
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

func (l *recordedFacts) retried(*Retrying) {}

func (l *recordedFacts) ends() bool { return l.run.err != nil }

func (l *recordedFacts) behind() bool { return len(l.queue) > 0 }

// handOver hands facts over until none is left.
func (l *recordedFacts) handOver() {
	err := errExited // if record ends the goroutine
	defer func() {
		l.run.mu.Lock()
		defer l.run.mu.Unlock()
		l.drop(err)
	}()
	for f := l.next(nil); f != nil; f = l.next(f) {
		if failed := l.hand(&f.FactRecord); failed != nil {
			err = failed
			return
		}
	}
	err = nil
}

func (l *recordedFacts) hand(rec *FactRecord) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return l.record(l.ctx, rec)
}

// next does what follows from a fact that is recorded, and returns the next one, or nil.
func (l *recordedFacts) next(recorded *heldFact) *heldFact {
	l.run.mu.Lock()
	defer l.run.mu.Unlock()
	if l.failed {
		return nil
	}
	if recorded != nil {
		l.queue = l.queue[1:]
		l.release(recorded)
	}
	if l.busy = len(l.queue) > 0; l.busy {
		return l.queue[0]
	}
	return nil
}

// release does what follows from a fact. The mutex is held.
func (l *recordedFacts) release(f *heldFact) {
	for _, ev := range f.events {
		l.run.out.push(ev)
	}
	close(f.done)
	l.run.follow(f.actions)
}

// drop ends the run with an error of the record function, unless err is nil. The consumer still gets
// the events, but no action follows. The mutex is held.
func (l *recordedFacts) drop(err error) {
	if err == nil || l.failed {
		return
	}
	l.run.fail(fmt.Errorf("record fact: %w", err))
	queue := l.queue
	l.queue, l.busy, l.failed = nil, false, true
	for _, f := range queue {
		l.release(f)
	}
}

func (l *recordedFacts) wait(ctx context.Context) bool {
	if l.behind() {
		last := l.queue[len(l.queue)-1]
		l.run.mu.Unlock()
		select {
		case <-last.done:
		case <-ctx.Done():
		}
		l.run.mu.Lock()
	}
	return !l.failed
}

func (l *recordedFacts) finish() {
	defer l.cancel()
	recorded := func() bool { return !l.busy }
	if l.run.await(recorded) {
		return
	}
	l.cancel()
	if l.run.await(recorded) {
		return
	}
	l.run.mu.Lock()
	defer l.run.mu.Unlock()
	l.drop(errLateRecord)
}
