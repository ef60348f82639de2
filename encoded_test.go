package aycoder_test

import (
	"context"
	"iter"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
)

// encoder is a model that encodes what it is asked, as a provider does, and counts what
// it could not take from the messages. Each message takes a kilobyte.
type encoder struct {
	during func() // is called in the first answer
	made   int
}

func (e *encoder) Stream(_ context.Context, req *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
	for _, m := range req.Messages {
		_, _ = m.Encoded("key", func(*aycoder.Message) ([]byte, error) {
			e.made++
			return make([]byte, 1<<10), nil
		})
	}
	return func(yield func(aycoder.ModelEvent, error) bool) {
		if e.during != nil {
			e.during()
			e.during = nil
		}
		_ = yield(&aycoder.BlockDone{Part: &aycoder.Text{Text: "ok"}}, nil) &&
			yield(&aycoder.MessageDone{Stop: aycoder.StopEndTurn}, nil)
	}
}

// dialogue is a conversation of n messages.
func dialogue(n int) (messages []*aycoder.Message) {
	for range n / 2 {
		messages = append(messages, aycoder.User("question"), aycoder.Assistant("answer"))
	}
	return messages
}

// A new run of a long history encodes only what is new in it.
func TestNewRunEncodesWhatIsNew(t *testing.T) {
	run := func(m aycoder.ModelClient, messages []*aycoder.Message, opts ...aycoder.Option) []*aycoder.Message {
		var res aycoder.Result
		_, err := collect(newLoop(t, m, opts...).Run(t.Context(), aycoder.Input{Messages: messages, Prompt: "go on"}, aycoder.Into(&res)))
		require.NoError(t, err)
		return res.Messages
	}
	tests := []struct {
		name     string
		messages int
		opts     []aycoder.Option
		again    int // messages that a second run encodes
	}{
		{"long", 100, nil, 2}, // the answer before, and the prompt
		{"short", 10, nil, 13},
		{"long, given back", 100, []aycoder.Option{aycoder.WithEncodedHistory(false)}, 103},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := &encoder{}
			history := run(m, dialogue(tt.messages), tt.opts...)
			require.Equal(t, tt.messages+1, m.made)
			m.made = 0
			run(m, history, tt.opts...)
			require.Equal(t, tt.again, m.made)
		})
	}

	// Nor is anything taken from a run by the end of another one of the same history.
	for _, keep := range []bool{true, false} {
		for _, n := range []int{10, 100} {
			history, other, m := dialogue(n), &encoder{}, &encoder{}
			tool := newTool(t, "echo", aycoder.EffectReadOnly, echo)
			m.during = func() { run(other, history, aycoder.WithEncodedHistory(keep)) }
			steps := aycoder.ModelFunc(func(ctx context.Context, req *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
				if last := req.Messages[len(req.Messages)-1]; strings.Contains(last.Text(), "go on") {
					_, err := aycoder.Complete(ctx, m, req)
					require.NoError(t, err)
					return func(yield func(aycoder.ModelEvent, error) bool) {
						_ = yield(use("c1", "echo", `{"text":"x"}`), nil) && yield(&aycoder.MessageDone{Stop: aycoder.StopToolUse}, nil)
					}
				}
				return m.Stream(ctx, req)
			})
			run(steps, history, aycoder.WithTools(tool), aycoder.WithEncodedHistory(keep))
			require.Equal(t, n+3, m.made, "the history, the prompt, the call and its output")
			require.Equal(t, 1, other.made, "its prompt")
		}
	}
}

// What is kept takes no more than its length, and is not touched by another key.
func TestKeptFormIsTheSame(t *testing.T) {
	messages, want := dialogue(2000), make([][]byte, 2000)
	m := aycoder.ModelFunc(func(ctx context.Context, req *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
		for i, m := range req.Messages {
			got, err := m.Encoded("key", func(*aycoder.Message) ([]byte, error) {
				return []byte(strings.Repeat(string(rune('a'+i%26)), i)), nil
			})
			require.NoError(t, err)
			if i >= len(want) {
				continue
			}
			if want[i] == nil {
				want[i] = []byte(strings.Repeat(string(rune('a'+i%26)), i))
			}
			require.Equal(t, string(want[i]), string(got), "message %d", i)
			require.LessOrEqual(t, cap(got), len(got)+len(got)/4+16, "message %d", i)
		}
		return (&encoder{}).Stream(ctx, &aycoder.Request{})
	})
	for range 2 {
		_, err := collect(newLoop(t, m).Run(t.Context(), aycoder.Input{Messages: messages, Prompt: "go"}))
		require.NoError(t, err)
	}
	for i, m := range messages {
		got, err := m.Encoded("key", nil)
		require.NoError(t, err)
		require.Equal(t, string(want[i]), string(got), "message %d", i)
	}
}
