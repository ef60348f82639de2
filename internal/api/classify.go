package api

import (
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A class is a kind of failure. It determines which error type a failure gets, and so
// whether the request is repeated.
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

// ofWord returns the class that belongs to a service's code for an error.
func ofWord(word string) class {
	switch strings.ToLower(word) {
	case "rate_limit_error", "rate_limit_exceeded", "too_many_requests", "resource_exhausted",
		"throttlingexception", "throttled", "tokens", "requests", "token_quota_exceeded",
		"too_many_tokens_error":
		return rateLimited
	case "overloaded_error", "api_error", "server_error", "internal_server_error", "internal_error",
		"unavailable", "internal", "service_unavailable", "serviceunavailableexception",
		"internalserverexception", "modelerrorexception", "modelnotreadyexception",
		"modelstreamerrorexception", "upstream_error", "capacity_exceeded":
		return overloaded
	case "authentication_error", "permission_error", "billing_error", "invalid_api_key",
		"insufficient_quota", "unauthenticated", "unauthorized", "permission_denied",
		"api_key_invalid", "forbidden", "invalid_authentication_error",
		"exceeded_current_quota_error", "insufficient_credits", "accessdeniedexception",
		"expiredtokenexception", "unrecognizedclientexception", "invalidsignatureexception",
		"billing_hard_limit_reached", "billing_not_active", "auth_error", "expired_key", "budget_exceeded":
		return unauthorised
	case "timeout_error", "timeout", "deadline_exceeded", "modeltimeoutexception",
		"request_timeout":
		return timedOut
	case "request_too_large", "context_length_exceeded", "exceed_context_size_error",
		"model_max_prompt_tokens_exceeded", "requested_too_many_tokens", "context_exceeded",
		"model_context_window_exceeded":
		return contextTooLarge
	case "model_not_found", "invalid_model", "model_not_available", "deploymentnotfound",
		"unknown_model", "unsupported_model", "model_not_supported":
		return unknownModel
	case "content_filter", "content_policy_violation", "responsibleaipolicyviolation",
		"prohibited_content", "cyber_policy":
		return refused
	case "invalid_request_error", "invalid_argument", "not_found_error", "not_found",
		"validationexception", "invalid_prompt", "invalid-argument":
		return badRequest
	}
	return unclassified
}

// classify uses the most specific code, then the text, then the status. Codes come before
// the status because they contradict it where one service answers for another: a gateway
// sends 400 or 500 with the code of the service behind it. "Bad request" is the weakest
// code, since services use it for everything that has no code, so a text or a status that
// says more overrides it. Two rules stand above that order. The statuses 401 and 402 mean
// an account whatever the text says, unless a filter refused; and a text about the size of
// the context decides over other codes, because only a smaller request helps then.
func classify(f *Failure, status int) class {
	text := strings.ToLower(strings.Join(append([]string{f.Message}, f.Details...), "\n"))
	found := unclassified
	for _, w := range append([]string{f.Code, f.Type, f.Status}, f.Details...) {
		if c := ofWord(w); found == unclassified || found == badRequest && c != unclassified {
			found = c
		}
	}
	for _, number := range []string{f.Code, f.Status} {
		if n, err := strconv.Atoi(number); err == nil && status == 0 && n >= 400 && n < 600 {
			// the status of a service behind a gateway, in a stream; other numbers are
			// codes of the service
			status = n
		}
	}
	switch by := ofText(text, status); {
	case (status == http.StatusUnauthorized || status == http.StatusPaymentRequired) &&
		found != refused:
		return unauthorised
	case by == contextTooLarge && found != unauthorised:
		return by
	case by != unclassified && (found == unclassified || found == badRequest):
		return by
	case found == overloaded && status == http.StatusRequestEntityTooLarge:
		return contextTooLarge // the word is of whoever read the body, and gave up
	case found == unclassified || found == badRequest && status >= 500:
		return ofStatus(status)
	case found == badRequest && status != http.StatusBadRequest:
		return max(badRequest, ofStatus(status))
	}
	return found
}

// ofStatus returns the class that belongs to an HTTP status. It decides if the body of
// the response says nothing more specific.
func ofStatus(status int) class {
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden,
		status == http.StatusPaymentRequired, status == http.StatusProxyAuthRequired,
		status == http.StatusNetworkAuthenticationRequired:
		return unauthorised
	// 524 is Cloudflare's: the origin server did not answer in time.
	case status == http.StatusRequestTimeout, status == http.StatusGatewayTimeout, status == 524:
		return timedOut
	case status == http.StatusRequestEntityTooLarge:
		return contextTooLarge
	case status == http.StatusTooManyRequests:
		return rateLimited
	case status == http.StatusConflict, status == http.StatusTooEarly, status == http.StatusFailedDependency,
		status == 499:
		return overloaded // the request was valid, and the service busy
	case status >= 500:
		return overloaded
	case status >= 400:
		return badRequest
	}
	return unclassified
}

