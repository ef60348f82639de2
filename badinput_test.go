package aycoder_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/timed"
)

// A model may send anything: each case ends with a valid history, and with an output or
// an error that says what was wrong.
func TestBadInputFromTheModel(t *testing.T) {
	panics := newTool(t, "panics", aycoder.EffectReadOnly, func(context.Context, string) (string, error) { panic("boom") })
	exits := newTool(t, "exits", aycoder.EffectReadOnly, func(context.Context, string) (string, error) {
		runtime.Goexit()
		return "", nil
	})
	late := newTool(t, "late", aycoder.EffectReadOnly, func(context.Context, string) (string, error) {
		return "", fmt.Errorf("query: %w", context.DeadlineExceeded)
	})
	tools := aycoder.WithTools(newTool(t, "echo", aycoder.EffectReadOnly, echo), panics, exits, late)
	tests := []struct {
		name string
		call *aycoder.BlockDone
		want string
		is   func(error) bool
	}{
		{"unknown tool", use("a", "ecko", `{"text":"x"}`), "no such tool; there are echo", is[*aycoder.ToolNotFoundError]},
		{"wrong arguments", use("a", "echo", `{"txt":1}`), "/text: required", is[*aycoder.ToolArgsError]},
		{"arguments are no JSON", use("a", "echo", `{"text":`), "invalid arguments", is[*aycoder.ToolArgsError]},
		{"arguments are a list", use("a", "echo", `[]`), "invalid arguments", is[*aycoder.ToolArgsError]},
		{"no arguments", use("a", "echo", ``), "/text: required", is[*aycoder.ToolArgsError]},
		{"null arguments", use("a", "echo", `null`), "/text: required", is[*aycoder.ToolArgsError]},
		{"invalid UTF-8", use("a", "echo", "{\"text\":\"\xff\x00\"}"), "", is[error]},
		{"NUL in the name", use("a", "ec\x00ho", `{}`), "no such tool", is[*aycoder.ToolNotFoundError]},
		{"long name", use("a", strings.Repeat("x", 1<<20), `{}`), "no such tool", is[*aycoder.ToolNotFoundError]},
		{"panic", use("a", "panics", `{"text":"x"}`), "the tool broke down: panic: boom", is[*aycoder.ToolPanicError]},
		{"exit", use("a", "exits", `{"text":"x"}`), "goroutine exited", is[*aycoder.ToolError]},
		{"timeout", use("a", "late", `{"text":"x"}`), "timed out", is[*aycoder.ToolTimeoutError]},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var res aycoder.Result
			events, err := collect(newLoop(t, &fake{turns: [][]any{calls(tt.call), say("ok")}}, tools).Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.Into(&res)))
			require.NoError(t, err)
			require.NoError(t, aycoder.CheckHistory(res.Messages))
			out := res.Messages[2].Parts[0].(*aycoder.ToolOutput)
			require.Contains(t, out.Text(), tt.want)
			require.Less(t, len(out.Text()), 10<<10)
			for _, ev := range events {
				if f, ok := ev.(*aycoder.ToolFinished); ok && tt.want != "" {
					require.True(t, out.IsError)
					require.True(t, tt.is(f.Err), "%T", f.Err)
				}
			}
			requireClean(t, res.Messages)
		})
	}
}

func is[T error](err error) bool {
	_, ok := errors.AsType[T](err)
	return ok
}

// requireClean checks that JSON, terminals and databases can hold a history.
func requireClean(t *testing.T, messages []*aycoder.Message) {
	t.Helper()
	data, err := json.Marshal(messages)
	require.NoError(t, err)
	require.True(t, utf8.Valid(data))
	require.NotContains(t, string(data), "\\u0000")
}

func TestTextFromTheModelIsCleaned(t *testing.T) {
	m := &fake{turns: [][]any{say("a\xff\x00b\xf0\x9f")}}
	var res aycoder.Result
	events, err := collect(newLoop(t, m).Run(t.Context(), aycoder.Input{Prompt: "p\xff\x00"}, aycoder.Into(&res)))
	require.NoError(t, err)
	requireClean(t, res.Messages)
	require.Equal(t, "a\uFFFD\uFFFDb\uFFFD", res.Text())
	require.Equal(t, "a\uFFFD\uFFFDb\uFFFD", events[0].(*aycoder.TextDelta).Text)
}

