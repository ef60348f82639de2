package session_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/session"
	"github.com/aycoder/aycoder/snapshot"
	"github.com/aycoder/aycoder/workspace"
)

// agentFunc is an agent of the host's own.
type agentFunc func(ctx context.Context, in aycoder.Input, opts ...aycoder.RunOption) iter.Seq2[aycoder.Event, error]

func (f agentFunc) Run(ctx context.Context, in aycoder.Input, opts ...aycoder.RunOption) iter.Seq2[aycoder.Event, error] {
	return f(ctx, in, opts...)
}

// suspended returns a session whose run waits for an answer.
func suspended(t *testing.T) *session.Session {
	l, err := aycoder.New(script.New(script.Reply(call("write", "a"))),
		aycoder.WithTools(echo(t, "write", aycoder.EffectWrite)), aycoder.WithApprover(verdict(aycoder.Suspend())))
	require.NoError(t, err)
	s, err := session.New(t.Context(), journal.Memory(), l)
	require.NoError(t, err)
	for _, err := range s.Run(t.Context(), aycoder.Input{Prompt: "go"}) {
		require.NoError(t, err)
	}
	require.NotNil(t, s.Pending())
	return s
}

// A dry run changes nothing, and neither does a move that is refused: the suspended run keeps its
// questions.
func TestRefusedMovesKeepThePendingRun(t *testing.T) {
	for name, move := range map[string]func(*session.Session) error{
		"dry undo":     func(s *session.Session) error { _, err := s.Undo(t.Context(), session.DryRun()); return err },
		"dry checkout": func(s *session.Session) error { _, err := s.Checkout(t.Context(), 0, session.DryRun()); return err },
		"no node":      func(s *session.Session) error { _, err := s.Checkout(t.Context(), 99); return err },
		"no redo":      func(s *session.Session) error { _, err := s.Redo(t.Context()); return err },
	} {
		t.Run(name, func(t *testing.T) {
			s := suspended(t)
			_ = move(s)
			require.NotNil(t, s.Pending())
			require.Equal(t, session.PhaseSuspended, s.Phase())
		})
	}
}

// A command whose context is cancelled is an error of that command, and not of the session.
func TestCancelledCommandsCostNothing(t *testing.T) {
	for name, store := range map[string]journal.Store{"memory": journal.Memory(), "dir": dirStore(t)} {
		t.Run(name, func(t *testing.T) {
			s, err := session.New(t.Context(), store, agent(t, script.Say("hello")))
			require.NoError(t, err)
			gone, cancel := context.WithCancel(t.Context())
			cancel()
			require.ErrorIs(t, s.SetTitle(gone, "x"), context.Canceled)
			require.ErrorIs(t, s.Steer(gone, "x"), context.Canceled)
			require.NoError(t, s.Err())
			require.NoError(t, s.SetTitle(t.Context(), "y"))
			run(t, s, "go")
			require.NoError(t, s.Close())
			v, damage, err := session.Read(t.Context(), store, s.ID())
			require.NoError(t, err)
			require.Empty(t, damage)
			require.Equal(t, "y", v.Title())
			require.Equal(t, 3, v.Len())
		})
	}
}

func dirStore(t *testing.T) journal.Store {
	store, err := journal.Dir(t.TempDir())
	require.NoError(t, err)
	return store
}

// A message that waits for a run is not lost with a run that does not begin.
func TestQueuedMessagesOutliveAFailedRun(t *testing.T) {
	s, err := session.New(t.Context(), journal.Memory(), agent(t, script.Say("hello")))
	require.NoError(t, err)
	good := agent(t, script.Say("hello"))
	require.NoError(t, s.Steer(t.Context(), "one"))
	require.NoError(t, s.FollowUp(t.Context(), "two"))
	refusing := agentFunc(func(context.Context, aycoder.Input, ...aycoder.RunOption) iter.Seq2[aycoder.Event, error] {
		return func(yield func(aycoder.Event, error) bool) { yield(nil, errors.New("no key")) }
	})
	require.NoError(t, s.SetAgent(refusing))
	for range s.Run(t.Context(), aycoder.Input{}) { //nolint:revive
	}
	require.Len(t, s.Queued(), 2)
	require.NoError(t, s.SetAgent(good))
	for _, err := range s.Run(t.Context(), aycoder.Input{}) {
		require.NoError(t, err)
		break
	}
	require.Equal(t, "one", s.View().Node(1).Message().Text())
}

