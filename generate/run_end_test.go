package generate_test

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/generate"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/policy"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/session"
)

// Each failure has its own error, and a history with which the host can go on.
func TestRunAsFails(t *testing.T) {
	see, wrong := script.Call("look", `{"path":"a"}`), script.Call("person", noName)
	turns := func(n int) aycoder.Option { return aycoder.WithLimits(aycoder.Limits{Turns: n}) }
	denied := aycoder.WithApprover(aycoder.ApproverFunc(func(_ context.Context, c *aycoder.ToolUse, _ *aycoder.ToolSpec) aycoder.Verdict {
		if c.Name == "person" {
			return aycoder.Deny("no answers today")
		}
		return aycoder.Allow()
	}))
	gaveUp := func(problem string, attempts int) func(*testing.T, error) {
		return func(t *testing.T, err error) {
			e, ok := errors.AsType[*generate.Error](err)
			require.True(t, ok, "%v", err)
			require.Contains(t, e.Problems[0], problem)
			require.Equal(t, attempts, e.Attempts)
			require.Equal(t, "person", e.Name)
			require.NotNil(t, e.Result)
		}
	}
	tests := []struct {
		name  string
		steps []script.Step
		opt   aycoder.Option
		check func(*testing.T, error)
		end   aycoder.EndReason
		asked int
	}{
		{"wrong calls", []script.Step{see, wrong, wrong}, turns(9), gaveUp("/name: required", 3), aycoder.EndFailed, 4},
		{"words", []script.Step{script.Say("Ada.")}, turns(9), gaveUp("there is none", 3), aycoder.EndDone, 3},
		{"empty answers", []script.Step{{}}, turns(9), gaveUp("there is none", 3), aycoder.EndDone, 3},
		{"words and wrong calls", []script.Step{script.Say("Ada."), wrong}, turns(9), gaveUp("/name: required", 3), aycoder.EndFailed, 3},
		{"cut calls", []script.Step{script.Cut("person", `{"na`)}, turns(9), gaveUp("", 3), aycoder.EndFailed, 3},
		{"cut texts", []script.Step{script.Say(ada[:5]).WithStop(aycoder.StopMaxTokens).WithUsage(aycoder.Usage{Output: 7})}, turns(9),
			func(t *testing.T, err error) {
				gaveUp("cut off: limit of 7 output tokens", 3)(t, err)
				require.True(t, is[*aycoder.LimitError](err))
			}, aycoder.EndDone, 3},
		{"denied", []script.Step{script.Call("person", ada)}, denied, gaveUp("no answers today", 3), aycoder.EndFailed, 3},
		{"turns at work", []script.Step{see}, turns(4), func(t *testing.T, err error) { require.True(t, is[*aycoder.LimitError](err)) }, aycoder.EndTurns, 4},
		{"turns at the end", []script.Step{see, script.Say("Ada.")}, turns(2), gaveUp("there is none", 1), aycoder.EndDone, 2},
		{"unknown tools", []script.Step{script.Call("nope", nil)}, turns(4), func(t *testing.T, err error) { require.True(t, is[*aycoder.LimitError](err)) }, aycoder.EndTurns, 4},
		{"refusal", []script.Step{see, script.Reply(script.Say("No."), script.Call("person", ada)).WithStop(aycoder.StopRefusal)}, turns(9),
			func(t *testing.T, err error) { require.True(t, is[*aycoder.RefusalError](err)) }, aycoder.EndRefused, 2},
		{"failure of the model", []script.Step{see, script.Fail(&aycoder.AuthError{ModelError: &aycoder.ModelError{}})}, turns(9),
			func(t *testing.T, err error) { require.True(t, is[*aycoder.AuthError](err)) }, aycoder.EndFailed, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			last := tt.steps[len(tt.steps)-1]
			m := script.New(append(slices.Clone(tt.steps), slices.Repeat([]script.Step{last}, 20)...)...)
			e := runs(t, newLoop(t, m, tt.opt), who)
			tt.check(t, e.err)
			require.Zero(t, e.who)
			require.Equal(t, tt.end, e.res.End)
			require.Len(t, m.Requests(), tt.asked)
			for _, ev := range e.events {
				_, done := ev.(*aycoder.RunFinished)
				require.False(t, done)
			}
			// The host goes on from the history.
			next := runs(t, newLoop(t, script.New(script.Call("person", ada))), aycoder.Input{Messages: e.res.Messages, Prompt: "Again."})
			require.NoError(t, next.err)
			require.Equal(t, "Ada", next.who.Name)
		})
	}
}