// tooLong are the texts of services for a request that exceeds the model's context, in
// lower case. The text for a limit on tokens per minute is among them if it says that the
// request alone exceeds the limit: waiting does not help then.
var tooLong = []string{
	"prompt is too long", "input is too long", "too many input tokens", "too many tokens",
	"input tokens exceed", "exceed context limit", "exceeds the context window",
	"exceed the context window", "exceeds the available context", "context window exceeds",
	"maximum context length", "context length exceeded", "exceeds context length",
	"greater than the context length", "larger than the context", "maximum prompt length",
	"maximum model length", "max_new_tokens` must be <=", "exceeded model token limit",
	"exceeds the maximum number of tokens", "prompt exceeds max length", "request_too_large",
	"request too large", "reduce the length", "input token count", "too large for model with",
	"exceeds the maximum allowed length", "exceeds maximum length", "context_length_exceeded",
	"prompt token count", "longer than the context length", "prompt too long",
	"exceeded max context length", "following a prompt of length", "exceeds context size",
	"too long to fit into the model", "context window exceeded", "exceeds model context window",
	"range of input length should be", "exceed max message tokens", "must be less than max_seq_len",
	"cannot exceed the total tokens limit", "`inputs` must have less than",
	"longer than the model's context length", "loaded with context length of only",
	"reached context length of",
}

// notTooLong are similar texts with another meaning: a quota that many requests share is
// used up.
var notTooLong = []string{"quota exceeded", "please wait", "per minute limit exceeded",
	"per hour limit exceeded", "per day limit exceeded"}

// noAccess are the texts for an invalid key, and for an account without credit.
var noAccess = []string{
	"api key not valid", "api key expired", "invalid api key", "incorrect api key",
	"authentication failed", "insufficient balance", "credit balance is too low",
	"specified api usage limits", "use case details have not been",
}

// noAccessFirst are prefixes, and noAccessSaid parts, of the same texts in an answer with
// a success status, as proxies and login pages send. In other answers they may describe
// something else that the service could not read.
var (
	noAccessFirst = []string{"unauthorized", "unauthorised", "unauthenticated", "forbidden",
		"access denied", "permission denied", "authentication", "invalid token",
		"invalid credentials"}
	noAccessSaid = []string{
		"not authenticated", "not authorized", "not authorised", "could not validate credentials",
		"authentication required", "authentication credentials", "missing api key", "no api key",
		"api key required", "api key is required", "api key is missing", "token expired",
		"token is expired", "jwt expired", "session expired",
		"login required", "login fail", "must be logged in", "please log in", "please sign in", loginPage,
	}
)

// filtered are the texts of content filters.
var filtered = []string{
	"content management policy", "input was flagged", "flagged as potentially violating",
	"potentially unsafe or sensitive content", "new_sensitive", "blocked by content filtering",
}

// noModel are the texts for an unknown model, in addition to the word "model".
var noModel = []string{
	"not found", "not exist", "invalid model", "valid model", "model identifier is invalid",
	"unknown model", "no such model", "supported api model names", "unable to access",
	"been deprecated", "decommissioned", "end of its life", "resolve the foundation model",
	"on-demand throughput",
}