// A branch that may not use a control takes nothing from the run that has it.
func TestOneControlForTwoBranches(t *testing.T) {
	entered, leave := make(chan bool), make(chan bool)
	waiting := agentFunc(func(ctx context.Context, in aycoder.Input, opts ...aycoder.RunOption) iter.Seq2[aycoder.Event, error] {
		return func(yield func(aycoder.Event, error) bool) {
			close(entered)
			<-leave
			for ev, err := range agent(t, script.Say("a"), script.Say("b"), script.Say("c")).Run(ctx, in, opts...) {
				if !yield(ev, err) {
					return
				}
			}
		}
	})
	s, err := session.New(t.Context(), journal.Memory(), waiting)
	require.NoError(t, err)
	b, err := s.NewBranch(t.Context(), "b", 0, agent(t, script.Say("b")))
	require.NoError(t, err)
	control := new(aycoder.Control)
	done := make(chan bool)
	go func() {
		defer close(done)
		for range s.Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.WithControl(control)) { //nolint:revive
		}
	}()
	<-entered
	require.NoError(t, s.Steer(t.Context(), "for the first"))
	var failed error
	for _, err := range b.Run(t.Context(), aycoder.Input{}, aycoder.WithControl(control)) {
		failed = err
	}
	require.Error(t, failed)
	close(leave)
	<-done
	var texts []string
	for _, m := range s.View().Messages(s.Head()) {
		texts = append(texts, m.Text())
	}
	require.Contains(t, texts, "for the first")
}

// A pending run is not lost with an agent that cannot continue it.
func TestPendingOutlivesAFailedRun(t *testing.T) {
	s := suspended(t)
	require.NoError(t, s.SetAgent(agentFunc(func(context.Context, aycoder.Input, ...aycoder.RunOption) iter.Seq2[aycoder.Event, error] {
		return func(yield func(aycoder.Event, error) bool) { yield(nil, errors.New("no key")) }
	})))
	for range s.Run(t.Context(), aycoder.Input{}) { //nolint:revive
	}
	require.NotNil(t, s.Pending())
}

// An agent around another one may shorten the conversation, or run the other one twice. The session
// has each message once, and says what it cannot record.
func TestAgentsAroundTheLoop(t *testing.T) {
	store := newMemory()
	loop := agent(t, script.Say("1"), script.Say("2"), script.Say("3"), script.Say("4"))
	s, err := session.New(t.Context(), store, loop)
	require.NoError(t, err)
	run(t, s, "first")
	require.NoError(t, s.SetAgent(agentFunc(func(ctx context.Context, in aycoder.Input, opts ...aycoder.RunOption) iter.Seq2[aycoder.Event, error] {
		return func(yield func(aycoder.Event, error) bool) {
			var res aycoder.Result
			for ev, err := range loop.Run(ctx, in, append(opts[:len(opts):len(opts)], aycoder.Into(&res))...) {
				if !yield(ev, err) {
					return
				}
			}
			for ev, err := range loop.Run(ctx, aycoder.Input{Prompt: "and", Messages: res.Messages}, opts...) {
				if !yield(ev, err) {
					return
				}
			}
		}
	})))
	run(t, s, "second")
	require.Equal(t, 7, s.View().Len())
	before := asJSON(t, s.View().Messages(s.Head()))
	require.NoError(t, s.SetAgent(agentFunc(func(ctx context.Context, in aycoder.Input, opts ...aycoder.RunOption) iter.Seq2[aycoder.Event, error] {
		in.Messages = in.Messages[2:]
		return loop.Run(ctx, in, opts...)
	})))
	var failed error
	for _, err := range s.Run(t.Context(), aycoder.Input{Prompt: "third"}) {
		failed = err
	}
	require.ErrorAs(t, failed, new(*aycoder.ConfigError))
	require.Equal(t, before, asJSON(t, s.View().Messages(s.Head())))
	v, damage, err := session.Read(t.Context(), store, s.ID())
	require.NoError(t, err)
	require.Empty(t, damage)
	require.Equal(t, before, asJSON(t, v.Messages(v.Head(""))))
}

