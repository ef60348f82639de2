package middleware_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/generate"
	"github.com/aycoder/aycoder/middleware"
	"github.com/aycoder/aycoder/providers/script"
)

// The end of a turn names the model that answered, not the first one that was asked.
func TestFallbackSaysWhoAnswered(t *testing.T) {
	first := script.New(script.Fail(script.Overloaded()), script.Say("two")).With(script.WithName("first", "a"))
	second := script.New(script.Say("one")).With(script.WithName("second", "b"))
	loop, err := aycoder.New(first, aycoder.WithModelMiddleware(middleware.Fallback(second)))
	require.NoError(t, err)
	var got []string
	for range 2 {
		for ev, err := range loop.Run(t.Context(), aycoder.Input{Prompt: "go"}) {
			require.NoError(t, err)
			if e, ok := ev.(*aycoder.TurnFinished); ok {
				got = append(got, e.Provider, e.Model, e.ID, e.RequestID)
			}
		}
	}
	require.Equal(t, []string{"second", "b", "msg_1", "req_1", "first", "a", "msg_2", "req_2"}, got)
}

func TestFallback(t *testing.T) {
	refusal := &aycoder.RefusalError{ModelError: base(200)}
	tooLarge := script.TooLarge(300, 200)
	const next = "B|done *aycoder.Text|end end_turn"
	const again = "retry 1 false 0s|" + next
	none, larger := middleware.FallbackOptions{}, middleware.FallbackOptions{LargerContext: true}
	tests := []struct {
		name    string
		options middleware.FallbackOptions
		first   *fake
		want    string
		fails   bool
	}{
		{"answers", none, saying("A"), "A|done *aycoder.Text|end end_turn", false},
		{"rate limit", none, failing("a", script.RateLimited(0)), again, false},
		{"overloaded", none, failing("a", script.Overloaded()), again, false},
		{"timeout", none, failing("a", &aycoder.TimeoutError{ModelError: base(0)}), again, false},
		{"wrong key", none, failing("a", &aycoder.AuthError{ModelError: base(401)}), again, false},
		{"unknown model", none, failing("a", &aycoder.UnknownModelError{ModelError: base(404)}), again, false},
		{"broken", none, failing("a", broken(), "x", "y"), "x|y|retry 1 true 0s|" + next, false},
		{"broken after a block", none,
			&fake{events: saying("A").events[:2], err: broken()}, "A|done *aycoder.Text", true},
		{"bad request", none, failing("a", badRequest()), "", true},
		{"an error of no type", none, failing("a", errKaput), "", true},
		{"also", middleware.FallbackOptions{Also: func(err error) bool { return errors.Is(err, errKaput) }},
			failing("a", errKaput), again, false},
		{"refusal stands", none, failing("a", refusal), "", true},
		{"refusals", middleware.FallbackOptions{Refusals: true}, failing("a", refusal), again, false},
		{"too large stands", none, failing("a", tooLarge), "", true},
		{"larger context", larger, &fake{err: tooLarge, context: 200}, again, false},
		{"no larger context", larger, &fake{err: tooLarge, context: 400}, "", true},
		{"unknown context", larger, &fake{err: tooLarge}, "", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			second := saying("B")
			second.context = 300
			o := stream(t.Context(), t, middleware.FallbackWith(tt.options, second)(tt.first), ask("q"))
			require.Equal(t, tt.want, o.String())
			if tt.fails {
				require.Equal(t, tt.first.err, o.err, "as it is")
			} else {
				require.NoError(t, o.err)
			}
		})
	}
}

// The context that counts is that of the model which was asked.
func TestFallbackToALargerContext(t *testing.T) {
	first := &fake{provider: "a", err: script.TooLarge(300, 100), context: 400}
	second, third := saying("B"), saying("C")
	second.context, third.context = 50, 300
	m := middleware.FallbackWith(middleware.FallbackOptions{LargerContext: true}, second, third)(first)
	o := stream(t.Context(), t, m, &aycoder.Request{Model: "small"})
	require.NoError(t, o.err)
	require.Equal(t, "retry 1 false 0s|C|done *aycoder.Text|end end_turn", o.String())
	require.Empty(t, second.asked())
}

