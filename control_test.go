package aycoder_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/edit"
)

func TestSteerAndFollowUp(t *testing.T) {
	m := &fake{turns: [][]any{calls(use("a", "echo", `{"text":"x"}`)), say("first"), say("second"), say("third")}}
	var ctl aycoder.Control
	var res aycoder.Result
	seq := newLoop(t, m, aycoder.WithTools(newTool(t, "echo", aycoder.EffectReadOnly, echo))).
		Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.Into(&res), aycoder.WithControl(&ctl))
	for ev, err := range seq {
		require.NoError(t, err)
		switch ev := ev.(type) {
		case *aycoder.ToolFinished:
			ctl.Steer("look left")
			ctl.FollowUp("and then?")
		case *aycoder.TurnFinished:
			if ev.Turn == 3 {
				ctl.Steer("one more")
			}
		}
	}
	var roles []string
	for _, x := range res.Messages {
		roles = append(roles, string(x.Role)+":"+x.Text())
	}
	require.Equal(t, []string{"user:go", "assistant:", "user:", "user:look left", "assistant:first",
		"user:and then?", "assistant:second", "user:one more", "assistant:third"}, roles)
	require.Empty(t, ctl.Queued())
	require.Equal(t, res.Messages, ctl.State().Messages())
}

func TestWhatWasNotHeardIsSaidInTheNextRun(t *testing.T) {
	m := &fake{turns: [][]any{say("one"), say("two")}}
	var ctl aycoder.Control
	ctl.Steer("") // nothing
	l := newLoop(t, m)
	var res aycoder.Result
	for range l.Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.Into(&res), aycoder.WithControl(&ctl)) {
		ctl.Steer("late")
		break
	}
	require.Len(t, ctl.Queued(), 1)
	require.Equal(t, ctl.Queued(), ctl.Drain())
	require.Empty(t, ctl.Queued())
	ctl.Steer("late")
	_, err := collect(l.Run(t.Context(), aycoder.Input{Messages: res.Messages, Prompt: "again"}, aycoder.Into(&res), aycoder.WithControl(&ctl)))
	require.NoError(t, err)
	require.Empty(t, ctl.Queued())
	require.Equal(t, "late", res.Messages[len(res.Messages)-2].Text())
}

func TestControlServesOneRun(t *testing.T) {
	var ctl aycoder.Control
	l := newLoop(t, &fake{turns: [][]any{say("one"), say("two")}})
	for range l.Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.WithControl(&ctl)) {
		_, err := collect(l.Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.WithControl(&ctl)))
		require.ErrorContains(t, err, "serves another run")
		break
	}
}

// Readers see whole states and never wait for the run, as -race checks.
func TestStateIsReadWhileTheRunWorks(t *testing.T) {
	var turns [][]any
	for n := range 200 {
		turns = append(turns, calls(use(fmt.Sprint("c", n), "echo", `{"text":"x"}`)))
	}
	var ctl aycoder.Control
	stop := make(chan bool)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			seen := 0
			for {
				select {
				case <-stop:
					return
				default:
				}
				messages := ctl.State().Messages()
				if len(messages) < seen {
					t.Error("a snapshot went back")
				}
				seen = len(messages)
				if err := aycoder.CheckHistory(messages); err != nil {
					t.Error(err)
				}
			}
		})
	}
	l := newLoop(t, &fake{turns: append(turns, say("done"))}, aycoder.WithLimits(aycoder.Limits{Turns: 1000}), aycoder.WithTools(newTool(t, "echo", aycoder.EffectReadOnly, echo)))
	_, err := collect(l.Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.WithControl(&ctl)))
	close(stop)
	wg.Wait()
	require.NoError(t, err)
}

