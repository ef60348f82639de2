package aycoder

import (
	"cmp"
	"errors"
	"time"
)

// RetryPolicy says how often and for how long a run retries requests to the model. A field that is
// 0 has its default value.
type RetryPolicy struct {
	// Attempts is the maximum number of retries for one message, or negative for no retries. It
	// does not limit retries with a smaller request, see [RetryPolicy.Decide]. Default: 5.
	Attempts int
	// Base is the wait before the first retry. It doubles for each retry, up to 1m. Default: 1s.
	Base time.Duration
	// Budget is the maximum total of the waits for one message. The time of requests that ended
	// with a [TimeoutError] counts, too. If a provider asks for a wait that is longer than the
	// rest of the budget, the run fails without waiting. Default: 5 minutes.
	Budget time.Duration
}

// Failure is the input of [RetryPolicy.Decide]: the error, and all data that the decision needs.
type Failure struct {
	// Err is the error of the request.
	Err error
	// Attempt is the number of earlier retries for this message. Those with a smaller request count only
	// if Err is a [*ContextTooLargeError]. Waited is the sum of their waits.
	Attempt int
	Waited  time.Duration
	// Now is the current time. Random is a number in [0, 1), which spreads retries over time.
	Now    time.Time
	Random float64
	// Shrunk says that the request cannot be made smaller. Decide gives up if it was too large.
	Shrunk bool
	// Sent is the approximate size of the text in the request's messages, in bytes. Fixed is the
	// size of the rest, such as the system prompt, which a smaller request must still contain.
	Sent, Fixed int64
}

// Decide says whether and when the model is asked again after a failure. It is a pure function,
// and makes all decisions about retries:
//
//   - Rate limit or overload: the run retries after the time that the provider asks for, such as
//     in the header Retry-After. Without such a time, the wait doubles with each retry.
//   - Broken stream or timeout: the run retries, and the wait doubles with each retry. After a
//     timeout, Decide assumes that each attempt took as long as the last one, and counts the sum
//     toward Budget. By default, the run gives up after about five minutes of silence.
//   - Context too large: the run retries at once with a smaller request, regardless of Attempts,
//     until the request fits or nothing more can be left out. Decide derives the new size from the
//     error's Actual and Max, or estimates it.
//   - Answer over a limit, a [*LimitError]: the run fails, and the history keeps the complete
//     blocks of the answer.
//   - Any other error: the run fails at once. Examples are a wrong key, a bad request, a refusal,
//     an unknown model, and errors that are not a [*ModelError].
func (p RetryPolicy) Decide(f Failure) ModelFailed {
	attempts, budget := cmp.Or(p.Attempts, 5), cmp.Or(p.Budget, 5*time.Minute)
	if e, ok := errors.AsType[*ContextTooLargeError](f.Err); ok {
		if f.Shrunk {
			return ModelFailed{}
		}
		return ModelFailed{Retry: true, Shrink: true, Limit: e.limit(f)}
	}
	if _, ok := errors.AsType[*LimitError](f.Err); ok {
		return ModelFailed{Keep: true}
	}
	asked, ok := transient(f.Err, f.Now)
	if !ok || f.Attempt >= attempts {
		return ModelFailed{}
	}
	if silent, ok := errors.AsType[*TimeoutError](f.Err); ok &&
		silent.Elapsed >= (budget-f.Waited)/time.Duration(f.Attempt+1) {
		return ModelFailed{}
	}
	if asked > budget-f.Waited {
		return ModelFailed{}
	}
	wait := p.backoff(f)
	if asked > 0 {
		wait = asked + time.Duration(f.Random*float64(min(asked/10, time.Second)))
	}
	if f.Waited+wait > budget {
		return ModelFailed{}
	}
	return ModelFailed{Retry: true, After: wait}
}

// bytesPerToken is a rule of thumb for requests whose size in tokens is unknown.
const bytesPerToken = 4

// limit returns the maximum size of the messages in the next request, in bytes. It is slightly
// less than what fits according to the error's Actual and Max, or else a fraction of what was
// sent. In no case is it more than an estimate of what fits.
func (e *ContextTooLargeError) limit(f Failure) int64 {
	sent, fits := f.Sent+f.Fixed, f.Sent
	if actual := cmp.Or(e.Actual, sent/bytesPerToken); e.Max > 0 && actual > e.Max {
		room := float64(sent)*float64(e.Max)/float64(actual) - float64(f.Fixed)
		fits = max(int64(room*15/16), 1)
	}
	switch {
	case f.Sent == 0:
		return 0
	case e.Actual > 0 && fits < f.Sent:
		return fits
	case f.Attempt == 0:
		return min(fits, f.Sent*3/4)
	}
	return min(fits, f.Sent/2)
}

// backoff doubles the wait with each attempt, up to a minute, and subtracts up to a
// quarter at random, so that clients do not retry at the same time.
func (p RetryPolicy) backoff(f Failure) time.Duration {
	base := min(max(cmp.Or(p.Base, time.Second), 1), time.Minute)
	wait := min(base<<min(f.Attempt, 16), time.Minute)
	return wait - time.Duration(f.Random*float64(wait)/4)
}

// transient reports whether a retry can help, and how long the provider asked to wait.
func transient(err error, now time.Time) (time.Duration, bool) {
	if e, ok := errors.AsType[*RateLimitError](err); ok {
		if e.RetryAfter == 0 && e.ResetAt.After(now) {
			return e.ResetAt.Sub(now), true
		}
		return e.RetryAfter, true
	}
	if e, ok := errors.AsType[*OverloadedError](err); ok {
		return e.RetryAfter, true
	}
	if _, ok := errors.AsType[*StreamBrokenError](err); ok {
		return 0, true
	}
	_, ok := errors.AsType[*TimeoutError](err)
	return 0, ok
}