// The context size is that of the client that is asked next.
func TestFallbackContext(t *testing.T) {
	first, second := failing("a", script.RateLimited(time.Minute)), saying("B")
	first.context, second.context = 400, 200
	m := middleware.Fallback(second)(first)
	size := func(model string) int64 {
		i, ok := aycoder.As[aycoder.ModelInfoer](m)
		require.True(t, ok)
		info, _ := i.ModelInfo(model)
		return info.Context
	}
	require.EqualValues(t, 400, size(""))
	require.EqualValues(t, 100, size("small"))
	require.NoError(t, stream(t.Context(), t, m, ask("q")).err)
	require.EqualValues(t, 200, size(""))
	require.EqualValues(t, 200, size("small"), "it is a name of the first")
}

// described is a client that knows the models of its provider, and is of one of them.
type described struct {
	*fake
	models map[string]aycoder.ModelInfo
}

func (d described) ModelInfo(model string) (aycoder.ModelInfo, bool) {
	info, ok := d.models[cmp.Or(model, d.model)]
	return info, ok
}

// The price of a named model is its own, also while its client is skipped: an answer of it may come, which began before.
func TestFallbackPrice(t *testing.T) {
	models := map[string]aycoder.ModelInfo{}
	for i, name := range []string{"large", "cheap"} {
		models[name] = aycoder.ModelInfo{Provider: "p", Model: name, Context: int64(400 - 200*i), Price: &aycoder.Price{Output: float64(15 - 10*i)}}
	}
	first, second := failing("large", script.RateLimited(time.Minute)), saying("B")
	first.provider, first.model, second.provider, second.model = "p", "large", "p", "cheap"
	m := middleware.Fallback(described{second, models})(described{first, models})
	require.NoError(t, stream(t.Context(), t, m, ask("q")).err)
	i, _ := aycoder.As[aycoder.ModelInfoer](m)
	for name, price := range map[string]float64{"large": 15, "cheap": 5, "": 5} {
		info, ok := i.ModelInfo(name)
		require.True(t, ok)
		require.Equal(t, price, info.Price.Output, name)
		require.EqualValues(t, 200, info.Context, "of the client that is asked next")
	}
}

func TestFallbackErrorTellsAll(t *testing.T) {
	auth := &aycoder.AuthError{ModelError: &aycoder.ModelError{Provider: "a", Model: "m", Status: 401, Err: errKaput}}
	limit := func(d time.Duration) error { return &aycoder.RateLimitError{ModelError: base(429), RetryAfter: d} }
	m := middleware.Fallback(failing("b", limit(time.Minute)), &fake{err: limit(time.Second)}, failing("d", badRequest()))
	o := stream(t.Context(), t, m(failing("a", auth)), ask("q"))
	require.Equal(t, "retry 1 false 0s|retry 2 false 0s|retry 3 false 0s", o.String())
	e, ok := errors.AsType[*middleware.FallbackError](o.err)
	require.True(t, ok)
	require.Len(t, e.Errs, 4)
	require.EqualError(t, o.err, "no client answered: a m: not authorised (status 401): kaput; "+
		"b m: p: rate limited (status 429): kaput; retry after 1m0s; "+
		"client 3: p: rate limited (status 429): kaput; retry after 1s; d m: p: bad request (status 400): kaput")
	found, ok := errors.AsType[*aycoder.AuthError](o.err)
	require.True(t, ok)
	require.Same(t, auth, found)
	require.ErrorAs(t, o.err, new(*aycoder.BadRequestError))
	r, ok := errors.AsType[*aycoder.RateLimitError](o.err)
	require.True(t, ok)
	require.Equal(t, time.Second, r.RetryAfter, "who waits waits for the first that may answer")
}

