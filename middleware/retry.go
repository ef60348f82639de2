package middleware

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"time"

	"github.com/aycoder/aycoder"
)

// RetryOptions configures [Retry]. The zero value selects the defaults.
type RetryOptions struct {
	// Policy bounds how often and how long a request is tried again. Default: 5 times,
	// within 5 minutes of waiting, as [aycoder.RetryPolicy] says.
	Policy aycoder.RetryPolicy
	// Clock tells the time and waits; the deadline of a context is one of its times.
	// Default: [aycoder.SystemClock].
	Clock aycoder.Clock
	// Random spreads the waits: numbers in [0, 1). It is safe for concurrent use.
	// Default: math/rand/v2.
	Random func() float64
}

// Retry repeats a request after a failure that may be temporary. As in the loop of an agent,
// only [aycoder.RetryPolicy.Decide] decides whether and when: after a rate limit or overload
// Retry waits as long as the provider asked, after a broken stream or a timeout for a short
// time, and all other errors are returned at once. An error is also returned at once if the
// context window is exceeded, since Retry cannot shrink the request, and if the deadline of ctx
// would pass during the wait.
//
// Before each wait, Retry yields an [aycoder.Retrying], which makes the answer so far void.
// After a complete block ([aycoder.BlockDone], [aycoder.BlockTruncated]) it does not retry, since the
// block may be in use: the error is returned unchanged. The error of the last attempt is
// returned unchanged as well.
//
// The loop of an agent already retries, even after a complete block. A client of a loop
// therefore needs Retry only to give each client of a [Fallback] several attempts before the
// next one is asked. Turn the retries of the loop off in that case, with
//
//	aycoder.WithRetry(aycoder.RetryPolicy{Attempts: -1})
//
// or a request that fails permanently is sent 6 × 6 times, each announced by a Retrying.
// Otherwise, Retry is for requests without a loop, such as [aycoder.Complete].
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
	return once(func(yield yieldFunc) { r.stream(ctx, req, yield) })
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
