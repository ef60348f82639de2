package middleware

import (
	"context"
	"errors"
	"iter"
	"math"
	"time"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/part"
)

// IdleTimeout ends a request with an [aycoder.TimeoutError] if the client yields nothing for the
// duration d, before the first event or between two events. The time in which the consumer
// handles an event does not count. If the client announces a wait with an [aycoder.Retrying], the
// wait does not count either. If d is 0 or negative, there is no timeout.
//
// The clients in the directory providers already have such a timeout; IdleTimeout is for other
// clients. Make it the innermost middleware. A [RateLimit] inside of IdleTimeout could cause a
// timeout, because RateLimit yields nothing while it waits.
//
// IdleTimeout stops the client by cancelling the context of the request. There is no other way,
// since the client runs on the goroutine that ranges over the sequence. If the client ignores its
// context, the request ends only when the client returns. Ending the request earlier would leave
// a goroutine behind. When the run of an agent is cancelled, the agent abandons such a client
// after the time in [aycoder.Limits].Grace, except for a run of [aycoder.Loop.Inline], which waits.
func IdleTimeout(d time.Duration) aycoder.ModelMiddleware {
	return wrap("IdleTimeout", func(w wrapper) aycoder.ModelClient {
		if d <= 0 {
			return w.next
		}
		return &watchdog{w, d}
	})
}

type watchdog struct {
	wrapper
	idle time.Duration
}

// Stream implements [aycoder.ModelClient].
func (w *watchdog) Stream(ctx context.Context, req *aycoder.Request) iter.Seq2[aycoder.ModelEvent,
	error] {
	return part.Once(func(yield yieldFunc) { w.stream(ctx, req, yield) })
}

func (w *watchdog) stream(ctx context.Context, req *aycoder.Request, yield yieldFunc) {
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	limit := w.idle
	timer := time.AfterFunc(limit, func() { cancel(errIdle) })
	defer timer.Stop()
	t := forward(inner, w.next, req, func(ev aycoder.ModelEvent, err error) bool {
		timer.Stop()
		if !yield(ev, err) {
			return false
		}
		limit = w.idle
		if r, ok := ev.(*aycoder.Retrying); ok && r != nil {
			limit += min(max(r.After, 0), math.MaxInt64-limit)
		}
		timer.Reset(limit)
		return true
	})
	if t.err == nil {
		return
	}
	if context.Cause(inner) == errIdle && stopped(t.err) {
		t.err = &aycoder.TimeoutError{ModelError: w.modelError(nil), Elapsed: limit}
	}
	yield(nil, t.err)
}

// stopped reports whether err may be the result of a cancelled context. Any other error came at
// the same moment by chance, and says more than the timeout.
func stopped(err error) bool {
	return errors.Is(err, context.Canceled) || is[*aycoder.StreamBrokenError](err) ||
		!is[*aycoder.ModelError](err)
}