func TestLargeToolResultIsBounded(t *testing.T) {
	big := newTool(t, "big", aycoder.EffectReadOnly, func(context.Context, string) (string, error) {
		return "HEAD" + strings.Repeat("日", 50<<20/3) + "TAIL", nil
	})
	var res aycoder.Result
	_, err := collect(newLoop(t, &fake{turns: [][]any{calls(use("a", "big", `{"text":""}`)), say("ok")}}, aycoder.WithTools(big)).Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.Into(&res)))
	require.NoError(t, err)
	out := lastOutputs(&res)[0]
	require.LessOrEqual(t, len(out), 256<<10)
	require.True(t, strings.HasPrefix(out, "HEAD") && strings.HasSuffix(out, "TAIL"))
	require.Contains(t, out, "bytes are left out here")
	requireClean(t, res.Messages)
}

// Whatever a call gives, the model gets no more text than the limit, notices included.
func TestToolOutputLimitHolds(t *testing.T) {
	timed.Serial(t)
	long := strings.Repeat("日", 1<<20)
	texts := func(n int, s string) (parts []aycoder.Part) {
		for range n {
			parts = append(parts, &aycoder.Text{Text: s})
		}
		return parts
	}
	type numbers struct{ M map[string]int }
	type words struct{ M map[string]string }
	var pairs strings.Builder
	for i := range 300 {
		fmt.Fprintf(&pairs, `,"key%d":"v"`, i)
	}
	args := `{"M":{"` + strings.Repeat("k", 2000) + `":"v"` + pairs.String() + `}}`
	mixed := append(texts(1, long), &aycoder.Media{Type: "x/" + long[:3000], Data: make([]byte, 17<<20)}, &aycoder.Text{Text: "END"})
	tests := []struct {
		name  string
		parts []aycoder.Part
		err   error
		want  string
	}{
		{"as long as the limit", texts(1, long[:limitOfTest]), nil, long[:limitOfTest]},
		{"one byte more", texts(1, "x"+long[:limitOfTest]), nil, "bytes are left out here"},
		{"one text", texts(1, long), nil, "bytes are left out here"},
		{"two texts", append(texts(1, long), &aycoder.Text{Text: "END"}), nil, "END"},
		{"many texts", texts(100, long), nil, "…"},
		{"many short texts", texts(100, "x"), nil, strings.Repeat("x", 64) + "[further parts are left out]"},
		{"media that is too large", mixed, nil, "END"},
		{"error", nil, errors.New(long), "bytes are left out here"},
		{"arguments that do not fit", nil, nil, "invalid arguments"},
	}
	for _, tt := range tests {
		for _, edited := range []bool{false, true} {
			t.Run(fmt.Sprint(tt.name, ", edited ", edited), func(t *testing.T) {
				tool, err := aycoder.NewTool("big", "A tool.", func(context.Context, *aycoder.Invocation, words) (*aycoder.ToolResult, error) {
					return &aycoder.ToolResult{Parts: tt.parts}, tt.err
				})
				if tt.want == "invalid arguments" {
					tool, err = aycoder.NewTool("big", "A tool.", func(context.Context, *aycoder.Invocation, numbers) (*aycoder.ToolResult, error) {
						return nil, nil
					})
				}
				require.NoError(t, err)
				verdict := aycoder.Allow()
				if edited {
					verdict = aycoder.AllowWith(json.RawMessage(args))
				}
				decide := aycoder.ApproverFunc(func(context.Context, *aycoder.ToolUse, *aycoder.ToolSpec) aycoder.Verdict { return verdict })
				l := newLoop(t, &fake{turns: [][]any{calls(use("a", "big", args)), say("ok")}}, aycoder.WithTools(tool),
					aycoder.WithApprover(decide), aycoder.WithLimits(aycoder.Limits{ToolOutput: limitOfTest}))
				var res aycoder.Result
				_, err = collect(l.Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.Into(&res)))
				require.NoError(t, err)
				out := lastOutputs(&res)[0]
				require.LessOrEqual(t, len(out), limitOfTest)
				requireClean(t, res.Messages)
				if !edited {
					require.Contains(t, out, tt.want)
				}
			})
		}
	}
}