// A history is valid after the records of a run, or the function of the host, have failed at any
// fact.
func TestFactsOfTheHostFail(t *testing.T) {
	for n := range 20 {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			store := newMemory()
			s, err := session.New(t.Context(), store, agent(t, script.Reply(call("look", "a"), call("write", "b")), script.Say("done"), script.Say("on"), script.Say("on")))
			require.NoError(t, err)
			count := 0
			for range s.Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.WithFacts(func(context.Context, *aycoder.FactRecord) error {
				if count++; count > n {
					return errors.New("host failed")
				}
				return nil
			})) { //nolint:revive
			}
			require.NoError(t, aycoder.CheckHistory(s.View().Messages(s.Head())))
			for _, err := range s.Run(t.Context(), aycoder.Input{Prompt: "go on"}) {
				require.NoError(t, err)
			}
			v, _, err := session.Read(t.Context(), store, s.ID())
			require.NoError(t, err)
			require.Equal(t, asJSON(t, s.View().Messages(s.Head())), asJSON(t, v.Messages(v.Head(""))))
		})
	}
}

// putting is a store whose journals call a function at each Get.
type putting struct {
	*memory
	get func()
}

type puttingJournal struct {
	journal.Journal
	p *putting
}

func (p *putting) Create(ctx context.Context, id string) (journal.Journal, error) {
	j, err := p.memory.Create(ctx, id)
	return &puttingJournal{j, p}, err
}

func (j *puttingJournal) Get(ctx context.Context, h journal.Hash) ([]byte, error) {
	if f := j.p.get; f != nil {
		j.p.get = nil
		f()
	}
	return j.Journal.Get(ctx, h)
}

// A checkout that makes a node of the user's changes takes the number after that of a node that
// another branch makes at the same time.
func TestCheckoutWhileAnotherBranchGrows(t *testing.T) {
	store := &putting{memory: newMemory()}
	d := newDesk(t, "", store, t.TempDir(), writeFile("a", "1"), script.Say("one"), writeFile("a", "2"), script.Say("two"))
	run(t, d.s, "first")
	first := d.s.Head()
	run(t, d.s, "second")
	b, err := d.s.NewBranch(t.Context(), "b", first, agent(t))
	require.NoError(t, err)
	d.write("a", "user")
	grown := false
	store.get = func() {
		grown = true
		err := b.Compact(t.Context(), func(_ context.Context, m []*aycoder.Message) ([]*aycoder.Message, *aycoder.Compacted, error) {
			return m, nil, nil
		})
		require.NoError(t, err)
	}
	move, err := d.s.Checkout(t.Context(), first)
	require.NoError(t, err)
	require.True(t, grown)
	v := d.s.View()
	for id := range v.Len() {
		require.Equal(t, session.ID(id), v.Node(session.ID(id)).ID)
	}
	require.NotEmpty(t, v.Node(move.From).Files)
	o, damage, err := session.Read(t.Context(), store.memory, d.s.ID())
	require.NoError(t, err)
	require.Empty(t, damage)
	require.Equal(t, v.Len(), o.Len())
}

// A session that cannot be made or opened leaves neither the files nor the store occupied.
func TestFailedStartsLeaveNothing(t *testing.T) {
	ws, err := workspace.Open(t.TempDir())
	require.NoError(t, err)
	defer ws.Close()
	files, store := snapshot.New(ws), journal.Memory()
	s, err := session.New(t.Context(), store, agent(t), session.WithFiles(files))
	require.NoError(t, err)
	_, err = session.New(t.Context(), store, agent(t), session.WithFiles(files))
	require.Error(t, err)
	_, err = s.Fork(t.Context(), 0, session.WithFiles(files))
	require.Error(t, err)
	count := 0
	for _, err := range store.List(t.Context()) {
		require.NoError(t, err)
		count++
	}
	require.Equal(t, 1, count)
}

// A crash before the first record leaves a session without a header, and a disk that fails may leave one that is
// described. It does not keep the user from his other sessions.
func TestContinuePassesOverEmptySessions(t *testing.T) {
	for _, described := range []bool{false, true} {
		store := journal.Memory()
		j, err := store.Create(t.Context(), "empty")
		require.NoError(t, err)
		if described {
			at := time.Unix(1, 0)
			require.NoError(t, j.Describe(t.Context(), journal.Entry{ID: "empty", Dir: "/x", Nodes: 1, Created: at, Used: at}))
		}
		require.NoError(t, j.Close())
		s, err := session.Continue(t.Context(), store, "/x", agent(t, script.Say("a")))
		require.NoError(t, err)
		require.NotEqual(t, "empty", s.ID())
	}
}

