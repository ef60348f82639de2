package middleware_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/middleware"
)

// fixed is an estimate that takes the number of tokens from MaxTokens.
func fixed(req *aycoder.Request) int64 { return int64(req.MaxTokens) }

func costs(tokens int) *aycoder.Request { return &aycoder.Request{MaxTokens: tokens} }

// silent is a client that reports no usage.
func silent() *fake {
	f := saying("x")
	f.events = append(f.events[:2:2], &aycoder.MessageDone{Stop: aycoder.StopEndTurn})
	return f
}

// times asks one after the other, and returns when each answer was there.
func times(t *testing.T, m aycoder.ModelClient, reqs ...*aycoder.Request) []time.Duration {
	t.Helper()
	var out []time.Duration
	start := time.Now()
	for _, req := range reqs {
		require.NoError(t, stream(t.Context(), t, m, req).err)
		out = append(out, time.Since(start))
	}
	return out
}

func TestRateLimit(t *testing.T) {
	const s = time.Second
	used := func(u aycoder.Usage) *fake {
		f := saying("x")
		f.events = append(f.events[:2:2], &aycoder.MessageDone{Stop: aycoder.StopEndTurn, Usage: u})
		return f
	}
	leaveOut := func(u aycoder.Usage) int64 { return u.Input + u.Output }
	tests := []struct {
		name   string
		limits middleware.Limits
		client aycoder.ModelClient
		reqs   []*aycoder.Request
		want   []time.Duration
	}{
		{"none", middleware.Limits{}, silent(), []*aycoder.Request{costs(1e9), costs(1e9)}, []time.Duration{0, 0}},
		{"requests", middleware.Limits{Requests: 3}, silent(),
			[]*aycoder.Request{costs(0), costs(0), costs(0), costs(0), costs(0)}, []time.Duration{0, 0, 0, 20 * s, 40 * s}},
		{"tokens", middleware.Limits{Tokens: 600}, silent(),
			[]*aycoder.Request{costs(400), costs(200), costs(100), costs(600)}, []time.Duration{0, 0, 10 * s, 70 * s}},
		{"both", middleware.Limits{Requests: 60, Tokens: 600}, silent(),
			[]*aycoder.Request{costs(600), costs(1)}, []time.Duration{0, s / 10}},
		{"used less", middleware.Limits{Tokens: 600}, used(aycoder.Usage{Input: 90, Output: 10}),
			[]*aycoder.Request{costs(600), costs(500), costs(600)}, []time.Duration{0, 0, 20 * s}},
		{"used more", middleware.Limits{Tokens: 600}, used(aycoder.Usage{Input: 1000, Output: 200}),
			[]*aycoder.Request{costs(100), costs(0)}, []time.Duration{0, 60 * s}},
		{"all input counts", middleware.Limits{Tokens: 600}, used(aycoder.Usage{Input: 100, CacheRead: 400, CacheWrite: 100}),
			[]*aycoder.Request{costs(0), costs(100)}, []time.Duration{0, 10 * s}},
		{"no more is owed than ten minutes", middleware.Limits{Tokens: 600}, used(aycoder.Usage{Input: 1e9}),
			[]*aycoder.Request{costs(0), costs(0)}, []time.Duration{0, 600 * s}},
		{"more than there can be", middleware.Limits{Tokens: 600}, used(aycoder.Usage{Input: 9e18}),
			[]*aycoder.Request{costs(600), costs(60)}, []time.Duration{0, 6 * s}},
		{"sum that overflows", middleware.Limits{Tokens: 600}, used(aycoder.Usage{Input: 9e18, Output: 9e18}),
			[]*aycoder.Request{costs(600), costs(60)}, []time.Duration{0, 6 * s}},
		{"less than nothing", middleware.Limits{Tokens: 600}, used(aycoder.Usage{Input: -9e18, Output: 5}),
			[]*aycoder.Request{costs(600), costs(60)}, []time.Duration{0, 6 * s}},
		{"not what the cache read", middleware.Limits{Tokens: 600, Count: leaveOut},
			used(aycoder.Usage{Input: 100, CacheRead: 400}), []*aycoder.Request{costs(0), costs(500)}, []time.Duration{0, 0}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tt.limits.Estimate = fixed
				got := times(t, middleware.RateLimit(tt.limits)(tt.client), tt.reqs...)
				for i := range got {
					got[i] = got[i].Round(time.Microsecond)
				}
				require.Equal(t, tt.want, got)
			})
		})
	}
}

