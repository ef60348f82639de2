package aycoder

import (
	"cmp"
	"errors"
	"time"
)

// RetryPolicy bounds how often and how long the model is asked again. The zero
// value means the defaults.
type RetryPolicy struct {
	// Attempts is how often a message is tried again. Default: 5; less than 0: never.
	Attempts int
	// Base is the first wait; it doubles each time. Default: 1 second.
	Base time.Duration
	// Budget bounds the sum of the waits for one message, and of the silences that ended
	// with a [TimeoutError]. A provider that asks for a longer wait gets none, and the run
	// ends. Default: 5 minutes.
	Budget time.Duration
}

// Failure is what [RetryPolicy.Decide] decides about.
type Failure struct {
	// Err is what went wrong.
	Err error
	// Attempt is how often this message was tried again already, Waited how long.
	Attempt int
	Waited  time.Duration
	// Now is the time, Random a number in [0, 1) that spreads the waits.
	Now    time.Time
	Random float64
	// Shrunk says that the request is as small as it may get.
	Shrunk bool
	// Sent is about how many bytes of text the messages of the request had, Fixed how
	// many the rest of it: what makes it smaller leaves out messages.
	Sent, Fixed int64
}

// Decide says whether the model is asked again after a failure, and when. It is
// pure, and the one place where that is decided:
//
//   - Rate limits and overload wait as the provider asked (Retry-After, reset
//     headers), or longer each time.
//   - Broken streams and timeouts are tried again after a short wait. The time that a
//     silent service has taken counts as waiting, as if each attempt had taken as long:
//     after five minutes of silence it is not asked again.
//   - A context that is too large is rebuilt smaller, as far as the error says how much
//     has to go, until it fits or nothing can be left out.
//   - An answer that is over a bound fails, and what is complete of it is kept.
//   - Everything else fails at once: a wrong key, a bad request, a refusal, an
//     unknown model, whatever is not a [*ModelError].
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
	if silent, ok := errors.AsType[*TimeoutError](f.Err); ok && silent.Elapsed >= (budget-f.Waited)/time.Duration(f.Attempt+1) {
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

// limit returns how large the messages of the next request should be: what fits by the
// error's own count with a little to spare, or a part of what was sent.
func (e *ContextTooLargeError) limit(f Failure) int64 {
	switch {
	case f.Sent == 0:
		return 0
	case e.Max > 0 && e.Actual > e.Max:
		fits := float64(f.Sent+f.Fixed)*float64(e.Max)/float64(e.Actual) - float64(f.Fixed)
		return max(int64(fits*15/16), 1)
	case f.Attempt == 0:
		return f.Sent * 3 / 4
	}
	return f.Sent / 2
}

// backoff doubles the wait with each attempt, up to a minute, and takes off up to
// a quarter at random so that clients do not come back together.
func (p RetryPolicy) backoff(f Failure) time.Duration {
	base := min(max(cmp.Or(p.Base, time.Second), 1), time.Minute)
	wait := min(base<<min(f.Attempt, 16), time.Minute)
	return wait - time.Duration(f.Random*float64(wait)/4)
}

// transient reports whether trying again can help, and how long the provider
// asked to wait.
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
