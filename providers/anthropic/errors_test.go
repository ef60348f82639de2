package anthropic

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
)

func TestErrors(t *testing.T) {
	api := func(kind, msg string) string {
		return `{"type":"error","error":{"type":"` + kind + `","message":"` + msg + `"},"request_id":"req_1"}`
	}
	tests := []struct {
		name   string
		status int // 0 for an event in the stream
		body   string
		want   error // its type
		text   string
	}{
		{"bad request", 400, api("invalid_request_error", "no"), &aycoder.BadRequestError{}, "no"},
		{"prompt too long", 400, api("invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"), &aycoder.ContextTooLargeError{Actual: 210000, Max: 200000}, "prompt is too long"},
		{"prompt too long, no numbers", 400, api("invalid_request_error", "Prompt is too long"), &aycoder.ContextTooLargeError{}, "Prompt is too long"},
		{"with the answer too long", 400, api("invalid_request_error", "input length and `max_tokens` exceed context limit: 190000 + 21333 > 200000, decrease input length"), &aycoder.ContextTooLargeError{Actual: 211333, Max: 200000}, "exceed"},
		{"huge numbers", 400, api("invalid_request_error", "prompt is too long: 99999999999999999999 tokens > 1 maximum"), &aycoder.ContextTooLargeError{Max: 1}, "99"},
		{"body too large", 413, api("request_too_large", "Request exceeds the maximum size"), &aycoder.ContextTooLargeError{}, "maximum size"},
		{"body too large, proxy", 413, "<html>413</html>", &aycoder.ContextTooLargeError{}, "web page"},
		{"key", 401, api("authentication_error", "invalid x-api-key"), &aycoder.AuthError{}, "invalid x-api-key"},
		{"permission", 403, api("permission_error", "no"), &aycoder.AuthError{}, "no"},
		{"billing", 402, api("billing_error", "pay"), &aycoder.AuthError{}, "pay"},
		{"model", 404, api("not_found_error", "model: x"), &aycoder.UnknownModelError{}, "model: x"},
		{"path", 404, api("not_found_error", "Not Found"), &aycoder.BadRequestError{}, "Not Found"},
		{"rate limit", 429, api("rate_limit_error", "slow down"), &aycoder.RateLimitError{}, "slow down"},
		{"rate limit, plain", 429, "slow down", &aycoder.RateLimitError{}, "slow down"},
		{"inside", 500, api("api_error", "Internal server error"), &aycoder.OverloadedError{}, "Internal"},
		{"bad gateway", 502, "<html>502</html>", &aycoder.OverloadedError{}, "web page"},
		{"nothing", 503, "", &aycoder.OverloadedError{}, "empty answer"},
		{"gateway timeout", 504, api("timeout_error", "too slow"), &aycoder.TimeoutError{}, "too slow"},
		{"overloaded", 529, api("overloaded_error", "Overloaded"), &aycoder.OverloadedError{}, "Overloaded"},
		{"error as text", 400, `{"error":"bad thing"}`, &aycoder.BadRequestError{}, "bad thing"},
		{"no content", 204, "", &aycoder.ModelError{}, "empty answer"},
		{"long body", 400, strings.Repeat("é", 1<<20), &aycoder.BadRequestError{}, "éé…"},
		{"event: overloaded", 0, api("overloaded_error", "Overloaded"), &aycoder.OverloadedError{}, "Overloaded"},
		{"event: rate limit", 0, api("rate_limit_error", "slow"), &aycoder.RateLimitError{}, "slow"},
		{"event: key", 0, api("authentication_error", "key"), &aycoder.AuthError{}, "key"},
		{"event: inside", 0, api("api_error", "x"), &aycoder.OverloadedError{}, "x"},
		{"event: timeout", 0, api("timeout_error", "x"), &aycoder.TimeoutError{}, "x"},
		{"event: request", 0, api("invalid_request_error", "x"), &aycoder.BadRequestError{}, "x"},
		{"event: context", 0, api("invalid_request_error", "prompt is too long: 2 tokens > 1 maximum"), &aycoder.ContextTooLargeError{Actual: 2, Max: 1}, "long"},
		{"event: unknown", 0, api("odd_error", "x"), &aycoder.StreamBrokenError{}, "x"},
		{"event: empty", 0, `{"type":"error"}`, &aycoder.StreamBrokenError{}, "error"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			rt := stream(msgStart + textStart + textDelta + "event: error\ndata: " + tt.body + "\n\n")
			if tt.status != 0 {
				rt = refuse(tt.status, tt.body, nil)
			}
			a := ask(newClient(t, rt))
			require.IsType(t, tt.want, a.err)
			base, ok := errors.AsType[*aycoder.ModelError](a.err)
			require.True(t, ok)
			assert.Equal(t, tt.status, base.Status)
			assert.ErrorContains(t, base.Err, tt.text)
			assert.Less(t, len(a.err.Error()), 3000)
			if strings.Contains(tt.body, "req_1") {
				assert.Equal(t, "req_1", base.RequestID)
			}
			if want, ok := tt.want.(*aycoder.ContextTooLargeError); ok {
				got, _ := errors.AsType[*aycoder.ContextTooLargeError](a.err)
				assert.Equal(t, []int64{want.Actual, want.Max}, []int64{got.Actual, got.Max})
			}
		})
	}
}