// Times of errors are those of the clock that is given.
func TestFallbackErrorAsksItsClock(t *testing.T) {
	clock := ahead{aycoder.SystemClock(), -time.Hour}
	first := &aycoder.RateLimitError{ModelError: base(429), RetryAfter: 10 * time.Minute}
	second := &aycoder.RateLimitError{ModelError: base(429), ResetAt: clock.Now().Add(30 * time.Minute)}
	m := middleware.FallbackWith(middleware.FallbackOptions{Clock: clock}, failing("b", second))(failing("a", first))
	r, ok := errors.AsType[*aycoder.RateLimitError](stream(t.Context(), t, m, ask("q")).err)
	require.True(t, ok)
	require.Same(t, first, r, "the other one waits for longer, and has not passed")
}

func TestFallbackCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		second := saying("B")
		o := stream(ctx, t, middleware.Fallback(second)(&fake{hang: true}), ask("q"))
		require.ErrorIs(t, o.err, context.DeadlineExceeded)
		require.Empty(t, second.asked())

		// A client may say that its connection was lost.
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		clumsy := aycoder.ModelFunc(func(ctx context.Context, _ *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
			return func(yield func(aycoder.ModelEvent, error) bool) {
				<-ctx.Done()
				yield(nil, broken())
			}
		})
		require.Equal(t, broken(), stream(ctx, t, middleware.Fallback(second)(clumsy), ask("q")).err)
		require.Empty(t, second.asked())
	})
}

func TestFallbackRequest(t *testing.T) {
	extra := map[string]json.RawMessage{"service_tier": json.RawMessage(`"flex"`)}
	tests := []struct {
		name            string
		provider, model string
		req             aycoder.Request
		want            string
		extra           bool
	}{
		{"nothing set", "b", "n", aycoder.Request{}, "", false},
		{"twin", "a", "m", aycoder.Request{Model: "x", Extra: extra}, "x", true},
		{"other model of the provider", "a", "n", aycoder.Request{Model: "x", Extra: extra}, "", true},
		{"other provider", "b", "m", aycoder.Request{Model: "x", Extra: extra}, "", false},
		{"other provider, own model", "b", "m", aycoder.Request{Extra: extra}, "", false},
		{"unknown", "", "", aycoder.Request{Model: "x", Extra: extra}, "", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			second := saying("B")
			second.provider, second.model = tt.provider, tt.model
			first := failing("a", script.Overloaded())
			before := tt.req
			o := stream(t.Context(), t, middleware.Fallback(second)(first), &tt.req)
			require.NoError(t, o.err)
			require.Equal(t, before, tt.req, "the request is not changed")
			require.Same(t, &tt.req, first.asked()[0])
			require.Equal(t, tt.want, second.asked()[0].Model)
			require.Equal(t, tt.extra, second.asked()[0].Extra != nil)
		})
	}
}

func TestFallbackCooldown(t *testing.T) {
	resetIn := func(d time.Duration) func() error {
		return func() error {
			return &aycoder.RateLimitError{ModelError: base(429), ResetAt: time.Now().Add(d)}
		}
	}
	fixed := func(err error) func() error { return func() error { return err } }
	tests := []struct {
		name    string
		options middleware.FallbackOptions
		err     func() error
		want    time.Duration
	}{
		{"retry after", middleware.FallbackOptions{}, fixed(script.RateLimited(20 * time.Second)), 20 * time.Second},
		{"reset time", middleware.FallbackOptions{}, resetIn(30 * time.Second), 30 * time.Second},
		{"no time", middleware.FallbackOptions{}, fixed(script.RateLimited(0)), 5 * time.Second},
		{"no time, own default", middleware.FallbackOptions{Cooldown: time.Minute},
			fixed(script.RateLimited(0)), time.Minute},
		{"none", middleware.FallbackOptions{Cooldown: -1}, fixed(script.RateLimited(0)), 0},
		{"overload that says when", middleware.FallbackOptions{},
			fixed(&aycoder.OverloadedError{ModelError: base(503), RetryAfter: 8 * time.Second}), 8 * time.Second},
		{"overload", middleware.FallbackOptions{}, fixed(script.Overloaded()), 0},
		{"a year", middleware.FallbackOptions{}, resetIn(365 * 24 * time.Hour), time.Hour},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				first := failing("a", tt.err())
				m := middleware.FallbackWith(tt.options, saying("B"))(first)
				asked := func() int {
					require.NoError(t, stream(t.Context(), t, m, ask("q")).err)
					return len(first.asked())
				}
				require.Equal(t, 1, asked())
				if tt.want > 0 {
					time.Sleep(tt.want - 1) // of the bubble
					require.Equal(t, 1, asked(), "it is passed over")
					time.Sleep(time.Nanosecond)
				}
				require.Equal(t, 2, asked(), "it is asked again")
			})
		})
	}
}

