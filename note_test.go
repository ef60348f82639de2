package aycoder_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/providers/script"
)

// noting is a builder that announces a note before the requests of some turns.
type noting struct {
	turns []int
	seen  []string // the note before each request
	run   context.Context
}

func (n *noting) wrap(next aycoder.ContextBuilder) aycoder.ContextBuilder {
	return aycoder.ContextFunc(func(ctx context.Context, in aycoder.ContextInput) (*aycoder.Request, error) {
		n.seen, n.run = append(n.seen, string(in.Note)), ctx
		for _, t := range n.turns {
			if t != in.Turn {
				continue
			}
			note := json.RawMessage(`{"turn":` + string('0'+rune(t)) + `}`)
			if err := in.Compact(ctx, &aycoder.Compacted{Note: note, Summary: "s", Usage: aycoder.Usage{Input: 100}}); err != nil {
				return nil, err
			}
		}
		return next.Build(ctx, in)
	})
}

func twoTurns(t *testing.T, n *noting, m ...script.Step) *aycoder.Loop {
	echo, err := aycoder.NewTool("echo", "Returns nothing.", func(context.Context, *aycoder.Invocation, struct{}) (*aycoder.ToolResult, error) {
		return aycoder.TextResult("ok"), nil
	}, aycoder.WithEffect(aycoder.EffectReadOnly))
	require.NoError(t, err)
	l, err := aycoder.New(script.New(m...), aycoder.WithTools(echo), aycoder.WithContextMiddleware(n.wrap))
	require.NoError(t, err)
	return l
}

// A note is recorded before the request that it is about. Builders get it from then on, also in a
// run that has only the history.
func TestNotes(t *testing.T) {
	echo := script.Call("echo", map[string]any{})
	n := &noting{turns: []int{2}}
	l := twoTurns(t, n, echo, echo, script.Say("a"), script.Say("b"))
	var facts []string
	var res aycoder.Result
	events := 0
	record := func(_ context.Context, rec *aycoder.FactRecord) error {
		if c, ok := rec.Fact.(*aycoder.Compacted); ok {
			require.Len(t, n.seen, 2) // the builder is still at work
			facts = append(facts, string(c.Note))
			data, err := json.Marshal(rec.State)
			require.NoError(t, err)
			var again aycoder.State
			require.NoError(t, json.Unmarshal(data, &again))
			next, err := json.Marshal(again)
			require.NoError(t, err)
			require.JSONEq(t, string(data), string(next))
		}
		return nil
	}
	for ev, err := range l.Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.Into(&res), aycoder.WithFacts(record)) {
		require.NoError(t, err)
		if c, ok := ev.(*aycoder.Compacted); ok {
			events++
			require.Equal(t, "s", c.Summary)
		}
	}
	require.Equal(t, []string{`{"turn":2}`}, facts)
	require.Equal(t, 1, events)
	require.Equal(t, []string{"", "", `{"turn":2}`}, n.seen)
	require.GreaterOrEqual(t, res.Usage.Input, int64(100))

	data, err := json.Marshal(res.Messages) // as a host stores them
	require.NoError(t, err)
	var stored []*aycoder.Message
	require.NoError(t, json.Unmarshal(data, &stored))
	for _, err := range l.Run(t.Context(), aycoder.Input{Messages: stored, Prompt: "more"}) {
		require.NoError(t, err)
	}
	require.Equal(t, `{"turn":2}`, n.seen[3])
	// Before the message that carries it, there is no note.
	l = twoTurns(t, n, script.Say("c"))
	for _, err := range l.Run(t.Context(), aycoder.Input{Messages: stored[:3], Prompt: "more"}) {
		require.NoError(t, err)
	}
	require.Equal(t, "", n.seen[4])
}

// A note that is recorded survives the end of the process, also if the model did not answer.
func TestNoteAfterACrash(t *testing.T) {
	n := &noting{turns: []int{1}}
	crash := errors.New("crash")
	var start aycoder.State
	var fact aycoder.Fact
	record := func(_ context.Context, rec *aycoder.FactRecord) error {
		switch rec.Fact.(type) {
		case nil:
			start = rec.State
		case *aycoder.Compacted:
			fact = rec.Fact
			return crash
		}
		return nil
	}
	var failed error
	for _, err := range twoTurns(t, n, script.Say("a")).Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.WithFacts(record)) {
		failed = err
	}
	require.ErrorIs(t, failed, crash)
	state, _, err := start.Apply(fact)
	require.NoError(t, err)
	n.turns = nil
	var res aycoder.Result
	p := &aycoder.Pending{State: state}
	for _, err := range twoTurns(t, n, script.Say("a")).Run(t.Context(), aycoder.Input{Pending: p}, aycoder.Into(&res)) {
		require.NoError(t, err)
	}
	require.Equal(t, []string{"", `{"turn":1}`}, n.seen)
	require.Equal(t, aycoder.EndDone, res.End)
}

