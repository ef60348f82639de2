package aycoder_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/timed"
)

type deployArgs struct {
	Version string `json:"version"`
	Count   int    `json:"count,omitempty"`
}

type deployed struct {
	URL string `json:"url"`
}

func declare(t testing.TB, name string, opts ...aycoder.ToolOption) aycoder.Tool {
	t.Helper()
	tool, err := aycoder.DeclareTool[deployArgs](name, "Deploys a version.", opts...)
	require.NoError(t, err)
	return tool
}

var allows = aycoder.WithApprover(byTool(map[string]aycoder.Verdict{"deploy": aycoder.Allow(), "ask": aycoder.Allow(), "run": aycoder.Allow()}))

// untilSuspended runs until the run is suspended, and returns the stored form of it.
func untilSuspended(t testing.TB, a aycoder.Agent, in aycoder.Input) *aycoder.Pending {
	t.Helper()
	var res aycoder.Result
	for _, err := range a.Run(t.Context(), in, aycoder.Into(&res)) {
		require.NoError(t, err)
	}
	require.Equal(t, aycoder.EndSuspended, res.End)
	return stored(t, res.Pending)
}

// stored is what comes back of a pending run that was stored.
func stored(t testing.TB, p *aycoder.Pending) *aycoder.Pending {
	t.Helper()
	data, err := json.Marshal(p)
	require.NoError(t, err)
	var back aycoder.Pending
	require.NoError(t, json.Unmarshal(data, &back))
	return &back
}

func resultKind(t testing.TB, err error) string {
	t.Helper()
	e, ok := errors.AsType[*aycoder.ResultError](err)
	require.True(t, ok, "%v", err)
	return e.Kind
}

// A result from outside is in memory only until the call has its output, which is bounded.
func TestResultsAreNotHeld(t *testing.T) {
	timed.Serial(t)
	const n, size = 12, 4 << 20
	m := &fake{}
	for i := range n {
		m.turns = append(m.turns, calls(use(fmt.Sprint("c", i), "deploy", `{"version":"1"}`)))
	}
	m.turns = append(m.turns, say("done"))
	held := func() int64 {
		runtime.GC()
		var s runtime.MemStats
		runtime.ReadMemStats(&s)
		return int64(s.HeapAlloc)
	}
	before, most := held(), int64(0)
	loop := newLoop(t, m, aycoder.WithTools(declare(t, "deploy")), allows)
	for ev, err := range loop.Run(t.Context(), aycoder.Input{Prompt: "go"}) {
		require.NoError(t, err)
		if c, ok := ev.(*aycoder.CallRequested); ok {
			most = max(most, held()-before)
			require.NoError(t, c.Answer(aycoder.TextResult(strings.Repeat("x", size))))
		}
	}
	require.Less(t, most, int64(6*size))
}

