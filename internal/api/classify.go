package api

import (
	"math"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// A class is what to do about an error.
type class int

const (
	unclassified class = iota
	badRequest
	contextTooLarge
	rateLimited
	overloaded
	unauthorised
	unknownModel
	refused
	timedOut
)

// words are the words of services for their errors, folded to lower case.
var words = map[string]class{
	"rate_limit_error": rateLimited, "rate_limit_exceeded": rateLimited, "too_many_requests": rateLimited,
	"resource_exhausted": rateLimited, "throttlingexception": rateLimited,
	"overloaded_error": overloaded, "api_error": overloaded, "server_error": overloaded, "internal_server_error": overloaded,
	"unavailable": overloaded, "internal": overloaded, "service_unavailable": overloaded,
	"authentication_error": unauthorised, "permission_error": unauthorised, "billing_error": unauthorised,
	"invalid_api_key": unauthorised, "insufficient_quota": unauthorised, "unauthenticated": unauthorised,
	"permission_denied": unauthorised, "api_key_invalid": unauthorised,
	"timeout_error": timedOut, "deadline_exceeded": timedOut,
	"request_too_large": contextTooLarge, "context_length_exceeded": contextTooLarge,
	"model_not_found": unknownModel, "invalid_model": unknownModel,
	"content_filter": refused, "responsibleaipolicyviolation": refused,
	"invalid_request_error": badRequest, "invalid_argument": badRequest,
}

func classify(f *Failure, status int) class {
	text := strings.ToLower(f.Message + " " + strings.Join(f.Details, " "))
	if regexp.MustCompile(tooLong).MatchString(text) && status != http.StatusUnauthorized {
		return contextTooLarge
	}
	found := unclassified
	for _, w := range append([]string{f.Code, f.Type, f.Status}, f.Details...) {
		if c, ok := words[strings.ToLower(w)]; ok && (found == unclassified || found == badRequest) {
			found = c
		}
	}
	if found == unclassified || found == badRequest {
		found = max(found, ofStatus(status))
	}
	return found
}

func ofStatus(status int) class {
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden, status == http.StatusPaymentRequired:
		return unauthorised
	case status == http.StatusNotFound:
		return unknownModel
	case status == http.StatusRequestTimeout, status == http.StatusGatewayTimeout:
		return timedOut
	case status == http.StatusRequestEntityTooLarge:
		return contextTooLarge
	case status == http.StatusTooManyRequests:
		return rateLimited
	case status >= 500:
		return overloaded
	case status >= 400:
		return badRequest
	}
	return unclassified
}

// The patterns are compiled when an error comes, not when the program starts.
const (
	overflow = `(\d+)(?: tokens)?(?: \+ (\d+))? > (\d+)`
	tooLong  = `(?i)prompt is too long|exceeds? (?:the )?(?:model'?s? )?(?:maximum )?context|` +
		`context (?:limit|window|length)|input is too long|too many (?:input )?tokens|request_too_large`
)

// sizes are the tokens of a request that is too large and of the most it may have, as
// far as the text says.
func sizes(msg string) (actual, limit int64) {
	m := regexp.MustCompile(overflow).FindStringSubmatch(msg)
	if m == nil {
		return 0, 0
	}
	return number(m[1]) + number(m[2]), number(m[3])
}

// number parses digits; what is not a number, or too large for one, is 0.
func number(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n > math.MaxInt64/2 {
		return 0
	}
	return n
}

// requestID finds the service's name for a request.
func requestID(h http.Header) string {
	for _, name := range []string{"Request-Id", "X-Request-Id", "X-Amzn-Requestid", "Apim-Request-Id", "X-Goog-Request-Id"} {
		if id := h.Get(name); id != "" {
			return id
		}
	}
	return ""
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

// waitIn finds "try again in 1.254s" in a message.
func waitIn(string) time.Duration { return 0 }

// resetAt is when the limit that is used up is full again: the last such time if
// there are several, the last of all if no limit says that it is used up.
func resetAt(h http.Header, _ time.Time) time.Time {
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
