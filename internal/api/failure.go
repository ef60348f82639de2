package api

import (
	"bytes"
	"cmp"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/rawjson"
	"github.com/aycoder/aycoder/internal/runes"
)

const (
	maxErrorBody = 64 << 10
	maxErrorText = 2000
	maxErrorKind = 100
	maxDetails   = 8
	maxID        = 200
)

// Failure describes an error in the service's words. Each field may be empty.
type Failure struct {
	// Type and Code are the service's codes for the error. Status is the name of a
	// status, such as "RESOURCE_EXHAUSTED", or a number as text.
	Type, Code, Status string
	// Message describes the error for people. Details are additional texts, such as the
	// error of another service to which a gateway forwarded the request.
	Message string
	Details []string
	// RequestID is the id of the request, if the body of the response has it.
	RequestID string
	// Actual and Max are the sizes of the request and of the context, in tokens, if the body of the response has them
	// outside of the message.
	Actual, Max int64
	// RetryAfter is the time to wait before the next attempt, if the body of the response
	// has it.
	RetryAfter time.Duration
	// Header is the header of the response. It is nil for an error inside a stream.
	Header http.Header

	at map[*string]int // the depth at which each field was found, during parsing
}

// Kind returns the most specific of the service's codes: the first of Type, Code and
// Status that is a word, or else a number.
func (f *Failure) Kind() string {
	for _, w := range []string{f.Type, f.Code, f.Status} {
		if _, err := strconv.Atoi(w); w != "" && err != nil {
			return w
		}
	}
	return cmp.Or(f.Code, f.Status)
}

// ParseFailure parses the body of an error response, or the data of an error event. It
// accepts all forms of errors that the supported services use. H is the header of the
// response, or nil inside a stream.
func ParseFailure(data []byte, h http.Header) Failure {
	f := Failure{Header: h}
	if name, _, _ := strings.Cut(h.Get("X-Amzn-Errortype"), ":"); name != "" {
		f.Type = name
	}
	r := rawjson.NewReader(strings.ToValidUTF8(string(data), "\uFFFD"))
	f.parse(r, 0)
	f.at = nil
	if r.End() != nil || f.Message == "" && f.Kind() == "" {
		f.Message = plainBody(string(data), h.Get("Content-Type"))
	}
	return f
}

// maxWrapped is the maximum depth of nested envelopes.
const maxWrapped = 6

// parse reads an error, or an envelope around an error. Codes of inner errors are more
// specific and override those of the envelope.
func (f *Failure) parse(r *rawjson.Reader, depth int) {
	switch {
	case depth > maxWrapped:
		r.Skip()
	case r.Kind() == '[':
		for r.Array(); r.Next(); {
			f.parse(r, depth+1)
		}
	case r.Kind() == '"':
		f.word(r, &f.Message, depth)
	default:
		for r.Object(); r.Next(); {
			f.field(r, depth)
		}
	}
}

// field reads a field that some service puts into an error.
func (f *Failure) field(r *rawjson.Reader, depth int) {
	switch r.Key() {
	case "error", "errors", "response", "detail", "body", "base_resp", "x_groq":
		f.parse(r, depth+1)
	case "message", "msg", "error_message", "error_description", "title", "status_msg":
		f.text(r, &f.Message, depth)
	case "type", "__type":
		f.word(r, &f.Type, depth)
	case "code":
		f.word(r, &f.Code, depth)
	case "status", "statusCode", "status_code", "http_status_code":
		f.word(r, &f.Status, depth)
	case "request_id", "requestId":
		f.word(r, &f.RequestID, depth)
	case "n_prompt_tokens":
		f.Actual, _ = r.Int()
	case "n_ctx":
		f.Max, _ = r.Int()
	case "details":
		f.details(r)
	case "metadata":
		f.metadata(r)
	}
}

// text reads a message, which is an object or a list at some services.
func (f *Failure) text(r *rawjson.Reader, to *string, depth int) {
	if r.Kind() == '"' {
		f.word(r, to, depth)
		return
	}
	f.parse(r, depth+1)
}

// word reads a text or a number into a field. A text overrides a number. A text of an
// inner error overrides the text of its envelope, in whichever order the two arrive.
func (f *Failure) word(r *rawjson.Reader, to *string, depth int) {
	switch r.Kind() {
	case '"':
		if s, _ := r.Str(); s != "" && depth >= f.at[to] {
			*to = s
			f.keep(to, depth)
		}
	case '0':
		*to = cmp.Or(*to, r.Raw())
	default:
		r.Skip()
	}
}

// keep records the depth at which a value was found.
func (f *Failure) keep(to *string, depth int) {
	if f.at == nil {
		f.at = map[*string]int{}
	}
	f.at[to] = depth
}

// details reads Google's details: "retryDelay" in a RetryInfo, "reason" in an ErrorInfo.
func (f *Failure) details(r *rawjson.Reader) {
	for r.Array(); r.Next(); {
		for r.Object(); r.Next(); {
			switch r.Key() {
			case "retryDelay":
				s, _ := r.Str()
				if d, err := time.ParseDuration(s); err == nil && d > 0 {
					f.RetryAfter = d
				}
			case "reason":
				if s, ok := r.Str(); ok {
					f.detail(s)
				}
			}
		}
	}
}