// ofText returns the class that belongs to an error text, which must be in lower case.
// Codes and types are examined before texts, because a service may reword a text at any
// time. The status is 0 for a text in a response whose status was success.
func ofText(text string, status int) class {
	has := func(s string) bool { return strings.Contains(text, s) }
	model := has("model") || has("deployment")
	switch {
	case slices.ContainsFunc(tooLong, has) && !slices.ContainsFunc(notTooLong, has):
		return contextTooLarge
	case status < 400 && status != 0 || status >= 500:
		return unclassified
	case slices.ContainsFunc(noAccess, has):
		return unauthorised
	case slices.ContainsFunc(filtered, has):
		return refused
	case status == 0 && (slices.ContainsFunc(noAccessFirst, func(s string) bool { return strings.HasPrefix(text, s) }) ||
		slices.ContainsFunc(noAccessSaid, has)):
		return unauthorised
	case status == 0 && (has("rate limit") || has("too many requests")):
		return rateLimited
	case status == 0 && strings.HasPrefix(text, "invalid request"):
		return badRequest
	case status == http.StatusNotFound && (strings.HasPrefix(text, "model:") ||
		has("no endpoints found for") || model && slices.ContainsFunc(noModel, has)):
		return unknownModel
	case (status == http.StatusBadRequest || status == 0) && model && slices.ContainsFunc(noModel, has) &&
		!has("not supported with this model") && !has("tool"):
		return unknownModel
	}
	return unclassified
}

// sizes finds two numbers of tokens in the text for a request that is too large: the size
// of the request and the limit. A number that the text does not contain is 0. The text
// either has the form "190000 + 21333 > 200000" or "500 > 4096 - 3900", or the largest number is the size and a
// number after a word for a limit is the limit. A text that counts bytes says nothing
// about tokens.
func sizes(msg string) (actual, limit int64) {
	if strings.Contains(msg, " bytes") {
		return 0, 0
	}
	nums := numbers(msg)
	for i := range nums {
		if i > 0 && strings.HasSuffix(nums[i].before, "> ") {
			actual, limit = nums[i-1].n, nums[i].n
			if i > 1 && strings.HasSuffix(nums[i-1].before, "+ ") {
				actual += nums[i-2].n
			}
			if i+1 < len(nums) && nums[i+1].before == " - " {
				actual += nums[i+1].n
			}
			return actual, limit
		}
	}
	for _, x := range nums {
		if x.bounds() && limit == 0 {
			limit = x.n
		}
		actual = max(actual, x.n)
	}
	if limit == 0 || actual <= limit {
		return 0, limit
	}
	return actual, limit
}

// A count is a number in a text, with the text between the previous number and this one,
// and the text after it.
type count struct {
	n             int64
	before, after string
}

// bounds reports whether the number is a limit.
func (c count) bounds() bool {
	if strings.HasPrefix(c.after, " max") {
		return true
	}
	before := c.before[max(0, len(c.before)-50):]
	return slices.ContainsFunc([]string{"max", "limit", "<=", "size (", "than the", "less than", "cannot exceed", "window", "context length of"},
		func(w string) bool { return strings.Contains(before, w) })
}

// numbers finds the whole numbers in a text, in lower case, that are not part of a name.
func numbers(msg string) (out []count) {
	msg = strings.ToLower(msg)
	start := 0
	for i := 0; i < len(msg); i++ {
		if msg[i] < '0' || msg[i] > '9' {
			continue
		}
		j := i
		for j < len(msg) && (msg[j] >= '0' && msg[j] <= '9' || grouped(msg[j:])) {
			j++
		}
		if (i == 0 || strings.IndexByte(" (:`'=\"\n", msg[i-1]) >= 0) && endsNumber(msg[j:]) {
			if n, err := strconv.ParseInt(strings.ReplaceAll(msg[i:j], ",", ""), 10, 64); err == nil && n < math.MaxInt64/2 {
				out = append(out, count{n, msg[start:i], msg[j:]})
				start = j
			}
		}
		i = j
	}
	return out
}

// grouped reports whether s begins with a comma and three digits.
func grouped(s string) bool {
	if len(s) < 4 || s[0] != ',' {
		return false
	}
	_, err := strconv.ParseUint(s[1:4], 10, 64)
	return err == nil
}