// A call of a declared tool is answered in the loop body, from another goroutine, or in another run.
func TestDeclaredToolIsAnswered(t *testing.T) {
	turns := [][]any{calls(use("a", "deploy", `{"version":"1","count":"3"}`), use("b", "deploy", `{"version":"2"}`),
		use("c", "deploy", `{"version":"3"}`)), say("done")}
	newOne := func(turns ...[]any) *aycoder.Loop {
		return newLoop(t, &fake{turns: turns}, aycoder.WithTools(declare(t, "deploy")), allows)
	}
	var wg sync.WaitGroup
	var res aycoder.Result
	var seen []string
	for ev, err := range newOne(turns...).Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.Into(&res)) {
		require.NoError(t, err)
		c, ok := ev.(*aycoder.CallRequested)
		if !ok {
			_, started := ev.(*aycoder.ToolStarted)
			require.False(t, started)
			continue
		}
		q := c.Request
		seen = append(seen, q.CallID+" "+string(q.Args)+" "+q.Key)
		switch q.CallID {
		case "a":
			require.NoError(t, c.Answer(aycoder.TextResult("A")))
			require.Equal(t, "not_open", resultKind(t, c.Answer(aycoder.TextResult("again"))))
			require.ErrorIs(t, c.Answer(aycoder.TextResult("again")), aycoder.ErrDecided)
		case "b":
			handle := c.Detach()
			require.Same(t, handle, c.Detach())
			wg.Go(func() {
				require.NoError(t, handle.Answer(aycoder.ErrorResult("B")))
				require.True(t, handle.Decided())
				require.False(t, handle.Leave())
			})
		}
	}
	wg.Wait()
	require.Equal(t, []string{`a {"version":"1","count":3} t1/tool/a`, `b {"version":"2"} t1/tool/b`, `c {"version":"3"} t1/tool/c`}, seen)
	require.Equal(t, aycoder.EndSuspended, res.End)
	p := stored(t, res.Pending)
	require.Len(t, p.Calls, 1)
	require.Equal(t, "c", p.Calls[0].CallID)
	require.Equal(t, p.Calls, p.State.OpenCalls())
	require.NoError(t, aycoder.CheckHistory(res.Messages))

	in := aycoder.Input{Pending: p, Results: []aycoder.CallResult{p.Calls[0].Result(aycoder.TextResult("C"))}}
	events, err := collect(newOne(turns[1]).Run(t.Context(), in, aycoder.Into(&res)))
	require.NoError(t, err)
	require.Equal(t, "done", res.Text())
	require.Len(t, finished(events), 1)
	var texts []string
	for _, p := range res.Messages[2].Parts {
		o := p.(*aycoder.ToolOutput)
		texts = append(texts, fmt.Sprint(o.ID, " ", o.Text(), " ", o.IsError))
	}
	require.Equal(t, []string{"a A false", "b B true", "c C false"}, texts)
}

func finished(events []aycoder.Event) (out []*aycoder.ToolFinished) {
	for _, ev := range events {
		if f, ok := ev.(*aycoder.ToolFinished); ok {
			out = append(out, f)
		}
	}
	return out
}

