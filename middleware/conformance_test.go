package middleware_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/agenttest"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/middleware"
	"github.com/aycoder/aycoder/providers/script"
)

// wrappers are all middlewares, alone and together.
func wrappers() map[string]func() aycoder.ModelMiddleware {
	retry := func() aycoder.ModelMiddleware {
		return middleware.Retry(middleware.RetryOptions{Policy: aycoder.RetryPolicy{Attempts: 2, Base: time.Nanosecond}})
	}
	limit := func() aycoder.ModelMiddleware {
		return middleware.RateLimit(middleware.Limits{Requests: 1 << 30, Tokens: 1 << 40})
	}
	idle := func() aycoder.ModelMiddleware { return middleware.IdleTimeout(2 * time.Hour) }
	fall := func() aycoder.ModelMiddleware {
		return middleware.Fallback(failing("other", broken(), "x"))
	}
	cache := func() aycoder.ModelMiddleware {
		return middleware.Cache(middleware.NewMemoryStore(1<<20), middleware.CacheOptions{})
	}
	return map[string]func() aycoder.ModelMiddleware{
		"Retry": retry, "Fallback": fall, "RateLimit": limit, "IdleTimeout": idle, "Cache": cache,
		"all": func() aycoder.ModelMiddleware {
			return func(m aycoder.ModelClient) aycoder.ModelClient {
				return fall()(cache()(retry()(limit()(idle()(m)))))
			}
		},
	}
}

// conforming are clients that answer as the suite says, wrapped by mw.
func conforming(mw func() aycoder.ModelMiddleware) agenttest.Clients {
	client := func(m aycoder.ModelClient) agenttest.Client { return agenttest.Client{Model: mw()(m)} }
	deltas := func(pieces []string) []aycoder.ModelEvent {
		return failing("", nil, pieces...).events
	}
	return agenttest.Clients{
		Text: func(_ testing.TB, pieces ...string) agenttest.Client {
			all := strings.Join(pieces, "")
			return client(&fake{events: append(deltas(pieces), saying(all).events[1:]...)})
		},
		Thinking: func(_ testing.TB, thinking, text string) agenttest.Client {
			return client(loop(script.Reply(script.Think(thinking), script.Say(text))))
		},
		Call: func(_ testing.TB, text string, call *aycoder.ToolUse) agenttest.Client {
			return client(loop(script.Reply(script.Say(text), script.Block(call))))
		},
		Cut: func(_ testing.TB, call *aycoder.ToolUse) agenttest.Client {
			return client(loop(script.Cut(call.Name, string(call.Args)).WithID(call.ID)))
		},
		Refused: func(_ testing.TB, text string) agenttest.Client {
			return client(loop(script.Say(text).WithStop(aycoder.StopRefusal)))
		},
		Broken: func(_ testing.TB, pieces ...string) agenttest.Client {
			return client(&fake{events: deltas(pieces), err: broken()})
		},
		Hang: func(_ testing.TB, pieces ...string) agenttest.Client {
			return client(&fake{events: deltas(pieces), hang: true})
		},
		Silent:  func(testing.TB) agenttest.Client { return client(&fake{hang: true}) },
		Refuse:  func(testing.TB) agenttest.Client { return client(&fake{err: script.Overloaded()}) },
		Garbage: func(testing.TB) agenttest.Client { return client(&fake{err: broken()}) },
	}
}

func TestConformance(t *testing.T) {
	for name, mw := range wrappers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			agenttest.TestModelClient(t, conforming(mw))
		})
	}
}

// An agent whose client is wrapped keeps the contract of agents: what is forgotten,
// said twice or run twice would be found.
func TestAgentConformance(t *testing.T) {
	timed.Long(t, "the whole contract of agents behind each middleware")
	if timed.Reduced(t) {
		t.Skip("left out with the race detector: package agenttest tests the contract with it")
	}
	agenttest.TestAgent(t, func(t testing.TB, s agenttest.AgentSetup) aycoder.Agent {
		mw := wrappers()
		agent, err := aycoder.New(s.Model, aycoder.WithTools(s.Tools...), aycoder.WithApprover(s.Approver),
			aycoder.WithModelMiddleware(middleware.Fallback(failing("other", badRequest())),
				mw["Cache"](), mw["Retry"](), mw["RateLimit"](), mw["IdleTimeout"]()))
		require.NoError(t, err)
		return agent
	})
}

// A client that leaves out the end is put right, and one that goes on after it is cut.
func TestClientsThatAreWrong(t *testing.T) {
	endless := saying("a")
	endless.events = append(endless.events, &aycoder.TextDelta{Text: "b"})
	for name, mw := range wrappers() {
		t.Run(name, func(t *testing.T) {
			o := stream(t.Context(), t, mw()(failing("f", nil, "x")), ask("q"))
			require.ErrorAs(t, o.err, new(*aycoder.StreamBrokenError))
			o = stream(t.Context(), t, mw()(endless), ask("q"))
			require.NoError(t, o.err)
			require.Equal(t, "a|done *aycoder.Text|end end_turn", o.String())
			require.Panics(t, func() { mw()(nil) })
		})
	}
}

func TestAbilitiesOfTheClientInside(t *testing.T) {
	inner := saying("x")
	for name, mw := range wrappers() {
		m := mw()(inner)
		require.NotSame(t, inner, m)
		n, ok := aycoder.As[aycoder.ModelNamer](m)
		require.True(t, ok, name)
		_, model := n.ModelName()
		require.Equal(t, "x", model)
		found, ok := aycoder.As[*fake](m)
		require.True(t, ok, name)
		require.Same(t, inner, found)
	}
}

// Leaving a stream that was asked again, at each event, leaves nothing behind: the
// bubble would not end. Retries do not delay a cancel either.
func TestLeaveAndCancelBetweenTries(t *testing.T) {
	for name, mw := range wrappers() {
		t.Run(name, func(t *testing.T) {
			for _, cancels := range []bool{false, true} {
				for at, more := 0, true; more; at++ {
					synctest.Test(t, func(t *testing.T) {
						m := mw()(failing("f", script.RateLimited(time.Minute), "a", "b"))
						more = leave(t, m, at, cancels)
					})
				}
			}
		})
	}
}

func leave(t *testing.T, m aycoder.ModelClient, at int, cancels bool) (more bool) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n, left, start := 0, false, time.Time{}
	for ev, err := range m.Stream(ctx, ask("q")) {
		require.False(t, left)
		if ev == nil {
			if more {
				require.ErrorIs(t, err, context.Canceled)
				require.Less(t, time.Since(start), time.Second)
			}
			left = true
			continue
		}
		if n == at {
			more, start = true, time.Now()
			if !cancels {
				break
			}
			cancel()
		}
		n++
	}
	return more
}
