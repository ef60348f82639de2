package compaction_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/compaction"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/session"
)

// talk is a conversation about several subjects that is far below its window.
func talk() (messages []*aycoder.Message) {
	say := func(user, model string) {
		messages = append(messages, aycoder.User(user), &aycoder.Message{Role: aycoder.RoleAssistant, Parts: []aycoder.Part{&aycoder.Text{Text: model}}})
	}
	say("Help me with the service.", "Gladly.")
	for i := range 60 {
		say(fmt.Sprintf("The weather of day %d is grey and the office is quiet again, as it was the day before.", i),
			fmt.Sprintf("On day %d the coffee in the kitchen is cold, and nothing else happens there.", i))
		if i == 20 {
			say("How does it answer?", "The API answers in whole sentences.")
		}
	}
	return messages
}

func text(messages []*aycoder.Message) string {
	var b strings.Builder
	for _, m := range messages {
		b.WriteString(m.Text() + "\n")
	}
	return b.String()
}

// A user asks for a compaction between two runs, with words about what to keep. The conversation goes on
// in another process with the history alone.
func TestCompactBetweenRuns(t *testing.T) {
	const fact = "The API answers in whole sentences."
	m := script.New(script.Say("ok")).With(script.WithLoop(true))
	for _, tt := range []struct {
		words string
		kept  bool
	}{{"", false}, {"keep the API decisions", true}} {
		keep, err := compaction.New(m, compaction.WithWindow(200_000), compaction.WithFill(0.1))
		require.NoError(t, err)
		before := talk()
		after, done, err := keep.Compact(t.Context(), before, tt.words)
		require.NoError(t, err)
		require.Equal(t, before, after[:len(before)], "the history keeps everything")
		require.NoError(t, aycoder.CheckHistory(after))
		require.Less(t, done.After, done.Before)
		require.Positive(t, done.Replaced)

		data, err := json.Marshal(after)
		require.NoError(t, err)
		var stored []*aycoder.Message
		require.NoError(t, json.Unmarshal(data, &stored))
		other, err := compaction.New(m, compaction.WithWindow(200_000), compaction.WithFill(0.1))
		require.NoError(t, err)
		l, err := aycoder.New(m, aycoder.WithContextMiddleware(other.Middleware), aycoder.WithStrictPrefix(true))
		require.NoError(t, err)
		var res aycoder.Result
		for ev, err := range l.Run(t.Context(), aycoder.Input{Messages: stored, Prompt: "go on"}, aycoder.Into(&res)) {
			require.NoError(t, err)
			_, begun := ev.(*aycoder.Compacting)
			require.False(t, begun, "it is done")
		}
		reqs := m.Requests()
		sent := text(reqs[len(reqs)-1].Messages)
		require.Contains(t, sent, done.Summary)
		require.Equal(t, tt.kept, strings.Contains(sent, fact), sent)
		require.Contains(t, sent, "go on")

		again, _, err := other.Compact(t.Context(), res.Messages, "") // the words count until others come
		require.NoError(t, err)
		require.Greater(t, len(again), len(res.Messages))
	}
}

// A command when nothing can be left out says so, with a type.
func TestCompactNothing(t *testing.T) {
	keep, err := compaction.New(script.New(), compaction.WithWindow(200_000))
	require.NoError(t, err)
	messages := talk()[:2]
	for range 2 {
		same, _, err := keep.Compact(t.Context(), messages, "")
		require.ErrorIs(t, err, compaction.ErrNothing)
		require.ErrorAs(t, err, new(*aycoder.ContextError))
		require.Equal(t, messages, same)
	}
	_, _, err = keep.Compact(t.Context(), []*aycoder.Message{{Role: "x"}}, "")
	require.ErrorAs(t, err, new(*aycoder.ContextError))
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errStopped)
	_, _, err = keep.Compact(ctx, talk(), "")
	require.ErrorIs(t, err, errStopped)
}