// A result that does not fit is a typed error, and nothing happens.
func TestResultsAreRefused(t *testing.T) {
	tools := aycoder.WithTools(declare(t, "deploy", aycoder.WithResult[deployed]()))
	first := calls(use("a", "deploy", `{"version":"1"}`), use("b", "deploy", `{"version":"2"}`))
	p := untilSuspended(t, newLoop(t, &fake{turns: [][]any{first}}, tools, allows), aycoder.Input{Prompt: "go"})
	other := untilSuspended(t, newLoop(t, &fake{turns: [][]any{first}}, tools, allows), aycoder.Input{Prompt: "go"})
	require.Len(t, p.Calls, 2)
	good, fine := aycoder.TextResult(`{"url":"x"}`), p.Calls[1].Result(aycoder.TextResult(`{"url":"y"}`))
	text := func(s string) aycoder.CallResult { return p.Calls[0].Result(aycoder.TextResult(s)) }
	tests := map[string][]aycoder.CallResult{
		"not_open":   {fine, {CallID: "x", Digest: p.Calls[0].Digest, Parts: good.Parts}},
		"twice":      {text(`{"url":"x"}`), text(`{"url":"x"}`)},
		"other_call": {fine, other.Calls[0].Result(good)},
		"schema":     {fine, text(`{"url":1}`)},
		"too_large":  {text(strings.Repeat("x", 50<<20))},
		"invalid":    {p.Calls[0].Result(&aycoder.ToolResult{Parts: []aycoder.Part{&aycoder.Thinking{Text: "x"}}})},
	}
	noDigest := p.Calls[0].Result(good)
	noDigest.Digest = ""
	tests["other_call "] = []aycoder.CallResult{noDigest}
	tests["schema "] = []aycoder.CallResult{text("done")}
	tests["schema  "] = []aycoder.CallResult{p.Calls[0].Result(nil)}
	tests["other_call  "] = []aycoder.CallResult{{CallID: "a", Digest: p.Calls[1].Digest, Parts: good.Parts}}
	tests["invalid "] = []aycoder.CallResult{p.Calls[0].Result(&aycoder.ToolResult{Parts: []aycoder.Part{nil}})}
	tests["too_large  "] = []aycoder.CallResult{p.Calls[0].Result(&aycoder.ToolResult{Parts: []aycoder.Part{&aycoder.Media{Type: "image/png", Name: strings.Repeat("x", 17<<20)}}})}
	tests["too_large "] = []aycoder.CallResult{p.Calls[0].Result(&aycoder.ToolResult{Parts: slices.Repeat([]aycoder.Part{&aycoder.Text{}}, 17_000)})}
	before, err := json.Marshal(p)
	require.NoError(t, err)
	m := &fake{turns: [][]any{say("done")}}
	l := newLoop(t, m, tools, allows)
	for kind, results := range tests {
		var res aycoder.Result
		events, err := collect(l.Run(t.Context(), aycoder.Input{Pending: p, Results: results}, aycoder.Into(&res)))
		require.Empty(t, events, kind)
		require.Equal(t, strings.TrimSpace(kind), resultKind(t, err), kind)
		config, ok := errors.AsType[*aycoder.ConfigError](err)
		require.True(t, ok)
		require.Equal(t, "Input.Results", config.Option)
		require.Same(t, p, res.Pending)
		after, err := json.Marshal(res.Pending)
		require.NoError(t, err)
		require.Equal(t, string(before), string(after))
	}
	require.Empty(t, m.reqs)
	in := aycoder.Input{Pending: p, Results: []aycoder.CallResult{fine, text(`{"url":"x"}`)}}
	_, err = collect(l.Run(t.Context(), in))
	require.NoError(t, err)
	_, err = collect(l.Run(t.Context(), in))
	require.ErrorContains(t, err, "resumed before", "the same run twice")

	_, err = collect(l.Run(t.Context(), aycoder.Input{Prompt: "x", Results: in.Results}))
	require.ErrorContains(t, err, "Pending is missing")
	_, err = collect(newLoop(t, m).Run(t.Context(), in))
	require.ErrorContains(t, err, "no declared tool")
	function := newTool(t, "deploy", aycoder.EffectWrite, echo)
	_, err = collect(newLoop(t, m, aycoder.WithTools(function, declare(t, "ask"))).Run(t.Context(), in))
	require.Equal(t, "not_open", resultKind(t, err))
}

// A list of calls that was altered is noticed.
func TestForgedCalls(t *testing.T) {
	tools := aycoder.WithTools(declare(t, "deploy"))
	first := calls(use("a", "deploy", `{"version":"1"}`), use("b", "deploy", `{"version":"2"}`))
	p := untilSuspended(t, newLoop(t, &fake{turns: [][]any{first}}, tools, allows), aycoder.Input{Prompt: "go"})
	for name, forge := range map[string]func(c []aycoder.CallRequest) []aycoder.CallRequest{
		"args": func(c []aycoder.CallRequest) []aycoder.CallRequest {
			c[0].Args = json.RawMessage(`{"version":"9"}`)
			return c
		},
		"tool":    func(c []aycoder.CallRequest) []aycoder.CallRequest { c[0].Tool = "run"; return c },
		"subject": func(c []aycoder.CallRequest) []aycoder.CallRequest { c[0].Subject = "x"; return c },
		"key":     func(c []aycoder.CallRequest) []aycoder.CallRequest { c[0].Key = "t2/tool/a"; return c },
		"run":     func(c []aycoder.CallRequest) []aycoder.CallRequest { c[0].Run = "x"; return c },
		"id":      func(c []aycoder.CallRequest) []aycoder.CallRequest { c[0].CallID = "b"; return c },
		"twice":   func(c []aycoder.CallRequest) []aycoder.CallRequest { return append(c, c[0]) },
		"none":    func(c []aycoder.CallRequest) []aycoder.CallRequest { c[0].CallID = "z"; return c },
	} {
		forged := stored(t, p)
		forged.Calls = forge(forged.Calls)
		_, err := collect(newLoop(t, &fake{}, tools).Run(t.Context(), aycoder.Input{Pending: forged}))
		config, ok := errors.AsType[*aycoder.ConfigError](err)
		require.True(t, ok, "%s: %v", name, err)
		require.Equal(t, "Input.Pending", config.Option, name)
	}
	data, err := json.Marshal(p)
	require.NoError(t, err)
	for name, change := range map[string][2]string{
		"status":  {`"status":"deferred"`, `"status":"outside"`}, // fits, since the run may have been killed
		"unknown": {`"status":"deferred"`, `"status":"elsewhere"`},
		"model":   {`"phase":"done","end":"suspended"`, `"phase":"model"`},
		"request": {`"request":{"key":"t1/tool/a"`, `"request":null,"x":{"key":"t1/tool/a"`},
		"inside":  {`"outside":true`, `"outside":false`},
	} {
		forged := strings.ReplaceAll(string(data), change[0], change[1])
		require.NotEqual(t, string(data), forged, name)
		var back aycoder.Pending
		require.Equal(t, name == "status", json.Unmarshal([]byte(forged), &back) == nil, name)
	}
}