// Close stops a command that works, and waits for its end.
func TestCloseWaitsForCommands(t *testing.T) {
	s, err := session.New(t.Context(), journal.Memory(), agent(t, script.Say("a")))
	require.NoError(t, err)
	run(t, s, "go")
	entered, ended := make(chan bool), make(chan error, 1)
	returned := false
	go func() {
		err := s.Compact(t.Context(), func(ctx context.Context, m []*aycoder.Message) ([]*aycoder.Message, *aycoder.Compacted, error) {
			close(entered)
			<-ctx.Done()
			returned = true
			return nil, nil, context.Cause(ctx)
		})
		ended <- err
	}()
	<-entered
	require.NoError(t, s.Close())
	require.True(t, returned)
	require.Error(t, <-ended)
}

// A session with damaged records is repaired after Trim as well.
func TestTrimKeepsTheRepair(t *testing.T) {
	whole := newMemory()
	s, err := session.New(t.Context(), whole, agent(t, script.Reply(call("look", "a"), call("write", "b")), script.Say("done")))
	require.NoError(t, err)
	run(t, s, "go")
	records := whole.sessions[s.ID()].records
	for bad := range records {
		store := newMemory()
		store.sessions["x"] = &memoryJournal{records: records, objects: map[journal.Hash][]byte{}, damaged: map[int]bool{bad: true}}
		o, err := session.Open(t.Context(), store, "x", agent(t))
		require.NoError(t, err)
		want := o.View().Messages(o.Head())
		require.NoError(t, aycoder.CheckHistory(want))
		require.NoError(t, o.Trim(t.Context()))
		store.sessions["x"].damaged = nil
		v, _, err := session.Read(t.Context(), store, "x")
		require.NoError(t, err)
		require.NoError(t, aycoder.CheckHistory(v.Messages(v.Head(""))), "record %d", bad)
		require.Equal(t, asJSON(t, want), asJSON(t, v.Messages(v.Head(""))), "record %d", bad)
	}
}

// An agent that records no facts may suspend its run: the session keeps that, too.
func TestSuspendedRunWithoutFacts(t *testing.T) {
	var l *aycoder.Loop
	silent := agentFunc(func(ctx context.Context, in aycoder.Input, opts ...aycoder.RunOption) iter.Seq2[aycoder.Event, error] {
		var c aycoder.RunConfig
		for _, opt := range opts {
			require.NoError(t, opt(&c))
		}
		c.Facts = nil
		return l.Run(ctx, in, func(rc *aycoder.RunConfig) error { *rc = c; return nil })
	})
	for name, trim := range map[string]bool{"": false, "trimmed": true} {
		t.Run(name, func(t *testing.T) {
			store := dirStore(t)
			var err error
			l, err = aycoder.New(script.New(script.Reply(call("write", "a")), script.Say("done")),
				aycoder.WithTools(echo(t, "write", aycoder.EffectWrite)), aycoder.WithApprover(verdict(aycoder.Suspend())))
			require.NoError(t, err)
			s, err := session.New(t.Context(), store, silent)
			require.NoError(t, err)
			for _, err := range s.Run(t.Context(), aycoder.Input{Prompt: "go"}) {
				require.NoError(t, err)
			}
			require.Len(t, s.Pending().Requests, 1)
			if trim {
				require.NoError(t, s.Trim(t.Context()))
			}
			require.NoError(t, s.Close())
			s, err = session.Open(t.Context(), store, s.ID(), silent)
			require.NoError(t, err)
			require.Empty(t, s.Damage())
			require.Len(t, s.Pending().Requests, 1)
			require.Equal(t, session.PhaseSuspended, s.Phase())
			q := s.Pending().Requests[0]
			answer := aycoder.Decision{CallID: q.CallID, Digest: q.Digest, Verdict: aycoder.Allow()}
			for _, err := range s.Run(t.Context(), aycoder.Input{Decisions: []aycoder.Decision{answer}}) {
				require.NoError(t, err)
			}
			require.Nil(t, s.Pending())
			require.NoError(t, s.Close())
			s, err = session.Open(t.Context(), store, s.ID(), silent)
			require.NoError(t, err)
			require.Nil(t, s.Pending())
			messages := s.View().Messages(s.Head())
			require.NoError(t, aycoder.CheckHistory(messages))
			require.Len(t, messages, 4)
			require.Equal(t, "done", messages[3].Text())
		})
	}
}

