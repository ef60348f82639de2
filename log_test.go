package aycoder_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/providers/script"
)

// At debug level, a logger gets a line for what a run does, without texts. A tool that only reads starts before the model
// has finished, so the line about the answer may come after those about the call.
func ExampleWithLogger() {
	withoutTimes := func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey || a.Key == "took" {
			return slog.Attr{}
		}
		return a
	}
	logger := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: withoutTimes}))
	model := script.New(script.Call("weather", `{"city":"Oslo"}`), script.Say("It rains in Oslo."))
	agent, err := aycoder.New(model, aycoder.WithTools(weatherTool()), aycoder.WithLogger(logger),
		aycoder.WithIDs(func() string { return "r1" }))
	if err != nil {
		log.Fatal(err)
	}
	for _, err := range agent.Run(context.Background(), aycoder.Input{Prompt: "How is Oslo?"}) {
		if err != nil {
			log.Fatal(err)
		}
	}
	// Unordered output:
	// level=DEBUG msg=run_start run=r1 depth=0 messages=1 resumed=false
	// level=DEBUG msg=request run=r1 turn=1 model=script/script messages=1 bytes=208 tools=1
	// level=DEBUG msg=answer run=r1 stop=tool_use provider=script model=script id=msg_1 request_id=req_1
	// level=DEBUG msg=decision run=r1 id=call_1 name=weather verdict=allow by=policy
	// level=DEBUG msg=tool_start run=r1 id=call_1 name=weather
	// level=DEBUG msg=tool_end run=r1 id=call_1 name=weather is_error=false bytes=14
	// level=DEBUG msg=turn_end run=r1 turn=1 stop=tool_use provider=script model=script id=msg_1 request_id=req_1 input=44 output=6 cache_read=0 cache_write=0
	// level=DEBUG msg=request run=r1 turn=2 model=script/script messages=3 bytes=336 tools=1
	// level=DEBUG msg=answer run=r1 stop=end_turn provider=script model=script id=msg_2 request_id=req_2
	// level=DEBUG msg=turn_end run=r1 turn=2 stop=end_turn provider=script model=script id=msg_2 request_id=req_2 input=9 output=5 cache_read=44 cache_write=0
	// level=DEBUG msg=run_end run=r1 end=done turns=2 input=53 output=11 cache_read=44 cache_write=0
}

// lines collects what is logged, as JSON objects.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lines) logger(level slog.Leveler) *slog.Logger {
	return slog.New(slog.NewJSONHandler(l, &slog.HandlerOptions{Level: level}))
}

// kinds returns the messages of the lines, with their values of some keys.
func (l *lines) kinds(t *testing.T, keys ...string) (out []string) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for text := range strings.Lines(l.buf.String()) {
		var x map[string]any
		require.NoError(t, json.Unmarshal([]byte(text), &x))
		words := []string{fmt.Sprint(x["msg"])}
		for _, key := range keys {
			if v, ok := x[key]; ok {
				words = append(words, fmt.Sprint(v))
			}
		}
		out = append(out, strings.Join(words, " "))
	}
	return out
}

// logAsks asks about calls of write, forbids those of never, and allows others.
type logAsks struct{}

func (logAsks) Decide(_ context.Context, call *aycoder.ToolUse, _ *aycoder.ToolSpec) aycoder.Verdict {
	switch call.Name {
	case "write":
		return aycoder.Ask()
	case "never":
		return aycoder.Deny(said)
	}
	return aycoder.Allow()
}

// said is what nobody may find in a log.
const said = "S3CRET"

// Each thing that a run does has a line with ids, and nothing that somebody has written is in it. It is the same with a
// record function.
func TestLog(t *testing.T) {
	want := strings.Join([]string{
		"run_start", "request", "retry OverloadedError", "request", "answer",
		"decision echo allow policy", "decision never deny policy", "tool_end never ToolDeniedError",
		"decision fail allow policy", "approval_request write", "tool_start echo", "tool_start fail",
		"tool_end echo", "tool_end fail ToolError", "decision write deny user", "tool_end write ToolDeniedError", "turn_end",
		"request", "answer", "turn_end", "run_end done",
	}, "\n")
	for _, facts := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var out lines
			m := script.New(
				script.Fail(&aycoder.OverloadedError{ModelError: &aycoder.ModelError{Err: errors.New(said)}}),
				script.Reply(script.Call("echo", echoArgs{said}), script.Call("never", echoArgs{said}), script.Call("fail", echoArgs{said}),
					script.Call("write", echoArgs{said})),
				script.Say(said),
			)
			tool := func(name string, effect aycoder.Effect, err error) aycoder.Tool {
				return newTool(t, name, effect, func(context.Context, string) (string, error) {
					return said, err
				})
			}
			loop := newLoop(t, m, aycoder.WithTools(tool("echo", aycoder.EffectReadOnly, nil), tool("never", aycoder.EffectReadOnly, nil),
				tool("fail", aycoder.EffectReadOnly, errors.New(said)), tool("write", aycoder.EffectWrite, nil)),
				aycoder.WithLogger(out.logger(slog.LevelDebug)), aycoder.WithApprover(logAsks{}), aycoder.WithIDs(func() string { return "r1" }))
			var opts []aycoder.RunOption
			records := 0
			if facts {
				opts = append(opts, aycoder.WithFacts(func(context.Context, *aycoder.FactRecord) error { records++; return nil }))
			}
			for ev, err := range loop.Run(t.Context(), aycoder.Input{Prompt: said}, opts...) {
				require.NoError(t, err)
				if q, ok := ev.(*aycoder.ApprovalRequested); ok {
					q.Deny(said)
				}
			}
			got := out.kinds(t, "name", "verdict", "by", "error", "end")
			require.ElementsMatch(t, strings.Split(want, "\n"), got)
			require.Equal(t, facts, records > 0)
			require.Equal(t, []string{"run_start", "request", "retry OverloadedError", "request"}, got[:4])
			require.Equal(t, "run_end done", got[len(got)-1])
			require.NotContains(t, out.buf.String(), said)
			require.Equal(t, len(got), strings.Count(out.buf.String(), `"run":"r1"`))
		})
	}
}