const limitOfTest = 1026 // the smallest limit that whole runes of three bytes fill

// The output of a call that was stopped at work says what is so: a tool that only reads
// has no outcome that could be unknown, and the tool's own words stay.
func TestOutputOfStoppedCall(t *testing.T) {
	const stopped = "stopped: the run was cancelled while this call worked"
	userLeft := errors.New("the user left")
	wrap := func(err error) error { return fmt.Errorf("copied 3 of 5 files: %w", err) }
	tests := []struct {
		name   string
		effect aycoder.Effect
		fails  func(ctx context.Context) error // nil: it does not stop
		want   string
	}{
		{"reads", aycoder.EffectReadOnly, context.Context.Err, stopped},
		{"reads, cause", aycoder.EffectReadOnly, context.Cause, stopped},
		{"reads, does not stop", aycoder.EffectReadOnly, nil, stopped},
		{"writes", aycoder.EffectWrite, context.Context.Err, stopped + "; its outcome is unknown"},
		{"unknown effect", aycoder.EffectUnknown, context.Cause, stopped + "; its outcome is unknown"},
		{"writes, does not stop", aycoder.EffectWrite, nil, stopped + "; its outcome is unknown"},
		{"writes, says more", aycoder.EffectWrite, func(ctx context.Context) error { return wrap(ctx.Err()) },
			stopped + "; its outcome is unknown; the tool said: copied 3 of 5 files: context canceled"},
		{"reads, says more", aycoder.EffectReadOnly, func(ctx context.Context) error { return wrap(context.Cause(ctx)) },
			stopped + "; the tool said: copied 3 of 5 files: the user left"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				release := make(chan bool)
				tool := newTool(t, "work", tt.effect, func(ctx context.Context, _ string) (string, error) {
					cancel(userLeft)
					<-ctx.Done()
					if tt.fails == nil {
						<-release
						return "late", nil
					}
					return "", tt.fails(ctx)
				})
				var res aycoder.Result
				l := newLoop(t, &fake{turns: [][]any{calls(use("a", "work", `{"text":""}`))}}, aycoder.WithTools(tool), aycoder.WithApprover(allow))
				var fin *aycoder.ToolFinished
				for ev, err := range l.Run(ctx, aycoder.Input{Prompt: "go"}, aycoder.Into(&res)) {
					if err != nil {
						require.ErrorIs(t, err, context.Canceled)
						require.ErrorIs(t, err, userLeft)
					}
					if f, ok := ev.(*aycoder.ToolFinished); ok {
						fin = f
					}
				}
				close(release)
				require.Equal(t, []string{tt.want}, lastOutputs(&res))
				require.Equal(t, tt.want, fin.Output.Text())
				gone, ok := errors.AsType[*aycoder.ToolCancelledError](fin.Err)
				require.True(t, ok, "%T", fin.Err)
				require.Equal(t, tt.fails == nil, gone.Abandoned)
			})
		})
	}
}

func TestTenThousandCallsInOneMessage(t *testing.T) {
	var blocks []any
	for n := range 10_000 {
		blocks = append(blocks, use(fmt.Sprint("c", n%5000), "echo", `{"text":"x"}`)) // ids repeat, too
	}
	var res aycoder.Result
	_, err := collect(newLoop(t, &fake{turns: [][]any{calls(blocks...), say("ok")}}, aycoder.WithTools(newTool(t, "echo", aycoder.EffectReadOnly, echo))).Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.Into(&res)))
	require.NoError(t, err)
	require.NoError(t, aycoder.CheckHistory(res.Messages))
	outs := lastOutputs(&res)
	require.Len(t, outs, 2*128, "further calls are left out: see Limits.Calls")
	ran := 0
	for _, o := range outs {
		if o == "got x" {
			ran++
		}
	}
	require.Equal(t, 128, ran)
}