func TestTurnForLoopsOfOnesOwn(t *testing.T) {
	paused := []any{textDone("I will"), &aycoder.MessageDone{Stop: aycoder.StopPaused}}
	m := &fake{turns: [][]any{calls(use("a", "echo", `{"text":"x"}`)), paused, say("done")}}
	l := newLoop(t, m, aycoder.WithTools(newTool(t, "echo", aycoder.EffectReadOnly, echo)))
	req := &aycoder.Request{Messages: []*aycoder.Message{aycoder.User("go")}}
	var res aycoder.TurnResult
	turns := 0
	for more := true; more; more = res.More {
		turns++
		seq := l.Turn(t.Context(), req, &res)
		_, err := collect(seq)
		require.NoError(t, err)
		_, err = collect(seq)
		require.ErrorIs(t, err, aycoder.ErrConsumed)
		req.Messages = append(req.Messages, res.Messages...)
	}
	require.Equal(t, 3, turns)
	require.NoError(t, aycoder.CheckHistory(req.Messages))
	require.Equal(t, "I will", m.reqs[2].Messages[3].Text(), "the model goes on with its own message")
	require.Equal(t, "done", req.Messages[4].Text())
	require.Len(t, m.reqs[0].Tools, 1, "the tools are the loop's")
}

func TestTurnLimit(t *testing.T) {
	var turns [][]any
	for n := range 5 {
		turns = append(turns, calls(use(fmt.Sprint("c", n), "echo", `{"text":"x"}`)))
	}
	var res aycoder.Result
	l := newLoop(t, &fake{turns: turns}, aycoder.WithLimits(aycoder.Limits{Turns: 3}), aycoder.WithTools(newTool(t, "echo", aycoder.EffectReadOnly, echo)))
	_, err := collect(l.Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.Into(&res)))
	require.True(t, is[*aycoder.LimitError](err), "%v", err)
	require.Equal(t, aycoder.EndTurns, res.End)
	require.Len(t, res.Messages, 7)
}

func TestRefusalIsAnError(t *testing.T) {
	m := &fake{turns: [][]any{{textDone("I"), use("a", "echo", `{"text":"x"}`), &aycoder.MessageDone{Stop: aycoder.StopRefusal, Model: "m"}}}}
	var res aycoder.Result
	_, err := collect(newLoop(t, m).Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.Into(&res)))
	require.True(t, is[*aycoder.RefusalError](err), "%v", err)
	require.Equal(t, aycoder.EndRefused, res.End)
	require.Equal(t, "I", res.Messages[1].Text())
	require.Equal(t, []string{"not run: the response ended in a refusal"}, lastOutputs(&res))

	m = &fake{turns: [][]any{{&aycoder.RefusalError{ModelError: base("no")}}}}
	_, err = collect(newLoop(t, m).Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.Into(&res)))
	require.True(t, is[*aycoder.RefusalError](err), "%v", err)
	require.Equal(t, aycoder.EndFailed, res.End)
}

// A text that was cut off and a reason that this version does not know end a run without
// an error, and Stop tells them from an answer that is complete.
func TestStopTellsHowAnAnswerEnded(t *testing.T) {
	for _, stop := range []aycoder.StopReason{aycoder.StopEndTurn, aycoder.StopMaxTokens, aycoder.StopToolUse, "of another kind"} {
		m := &fake{turns: [][]any{{textDone("I"), &aycoder.MessageDone{Stop: stop}}}}
		var res aycoder.Result
		_, err := collect(newLoop(t, m).Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.Into(&res)))
		require.NoError(t, err)
		require.Equal(t, aycoder.EndDone, res.End)
		require.Equal(t, stop, res.Stop)
	}
}

func TestModelIsAskedWhenTheConsumerHasSeenEverything(t *testing.T) {
	m := &fake{turns: [][]any{calls(use("a", "echo", `{"text":"x"}`)), say("done")}}
	for ev, err := range newLoop(t, m, aycoder.WithTools(newTool(t, "echo", aycoder.EffectReadOnly, echo))).Run(t.Context(), aycoder.Input{Prompt: "go"}) {
		require.NoError(t, err)
		if _, ok := ev.(*aycoder.TurnFinished); ok {
			break // a budget is used up
		}
	}
	require.Len(t, m.reqs, 1, "breaking off at the end of a turn costs no further request")
}

func TestSlowConsumerDelaysNoTool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var began time.Duration
		tool := newTool(t, "echo", aycoder.EffectReadOnly, func(context.Context, string) (string, error) {
			began = time.Since(start)
			return "", nil
		})
		wait := func(context.Context) { <-time.After(time.Second) }
		m := &fake{turns: [][]any{calls(&aycoder.TextDelta{Text: "a"}, wait, use("a", "echo", `{"text":"x"}`)), say("done")}}
		for range newLoop(t, m, aycoder.WithTools(tool)).Run(t.Context(), aycoder.Input{Prompt: "go"}) {
			<-time.After(time.Hour)
		}
		require.Equal(t, time.Second, began)
	})
}

