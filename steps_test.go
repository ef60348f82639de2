package aycoder_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/providers/script"
)

// A stepper starts the steps whose keys it has, and leaves the others to the end of the run.
type stepper []string

func (s stepper) start(ctx context.Context, key string, step func(context.Context)) {
	go func() {
		if !slices.Contains(s, key) {
			<-ctx.Done()
		}
		step(ctx)
	}()
}

// left runs until the steps with these keys have ended, and leaves the run.
func left(t *testing.T, loop *aycoder.Loop, in aycoder.Input, facts aycoder.RunOption, until func(aycoder.Event) bool, keys ...string) *aycoder.Result {
	t.Helper()
	var res aycoder.Result
	for ev, err := range loop.Run(t.Context(), in, aycoder.WithSteps(stepper(keys).start), facts, aycoder.Into(&res)) {
		require.NoError(t, err)
		if until(ev) {
			break
		}
	}
	return &res
}

// A run that an engine drives is left after each step and continued by another loop, which stands for another
// program. The conversation is that of an ordinary run, and each call runs once.
func TestStepsAreContinuedElsewhere(t *testing.T) {
	steps := func() []script.Step {
		return []script.Step{
			script.Reply(script.Call("look", nil), script.Call("change", nil)),
			script.Fail(script.RateLimited(10 * time.Second)), script.Say("done"),
		}
	}
	ran := map[string]int{}
	whole := make(chan struct{}) // closed when the first message is: else it breaks off when the run is left
	done := sync.OnceFunc(func() { close(whole) })
	facts := aycoder.WithFacts(func(_ context.Context, rec *aycoder.FactRecord) error {
		if _, ok := rec.Fact.(*aycoder.MessageDone); ok {
			done()
		}
		return nil
	})
	allow := func(context.Context, *aycoder.ToolUse, *aycoder.ToolSpec) aycoder.Verdict { return aycoder.Allow() }
	made := func() []aycoder.Option {
		var tools []aycoder.Tool
		for name, effect := range map[string]aycoder.Effect{"look": aycoder.EffectReadOnly, "change": aycoder.EffectWrite} {
			tool, err := aycoder.NewTool(name, name, func(context.Context, *aycoder.Invocation, struct{}) (*aycoder.ToolResult, error) {
				<-whole
				ran[name]++
				return aycoder.TextResult(name), nil
			}, aycoder.WithEffect(effect))
			require.NoError(t, err)
			tools = append(tools, tool)
		}
		return []aycoder.Option{aycoder.WithTools(tools...), aycoder.WithApprover(aycoder.ApproverFunc(allow))}
	}
	model := script.New(steps()...)
	loop := func() *aycoder.Loop {
		l, err := aycoder.New(model, made()...)
		require.NoError(t, err)
		return l
	}
	finished := func(id string) func(aycoder.Event) bool {
		return func(ev aycoder.Event) bool { e, ok := ev.(*aycoder.ToolFinished); return ok && e.Call.ID == id }
	}
	res := left(t, loop(), aycoder.Input{Prompt: "go"}, facts, finished("call_1"), "t1/ask/call_1", "t1/tool/call_1")
	require.Equal(t, aycoder.EndSuspended, res.End)
	require.NotNil(t, res.Pending)
	require.Equal(t, map[string]int{"look": 1}, ran)

	turned := func(ev aycoder.Event) bool { _, ok := ev.(*aycoder.TurnFinished); return ok }
	res = left(t, loop(), aycoder.Input{Pending: res.Pending}, facts, turned, "t1/ask/call_2", "t1/tool/call_2")
	require.Equal(t, map[string]int{"look": 1, "change": 1}, ran)
	require.Equal(t, "model", res.Pending.State.Phase())

	retrying := func(ev aycoder.Event) bool { _, ok := ev.(*aycoder.Retrying); return ok }
	res = left(t, loop(), aycoder.Input{Pending: res.Pending}, facts, retrying)
	require.Equal(t, "wait", res.Pending.State.Phase())
	require.Len(t, model.Requests(), 2)

	res = left(t, loop(), aycoder.Input{Pending: res.Pending}, facts, func(aycoder.Event) bool { return false }, "t2/wait/1")
	require.Equal(t, aycoder.EndDone, res.End)
	require.Nil(t, res.Pending)
	require.Equal(t, "done", res.Text())

	plain, err := aycoder.New(script.New(steps()[0], steps()[2]), made()...)
	require.NoError(t, err)
	var want aycoder.Result
	for _, err := range plain.Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.Into(&want)) {
		require.NoError(t, err)
	}
	require.Equal(t, want.Messages, res.Messages)
}

