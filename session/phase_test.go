package session_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/session"
)

// A phase brings a branch into one phase and tells when it is there. leave ends what it began.
type phase struct {
	phase session.Phase
	enter func(t *testing.T) (s *session.Session, leave func())
}

func slow(t testing.TB, d time.Duration) aycoder.Tool {
	tool, err := aycoder.NewTool("slow", "waits", func(ctx context.Context, _ *aycoder.Invocation, _ struct{}) (*aycoder.ToolResult, error) {
		select {
		case <-time.After(d):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		return aycoder.TextResult("waited"), nil
	}, aycoder.WithEffect(aycoder.EffectWrite))
	require.NoError(t, err)
	return tool
}

// begin starts a run and returns when it has worked for a second.
func begin(t *testing.T, s *session.Session, prompt string) (leave func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ev := range s.Run(ctx, aycoder.Input{Prompt: prompt}) {
			if q, ok := ev.(*aycoder.ApprovalRequested); ok {
				handle := q.Detach()
				defer handle.Deny("")
			}
		}
	}()
	time.Sleep(time.Second)
	synctest.Wait()
	return func() { cancel(); <-done }
}

func verdict(v aycoder.Verdict) aycoder.Approver {
	return aycoder.ApproverFunc(func(context.Context, *aycoder.ToolUse, *aycoder.ToolSpec) aycoder.Verdict { return v })
}

func newWith(t testing.TB, model aycoder.ModelClient, v aycoder.Verdict) *session.Session {
	l, err := aycoder.New(model, aycoder.WithApprover(verdict(v)), aycoder.WithTools(slow(t, time.Minute)))
	require.NoError(t, err)
	s, err := session.New(t.Context(), newMemory(), l)
	require.NoError(t, err)
	run(t, s, "first") // so that Undo has something to take back
	return s
}

var callSlow = script.Call("slow", map[string]any{})

func phases() []phase {
	return []phase{
		{session.PhaseIdle, func(t *testing.T) (*session.Session, func()) {
			return newWith(t, script.New(script.Say("hi"), script.Say("ho")), aycoder.Allow()), func() {}
		}},
		{session.PhaseModel, func(t *testing.T) (*session.Session, func()) {
			m := script.New(script.Say("hi"), script.Say(strings.Repeat("word ", 100)), script.Say("ho"))
			l, err := aycoder.New(&delayed{m, 1, time.Minute}, aycoder.WithTools(slow(t, time.Minute)))
			require.NoError(t, err)
			s, err := session.New(t.Context(), newMemory(), l)
			require.NoError(t, err)
			run(t, s, "first")
			return s, begin(t, s, "go")
		}},
		{session.PhaseTools, func(t *testing.T) (*session.Session, func()) {
			s := newWith(t, script.New(script.Say("hi"), callSlow, script.Say("ho")), aycoder.Allow())
			return s, begin(t, s, "go")
		}},
		{session.PhaseQuestion, func(t *testing.T) (*session.Session, func()) {
			s := newWith(t, script.New(script.Say("hi"), callSlow, script.Say("ho")), aycoder.Ask())
			return s, begin(t, s, "go")
		}},
		{session.PhaseCompacting, func(t *testing.T) (*session.Session, func()) {
			s := newWith(t, script.New(script.Say("hi"), script.Say("ho")), aycoder.Allow())
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() {
				defer close(done)
				_ = s.Compact(ctx, func(ctx context.Context, m []*aycoder.Message) ([]*aycoder.Message, *aycoder.Compacted, error) {
					<-ctx.Done()
					return nil, nil, context.Cause(ctx)
				})
			}()
			synctest.Wait()
			return s, func() { cancel(); <-done }
		}},
		{session.PhaseSuspended, func(t *testing.T) (*session.Session, func()) {
			s := newWith(t, script.New(script.Say("hi"), callSlow, script.Say("ho")), aycoder.Suspend())
			run(t, s, "go")
			return s, func() {}
		}},
		{session.PhaseClosed, func(t *testing.T) (*session.Session, func()) {
			s := newWith(t, script.New(script.Say("hi")), aycoder.Allow())
			require.NoError(t, s.Close())
			return s, func() {}
		}},
		{session.PhaseClosed, func(t *testing.T) (*session.Session, func()) { // Close waits for what does not end at once
			s := newWith(t, script.New(script.Say("hi")), aycoder.Allow())
			free, ends := make(chan struct{}), sync.WaitGroup{}
			ends.Go(func() {
				_ = s.Compact(t.Context(), func(context.Context, []*aycoder.Message) ([]*aycoder.Message, *aycoder.Compacted, error) {
					<-free
					return nil, nil, errors.New("too late")
				})
			})
			synctest.Wait()
			ends.Go(func() { assert.NoError(t, s.Close()) })
			synctest.Wait()
			return s, func() { close(free); ends.Wait() }
		}},
	}
}

