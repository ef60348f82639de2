package session

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/snapshot"
	"github.com/aycoder/aycoder/workspace"
)

// Branch is a position in the tree of a [Session], its head, and the agent that continues the
// conversation there. It is itself an [aycoder.Agent]: Run takes the conversation from the tree.
//
// The effect of a command depends on the phase of the branch, which [Branch.Phase] returns: the comment of the package
// has the table.
//
// The methods are safe for concurrent use.
type Branch struct {
	session *Session
	name    string

	// The mutex of the session guards all that follows.
	agent    aycoder.Agent
	control  aycoder.Control
	active   *activeRun
	busy     string // the command that is compacting or checking out, or ""
	cancel   context.CancelCauseFunc
	idle     chan struct{} // closed when busy ends
	pending  *aycoder.Pending
	progress // of the pending run
	redo     []ID
	files    map[string]snapshot.State // what the path to the head says of the files, or nil: see addFiles
	shown    *shownFiles               // what the model was shown, or nil: see recallShown
	reader   *workspace.Reader         // has shown
	asked    shownDelta                // of the open turn of the pending run
	unsure   bool                      // the model of the pending run was shown more than is known
	steps    snapshot.Steps            // what the last run has changed, as it is recorded
	stepsOf  int64                     // the number of this run
	moving   *record                   // a checkout that has not moved the head yet, or nil
	said     []*aycoder.Steered        // recorded, and not in the tree yet
	letters  map[string]bool           // see SteerOnce
	values   map[string]*kept
	fresh    map[string]json.RawMessage // values that are recorded, and not in a node yet
	start    *startRecord               // of the last run
	recent   []*aycoder.Message         // of the last run: the next one begins with these, and outlines of others
	jobs     beside
}

// Phase says what a [Branch] is doing.
type Phase string

// The phases of a [Branch].
const (
	PhaseIdle       Phase = "idle"
	PhaseModel      Phase = "asking the model"
	PhaseTools      Phase = "running tools"
	PhaseQuestion   Phase = "waiting for an answer"
	PhaseCompacting Phase = "compacting"
	PhaseSuspended  Phase = "suspended" // or interrupted by the end of its process
	PhaseClosed     Phase = "closed"
)

// CommandError reports that a command is not possible now, or not at all.
type CommandError struct {
	// Command is the command, such as "undo". Phase is the phase in which it was refused.
	Command string
	Phase   Phase
	// Reason says why.
	Reason string
}

// Error implements error.
func (e *CommandError) Error() string {
	if e.Reason == "" {
		return fmt.Sprintf("%s: not possible while the conversation is %s", e.Command, e.Phase)
	}
	return fmt.Sprintf("%s: %s", e.Command, e.Reason)
}

// noNode is the error of a command about a node that is not in the tree.
func noNode(command string, phase Phase, id ID) error {
	return &CommandError{Command: command, Phase: phase, Reason: fmt.Sprintf("there is no node %d", id)}
}

// Name returns the name of the branch, which is "" for the branch of the [Session] itself.
func (b *Branch) Name() string { return b.name }

// Head returns the node with which the conversation continues.
func (b *Branch) Head() ID { return b.session.View().Head(b.name) }

// Phase returns what the branch is doing.
func (b *Branch) Phase() Phase {
	b.session.mu.Lock()
	defer b.session.mu.Unlock()
	return b.phase()
}

func (b *Branch) phase() Phase {
	switch {
	case b.session.closed:
		return PhaseClosed
	case b.busy != "":
		return PhaseCompacting
	case b.active != nil:
		return b.active.phase()
	case b.pending != nil:
		return PhaseSuspended
	}
	return PhaseIdle
}

// Pending returns the run that waits to be continued, or nil: a suspended run with its questions and
// open calls, or one that the end of its process interrupted, which has no questions. Run with an
// empty [aycoder.Input], or with only Decisions and Results, continues it. Run with a prompt settles it
// first, so that its open calls get an output that says they were not run, or that no result came.
func (b *Branch) Pending() *aycoder.Pending {
	b.session.mu.Lock()
	defer b.session.mu.Unlock()
	return b.pending
}

// Steer sends a message to the model while a run works, as [aycoder.Control] does. Without a run,
// the next one takes it. The message is recorded: it survives the process.
func (b *Branch) Steer(ctx context.Context, text string, parts ...aycoder.Part) error {
	return b.say(ctx, "steer", "", text, parts, false)
}

// FollowUp sends a message to the model when the run would otherwise end. The message is recorded:
// it survives the process.
func (b *Branch) FollowUp(ctx context.Context, text string, parts ...aycoder.Part) error {
	return b.say(ctx, "follow up", "", text, parts, true)
}

