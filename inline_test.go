package aycoder_test

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
)

// deltas is a client that sends text without end. It tells how many pieces it has sent, and whether it has
// returned. It need not let a panic of its caller through.
type deltas struct {
	sent     int
	returned bool
	swallows bool
	deaf     bool // it goes on after false, once
}

func (d *deltas) Stream(context.Context, *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
	return func(yield func(aycoder.ModelEvent, error) bool) {
		defer func() {
			if d.returned = true; d.swallows {
				_ = recover()
			}
		}()
		for d.sent++; yield(&aycoder.TextDelta{Text: "a"}, nil); d.sent++ {
		}
		if d.deaf {
			yield(&aycoder.TextDelta{Text: "b"}, nil)
		}
	}
}

// However the loop body ends, the client is asked for nothing more, and is not blamed.
func TestInlineBodyThatEnds(t *testing.T) {
	boom := "boom"
	tests := []struct {
		name     string
		body     func(cancel func()) bool
		swallows bool
		deaf     bool
		panics   any
	}{
		{name: "break", body: func(func()) bool { return false }},
		{name: "break, and the client goes on", body: func(func()) bool { return false }, deaf: true},
		{name: "cancel", body: func(cancel func()) bool { cancel(); return false }},
		{name: "panic", body: func(func()) bool { panic(boom) }, panics: boom},
		{name: "panic that the client swallows", body: func(func()) bool { panic(boom) }, swallows: true,
			panics: "range function recovered a loop body panic and did not resume panicking"},
		{name: "exit", body: func(func()) bool { runtime.Goexit(); return true }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var log strings.Builder
			d := &deltas{swallows: tt.swallows, deaf: tt.deaf}
			loop := newLoop(t, d, aycoder.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var res aycoder.Result
			var got any
			inside, after := false, false
			done := make(chan struct{})
			go func() {
				defer close(done)
				defer func() { got = recover() }()
				for _, err := range loop.Inline().Run(ctx, aycoder.Input{Prompt: "go"}, aycoder.Into(&res)) {
					require.NoError(t, err)
					inside = strings.Contains(string(debug.Stack()), "(*deltas).Stream")
					if !tt.body(cancel) {
						break
					}
				}
				after = true
			}()
			<-done
			require.True(t, inside, "the body runs inside of the client")
			require.True(t, d.returned)
			require.Equal(t, 1, d.sent)
			require.Equal(t, strings.HasPrefix(tt.name, "break") || tt.name == "cancel", after)
			if err, ok := got.(error); ok {
				got = strings.TrimPrefix(err.Error(), "runtime error: ")
			}
			if tt.deaf {
				require.Contains(t, log.String(), "event after the end")
				log.Reset()
			}
			require.Equal(t, tt.panics, got)
			require.Equal(t, aycoder.EndCancelled, res.End)
			require.NoError(t, aycoder.CheckHistory(res.Messages))
			require.Equal(t, "a", res.Text())
			require.Empty(t, log.String())
		})
	}
}

// A client that panics is blamed, also if it does so after the body was called.
func TestInlineClientThatPanics(t *testing.T) {
	m := &fake{turns: [][]any{{&aycoder.TextDelta{Text: "a"}, func(context.Context) { panic("boom") }}}}
	l := newLoop(t, m, aycoder.WithRetry(aycoder.RetryPolicy{Attempts: -1}))
	events, err := collect(l.Inline().Run(t.Context(), aycoder.Input{Prompt: "go"}))
	require.ErrorContains(t, err, "client panicked: boom")
	require.Equal(t, []aycoder.Event{&aycoder.TextDelta{Text: "a"}}, events)
}

// The events of a call that works while the model answers come with its next event, in order. A retry of
// the client is told in its place.
func TestInlineEventsWhileTheModelAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		settle := func(context.Context) { synctest.Wait() }
		m := &fake{turns: [][]any{
			{&aycoder.TextDelta{Text: "x"}, &aycoder.Retrying{Attempt: 1}, use("a", "read", `{"text":"1"}`), settle, &aycoder.TextDelta{Text: "b"},
				use("b", "read", `{"text":"2"}`), &aycoder.MessageDone{Stop: aycoder.StopToolUse}},
			say("done"),
		}}
		l := newLoop(t, m, aycoder.WithTools(newTool(t, "read", aycoder.EffectReadOnly, echo)))
		var got []string
		agent := l.Inline().Run(t.Context(), aycoder.Input{Prompt: "go"})
		for ev, err := range agent {
			require.NoError(t, err)
			switch ev := ev.(type) {
			case *aycoder.TextDelta:
				got = append(got, ev.Text)
			case *aycoder.Retrying:
				got = append(got, "again")
			case *aycoder.ToolStarted:
				got = append(got, "start "+ev.Call.ID)
			case *aycoder.ToolFinished:
				got = append(got, "end "+ev.Call.ID)
			}
		}
		require.Equal(t, []string{"x", "again", "start a", "end a", "b", "start b", "end b", "done"}, got)
		_, err := collect(agent)
		require.ErrorIs(t, err, aycoder.ErrConsumed)
	})
}

// While the body works, the model is not read.
func TestInlineSlowBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &deltas{}
		for range newLoop(t, d).Inline().Run(t.Context(), aycoder.Input{Prompt: "go"}) {
			synctest.Wait()
			if d.sent == 3 {
				break
			}
		}
		require.Equal(t, 3, d.sent)
	})
}

// A body that cancels, and goes on, gets the error of the context, and no more of the answer.
func TestInlineCanceled(t *testing.T) {
	d := &deltas{}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var last error
	for _, err := range newLoop(t, d).Inline().Run(ctx, aycoder.Input{Prompt: "go"}) {
		cancel()
		last = err
	}
	require.ErrorIs(t, last, context.Canceled)
	require.Equal(t, 1, d.sent)
}

// A record that fails ends a run, also while the answer goes on.
func TestInlineRecordFails(t *testing.T) {
	full := errors.New("disk full")
	d := &deltas{}
	record := aycoder.WithFacts(func(context.Context, *aycoder.FactRecord) error { return full })
	var last error
	for _, err := range newLoop(t, d).Inline().Run(t.Context(), aycoder.Input{Prompt: "go"}, record) {
		last = err
	}
	require.ErrorIs(t, last, full)
}

// The function of WithSetup knows its run.
func TestInlineSetup(t *testing.T) {
	m := &fake{turns: [][]any{say("done")}}
	place := false
	loop := newLoop(t, m, aycoder.WithSetup(func(ctx context.Context, now aycoder.Setup) (aycoder.Setup, error) {
		_, place = aycoder.PlaceFromContext(ctx)
		return now, nil
	}))
	_, err := collect(loop.Inline().Run(t.Context(), aycoder.Input{Prompt: "go"}))
	require.NoError(t, err)
	require.True(t, place)
}
