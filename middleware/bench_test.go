package middleware_test

import (
	"context"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/middleware"
)

const benchDeltas = 10_000

// A quick client yields the same events without making them.
type quick struct{ events []aycoder.ModelEvent }

func (q *quick) Stream(context.Context, *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
	return func(yield func(aycoder.ModelEvent, error) bool) {
		for _, ev := range q.events {
			if !yield(ev, nil) {
				return
			}
		}
	}
}

func newQuick() *quick {
	delta := &aycoder.TextDelta{Text: "word "}
	q := &quick{}
	for range benchDeltas {
		q.events = append(q.events, delta)
	}
	q.events = append(q.events, saying("x").events[1:]...)
	return q
}

// BenchmarkEvents measures what each middleware adds to an event of an answer of
// 10,000, beside the bare client.
func BenchmarkEvents(b *testing.B) {
	missing := func() aycoder.ModelMiddleware { // nothing is ever found
		return middleware.Cache(middleware.NewMemoryStore(0), middleware.CacheOptions{})
	}
	benches := []struct {
		name string
		mw   aycoder.ModelMiddleware
	}{
		{"bare", func(m aycoder.ModelClient) aycoder.ModelClient { return m }},
		{"Retry", middleware.Retry(middleware.RetryOptions{})},
		{"Fallback", middleware.Fallback(newQuick())},
		{"RateLimit", middleware.RateLimit(middleware.Limits{Requests: 1 << 50, Tokens: 1 << 50})},
		{"IdleTimeout", middleware.IdleTimeout(time.Minute)},
		{"Cache", missing()},
	}
	for _, bench := range benches {
		b.Run(bench.name, func(b *testing.B) {
			m, n := bench.mw(newQuick()), 0
			b.ReportAllocs()
			for b.Loop() {
				for _, err := range m.Stream(b.Context(), &aycoder.Request{}) {
					if err != nil {
						b.Fatal(err)
					}
					n++
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/event")
		})
	}
}

// BenchmarkCacheHit measures an answer from the cache, the request being a history of
// 1 MB.
func BenchmarkCacheHit(b *testing.B) {
	req := &aycoder.Request{}
	for range 100 {
		req.Messages = append(req.Messages, aycoder.User(strings.Repeat("if a < b {\n", 909)))
	}
	m := middleware.Cache(memory(), middleware.CacheOptions{})(saying("x"))
	b.SetBytes(1_000_000)
	for b.Loop() {
		_, err := aycoder.Complete(b.Context(), m, req)
		require.NoError(b, err)
	}
}