// SteerOnce is Steer or FollowUp, for a message that may be delivered several times under the same id: the
// later ones have no effect, also after a crash, until [Session.Trim] forgets the ids.
func (b *Branch) SteerOnce(ctx context.Context, id, text string, parts []aycoder.Part, followUp bool) error {
	return b.say(ctx, "steer", id, text, parts, followUp)
}

func (b *Branch) say(ctx context.Context, command, letter, text string, parts []aycoder.Part, followUp bool) error {
	s := b.session
	return s.do(command, func() error {
		if letter != "" && b.letters[letter] {
			return nil
		}
		var one aycoder.Control // makes the message as a run gets it
		one.Steer(text, parts...)
		queued := one.Queued()
		if len(queued) == 0 {
			return &CommandError{Command: command, Phase: b.phase(), Reason: "the message is empty"}
		}
		say := &aycoder.Steered{Message: queued[0], FollowUp: followUp}
		if err := s.write(ctx, true, &record{Kind: kindSay, Branch: b.name, Say: say, Letter: letter}); err != nil {
			return err
		}
		pass(b.steering(), say)
		return nil
	})
}

// steering returns the control of the run that works, or else that of the next one.
func (b *Branch) steering() *aycoder.Control {
	if b.active != nil {
		return b.active.control
	}
	return &b.control
}

// pass hands a message to a control.
func pass(control *aycoder.Control, say *aycoder.Steered) {
	if say.FollowUp {
		control.FollowUp("", say.Message.Parts...)
	} else {
		control.Steer("", say.Message.Parts...)
	}
}

// giveBack puts messages back into a control. Follow-ups of the branch are so again.
func (b *Branch) giveBack(control *aycoder.Control, messages ...*aycoder.Message) {
	for _, m := range messages {
		say := &aycoder.Steered{Message: m}
		if i := slices.IndexFunc(b.said, sayOf(m)); i >= 0 {
			say = b.said[i]
		}
		pass(control, say)
	}
}

func sayOf(m *aycoder.Message) func(*aycoder.Steered) bool {
	return func(q *aycoder.Steered) bool { return equal(q.Message, m) }
}

// requeue makes a control hold the messages that no run has taken: that of the branch in their
// order, and then what it held beside them.
func (b *Branch) requeue(control *aycoder.Control) {
	var taken []*aycoder.Steered // by the pending run
	if b.pending != nil {
		taken = slices.Clone(b.pending.State.Queued())
	}
	queued, own := control.Queued(), control == &b.control
	if own {
		control.Drain()
	}
	for _, q := range b.said {
		same := func(m *aycoder.Message) bool { return equal(m, q.Message) }
		here := slices.IndexFunc(queued, same)
		if here >= 0 {
			queued = slices.Delete(queued, here, here+1)
		}
		if i := slices.IndexFunc(taken, func(t *aycoder.Steered) bool { return same(t.Message) }); i >= 0 {
			taken = slices.Delete(taken, i, i+1)
		} else if own || here < 0 {
			pass(control, q)
		}
	}
	for _, m := range queued {
		if own {
			control.Steer("", m.Parts...)
		}
	}
}

// delivered forgets a message of Steer or FollowUp that is now in the tree.
func (b *Branch) delivered(m *aycoder.Message) {
	if m == nil || m.Role != aycoder.RoleUser || len(b.said) == 0 {
		return
	}
	if i := slices.IndexFunc(b.said, sayOf(m)); i >= 0 {
		b.said = slices.Delete(slices.Clone(b.said), i, i+1)
	}
}

func equal(a, b *aycoder.Message) bool {
	if len(a.Parts) != len(b.Parts) || a.Text() != b.Text() { // which costs less
		return false
	}
	x, err1 := json.Marshal(a)
	y, err2 := json.Marshal(b)
	return err1 == nil && err2 == nil && bytes.Equal(x, y)
}

// Queued returns the messages of Steer and FollowUp that the model has not seen.
func (b *Branch) Queued() []*aycoder.Message {
	b.session.mu.Lock()
	defer b.session.mu.Unlock()
	var out []*aycoder.Message
	for _, q := range b.said {
		out = append(out, q.Message)
	}
	return out
}

// Drain withdraws the messages that no run has taken yet, and returns them.
func (b *Branch) Drain(ctx context.Context) ([]*aycoder.Message, error) {
	s := b.session
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable("drain"); err != nil {
		return nil, err
	}
	control := b.steering()
	out := control.Drain()
	if len(out) == 0 {
		return nil, nil
	}
	// Those that a run has taken are still to come: they are recorded again.
	records, back := []*record{{Kind: kindUnsay, Branch: b.name}}, []*aycoder.Steered(nil)
	withdrawn := slices.Clone(out)
	for _, q := range b.said {
		if i := slices.IndexFunc(withdrawn, func(m *aycoder.Message) bool { return equal(m, q.Message) }); i >= 0 {
			withdrawn = slices.Delete(withdrawn, i, i+1) // one of two equal messages may be taken
			back = append(back, q)
		} else {
			records = append(records, &record{Kind: kindSay, Branch: b.name, Say: q})
		}
	}
	err := s.write(ctx, true, records...)
	if err != nil { // they wait as before
		for _, q := range back {
			pass(control, q)
		}
		for _, m := range withdrawn {
			control.Steer("", m.Parts...)
		}
		return nil, err
	}
	return out, nil
}