// A run is left at the moment when it is recorded that a call begins, or while it works. The next run makes a read, and tells of another
// call that it was interrupted, as if it had been lost.
func TestCallLeft(t *testing.T) {
	for _, effect := range []aycoder.Effect{aycoder.EffectReadOnly, aycoder.EffectWrite} {
		for _, early := range []bool{true, false} {
			t.Run(fmt.Sprint(effect, early), func(t *testing.T) { callLeft(t, effect, early) })
		}
	}
}

func callLeft(t *testing.T, effect aycoder.Effect, early bool) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ran := 0
	look, err := aycoder.NewTool("look", "Looks.", func(work context.Context, _ *aycoder.Invocation, _ struct{}) (*aycoder.ToolResult, error) {
		if ran++; !early && ran == 1 {
			cancel()
			<-work.Done()
			return &aycoder.ToolResult{IsError: true, Parts: []aycoder.Part{&aycoder.Text{Text: "cancelled: it was stopped"}}}, nil
		}
		return aycoder.TextResult("seen"), nil
	}, aycoder.WithEffect(effect))
	require.NoError(t, err)
	loop, err := aycoder.New(script.New(script.Call("look", struct{}{}), script.Say("done")), aycoder.WithTools(look),
		aycoder.WithApprover(aycoder.ApproverFunc(func(context.Context, *aycoder.ToolUse, *aycoder.ToolSpec) aycoder.Verdict { return aycoder.Allow() })))
	require.NoError(t, err)
	leave := func(_ context.Context, rec *aycoder.FactRecord) error {
		if _, ok := rec.Fact.(*aycoder.ToolBegan); ok && early {
			cancel()
		}
		return nil
	}
	start := func(ctx context.Context, _ string, step func(context.Context)) { go step(ctx) }
	var res aycoder.Result
	for range loop.Run(ctx, aycoder.Input{Prompt: "go"}, aycoder.WithSteps(start), aycoder.WithFacts(leave), aycoder.Into(&res)) {
	}
	require.Equal(t, map[bool]int{false: 1}[early], ran)
	require.NotNil(t, res.Pending)
	for _, err := range loop.Run(t.Context(), aycoder.Input{Pending: res.Pending, RepeatReads: true}, aycoder.WithSteps(start), aycoder.Into(&res)) {
		require.NoError(t, err)
	}
	again, text := 1, "seen"
	if effect != aycoder.EffectReadOnly {
		again, text = 0, "interrupted: the program ended while this call worked; its outcome is unknown, check before doing it again"
	}
	require.Equal(t, map[bool]int{true: again, false: 1 + again}[early], ran)
	require.Equal(t, text, res.Messages[2].Parts[0].(*aycoder.ToolOutput).Text())
	require.Equal(t, "done", res.Text())
}

// A call whose step alone is stopped, with a cause, has the result that its tool gives.
func TestCallStoppedForGood(t *testing.T) {
	stop := func(error) {}
	work, err := aycoder.NewTool("work", "Works.", func(ctx context.Context, _ *aycoder.Invocation, _ struct{}) (*aycoder.ToolResult, error) {
		stop(errors.New("the run will not go on"))
		<-ctx.Done()
		return &aycoder.ToolResult{IsError: true, Parts: []aycoder.Part{&aycoder.Text{Text: "killed after 3 of 5 files"}}}, nil
	}, aycoder.WithEffect(aycoder.EffectWrite))
	require.NoError(t, err)
	loop, err := aycoder.New(script.New(script.Call("work", struct{}{}), script.Say("done")), aycoder.WithTools(work),
		aycoder.WithApprover(aycoder.ApproverFunc(func(context.Context, *aycoder.ToolUse, *aycoder.ToolSpec) aycoder.Verdict { return aycoder.Allow() })))
	require.NoError(t, err)
	ctx, leave := context.WithCancel(t.Context())
	start := func(ctx context.Context, key string, step func(context.Context)) {
		if !strings.Contains(key, "/tool/") {
			go step(ctx)
			return
		}
		ctx, stop = context.WithCancelCause(ctx)
		go func() {
			defer leave()
			step(ctx)
		}()
	}
	var res aycoder.Result
	for _, err := range loop.Run(ctx, aycoder.Input{Prompt: "go"}, aycoder.WithSteps(start), aycoder.Into(&res)) {
		require.NoError(t, err)
	}
	require.Len(t, res.Messages, 3)
	require.Equal(t, "killed after 3 of 5 files", res.Messages[2].Parts[0].(*aycoder.ToolOutput).Text())
}