// A command for which nothing can be left out does not end the run.
func TestCommandForNothing(t *testing.T) {
	m := script.New(script.Say("one"), script.Say("two"))
	keep, err := compaction.New(m, compaction.WithWindow(100_000))
	require.NoError(t, err)
	loop, err := aycoder.New(m, aycoder.WithContextMiddleware(keep.Middleware))
	require.NoError(t, err)
	c := &chat{t: t, agent: loop}
	require.NoError(t, c.ask("hello"))
	c.messages = append(c.messages, &aycoder.Message{Role: aycoder.RoleUser, Parts: []aycoder.Part{compaction.Command("")}})
	require.NoError(t, c.ask("go on"))
	require.Len(t, c.events, 1)
	require.GreaterOrEqual(t, c.events[0].After, c.events[0].Before)
}

// A command that is sent into a run takes effect before the next request, once, with its words.
func TestCompactInARun(t *testing.T) {
	asked := ""
	w := script.New(script.Func(func(req *aycoder.Request) script.Step {
		asked = req.System[0].Text
		return script.Say("A summary.")
	})).With(script.WithLoop(true))
	m := worker(200_000, 9)
	c := newChat(t, m, compaction.WithWindow(200_000), compaction.WithSummarizer(w, ""))
	control := new(aycoder.Control)
	var events []string
	turn, at := 0, 0
	for ev, err := range c.agent.Run(t.Context(), aycoder.Input{Messages: talk(), Prompt: "go"}, aycoder.WithControl(control)) {
		require.NoError(t, err)
		switch ev := ev.(type) {
		case *aycoder.TurnFinished:
			if turn = ev.Turn; turn == 4 {
				control.Steer("", compaction.Command("keep the API decisions"))
			}
		case *aycoder.Compacting:
			events, at = append(events, ev.Reason), turn
			require.Positive(t, ev.Tokens)
			require.Positive(t, ev.Budget)
		case *aycoder.Compacted:
			events = append(events, "done")
			require.Less(t, ev.After, ev.Before)
			require.True(t, strings.HasPrefix(ev.Summary, "A summary."))
		}
	}
	require.Equal(t, []string{"command", "done"}, events)
	require.Equal(t, 4, at)
	require.Contains(t, asked, "keep the API decisions")
	require.Equal(t, 1, m.broken)
}

// A session keeps the compaction of a command, counts what its summary cost at the price of the model
// that wrote it, and takes it back.
func TestCompactInASession(t *testing.T) {
	prices := func(_, model string) (aycoder.Price, bool) {
		return map[string]aycoder.Price{"small": {Input: 1, Output: 10}, "large": {Input: 1000, Output: 1000}}[model], true
	}
	m := script.New(script.Say("ok").WithUsage(aycoder.Usage{})).With(script.WithLoop(true), script.WithName("acme", "large"))
	keep, err := compaction.New(m, compaction.WithWindow(200_000), compaction.WithSummarizer(always(script.Say("A summary.")), ""))
	require.NoError(t, err)
	l, err := aycoder.New(m, aycoder.WithContextMiddleware(keep.Middleware))
	require.NoError(t, err)
	store := journal.Memory()
	s, err := session.New(t.Context(), store, l, session.WithPrices(prices))
	require.NoError(t, err)
	run := func(in aycoder.Input) {
		for _, err := range s.Run(t.Context(), in) {
			require.NoError(t, err)
		}
	}
	run(aycoder.Input{Messages: talk(), Prompt: "go"})
	before := s.Head()
	compact := func(ctx context.Context, messages []*aycoder.Message) ([]*aycoder.Message, *aycoder.Compacted, error) {
		return keep.Compact(ctx, messages, "keep the API decisions")
	}
	require.NoError(t, s.Compact(t.Context(), compact))
	check := func(n int) {
		used, cost := s.View().Usage()
		require.Equal(t, aycoder.Usage{Input: int64(n) * 700, Output: int64(n) * 70}, used)
		require.InDelta(t, float64(n)*(700*1+70*10)/1e6, cost, 1e-12)
		entries, err := session.List(t.Context(), store, nil)
		require.NoError(t, err)
		require.InDelta(t, cost, entries[0].Cost, 1e-12)
		require.Equal(t, "large", entries[0].Model)
	}
	run(aycoder.Input{Prompt: "more"})
	check(1)
	reqs := m.Requests()
	require.Contains(t, text(reqs[len(reqs)-1].Messages), "A summary.")
	require.NoError(t, s.Steer(t.Context(), "", compaction.Command(""))) // for the next run
	run(aycoder.Input{Prompt: "and more"})
	check(2)
	require.NoError(t, s.Close())
	s, err = session.Open(t.Context(), store, s.ID(), l, session.WithPrices(prices))
	require.NoError(t, err)
	check(2)
	for range 2 { // the two prompts
		_, err = s.Undo(t.Context())
		require.NoError(t, err)
	}
	require.NotEqual(t, before, s.Head())
	_, err = s.Undo(t.Context()) // the compaction
	require.NoError(t, err)
	require.Equal(t, before, s.Head())
	run(aycoder.Input{Prompt: "other"})
	reqs = m.Requests()
	require.NotContains(t, text(reqs[len(reqs)-1].Messages), "A summary.")
}