func TestRateLimitOfWhatNeverFits(t *testing.T) {
	m := middleware.RateLimit(middleware.Limits{Tokens: 1000, Estimate: fixed})(saying("x"))
	o := stream(t.Context(), t, m, costs(1001))
	e, ok := errors.AsType[*aycoder.LimitError](o.err)
	require.True(t, ok)
	require.Equal(t, aycoder.LimitError{Limit: "tokens a minute", Max: 1000}, *e)
	require.EqualError(t, o.err, "fake x: request of about 1001 tokens: limit of 1000 tokens a minute reached")
	require.NoError(t, stream(t.Context(), t, m, costs(1000)).err)
}

// Tokens of requests that failed before they began are given back, those of later failures are
// not.
func TestRateLimitOfFailures(t *testing.T) {
	tests := []struct {
		name string
		text []string
		want time.Duration
	}{
		{"at once", nil, 0},
		{"in the middle", []string{"x"}, time.Minute},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := middleware.RateLimit(middleware.Limits{Tokens: 600, Estimate: fixed})(failing("p", broken(), tt.text...))
				stream(t.Context(), t, m, costs(600))
				start := time.Now()
				stream(t.Context(), t, m, costs(600))
				require.Equal(t, tt.want, time.Since(start))
			})
		})
	}
}

// The tries of a client inside are charged.
func TestRateLimitCountsRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := steady(aycoder.RetryPolicy{Attempts: 2, Base: time.Nanosecond})(failing("p", broken()))
		m := middleware.RateLimit(middleware.Limits{Requests: 6})(inner)
		for range 2 {
			stream(t.Context(), t, m, costs(0))
		}
		start := time.Now()
		stream(t.Context(), t, m, costs(0))
		require.Equal(t, 10*time.Second, time.Since(start).Round(time.Microsecond))
	})
}

// A small request does not overtake a large one, and who leaves the line lets the
// others on.
func TestRateLimitIsFair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := middleware.RateLimit(middleware.Limits{Tokens: 600, Estimate: fixed})(silent())
		require.NoError(t, stream(t.Context(), t, m, costs(600)).err)
		var mu sync.Mutex
		var order []int
		var wg sync.WaitGroup
		impatient, leave := context.WithCancel(t.Context())
		start := time.Now()
		enter := func(ctx context.Context, n int) {
			wg.Go(func() {
				o := stream(ctx, t, m, costs(n))
				mu.Lock()
				defer mu.Unlock()
				order = append(order, n)
				require.Equal(t, n == 300, errors.Is(o.err, context.Canceled))
			})
			synctest.Wait()
		}
		enter(t.Context(), 500)
		enter(t.Context(), 10)
		enter(impatient, 300)
		time.Sleep(time.Second) // of the bubble
		enter(t.Context(), 5)   // would fit now
		leave()
		synctest.Wait()
		require.Equal(t, []int{300}, order)
		wg.Wait()
		require.Equal(t, []int{300, 500, 10, 5}, order)
		require.Equal(t, 51500*time.Millisecond, time.Since(start).Round(time.Microsecond))
	})
}

// The first in line learns that something was given back.
func TestRateLimitWakesOnRefund(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := middleware.RateLimit(middleware.Limits{Tokens: 600, Estimate: fixed})
		slow := rl(paced(saying("x"), time.Second, time.Second, time.Second)) // uses 15
		var wg sync.WaitGroup
		wg.Go(func() { stream(t.Context(), t, slow, costs(600)) })
		synctest.Wait()
		start := time.Now()
		require.NoError(t, stream(t.Context(), t, rl(silent()), costs(500)).err, "two clients share the limits")
		require.Equal(t, 3*time.Second, time.Since(start))
		wg.Wait()
	})
}

func TestRateLimitUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := middleware.RateLimit(middleware.Limits{Requests: 100, Tokens: 100_000, Estimate: fixed})(silent())
		start := time.Now()
		var mu sync.Mutex
		var at []time.Duration
		var wg sync.WaitGroup
		for range 400 {
			wg.Go(func() {
				stream(t.Context(), t, m, costs(10))
				mu.Lock()
				defer mu.Unlock()
				at = append(at, time.Since(start))
			})
		}
		wg.Wait()
		slices.Sort(at)
		require.Zero(t, at[99])
		require.Equal(t, 3*time.Minute, at[399].Round(time.Millisecond))
	})
}

func TestRateLimitIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := middleware.RateLimit(middleware.Limits{Requests: 1})(saying("x"))
		require.NoError(t, stream(t.Context(), t, m, costs(0)).err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		o := stream(ctx, t, m, costs(0))
		require.ErrorIs(t, o.err, context.DeadlineExceeded)
		require.Equal(t, time.Second, time.Since(start))
		require.EqualError(t, o.err, "fake x: wait for the rate limit: context deadline exceeded")
		time.Sleep(59 * time.Second) // of the bubble: who was cancelled has taken nothing
		require.NoError(t, stream(t.Context(), t, m, costs(0)).err)
		require.Equal(t, time.Minute, time.Since(start))
	})
}

func TestEstimateTokens(t *testing.T) {
	k := strings.Repeat("x", 4000)
	part := func(p aycoder.Part) *aycoder.Request {
		m := &aycoder.Message{Role: aycoder.RoleUser, Parts: []aycoder.Part{p}}
		return &aycoder.Request{MaxTokens: 1, Messages: []*aycoder.Message{m}}
	}
	tool := &aycoder.ToolSpec{Name: k, Description: k, Schema: []byte(k)}
	image := &aycoder.Media{Type: "image/png", Data: []byte(k)}
	tests := []struct {
		name string
		req  *aycoder.Request
		want int64
	}{
		{"nothing", &aycoder.Request{}, 1024},
		{"nil", &aycoder.Request{MaxTokens: 1, System: []*aycoder.Text{nil}, Tools: []*aycoder.ToolSpec{nil},
			Messages: []*aycoder.Message{nil, {Parts: []aycoder.Part{nil, (*aycoder.Text)(nil), (*aycoder.Media)(nil)}}}}, 1},
		{"short answer", &aycoder.Request{MaxTokens: 100}, 100},
		{"long answer", &aycoder.Request{MaxTokens: 64_000}, 1024},
		{"system", &aycoder.Request{MaxTokens: 1, System: []*aycoder.Text{{Text: k}, {Text: k}}}, 2001},
		{"tail", &aycoder.Request{MaxTokens: 1, Tail: []*aycoder.Text{{Text: k}, nil}}, 1001},
		{"tools", &aycoder.Request{MaxTokens: 1, Tools: []*aycoder.ToolSpec{tool}}, 3001},
		{"text", part(&aycoder.Text{Text: k}), 1001},
		{"thinking", part(&aycoder.Thinking{Text: k}), 1001},
		{"call", part(&aycoder.ToolUse{Name: "read", Args: []byte(k)}), 1002},
		{"opaque", part(&aycoder.Opaque{Raw: []byte(k)}), 1001},
		{"image", part(image), 1601},
		{"text file", part(&aycoder.Media{Type: "text/plain", Data: []byte(k)}), 1001},
		{"document", part(&aycoder.Media{Type: "application/pdf", Data: make([]byte, 250_000)}), 10_001},
		{"output", part(&aycoder.ToolOutput{Parts: []aycoder.Part{&aycoder.Text{Text: k}, image}}), 2601},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			require.Equal(t, tt.want, middleware.EstimateTokens(tt.req))
		})
	}
}
