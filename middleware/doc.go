// Package middleware makes model clients resilient: it tries again, falls back to
// other clients, keeps to rate limits, ends streams that stall, and answers from a
// cache. Each function returns an [aycoder.ModelMiddleware], which wraps any
// [aycoder.ModelClient], a provider's or a host's own:
//
//	client = middleware.Retry(middleware.RetryOptions{})(client)
//	answer, err := aycoder.Complete(ctx, client, req)
//
// or the client of an agent:
//
//	loop, err := aycoder.New(client, aycoder.WithModelMiddleware(
//		middleware.Fallback(other),
//		middleware.RateLimit(middleware.Limits{Requests: 50, Tokens: 40_000}),
//	))
//
// A nil client is a mistake in the program: wrapping it panics. A nil value in a request is
// passed on to the client, which reports it.
//
// A wrapped client keeps the contract of [aycoder.ModelClient] if the client inside
// does. It is safe for concurrent use, works on the goroutine that ranges over the
// sequence, and leaves nothing behind. [aycoder.As] finds the abilities of the client
// inside.
//
// # What is void
//
// A client that asks again says so with an [aycoder.Retrying]: all that came of the
// answer before it is void. A consumer that shows deltas as they come takes them
// back, and one that waits for blocks has nothing to do, as none is complete before a
// Retrying. A failure after a complete block is never covered up: a call may be
// running. Only an agent's loop knows how to go on from there.
//
// # Order
//
// The first middleware of [aycoder.WithModelMiddleware] is the outermost. From the
// outside to the inside this order makes sense, each of them being optional:
//
//	middleware.Fallback(other)                     // a client that failed for good is replaced
//	middleware.Cache(store, …)                     // what was answered is not sent
//	middleware.Retry(…)                            // what is sent again
//	middleware.RateLimit(…)                        // is counted again
//	middleware.IdleTimeout(30 * time.Second)       // and does not count the wait for its turn
//
// Here each client is tried several times before the next one is asked. With Retry
// outside of Fallback all clients are asked before there is a wait, which is what an
// agent's loop does, as its own tries are outside of everything. The clients that
// Fallback is given are not wrapped by what is inside of it: wrap them before.
//
// # Retries and the loop
//
// An agent's loop tries again by itself, with the same decisions
// ([aycoder.RetryPolicy.Decide]), and can do more: it goes on after a complete block,
// and makes a request smaller that is too large. It needs no [Retry]. A host that
// wants one in spite of it, to give each client of a [Fallback] several tries, sets
// the loop's off, or the tries multiply:
//
//	aycoder.WithRetry(aycoder.RetryPolicy{Attempts: -1})
//
// The loop still makes requests smaller then, but a stream that breaks off after a
// complete block ends the run.
//
// # Rate limits
//
// [RateLimit] is for limits that are known, [Retry] and the cool-down of [Fallback]
// for those that the provider tells when it is too late. Tokens are estimated, so
// both together are right.
//
// # The cache
//
// [Cache] is for tests, evaluations and batches that ask the same again. It stores
// whole answers in a [CacheStore]: [NewMemoryStore], [OpenDirStore], or the host's
// own. An answer from the cache reports no usage, as nothing was used.
//
// # Time
//
// All waits end when the context does. The clocks of Retry, Fallback and RateLimit are
// options, as they are in package aycoder; IdleTimeout and Cache, which look after what
// stands still, use the clock of the system. Tests that run in a bubble of
// testing/synctest need no option.
package middleware
