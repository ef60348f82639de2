package aycoder_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
)

func msg(role aycoder.Role, parts ...aycoder.Part) *aycoder.Message {
	return &aycoder.Message{Role: role, Parts: parts}
}

func callPart(id string) aycoder.Part {
	return &aycoder.ToolUse{ID: id, Name: "x", Args: json.RawMessage(`{}`)}
}
func outPart(id string) aycoder.Part { return &aycoder.ToolOutput{ID: id, Name: "x"} }

func TestCheckHistory(t *testing.T) {
	user, bot := aycoder.RoleUser, aycoder.RoleAssistant
	hi := &aycoder.Text{Text: "hi"}
	tests := []struct {
		name string
		in   []*aycoder.Message
		want string
	}{
		{"fine", []*aycoder.Message{msg(user, hi), msg(bot, hi, callPart("a"), callPart("b")), msg(user, outPart("b"), outPart("a"), hi), msg(bot, hi)}, ""},
		{"two of the user", []*aycoder.Message{msg(user, hi), msg(user, hi)}, ""},
		{"system in the middle", []*aycoder.Message{msg(user, hi), msg(aycoder.RoleSystem, hi)}, ""},
		{"nothing", nil, ""},
		{"nil", []*aycoder.Message{nil}, "message 0: is nil"},
		{"empty", []*aycoder.Message{msg(user)}, "message 0: is empty"},
		{"nil part", []*aycoder.Message{msg(user, nil)}, "message 0: a part is nil"},
		{"no role", []*aycoder.Message{msg("", hi)}, `message 0: no such role: ""`},
		{"no output", []*aycoder.Message{msg(bot, callPart("a"))}, `call "a" has no output`},
		{"answered late", []*aycoder.Message{msg(bot, callPart("a")), msg(user, hi), msg(user, outPart("a"))}, `message 1: call "a" has no output`},
		{"one missing", []*aycoder.Message{msg(bot, callPart("a"), callPart("b")), msg(user, outPart("b"))}, `message 1: call "a" has no output`},
		{"orphan", []*aycoder.Message{msg(user, outPart("a"))}, `message 0: output "a" has no call before it`},
		{"twice answered", []*aycoder.Message{msg(bot, callPart("a")), msg(user, outPart("a"), outPart("a"))}, `message 1: output "a" has no call before it`},
		{"id twice", []*aycoder.Message{msg(bot, callPart("a")), msg(user, outPart("a")), msg(bot, callPart("a"))}, `message 2: call id "a" is empty or used twice`},
		{"call of a user", []*aycoder.Message{msg(user, callPart("a"))}, "message 0: a user message holds no *aycoder.ToolUse"},
		{"output of the model", []*aycoder.Message{msg(bot, outPart("a"))}, "message 0: an assistant message holds no tool output"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := aycoder.CheckHistory(tt.in)
			if tt.want == "" {
				require.NoError(t, err)
				return
			}
			require.EqualError(t, err, "check history: "+tt.want)
			_, typed := errors.AsType[*aycoder.ContextError](err)
			require.True(t, typed)
		})
	}
}

func TestTooLargeIsRebuiltSmaller(t *testing.T) {
	var history []*aycoder.Message
	for n := range 200 {
		id := fmt.Sprint("c", n)
		history = append(history, aycoder.User(fmt.Sprint("q", n)), msg(aycoder.RoleAssistant, callPart(id)), msg(aycoder.RoleUser, outPart(id)), aycoder.Assistant("a"))
	}
	large := &aycoder.ContextTooLargeError{ModelError: base("too long"), Actual: 9, Max: 5}
	run := func(t *testing.T, history []*aycoder.Message, m *fake, opts ...aycoder.Option) (aycoder.Result, error) {
		var res aycoder.Result
		_, err := collect(newLoop(t, m, opts...).Run(t.Context(), aycoder.Input{Messages: history, Prompt: "go"}, aycoder.Into(&res)))
		require.Len(t, res.Messages[:len(history)+1], len(history)+1, "the history stays whole")
		return res, err
	}
	t.Run("once is enough", func(t *testing.T) {
		m := &fake{turns: [][]any{{large}, calls(use("new", "x", `{}`)), say("ok"), say("on")}}
		res, err := run(t, history, m)
		require.NoError(t, err)
		short := m.reqs[1].Messages
		require.Less(t, len(short), 500)
		require.NoError(t, aycoder.CheckHistory(short))
		require.Contains(t, short[0].Text(), "left out")
		require.Equal(t, short[1:], m.reqs[2].Messages[1:len(short)], "the cut stays where it is")
		_, err = run(t, res.Messages, m)
		require.NoError(t, err)
		require.Len(t, m.reqs, 4, "the next run begins with the cut")
		require.Equal(t, short[1:], m.reqs[3].Messages[1:len(short)])
	})
	t.Run("as often as it takes", func(t *testing.T) {
		m := &fake{turns: [][]any{{large}, {large}, {large}, say("ok")}}
		_, err := run(t, history, m)
		require.NoError(t, err)
		for i := range 3 {
			require.Less(t, len(wireBody(t, m.reqs[i+1])), len(wireBody(t, m.reqs[i])))
		}
	})
	t.Run("another model may take more", func(t *testing.T) {
		small := &smallModel{t: t, window: 3000, plan: func(int) []any { return say("ok") }}
		var res aycoder.Result
		_, err := collect(newLoop(t, small).Run(t.Context(), aycoder.Input{Messages: history, Prompt: "turn 1"}, aycoder.Into(&res)))
		require.NoError(t, err)
		m := &fake{turns: [][]any{say("ok")}}
		_, err = run(t, res.Messages, m)
		require.NoError(t, err)
		require.Len(t, m.reqs[0].Messages, len(res.Messages)+1)
	})
	t.Run("never is an error", func(t *testing.T) {
		m := &fake{}
		for range 100 {
			m.turns = append(m.turns, []any{large})
		}
		_, err := run(t, history, m)
		require.ErrorIs(t, err, large)
		require.ErrorContains(t, err, "nothing more can be left out")
		_, typed := errors.AsType[*aycoder.ContextError](err)
		require.True(t, typed)
		for i := range len(m.reqs) - 1 {
			require.Less(t, len(wireBody(t, m.reqs[i+1])), len(wireBody(t, m.reqs[i])))
		}
	})
	t.Run("a builder that sends the same is not asked for ever", func(t *testing.T) {
		m := &fake{turns: [][]any{{large}, say("not sent")}}
		var inputs []aycoder.ContextInput
		same := aycoder.ContextFunc(func(_ context.Context, in aycoder.ContextInput) (*aycoder.Request, error) {
			inputs = append(inputs, in)
			req := *in.Base
			req.Messages = in.Messages
			return &req, nil
		})
		_, err := run(t, history, m, aycoder.WithContext(same))
		require.ErrorIs(t, err, large)
		require.Len(t, m.reqs, 1, "the same bytes are never sent twice")
		require.Nil(t, inputs[0].Overflow)
		require.Greater(t, len(inputs), 1)
		require.Less(t, len(inputs), 20)
		for _, in := range inputs[1:] {
			require.Same(t, large, in.Overflow)
			require.Equal(t, int64(5), in.Window)
			require.Positive(t, in.Limit)
		}
	})
}