// Clients that are passed over are reported. If all would be passed over, all are tried.
func TestFallbackWhenAllCool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := failing("a", script.RateLimited(time.Minute)), failing("b", script.Overloaded())
		m := middleware.Fallback(second)(first)
		stream(t.Context(), t, m, ask("q"))
		o := stream(t.Context(), t, m, ask("q"))
		require.EqualError(t, o.err, "no client answered: b m: script script: overloaded (status 529): "+
			"the script says so; rate limited and not asked: a m")
		require.False(t, errors.As(o.err, new(*aycoder.RateLimitError)), "nobody has to wait a minute")

		second.err = script.RateLimited(time.Hour)
		stream(t.Context(), t, m, ask("q"))
		n := len(first.asked())
		stream(t.Context(), t, m, ask("q"))
		require.Len(t, first.asked(), n+1, "all are asked if all are passed over")
	})
}

func TestFallbackForgivesWhoAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := failing("a", script.RateLimited(time.Hour)), failing("b", script.RateLimited(time.Second))
		m := middleware.Fallback(second)(first)
		stream(t.Context(), t, m, ask("q"))
		first.err, first.events, second.err = nil, saying("A").events, errKaput
		require.NoError(t, stream(t.Context(), t, m, ask("q")).err, "all are passed over, so the first is asked")
		time.Sleep(2 * time.Second) // of the bubble: the second is not passed over any more
		require.NoError(t, stream(t.Context(), t, m, ask("q")).err, "the first is not passed over either")
	})
}

// Parts that an inner client has made void are not made void again.
func TestFallbackOfRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		auth := &aycoder.AuthError{ModelError: base(401)}
		first := script.New(script.Break(1, nil, script.Say("one two")), script.Fail(auth))
		o := stream(t.Context(), t, middleware.Fallback(saying("B"))(steady(aycoder.RetryPolicy{})(first)), ask("q"))
		require.NoError(t, o.err)
		require.Equal(t, "one |retry 1 true 1s|retry 1 false 0s|B|done *aycoder.Text|end end_turn", o.String())
	})
}

func TestFallbackAbilities(t *testing.T) {
	tests := []struct {
		name          string
		first, second aycoder.ModelClient
		want          bool
	}{
		{"both", &fake{formats: true}, &fake{formats: true}, true},
		{"first only", &fake{formats: true}, &fake{}, false},
		{"second only", &fake{}, &fake{formats: true}, false},
		{"second does not say", &fake{formats: true}, script.New(), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := middleware.Fallback(tt.second)(tt.first)
			o, ok := aycoder.As[aycoder.OutputFormatter](m)
			require.True(t, ok)
			require.Equal(t, tt.want, o.FormatsOutput(""))
			require.False(t, o.FormatsOutput("plain"), "the first does not do it with that model")
			f, ok := aycoder.As[generate.ToolFormatter](m)
			require.True(t, ok)
			require.Equal(t, tt.want, f.FormatsWithTools(""))
			require.False(t, f.FormatsWithTools("plain"))
		})
	}
	require.Panics(t, func() { middleware.Fallback(saying("x"), nil) })
}

// An outer Retry understands the joined error.
func TestRetryOfFallback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := script.New(script.Fail(script.RateLimited(30*time.Second)), script.Say("A"))
		second := failing("b", script.RateLimited(10*time.Minute))
		start := time.Now()
		o := stream(t.Context(), t, steady(aycoder.RetryPolicy{})(middleware.Fallback(second)(first)), ask("q"))
		require.NoError(t, o.err)
		require.Equal(t, "retry 1 false 0s|retry 1 false 30s|A|done *aycoder.Text|end end_turn", o.String())
		require.Equal(t, 30*time.Second, time.Since(start))
		require.Len(t, second.asked(), 1)
	})
}
