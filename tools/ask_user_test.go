package tools

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/providers/script"
)

func askTool(t testing.TB, ask func(context.Context, Question) (Answer, error)) aycoder.Tool {
	t.Helper()
	tool, err := AskUser(ask)
	require.NoError(t, err)
	return tool
}

func TestAskUser(t *testing.T) {
	tests := []struct {
		name   string
		in     args
		shown  Question
		answer Answer
		want   string
	}{
		{"own words", args{"question": "which?"}, Question{Text: "which?"}, Answer{Text: " this one \x00"}, "The user says: this one \uFFFD\n"},
		{"option", args{"question": "which?", "options": []string{"a", "b"}}, Question{Text: "which?", Options: []string{"a", "b"}},
			Answer{Options: []int{1}}, "The user chose: b\n"},
		{"several and words", args{"question": "which?", "options": []string{"a", "b"}, "multiple": true},
			Question{Text: "which?", Options: []string{"a", "b"}, Multiple: true}, Answer{Options: []int{0, 1}, Text: "and c"},
			"The user chose: a\nThe user chose: b\nThe user says: and c\n"},
		{"nothing", args{"question": "which?"}, Question{Text: "which?"}, Answer{}, "[the user gave no answer; go on as you think best]\n"},
		{"escapes", args{"question": "\x1b[2Jok?", "options": []string{"\u202eyes"}},
			Question{Text: `<U+001B>[2Jok?`, Options: []string{`<U+202E>yes`}}, Answer{Options: []int{0}}, "The user chose: <U+202E>yes\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tool := askTool(t, func(_ context.Context, q Question) (Answer, error) {
				require.Equal(t, tt.shown, q)
				return tt.answer, nil
			})
			r, err := tool.Call(t.Context(), aycoder.NewInvocation("c", "ask_user", mustJSON(t, tt.in), nil))
			require.NoError(t, err)
			require.False(t, r.IsError)
			require.Equal(t, tt.want, r.Text())
		})
	}
}

func TestAskUserRefuses(t *testing.T) {
	asked := 0
	nobody := askTool(t, func(context.Context, Question) (Answer, error) {
		asked++
		return Answer{}, ErrNoUser
	})
	many := make([]string, 11)
	for i := range many {
		many[i] = strings.Repeat("x", i+1)
	}
	tests := []struct {
		name string
		tool aycoder.Tool
		in   args
		want string
	}{
		{"empty", nobody, args{"question": " "}, "invalid_arguments: the question is empty"},
		{"long", nobody, args{"question": strings.Repeat("x", 4001)}, "too_long: "},
		{"many options", nobody, args{"question": "a", "options": many}, "too_many: there are 11 options, at most 10"},
		{"empty option", nobody, args{"question": "a", "options": []string{"a", ""}}, "invalid_arguments: option 2"},
		{"same options", nobody, args{"question": "a", "options": []string{"a", "a "}}, "invalid_arguments: option 2"},
		{"long option", nobody, args{"question": "a", "options": []string{strings.Repeat("x", 501)}}, "invalid_arguments: option 1"},
		{"headless", askTool(t, nil), args{"question": "a"}, "no_user: nobody is there to answer; go on with the most sensible assumption"},
		{"nobody there", nobody, args{"question": "a"}, "no_user: "},
	}
	for _, tt := range tests {
		r, err := tt.tool.Call(t.Context(), aycoder.NewInvocation("c", "ask_user", mustJSON(t, tt.in), nil))
		require.NoError(t, err, tt.name)
		assert.True(t, r.IsError, tt.name)
		assert.True(t, strings.HasPrefix(r.Text(), tt.want), "%s: %s", tt.name, r.Text())
	}
	require.Equal(t, 1, asked)
}