// A run that fails or is cancelled says so, and one whose logger wants less says nothing.
func TestLogEnds(t *testing.T) {
	end := func(level slog.Level, m aycoder.ModelClient, leave bool) []string {
		var out lines
		for range newLoop(t, m, aycoder.WithLogger(out.logger(level))).Run(t.Context(), aycoder.Input{Prompt: said}) {
			if leave {
				break
			}
		}
		require.NotContains(t, out.buf.String(), said)
		got := out.kinds(t, "error", "end")
		return got[max(len(got)-1, 0):]
	}
	slow := &fake{turns: [][]any{{&aycoder.TextDelta{Text: said}, func(ctx context.Context) { <-ctx.Done() }}}}
	auth := &aycoder.AuthError{ModelError: &aycoder.ModelError{Err: errors.New(said)}}
	require.Equal(t, []string{"run_end AuthError failed"}, end(slog.LevelDebug, script.New(script.Fail(auth)), false))
	require.Equal(t, []string{"run_end other cancelled"}, end(slog.LevelDebug, slow, true))
	require.Empty(t, end(slog.LevelInfo, script.New(script.Fail(auth)), false))
}

// Runs inside calls are in the log of the run around them, unless they have their own.
func TestLogOfNestedRuns(t *testing.T) {
	for _, own := range []bool{false, true} {
		var outer, inner lines
		var opts []aycoder.Option
		if own {
			opts = append(opts, aycoder.WithLogger(inner.logger(slog.LevelDebug)))
		}
		child := newLoop(t, script.New(script.Say("x")), opts...)
		loop := newLoop(t, script.New(script.Call("agent", echoArgs{"x"}), script.Say("y")), aycoder.WithTools(nest(t, child)),
			aycoder.WithLogger(outer.logger(slog.LevelDebug)))
		for _, err := range loop.Run(t.Context(), aycoder.Input{Prompt: "x"}) {
			require.NoError(t, err)
		}
		inside := &outer
		if own {
			inside = &inner
		}
		starts := inside.kinds(t, "agent", "depth")
		require.Contains(t, starts, "run_start agent 1")
		require.Equal(t, !own, len(inner.kinds(t)) == 0)
		require.Contains(t, outer.kinds(t, "depth"), "run_start 0")
	}
}

// A handler that blocks, panics or ends its goroutine holds up neither the consumer nor, for longer than the grace, the end of a run.
func TestLogHandlerFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		loop := newLoop(t, script.New(script.Say("x")), aycoder.WithLogger(slog.New(handlerFunc(func() { <-free }))),
			aycoder.WithLimits(aycoder.Limits{Grace: time.Minute}))
		start, events := time.Now(), 0
		for ev, err := range loop.Run(t.Context(), aycoder.Input{Prompt: "x"}) {
			require.NoError(t, err)
			if _, end := ev.(*aycoder.RunFinished); !end {
				require.Zero(t, time.Since(start), "an event waits for the handler")
				events++
			}
		}
		require.Equal(t, time.Minute, time.Since(start))
		require.Positive(t, events)
		close(free)
	})
	for _, fail := range []func(){func() { panic("no") }, runtime.Goexit} {
		loop := newLoop(t, script.New(script.Say("x")), aycoder.WithLogger(slog.New(handlerFunc(fail))))
		for _, err := range loop.Run(t.Context(), aycoder.Input{Prompt: "x"}) {
			require.NoError(t, err)
		}
	}
}

