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

// Failure is what a service says went wrong, in whatever words. All fields may be
// empty.
type Failure struct {
	// Type and Code are the service's words for the error, Status is its name for a
	// status ("RESOURCE_EXHAUSTED") or a number in a text.
	Type, Code, Status string
	// Message is for people. Details are further texts, such as what a service behind
	// the service said.
	Message string
	Details []string
	// RequestID is in some bodies.
	RequestID string
	// RetryAfter is how long the body says to wait.
	RetryAfter time.Duration
	// Header is that of the response, nil inside of a stream.
	Header http.Header

	at map[*string]int // while it is parsed: how many envelopes a text is in
}

// Kind is the most telling of the service's words.
func (f *Failure) Kind() string {
	for _, w := range []string{f.Type, f.Code, f.Status} {
		if _, err := strconv.Atoi(w); w != "" && err != nil {
			return w
		}
	}
	return cmp.Or(f.Code, f.Status)
}

// ParseFailure takes the body of an error answer apart, or the data of an event, in
// any of the shapes that services use.
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

// maxWrapped is how many envelopes are opened.
const maxWrapped = 6

// parse reads an error or an envelope around one. What is further in says more.
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

func (f *Failure) field(r *rawjson.Reader, depth int) {
	switch r.Key() {
	case "error", "errors", "response", "detail", "body", "base_resp":
		f.parse(r, depth+1)
	case "message", "msg", "error_message", "error_description", "title", "status_msg":
		f.text(r, &f.Message, depth)
	case "type", "__type":
		f.word(r, &f.Type, depth)
	case "code":
		f.word(r, &f.Code, depth)
	case "status", "statusCode", "status_code":
		f.word(r, &f.Status, depth)
	case "request_id", "requestId":
		f.word(r, &f.RequestID, depth)
	case "details":
		f.details(r)
	case "metadata":
		f.metadata(r)
	}
}

// text reads a message, which some services make an object or a list of.
func (f *Failure) text(r *rawjson.Reader, to *string, depth int) {
	if r.Kind() == '"' {
		f.word(r, to, depth)
		return
	}
	f.parse(r, depth+1)
}

// word reads a word or a number. A word wins over one of an envelope further out,
// whichever comes first, and over a number.
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

func (f *Failure) keep(to *string, depth int) {
	if f.at == nil {
		f.at = map[*string]int{}
	}
	f.at[to] = depth
}

// details reads Google's: "retryDelay" in a RetryInfo, "reason" in an ErrorInfo.
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

// metadata reads what a gateway passes on: "raw" is what the service behind it said,
// "headers" are more headers.
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

// detail keeps a further text. A service has a few to say; one that means harm has
// thousands.
func (f *Failure) detail(s string) {
	if len(f.Details) < maxDetails {
		f.Details = append(f.Details, runes.Shorten(s, maxErrorText))
	}
}

func (f *Failure) headers(r *rawjson.Reader) {
	more := http.Header{}
	for r.Object(); r.Next(); {
		if s, ok := r.Str(); ok && len(more) < maxDetails {
			more.Set(r.Key(), runes.Shorten(s, maxErrorKind))
		}
	}
	maps.Copy(more, f.Header) // what came as a header says more
	f.Header = more
}

// plainBody is what can be shown of an error body that is no JSON.
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

// loginWords are in pages that ask who one is.
var loginWords = []string{`type="password"`, `type='password'`, "log in", "login", "sign in", "signin", "single sign-on"}

// Refuse turns an answer with the status of a success that is none of the service's
// messages into an error: what it says went wrong, in whatever words. Asking again gives
// the same mostly, and so helps only where the words say so.
func (k *Call) Refuse(data []byte) error {
	return k.fail(ParseFailure(bytes.TrimSpace(data), nil), func(base *aycoder.ModelError) error {
		text := strings.ToLower(base.Err.Error())
		if slices.ContainsFunc(passing, func(w string) bool { return strings.Contains(text, w) }) {
			return &aycoder.OverloadedError{ModelError: base}
		}
		return &aycoder.BadRequestError{ModelError: base}
	})
}

// passing are words for what may be over soon.
var passing = []string{"internal server error", "internal error", "overloaded", "temporarily", "try again", "unavailable",
	"timed out", "timeout", "bad gateway", "at capacity"}

// Fail turns what a service says into the error that says what to do about it.
func (k *Call) Fail(f Failure) error {
	return k.fail(f, func(base *aycoder.ModelError) error {
		if k.Status == 0 { // inside of a stream, of a kind that says nothing
			return &aycoder.StreamBrokenError{ModelError: base, After: k.Elapsed()}
		}
		return base
	})
}

// fail is Fail with what is said of an error of no known class.
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
		return &aycoder.ContextTooLargeError{ModelError: base, Actual: actual, Max: limit}
	case rateLimited:
		return &aycoder.RateLimitError{ModelError: base, RetryAfter: wait, ResetAt: resetAt(f.Header, time.Now())}
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
		return &aycoder.TimeoutError{ModelError: base, Elapsed: time.Since(k.start)}
	case badRequest:
		return &aycoder.BadRequestError{ModelError: base}
	}
	return unknown(base)
}
