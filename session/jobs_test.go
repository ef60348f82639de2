package session_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/background"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/session"
)

// starter makes a tool that starts a job, which ends after the seconds of its argument.
func starter(t *testing.T, g *background.Group) aycoder.Tool {
	t.Helper()
	tool, err := aycoder.NewTool("start", "Starts.", func(ctx context.Context, inv *aycoder.Invocation, in struct {
		Seconds int `json:"seconds"`
	}) (*aycoder.ToolResult, error) {
		j, err := g.Start(ctx, inv, background.Work{Kind: background.Command, Prefix: "bash", Name: fmt.Sprint(in.Seconds),
			Run: func(ctx context.Context, _ *background.Job) background.Outcome {
				ctx, cancel := context.WithTimeout(ctx, time.Duration(in.Seconds)*time.Second)
				defer cancel()
				<-ctx.Done()
				if context.Cause(ctx) == context.DeadlineExceeded {
					return background.Outcome{State: background.Done}
				}
				return background.Outcome{State: background.Stopped}
			}})
		if err != nil {
			return nil, err
		}
		j.Release(false)
		return aycoder.TextResult(j.View().ID), nil
	}, aycoder.WithEffect(aycoder.EffectWrite))
	require.NoError(t, err)
	return tool
}

func start(seconds int) script.Step { return script.Call("start", map[string]int{"seconds": seconds}) }

// working makes an agent with the tool of a new group.
func working(t *testing.T, model aycoder.ModelClient) (*background.Group, *aycoder.Loop) {
	t.Helper()
	g, err := background.New()
	require.NoError(t, err)
	l, err := aycoder.New(model, aycoder.WithTools(starter(t, g)), aycoder.WithApprover(verdict(aycoder.Allow())))
	require.NoError(t, err)
	return g, l
}

func userTexts(s *session.Session) (out []string) {
	for _, m := range s.View().Messages(s.Head()) {
		if m.Role == aycoder.RoleUser && m.Text() != "" {
			out = append(out, m.Text())
		}
	}
	return out
}

func endNote(id string) string {
	return "[" + id + " has ended in the background: done. The tool job_output returns what it has written since.]"
}

// A note starts a run of an idle session. The run of a note that comes while one works is that one, and a
// run that the host begins at the same moment takes it.
func TestNotesWakeASession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := script.Func(func(*aycoder.Request) script.Step {
			time.Sleep(10 * time.Second)
			return script.Say("slow")
		})
		m := script.New(start(60), script.Say("one"), script.Say("woken"), start(5), slow, script.Say("noted"), script.Say("end"))
		g, l := working(t, m)
		s, err := session.New(t.Context(), newMemory(), l)
		require.NoError(t, err)
		var mu sync.Mutex
		var woken []string
		require.NoError(t, s.SetBackground(t.Context(), g, func(ctx context.Context, run iter.Seq2[aycoder.Event, error]) {
			for ev, err := range run {
				require.NoError(t, err)
				if end, ok := ev.(*aycoder.RunFinished); ok {
					mu.Lock()
					woken = append(woken, end.Result.Text())
					mu.Unlock()
				}
			}
		}))
		run(t, s, "go")
		require.Empty(t, woken)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		require.Equal(t, []string{"woken"}, woken)
		require.Equal(t, []string{"go", endNote("bash-1")}, userTexts(s))
		run(t, s, "more")
		require.Equal(t, []string{"go", endNote("bash-1"), "more", endNote("bash-2")}, userTexts(s))
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, []string{"woken"}, woken)
		require.Empty(t, s.Queued())
		require.NoError(t, s.Close())
	})
}