// A handler that panics loses the line, also where the run has a problem to tell.
func TestLogHandlerPanics(t *testing.T) {
	approver := aycoder.ApproverFunc(func(context.Context, *aycoder.ToolUse, *aycoder.ToolSpec) aycoder.Verdict { panic("approver") })
	write := newTool(t, "echo", aycoder.EffectWrite, echo)
	for _, h := range []slog.Handler{handlerFunc(func() { panic("no") }), deafHandler{}} {
		m := &fake{turns: [][]any{calls(use("a", "echo", `{"text":"x"}`)), say("done")}}
		loop := newLoop(t, m, aycoder.WithTools(write), aycoder.WithApprover(approver), aycoder.WithLogger(slog.New(h)))
		var res aycoder.Result
		_, err := collect(loop.Run(t.Context(), aycoder.Input{Prompt: "x"}, aycoder.Into(&res)))
		require.NoError(t, err)
		require.Equal(t, "done", res.Text())
	}
}

type deafHandler struct{ handlerFunc }

func (deafHandler) Enabled(context.Context, slog.Level) bool { panic("no") }

type handlerFunc func()

func (handlerFunc) Enabled(context.Context, slog.Level) bool    { return true }
func (f handlerFunc) Handle(context.Context, slog.Record) error { f(); return nil }
func (f handlerFunc) WithAttrs([]slog.Attr) slog.Handler        { return f }
func (f handlerFunc) WithGroup(string) slog.Handler             { return f }

// Each event has a value that begins with its type, and in which nothing is long or was written by somebody.
func TestEventsLogValues(t *testing.T) {
	timed.Serial(t)
	long := strings.Repeat("x", 1<<20)
	cost := 0.5
	call := &aycoder.ToolUse{ID: long, Name: long, Args: json.RawMessage(`"` + said + `"`)}
	file := &edit.FileResult{Path: said, Reason: said}
	secret := errors.New(said)
	events := []aycoder.Event{
		&aycoder.TextDelta{Text: said}, &aycoder.ThinkingDelta{Text: said}, &aycoder.ToolDelta{ID: long, Name: long, Args: said},
		&aycoder.ToolStarted{Call: call, Args: call.Args, Subject: said}, &aycoder.ToolProgress{CallID: long, Progress: aycoder.Progress{Message: said}},
		&aycoder.ToolFinished{Call: call, Subject: said, Summary: said, Err: secret,
			Output: &aycoder.ToolOutput{ID: long, Name: long, Parts: []aycoder.Part{&aycoder.Text{Text: said}}}},
		&aycoder.ApprovalRequested{Request: aycoder.ApprovalRequest{CallID: long, Tool: long, Key: long, Subject: said, Preview: said,
			Args: call.Args, Reasons: []string{said}, Suggested: []string{said}}},
		&aycoder.CallRequested{Request: aycoder.CallRequest{CallID: long, Tool: long, Args: call.Args}},
		&aycoder.Merged{Call: call, File: file}, &aycoder.Conflicted{Call: call, File: file},
		&aycoder.ChildEvent{CallID: long, Event: &aycoder.ChildEvent{CallID: long, Event: &aycoder.TextDelta{Text: said}}},
		&aycoder.TurnFinished{Turn: 1, Stop: aycoder.StopReason(long), Cost: &cost, Provider: long, Model: long, ID: long, RequestID: long},
		&aycoder.Retrying{Err: secret}, &aycoder.Compacting{Reason: "threshold"},
		&aycoder.Compacted{Summary: said, Note: call.Args, Error: said, Cost: &cost, Model: long, Provider: long},
		&aycoder.SetupChanged{Model: long, Added: []string{said}, Tools: map[string]aycoder.Effect{said: aycoder.EffectWrite}},
		&aycoder.JobsChanged{Jobs: []aycoder.Job{{ID: said}}}, &aycoder.Notice{Source: long, Text: said},
		&aycoder.RunFinished{Result: &aycoder.Result{Messages: []*aycoder.Message{aycoder.User(said)}}}, &aycoder.RunFinished{},
	}
	kinds := map[string]bool{}
	for _, ev := range events {
		var out lines
		out.logger(slog.LevelInfo).Info("x", "event", ev)
		text := out.buf.String()
		require.NotContains(t, text, said, "%T", ev)
		require.Less(t, len(text), 1500, "%T", ev)
		var got struct{ Event struct{ Type string } }
		require.NoError(t, json.Unmarshal([]byte(text), &got))
		if end, ok := ev.(*aycoder.RunFinished); !ok || end.Result != nil {
			data, err := json.Marshal(ev)
			require.NoError(t, err)
			var want struct{ Type string }
			require.NoError(t, json.Unmarshal(data, &want))
			require.Equal(t, want.Type, got.Event.Type)
		}
		kinds[got.Event.Type] = true
	}
	data, err := os.ReadFile("event.go")
	require.NoError(t, err)
	all := strings.Count(string(data), ") event() ") + 1 // and JobsChanged
	require.Len(t, kinds, all)
}
