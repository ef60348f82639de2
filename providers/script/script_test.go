package script_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/providers/script"
)

func ask(text string) *aycoder.Request {
	return &aycoder.Request{Messages: []*aycoder.Message{aycoder.User(text)}}
}

// show formats an event as a line.
func show(ev aycoder.ModelEvent) string {
	switch ev := ev.(type) {
	case *aycoder.TextDelta:
		return fmt.Sprintf("text %q", ev.Text)
	case *aycoder.ThinkingDelta:
		return fmt.Sprintf("thinking %q", ev.Text)
	case *aycoder.ToolDelta:
		return fmt.Sprintf("tool %s %s %q", ev.ID, ev.Name, ev.Args)
	case *aycoder.BlockDone:
		return fmt.Sprintf("done %T", ev.Part)
	case *aycoder.BlockTruncated:
		return fmt.Sprintf("cut %s %s", ev.Call.ID, ev.Call.Args)
	case *aycoder.MessageDone:
		return fmt.Sprintf("end %s", ev.Stop)
	}
	return fmt.Sprintf("%T", ev)
}

// stream collects a whole answer and checks the contract of ModelClient.
func stream(t *testing.T, m aycoder.ModelClient, req *aycoder.Request) ([]string, error) {
	t.Helper()
	events := []string{}
	var last error
	done := false
	for ev, err := range m.Stream(t.Context(), req) {
		require.NoError(t, last, "an error is the last that is yielded")
		require.False(t, done, "nothing follows MessageDone, got %v %v", ev, err)
		if last = err; err != nil {
			require.Nil(t, ev, "an error comes with a nil event")
			continue
		}
		_, done = ev.(*aycoder.MessageDone)
		events = append(events, show(ev))
	}
	require.True(t, done != (last != nil), "a stream ends with MessageDone or an error")
	return events, last
}

func TestEvents(t *testing.T) {
	tests := []struct {
		name string
		step script.Step
		want []string
	}{
		{"text", script.Say("Hello, wide  world.\n"),
			[]string{`text "Hello, "`, `text "wide  "`, `text "world.\n"`, `done *aycoder.Text`, `end end_turn`}},
		{"thinking", script.Think("Hm, so."),
			[]string{`thinking "Hm, "`, `thinking "so."`, `done *aycoder.Thinking`, `end end_turn`}},
		{"call", script.Call("read_file", map[string]any{"path": "a<b>.go"}), []string{
			`tool call_1 read_file ""`, `tool call_1 read_file "{\"path\":\"a<b>.go"`,
			`tool call_1 read_file "\"}"`, `done *aycoder.ToolUse`, `end tool_use`}},
		{"several", script.Reply(script.Say("Two"), script.Call("a", nil), script.Call("b", `{"x": 1}`)), []string{
			`text "Two"`, `done *aycoder.Text`,
			`tool call_1 a ""`, `tool call_1 a "{}"`, `done *aycoder.ToolUse`,
			`tool call_2 b ""`, `tool call_2 b "{\"x\": 1}"`, `done *aycoder.ToolUse`, `end tool_use`}},
		{"cut off", script.Reply(script.Call("a", nil), script.Cut("b", `{"x`)), []string{
			`tool call_1 a ""`, `tool call_1 a "{}"`, `done *aycoder.ToolUse`,
			`tool call_2 b ""`, `tool call_2 b "{\"x"`, `cut call_2 {"x`, `end max_tokens`}},
		{"own id", script.Call("a", "").WithID("toolu_7"),
			[]string{`tool toolu_7 a ""`, `done *aycoder.ToolUse`, `end tool_use`}},
		{"opaque", script.Block(&aycoder.Opaque{Provider: "script", Raw: json.RawMessage(`{}`)}),
			[]string{`done *aycoder.Opaque`, `end end_turn`}},
		{"refusal", script.Say("No.").WithStop(aycoder.StopRefusal),
			[]string{`text "No."`, `done *aycoder.Text`, `end refusal`}},
		{"stop set inside", script.Reply(script.Say("a").WithStop(aycoder.StopPaused), script.Say("b")),
			[]string{`text "a"`, `done *aycoder.Text`, `text "b"`, `done *aycoder.Text`, `end paused`}},
		{"nothing", script.Step{}, []string{`end end_turn`}},
		{"only spaces", script.Say("  "), []string{`text "  "`, `done *aycoder.Text`, `end end_turn`}},
		{"not UTF-8", script.Say("a \xff b"),
			[]string{`text "a "`, `text "\xff "`, `text "b"`, `done *aycoder.Text`, `end end_turn`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := stream(t, script.New(tt.step), ask("hi"))
			require.NoError(t, err)
			assert.Equal(t, tt.want, got)
		})
	}
}