func TestDeltasAreJoinedForASlowConsumer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var blocks []any
		for n := range 1000 {
			blocks = append(blocks, &aycoder.TextDelta{Text: fmt.Sprint(n, ",")})
		}
		m := &fake{turns: [][]any{append(blocks, say("")[1:]...)}}
		var got strings.Builder
		events := 0
		for ev := range newLoop(t, m).Run(t.Context(), aycoder.Input{Prompt: "go"}) {
			<-time.After(time.Second)
			if d, ok := ev.(*aycoder.TextDelta); ok {
				got.WriteString(d.Text)
				events++
			}
		}
		require.Less(t, events, 10)
		require.Equal(t, 1000, strings.Count(got.String(), ","))
	})
}

func TestSeams(t *testing.T) {
	var mu sync.Mutex
	var keys []string
	exec := func(ctx context.Context, key string, step func(context.Context)) {
		mu.Lock()
		keys = append(keys, key)
		mu.Unlock()
		go step(ctx)
	}
	var order []string
	wrap := func(name string) aycoder.ToolMiddleware {
		return func(next aycoder.ToolFunc) aycoder.ToolFunc {
			return func(ctx context.Context, inv *aycoder.Invocation) (*aycoder.ToolResult, error) {
				order = append(order, name+" "+inv.Key+" "+inv.Run)
				return next(ctx, inv)
			}
		}
	}
	var asked []string
	model := func(name string) aycoder.ModelMiddleware {
		return func(next aycoder.ModelClient) aycoder.ModelClient {
			return aycoder.ModelFunc(func(ctx context.Context, req *aycoder.Request) seq {
				asked = append(asked, name)
				return next.Stream(ctx, req)
			})
		}
	}
	l := newLoop(t, &fake{turns: [][]any{calls(use("a", "echo", `{"text":"x"}`)), say("ok")}},
		aycoder.WithExecutor(exec), aycoder.WithIDs(func() string { return "run-1" }),
		aycoder.WithToolMiddleware(wrap("outer"), wrap("inner")), aycoder.WithModelMiddleware(model("outer"), model("inner")),
		aycoder.WithTools(newTool(t, "echo", aycoder.EffectReadOnly, echo)))
	_, err := collect(l.Run(t.Context(), aycoder.Input{Prompt: "go"}))
	require.NoError(t, err)
	require.Equal(t, []string{"t1/ask/a", "t1/tool/a"}, keys)
	require.Equal(t, []string{"outer t1/tool/a run-1", "inner t1/tool/a run-1"}, order)
	require.Equal(t, []string{"outer", "inner", "outer", "inner"}, asked)
}