// An old answer in the conversation does not count for a new run.
func TestRunAsTakesNoOldAnswer(t *testing.T) {
	for _, m := range []*script.Model{script.New(script.Call("person", ada), script.Step{}), script.New(script.Say(ada), script.Step{})} {
		first := runs(t, newLoop(t, m), who)
		require.NoError(t, first.err)
		e := runs(t, newLoop(t, m), aycoder.Input{Messages: first.res.Messages, Prompt: "Now?"}, generate.WithRepairs(0))
		require.True(t, is[*generate.Error](e.err), "%v", e.err)
	}
}

func TestRunAsRefusesOptions(t *testing.T) {
	l := newLoop(t, script.New(script.Say(ada)))
	var p person
	check := func(seq iter.Seq2[aycoder.Event, error], want string) {
		t.Helper()
		n := 0
		for ev, err := range seq {
			require.Nil(t, ev)
			require.True(t, is[*aycoder.ConfigError](err), "%v", err)
			require.ErrorContains(t, err, want)
			n++
		}
		require.Equal(t, 1, n)
	}
	ctx := t.Context()
	check(generate.RunAs(ctx, nil, who, &p), "agent: is nil")
	check(generate.RunAs[person](ctx, l, who, nil), "into: is nil")
	check(generate.RunAs(ctx, l, who, &p, generate.WithRepairs(-1), generate.WithName("a b")), "WithRepairs: is negative\nWithName")
	check(generate.RunAs(ctx, l, who, &p, generate.IntoResponse(&aycoder.Response{})), "IntoResponse: is for Value")
	check(generate.RunAs(ctx, l, who, &p, generate.WithName("look")), "name that is used")
	check(generate.RunAs(ctx, l, who, &p, generate.WithRun(nil)), "RunOption: is nil")
	check(generate.RunAs(ctx, l, aycoder.Input{}, &p), "Prompt is empty")
	check(generate.RunAs(ctx, l, who, new(func())), "func() has no JSON form")
	check(generate.RunAs(ctx, l, who, new(tree)), "recursive type")
	_, err := generate.Value[person](ctx, script.New(), ask("?"), generate.WithRun(aycoder.Into(nil)))
	require.ErrorContains(t, err, "WithRun: is for RunAs")

	seq := generate.RunAs(ctx, l, who, &p)
	for range seq {
	}
	for _, err := range seq {
		require.ErrorIs(t, err, aycoder.ErrConsumed)
	}
}

// Leaving the loop, a cancelled context or a panic at any event leaves a valid history and no value, and
// no goroutine. With the history, the answer can be had in another run.
func TestRunAsLeft(t *testing.T) {
	steps := []script.Step{script.Reply(script.Say("I look."), script.Call("look", `{"path":"a"}`)), script.Call("person", noName),
		script.Say("Ada."), script.Reply(script.Call("look", `{"path":"b"}`), script.Call("person", ada))}
	all := len(runs(t, newLoop(t, script.New(steps...)), who).events)
	require.Greater(t, all, 10)
	for at := range all {
		for _, way := range []string{"break", "cancel", "panic"} {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var res aycoder.Result
				var p person
				var failed error
				finished := false
				func() {
					defer func() { _ = recover() }()
					n := 0
					for ev, err := range generate.RunAs(ctx, newLoop(t, script.New(steps...)), who, &p, generate.WithRun(aycoder.Into(&res))) {
						_, end := ev.(*aycoder.RunFinished)
						finished = finished || end
						if failed = err; n == at && way == "break" {
							break
						} else if n == at && way == "cancel" {
							cancel()
						} else if n == at && way == "panic" {
							panic(way)
						}
						n++
					}
				}()
				require.NoError(t, aycoder.CheckHistory(res.Messages))
				require.NotEmpty(t, res.End)
				require.Equal(t, finished, p.Name == "Ada", "%s at %d of %d: %+v %v", way, at, all, p, failed)
				if way == "cancel" && !finished {
					require.ErrorIs(t, failed, context.Canceled)
				}
				e := runs(t, newLoop(t, script.New(script.Call("person", ada))), aycoder.Input{Messages: res.Messages, Prompt: "Go on."})
				require.NoError(t, e.err)
			})
		}
	}
}