// A handle that is dropped, or left, does not keep the run from ending.
func TestDroppedCallIsLeftOpen(t *testing.T) {
	for _, drop := range []bool{true, false} {
		l := newLoop(t, &fake{turns: [][]any{calls(use("a", "deploy", `{"version":"1"}`))}}, aycoder.WithTools(declare(t, "deploy")), allows)
		stop := make(chan struct{})
		var res aycoder.Result
		for ev, err := range l.Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.Into(&res)) {
			require.NoError(t, err)
			c, ok := ev.(*aycoder.CallRequested)
			switch {
			case !ok:
			case drop:
				c.Detach()
				go func() {
					for {
						runtime.GC()
						select {
						case <-stop:
							return
						default:
						}
					}
				}()
			default:
				handle := c.Detach()
				go func() { handle.Leave() }()
			}
		}
		close(stop)
		require.Equal(t, aycoder.EndSuspended, res.End)
		require.Len(t, res.Pending.Calls, 1)
	}
}

// A call that the policy denies, or that has wrong arguments, is not asked for outside.
func TestDeclaredToolIsChecked(t *testing.T) {
	l := newLoop(t, &fake{turns: [][]any{calls(use("a", "deploy", `{"version":1}`), use("b", "deploy", `{"version":"2"}`)), say("done")}},
		aycoder.WithTools(declare(t, "deploy")), aycoder.WithApprover(byTool(map[string]aycoder.Verdict{"deploy": aycoder.Deny("no")})))
	events, err := collect(l.Run(t.Context(), aycoder.Input{Prompt: "go"}))
	require.NoError(t, err)
	for _, ev := range events {
		_, asked := ev.(*aycoder.CallRequested)
		require.False(t, asked)
	}
	done := finished(events)
	require.Len(t, done, 2)
	for _, f := range done {
		_, args := errors.AsType[*aycoder.ToolArgsError](f.Err)
		_, denied := errors.AsType[*aycoder.ToolDeniedError](f.Err)
		require.Equal(t, f.Call.ID == "a", args)
		require.Equal(t, f.Call.ID == "b", denied)
	}
	// An approval that changes the arguments applies to the request.
	l = newLoop(t, &fake{turns: [][]any{calls(use("a", "deploy", `{"version":"1"}`)), say("done")}},
		aycoder.WithTools(declare(t, "deploy")), aycoder.WithApprover(asks))
	var res aycoder.Result
	for ev, err := range l.Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.Into(&res)) {
		require.NoError(t, err)
		switch ev := ev.(type) {
		case *aycoder.ApprovalRequested:
			require.NoError(t, ev.AllowWith(json.RawMessage(`{"version":"7"}`)))
		case *aycoder.CallRequested:
			require.JSONEq(t, `{"version":"7"}`, string(ev.Request.Args))
			require.NoError(t, ev.Answer(aycoder.TextResult("ok")))
		}
	}
	require.Contains(t, res.Messages[2].Parts[0].(*aycoder.ToolOutput).Text(), "changed its arguments to")
}

