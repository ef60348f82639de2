package middleware_test

import (
	"context"
	"errors"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/middleware"
	"github.com/aycoder/aycoder/providers/script"
)

// paced waits before each event of a client, and does so for the context only.
func paced(f *fake, waits ...time.Duration) aycoder.ModelFunc {
	return func(ctx context.Context, req *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
		return func(yield func(aycoder.ModelEvent, error) bool) {
			n := 0
			for ev, err := range f.Stream(ctx, req) {
				select {
				case <-time.After(waits[n]):
				case <-ctx.Done():
					yield(nil, &aycoder.ModelError{Err: ctx.Err()})
					return
				}
				if n++; !yield(ev, err) {
					return
				}
			}
		}
	}
}

func TestIdleTimeout(t *testing.T) {
	tests := []struct {
		name    string
		waits   []time.Duration
		want    string
		timeout bool
		elapsed time.Duration
	}{
		{"lively", []time.Duration{9, 9, 9}, "x|done *aycoder.Text|end end_turn", false, 27},
		{"before the first event", []time.Duration{11}, "", true, 10},
		{"between two", []time.Duration{9, 11}, "x", true, 19},
		{"before the end", []time.Duration{9, 9, 11}, "x|done *aycoder.Text", true, 28},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				for i := range tt.waits {
					tt.waits[i] *= time.Second
				}
				start := time.Now()
				o := stream(t.Context(), t, middleware.IdleTimeout(10*time.Second)(paced(saying("x"), tt.waits...)), ask("q"))
				require.Equal(t, tt.want, o.String())
				require.Equal(t, tt.elapsed*time.Second, time.Since(start))
				e, ok := errors.AsType[*aycoder.TimeoutError](o.err)
				require.Equal(t, tt.timeout, ok, "%v", o.err)
				if tt.timeout {
					require.Equal(t, 10*time.Second, e.Elapsed)
					require.NotErrorIs(t, o.err, context.Canceled)
				}
			})
		})
	}
}

func TestIdleTimeoutLeavesTimeToTheConsumer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := middleware.IdleTimeout(time.Second)(paced(saying("x"), 900*time.Millisecond, 900*time.Millisecond, 0))
		n := 0
		for _, err := range m.Stream(t.Context(), ask("q")) {
			require.NoError(t, err)
			time.Sleep(time.Hour) // of the bubble
			n++
		}
		require.Equal(t, 3, n)
	})
}

func TestIdleTimeoutWaitsForAnnouncedRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := steady(aycoder.RetryPolicy{})(script.New(script.Fail(script.RateLimited(time.Minute)), script.Say("Hi")))
		o := stream(t.Context(), t, middleware.IdleTimeout(time.Second)(inner), ask("q"))
		require.NoError(t, o.err)
		require.Equal(t, "retry 1 false 1m0s|Hi|done *aycoder.Text|end end_turn", o.String())
	})
}

// A wait that is announced may be as long as there is.
func TestIdleTimeoutOfALongWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := saying("x")
		slow.events = append([]aycoder.ModelEvent{&aycoder.Retrying{After: 1<<63 - 1}}, slow.events...)
		o := stream(t.Context(), t, middleware.IdleTimeout(time.Second)(paced(slow, 0, time.Hour, 0, 0)), ask("q"))
		require.NoError(t, o.err)
	})
}

func TestIdleTimeoutPassesOtherErrors(t *testing.T) {
	m := middleware.IdleTimeout(time.Hour)
	o := stream(t.Context(), t, m(failing("p", badRequest(), "x")), ask("q"))
	require.ErrorAs(t, o.err, new(*aycoder.BadRequestError))

	inner := saying("x")
	require.Equal(t, aycoder.ModelClient(inner), middleware.IdleTimeout(0)(inner), "it watches nothing")

	synctest.Test(t, func(t *testing.T) { // an error that says more, at the same moment
		late := &fake{deaf: make(chan struct{}), err: badRequest()}
		plain := aycoder.ModelFunc(func(_ context.Context, req *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
			return late.Stream(context.Background(), req)
		})
		time.AfterFunc(5*time.Second, func() { close(late.deaf) })
		o := stream(t.Context(), t, middleware.IdleTimeout(time.Second)(plain), ask("q"))
		require.ErrorAs(t, o.err, new(*aycoder.BadRequestError))
	})
}

// A client that ignores its context cannot be stopped; what it says then is late.
func TestIdleTimeoutOfADeafClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		deaf := &fake{deaf: make(chan struct{})}
		start := time.Now()
		time.AfterFunc(time.Minute, func() { close(deaf.deaf) })
		o := stream(t.Context(), t, middleware.IdleTimeout(time.Second)(deaf), ask("q"))
		require.ErrorAs(t, o.err, new(*aycoder.TimeoutError))
		require.Equal(t, time.Minute, time.Since(start))
	})
}

func TestIdleTimeoutIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		o := stream(ctx, t, middleware.IdleTimeout(time.Minute)(&fake{hang: true}), ask("q"))
		require.ErrorIs(t, o.err, context.DeadlineExceeded)
		require.False(t, errors.As(o.err, new(*aycoder.TimeoutError)))
	})
}