// The spending of a call counts also if it is left to another run.
func TestCallLeftHasSpent(t *testing.T) {
	usage := aycoder.Usage{Input: 5, Output: 7}
	inner, err := aycoder.New(script.New(script.Say("one").WithUsage(usage), script.Say("two").WithUsage(usage)))
	require.NoError(t, err)
	ctx, leave := context.WithCancel(t.Context())
	look, err := aycoder.NewTool("look", "Looks.", func(work context.Context, _ *aycoder.Invocation, _ struct{}) (*aycoder.ToolResult, error) {
		for _, err := range inner.Run(work, aycoder.Input{Prompt: "look"}) {
			if err != nil {
				return nil, err
			}
		}
		leave()
		return aycoder.TextResult("seen"), work.Err()
	}, aycoder.WithEffect(aycoder.EffectReadOnly))
	require.NoError(t, err)
	call := script.Call("look", nil).WithUsage(aycoder.Usage{})
	loop, err := aycoder.New(script.New(call, script.Say("done").WithUsage(aycoder.Usage{})), aycoder.WithTools(look))
	require.NoError(t, err)
	start := func(ctx context.Context, _ string, step func(context.Context)) { go step(ctx) }
	var res aycoder.Result
	for _, err := range loop.Run(ctx, aycoder.Input{Prompt: "go"}, aycoder.WithSteps(start), aycoder.Into(&res)) {
		require.NoError(t, err)
	}
	require.NotNil(t, res.Pending)
	require.Equal(t, usage, res.Usage)
	for _, err := range loop.Run(t.Context(), aycoder.Input{Pending: res.Pending, RepeatReads: true}, aycoder.WithSteps(start), aycoder.Into(&res)) {
		require.NoError(t, err)
	}
	require.Equal(t, "done", res.Text())
	require.Equal(t, usage.Add(usage), res.Usage)
}

// logged tells of the line about a late result.
type logged chan string

func (l logged) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("late result of a tool was thrown away")) {
		l <- "it is thrown away"
	}
	return len(p), nil
}

// The result of a call that does not stop in time comes when the run was left: while the model was still answering, or later.
// It is thrown away, and nobody is told of it.
func TestResultAfterTheRunWasLeft(t *testing.T) {
	for _, phase := range []string{"model", "tools"} {
		t.Run(phase, func(t *testing.T) { resultAfterLeaving(t, phase) })
	}
}

func resultAfterLeaving(t *testing.T, phase string) {
	ctx, leave := context.WithCancel(t.Context())
	ctl := new(aycoder.Control)
	goOn, late, answered := make(chan struct{}), make(chan string, 1), make(chan struct{})
	work, err := aycoder.NewTool("work", "Works.", func(context.Context, *aycoder.Invocation, struct{}) (*aycoder.ToolResult, error) {
		if phase == "tools" {
			<-answered
		}
		leave()
		<-goOn
		return aycoder.TextResult("done"), nil
	}, aycoder.WithEffect(aycoder.EffectReadOnly))
	require.NoError(t, err)
	model := &fake{turns: [][]any{{use("c", "work", `{}`), func(ctx context.Context) {
		if phase == "model" {
			<-ctx.Done()
		}
	}, &aycoder.MessageDone{Stop: aycoder.StopToolUse}}}}
	loop, err := aycoder.New(model, aycoder.WithTools(work),
		aycoder.WithLimits(aycoder.Limits{Grace: time.Millisecond}), aycoder.WithLogger(slog.New(slog.NewTextHandler(logged(late), nil))))
	require.NoError(t, err)
	over := false
	record := func(_ context.Context, rec *aycoder.FactRecord) error {
		if over {
			late <- fmt.Sprintf("%T is recorded", rec.Fact)
		}
		if _, ok := rec.Fact.(*aycoder.MessageDone); ok {
			close(answered)
		}
		return nil
	}
	start := func(ctx context.Context, _ string, step func(context.Context)) { go step(ctx) }
	var res aycoder.Result
	for _, err := range loop.Run(ctx, aycoder.Input{Prompt: "go"}, aycoder.WithSteps(start), aycoder.WithControl(ctl), aycoder.WithFacts(record), aycoder.Into(&res)) {
		require.NoError(t, err)
	}
	over = true
	close(goOn)
	require.Equal(t, "it is thrown away", <-late)
	require.Equal(t, phase, ctl.State().Phase())
}