// Masking, bounds and cleaning apply to a result as to that of a function.
func TestResultsAreMaskedAndBounded(t *testing.T) {
	mask := func(next aycoder.ToolFunc) aycoder.ToolFunc {
		return func(ctx context.Context, inv *aycoder.Invocation) (*aycoder.ToolResult, error) {
			res, err := next(ctx, inv)
			if err == nil {
				res.Parts = []aycoder.Part{&aycoder.Text{Text: strings.ReplaceAll(res.Text(), "hunter2", "[secret]")}}
			}
			return res, err
		}
	}
	opts := []aycoder.Option{aycoder.WithTools(declare(t, "deploy")), allows, aycoder.WithToolMiddleware(mask), aycoder.WithLimits(aycoder.Limits{ToolOutput: 1024})}
	turns := [][]any{calls(use("a", "deploy", `{"version":"1"}`)), say("done")}
	answer := aycoder.TextResult("hunter2 \xff " + strings.Repeat("x", 5000))
	answer.Untrusted = true
	check := func(res *aycoder.Result) {
		t.Helper()
		out := res.Messages[2].Parts[0].(*aycoder.ToolOutput)
		require.True(t, out.Untrusted)
		require.True(t, strings.HasPrefix(out.Text(), "[secret] \uFFFD xxx"), out.Text())
		require.LessOrEqual(t, len(out.Text()), 1024)
	}
	var res aycoder.Result
	for ev, err := range newLoop(t, &fake{turns: turns}, opts...).Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.Into(&res)) {
		require.NoError(t, err)
		if c, ok := ev.(*aycoder.CallRequested); ok {
			require.NoError(t, c.Answer(answer))
		}
	}
	check(&res)
	require.Contains(t, answer.Text(), "hunter2", "the host's result is not changed")
	p := untilSuspended(t, newLoop(t, &fake{turns: turns[:1]}, opts...), aycoder.Input{Prompt: "go"})
	in := aycoder.Input{Pending: p, Results: []aycoder.CallResult{p.Calls[0].Result(answer)}}
	_, err := collect(newLoop(t, &fake{turns: turns[1:]}, opts...).Run(t.Context(), in, aycoder.Into(&res)))
	require.NoError(t, err)
	check(&res)
}

// A cancelled run settles its open calls, and says that their outcome is unknown. Late answers learn it.
func TestAnswersRaceWithCancel(t *testing.T) {
	for i := range 200 {
		ctx, cancel := context.WithCancel(t.Context())
		l := newLoop(t, &fake{turns: [][]any{calls(use("a", "deploy", `{"version":"1"}`)), say("done")}}, aycoder.WithTools(declare(t, "deploy")), allows)
		var wg sync.WaitGroup
		var accepted atomic.Int32
		var handle *aycoder.OpenCall
		var res aycoder.Result
		for ev, err := range l.Run(ctx, aycoder.Input{Prompt: "go"}, aycoder.Into(&res)) {
			c, ok := ev.(*aycoder.CallRequested)
			if err != nil || !ok {
				continue
			}
			handle = c.Detach()
			for range 3 {
				wg.Go(func() {
					if handle.Answer(aycoder.TextResult("ok")) == nil {
						accepted.Add(1)
					}
				})
			}
			wg.Go(func() {
				if i%2 == 0 {
					runtime.Gosched()
				}
				cancel()
			})
		}
		wg.Wait()
		cancel()
		require.LessOrEqual(t, accepted.Load(), int32(1))
		require.Equal(t, "not_open", resultKind(t, handle.Answer(aycoder.TextResult("late"))))
		require.NoError(t, aycoder.CheckHistory(res.Messages))
		out := res.Messages[2].Parts[0].(*aycoder.ToolOutput).Text()
		require.Contains(t, []string{"ok", "stopped: the run was cancelled before the result of this call came; its outcome is unknown",
			"stopped: the run was cancelled while this call worked; its outcome is unknown"}, out)
	}
}