// A suspended run waits for its answers, not for a note: that is sent when the run goes on.
func TestNoteDoesNotResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ask := false
		g, err := background.New()
		require.NoError(t, err)
		l, err := aycoder.New(script.New(start(60), start(1), script.Say("one")), aycoder.WithTools(starter(t, g)),
			aycoder.WithApprover(aycoder.ApproverFunc(func(context.Context, *aycoder.ToolUse, *aycoder.ToolSpec) aycoder.Verdict {
				if ask {
					return aycoder.Suspend()
				}
				ask = true
				return aycoder.Allow()
			})))
		require.NoError(t, err)
		s, err := session.New(t.Context(), newMemory(), l)
		require.NoError(t, err)
		require.NoError(t, s.SetBackground(t.Context(), g, func(context.Context, iter.Seq2[aycoder.Event, error]) { t.Error("woken") }))
		run(t, s, "go")
		require.NotNil(t, s.Pending())
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		require.Len(t, s.Queued(), 1)
		require.Equal(t, session.PhaseSuspended, s.Phase())
		q := s.Pending().Requests[0]
		for _, err := range s.Run(t.Context(), aycoder.Input{Decisions: []aycoder.Decision{
			{CallID: q.CallID, Digest: q.Digest, Verdict: aycoder.Deny("no")}}}) {
			require.NoError(t, err)
		}
		require.Equal(t, []string{"go", endNote("bash-1")}, userTexts(s))
		require.NoError(t, s.Close())
	})
}

// A reader of a run that was woken may be slow or do nothing: Close ends it, and nothing is started again.
func TestWakesEndWithTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, l := working(t, script.New(start(1), start(2), script.Say("one")).With(script.WithLoop(true)))
		s, err := session.New(t.Context(), newMemory(), l)
		require.NoError(t, err)
		woken := 0
		require.NoError(t, s.SetBackground(t.Context(), g, func(ctx context.Context, _ iter.Seq2[aycoder.Event, error]) {
			woken++
			<-ctx.Done()
		}))
		run(t, s, "go")
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, 1, woken)
		require.Len(t, s.Queued(), 2)
		require.NoError(t, s.Close())
		require.Equal(t, 1, woken)
	})
}

// The process may end after each record: then each job that was started has one note in the end, either that
// it has ended, or that it was lost.
func TestNotesSurviveCrashes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemory()
		g, l := working(t, script.New(start(5), start(500), script.Say("one"), start(3), script.Say("two")))
		s, err := session.New(t.Context(), store, l)
		require.NoError(t, err)
		require.NoError(t, s.SetBackground(t.Context(), g, nil))
		run(t, s, "go")
		time.Sleep(10 * time.Second)
		run(t, s, "next")
		time.Sleep(10 * time.Second)
		synctest.Wait()
		require.NoError(t, s.Close())
		all := slices.Clone(store.sessions[s.ID()].records)
		seen := map[string]bool{}
		for n := 1; n <= len(all); n++ {
			store.sessions[s.ID()].records = slices.Clone(all[:n])
			g, l := working(t, script.New(script.Say("end")).With(script.WithLoop(true)))
			s, err := session.Open(t.Context(), store, s.ID(), l)
			require.NoError(t, err, n)
			require.NoError(t, s.SetBackground(t.Context(), g, nil))
			run(t, s, "after")
			texts := strings.Join(userTexts(s), "\n")
			for _, id := range []string{"bash-1", "bash-2", "bash-3"} {
				began := false
				for _, m := range s.View().Messages(s.Head()) {
					for _, p := range m.Parts {
						o, ok := p.(*aycoder.ToolOutput)
						began = began || ok && o.Text() == id
					}
				}
				switch told := strings.Count(texts, id); {
				case began:
					require.Equal(t, 1, told, "%d records, %s:\n%s", n, id, texts)
					seen[id] = true
				default:
					require.LessOrEqual(t, told, 1)
				}
			}
			require.NoError(t, s.Close())
		}
		require.Len(t, seen, 3)
	})
}

// A branch has one group, and a group one conversation.
func TestSetBackgroundTwice(t *testing.T) {
	g, l := working(t, script.New())
	s, err := session.New(t.Context(), newMemory(), l)
	require.NoError(t, err)
	require.Error(t, s.SetBackground(t.Context(), nil, nil))
	require.NoError(t, s.SetBackground(t.Context(), g, nil))
	require.Error(t, s.SetBackground(t.Context(), g, nil))
	other, err := s.NewBranch(t.Context(), "other", s.Head(), l)
	require.NoError(t, err)
	require.Error(t, other.SetBackground(t.Context(), g, nil))
	require.NoError(t, s.Close())
	_, err = g.Start(t.Context(), aycoder.NewInvocation("c", "t", nil, nil), background.Work{})
	require.ErrorIs(t, err, background.ErrClosed, "the session has closed it")
}

