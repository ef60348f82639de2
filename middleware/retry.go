package middleware

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"time"

	"github.com/aycoder/aycoder"
)

// RetryOptions set up [Retry]. The zero value means the defaults.
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

// Retry asks the client again after a failure that may pass. Whether, and after how
// long, is decided by [aycoder.RetryPolicy.Decide] alone, as in the loop of an
// agent: rate limits and overload wait as the provider asked, broken streams and
// timeouts for a short time, everything else fails at once. So does a context that
// is too large, since nobody here can make the request smaller, and a failure after
// which the deadline of the context would pass while waiting.
//
// Before each wait it yields an [aycoder.Retrying], which makes void what came of
// the answer so far. Once a block is complete ([aycoder.BlockDone],
// [aycoder.BlockCut]) nothing is tried again, for it may be in use: the error comes
// as it is, and so does the error of the last try.
//
// An agent's loop tries again by itself, and can do so after a complete block, too.
// So a client of a loop needs no Retry, except to give each client of a [Fallback]
// several tries before the next is asked. Set the loop's own tries off then, with
//
//	aycoder.WithRetry(aycoder.RetryPolicy{Attempts: -1})
//
// or a request that fails for good is tried 6 × 6 times: none of them hidden, each is
// announced by a Retrying. Retry is for requests without a loop, such as
// [aycoder.Complete].
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
func (r *retrier) Stream(ctx context.Context, req *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
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
		ev := &aycoder.Retrying{Discarded: t.heard, Attempt: attempt + 1, After: f.After, Err: t.err}
		if !yield(ev, nil) {
			return
		}
		if sleep(ctx, r.Clock, f.After) != nil {
			yield(nil, r.cancelled(ctx, fmt.Sprintf("wait before retry %d (%v)", attempt+1, t.err)))
			return
		}
	}
}

func (r *retrier) decide(ctx context.Context, t try, attempt int, waited time.Duration) aycoder.ModelFailed {
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
