package middleware_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/providers/script"
)

func ask(text string) *aycoder.Request {
	return &aycoder.Request{Messages: []*aycoder.Message{aycoder.User(text)}}
}

// show writes an event in a few words.
func show(ev aycoder.ModelEvent) string {
	switch ev := ev.(type) {
	case *aycoder.TextDelta:
		return ev.Text
	case *aycoder.ThinkingDelta:
		return "~" + ev.Text
	case *aycoder.ToolDelta:
		return ev.Name + " " + ev.Args
	case *aycoder.BlockDone:
		return fmt.Sprintf("done %T", ev.Part)
	case *aycoder.BlockTruncated:
		return "cut"
	case *aycoder.Retrying:
		return fmt.Sprintf("retry %d %t %s", ev.Attempt, ev.Discarded, ev.After)
	case *aycoder.MessageDone:
		return "end " + string(ev.Stop)
	}
	return fmt.Sprintf("%T", ev)
}

// An outcome is a whole answer, checked against the contract of a client.
type outcome struct {
	events []string
	last   aycoder.ModelEvent
	err    error
}

func (o *outcome) String() string { return strings.Join(o.events, "|") }

// stream collects an answer.
func stream(ctx context.Context, t *testing.T, m aycoder.ModelClient, req *aycoder.Request) *outcome {
	t.Helper()
	o, blocks := &outcome{}, false
	seq := m.Stream(ctx, req)
	for ev, err := range seq {
		require.NoError(t, o.err, "an error is the last")
		if _, done := o.last.(*aycoder.MessageDone); done {
			require.Fail(t, "something follows MessageDone", "%v %v", ev, err)
		}
		if o.err = err; err != nil {
			require.Nil(t, ev)
			continue
		}
		switch ev.(type) {
		case *aycoder.BlockDone, *aycoder.BlockTruncated:
			blocks = true
		case *aycoder.Retrying:
			require.False(t, blocks, "a Retrying comes after a block")
		}
		o.last, o.events = ev, append(o.events, show(ev))
	}
	for ev, err := range seq {
		require.Nil(t, ev)
		require.ErrorIs(t, err, aycoder.ErrConsumed)
	}
	return o
}

// A fake plays events and then an error, or nothing until ctx is done.
type fake struct {
	provider, model string
	events          []aycoder.ModelEvent
	err             error
	hang            bool
	deaf            chan struct{} // it waits for this, and not for the context
	context         int64
	formats         bool

	mu       sync.Mutex
	requests []*aycoder.Request
}

func (f *fake) ModelName() (string, string) { return f.provider, f.model }

func (f *fake) FormatsOutput(model string) bool { return f.formats && model != "plain" }

func (f *fake) FormatsWithTools(model string) bool { return f.formats && model != "plain" }

func (f *fake) ModelInfo(model string) (aycoder.ModelInfo, bool) {
	if model == "small" {
		return aycoder.ModelInfo{Context: 100}, true
	}
	return aycoder.ModelInfo{Context: f.context}, f.context > 0
}

func (f *fake) asked() []*aycoder.Request {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.requests)
}

func (f *fake) Stream(ctx context.Context, req *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
	used := false
	return func(yield func(aycoder.ModelEvent, error) bool) {
		if used {
			yield(nil, aycoder.ErrConsumed)
			return
		}
		used = true
		f.mu.Lock()
		f.requests = append(f.requests, req)
		f.mu.Unlock()
		for _, ev := range f.events {
			if err := ctx.Err(); err != nil {
				yield(nil, &aycoder.ModelError{Err: err})
				return
			}
			if !yield(ev, nil) {
				return
			}
		}
		switch {
		case f.deaf != nil:
			<-f.deaf
		case f.hang:
			<-ctx.Done()
		}
		if err := ctx.Err(); err != nil {
			yield(nil, &aycoder.ModelError{Err: err})
		} else if f.err != nil {
			yield(nil, f.err)
		}
	}
}

// saying is a client that says text, each time.
func saying(text string) *fake {
	return &fake{provider: "fake", model: text, events: []aycoder.ModelEvent{
		&aycoder.TextDelta{Text: text}, &aycoder.BlockDone{Part: &aycoder.Text{Text: text}},
		&aycoder.MessageDone{Stop: aycoder.StopEndTurn, Model: text, Usage: aycoder.Usage{Input: 10, Output: 5}},
	}}
}

// failing is a client that says the texts, as deltas, and fails, each time.
func failing(name string, err error, texts ...string) *fake {
	f := &fake{provider: name, model: "m", err: err}
	for _, text := range texts {
		f.events = append(f.events, &aycoder.TextDelta{Text: text})
	}
	return f
}

var errKaput = errors.New("kaput")

func base(status int) *aycoder.ModelError {
	return &aycoder.ModelError{Provider: "p", Status: status, Err: errKaput}
}

func broken() error { return &aycoder.StreamBrokenError{ModelError: base(200)} }

func badRequest() error { return &aycoder.BadRequestError{ModelError: base(400)} }

// loop is a script that starts again at its end.
func loop(steps ...script.Step) *script.Model {
	return script.New(steps...).With(script.WithLoop(true))
}

// everyKind are events of every kind that an answer has.
func everyKind() []aycoder.ModelEvent {
	call := &aycoder.ToolUse{ID: "c1", Name: "read", Args: []byte(`{"path": "a<b>\u2603"}`),
		Extra: &aycoder.Opaque{Provider: "fake", Raw: []byte(`{"sig": "x" }`)}}
	cut := &aycoder.ToolUse{ID: "c2", Name: "write", Args: []byte(`{"pa`)}
	return []aycoder.ModelEvent{
		&aycoder.ThinkingDelta{Text: "H"}, &aycoder.ThinkingDelta{Text: "m."},
		&aycoder.BlockDone{Part: &aycoder.Thinking{Text: "Hm.", Signature: "s==", Provider: "fake"}},
		&aycoder.TextDelta{Text: "A "}, &aycoder.TextDelta{Text: "\u2603"},
		&aycoder.BlockDone{Part: &aycoder.Text{Text: "A \u2603"}},
		&aycoder.BlockDone{Part: &aycoder.Opaque{Provider: "fake", Raw: []byte(`{ "a":1}`)}},
		&aycoder.ToolDelta{ID: "c1", Name: "read"}, &aycoder.ToolDelta{ID: "c1", Name: "read", Args: string(call.Args)},
		&aycoder.BlockDone{Part: call},
		&aycoder.ToolDelta{ID: "c2", Name: "write", Args: `{"pa`},
		&aycoder.BlockTruncated{Call: cut},
		&aycoder.MessageDone{Stop: aycoder.StopMaxTokens, Model: "m-1", ID: "msg_1",
			Usage: aycoder.Usage{Input: 7, Output: 9, Reasoning: 3, CacheRead: 2, CacheWrite: 1}},
	}
}