// endsNumber reports whether a number ends before s. In "7.5" the number does not end
// after the 7; in "wait 7." it does.
func endsNumber(s string) bool {
	if s == "" || strings.IndexByte(" ),;:`'\"\n", s[0]) >= 0 {
		return true
	}
	return s[0] == '.' && (len(s) == 1 || s[1] == ' ' || s[1] == '\n')
}

// requestID returns the service's id of a request.
func requestID(h http.Header) string {
	for _, name := range [...]string{"Request-Id", "X-Request-Id", "X-Amzn-Requestid", "Apim-Request-Id",
		"X-Goog-Request-Id"} {
		if ids := h[name]; len(ids) > 0 && ids[0] != "" {
			return ids[0]
		}
	}
	return ""
}

// retryAfter returns the time to wait: "retry-after-ms", or "Retry-After = HTTP-date /
// delay-seconds" (RFC 9110, section 10.2.3), or a form that [parseReset] accepts.
func retryAfter(h http.Header) time.Duration {
	if d, ok := parseWait(h.Get("Retry-After-Ms"), time.Millisecond); ok {
		return d
	}
	v, now := h.Get("Retry-After"), time.Now()
	at, ok := parseReset(v, now)
	if !ok {
		at, _ = http.ParseTime(v) // long ago if it is not a time
	}
	return max(at.Sub(now), 0)
}

// parseWait returns a duration, unless it is negative, not a number or absurdly long.
func parseWait(s string, unit time.Duration) (time.Duration, bool) {
	f, err := strconv.ParseFloat(s, 64)
	if unit <= 0 || err != nil || !(f >= 0) || f > float64(math.MaxInt64/unit)/2 {
		return 0, false
	}
	return time.Duration(f * float64(unit)), true
}

// waitIn finds the time to wait in a text: "Please try again in 6m1.254s", "retry after
// 13 seconds".
func waitIn(msg string) time.Duration {
	msg = strings.ToLower(msg)
	for _, words := range []string{"try again in ", "retry in ", "retry after ", "try again after "} {
		_, rest, ok := strings.Cut(msg, words)
		if !ok {
			continue
		}
		amount, unit, _ := strings.Cut(rest, " ")
		if d, err := time.ParseDuration(strings.TrimRight(amount, ".,;")); err == nil && d >= 0 {
			return d
		}
		units := map[string]time.Duration{"ms": time.Millisecond, "mi": time.Minute, "se": time.Second}
		if d, ok := parseWait(amount, units[unit[:min(2, len(unit))]]); ok {
			return d
		}
	}
	return 0
}

// resetAt returns when an exhausted limit is reset: the latest such time if there are
// several, or the latest of all resets if no limit is marked as exhausted. The headers
// have "ratelimit" and "reset" in their names, and corresponding ones "remaining" in
// place of "reset".
func resetAt(h http.Header, now time.Time) time.Time {
	var exhausted, latest time.Time
	for name, values := range h {
		lower := strings.ToLower(name)
		if !strings.Contains(lower, "ratelimit") || !strings.Contains(lower, "reset") || len(values) == 0 {
			continue
		}
		at, ok := parseReset(values[0], now)
		if !ok {
			continue
		}
		latest = later(latest, at)
		if h.Get(strings.ReplaceAll(lower, "reset", "remaining")) == "0" {
			exhausted = later(exhausted, at)
		}
	}
	if !exhausted.IsZero() {
		return exhausted
	}
	return latest
}

// parseReset parses a time (RFC 3339), a duration ("6m0s"), seconds, or the seconds or
// milliseconds since 1970.
func parseReset(s string, now time.Time) (time.Time, bool) {
	if at, err := time.Parse(time.RFC3339, s); err == nil {
		return at, true
	}
	if d, err := time.ParseDuration(s); err == nil && d >= 0 {
		return now.Add(d), true
	}
	f, err := strconv.ParseFloat(s, 64)
	switch {
	case err != nil || !(f >= 0) || f > 1e14:
		return time.Time{}, false
	case f > 1e11:
		return time.UnixMilli(int64(f)), true
	case f > 1e9:
		return time.Unix(int64(f), 0), true
	}
	return now.Add(time.Duration(f * float64(time.Second))), true
}

// later returns the later of two times. If several limits apply, the request is possible
// only when the last of them is reset.
func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
