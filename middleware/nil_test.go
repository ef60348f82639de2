package middleware_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/middleware"
	"github.com/aycoder/aycoder/providers/anthropic"
)

// A nil value in a request is passed on to the client, which returns an error.
func TestNilInRequests(t *testing.T) {
	hello := ask("x").Messages
	requests := map[string]*aycoder.Request{
		"message":    {Messages: []*aycoder.Message{nil}},
		"part":       {Messages: []*aycoder.Message{{Role: aycoder.RoleUser, Parts: []aycoder.Part{nil}}}},
		"typed part": {Messages: []*aycoder.Message{{Role: aycoder.RoleUser, Parts: []aycoder.Part{(*aycoder.Text)(nil)}}}},
		"tool":       {Messages: hello, Tools: []*aycoder.ToolSpec{nil}},
		"system":     {Messages: hello, System: []*aycoder.Text{nil}},
	}
	wraps := map[string]aycoder.ModelMiddleware{
		"Retry":       middleware.Retry(middleware.RetryOptions{}),
		"Fallback":    middleware.Fallback(saying("other")),
		"RateLimit":   middleware.RateLimit(middleware.Limits{Requests: 100, Tokens: 1 << 30}),
		"IdleTimeout": middleware.IdleTimeout(1 << 40),
		"Cache":       middleware.Cache(middleware.NewMemoryStore(1<<20), middleware.CacheOptions{}),
	}
	client, err := anthropic.New("m", anthropic.WithAPIKey("k"), anthropic.WithBaseURL("http://127.0.0.1:1"))
	require.NoError(t, err)
	for what, wrap := range wraps {
		for name, req := range requests {
			o := stream(t.Context(), t, wrap(client), req)
			require.ErrorAs(t, o.err, new(*aycoder.BadRequestError), "%s of a nil %s", what, name)
		}
	}
}
