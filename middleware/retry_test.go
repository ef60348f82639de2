package middleware_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/middleware"
	"github.com/aycoder/aycoder/providers/script"
)

// steady is a Retry without spread.
func steady(p aycoder.RetryPolicy) aycoder.ModelMiddleware {
	return middleware.Retry(middleware.RetryOptions{Policy: p, Random: func() float64 { return 0 }})
}

func TestRetry(t *testing.T) {
	reset := func() error {
		return &aycoder.RateLimitError{ModelError: base(429), ResetAt: time.Now().Add(90 * time.Second)}
	}
	overloaded := &aycoder.OverloadedError{ModelError: base(503), RetryAfter: 7 * time.Second}
	timeout := &aycoder.TimeoutError{ModelError: base(0)}
	tests := []struct {
		name   string
		policy aycoder.RetryPolicy
		steps  func() []script.Step
		want   string
		waits  time.Duration
		err    any
	}{
		{"asked again at once", aycoder.RetryPolicy{}, steps(script.Say("Hi")),
			"Hi|done *aycoder.Text|end end_turn", 0, nil},
		{"retry after", aycoder.RetryPolicy{}, steps(script.Fail(script.RateLimited(20*time.Second)), script.Say("Hi")),
			"retry 1 false 20s|Hi|done *aycoder.Text|end end_turn", 20 * time.Second, nil},
		{"reset time", aycoder.RetryPolicy{},
			func() []script.Step { return []script.Step{script.Fail(reset()), script.Say("Hi")} },
			"retry 1 false 1m30s|Hi|done *aycoder.Text|end end_turn", 90 * time.Second, nil},
		{"overload that says when", aycoder.RetryPolicy{}, steps(script.Fail(overloaded), script.Say("Hi")),
			"retry 1 false 7s|Hi|done *aycoder.Text|end end_turn", 7 * time.Second, nil},
		{"longer each time", aycoder.RetryPolicy{},
			steps(script.Fail(script.Overloaded()), script.Fail(timeout), script.Fail(broken()), script.Say("Hi")),
			"retry 1 false 1s|retry 2 false 2s|retry 3 false 4s|Hi|done *aycoder.Text|end end_turn", 7 * time.Second, nil},
		{"deltas are void", aycoder.RetryPolicy{}, steps(script.Break(2, nil, script.Say("one two three")), script.Say("Hi")),
			"one |two |retry 1 true 1s|Hi|done *aycoder.Text|end end_turn", time.Second, nil},
		{"not after a block", aycoder.RetryPolicy{}, steps(script.Break(2, nil, script.Say("one"), script.Say("two"))),
			"one|done *aycoder.Text", 0, new(*aycoder.StreamBrokenError)},
		{"not after a call that was cut", aycoder.RetryPolicy{}, steps(script.Break(3, nil, script.Cut("a", `{"x`))),
			"a |a {\"x|cut", 0, new(*aycoder.StreamBrokenError)},
		{"attempts", aycoder.RetryPolicy{Attempts: 2},
			steps(script.Fail(script.Overloaded()), script.Fail(script.Overloaded()), script.Fail(broken())),
			"retry 1 false 1s|retry 2 false 2s", 3 * time.Second, new(*aycoder.StreamBrokenError)},
		{"none", aycoder.RetryPolicy{Attempts: -1}, steps(script.Fail(script.Overloaded())),
			"", 0, new(*aycoder.OverloadedError)},
		{"budget of one wait", aycoder.RetryPolicy{Budget: 10 * time.Second},
			steps(script.Fail(script.RateLimited(11 * time.Second))), "", 0, new(*aycoder.RateLimitError)},
		{"budget of all waits", aycoder.RetryPolicy{Budget: 10 * time.Second},
			steps(script.Fail(script.RateLimited(6*time.Second)), script.Fail(script.RateLimited(6*time.Second))),
			"retry 1 false 6s", 6 * time.Second, new(*aycoder.RateLimitError)},
		{"too large", aycoder.RetryPolicy{}, steps(script.Fail(script.TooLarge(9, 8))),
			"", 0, new(*aycoder.ContextTooLargeError)},
		{"bad request", aycoder.RetryPolicy{}, steps(script.Fail(badRequest())), "", 0, new(*aycoder.BadRequestError)},
		{"wrong key", aycoder.RetryPolicy{}, steps(script.Fail(&aycoder.AuthError{ModelError: base(401)})),
			"", 0, new(*aycoder.AuthError)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start, m := time.Now(), script.New(tt.steps()...)
				o := stream(t.Context(), t, steady(tt.policy)(m), ask("q"))
				require.Equal(t, tt.want, o.String())
				require.Equal(t, tt.waits, time.Since(start))
				if tt.err == nil {
					require.NoError(t, o.err)
				} else {
					require.ErrorAs(t, o.err, tt.err)
				}
				require.Len(t, m.Requests(), len(tt.steps()))
			})
		})
	}
}