// A suspended run is resumed by another program, with the same type. Answers that were wrong before still count.
func TestRunAsResumes(t *testing.T) {
	ran := 0
	write, err := aycoder.NewTool("write", "Writes.", func(context.Context, *aycoder.Invocation, pathArgs) (*aycoder.ToolResult, error) {
		ran++
		return aycoder.TextResult("written"), nil
	})
	require.NoError(t, err)
	approver := aycoder.WithApprover(aycoder.ApproverFunc(func(_ context.Context, _ *aycoder.ToolUse, s *aycoder.ToolSpec) aycoder.Verdict {
		if s.Effect == aycoder.EffectReadOnly {
			return aycoder.Allow()
		}
		return aycoder.Suspend()
	}))
	writes, wrong, answer := script.Call("write", `{"path":"a"}`), script.Call("person", noName), script.Call("person", ada)
	tests := []struct {
		name          string
		before, after []script.Step
		repairs       int
		failed        bool
	}{
		{"answered later", []script.Step{writes}, []script.Step{answer}, 2, false},
		{"answered beside the call", []script.Step{script.Reply(answer, writes)}, nil, 2, false},
		{"answered behind the call", []script.Step{script.Reply(writes, answer)}, nil, 2, false},
		{"repaired before and after", []script.Step{wrong, script.Reply(script.Say("x")), writes}, []script.Step{script.Say("x"), answer}, 3, false},
		{"no repair left", []script.Step{wrong, script.Say("x"), writes}, []script.Step{script.Say("x"), answer}, 2, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ran = 0
			first := runs(t, newLoop(t, script.New(tt.before...), approver, aycoder.WithTools(write)), who, generate.WithRepairs(tt.repairs))
			require.NoError(t, first.err)
			require.Zero(t, first.who)
			require.Equal(t, aycoder.EndSuspended, first.res.End)
			data, err := json.Marshal(first.res.Pending)
			require.NoError(t, err)
			var pending *aycoder.Pending
			require.NoError(t, json.Unmarshal(data, &pending))
			q := pending.Requests[0]
			in := aycoder.Input{Pending: pending, Decisions: []aycoder.Decision{{CallID: q.CallID, Digest: q.Digest, Verdict: aycoder.Allow()}}}
			e := runs(t, newLoop(t, script.New(tt.after...), approver, aycoder.WithTools(write)), in, generate.WithRepairs(tt.repairs))
			require.Equal(t, 1, ran)
			require.Equal(t, tt.failed, is[*generate.Error](e.err), "%v", e.err)
			require.Equal(t, !tt.failed, e.who.Name == "Ada")
		})
	}
}

// A message of the user continues a run that has its answer. The later answer counts.
func TestRunAsSteered(t *testing.T) {
	var ctl aycoder.Control
	m := script.New(script.Call("person", `{"name":"Bob","age":1}`), script.Say("Which Ada?"), script.Call("person", ada))
	var p person
	var res aycoder.Result
	said := false
	for ev, err := range generate.RunAs(t.Context(), newLoop(t, m), who, &p, generate.WithRun(aycoder.Into(&res), aycoder.WithControl(&ctl))) {
		require.NoError(t, err)
		if _, ok := ev.(*aycoder.TurnFinished); ok && !said {
			said = true
			ctl.FollowUp("No: Ada.")
		}
	}
	require.Equal(t, "Ada", p.Name)
	require.Equal(t, 3, res.Turns)
	require.Empty(t, ctl.Queued())
}

// The tool and the requests of the run stay when the host changes the setup, and its own extension too.
func TestRunAsBesideSetups(t *testing.T) {
	n := 0
	other, err := aycoder.NewTool("other", "Is there later.", func(context.Context, *aycoder.Invocation, pathArgs) (*aycoder.ToolResult, error) {
		return aycoder.TextResult("ok"), nil
	}, aycoder.WithEffect(aycoder.EffectReadOnly))
	require.NoError(t, err)
	setups := aycoder.WithSetup(func(_ context.Context, now aycoder.Setup) (aycoder.Setup, error) {
		if n++; n == 2 {
			now.Tools = append(now.Tools, other)
		}
		return now, nil
	})
	m := script.New(script.Call("look", `{"path":"a"}`), script.Call("other", `{"path":"a"}`), script.Call("person", noName), script.Say("x"), script.Call("person", ada))
	asked := 0
	host := func(c *aycoder.RunConfig) error {
		c.Extension = &aycoder.RunExtension{Continue: func(*aycoder.Result) *aycoder.Message { asked++; return nil }}
		return nil
	}
	e := runs(t, newLoop(t, m, setups), who, generate.WithRun(host))
	require.NoError(t, e.err)
	require.Equal(t, 2, asked)
	changes := 0
	for _, ev := range e.events {
		if c, ok := ev.(*aycoder.SetupChanged); ok {
			changes++
			require.Equal(t, []string{"other"}, c.Added)
			require.Empty(t, c.Removed)
		}
	}
	require.Equal(t, 1, changes)
	names := func(r *aycoder.Request) (names []string) {
		for _, s := range r.Tools {
			names = append(names, s.Name)
		}
		return names
	}
	require.Equal(t, []string{"look", "person"}, names(m.Requests()[0]))
	require.Equal(t, []string{"look", "other", "person"}, names(m.Requests()[4]))
	// A plain run of the same loop does not have the tool.
	plain := script.New(script.Say("ok"))
	l := newLoop(t, plain)
	for range l.Run(t.Context(), aycoder.Input{Messages: e.res.Messages, Prompt: "Thanks."}) {
	}
	require.Equal(t, []string{"look"}, names(plain.Requests()[0]))
}