func TestCallArguments(t *testing.T) {
	tests := []struct {
		name string
		args any
		want string
	}{
		{"nil", nil, `{}`},
		{"string", `{"a" : 1}`, `{"a" : 1}`},
		{"raw", json.RawMessage(`{"a" : 1}`), `{"a" : 1}`},
		{"bytes", []byte(`not JSON`), `not JSON`},
		{"struct", struct {
			Path string `json:"path"`
		}{"<a>"}, `{"path":"<a>"}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r, err := aycoder.Complete(t.Context(), script.New(script.Call("t", tt.args)), ask("hi"))
			require.NoError(t, err)
			assert.Equal(t, tt.want, string(r.Message.Calls()[0].Args))
		})
	}
}

func TestChunks(t *testing.T) {
	tests := []struct {
		chunk int
		want  []string
	}{
		{1, []string{"ä", "b", " ", "c"}},
		{3, []string{"äb ", "c"}},
		{100, []string{"äb c"}},
		{0, []string{"äb ", "c"}},
		{-1, []string{"äb ", "c"}},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprint(tt.chunk), func(t *testing.T) {
			var got []string
			for ev, err := range script.New(script.Say("äb c")).With(script.WithChunk(tt.chunk)).Stream(t.Context(), ask("")) {
				require.NoError(t, err)
				if d, ok := ev.(*aycoder.TextDelta); ok {
					got = append(got, d.Text)
				}
			}
			assert.Equal(t, tt.want, got)
		})
	}
}

func TestErrors(t *testing.T) {
	mine := errors.New("mine")
	tests := []struct {
		name  string
		step  script.Step
		check func(*testing.T, error)
	}{
		{"own", script.Fail(mine), func(t *testing.T, err error) { assert.Equal(t, mine, err) }},
		{"rate limit", script.Fail(script.RateLimited(3 * time.Second)), func(t *testing.T, err error) {
			e, ok := errors.AsType[*aycoder.RateLimitError](err)
			require.True(t, ok)
			assert.Equal(t, 3*time.Second, e.RetryAfter)
			assert.Equal(t, 429, e.Status)
		}},
		{"overloaded", script.Fail(script.Overloaded()), func(t *testing.T, err error) {
			_, ok := errors.AsType[*aycoder.OverloadedError](err)
			assert.True(t, ok)
		}},
		{"too large", script.Fail(script.TooLarge(300, 200)), func(t *testing.T, err error) {
			e, ok := errors.AsType[*aycoder.ContextTooLargeError](err)
			require.True(t, ok)
			assert.Equal(t, []int64{300, 200}, []int64{e.Actual, e.Max})
		}},
		{"said something first", script.Reply(script.Say("Well"), script.Fail(mine)),
			func(t *testing.T, err error) { assert.Equal(t, mine, err) }},
		{"broken", script.Break(0, nil, script.Say("a")), func(t *testing.T, err error) {
			e, ok := errors.AsType[*aycoder.StreamBrokenError](err)
			require.True(t, ok)
			assert.Equal(t, "script", e.Provider)
		}},
		{"arguments that are not JSON", script.Call("t", func() {}), func(t *testing.T, err error) {
			assert.ErrorContains(t, err, "request 1: arguments of t: json: unsupported type")
		}},
		{"function in a reply", script.Reply(endless()), func(t *testing.T, err error) {
			assert.ErrorContains(t, err, "reply has a Func or a Break in it")
		}},
		{"no function", script.Func(nil), func(t *testing.T, err error) {
			assert.ErrorContains(t, err, "nil Func")
		}},
		{"function that chooses itself", endless(), func(t *testing.T, err error) {
			assert.ErrorContains(t, err, "chooses a Func")
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := stream(t, script.New(tt.step), ask("hi"))
			require.Error(t, err)
			tt.check(t, err)
		})
	}
}

func endless() script.Step {
	return script.Func(func(*aycoder.Request) script.Step { return endless() })
}

func TestBreakAtEveryEvent(t *testing.T) {
	reply := script.Reply(script.Think("Let me see."), script.Say("I will look."),
		script.Call("read_file", map[string]any{"path": "a/long/path/to/a/file.go"}), script.Cut("bash", `{"comm`))
	whole, err := stream(t, script.New(reply), ask("hi"))
	require.NoError(t, err)
	for n := range len(whole) + 2 {
		for _, cause := range []error{nil, io.ErrUnexpectedEOF} {
			got, err := stream(t, script.New(script.Break(n, cause, reply)), ask("hi"))
			assert.Equal(t, whole[:min(n, len(whole)-1)], got, "after %d events", n)
			if cause != nil {
				assert.Equal(t, cause, err)
				continue
			}
			_, ok := errors.AsType[*aycoder.StreamBrokenError](err)
			assert.True(t, ok, "after %d events: %v", n, err)
		}
	}
}

func TestConsumerLeavesAtEveryEvent(t *testing.T) {
	reply := script.Reply(script.Think("Let me see."), script.Say("Look."), script.Call("t", nil))
	whole, err := stream(t, script.New(reply), ask("hi"))
	require.NoError(t, err)
	for n := range whole {
		m := script.New(reply, script.Say("next"))
		i := 0
		for range m.Stream(t.Context(), ask("hi")) { // yielding after the break would panic
			if i++; i > n {
				break
			}
		}
		r, err := aycoder.Complete(t.Context(), m, ask("hi"))
		require.NoError(t, err)
		assert.Equal(t, "next", r.Text())
	}
}

func TestSequencesAreSingleUse(t *testing.T) {
	m := script.New(script.Say("once"))
	seq := m.Stream(t.Context(), ask("hi"))
	assert.Empty(t, m.Requests(), "the request goes out when the iteration starts")
	for _, err := range seq {
		require.NoError(t, err)
	}
	n := 0
	for ev, err := range seq {
		n++
		assert.Nil(t, ev)
		assert.ErrorIs(t, err, aycoder.ErrConsumed)
	}
	assert.Equal(t, 1, n)
	assert.Len(t, m.Requests(), 1)
}

func TestScriptEnds(t *testing.T) {
	m := script.New(script.Say("one"), script.Say("two"))
	for range 2 {
		_, err := stream(t, m, ask("hi"))
		require.NoError(t, err)
	}
	_, err := stream(t, m, ask("hi"))
	_, bad := errors.AsType[*aycoder.BadRequestError](err)
	assert.True(t, bad, "not worth a retry: %v", err)
	assert.ErrorContains(t, err, "request 3: the script has 2 steps")
	_, err = stream(t, script.New().With(script.WithLoop(true)), ask("hi"))
	assert.ErrorContains(t, err, "request 1: the script has 0 steps")
}

func TestLoop(t *testing.T) {
	m := script.New(script.Call("a", nil), script.Say("b")).With(script.WithLoop(true))
	var ids, texts []string
	for range 6 {
		r, err := aycoder.Complete(t.Context(), m, ask("hi"))
		require.NoError(t, err)
		texts = append(texts, r.Text())
		for _, c := range r.Message.Calls() {
			ids = append(ids, c.ID)
		}
	}
	assert.Equal(t, []string{"call_1", "call_2", "call_3"}, ids, "ids stay unique")
	assert.Equal(t, "bbb", strings.Join(texts, ""))
}

func TestFunc(t *testing.T) {
	m := script.New(script.Func(func(req *aycoder.Request) script.Step {
		o := script.LastOutput(req)
		switch {
		case o.ID == "":
			return script.Call("read_file", map[string]any{"path": script.LastText(req)})
		case o.IsError:
			return script.Say("no: " + o.Text())
		}
		return script.Say("yes: " + script.LastText(req))
	})).With(script.WithLoop(true))
	output := func(isError bool) *aycoder.Message {
		return &aycoder.Message{Role: aycoder.RoleUser, Parts: []aycoder.Part{
			&aycoder.ToolOutput{ID: "call_1", IsError: isError, Parts: []aycoder.Part{&aycoder.Text{Text: "out"}}}}}
	}
	tests := []struct {
		name     string
		messages []*aycoder.Message
		want     string
	}{
		{"no output", []*aycoder.Message{aycoder.User("a.go")}, `{"path":"a.go"}`},
		{"output", []*aycoder.Message{aycoder.User("a.go"), aycoder.Assistant("x"), output(false)}, "yes: out"},
		{"error", []*aycoder.Message{output(false), aycoder.Assistant("x"), output(true)}, "no: out"},
		{"old output", []*aycoder.Message{output(false), aycoder.Assistant("x"), aycoder.User("b")}, `{"path":"b"}`},
		{"output and steering", []*aycoder.Message{output(false), aycoder.User("faster")}, "yes: faster"},
		{"no messages", nil, `{"path":""}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r, err := aycoder.Complete(t.Context(), m, &aycoder.Request{Messages: tt.messages})
			require.NoError(t, err)
			if calls := r.Message.Calls(); len(calls) > 0 {
				assert.Equal(t, tt.want, string(calls[0].Args))
				return
			}
			assert.Equal(t, tt.want, r.Text())
		})
	}
}

func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := script.New(script.Say("one two three")).With(script.WithPace(50 * time.Millisecond))
		start := time.Now()
		var at []time.Duration
		for ev, err := range m.Stream(t.Context(), ask("hi")) {
			require.NoError(t, err)
			if _, ok := ev.(*aycoder.TextDelta); ok {
				at = append(at, time.Since(start))
			}
		}
		assert.Equal(t, []time.Duration{50 * time.Millisecond, 100 * time.Millisecond, 150 * time.Millisecond}, at)
		assert.Equal(t, 150*time.Millisecond, time.Since(start), "only deltas take time")
	})
}

func TestCancelWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := script.New(script.Say("one two three")).With(script.WithPace(time.Hour))
		ctx, cancel := context.WithTimeout(t.Context(), 90*time.Minute)
		defer cancel()
		start := time.Now()
		r, err := aycoder.Complete(ctx, m, ask("hi"))
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Empty(t, r.Message.Parts)
		assert.Equal(t, 90*time.Minute, time.Since(start))
	})
}

func TestCancelAtEveryEvent(t *testing.T) {
	step := script.Reply(script.Say("one two"), script.Call("t", nil))
	whole, err := stream(t, script.New(step), ask("hi"))
	require.NoError(t, err)
	for n := range len(whole) {
		ctx, cancel := context.WithCancel(t.Context())
		if n == 0 {
			cancel()
		}
		m, events, errs := script.New(step), 0, 0
		for _, err := range m.Stream(ctx, ask("hi")) {
			if err != nil {
				errs++
				assert.ErrorIs(t, err, context.Canceled)
				continue
			}
			if events++; events == n {
				cancel()
			}
		}
		cancel()
		assert.Equal(t, n, events)
		assert.Equal(t, 1, errs)
		if n == 0 {
			assert.Empty(t, m.Requests(), "nothing goes out after a cancel")
		}
	}
}

func TestRequestsAreRecorded(t *testing.T) {
	m := script.New(script.Say("one"), script.Say("two")).With(script.WithName("acme", "m1"))
	req := ask("hi")
	req.Model = "m2"
	r, err := aycoder.Complete(t.Context(), m, req)
	require.NoError(t, err)
	assert.Equal(t, []string{"m2", "msg_1"}, []string{r.Model, r.ID})
	r, err = aycoder.Complete(t.Context(), m, ask("again"))
	require.NoError(t, err)
	assert.Equal(t, []string{"m1", "msg_2"}, []string{r.Model, r.ID})
	got := m.Requests()
	require.Len(t, got, 2)
	assert.NotSame(t, req, got[0])
	assert.Same(t, req.Messages[0], got[0].Messages[0])
	assert.Equal(t, "again", got[1].Messages[0].Text())
	got[0] = nil
	assert.NotNil(t, m.Requests()[0], "the list is the caller's own")
	named, ok := aycoder.As[aycoder.ModelNamer](m)
	require.True(t, ok)
	provider, model := named.ModelName()
	assert.Equal(t, "acme m1", provider+" "+model)
	assert.Empty(t, m.With().Requests(), "With starts anew")
}

func TestThinkingIsSigned(t *testing.T) {
	own := &aycoder.Thinking{Text: "b", Signature: "s", Provider: "p"}
	m := script.New(script.Reply(script.Think("a"), script.Block(own)))
	r, err := aycoder.Complete(t.Context(), m, ask("hi"))
	require.NoError(t, err)
	assert.Equal(t, &aycoder.Thinking{Text: "a", Signature: "signed by script", Provider: "script"}, r.Message.Parts[0])
	assert.Equal(t, own, r.Message.Parts[1])
}

func TestUsage(t *testing.T) {
	first := ask(strings.Repeat("x", 400))
	first.System = []*aycoder.Text{{Text: strings.Repeat("x", 40)}}
	first.Tail = []*aycoder.Text{{Text: strings.Repeat("x", 8)}} // which is never read from the cache
	second := *first
	second.Messages = append(first.Messages[:1:1], aycoder.Assistant("Hello you"), aycoder.User(strings.Repeat("x", 75)))
	steps := []script.Step{script.Say("Hello you"), script.Say("12345678"), script.Say("a").WithUsage(aycoder.Usage{Input: 7})}
	tests := []struct {
		name string
		opts []script.Option
		want []aycoder.Usage
	}{
		{"estimated", nil, []aycoder.Usage{{Input: 112, Output: 3}, {Input: 23, CacheRead: 110, Output: 2}, {Input: 7}}},
		{"off", []script.Option{script.WithEstimate(false)}, []aycoder.Usage{{}, {}, {Input: 7}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := script.New(steps...).With(tt.opts...)
			var got []aycoder.Usage
			for _, req := range []*aycoder.Request{first, &second, first} {
				r, err := aycoder.Complete(t.Context(), m, req)
				require.NoError(t, err)
				got = append(got, r.Usage)
			}
			assert.Equal(t, tt.want, got)
		})
	}
}

func TestUsageStartsAnewWithAnotherHistory(t *testing.T) {
	m := script.New(script.Say("ok")).With(script.WithLoop(true))
	for range 2 {
		r, err := aycoder.Complete(t.Context(), m, ask("12345678"))
		require.NoError(t, err)
		assert.Equal(t, aycoder.Usage{Input: 2, Output: 1}, r.Usage)
	}
}

func TestStepsAreValues(t *testing.T) {
	s := script.Call("a", nil)
	_ = s.WithID("x").WithStop(aycoder.StopRefusal).WithUsage(aycoder.Usage{Input: 9})
	got, err := stream(t, script.New(s), ask("hi"))
	require.NoError(t, err)
	assert.Equal(t, []string{`tool call_1 a ""`, `tool call_1 a "{}"`, `done *aycoder.ToolUse`, `end tool_use`}, got)
}

func TestConcurrentUse(t *testing.T) {
	m := script.New(script.Reply(script.Think("hm"), script.Call("t", nil))).With(script.WithLoop(true))
	var mu sync.Mutex
	ids := map[string]bool{}
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			for range 20 {
				r, err := aycoder.Complete(t.Context(), m, ask("hi"))
				if !assert.NoError(t, err) {
					return
				}
				mu.Lock()
				ids[r.Message.Calls()[0].ID] = true
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	assert.Len(t, ids, 400)
	assert.Len(t, m.Requests(), 400)
}

// conversation returns a history that grows by two messages a step, like that of a loop.
func conversation(steps int) []*aycoder.Message {
	messages := make([]*aycoder.Message, 0, 2*steps+1)
	messages = append(messages, aycoder.User("start"))
	for range steps {
		messages = append(messages, aycoder.Assistant("working"), aycoder.User("go on"))
	}
	return messages
}

func BenchmarkStep(b *testing.B) {
	for _, steps := range []int{1, 1000} {
		b.Run(fmt.Sprintf("history=%d", steps), func(b *testing.B) {
			messages := conversation(steps)
			m := script.New(script.Call("t", `{"path":"a.go"}`)).With(script.WithLoop(true))
			req := &aycoder.Request{Messages: messages}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := aycoder.Complete(b.Context(), m, req); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// The work of a step does not depend on the length of the history: the last hundred of
// 1,000 steps allocate as much as the first.
func TestStepCostDoesNotGrow(t *testing.T) {
	messages := conversation(1000)
	m := script.New(script.Call("t", `{"path":"a.go"}`)).With(script.WithLoop(true))
	step := 0
	hundred := func() float64 {
		return testing.AllocsPerRun(99, func() {
			req := &aycoder.Request{Messages: messages[:2*step+1]}
			step++
			_, err := aycoder.Complete(t.Context(), m, req)
			require.NoError(t, err)
		})
	}
	first := hundred()
	for step < 900 {
		hundred()
	}
	assert.InDelta(t, first, hundred(), 3) // longer ids
	assert.Len(t, m.Requests(), 1000)
}