// A note that was announced is in the history, however the run ends before the model has answered.
func TestNoteWithoutAnAnswer(t *testing.T) {
	fails := script.Fail(&aycoder.BadRequestError{ModelError: &aycoder.ModelError{Err: errors.New("no")}})
	for _, name := range []string{"break", "cancel", "fails", "empty"} {
		t.Run(name, func(t *testing.T) {
			n := &noting{turns: []int{1}}
			step := map[string]script.Step{"fails": fails, "empty": {}}[name]
			over := false
			if name == "break" || name == "cancel" {
				step = script.Func(func(*aycoder.Request) script.Step {
					if !over { // in the run that is left, the model does not answer before
						<-n.run.Done()
					}
					return script.Say("a")
				})
			}
			l := twoTurns(t, n, step, script.Say("b"))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var res aycoder.Result
			var last aycoder.State
			record := func(_ context.Context, rec *aycoder.FactRecord) error {
				last = rec.State
				return nil
			}
			for ev := range l.Run(ctx, aycoder.Input{Prompt: "go"}, aycoder.Into(&res), aycoder.WithFacts(record)) {
				if _, ok := ev.(*aycoder.Compacted); !ok {
					continue
				}
				if name == "break" {
					break
				}
				if name == "cancel" {
					cancel()
				}
			}
			over = true
			require.Equal(t, res.Messages, last.Messages(), "the history that is recorded")
			require.Len(t, res.Messages, 2)
			require.Empty(t, res.Text())
			data, err := json.Marshal(res.Messages)
			require.NoError(t, err)
			var stored []*aycoder.Message
			require.NoError(t, json.Unmarshal(data, &stored))
			n.turns = nil
			for _, err := range l.Run(t.Context(), aycoder.Input{Messages: stored, Prompt: "more"}) {
				require.NoError(t, err)
			}
			require.Equal(t, []string{"", `{"turn":1}`}, n.seen)
		})
	}
}

// A note must be JSON, and come before the model answers.
func TestBadNotes(t *testing.T) {
	s, _ := aycoder.Start(aycoder.StartInput{Messages: []*aycoder.Message{aycoder.User("go")}})
	for _, note := range []string{"", "{", "x", `"` + string(make([]byte, 5<<20)) + `"`} {
		_, _, err := s.Apply(&aycoder.Compacted{Note: json.RawMessage(note)})
		require.ErrorAs(t, err, new(*aycoder.FactError), "%.10q", note)
	}
	s, _, err := s.Apply(&aycoder.BlockDone{Part: &aycoder.Text{Text: "a"}})
	require.NoError(t, err)
	_, _, err = s.Apply(&aycoder.Compacted{Note: json.RawMessage("1")})
	require.ErrorAs(t, err, new(*aycoder.FactError))
}

// Tokens of a summary that came to nothing count, and the note stays as it was.
func TestUsageWithoutANote(t *testing.T) {
	s, _ := aycoder.Start(aycoder.StartInput{Messages: []*aycoder.Message{aycoder.User("go")}})
	s, _, err := s.Apply(&aycoder.Compacted{Note: json.RawMessage(`{"turn":1}`)})
	require.NoError(t, err)
	data, err := json.Marshal(&aycoder.FactRecord{Fact: &aycoder.Compacted{Usage: aycoder.Usage{Input: 7}}})
	require.NoError(t, err)
	var again aycoder.FactRecord
	require.NoError(t, json.Unmarshal(data, &again))
	s, _, err = s.Apply(again.Fact)
	require.NoError(t, err)
	require.Equal(t, aycoder.Usage{Input: 7}, s.Usage())
	s, _, err = s.Apply(&aycoder.BlockDone{Part: &aycoder.Text{Text: "a"}})
	require.NoError(t, err)
	s, _, err = s.Apply(&aycoder.MessageDone{Stop: aycoder.StopEndTurn})
	require.NoError(t, err)
	data, err = json.Marshal(s.Messages())
	require.NoError(t, err)
	require.Contains(t, string(data), `{\"turn\":1}`)
}

// A loop over Turn has the middleware, too, and its messages carry the note from one turn to the next.
func TestTurnsCompact(t *testing.T) {
	n := &noting{turns: []int{1}}
	l := twoTurns(t, n, script.Call("echo", map[string]any{}), script.Say("a"))
	req := &aycoder.Request{Messages: []*aycoder.Message{aycoder.User("go")}, System: []*aycoder.Text{{Text: "s"}}}
	var events []string
	for range 2 {
		var res aycoder.TurnResult
		for ev, err := range l.Turn(t.Context(), req, &res) {
			require.NoError(t, err)
			if _, ok := ev.(*aycoder.Compacted); ok {
				events = append(events, "compacted")
			}
		}
		require.GreaterOrEqual(t, res.Usage.Input, int64(100))
		req.Messages = append(req.Messages, res.Messages...)
		n.turns = []int{1}
	}
	require.Equal(t, []string{"compacted", "compacted"}, events)
	require.Equal(t, []string{"", `{"turn":1}`}, n.seen)
}