// A hundred calls in one message come together, in order, and are answered in any order.
func TestManyDeclaredCalls(t *testing.T) {
	var blocks []any
	for i := range 100 {
		blocks = append(blocks, use(fmt.Sprintf("c%03d", i), "deploy", `{"version":"1"}`))
	}
	blocks = append(blocks, use("last", "run", `{"text":"after"}`))
	var ran atomic.Bool
	run := newTool(t, "run", aycoder.EffectWrite, func(context.Context, string) (string, error) { ran.Store(true); return "", nil })
	opts := []aycoder.Option{aycoder.WithTools(declare(t, "deploy"), run), allows}
	p := untilSuspended(t, newLoop(t, &fake{turns: [][]any{calls(blocks...)}}, opts...), aycoder.Input{Prompt: "go"})
	require.Len(t, p.Calls, 100)
	require.False(t, ran.Load(), "it waits for the calls before it")
	l := newLoop(t, &fake{turns: [][]any{say("done")}}, opts...)
	for len(p.Calls) > 1 {
		for i := range p.Calls[1:] {
			require.Less(t, p.Calls[i].CallID, p.Calls[i+1].CallID)
		}
		n := len(p.Calls) / 2
		in := aycoder.Input{Pending: p}
		for i := range n {
			in.Results = append(in.Results, p.Calls[len(p.Calls)-1-2*i].Result(aycoder.TextResult("ok")))
		}
		p = untilSuspended(t, l, in)
	}
	in := aycoder.Input{Pending: p, Results: []aycoder.CallResult{p.Calls[0].Result(aycoder.TextResult("ok"))}}
	var res aycoder.Result
	_, err := collect(l.Run(t.Context(), in, aycoder.Into(&res)))
	require.NoError(t, err)
	require.True(t, ran.Load())
	require.Len(t, res.Messages[2].Parts, 101)
}

// Inside another call, a declared tool is answered through the ChildEvent, or gets a typed error.
func TestDeclaredToolInsideACall(t *testing.T) {
	const none = "no result: nobody has given the result of this call, and a run inside another call cannot wait for it"
	for _, tt := range []struct {
		effect        aycoder.Effect
		text, outcome string
	}{
		{aycoder.EffectWrite, "from outside", "ok"},
		{aycoder.EffectReadOnly, none, "abandoned"},
		{aycoder.EffectWrite, none + "; its outcome is unknown", "abandoned"},
	} {
		notes := &auditLog{}
		inner := newLoop(t, &fake{turns: [][]any{calls(use("i", "deploy", `{"version":"1"}`)), say("inner done")}},
			aycoder.WithTools(declare(t, "deploy", aycoder.WithEffect(tt.effect))), allows, aycoder.WithAudit(notes))
		answers := tt.outcome == "ok"
		var res aycoder.Result
		var failed error
		sub, err := aycoder.NewTool("run", "Runs another.", func(ctx context.Context, inv *aycoder.Invocation, _ echoArgs) (*aycoder.ToolResult, error) {
			for ev, err := range inner.Run(ctx, aycoder.Input{Prompt: "x"}, aycoder.WithParent(inv), aycoder.Into(&res)) {
				if err != nil {
					return nil, err
				}
				if f, ok := ev.(*aycoder.ToolFinished); ok {
					failed = f.Err
				}
				if err := inv.Emit(ctx, ev); err != nil {
					return nil, err
				}
			}
			return aycoder.TextResult(res.Text()), nil
		})
		require.NoError(t, err)
		outer := newLoop(t, &fake{turns: [][]any{calls(use("o", "run", `{"text":""}`)), say("done")}}, aycoder.WithTools(sub), allows)
		for ev, err := range outer.Run(t.Context(), aycoder.Input{Prompt: "go"}) {
			require.NoError(t, err)
			e, ok := ev.(*aycoder.ChildEvent)
			if !ok {
				continue
			}
			if c, ok := e.Innermost().(*aycoder.CallRequested); ok && answers {
				require.NoError(t, c.Answer(aycoder.TextResult("from outside")))
			}
		}
		require.Equal(t, aycoder.EndDone, res.End)
		out := res.Messages[2].Parts[0].(*aycoder.ToolOutput)
		require.Equal(t, tt.text, out.Text())
		require.Equal(t, !answers, out.IsError)
		i := slices.IndexFunc(notes.recs, func(n *aycoder.AuditRecord) bool { return n.Kind == aycoder.AuditEffect })
		require.Equal(t, tt.outcome, notes.recs[i].Outcome)
		if answers {
			require.NoError(t, failed)
			continue
		}
		require.Equal(t, &aycoder.ToolError{Tool: "deploy", CallID: "i", Err: errors.New(none)}, failed, "nobody has denied it")
	}
}