// metadata reads the data that a gateway passes on: "raw" is the error of the service to
// which the gateway forwarded the request, and "headers" are additional headers.
func (f *Failure) metadata(r *rawjson.Reader) {
	for r.Object(); r.Next(); {
		switch r.Key() {
		case "headers":
			f.headers(r)
		case "raw", "provider_name", "error_type":
			if s, ok := r.Str(); ok && s != "" {
				f.detail(s)
			}
		}
	}
}

// detail stores an additional text. The number of texts is limited, because a malicious
// service may send thousands.
func (f *Failure) detail(s string) {
	if len(f.Details) < maxDetails {
		f.Details = append(f.Details, runes.Shorten(s, maxErrorText))
	}
}

// headers takes headers that a gateway puts into the body of an error, such as Retry-After.
func (f *Failure) headers(r *rawjson.Reader) {
	more := http.Header{}
	for r.Object(); r.Next(); {
		if s, ok := r.Str(); ok && len(more) < maxDetails {
			more.Set(r.Key(), runes.Shorten(s, maxErrorKind))
		}
	}
	maps.Copy(more, f.Header) // real headers take precedence
	f.Header = more
}

// plainBody returns the part of an error body that is useful to a reader, if the body is
// not JSON.
func plainBody(body, contentType string) string {
	text := strings.TrimSpace(body)
	if text == "" {
		return "empty answer"
	}
	if strings.Contains(contentType, "html") || strings.HasPrefix(text, "<") {
		lower := strings.ToLower(text)
		if slices.ContainsFunc(loginWords, func(w string) bool { return strings.Contains(lower, w) }) {
			return "answered with " + loginPage + " instead of JSON: is the base URL right?"
		}
		return "answered with a web page instead of JSON: is the base URL right?"
	}
	return text
}

const loginPage = "a page to log in"

// loginWords occur in login pages.
var loginWords = []string{`type="password"`, `type='password'`, "log in", "login", "sign in",
	"signin", "single sign-on"}

// Refuse returns the error for a response whose status is success, but whose content is
// not a message of the service. The error is an [aycoder.OverloadedError] if the text
// suggests a temporary failure. Most others are an [aycoder.BadRequestError], which is
// not retried, because the same request would usually have the same result.
func (k *Call) Refuse(data []byte) error {
	return k.fail(ParseFailure(bytes.TrimSpace(data), nil), func(base *aycoder.ModelError) error {
		text := strings.ToLower(base.Err.Error())
		if slices.ContainsFunc(passing, func(w string) bool { return strings.Contains(text, w) }) {
			return &aycoder.OverloadedError{ModelError: base}
		}
		return &aycoder.BadRequestError{ModelError: base}
	})
}

// passing are words that suggest a temporary failure.
var passing = []string{"internal server error", "internal error", "overloaded", "temporarily",
	"try again", "unavailable", "timed out", "timeout", "bad gateway", "at capacity"}

// Fail converts an error of the service to the error type of package aycoder for its
// kind.
func (k *Call) Fail(f Failure) error {
	return k.fail(f, func(base *aycoder.ModelError) error {
		if k.Status == 0 { // inside of a stream, of a kind that says nothing
			return &aycoder.StreamBrokenError{ModelError: base, After: k.Elapsed()}
		}
		return base
	})
}

// fail is Fail with a function that returns the error for a failure of an unknown class.
func (k *Call) fail(f Failure, unknown func(*aycoder.ModelError) error) error {
	c := k.x.Config
	k.RequestID = cmp.Or(k.RequestID, c.Show(f.RequestID, maxID))
	msg := f.Message
	for _, d := range f.Details {
		if !strings.Contains(msg, d) {
			msg = strings.TrimPrefix(msg+": "+d, ": ")
		}
	}
	kind := c.Show(f.Kind(), maxErrorKind)
	msg = c.Show(cmp.Or(msg, kind, http.StatusText(k.Status)), maxErrorText)
	base := k.Base(kind, errors.New(msg))
	wait := cmp.Or(retryAfter(f.Header), f.RetryAfter, waitIn(msg))
	switch classify(&f, k.Status) {
	case contextTooLarge:
		actual, limit := sizes(f.Message + " " + strings.Join(f.Details, " "))
		if f.Max > 0 && f.Actual > f.Max {
			actual, limit = f.Actual, f.Max
		}
		return &aycoder.ContextTooLargeError{ModelError: base, Actual: actual, Max: limit}
	case rateLimited:
		return &aycoder.RateLimitError{ModelError: base,
			RetryAfter: wait, ResetAt: resetAt(f.Header, time.Now())}
	case overloaded:
		if f.Header.Get("X-Should-Retry") == "false" {
			return base
		}
		return &aycoder.OverloadedError{ModelError: base, RetryAfter: wait}
	case unauthorised:
		return &aycoder.AuthError{ModelError: base}
	case unknownModel:
		return &aycoder.UnknownModelError{ModelError: base}
	case refused:
		return &aycoder.RefusalError{ModelError: base}
	case timedOut:
		return &aycoder.TimeoutError{ModelError: base, Elapsed: k.Elapsed()}
	case badRequest:
		return &aycoder.BadRequestError{ModelError: base}
	}
	return unknown(base)
}

// unauthorised returns the error for a token source that did not return a usable token.
func (k *Call) unauthorised(err error) error {
	if k.ctx.Err() != nil {
		return k.Base("", cancelled(k.ctx))
	}
	return &aycoder.AuthError{ModelError: k.Base("", k.shown(err))}
}