// If the request cannot be built after a compaction has begun, nothing of it holds.
func TestInnerBuilderFails(t *testing.T) {
	for _, panics := range []bool{false, true} {
		t.Run(fmt.Sprint(panics), func(t *testing.T) { testInnerBuilderFails(t, panics) })
	}
}

func testInnerBuilderFails(t *testing.T, panics bool) {
	errInner, builds := errors.New("inner"), 0
	fail := false
	inner := func(next aycoder.ContextBuilder) aycoder.ContextBuilder {
		return aycoder.ContextFunc(func(ctx context.Context, in aycoder.ContextInput) (*aycoder.Request, error) {
			if builds++; fail && builds > 1 && panics {
				panic("inner")
			} else if fail && builds > 1 {
				return nil, errInner
			}
			return next.Build(ctx, in)
		})
	}
	m := script.New(script.Say("ok")).With(script.WithLoop(true))
	keep, err := compaction.New(m, compaction.WithWindow(3_000))
	require.NoError(t, err)
	l, err := aycoder.New(m, aycoder.WithContextMiddleware(keep.Middleware, inner))
	require.NoError(t, err)
	messages := talk()
	ask := func() (compacted int, failed error) {
		builds = 0
		var res aycoder.Result
		defer func() { messages = res.Messages }()
		for ev, err := range l.Run(t.Context(), aycoder.Input{Messages: messages, Prompt: "go"}, aycoder.Into(&res)) {
			if _, ok := ev.(*aycoder.Compacted); ok {
				compacted++
			}
			failed = err
		}
		return compacted, failed
	}
	fail = true
	_, err = ask()
	require.ErrorAs(t, err, new(*aycoder.ContextError))
	require.Equal(t, !panics, errors.Is(err, errInner))
	fail = false
	n, err := ask()
	require.NoError(t, err)
	require.Equal(t, 1, n)
}

// After a function of the host has panicked, requests still have the whole conversation.
func TestPinPanics(t *testing.T) {
	m := script.New(script.Say("ok")).With(script.WithLoop(true))
	pin := func(m *aycoder.Message) bool { return false }
	keep, err := compaction.New(m, compaction.WithPin(func(m *aycoder.Message) bool { return pin(m) }))
	require.NoError(t, err)
	l, err := aycoder.New(m, aycoder.WithContextMiddleware(keep.Middleware))
	require.NoError(t, err)
	var res aycoder.Result
	ask := func(prompt string) (failed error) {
		for _, failed = range l.Run(t.Context(), aycoder.Input{Messages: res.Messages, Prompt: prompt}, aycoder.Into(&res)) {
		}
		return failed
	}
	require.NoError(t, ask("one"))
	pin = func(*aycoder.Message) bool { panic("pin") }
	require.ErrorAs(t, ask("two"), new(*aycoder.ContextError))
	pin = func(*aycoder.Message) bool { return false }
	require.NoError(t, ask("three"))
	reqs := m.Requests()
	require.Equal(t, "one\nok\ntwo\nthree\n", text(reqs[len(reqs)-1].Messages))
}
