// Package middleware makes model clients resilient. It retries requests, falls back to other
// clients, keeps to rate limits, ends streams that stall, and answers from a cache. Each function
// returns an [aycoder.ModelMiddleware], which wraps any [aycoder.ModelClient]:
//
//	client = middleware.Retry(middleware.RetryOptions{})(client)
//	answer, err := aycoder.Complete(ctx, client, req)
//
// It can also wrap the client of an agent:
//
//	loop, err := aycoder.New(client, aycoder.WithModelMiddleware(
//		middleware.Fallback(other),
//		middleware.RateLimit(middleware.Limits{Requests: 50, Tokens: 40_000}),
//	))
//
// Wrapping a nil client panics, since a nil client is a mistake in the program. A nil value in a
// request is passed on to the client, which reports it.
//
// A wrapped client keeps the contract of [aycoder.ModelClient] if the client inside does. It is
// safe for concurrent use, works on the goroutine that ranges over the sequence, and leaves no
// goroutine behind. [aycoder.As] finds the abilities of the client inside.
//
// # Discarded events
//
// A client that sends a request again first yields an [aycoder.Retrying]: all events of the
// answer before it are void. A consumer that shows deltas as they arrive has to remove them. A
// consumer that waits for complete blocks has nothing to do, because no block is complete before
// a Retrying. After a complete block, a failure is returned as an error and the request is not
// sent again: the block may be a tool call that is already running. Only the loop of an agent can
// continue from there.
//
// # Order
//
// The first middleware of [aycoder.WithModelMiddleware] is the outermost. This order, from the
// outside to the inside, makes sense; each middleware is optional:
//
//	middleware.Fallback(other)                // asks another client when all retries have failed
//	middleware.Cache(store, …)                // answers without sending a request
//	middleware.Retry(…)                       // sends a request again
//	middleware.RateLimit(…)                   // counts each request, including retries
//	middleware.IdleTimeout(30 * time.Second)  // does not count the wait for the rate limit
//
// In this order, each client gets several attempts before the next client is asked. With Retry
// outside of Fallback, all clients are asked before the first wait. The loop of an agent behaves
// in the second way, as its retries are outside of all middleware. The clients that are passed to
// Fallback are not wrapped by the middleware inside it, so wrap these clients yourself.
//
// # Retries and the loop
//
// The loop of an agent retries by itself, with the same decisions ([aycoder.RetryPolicy.Decide]).
// It can do more than [Retry]: it continues after a complete block, and shortens a request that
// is too large. So it does not need Retry. A host that uses Retry all the same, to give each
// client of a [Fallback] several attempts, should turn off the retries of the loop. Otherwise the
// numbers of attempts multiply.
//
//	aycoder.WithRetry(aycoder.RetryPolicy{Attempts: -1})
//
// With this option the loop still shortens requests, but a stream that breaks off after a
// complete block ends the run.
//
// # Rate limits
//
// [RateLimit] is for limits that are known in advance. [Retry] and the cool-down of [Fallback]
// handle the limits that a provider reports when a request has already exceeded them. RateLimit
// only estimates tokens, so it makes sense to use both.
//
// # The cache
//
// [Cache] is for tests, evaluations and batches that send the same requests again. It stores
// complete answers in a [CacheStore]: a [MemoryStore], a [DirStore], or an implementation
// of the host. An answer from the cache reports a usage of zero, because no tokens were used.
//
// # Time
//
// All waits end when the context does. Retry, Fallback and RateLimit have an option for the
// clock, as package aycoder does. IdleTimeout and Cache use the system clock, because they watch
// for consumers and connections that stand still. Tests in a bubble of testing/synctest do not
// need the option.
package middleware