func TestBuilderIsToldWindowAndUsage(t *testing.T) {
	m := &known{fake{turns: [][]any{calls(use("a", "echo", `{"text":"x"}`)), say("ok")}}}
	var inputs []aycoder.ContextInput
	note := func(next aycoder.ContextBuilder) aycoder.ContextBuilder {
		return aycoder.ContextFunc(func(ctx context.Context, in aycoder.ContextInput) (*aycoder.Request, error) {
			inputs = append(inputs, in)
			return next.Build(ctx, in)
		})
	}
	_, err := collect(newLoop(t, m, aycoder.WithContextMiddleware(note), aycoder.WithTools(newTool(t, "echo", aycoder.EffectReadOnly, echo))).
		Run(t.Context(), aycoder.Input{Prompt: "go"}))
	require.NoError(t, err)
	require.Len(t, inputs, 2)
	require.Equal(t, int64(200_000), inputs[0].Window)
	require.Zero(t, inputs[0].Usage)
	require.Equal(t, aycoder.Usage{Input: 10, Output: 1}, inputs[1].Usage)
}

// known is a client that describes its model.
type known struct{ fake }

func (*known) ModelInfo(string) (aycoder.ModelInfo, bool) {
	return aycoder.ModelInfo{Context: 200_000}, true
}

func TestBuilderCannotBreakASession(t *testing.T) {
	build := func(f func(in aycoder.ContextInput) (*aycoder.Request, error)) aycoder.Option {
		return aycoder.WithContext(aycoder.ContextFunc(func(_ context.Context, in aycoder.ContextInput) (*aycoder.Request, error) {
			return f(in)
		}))
	}
	tests := []struct {
		name string
		opt  aycoder.Option
		want string
	}{
		{"error", build(func(aycoder.ContextInput) (*aycoder.Request, error) { return nil, io.EOF }), "build request: EOF"},
		{"nil", build(func(aycoder.ContextInput) (*aycoder.Request, error) { return nil, nil }), "build request: builder returned nil"},
		{"orphan", build(func(in aycoder.ContextInput) (*aycoder.Request, error) {
			return &aycoder.Request{Messages: []*aycoder.Message{msg(aycoder.RoleUser, outPart("a"))}}, nil
		}), `check history: message 0: output "a" has no call before it`},
		{"panic", build(func(aycoder.ContextInput) (*aycoder.Request, error) { panic("boom") }), "build request: builder panicked: boom"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var res aycoder.Result
			_, err := collect(newLoop(t, &fake{}, tt.opt).Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.Into(&res)))
			require.EqualError(t, err, tt.want)
			require.Len(t, res.Messages, 1)
		})
	}
}

func TestContextMiddlewareOrder(t *testing.T) {
	tag := func(s string) aycoder.ContextMiddleware {
		return func(next aycoder.ContextBuilder) aycoder.ContextBuilder {
			return aycoder.ContextFunc(func(ctx context.Context, in aycoder.ContextInput) (*aycoder.Request, error) {
				req, err := next.Build(ctx, in)
				req.System = append(req.System[:len(req.System):len(req.System)], &aycoder.Text{Text: s})
				return req, err
			})
		}
	}
	m := &fake{turns: [][]any{say("ok")}}
	_, err := collect(newLoop(t, m, aycoder.WithSystem("base"), aycoder.WithContextMiddleware(tag("outer"), tag("inner"))).Run(t.Context(), aycoder.Input{Prompt: "go"}))
	require.NoError(t, err)
	var got []string
	for _, s := range m.reqs[0].System {
		got = append(got, s.Text)
	}
	require.Equal(t, []string{"base", "inner", "outer"}, got)
}
