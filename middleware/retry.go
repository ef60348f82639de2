package middleware

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"time"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/part"
)

// RetryOptions configures [Retry]. The zero value selects the defaults.
type RetryOptions struct {
	// Policy bounds how often and for how long a request is retried. Default: the zero value of
	// [aycoder.RetryPolicy], which means 5 retries and 5 minutes of waiting at most.
	Policy aycoder.RetryPolicy
	// Clock tells the time and runs the timers of waits. Retry also uses it to find out whether a
	// wait would last beyond the deadline of the context. Default: [aycoder.SystemClock].
	Clock aycoder.Clock
	// Random returns a number in the interval [0, 1). It varies the waits, so that many clients
	// do not retry at the same moment. Random must be safe for concurrent use. Default:
	// math/rand/v2.
	Random func() float64
}

// Retry sends a request again after a failure that may be temporary. As in the loop of an agent,
// [aycoder.RetryPolicy.Decide] decides whether and when to do so. If a provider reports a rate
// limit or overload and asks for a wait, Retry waits that long. Otherwise, as after a broken
// stream or a timeout, the first wait is short and the following ones are longer. Retry returns
// all other errors at once, for example the error for a request that exceeds the context window:
// Retry cannot shorten the request. Even a temporary error is returned at once if the deadline of
// the context would pass during the wait.
//
// Before each wait, Retry yields an [aycoder.Retrying]. The part of the answer that arrived
// before it is void. After a complete block ([aycoder.BlockDone], [aycoder.BlockTruncated]),
// Retry does not send the request again, since the block may already be in use. In that case, and
// if all attempts failed, it returns the last error unchanged.
//
// The loop of an agent already retries, even after a complete block. Within a loop, Retry is
// therefore only useful to give each client of a [Fallback] several attempts before the next
// client is asked. In that case, turn off the retries of the loop:
//
//	aycoder.WithRetry(aycoder.RetryPolicy{Attempts: -1})
//
// If both the loop and Retry retried, a request that keeps failing would be sent 6 × 6 times by
// default, with an [aycoder.Retrying] before each repetition.
//
// Retry is also useful for requests without a loop, such as [aycoder.Complete].
func Retry(o RetryOptions) aycoder.ModelMiddleware {
	o.Clock = clockOr(o.Clock)
	if o.Random == nil {
		o.Random = rand.Float64
	}
	return wrap("Retry", func(w wrapper) aycoder.ModelClient { return &retrier{w, o} })
}

type retrier struct {
	wrapper
	RetryOptions
}

// Stream implements [aycoder.ModelClient].
func (r *retrier) Stream(ctx context.Context, req *aycoder.Request) iter.Seq2[aycoder.ModelEvent,
	error] {
	return part.Once(func(yield yieldFunc) { r.stream(ctx, req, yield) })
}

func (r *retrier) stream(ctx context.Context, req *aycoder.Request, yield yieldFunc) {
	var waited time.Duration
	for attempt := 0; ; attempt++ {
		t := forward(ctx, r.next, req, yield)
		if t.err == nil {
			return
		}
		f := r.decide(ctx, t, attempt, waited)
		if !f.Retry {
			yield(nil, t.err)
			return
		}
		waited += f.After
		ev := &aycoder.Retrying{Discarded: t.heard, Attempt: attempt + 1, After: f.After,
			Err: t.err}
		if !yield(ev, nil) {
			return
		}
		if sleep(ctx, r.Clock, f.After) != nil {
			yield(nil, r.cancelled(ctx, fmt.Sprintf("wait before retry %d (%v)", attempt+1, t.err)))
			return
		}
	}
}

func (r *retrier) decide(ctx context.Context, t try, attempt int,
	waited time.Duration) aycoder.ModelFailed {
	if t.blocks || ctx.Err() != nil {
		return aycoder.ModelFailed{}
	}
	f := r.Policy.Decide(aycoder.Failure{
		Err: t.err, Attempt: attempt, Waited: waited,
		Now: r.Clock.Now(), Random: r.Random(), Shrunk: true,
	})
	if end, ok := ctx.Deadline(); ok && end.Sub(r.Clock.Now()) <= f.After {
		return aycoder.ModelFailed{}
	}
	return f
}