// refuse answers with an error.
func refuse(status int, body string, h http.Header) http.RoundTripper {
	return roundTrip(func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: status, Header: h, Request: r,
			Body: io.NopCloser(strings.NewReader(body))}, nil
	})
}

func TestRateLimitHeaders(t *testing.T) {
	at := func(s string) time.Time {
		when, err := time.Parse(time.RFC3339, s)
		require.NoError(t, err)
		return when
	}
	const early, late = "2030-01-01T00:00:10Z", "2030-01-01T00:05:00Z"
	tests := []struct {
		name  string
		h     map[string]string
		wait  time.Duration
		reset time.Time
	}{
		{"nothing", nil, 0, time.Time{}},
		{"seconds", map[string]string{"Retry-After": "9"}, 9 * time.Second, time.Time{}},
		{"parts of a second", map[string]string{"Retry-After": "1.5"}, 1500 * time.Millisecond, time.Time{}},
		{"milliseconds win", map[string]string{"Retry-After": "9", "Retry-After-Ms": "250"}, 250 * time.Millisecond, time.Time{}},
		{"date", map[string]string{"Retry-After": "Sat, 01 Jan 2000 00:00:30 GMT"}, 30 * time.Second, time.Time{}},
		{"date that has passed", map[string]string{"Retry-After": "Fri, 31 Dec 1999 00:00:30 GMT"}, 0, time.Time{}},
		{"nonsense", map[string]string{"Retry-After": "soon", "Anthropic-Ratelimit-Tokens-Reset": "later"}, 0, time.Time{}},
		{"negative", map[string]string{"Retry-After": "-5"}, 0, time.Time{}},
		{"for ever", map[string]string{"Retry-After": "1e300", "Retry-After-Ms": "NaN"}, 0, time.Time{}},
		{"the one that is used up", map[string]string{
			"Anthropic-Ratelimit-Requests-Remaining": "0", "Anthropic-Ratelimit-Requests-Reset": early,
			"Anthropic-Ratelimit-Tokens-Remaining": "500", "Anthropic-Ratelimit-Tokens-Reset": late,
		}, 0, at(early)},
		{"the last if none is", map[string]string{
			"Anthropic-Ratelimit-Input-Tokens-Remaining": "1", "Anthropic-Ratelimit-Input-Tokens-Reset": late,
			"Anthropic-Ratelimit-Output-Tokens-Remaining": "500", "Anthropic-Ratelimit-Output-Tokens-Reset": early,
		}, 0, at(late)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // it is midnight, 1 January 2000
				h := http.Header{"Request-Id": {"req_2"}}
				for k, v := range tt.h {
					h.Set(k, v)
				}
				a := ask(newClient(t, refuse(429, "{}", h)))
				e, ok := errors.AsType[*aycoder.RateLimitError](a.err)
				require.True(t, ok, "%v", a.err)
				assert.Equal(t, tt.wait, e.RetryAfter)
				assert.True(t, tt.reset.Equal(e.ResetAt), "%v", e.ResetAt)
				assert.Equal(t, "req_2", e.RequestID)
			})
		})
	}
}

