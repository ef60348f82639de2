package anthropic

import (
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/aycoder/aycoder"
)

const (
	maxErrorBody = 64 << 10
	maxErrorText = 2000
	maxID        = 200
)

var (
	errUnfinished = errors.New("stream ended before message_stop")
	errRedirect   = errors.New("redirected to another host or method: set the base URL to the service itself")
)

// errorEvent is the body of an error answer and the data of an error event.
type errorEvent struct {
	Error     apiError `json:"error"`
	RequestID string   `json:"request_id"`
}

// apiError is what the API says went wrong.
type apiError struct {
	Type    string `json:"type"`
	Message string `json:"message"`
}

// UnmarshalJSON also takes the plain text that some services have in its place.
func (e *apiError) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '"' {
		return json.Unmarshal(data, &e.Message)
	}
	type plain apiError
	return json.Unmarshal(data, (*plain)(e))
}

// classify turns what the API says into the type that says what to do about it. An
// error inside a stream has no status of its own and no header.
func (k *call) classify(e *apiError, h http.Header) error {
	msg := k.c.cfg.show(e.Message, maxErrorText)
	kind := k.c.cfg.show(e.Type, 100)
	if msg == "" {
		msg = kind
	}
	base := k.base(kind, errors.New(msg))
	switch kindOf(kind, k.status) {
	case "rate_limit_error":
		return &aycoder.RateLimitError{ModelError: base, RetryAfter: retryAfter(h), ResetAt: resetAt(h)}
	case "overloaded_error", "api_error":
		if h.Get("X-Should-Retry") == "false" {
			return base
		}
		return &aycoder.OverloadedError{ModelError: base, RetryAfter: retryAfter(h)}
	case "authentication_error", "permission_error", "billing_error":
		return &aycoder.AuthError{ModelError: base}
	case "timeout_error":
		return &aycoder.TimeoutError{ModelError: base, Elapsed: time.Since(k.start)}
	case "request_too_large":
		return &aycoder.ContextTooLargeError{ModelError: base}
	case "not_found_error":
		if strings.Contains(strings.ToLower(msg), "model") {
			return &aycoder.UnknownModelError{ModelError: base}
		}
		return &aycoder.BadRequestError{ModelError: base}
	case "invalid_request_error":
		if actual, limit, ok := tooLarge(msg); ok {
			return &aycoder.ContextTooLargeError{ModelError: base, Actual: actual, Max: limit}
		}
		return &aycoder.BadRequestError{ModelError: base}
	}
	return base
}

// kindOf returns one of the API's own words for an error, from the status where
// there is none or one that is not known.
func kindOf(kind string, status int) string {
	switch kind {
	case "rate_limit_error", "overloaded_error", "api_error", "authentication_error",
		"permission_error", "billing_error", "timeout_error", "request_too_large",
		"not_found_error", "invalid_request_error":
		return kind
	}
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden, status == http.StatusPaymentRequired:
		return "authentication_error"
	case status == http.StatusNotFound:
		return "not_found_error"
	case status == http.StatusRequestTimeout, status == http.StatusGatewayTimeout:
		return "timeout_error"
	case status == http.StatusRequestEntityTooLarge:
		return "request_too_large"
	case status == http.StatusTooManyRequests:
		return "rate_limit_error"
	case status >= 500:
		return "api_error"
	case status >= 400:
		return "invalid_request_error"
	}
	return kind
}

// The patterns are compiled when an error comes, not when the program starts.
const (
	// "prompt is too long: 210000 tokens > 200000 maximum"
	// "input length and `max_tokens` exceed context limit: 190000 + 21333 > 200000, …"
	overflow = `(\d+)(?: tokens)?(?: \+ (\d+))? > (\d+)`
	tooLong  = `(?i)prompt is too long|exceeds? (?:the )?(?:model'?s? )?(?:maximum )?context|` +
		`context (?:limit|window|length)|input is too long|too many (?:input )?tokens|request_too_large`
)

// tooLarge tells from an error's text whether the context is too large, and how
// large it is, as far as the text says.
func tooLarge(msg string) (actual, limit int64, ok bool) {
	if !regexp.MustCompile(tooLong).MatchString(msg) {
		return 0, 0, false
	}
	m := regexp.MustCompile(overflow).FindStringSubmatch(msg)
	if m == nil {
		return 0, 0, true
	}
	return number(m[1]) + number(m[2]), number(m[3]), true
}

// number parses digits; what is not a number, or too large for one, is 0.
func number(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n > math.MaxInt64/2 {
		return 0
	}
	return n
}

// retryAfter reads how long to wait: "retry-after-ms", or "Retry-After = HTTP-date /
// delay-seconds" (RFC 9110, 10.2.3).
func retryAfter(h http.Header) time.Duration {
	if d, ok := parseWait(h.Get("Retry-After-Ms"), time.Millisecond); ok {
		return d
	}
	v := h.Get("Retry-After")
	if d, ok := parseWait(v, time.Second); ok {
		return d
	}
	at, err := http.ParseTime(v)
	if err != nil {
		return 0
	}
	return max(time.Until(at), 0)
}

func parseWait(s string, unit time.Duration) (time.Duration, bool) {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || !(f >= 0) || f > float64(math.MaxInt64/unit)/2 {
		return 0, false
	}
	return time.Duration(f * float64(unit)), true
}

// resetAt is when the limit that is used up is full again: the last such time if
// there are several, the last of all if no limit says that it is used up.
func resetAt(h http.Header) time.Time {
	var exhausted, latest time.Time
	for _, what := range []string{"Requests", "Tokens", "Input-Tokens", "Output-Tokens"} {
		name := "Anthropic-Ratelimit-" + what
		at, err := time.Parse(time.RFC3339, h.Get(name+"-Reset"))
		if err != nil {
			continue
		}
		latest = later(latest, at)
		if h.Get(name+"-Remaining") == "0" {
			exhausted = later(exhausted, at)
		}
	}
	if !exhausted.IsZero() {
		return exhausted
	}
	return latest
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// clip cuts s at a rune.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}