func steps(s ...script.Step) func() []script.Step { return func() []script.Step { return s } }

func TestRetryIsCancelledWhileItWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("the user has left")
		time.AfterFunc(3*time.Second, func() { cancel(why) })
		start := time.Now()
		o := stream(ctx, t, steady(aycoder.RetryPolicy{})(script.New(script.Fail(script.RateLimited(time.Minute)))), ask("q"))
		require.Equal(t, 3*time.Second, time.Since(start))
		require.ErrorIs(t, o.err, context.Canceled)
		require.ErrorIs(t, o.err, why)
		e, ok := errors.AsType[*aycoder.ModelError](o.err)
		require.True(t, ok)
		require.Equal(t, "script", e.Provider)
		require.ErrorContains(t, o.err, "rate limited")
	})
}

func TestRetryKnowsTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start := time.Now()
		m := loop(script.Fail(script.RateLimited(40 * time.Second)))
		o := stream(ctx, t, steady(aycoder.RetryPolicy{})(m), ask("q"))
		require.Equal(t, 40*time.Second, time.Since(start), "the second wait would end too late")
		require.ErrorAs(t, o.err, new(*aycoder.RateLimitError))
	})
}

// A deadline is one of the clock that is given.
func TestRetryAsksItsClockForTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := ahead{aycoder.SystemClock(), time.Hour}
		ctx, cancel := context.WithDeadline(t.Context(), clock.Now().Add(time.Minute))
		defer cancel()
		m := loop(script.Fail(script.RateLimited(2 * time.Minute)))
		o := stream(ctx, t, middleware.Retry(middleware.RetryOptions{Clock: clock})(m), ask("q"))
		require.ErrorAs(t, o.err, new(*aycoder.RateLimitError))
		require.Empty(t, o.events)
		require.Len(t, m.Requests(), 1)
	})
}

// ahead is a clock that is ahead of another.
type ahead struct {
	aycoder.Clock
	by time.Duration
}

func (a ahead) Now() time.Time { return a.Clock.Now().Add(a.by) }

// In a loop, each try is announced once, and the loop's own tries can be set off.
func TestRetryInALoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := loop(script.Break(1, nil, script.Say("one two")))
		agent, err := aycoder.New(m, aycoder.WithModelMiddleware(steady(aycoder.RetryPolicy{Attempts: 2})),
			aycoder.WithRetry(aycoder.RetryPolicy{Attempts: -1}))
		require.NoError(t, err)
		var told []aycoder.Retrying
		var last error
		for ev, err := range agent.Run(t.Context(), aycoder.Input{Prompt: "q"}) {
			if r, ok := ev.(*aycoder.Retrying); ok {
				told = append(told, *r)
			}
			last = err
		}
		require.ErrorAs(t, last, new(*aycoder.StreamBrokenError))
		require.Len(t, m.Requests(), 3)
		require.Len(t, told, 2)
		require.True(t, told[0].Discarded)
		require.Equal(t, []int{1, 2}, []int{told[0].Attempt, told[1].Attempt})
	})
}