// An answer that does not fit the question is an error, and so is the error of a host.
func TestAskUserOfABrokenHost(t *testing.T) {
	broken := errors.New("broken")
	for _, ask := range []func(context.Context, Question) (Answer, error){
		func(context.Context, Question) (Answer, error) { return Answer{Options: []int{1}}, nil },
		func(context.Context, Question) (Answer, error) { return Answer{Options: []int{-1}}, nil },
		func(context.Context, Question) (Answer, error) { return Answer{}, broken },
	} {
		raw := mustJSON(t, args{"question": "a", "options": []string{"b"}})
		_, err := askTool(t, ask).Call(t.Context(), aycoder.NewInvocation("c", "ask_user", raw, nil))
		require.Error(t, err)
	}
}

// The user is asked one question at a time, and calls that wait for their turn stop when
// they are cancelled.
func TestAskUserOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var open, most atomic.Int32
		tool := askTool(t, func(ctx context.Context, _ Question) (Answer, error) {
			most.Store(max(most.Load(), open.Add(1)))
			defer open.Add(-1)
			select {
			case <-time.After(time.Minute):
				return Answer{Text: "yes"}, nil
			case <-ctx.Done():
				return Answer{}, ctx.Err()
			}
		})
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		var answered, stopped atomic.Int32
		for range 5 {
			wg.Go(func() {
				_, err := tool.Call(ctx, aycoder.NewInvocation("c", "ask_user", mustJSON(t, args{"question": "a"}), nil))
				if err != nil {
					assert.ErrorIs(t, err, context.Canceled)
					stopped.Add(1)
					return
				}
				answered.Add(1)
			})
		}
		<-time.After(2*time.Minute + time.Second)
		cancel()
		wg.Wait()
		require.Equal(t, int32(1), most.Load())
		require.Equal(t, int32(2), answered.Load())
		require.Equal(t, int32(3), stopped.Load())
	})
}

// Without a function, the question is in the pending run, and its answer is the result.
func TestDeclareAskUser(t *testing.T) {
	tool, err := DeclareAskUser()
	require.NoError(t, err)
	function := askTool(t, nil).Spec()
	spec := tool.Spec()
	require.Equal(t, function.Description, spec.Description)
	for name, in := range map[string]any{
		"empty": args{"question": " "}, "long": args{"question": strings.Repeat("x", 4001)},
		"many options": args{"question": "a", "options": strings.Split("1 2 3 4 5 6 7 8 9 10 11", " ")},
		"same options": args{"question": "a", "options": []string{"a", "a"}},
	} {
		_, err := spec.CheckArgs(mustJSON(t, in))
		require.Error(t, err, name)
	}
	model := script.New(script.Call("ask_user", args{"question": "which\u200b?", "options": []string{"a", "b"}}), script.Say("done"))
	l, err := aycoder.New(model, aycoder.WithTools(tool))
	require.NoError(t, err)
	var res aycoder.Result
	for _, err := range l.Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.Into(&res)) {
		require.NoError(t, err)
	}
	require.Len(t, res.Pending.Calls, 1)
	call := &res.Pending.Calls[0]
	q, err := QuestionOf(call)
	require.NoError(t, err)
	require.Equal(t, Question{Text: "which<U+200B>?", Options: []string{"a", "b"}}, q)
	_, err = q.Result(Answer{Options: []int{2}})
	require.Error(t, err)
	answer, err := q.Result(Answer{Options: []int{1}, Text: "at once"})
	require.NoError(t, err)
	in := aycoder.Input{Pending: res.Pending, Results: []aycoder.CallResult{call.Result(answer)}}
	for _, err := range l.Run(t.Context(), in, aycoder.Into(&res)) {
		require.NoError(t, err)
	}
	require.Equal(t, "done", res.Text())
	require.Equal(t, "The user chose: b\nThe user says: at once\n", res.Messages[2].Parts[0].(*aycoder.ToolOutput).Text())
	_, err = QuestionOf(&aycoder.CallRequest{})
	require.Error(t, err)
}