// The time that a result takes is that from its request.
func TestElapsedOfADeclaredTool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLoop(t, &fake{turns: [][]any{calls(use("a", "deploy", `{"version":"1"}`)), say("done")}}, aycoder.WithTools(declare(t, "deploy")), allows)
		for ev, err := range l.Run(t.Context(), aycoder.Input{Prompt: "go"}) {
			require.NoError(t, err)
			switch ev := ev.(type) {
			case *aycoder.CallRequested:
				handle := ev.Detach()
				time.AfterFunc(time.Hour, func() { _ = handle.Answer(aycoder.TextResult("ok")) })
			case *aycoder.ToolFinished:
				require.Equal(t, time.Hour, ev.Elapsed)
			}
		}
	})
}

func TestDeclareTool(t *testing.T) {
	_, err := aycoder.DeclareTool[int]("x", "")
	require.Error(t, err)
	_, err = aycoder.DeclareTool[deployArgs]("a b", "")
	require.Error(t, err)
	_, err = aycoder.DeclareTool[deployArgs]("x", "", nil)
	require.Error(t, err)
	_, err = aycoder.DeclareTool[deployArgs]("x", "", aycoder.WithResult[int]())
	require.Error(t, err)
	_, err = aycoder.DeclareSpec(aycoder.ToolSpec{Name: "x", Result: json.RawMessage(`[]`)})
	require.Error(t, err)
	tool, err := aycoder.DeclareSpec(aycoder.ToolSpec{Name: "x", Schema: json.RawMessage(`{"type":"object"}`), Effect: aycoder.EffectReadOnly})
	require.NoError(t, err)
	spec := tool.Spec()
	require.True(t, spec.Outside())
	_, err = tool.Call(t.Context(), aycoder.NewInvocation("c", "x", json.RawMessage(`{}`), nil))
	require.ErrorContains(t, err, "only declared")
	function := newTool(t, "run", aycoder.EffectWrite, echo).Spec()
	require.False(t, function.Outside())
}

// The JSON form of a result is the same again.
func TestCallResultJSON(t *testing.T) {
	c := aycoder.CallResult{CallID: "c", Digest: "d", Parts: []aycoder.Part{&aycoder.Text{Text: "<x>"},
		&aycoder.Media{Type: "image/png", Data: []byte{1, 2}}}, IsError: true, Summary: "s", Untrusted: true}
	data, err := json.Marshal(c)
	require.NoError(t, err)
	var back aycoder.CallResult
	require.NoError(t, json.Unmarshal(data, &back))
	require.Equal(t, c, back)
	_, err = json.Marshal(aycoder.CallResult{Parts: []aycoder.Part{&aycoder.Text{Text: "\xff"}}})
	require.Error(t, err)
	require.Error(t, json.Unmarshal([]byte(`{"call_id":"c","parts":[{"type":"tool_use"}]}`), &back))
	require.Error(t, json.Unmarshal([]byte(`{"call_id":1}`), &back))
	require.Equal(t, c, back)
}