func TestEndlessStreamEnds(t *testing.T) {
	tests := map[string]aycoder.ModelEvent{
		"text":     &aycoder.TextDelta{Text: strings.Repeat("x", 1000)},
		"nothing":  &aycoder.TextDelta{},
		"thinking": &aycoder.ThinkingDelta{Text: "hm"},
		"args":     &aycoder.ToolDelta{ID: "a", Args: "xx"},
		"blocks":   textDone("x"),
		"calls":    use("", "echo", `{"text":"x"}`),
	}
	for name, ev := range tests {
		t.Run(name, func(t *testing.T) {
			endless := aycoder.ModelFunc(func(context.Context, *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
				return func(yield func(aycoder.ModelEvent, error) bool) {
					for yield(ev, nil) {
					}
				}
			})
			l := newLoop(t, endless, aycoder.WithLimits(aycoder.Limits{Response: 100_000}), aycoder.WithTools(newTool(t, "echo", aycoder.EffectReadOnly, echo)))
			var res aycoder.Result
			_, err := collect(l.Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.Into(&res)))
			limit, ok := errors.AsType[*aycoder.LimitError](err)
			require.True(t, ok, "%v", err)
			require.Equal(t, int64(100_000), limit.Max)
			require.NoError(t, aycoder.CheckHistory(res.Messages))
		})
	}
}

func textDone(s string) *aycoder.BlockDone {
	return &aycoder.BlockDone{Part: &aycoder.Text{Text: s}}
}

func TestClientThatBreaksItsContract(t *testing.T) {
	tests := []struct {
		name   string
		events []any
		want   string
	}{
		{"no MessageDone", []any{textDone("x")}, "connection lost: stream ended before the message was complete"},
		{"nil part", []any{&aycoder.BlockDone{}}, "client yields what does not fit"},
		{"nil call", []any{&aycoder.BlockTruncated{}}, "client yields what does not fit"},
		{"output", []any{&aycoder.BlockDone{Part: &aycoder.ToolOutput{ID: "x"}}}, "client yields what does not fit"},
		{"panic", []any{func(context.Context) { panic("boom") }}, "client panicked: boom"},
		{"exit", []any{func(context.Context) { runtime.Goexit() }}, "goroutine exited before it returned"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := newLoop(t, &fake{turns: [][]any{tt.events}}, aycoder.WithRetry(aycoder.RetryPolicy{Attempts: -1}))
			var res aycoder.Result
			_, err := collect(l.Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.Into(&res)))
			require.ErrorContains(t, err, tt.want)
			require.Equal(t, aycoder.EndFailed, res.End)
			require.Len(t, res.Messages, 1)
		})
	}
}

func TestToolThatIgnoresCancelIsAbandoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		release := make(chan bool)
		began := make(chan bool)
		deaf := newTool(t, "deaf", aycoder.EffectReadOnly, func(context.Context, string) (string, error) {
			close(began)
			<-release
			return "late", nil
		})
		go func() { <-began; cancel() }()
		start := time.Now()
		var res aycoder.Result
		var lost error
		l := newLoop(t, &fake{turns: [][]any{calls(use("a", "deaf", `{"text":""}`))}}, aycoder.WithTools(deaf), aycoder.WithLimits(aycoder.Limits{Grace: 300 * time.Millisecond}))
		for ev, err := range l.Run(ctx, aycoder.Input{Prompt: "go"}, aycoder.Into(&res)) {
			if err != nil {
				require.ErrorIs(t, err, context.Canceled)
			}
			if f, ok := ev.(*aycoder.ToolFinished); ok {
				lost = f.Err
			}
		}
		require.Equal(t, 300*time.Millisecond, time.Since(start))
		gone, ok := errors.AsType[*aycoder.ToolCancelledError](lost)
		require.True(t, ok && gone.Abandoned)
		require.Equal(t, "stopped: the run was cancelled while this call worked", lastOutputs(&res)[0])
		before := len(res.Messages)
		close(release)
		synctest.Wait()
		require.Len(t, res.Messages, before, "the late result is thrown away")
	})
}