// deaf is an agent of a host that knows no options of runs but Into.
type deaf struct{ aycoder.Agent }

func (d deaf) Run(ctx context.Context, in aycoder.Input, opts ...aycoder.RunOption) iter.Seq2[aycoder.Event, error] {
	var c aycoder.RunConfig
	for _, o := range opts {
		_ = o(&c)
	}
	return d.Agent.Run(ctx, in, aycoder.Into(c.Into))
}

func TestRunAsDeafAgent(t *testing.T) {
	e := runs(t, deaf{newLoop(t, script.New(script.Say(ada)))}, who)
	require.NoError(t, e.err)
	require.Equal(t, "Ada", e.who.Name)
	e = runs(t, deaf{newLoop(t, script.New(script.Say("Ada, 36: "+ada)))}, who)
	require.True(t, is[*generate.Error](e.err), "%v", e.err)
}

// In a session, the answer is a part of the conversation, the next run needs no tool for it, and the
// session does not miss that tool.
func TestRunAsInSession(t *testing.T) {
	store := journal.Memory()
	m := script.New(script.Call("look", `{"path":"a"}`), script.Say("Ada."), script.Call("person", ada), script.Say("Bye."), script.Say(ada))
	s, err := session.New(t.Context(), store, newLoop(t, m))
	require.NoError(t, err)
	e := runs(t, s, who)
	require.NoError(t, e.err)
	require.Equal(t, "Ada", e.who.Name)
	require.Equal(t, 3, e.res.Turns)
	for _, err := range s.Run(t.Context(), aycoder.Input{Prompt: "Bye."}) {
		require.NoError(t, err)
	}
	e = runs(t, s, who)
	require.NoError(t, e.err)
	require.Empty(t, s.Changes())
	require.NoError(t, s.Close())
	s, err = session.Open(t.Context(), store, s.ID(), newLoop(t, m))
	require.NoError(t, err)
	require.Empty(t, s.Changes())
	require.Nil(t, s.Pending())
	require.NoError(t, s.Close())
}

// A run that takes longer than its host allows is stopped like any other.
func TestRunAsTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow, err := aycoder.NewTool("slow", "Takes an hour.", func(ctx context.Context, _ *aycoder.Invocation, _ struct{}) (*aycoder.ToolResult, error) {
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-time.After(time.Hour):
				return aycoder.TextResult("done"), nil
			}
		}, aycoder.WithEffect(aycoder.EffectReadOnly))
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var p person
		var failed error
		for _, err := range generate.RunAs(ctx, newLoop(t, script.New(script.Reply(script.Call("slow", nil), script.Call("person", ada))), aycoder.WithTools(slow)), who, &p) {
			failed = err
		}
		require.ErrorIs(t, failed, context.DeadlineExceeded)
		require.Zero(t, p)
	})
}

// A session stores a suspended run, and another process answers its question and gets the value.
func TestRunAsSuspendedInSession(t *testing.T) {
	store := journal.Memory()
	ran := 0
	write, err := aycoder.NewTool("write", "Writes.", func(context.Context, *aycoder.Invocation, pathArgs) (*aycoder.ToolResult, error) {
		ran++
		return aycoder.TextResult("written"), nil
	})
	require.NoError(t, err)
	p, err := policy.New()
	require.NoError(t, err)
	agent := func(steps ...script.Step) *aycoder.Loop {
		return newLoop(t, script.New(steps...), aycoder.WithTools(write), aycoder.WithApprover(aycoder.SuspendAsks(p)))
	}
	s, err := session.New(t.Context(), store, agent(script.Reply(script.Call("write", `{"path":"a"}`), script.Call("person", ada))))
	require.NoError(t, err)
	e := runs(t, s, who)
	require.NoError(t, e.err)
	require.Zero(t, e.who)
	require.NoError(t, s.Close())

	s, err = session.Open(t.Context(), store, s.ID(), agent())
	require.NoError(t, err)
	require.Empty(t, s.Changes())
	require.Len(t, s.Pending().Requests, 1, "the policy asks about the write alone")
	q := s.Pending().Requests[0]
	e = runs(t, s, aycoder.Input{Decisions: []aycoder.Decision{{CallID: q.CallID, Digest: q.Digest, Verdict: aycoder.Allow()}}})
	require.NoError(t, e.err)
	require.Equal(t, "Ada", e.who.Name)
	require.Equal(t, 1, ran)
	require.NoError(t, s.Close())
}