// Cancel stops what the branch is doing, and returns without waiting for its end. The run ends as
// if its context were cancelled. A suspended run is settled: its open calls are not run.
func (b *Branch) Cancel(ctx context.Context) error {
	return b.session.do("cancel", func() error {
		switch {
		case b.busy != "":
			b.cancel(errCancelled)
		case b.active != nil:
			b.active.cancel(errCancelled)
		case b.pending != nil:
			defer b.wakeUp()
			return b.settle(ctx)
		default:
			return &CommandError{Command: "cancel", Phase: PhaseIdle, Reason: "nothing is running"}
		}
		return nil
	})
}

var errCancelled = errors.New("cancelled by the user")

// SetAgent lets another agent answer from the next run on, for example one with another model. To
// change the model in the middle of a run, use [aycoder.WithSetup].
func (b *Branch) SetAgent(agent aycoder.Agent) error {
	return b.session.do("set agent", func() error {
		if agent == nil {
			return &aycoder.ConfigError{Option: "agent", Err: errors.New("is nil")}
		}
		b.agent = agent
		return nil
	})
}

// MoveOption configures [Branch.Checkout], [Branch.Undo], [Branch.Redo] and [Branch.Compact].
type MoveOption func(*moveConfig) error

type moveConfig struct {
	stop, wait          bool
	dry                 bool
	onlyChat, onlyFiles bool
	paths               []string
}

// OnlyConversation leaves the files as they are. Default: a session with files takes them back
// together with the conversation.
func OnlyConversation() MoveOption {
	return func(c *moveConfig) error { c.onlyChat = true; return nil }
}

// OnlyFiles takes the files back and continues the conversation where it is.
func OnlyFiles() MoveOption {
	return func(c *moveConfig) error { c.onlyFiles = true; return nil }
}

// OnlyPaths restricts the files that are taken back to these, and to those below these directories.
// Default: all files.
func OnlyPaths(paths ...string) MoveOption {
	return func(c *moveConfig) error { c.paths = append(c.paths, paths...); return nil }
}

// DryRun changes nothing. The [Move] says what would be done.
func DryRun() MoveOption {
	return func(c *moveConfig) error { c.dry = true; return nil }
}

// StoppingRun lets the command cancel a run that works on the branch, and wait for its end. The
// reader of the run must leave or finish its loop, so the command must not be called by the body of
// that loop. Default: the command is refused while a run works.
func StoppingRun() MoveOption {
	return func(c *moveConfig) error { c.stop, c.wait = true, true; return nil }
}

// AwaitingRun lets the command wait for the end of a run that works on the branch. It must not be
// called by the body of the loop over that run. Default: the command is refused while a run works.
func AwaitingRun() MoveOption {
	return func(c *moveConfig) error { c.wait = true; return nil }
}

// occupy waits until no run works on the branch, and keeps it for a command until release is called.
// The mutex is held, and given up while it waits.
func (b *Branch) occupy(ctx context.Context, command string, c *moveConfig) (work context.Context, release func(), err error) {
	s := b.session
	for {
		if err := s.usable(command); err != nil {
			return nil, nil, err
		}
		if b.active == nil && b.busy == "" {
			break
		}
		if !c.wait {
			return nil, nil, &CommandError{Command: command, Phase: b.phase()}
		}
		end := b.idle
		if b.active != nil {
			if end = b.active.done; c.stop {
				b.active.cancel(errCancelled)
			}
		}
		s.mu.Unlock()
		select {
		case <-end:
		case <-ctx.Done():
		}
		s.mu.Lock()
		if ctx.Err() != nil {
			return nil, nil, context.Cause(ctx)
		}
	}
	b.busy, b.idle = command, make(chan struct{})
	work, b.cancel = context.WithCancelCause(ctx)
	return work, func() {
		b.cancel(nil)
		b.busy = ""
		close(b.idle)
		b.wakeUp()
	}, nil
}

// next completes the record of a node that follows the head of the branch.
func (b *Branch) next(r *record) *record {
	t := b.session.tree
	r.Kind, r.Branch, r.At = kindNode, b.name, millis(b.session.config.clock.Now())
	return r.at(t.next(), t.heads[b.name])
}