func TestCancelKeepsWhatWasSaid(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	m := &fake{turns: [][]any{{&aycoder.TextDelta{Text: "half an ans"}, func(ctx context.Context) { <-ctx.Done() }, &aycoder.TextDelta{Text: "wer"}}, say("ok")}}
	l := newLoop(t, m)
	var res aycoder.Result
	for ev := range l.Run(ctx, aycoder.Input{Prompt: "go"}, aycoder.Into(&res)) {
		if _, ok := ev.(*aycoder.TextDelta); ok {
			cancel()
		}
	}
	require.Equal(t, aycoder.EndCancelled, res.End)
	require.Equal(t, "half an ans", res.Text())
	_, err := collect(l.Run(t.Context(), aycoder.Input{Messages: res.Messages, Prompt: "go on"}, aycoder.Into(&res)))
	require.NoError(t, err)
	require.Len(t, res.Messages, 4)
}

func TestFatalEndsTheRun(t *testing.T) {
	full := errors.New("disk full")
	tool := newTool(t, "write", aycoder.EffectWrite, func(context.Context, string) (string, error) { return "", aycoder.Fatal(full) })
	var res aycoder.Result
	_, err := collect(newLoop(t, &fake{turns: [][]any{calls(use("a", "write", `{"text":""}`)), say("never")}}, aycoder.WithTools(tool), aycoder.WithApprover(allow)).Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.Into(&res)))
	require.ErrorIs(t, err, full)
	require.Equal(t, []string{"disk full"}, lastOutputs(&res))
	require.NoError(t, aycoder.CheckHistory(res.Messages))
}

// A run whose other call waits for an answer ends with the error, too, and not to be continued.
func TestFatalEndsTheRunThatWaits(t *testing.T) {
	full, left := errors.New("disk full"), make(chan struct{})
	read := newTool(t, "read", aycoder.EffectReadOnly, func(context.Context, string) (string, error) {
		<-left
		return "", aycoder.Fatal(full)
	})
	write := newTool(t, "write", aycoder.EffectWrite, func(context.Context, string) (string, error) { return "never", nil })
	loop := newLoop(t, &fake{turns: [][]any{calls(use("a", "read", `{"text":""}`), use("b", "write", `{"text":""}`)), say("never")}},
		aycoder.WithTools(read, write), aycoder.WithApprover(byTool(map[string]aycoder.Verdict{"read": aycoder.Allow(), "write": aycoder.Ask()})))
	var res aycoder.Result
	var failed error
	for ev, err := range loop.Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.Into(&res)) {
		failed = err
		if q, ok := ev.(*aycoder.ApprovalRequested); ok {
			require.True(t, q.Detach().Leave())
			close(left)
		}
	}
	require.ErrorIs(t, failed, full)
	require.Equal(t, aycoder.EndCancelled, res.End)
	require.Nil(t, res.Pending)
	require.Equal(t, []string{"disk full", "not run: the run was cancelled"}, lastOutputs(&res))
	require.NoError(t, aycoder.CheckHistory(res.Messages))
}

// A result is that of the run or turn that it is given to, even if that does not begin.
func TestResultOfWhatDoesNotBegin(t *testing.T) {
	broken := func(*aycoder.RunConfig) error { return errors.New("broken option") }
	loop := newLoop(t, &fake{})
	for name, run := range map[string]func(*aycoder.Result) error{
		"option after": func(res *aycoder.Result) error {
			_, err := collect(loop.Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.Into(res), broken))
			return err
		},
		"option before": func(res *aycoder.Result) error {
			_, err := collect(loop.Run(t.Context(), aycoder.Input{Prompt: "go"}, nil, broken, aycoder.Into(res)))
			return err
		},
		"no loop": func(res *aycoder.Result) error {
			_, err := collect((*aycoder.Loop)(nil).Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.Into(res)))
			return err
		},
	} {
		res := aycoder.Result{End: aycoder.EndDone, Turns: 3}
		require.Error(t, run(&res), name)
		require.Equal(t, aycoder.Result{End: aycoder.EndFailed}, res, name)
	}
	turn := aycoder.TurnResult{More: true, Messages: []*aycoder.Message{aycoder.Assistant("old")}}
	_, err := collect(loop.Turn(t.Context(), &aycoder.Request{Messages: []*aycoder.Message{nil}}, &turn))
	require.Error(t, err)
	require.Zero(t, turn)
}

