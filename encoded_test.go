package aycoder_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
)

// encoder is a model that encodes its requests as a provider does, and counts the
// messages without a stored form. Each message takes a kilobyte.
type encoder struct {
	during func() // called during the first answer
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

// dialogue returns a conversation of n messages.
func dialogue(n int) (messages []*aycoder.Message) {
	for range n / 2 {
		messages = append(messages, aycoder.User("question"), aycoder.Assistant("answer"))
	}
	return messages
}

// A message without a wire form, such as one that only another provider reads, is asked
// for it once, too.
func TestEmptyFormIsKept(t *testing.T) {
	m, made := aycoder.User("hidden"), 0
	for range 3 {
		data, err := m.Encoded("key", func(*aycoder.Message) ([]byte, error) { made++; return nil, nil })
		require.NoError(t, err)
		require.Empty(t, data)
	}
	require.Equal(t, 1, made)
}

// A new run of a long history encodes only the new messages.
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

	// The end of a run does not drop forms that another run of the same history uses.
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

// A kept form takes no more memory than its length, and another key does not change it.
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

// worked returns a conversation of n turns with one call each.
func worked(n int) (messages []*aycoder.Message) {
	messages = append(messages, aycoder.User("question"))
	for i := range n {
		id := fmt.Sprintf("call_%d", i)
		messages = append(messages,
			&aycoder.Message{Role: aycoder.RoleAssistant, Parts: []aycoder.Part{
				&aycoder.ToolUse{ID: id, Name: "echo", Args: json.RawMessage(`{}`)}}},
			&aycoder.Message{Role: aycoder.RoleUser, Parts: []aycoder.Part{
				&aycoder.ToolOutput{ID: id, Name: "echo", Parts: []aycoder.Part{&aycoder.Text{Text: "an output"}}}}})
	}
	return append(messages, aycoder.Assistant("answer"))
}

// The result of an earlier check of a history is not used if the history has changed
// since.
func TestNewRunSeesChanges(t *testing.T) {
	const turns = 100
	call := func(messages []*aycoder.Message, turn int) *aycoder.ToolUse {
		return messages[1+2*turn].Parts[0].(*aycoder.ToolUse)
	}
	output := func(messages []*aycoder.Message, turn int) *aycoder.ToolOutput {
		return messages[2+2*turn].Parts[0].(*aycoder.ToolOutput)
	}
	tests := []struct {
		name   string
		change func([]*aycoder.Message) []*aycoder.Message
		want   string
	}{
		{"nothing", func(m []*aycoder.Message) []*aycoder.Message { return m }, ""},
		{"an id twice", func(m []*aycoder.Message) []*aycoder.Message {
			call(m, 7).ID, output(m, 7).ID = "call_3", "call_3"
			return m
		}, "used twice"},
		{"two ids exchanged", func(m []*aycoder.Message) []*aycoder.Message {
			call(m, 7).ID, call(m, 8).ID = call(m, 8).ID, call(m, 7).ID
			return m
		}, "no call before it"},
		{"an output left out", func(m []*aycoder.Message) []*aycoder.Message { return slices.Delete(m, 10, 11) }, "no output"},
		{"an output emptied", func(m []*aycoder.Message) []*aycoder.Message {
			m[10].Parts = nil
			return m
		}, "is empty"},
		{"a message twice", func(m []*aycoder.Message) []*aycoder.Message {
			return slices.Insert(m, 9, m[1], m[2])
		}, "used twice"},
		{"one for another", func(m []*aycoder.Message) []*aycoder.Message {
			m[9], m[10] = m[1], m[2]
			return m
		}, "used twice"},
		{"another role", func(m []*aycoder.Message) []*aycoder.Message {
			m[0].Role = "nobody"
			return m
		}, "no such role"},
		{"turns left out", func(m []*aycoder.Message) []*aycoder.Message { return slices.Delete(m, 1, 101) }, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			history := worked(turns)
			for range 2 { // a history of the host, and one that a run returned
				var res aycoder.Result
				_, err := collect(newLoop(t, &encoder{}).Run(t.Context(), aycoder.Input{Messages: history, Prompt: "go on"}, aycoder.Into(&res)))
				require.NoError(t, err)
				history = res.Messages
			}
			changed := tt.change(slices.Clone(history))
			_, err := collect(newLoop(t, &encoder{}).Run(t.Context(), aycoder.Input{Messages: changed, Prompt: "go on"}))
			if tt.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tt.want)
		})
	}
}

// Text that has become invalid since the last run is made valid, and a call whose id
// the history already has gets another one.
func TestNewRunOfKnownHistory(t *testing.T) {
	history := worked(100)
	var res aycoder.Result
	_, err := collect(newLoop(t, &encoder{}).Run(t.Context(), aycoder.Input{Messages: history, Prompt: "go on"}, aycoder.Into(&res)))
	require.NoError(t, err)
	history = res.Messages
	history[2].Parts[0].(*aycoder.ToolOutput).Parts[0].(*aycoder.Text).Text = "half a rune: \xe2\x82"
	m := &fake{turns: [][]any{calls(use("call_5", "echo", `{"text":"a"}`)), say("done")}}
	tool := newTool(t, "echo", aycoder.EffectReadOnly, echo)
	_, err = collect(newLoop(t, m, aycoder.WithTools(tool)).Run(t.Context(), aycoder.Input{Messages: history, Prompt: "go on"}, aycoder.Into(&res)))
	require.NoError(t, err)
	require.NoError(t, aycoder.CheckHistory(res.Messages))
	_, err = json.Marshal(res.Messages)
	require.NoError(t, err)
	uses := res.Messages[len(history)+1].Calls()
	require.Len(t, uses, 1)
	require.NotEqual(t, "call_5", uses[0].ID)
}

// A run over a long history that was checked before does not build a map of its calls.
func TestNewRunAllocatesLittle(t *testing.T) {
	loop := newLoop(t, &encoder{})
	history := worked(5_000)
	run := func() (bytes uint64) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := collect(loop.Run(t.Context(), aycoder.Input{Messages: history, Prompt: "go on"}))
		require.NoError(t, err)
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	run()
	// The history is copied three times, as a slice of pointers. A map of the calls
	// would take as much again.
	require.Less(t, run()/uint64(len(history)), uint64(38))
}
