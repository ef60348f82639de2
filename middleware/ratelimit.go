package middleware

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"reflect"
	"strings"

	"github.com/aycoder/aycoder"
)

// Limits configures [RateLimit]. The zero value limits nothing.
type Limits struct {
	// Requests and Tokens are how many a minute may have; 0 or less sets no limit. As much may
	// be used at once after a minute without use, and what was used comes back evenly, as in
	// the token buckets of the providers.
	Requests, Tokens int64
	// Estimate says how many tokens a request and its answer will be. It is safe for
	// concurrent use. Default: [EstimateTokens].
	Estimate func(*aycoder.Request) int64
	// Count says how many tokens were used. Default: all of them. A provider that does
	// not count what it reads from its prompt cache wants u.CacheRead left out.
	Count func(u aycoder.Usage) int64
	// Clock tells the time and waits. Default: [aycoder.SystemClock].
	Clock aycoder.Clock
}

// RateLimit delays requests until they fit into l, so that the provider does not have to refuse
// them. Requests are sent in the order of their arrival; a small one does not overtake a large
// one. A request stops waiting when its context ends.
//
// The tokens of a request are estimated before it is sent, and corrected when its
// [aycoder.Usage] is known. An estimate that was too high is refunded; if it was too low, later
// requests wait for the difference, which is limited to ten minutes' worth of tokens, so that a
// wrong figure does not block all requests. If a request fails before any of its answer
// arrives, its tokens are refunded. A usage that is zero, negative, or a billion tokens or more
// counts as not reported. A request that is larger than a minute's tokens can never fit, and
// fails at once with an [aycoder.LimitError]. If a client retries by itself
// ([aycoder.Retrying]), each retry is charged as a request, but does not wait.
//
// All clients that one RateLimit wraps share its limits, as models of one account do. An idle
// RateLimit uses no goroutine and no timer.
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
	return once(func(yield yieldFunc) { l.stream(ctx, req, yield) })
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

// settle corrects what is charged for a request.
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

// maxUsage is what no request uses, whatever a service says: the largest contexts are
// of some ten million tokens. It also keeps sums from an overflow.
const maxUsage = 1 << 30

// reported reports whether a usage says something that can be true.
func reported(u aycoder.Usage) bool {
	largest := max(u.Input, u.Output, u.Reasoning, u.CacheRead, u.CacheWrite)
	smallest := min(u.Input, u.Output, u.Reasoning, u.CacheRead, u.CacheWrite)
	return u != (aycoder.Usage{}) && smallest >= 0 && largest < maxUsage
}

// The rules of thumb of EstimateTokens.
const (
	bytesPerToken = 4
	// mediaTokens is what providers make of an image at most, about.
	mediaTokens = 1600
	// mediaBytes of a document or a sound make a token, about: a page of 50 kB is some
	// 2,000 tokens.
	mediaBytes = 25
	// answerTokens are held for an answer. Most are shorter: a call, a few sentences.
	answerTokens = 1024
)

// EstimateTokens is the default estimate of [RateLimit]. It counts a token for four bytes of
// the system prompt, the tools and the messages, and about 1,600 for an image. For the answer
// it adds [aycoder.Request.MaxTokens], but at most 1,024: few answers use up their MaxTokens,
// so that reserving all of them would leave most of the limit unused. The rest is charged when
// the usage is known. Nil values count as no tokens.
func EstimateTokens(req *aycoder.Request) int64 {
	n := 0
	for _, t := range req.System {
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

// partSize is the bytes of text that a part is worth. Thinking counts though some
// providers leave it out.
func partSize(p aycoder.Part) int {
	if v := reflect.ValueOf(p); !v.IsValid() || v.IsNil() {
		return 0 // the client says what it thinks of it
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