func TestBadInputFromTheHost(t *testing.T) {
	nothing := func(t *testing.T, in aycoder.Input, want string) {
		var res aycoder.Result
		events, err := collect(newLoop(t, &fake{}).Run(t.Context(), in, aycoder.Into(&res)))
		require.ErrorContains(t, err, want)
		require.Empty(t, events)
		require.Equal(t, in.Messages, res.Messages, "nothing is lost")
	}
	nothing(t, aycoder.Input{}, "nothing to answer")
	nothing(t, aycoder.Input{Messages: []*aycoder.Message{aycoder.Assistant("x")}}, "nothing to answer")
	nothing(t, aycoder.Input{Messages: []*aycoder.Message{msg(aycoder.RoleAssistant, callPart("a"))}, Prompt: "x"}, "no output")
	nothing(t, aycoder.Input{Pending: &aycoder.Pending{}, Prompt: "x"}, "Pending goes alone")
	nothing(t, aycoder.Input{Pending: &aycoder.Pending{}}, "the run was not started")

	bad := []aycoder.Option{
		aycoder.WithTools(nil), aycoder.WithApprover(nil), aycoder.WithLimits(aycoder.Limits{Turns: -1}), aycoder.WithLimits(aycoder.Limits{Calls: -1}),
		aycoder.WithLimits(aycoder.Limits{ToolOutput: 1}), aycoder.WithLimits(aycoder.Limits{Parallel: -1}), aycoder.WithLimits(aycoder.Limits{Grace: -1}), aycoder.WithLogger(nil),
		aycoder.WithClock(nil), aycoder.WithIDs(nil), aycoder.WithExecutor(nil), aycoder.WithContext(nil),
		aycoder.WithRandom(nil), aycoder.WithLimits(aycoder.Limits{Response: -1}), aycoder.WithLimits(aycoder.Limits{Tokens: -1}),
		aycoder.WithLimits(aycoder.Limits{Approval: -1}),
		aycoder.WithTools(newTool(t, "x", 0, echo), newTool(t, "x", 0, echo)),
	}
	for _, opt := range bad {
		_, err := aycoder.New(&fake{}, opt)
		require.True(t, is[*aycoder.ConfigError](err), "%v", err)
	}
	_, err := aycoder.New(nil, bad...)
	require.Equal(t, len(bad)+1, strings.Count(err.Error(), "\n")+1, "all at once: %v", err)
}

// A priceless is a client whose price panics. Its stream ends with a message, calls yield again if it does not listen,
// and lets no panic through if it swallows them.
type priceless struct{ deaf, swallows bool }

func (priceless) ModelInfo(string) (aycoder.ModelInfo, bool) { panic("no price") }

func (c priceless) Stream(context.Context, *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
	return func(yield func(aycoder.ModelEvent, error) bool) {
		if c.swallows {
			defer func() { _ = recover() }()
			yield(&aycoder.MessageDone{Stop: aycoder.StopEndTurn, Usage: aycoder.Usage{Output: 1}}, nil)
		}
		for _, ev := range say("a") {
			if done, ok := ev.(*aycoder.MessageDone); ok {
				done.Usage = aycoder.Usage{}
			}
			if !yield(ev.(aycoder.ModelEvent), nil) && c.deaf {
				yield(&aycoder.TextDelta{Text: "more"}, nil)
			}
		}
	}
}

// A client that hides a panic of the loop does not make the run wait for ever, and what it yields after the end of its
// answer is not part of the answer.
func TestClientThatDoesNotListen(t *testing.T) {
	run := func(c priceless) ([]aycoder.Event, *aycoder.Result, error) {
		agent := newLoop(t, c, aycoder.WithRetry(aycoder.RetryPolicy{Attempts: -1}))
		var res aycoder.Result
		events, err := collect(agent.Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.Into(&res)))
		return events, &res, err
	}
	_, _, err := run(priceless{swallows: true})
	require.ErrorContains(t, err, "client recovered a panic")
	_, res, err := run(priceless{deaf: true})
	require.NoError(t, err)
	require.Equal(t, "a", res.Text())
	require.Equal(t, aycoder.EndDone, res.End)
}