// A branch needs a name that can be recorded.
func TestBranchNames(t *testing.T) {
	s, err := session.New(t.Context(), journal.Memory(), agent(t, script.Say("a")))
	require.NoError(t, err)
	_, err = s.NewBranch(t.Context(), "\xff", 0, agent(t, script.Say("a")))
	require.ErrorAs(t, err, new(*aycoder.ConfigError))
}

// A Drain that fails takes nothing away: the next run has the messages.
func TestFailedDrainTakesNothing(t *testing.T) {
	s, err := session.New(t.Context(), journal.Memory(), agent(t, script.Say("a"), script.Say("b")))
	require.NoError(t, err)
	require.NoError(t, s.Steer(t.Context(), "one"))
	require.NoError(t, s.FollowUp(t.Context(), "two"))
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	out, err := s.Drain(gone)
	require.ErrorIs(t, err, context.Canceled)
	require.Empty(t, out)
	run(t, s, "go")
	require.Empty(t, s.Queued())
	require.Equal(t, []string{"go", "one", "two"}, userTexts(s))
}

// A run with messages that the session cannot take is refused, and costs neither the pending run nor what waits for the next one.
func TestRefusedMessagesChangeNothing(t *testing.T) {
	s := suspended(t)
	require.NoError(t, s.Steer(t.Context(), "later"))
	before := s.View().Len()
	var failed error
	for _, err := range s.Run(t.Context(), aycoder.Input{Messages: []*aycoder.Message{aycoder.User("old")}, Prompt: "new"}, aycoder.WithControl(new(aycoder.Control))) {
		failed = err
	}
	require.ErrorAs(t, failed, new(*aycoder.ConfigError))
	require.NotNil(t, s.Pending())
	require.Equal(t, before, s.View().Len())
	require.Len(t, s.Queued(), 1)
	require.NoError(t, s.SetAgent(agent(t, script.Say("hello"))))
	run(t, s, "go")
	require.Empty(t, s.Queued())
}

// A run that went on without records after the disk was full is not resumed as if it had stopped there: no write runs again.
func TestUnrecordedWritesDoNotRunAgain(t *testing.T) {
	writes := 0
	tool, err := aycoder.NewTool("write", "", func(context.Context, *aycoder.Invocation, echoArgs) (*aycoder.ToolResult, error) {
		writes++
		return aycoder.TextResult("written"), nil
	}, aycoder.WithEffect(aycoder.EffectWrite))
	require.NoError(t, err)
	writer := func(steps ...script.Step) *aycoder.Loop {
		l, err := aycoder.New(script.New(steps...), aycoder.WithTools(tool), aycoder.WithApprover(verdict(aycoder.Allow())))
		require.NoError(t, err)
		return l
	}
	for limit := 1; ; limit++ {
		store := newMemory()
		s, err := session.New(t.Context(), store, writer(call("write", "a"), script.Say("done")), session.WithoutStopping())
		require.NoError(t, err)
		j := store.sessions[s.ID()]
		j.limit, j.fail = limit, syscall.ENOSPC
		writes = 0
		run(t, s, "go")
		full := s.Err() != nil
		require.NoError(t, s.Close())
		j.fail = nil
		o, err := session.Open(t.Context(), store, s.ID(), writer(script.Say("resumed")))
		require.NoError(t, err)
		if o.Pending() != nil {
			for _, err := range o.Run(t.Context(), aycoder.Input{}) {
				require.NoError(t, err)
			}
		}
		require.Equal(t, 1, writes, "full after %d records", limit)
		if !full {
			break
		}
	}
}

// A run that is suspended is recorded whole, also by a session that would go on without its journal.
func TestSuspendedRunOfSessionInMemory(t *testing.T) {
	store := newMemory()
	s, err := session.New(t.Context(), store, worker(t, aycoder.Suspend()), session.WithoutStopping())
	require.NoError(t, err)
	run(t, s, "go")
	require.NoError(t, s.Close())
	o, err := session.Open(t.Context(), store, s.ID(), worker(t, aycoder.Allow()))
	require.NoError(t, err)
	require.NotEmpty(t, o.Pending().Requests)
}

// A message that no journal can hold costs only itself.
func TestTooLargeMessageIsRefused(t *testing.T) {
	s, err := session.New(t.Context(), journal.Memory(), agent(t, script.Say("hello")))
	require.NoError(t, err)
	require.ErrorIs(t, s.Steer(t.Context(), strings.Repeat("x", journal.MaxRecord)), journal.ErrTooLarge)
	require.NoError(t, s.Err())
	res := run(t, s, "go")
	require.Equal(t, "hello", res.Text())
}