// delayed is a model whose requests after the first n wait.
type delayed struct {
	*script.Model
	n int
	d time.Duration
}

func (m *delayed) Stream(ctx context.Context, req *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
	events := m.Model.Stream(ctx, req)
	return func(yield func(aycoder.ModelEvent, error) bool) {
		if m.n--; m.n < 0 {
			select {
			case <-time.After(m.d):
			case <-ctx.Done():
				yield(nil, context.Cause(ctx))
				return
			}
		}
		events(yield)
	}
}

// Every command does in every phase what the table in the comment of the package says.
func TestCommandsInPhases(t *testing.T) {
	noop := func(_ context.Context, m []*aycoder.Message) ([]*aycoder.Message, *aycoder.Compacted, error) {
		return m[:2], nil, nil
	}
	commands := []struct {
		name string
		do   func(ctx context.Context, s *session.Session) error
		// want is what the table says in the order of the phases: y carried out, n refused.
		want string
	}{
		{"run", func(ctx context.Context, s *session.Session) error {
			for _, err := range s.Run(ctx, aycoder.Input{Prompt: "more"}) {
				if err != nil {
					return err
				}
			}
			return nil
		}, "ynnnnyn"},
		{"steer", func(ctx context.Context, s *session.Session) error { return s.Steer(ctx, "left") }, "yyyyyyn"},
		{"follow up", func(ctx context.Context, s *session.Session) error { return s.FollowUp(ctx, "then") }, "yyyyyyn"},
		{"drain", func(ctx context.Context, s *session.Session) error { _, err := s.Drain(ctx); return err }, "yyyyyyn"},
		{"cancel", func(ctx context.Context, s *session.Session) error { return s.Cancel(ctx) }, "nyyyyyn"},
		{"checkout", func(ctx context.Context, s *session.Session) error {
			_, err := s.Checkout(ctx, 1)
			return err
		}, "ynnnnyn"},
		{"checkout stopping", func(ctx context.Context, s *session.Session) error {
			_, err := s.Checkout(ctx, 1, session.StoppingRun())
			return err
		}, "yyyywyn"},
		{"checkout waiting", func(ctx context.Context, s *session.Session) error {
			_, err := s.Checkout(ctx, 1, session.AwaitingRun())
			return err
		}, "yyywwyn"},
		{"undo", func(ctx context.Context, s *session.Session) error { _, err := s.Undo(ctx); return err }, "ynnnnyn"},
		{"redo", func(ctx context.Context, s *session.Session) error {
			_, err := s.Redo(ctx)
			if e, ok := errors.AsType[*session.CommandError](err); ok && e.Reason == "nothing was undone" {
				return nil // carried out, without anything to redo
			}
			return err
		}, "ynnnnyn"},
		{"compact", func(ctx context.Context, s *session.Session) error { return s.Compact(ctx, noop) }, "ynnnnyn"},
		{"set agent", func(ctx context.Context, s *session.Session) error { return s.SetAgent(parrot{new(int)}) }, "yyyyyyn"},
		{"label", func(ctx context.Context, s *session.Session) error { return s.SetLabel(ctx, 1, "here") }, "yyyyyyn"},
		{"branch", func(ctx context.Context, s *session.Session) error {
			_, err := s.NewBranch(ctx, "b", 1, parrot{new(int)})
			return err
		}, "yyyyyyn"},
		{"trim", func(ctx context.Context, s *session.Session) error { return s.Trim(ctx) }, "ynnnnyn"},
	}
	for _, c := range commands {
		for i, ph := range phases() {
			t.Run(fmt.Sprintf("%s/%d %s", c.name, i, ph.phase), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s, leave := ph.enter(t)
					require.Equal(t, ph.phase, s.Phase())
					ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
					defer cancel()
					err := c.do(ctx, s)
					switch c.want[min(i, len(c.want)-1)] { // closing is closed
					case 'y':
						require.NoError(t, err)
					case 'n':
						e, ok := errors.AsType[*session.CommandError](err)
						require.True(t, ok, "%v", err)
						require.Equal(t, ph.phase, e.Phase)
						require.NotEmpty(t, e.Command)
					case 'w': // it waits for what does not end
						require.ErrorIs(t, err, context.DeadlineExceeded)
					}
					leave()
					require.NoError(t, s.Close())
					require.NoError(t, aycoder.CheckHistory(s.View().Messages(s.Head())))
				})
			})
		}
	}
}

