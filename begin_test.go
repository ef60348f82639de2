package aycoder_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
)

// After a fatal error or a cancel, no call begins, however long the loop body takes and whatever the
// tools think of their context.
func TestNothingBeginsAfterTheEnd(t *testing.T) {
	full := errors.New("disk full")
	for _, tt := range []struct {
		name string
		next *aycoder.BlockDone // the second call
		err  error              // of the first one; nil if the run is cancelled
	}{
		{"fatal", use("b", "write", `{"text":"second"}`), full},
		{"fatal, declared", use("b", "deploy", `{"version":"2"}`), full},
		{"fatal beside an agent", nil, full},
		{"cancel", use("b", "write", `{"text":"second"}`), nil},
		{"cancel, declared", use("b", "deploy", `{"version":"2"}`), nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for range 20 {
				synctest.Test(t, func(t *testing.T) {
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					var began []string
					write := newTool(t, "write", aycoder.EffectWrite, func(_ context.Context, text string) (string, error) {
						began = append(began, text)
						<-time.After(time.Second / 2)
						if text == "first" && tt.err != nil {
							return "", aycoder.Fatal(tt.err)
						}
						return text, nil
					})
					late := &fake{turns: [][]any{{func(context.Context) { <-time.After(time.Second * 3 / 4) }}, say("never")}}
					late.turns[0] = append(late.turns[0], calls(use("l", "write", `{"text":"second"}`))...)
					agent := nest(t, newLoop(t, late, aycoder.WithTools(write)))
					turn := calls(use("a", "write", `{"text":"first"}`), tt.next)
					if tt.next == nil { // it reads, so it works at the same time
						turn = calls(use("b", "agent", `{"text":"go"}`), use("a", "fail", `{"text":"first"}`))
					}
					fail := newTool(t, "fail", aycoder.EffectReadOnly, func(context.Context, string) (string, error) {
						<-time.After(time.Second / 2)
						return "", aycoder.Fatal(tt.err)
					})
					loop := newLoop(t, &fake{turns: [][]any{turn, say("never")}}, aycoder.WithApprover(allow),
						aycoder.WithTools(write, fail, agent, declare(t, "deploy")))
					var res aycoder.Result
					var failed error
					for ev, err := range loop.Run(ctx, aycoder.Input{Prompt: "go"}, aycoder.Into(&res)) {
						failed = err
						switch ev := ev.(type) {
						case *aycoder.ToolStarted:
							if ev.Call.ID == "a" && tt.err == nil {
								cancel()
								<-time.After(time.Minute)
							}
						case *aycoder.ToolFinished:
							<-time.After(time.Minute)
						}
					}
					require.Error(t, failed)
					require.NotContains(t, began, "second")
					if tt.next != nil {
						require.Equal(t, "not run: the run was cancelled", lastOutputs(&res)[1])
					}
				})
			}
		})
	}
}

// A call whose step ends before it begins has an output. The run goes on.
func TestStepEndsBeforeItsCallBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		minute := func(ctx context.Context, _ string, step func(context.Context)) {
			go func() {
				ctx, cancel := context.WithTimeout(ctx, time.Minute)
				defer cancel()
				step(ctx)
			}()
		}
		slow := newTool(t, "slow", aycoder.EffectReadOnly, func(context.Context, string) (string, error) {
			<-time.After(2 * time.Minute)
			return "read", nil
		})
		loop := newLoop(t, &fake{turns: [][]any{calls(use("a", "slow", `{"text":""}`), use("b", "slow", `{"text":""}`)), say("done")}},
			aycoder.WithTools(slow), aycoder.WithExecutor(minute), aycoder.WithLimits(aycoder.Limits{Parallel: 1}))
		var res aycoder.Result
		_, err := collect(loop.Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.Into(&res)))
		require.NoError(t, err)
		require.ElementsMatch(t, []string{"read", "tool slow: not run: it was stopped before it began"}, lastOutputs(&res))
		require.Equal(t, "done", res.Text())
	})
}

// A result from outside does not wait for the calls that work.
func TestResultFromOutsideNeedsNoSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		deploy := declare(t, "deploy", aycoder.WithEffect(aycoder.EffectReadOnly))
		slow := newTool(t, "run", aycoder.EffectReadOnly, func(context.Context, string) (string, error) {
			<-time.After(time.Hour)
			return "read", nil
		})
		loop := newLoop(t, &fake{turns: [][]any{calls(use("a", "deploy", `{"version":"1"}`), use("b", "run", `{"text":""}`)), say("done")}},
			aycoder.WithTools(slow, deploy), allows, aycoder.WithLimits(aycoder.Limits{Parallel: 1}))
		start := time.Now()
		took := map[string]time.Duration{}
		for ev, err := range loop.Run(t.Context(), aycoder.Input{Prompt: "go"}) {
			require.NoError(t, err)
			switch ev := ev.(type) {
			case *aycoder.CallRequested:
				call := ev.Detach()
				go func() {
					<-time.After(time.Minute)
					_ = call.Answer(aycoder.TextResult("deployed"))
				}()
			case *aycoder.ToolFinished:
				took[ev.Call.Name] = time.Since(start)
			}
		}
		require.Equal(t, map[string]time.Duration{"deploy": time.Minute, "run": time.Hour}, took)
	})
}

// exits is a tool whose second preview ends its goroutine, as t.FailNow does.
type exits struct {
	aycoder.Tool
	previews int
}

func (e *exits) Preview(context.Context, *aycoder.Invocation) (string, error) {
	if e.previews++; e.previews == 2 {
		runtime.Goexit()
	}
	return "", nil
}

// If what is asked right before a call begins ends its goroutine, the call has an output.
func TestCallWhosePreviewExits(t *testing.T) {
	bash, err := aycoder.NewTool("bash", "A tool.", func(context.Context, *aycoder.Invocation, echoArgs) (*aycoder.ToolResult, error) {
		return aycoder.TextResult("ran"), nil
	}, aycoder.WithEffect(aycoder.EffectWrite), aycoder.WithSubject(aycoder.SubjectCommand, "text"))
	require.NoError(t, err)
	synctest.Test(t, func(t *testing.T) {
		loop := newLoop(t, &fake{turns: [][]any{calls(use("a", "bash", `{"text":"ls"}`)), say("done")}},
			aycoder.WithTools(&exits{Tool: bash}), aycoder.WithApprover(allow))
		var res aycoder.Result
		_, err := collect(loop.Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.Into(&res)))
		require.NoError(t, err)
		require.Equal(t, []string{"goroutine exited before it returned"}, lastOutputs(&res))
	})
}
