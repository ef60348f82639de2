package middleware

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/part"
)

// Limits configures [RateLimit]. The zero value limits nothing.
type Limits struct {
	// Requests and Tokens are the maximum numbers of requests and of tokens per minute. If a
	// value is 0 or negative, there is no such limit. The whole amount can be used at once, and
	// is then regained evenly over a minute, as in the token buckets of the providers.
	Requests, Tokens int64
	// Estimate returns the expected number of tokens of a request and its answer. It must be safe
	// for concurrent use. Default: [EstimateTokens].
	Estimate func(*aycoder.Request) int64
	// Count returns the number of tokens that count against the limit, given the usage of a
	// request. Some providers do not count tokens that are read from their prompt cache; for
	// these, leave out u.CacheRead. Default: the sum of all input and output tokens.
	Count func(u aycoder.Usage) int64
	// Clock tells the time and runs the timers of waits. Default: [aycoder.SystemClock].
	Clock aycoder.Clock
}

// RateLimit delays requests until they fit into l, so that the provider does not refuse them.
// Requests are sent in the order in which they arrive: a small request does not overtake a large
// one. A request stops waiting when its context ends.
//
// The tokens of a request are estimated before it is sent. The estimate is corrected when the
// [aycoder.Usage] of the request is known. If the estimate was too high, the difference is
// refunded. If it was too low, later requests wait for the difference. This debt is limited to
// the tokens of ten minutes, so that a wrong figure does not block all requests. The estimate is
// not corrected if the usage is zero, negative, or implausibly large (about a billion tokens). If
// a request fails before any part of its answer has arrived, all of its tokens are refunded.
//
// A request with more tokens than the limit for a minute can never fit, and fails at once with an
// [aycoder.LimitError]. If the wrapped client retries by itself ([aycoder.Retrying]), each retry
// is charged as a request, but does not wait.
//
// If one RateLimit wraps several clients, they share its limits, just as the models of one
// account share the limits of the account. An idle RateLimit uses no goroutine and no timer.
func RateLimit(l Limits) aycoder.ModelMiddleware {
	if l.Estimate == nil {
		l.Estimate = EstimateTokens
	}
	if l.Count == nil {
		l.Count = func(u aycoder.Usage) int64 {
			return u.Input + u.CacheRead + u.CacheWrite + u.Output
		}
	}
	gate := newGate(l)
	return wrap("RateLimit", func(w wrapper) aycoder.ModelClient { return &limiter{w, l, gate} })
}

type limiter struct {
	wrapper
	Limits
	gate *gate
}

// Stream implements [aycoder.ModelClient].
func (l *limiter) Stream(ctx context.Context, req *aycoder.Request) iter.Seq2[aycoder.ModelEvent,
	error] {
	return part.Once(func(yield yieldFunc) { l.stream(ctx, req, yield) })
}

func (l *limiter) stream(ctx context.Context, req *aycoder.Request, yield yieldFunc) {
	held := max(l.Estimate(req), 0)
	if l.Tokens > 0 && held > l.Tokens {
		limit := &aycoder.LimitError{Limit: "tokens a minute", Max: l.Tokens}
		yield(nil, l.modelError(fmt.Errorf("request of about %d tokens: %w", held, limit)))
		return
	}
	if l.gate.enter(ctx, held) != nil {
		yield(nil, l.cancelled(ctx, "wait for the rate limit"))
		return
	}
	t := forward(ctx, l.next, req, func(ev aycoder.ModelEvent, err error) bool {
		l.settle(ev, held)
		return yield(ev, err)
	})
	if t.err == nil {
		return
	}
	if !t.heard {
		l.gate.charge(0, -held)
	}
	yield(nil, t.err)
}

// settle corrects the amount that was charged for a request.
func (l *limiter) settle(ev aycoder.ModelEvent, held int64) {
	switch ev := ev.(type) {
	case *aycoder.MessageDone:
		if reported(ev.Usage) {
			l.gate.charge(0, max(l.Count(ev.Usage), 0)-held)
		}
	case *aycoder.Retrying:
		l.gate.charge(1, 0)
	}
}

// maxUsage is more than any request uses: the largest contexts have some ten million tokens. The
// bound also prevents sums from overflowing.
const maxUsage = 1 << 30

// reported reports whether a usage is plausible.
func reported(u aycoder.Usage) bool {
	largest := max(u.Input, u.Output, u.Reasoning, u.CacheRead, u.CacheWrite)
	smallest := min(u.Input, u.Output, u.Reasoning, u.CacheRead, u.CacheWrite)
	return u != (aycoder.Usage{}) && smallest >= 0 && largest < maxUsage
}

// The rules of thumb of EstimateTokens.
const (
	bytesPerToken = 4
	// mediaTokens is about the largest number of tokens that providers count for an image.
	mediaTokens = 1600
	// mediaBytes is about how many bytes of a document or a sound make a token: a page of 50 kB
	// has some 2,000 tokens.
	mediaBytes = 25
	// answerTokens are reserved for an answer. Most answers are shorter: a call, a few sentences.
	answerTokens = 1024
)

// EstimateTokens is the default estimate of [RateLimit]. It counts one token for each four bytes
// of the system prompt, the tools, the messages and the tail, and about 1,600 tokens for an image.
//
// For the answer it adds 1,024 tokens, or [aycoder.Request.MaxTokens] if that is set and smaller.
// Few answers use all of their MaxTokens, so reserving all of them would leave most of the limit
// unused. If an answer is longer than the estimate, RateLimit charges the rest when the usage is
// known. Nil values in the request count as no tokens.
func EstimateTokens(req *aycoder.Request) int64 {
	n := 0
	for _, t := range slices.Concat(req.System, req.Tail) {
		n += partSize(t)
	}
	for _, t := range req.Tools {
		if t != nil {
			n += len(t.Name) + len(t.Description) + len(t.Schema)
		}
	}
	for _, m := range req.Messages {
		if m != nil {
			n += partsSize(m.Parts)
		}
	}
	answer := min(cmp.Or(max(req.MaxTokens, 0), answerTokens), answerTokens)
	return int64(n/bytesPerToken + answer)
}

// partSize returns the size of a part in bytes of text. Thinking is included, although some
// providers do not count it.
func partSize(p aycoder.Part) int {
	if v := reflect.ValueOf(p); !v.IsValid() || v.IsNil() {
		return 0 // the client reports nil parts
	}
	switch p := p.(type) {
	case *aycoder.Text:
		return len(p.Text)
	case *aycoder.Thinking:
		return len(p.Text)
	case *aycoder.ToolUse:
		return len(p.Name) + len(p.Args)
	case *aycoder.ToolOutput:
		return partsSize(p.Parts)
	case *aycoder.Media:
		return mediaSize(p)
	case *aycoder.Opaque:
		return len(p.Raw)
	}
	return 0
}

func partsSize(parts []aycoder.Part) (n int) {
	for _, p := range parts {
		n += partSize(p)
	}
	return n
}

func mediaSize(m *aycoder.Media) int {
	switch {
	case strings.HasPrefix(m.Type, "text/"):
		return len(m.Data)
	case strings.HasPrefix(m.Type, "image/"):
		return mediaTokens * bytesPerToken
	}
	return max(mediaTokens, len(m.Data)/mediaBytes) * bytesPerToken
}