func TestShouldRetry(t *testing.T) {
	no := http.Header{"X-Should-Retry": {"false"}}
	assert.IsType(t, &aycoder.ModelError{}, ask(newClient(t, refuse(500, "", no))).err)
	wait := http.Header{"Retry-After": {"3"}}
	e, ok := errors.AsType[*aycoder.OverloadedError](ask(newClient(t, refuse(529, "", wait))).err)
	require.True(t, ok)
	assert.Equal(t, 3*time.Second, e.RetryAfter)
}

func TestNew(t *testing.T) {
	tests := []struct {
		name, env string
		opts      []Option
		want      string // text of the error; empty for none
		key       string
	}{
		{"key of the environment", "env-key\n", nil, "", "env-key"},
		{"own key", "env-key", []Option{WithAPIKey("own")}, "", "own"},
		{"no key", "", nil, "set ANTHROPIC_API_KEY or pass WithAPIKey", ""},
		{"bad key in the environment", "a b", nil, "ANTHROPIC_API_KEY: key is empty or has white space", ""},
		{"bad key", "", []Option{WithAPIKey("a\nb")}, "WithAPIKey: ", ""},
		{"another service", "env-key", []Option{WithBaseURL("http://localhost:1")}, "", ""},
		{"own header", "env-key", []Option{WithHeader("authorization", "Bearer x")}, "", ""},
		{"base URL with a user", "k", []Option{WithBaseURL("https://u:p@x")}, "has a user", ""},
		{"relative base URL", "k", []Option{WithBaseURL("x/y")}, "not an absolute", ""},
		{"no URL", "k", []Option{WithBaseURL("http://x\x00")}, "not a URL", ""},
		{"header name", "k", []Option{WithHeader("a b", "c")}, `"a b"`, ""},
		{"header value", "k", []Option{WithHeader("a", "c\r\nd: e")}, `"a"`, ""},
		{"nil client", "k", []Option{WithHTTPClient(nil)}, "client is nil", ""},
		{"version", "k", []Option{WithVersion("")}, "WithVersion", ""},
		{"beta", "k", []Option{WithBeta("a b")}, "WithBeta", ""},
		{"max tokens", "k", []Option{WithMaxTokens(0)}, "WithMaxTokens: 0 is less than 1", ""},
		{"idle timeout", "k", []Option{WithIdleTimeout(0)}, "WithIdleTimeout", ""},
		{"cache", "k", []Option{WithCacheTTL(time.Minute)}, "WithCacheTTL: 1m0s is neither", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv(keyEnv, tt.env)
			c, err := New("m", tt.opts...)
			if tt.want != "" {
				require.ErrorContains(t, err, tt.want)
				return
			}
			require.NoError(t, err)
			h := http.Header{}
			c.cfg.setHeaders(h)
			assert.Equal(t, tt.key, h.Get("X-Api-Key"))
			provider, model := c.ModelName()
			assert.Equal(t, "anthropic m", provider+" "+model)
		})
	}
}

func TestNewReportsAllErrors(t *testing.T) {
	t.Setenv(keyEnv, "")
	_, err := New("", WithMaxTokens(-1), WithIdleTimeout(-1))
	for _, want := range []string{"model: name is empty", "WithMaxTokens", "WithIdleTimeout", "no API key"} {
		assert.ErrorContains(t, err, want)
	}
	_, ok := errors.AsType[*aycoder.AuthError](err)
	assert.True(t, ok)
}