// The table of the keys in docs/events.md is that of the code: an event with every field
// set has all keys of its row, and one with none has those without a question mark.
func TestEventKeysAreDocumented(t *testing.T) {
	doc, err := os.ReadFile("docs/events.md")
	require.NoError(t, err)
	type row struct{ always, all []string }
	rows := map[string]row{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([A-Z]\\w*)` \\| `(\\w+)` \\| (.*) \\|$").FindAllStringSubmatch(string(doc), -1) {
		r := row{always: []string{"type=" + m[2]}, all: []string{"type=" + m[2]}}
		for _, k := range regexp.MustCompile("`(\\w+)`(\\??)").FindAllStringSubmatch(m[3], -1) {
			r.all = append(r.all, k[1])
			if k[2] == "" {
				r.always = append(r.always, k[1])
			}
		}
		rows[m[1]] = r
	}
	args := json.RawMessage(`{}`)
	call := &aycoder.ToolUse{ID: "a", Name: "n", Args: args}
	out := &aycoder.ToolOutput{Untrusted: true}
	file, some := edit.FileResult{Path: "p"}, aycoder.Usage{Input: 1}
	none := &aycoder.ToolOutput{}
	failed := errors.New("e")
	events := [][2]aycoder.Event{ // with no field set, with all of them set
		{&aycoder.TextDelta{}, &aycoder.TextDelta{Text: "x"}},
		{&aycoder.ThinkingDelta{}, &aycoder.ThinkingDelta{Text: "x"}},
		{&aycoder.ToolDelta{}, &aycoder.ToolDelta{ID: "a", Name: "n", Args: "x"}},
		{&aycoder.ToolStarted{Call: call}, &aycoder.ToolStarted{Call: call, Args: args, Subject: "s", Eager: true, By: aycoder.ByUser}},
		{&aycoder.ToolProgress{}, &aycoder.ToolProgress{CallID: "a", Progress: aycoder.Progress{Current: 1, Total: 1, Message: "m"}}},
		{&aycoder.ToolFinished{Call: call, Output: none}, &aycoder.ToolFinished{Call: call, Output: out, Subject: "s", Summary: "s", Usage: some,
			Changes: &edit.Result{Files: []edit.FileResult{file}}, Elapsed: 1, Err: failed}},
		{&aycoder.ApprovalRequested{}, &aycoder.ApprovalRequested{Request: aycoder.ApprovalRequest{
			Key: "k", Run: "r", Agent: "a", CallID: "a", Tool: "n", Args: args, Subject: "s", Preview: "p", Plan: &edit.Plan{},
			Suggested: []string{"r"}, Class: "c", Reasons: []string{"r"}, Digest: "d", Created: time.Now(),
		}}},
		{&aycoder.CallRequested{}, &aycoder.CallRequested{Request: aycoder.CallRequest{
			Key: "k", Run: "r", Agent: "a", CallID: "a", Tool: "n", Args: args, Subject: "s", Digest: "d", Created: time.Now(),
		}}},
		{&aycoder.Merged{Call: call}, &aycoder.Merged{Call: call, File: &file}},
		{&aycoder.Conflicted{Call: call}, &aycoder.Conflicted{Call: call, File: &file}},
		{&aycoder.ChildEvent{}, &aycoder.ChildEvent{CallID: "a", Event: &aycoder.TextDelta{}}},
		{&aycoder.TurnFinished{}, &aycoder.TurnFinished{Turn: 1, Stop: "s", Usage: some, Cost: new(1.0),
			Provider: "p", Model: "m", ID: "i", RequestID: "r"}},
		{&aycoder.Retrying{}, &aycoder.Retrying{Discarded: true, Attempt: 1, After: 1, Err: failed}},
		{&aycoder.Compacting{}, &aycoder.Compacting{Reason: "command", Tokens: 2, Budget: 1, Needed: true}},
		{&aycoder.Compacted{}, &aycoder.Compacted{Note: args, Summary: "s", Replaced: 1, Shortened: 1, Before: 2, After: 1, Untrusted: true,
			Usage: some, Cost: new(1.0), Provider: "p", Model: "m", Error: "e"}},
		{&aycoder.SetupChanged{}, &aycoder.SetupChanged{Tools: map[string]aycoder.Effect{"a": aycoder.EffectWrite},
			Added: []string{"a"}, Removed: []string{"b"}, Changed: []string{"c"}, Model: "p/m", MaxTurns: 1, MaxCalls: 1}},
		{&aycoder.JobsChanged{}, &aycoder.JobsChanged{Jobs: []aycoder.Job{{ID: "a"}}}},
		{&aycoder.Notice{}, &aycoder.Notice{Source: "config", Text: "a < b"}},
		{&aycoder.RunFinished{Result: &aycoder.Result{}}, &aycoder.RunFinished{Result: &aycoder.Result{
			End: aycoder.EndDone, Stop: "s", Turns: 1, Usage: some, Spent: []aycoder.Spent{{}}, Changes: edit.NewChanges(nil, nil), Messages: []*aycoder.Message{aycoder.User("u")},
			Pending: &aycoder.Pending{},
		}}},
	}
	require.Len(t, rows, len(events))
	for _, pair := range events {
		name := reflect.TypeOf(pair[0]).Elem().Name()
		require.ElementsMatch(t, rows[name].always, keysOf(t, pair[0]), name)
		require.ElementsMatch(t, rows[name].all, keysOf(t, pair[1]), name)
	}
}

// keysOf returns the keys of the JSON form of an event, the type with its value.
func keysOf(t *testing.T, ev aycoder.Event) (keys []string) {
	t.Helper()
	data, err := json.Marshal(ev)
	require.NoError(t, err)
	var m map[string]any
	require.NoError(t, json.Unmarshal(data, &m))
	for k, v := range m {
		if k == "type" {
			k = fmt.Sprint("type=", v)
		}
		keys = append(keys, k)
	}
	return keys
}

func TestEventsEncodeAsTypedLines(t *testing.T) {
	call := &aycoder.ToolUse{ID: "a", Name: "echo", Args: json.RawMessage(`{"text":"x"}`)}
	out := &aycoder.ToolOutput{ID: "a", Parts: []aycoder.Part{&aycoder.Text{Text: "o"}}}
	strange := &aycoder.ToolOutput{ID: "a", Parts: out.Parts, Untrusted: true}
	tests := []struct {
		ev   aycoder.Event
		want string
	}{
		{&aycoder.TextDelta{Text: "x"}, `{"type":"text_delta","text":"x"}`},
		{&aycoder.ThinkingDelta{Text: "x"}, `{"type":"thinking_delta","text":"x"}`},
		{&aycoder.ToolDelta{ID: "a", Name: "n", Args: "{"}, `{"type":"tool_delta","id":"a","name":"n","args":"{"}`},
		{&aycoder.ToolStarted{Call: call, Args: call.Args, By: aycoder.ByUser}, `{"type":"tool_start","id":"a","name":"echo","args":{"text":"x"},"by":"user"}`},
		{&aycoder.ToolProgress{CallID: "a", Progress: aycoder.Progress{Current: 1, Total: 2}}, `{"type":"tool_progress","id":"a","current":1,"total":2}`},
		{&aycoder.ToolFinished{Call: call, Output: out, Elapsed: time.Second}, `{"type":"tool_end","id":"a","name":"echo","is_error":false,"ms":1000,"output":"o"}`},
		{&aycoder.ApprovalRequested{Request: aycoder.ApprovalRequest{Key: "k", Tool: "t", Args: json.RawMessage(`{}`)}}, `{"type":"approval_request","key":"k","run":"","id":"","name":"t","args":{},"digest":"","created":"0001-01-01T00:00:00Z"}`},
		{&aycoder.ToolFinished{Call: call, Output: strange, Usage: aycoder.Usage{Input: 1}}, `{"type":"tool_end","id":"a","name":"echo","is_error":false,"untrusted":true,"usage":{"input":1,"output":0},"ms":0,"output":"o"}`},
		{&aycoder.ChildEvent{CallID: "c", Event: &aycoder.TextDelta{Text: "x"}}, `{"type":"child","id":"c","event":{"type":"text_delta","text":"x"}}`},
		{&aycoder.TurnFinished{Turn: 1, Stop: "end_turn"}, `{"type":"turn_end","turn":1,"stop":"end_turn","usage":{"input":0,"output":0}}`},
		{&aycoder.Retrying{Discarded: true, Attempt: 1, After: time.Second, Err: context.Canceled}, `{"type":"retry","discarded":true,"attempt":1,"after_ms":1000,"error":"context canceled"}`},
		{&aycoder.Compacted{Note: call.Args, Replaced: 2}, `{"type":"compacted","note":{"text":"x"},"replaced":2}`},
		{&aycoder.SetupChanged{Tools: map[string]aycoder.Effect{"b": aycoder.EffectWrite, "a": aycoder.EffectReadOnly}, Added: []string{"b"}, MaxTurns: 5, MaxCalls: 6},
			`{"type":"setup_changed","tools":{"a":1,"b":2},"added":["b"],"max_turns":5,"max_calls":6}`},
		{&aycoder.RunFinished{Result: &aycoder.Result{End: aycoder.EndDone, Turns: 1}}, `{"type":"run_end","reason":"done","turns":1,"usage":{"input":0,"output":0},"text":"","messages":null}`},
	}
	for _, tt := range tests {
		data, err := json.Marshal(tt.ev)
		require.NoError(t, err)
		require.JSONEq(t, tt.want, string(data))
	}
}