// The jobs of a fork have other ids than those that its messages name, and it does not miss those of the original.
func TestJobsOfAFork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, l := working(t, script.New(start(1), start(500), script.Say("one")))
		s, err := session.New(t.Context(), newMemory(), l)
		require.NoError(t, err)
		require.NoError(t, s.SetBackground(t.Context(), g, nil))
		run(t, s, "go")
		f, err := s.Fork(t.Context(), s.Head())
		require.NoError(t, err)
		g2, l2 := working(t, script.New(start(3), script.Say("two")))
		require.NoError(t, f.SetAgent(l2))
		require.NoError(t, f.SetBackground(t.Context(), g2, nil))
		require.Empty(t, f.Changes())
		run(t, f, "more")
		require.Equal(t, []string{"go", "more"}, userTexts(f))
		require.Equal(t, "bash-3", g2.Jobs()[0].ID)
		require.NoError(t, f.Close())
		require.NoError(t, s.Close())
	})
}

// startsAndAsks makes a session whose agent has the tools start and ask, which is declared.
func startsAndAsks(t *testing.T, steps ...script.Step) (*background.Group, *session.Session) {
	t.Helper()
	g, err := background.New()
	require.NoError(t, err)
	ask, err := aycoder.DeclareTool[struct{}]("ask", "Ask.", aycoder.WithEffect(aycoder.EffectReadOnly))
	require.NoError(t, err)
	l, err := aycoder.New(script.New(steps...), aycoder.WithTools(starter(t, g), ask), aycoder.WithApprover(verdict(aycoder.Allow())))
	require.NoError(t, err)
	s, err := session.New(t.Context(), newMemory(), l)
	require.NoError(t, err)
	return g, s
}

// A note that comes while a run is suspended wakes the branch when the run is settled, also if the run went
// on meanwhile and came to no request.
func TestNoteWakesAfterASuspendedRun(t *testing.T) {
	question := script.Call("ask", map[string]any{})
	for name, resume := range map[string]func(*testing.T, *session.Session){
		"settled": func(*testing.T, *session.Session) {},
		"resumed": func(t *testing.T, s *session.Session) {
			run(t, s, "")
			require.Equal(t, session.PhaseSuspended, s.Phase())
		},
		"refused": func(t *testing.T, s *session.Session) {
			var refused error
			for _, err := range s.Run(t.Context(), aycoder.Input{Results: []aycoder.CallResult{{CallID: "other"}}}) {
				refused = err
			}
			require.Error(t, refused)
			require.Equal(t, session.PhaseSuspended, s.Phase())
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, s := startsAndAsks(t, start(60), question, script.Say("woken"))
				woken := 0
				require.NoError(t, s.SetBackground(t.Context(), g, func(_ context.Context, run iter.Seq2[aycoder.Event, error]) {
					woken++
					for _, err := range run {
						require.NoError(t, err)
					}
				}))
				run(t, s, "go")
				time.Sleep(2 * time.Minute)
				resume(t, s)
				synctest.Wait()
				require.Zero(t, woken)
				require.Len(t, s.Queued(), 1)
				require.NoError(t, s.Cancel(t.Context()))
				synctest.Wait()
				require.Equal(t, 1, woken)
				require.Empty(t, s.Queued())
				require.Equal(t, []string{"go", endNote("bash-1")}, userTexts(s))
				require.NoError(t, s.Close())
			})
		})
	}
}

// failing is an agent whose runs fail before they have begun.
type failing struct{ runs *int }

func (f failing) Run(context.Context, aycoder.Input, ...aycoder.RunOption) iter.Seq2[aycoder.Event, error] {
	return func(yield func(aycoder.Event, error) bool) {
		*f.runs++
		yield(nil, errors.New("no"))
	}
}