type stringer struct{ Text string }

func (s *stringer) UnmarshalText(text []byte) error {
	if string(text) == "panic" {
		panic("no")
	}
	s.Text = strings.ToUpper(string(text))
	return nil
}

type embedding struct {
	person
	pathArgs
	Any any `json:"any,omitempty"`
}

// runsAs checks that a document, as a call and as a text in both ways, is a value.
func runsAs[T any](t *testing.T, want T, doc string) {
	t.Helper()
	for _, client := range []aycoder.ModelClient{
		script.New(script.Call("it", doc)), script.New(script.Say(doc)), nativeTools{nativeOf(script.New(script.Say(doc)))},
	} {
		var got T
		for _, err := range generate.RunAs(t.Context(), newLoop(t, client), who, &got, generate.WithName("it")) {
			require.NoError(t, err)
		}
		require.Equal(t, want, got)
	}
}

func TestRunAsTypes(t *testing.T) {
	runsAs(t, 7, `{"value":7}`)
	runsAs(t, "x", `{"value":"x"}`)
	runsAs(t, []int{1, 2}, `{"value":[1,2]}`)
	runsAs(t, map[string]bool{"a": true}, `{"a":true}`)
	runsAs(t, &person{Name: "Ada", Age: 36}, ada)
	runsAs(t, any(map[string]any{"a": 1.0}), `{"value":{"a":1}}`)
	runsAs(t, json.RawMessage(`{"a": 1}`), `{"value":{"a": 1}}`)
	runsAs(t, stringer{"OAK"}, `{"value":"oak"}`)
	runsAs(t, embedding{person: person{Name: "Ada", Age: 36}, pathArgs: pathArgs{Path: "p"}, Any: "z"}, `{"name":"Ada","age":36,"path":"p","any":"z"}`)

	var s stringer
	m := script.New(script.Call("stringer", `{"value":"panic"}`), script.Say(`{"value":"panic"}`), script.Call("stringer", `{"value":"oak"}`))
	for _, err := range generate.RunAs(t.Context(), newLoop(t, m), who, &s) {
		require.NoError(t, err)
	}
	require.Equal(t, "OAK", s.Text)
	require.Len(t, m.Requests(), 3)
}

// If somebody edits the answer, the edited one counts.
func TestRunAsEdited(t *testing.T) {
	edits := aycoder.WithApprover(aycoder.ApproverFunc(func(context.Context, *aycoder.ToolUse, *aycoder.ToolSpec) aycoder.Verdict {
		return aycoder.AllowWith(json.RawMessage(`{"name":"Eve","age":2}`))
	}))
	e := runs(t, newLoop(t, script.New(script.Call("person", ada)), edits), who)
	require.NoError(t, e.err)
	require.Equal(t, person{Name: "Eve", Age: 2}, e.who)
}

// A document in the prompt is not an answer, and neither are misses of an earlier run misses of this one.
func TestRunAsAfterOthers(t *testing.T) {
	for _, prompt := range []string{ada, "Who?"} {
		e := runs(t, newLoop(t, script.New(script.Step{})), aycoder.Input{Prompt: prompt}, generate.WithRepairs(0))
		require.True(t, is[*generate.Error](e.err), "%v", e.err)
	}
	wrong := script.Call("person", noName)
	first := runs(t, newLoop(t, script.New(wrong, script.Say("x"), wrong)), who)
	require.True(t, is[*generate.Error](first.err), "%v", first.err)
	again := aycoder.Input{Messages: first.res.Messages, Prompt: "Again."}
	e := runs(t, newLoop(t, script.New(script.Step{}, script.Step{}, script.Call("person", ada))), again)
	require.NoError(t, e.err)
	e = runs(t, newLoop(t, script.New(wrong, script.Step{}, script.Call("person", ada))), again)
	require.NoError(t, e.err)
}