// Thousands of readers look at the tree while runs extend it.
func TestReadersBesideRuns(t *testing.T) {
	s, err := session.New(t.Context(), newMemory(), parrot{new(int)})
	require.NoError(t, err)
	var readers sync.WaitGroup
	for i := range 10000 {
		if i%500 == 0 {
			run(t, s, fmt.Sprint(i))
		}
		readers.Go(func() {
			for range 3 {
				v := s.View()
				head := v.Head("")
				if path := v.Path(head); len(path) != int(head)+1 || len(v.Messages(head)) != len(path)-1 {
					t.Errorf("head %d: %d nodes, %d messages", head, len(path), len(v.Messages(head)))
				}
				for id := range session.ID(v.Len()) {
					for _, c := range v.Children(id) {
						if c.Parent != id {
							t.Errorf("child %d of %d has the parent %d", c.ID, id, c.Parent)
						}
					}
				}
			}
		})
	}
	readers.Wait()
}

// A journal that fails stops the run with a typed error, or lets it go on in memory.
func TestJournalFails(t *testing.T) {
	full := &fs.PathError{Op: "write", Path: "journal.jsonl", Err: errors.New("no space left on device")}
	for limit := 1; limit < 12; limit++ {
		for _, memory := range []bool{false, true} {
			t.Run(fmt.Sprint(limit, memory), func(t *testing.T) {
				store := newMemory()
				var opts []session.Option
				if memory {
					opts = append(opts, session.WithoutStopping())
				}
				s, err := session.New(t.Context(), store, agent(t, script.Reply(call("look", "a"), call("write", "b")), script.Say("done")), opts...)
				require.NoError(t, err)
				j := store.sessions[s.ID()]
				j.limit, j.fail = limit, &journal.OpError{Op: "append to", Session: s.ID(), Err: full}
				var failed error
				var res aycoder.Result
				for _, err := range s.Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.Into(&res)) {
					failed = err
				}
				require.NoError(t, aycoder.CheckHistory(res.Messages))
				require.ErrorIs(t, s.Err(), full)
				if memory {
					require.NoError(t, failed)
					require.Equal(t, "done", res.Text())
					require.Equal(t, asJSON(t, res.Messages), asJSON(t, s.View().Messages(s.Head())))
				} else {
					_, ok := errors.AsType[*journal.OpError](failed)
					require.True(t, ok, "%v", failed)
					_, err = s.Undo(t.Context())
					require.ErrorIs(t, err, full)
				}
				require.NoError(t, s.Close())
				_, damage, err := session.Read(t.Context(), store, s.ID())
				require.NoError(t, err)
				require.Empty(t, damage)
			})
		}
	}
}