// A run that was woken and fails does not wake the branch again for the same note, but the next note does.
func TestWokenRunFailsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, s := startsAndAsks(t, start(60), start(600), script.Call("ask", map[string]any{}))
		require.NoError(t, s.SetBackground(t.Context(), g, func(_ context.Context, run iter.Seq2[aycoder.Event, error]) {
			for range run {
			}
		}))
		run(t, s, "go")
		runs := 0
		require.NoError(t, s.SetAgent(failing{&runs}))
		time.Sleep(2 * time.Minute)
		require.NoError(t, s.Cancel(t.Context()))
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		require.Equal(t, 1, runs)
		require.Len(t, s.Queued(), 1)
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Equal(t, 2, runs)
		require.Len(t, s.Queued(), 2)
		require.NoError(t, s.Close())
	})
}

// A run of the host that begins before the one that was woken, and fails, leaves the note to another one.
func TestNoteWakesAfterAnotherRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, s := startsAndAsks(t, start(60), script.Say("one"), script.Say("woken"))
		woken := 0
		slow := make(chan struct{})
		require.NoError(t, s.SetBackground(t.Context(), g, func(_ context.Context, run iter.Seq2[aycoder.Event, error]) {
			if woken++; woken == 1 {
				<-slow
			}
			for range run {
			}
		}))
		run(t, s, "go")
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		require.Equal(t, 1, woken)
		next, stop := iter.Pull2(s.Run(t.Context(), aycoder.Input{Decisions: []aycoder.Decision{{CallID: "none"}}}))
		_, err, _ := next()
		require.Error(t, err)
		close(slow)
		synctest.Wait()
		stop()
		synctest.Wait()
		require.Equal(t, 2, woken)
		require.Empty(t, s.Queued())
		require.NoError(t, s.Close())
	})
}

// The tokens and costs of an agent that ended while no run worked count once, in the next run, also if another process has that. They are
// not those of a fork.
func TestSpentInTheBackgroundIsKept(t *testing.T) {
	for _, end := range []string{"the agent", "the session"} {
		t.Run(end, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, err := background.New()
				require.NoError(t, err)
				spent := aycoder.Spent{Agent: "helper", Provider: "fake", Model: "small", Answers: 1, Usage: aycoder.Usage{Input: 7, Output: 3}, Cost: 2}
				begin, err := aycoder.NewTool("begin", "Begins.", func(ctx context.Context, inv *aycoder.Invocation, _ struct{}) (*aycoder.ToolResult, error) {
					j, err := g.Start(ctx, inv, background.Work{Kind: background.Agent, Prefix: "agent", Name: "helper",
						Run: func(ctx context.Context, _ *background.Job) background.Outcome {
							ctx, cancel := context.WithTimeout(ctx, time.Minute)
							defer cancel()
							<-ctx.Done()
							return background.Outcome{State: background.Done, Spent: []aycoder.Spent{spent}}
						}})
					if err != nil {
						return nil, err
					}
					j.Release(false)
					return aycoder.TextResult(j.View().ID), nil
				}, aycoder.WithEffect(aycoder.EffectWrite))
				require.NoError(t, err)
				l, err := aycoder.New(script.New(script.Call("begin", nil), script.Say("one")), aycoder.WithTools(begin), aycoder.WithApprover(verdict(aycoder.Allow())))
				require.NoError(t, err)
				store := newMemory()
				s, err := session.New(t.Context(), store, l)
				require.NoError(t, err)
				require.NoError(t, s.SetBackground(t.Context(), g, nil))
				run(t, s, "go")
				cost := func(s *session.Session) float64 {
					g, l := working(t, script.New(script.Say("next")))
					require.NoError(t, s.SetAgent(l))
					require.NoError(t, s.SetBackground(t.Context(), g, nil))
					run(t, s, "next")
					_, cost := s.View().Usage()
					require.NoError(t, s.Close())
					return cost
				}
				if end == "the agent" { // and then the process, at once
					time.Sleep(2 * time.Minute)
					synctest.Wait()
					f, err := s.Fork(t.Context(), s.Head())
					require.NoError(t, err)
					require.Zero(t, cost(f))
				} else {
					require.NoError(t, s.Close())
				}
				for range 2 {
					s, err := session.Open(t.Context(), store, s.ID(), l)
					require.NoError(t, err)
					require.InDelta(t, 2.0, cost(s), 0)
				}
			})
		})
	}
}
