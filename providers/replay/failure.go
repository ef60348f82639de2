package replay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"reflect"
	"strings"
	"time"

	"github.com/aycoder/aycoder"
)

// Errors of a recording. A program that retries, or tells its user what to do, asks errors
// for their types and fields. So these come back; messages alone would play another
// program.

// maxCauses is the maximum depth of wrapped errors.
const maxCauses = 16

// A failure is an error as JSON. Model errors keep their type and fields. Other errors
// keep their text, whether they are a timeout, and whether they are a well-known value.
type failure struct {
	Type string `json:"type"`
	Text string `json:"text,omitempty"`

	Provider  string `json:"provider,omitempty"`
	Model     string `json:"model,omitempty"`
	RequestID string `json:"request_id,omitempty"`
	Status    int    `json:"status,omitempty"`
	Kind      string `json:"kind,omitempty"`
	NoBase    bool   `json:"no_base,omitempty"` // the error does not contain a ModelError

	RetryAfter time.Duration `json:"retry_after_ns,omitempty"`
	ResetAt    time.Time     `json:"reset_at,omitzero"`
	Available  []string      `json:"available,omitempty"`
	Actual     int64         `json:"actual,omitempty"`
	Max        int64         `json:"max,omitempty"`
	Elapsed    time.Duration `json:"elapsed_ns,omitempty"`
	Limit      string        `json:"limit,omitempty"`

	Timeout bool     `json:"timeout,omitempty"`
	Is      []string `json:"is,omitempty"`

	Cause *failure `json:"cause,omitempty"`
}

// The types of a failure.
const (
	failRateLimit  = "rate_limit"
	failOverloaded = "overloaded"
	failAuth       = "auth"
	failNoModel    = "unknown_model"
	failTooLarge   = "context_too_large"
	failBadRequest = "bad_request"
	failRefusal    = "refusal"
	failTimeout    = "timeout"
	failBroken     = "stream_broken"
	failModel      = "model"
	failLimit      = "limit"
	failWraps      = "wraps" // adds text around its cause
	failOther      = "other"
)

// A known error is compared by value.
type known struct {
	name string
	err  error
}

// knownErrors are errors that programs compare with errors.Is, so they have to come back as
// themselves.
func knownErrors() []known {
	return []known{
		{"canceled", context.Canceled}, {"deadline_exceeded", context.DeadlineExceeded},
		{"unexpected_eof", io.ErrUnexpectedEOF}, {"eof", io.EOF}, {"closed_pipe", io.ErrClosedPipe},
		{"net_closed", net.ErrClosed}, {"consumed", aycoder.ErrConsumed},
	}
}

// encodeError returns the failure of an error, or nil.
func encodeError(err error) *failure { return encodeCause(err, 0) }

// encodeCause describes an error by what a program can observe: the type and the fields of a
// model error, the text, whether it is a timeout, and which sentinels it matches. A model
// error that is wrapped by another keeps the text around it. The depth is limited, because
// an Unwrap method of foreign code may return its receiver.
func encodeCause(err error, depth int) *failure {
	if err == nil {
		return nil
	}
	if v := reflect.ValueOf(err); v.Kind() == reflect.Pointer && v.IsNil() {
		return &failure{Type: failOther, Text: fmt.Sprintf("nil %T", err)}
	}
	if f, base := typed(err); f != nil {
		f.setBase(base, depth)
		return f
	}
	if inner := typedIn(err); inner != nil && depth < maxCauses {
		return &failure{Type: failWraps, Text: err.Error(), Cause: encodeCause(inner, depth+1)}
	}
	f := &failure{Type: failOther, Text: err.Error()}
	if t, ok := errors.AsType[interface {
		error
		Timeout() bool
	}](err); ok {
		f.Timeout = t.Timeout()
	}
	for _, k := range knownErrors() {
		if errors.Is(err, k.err) {
			f.Is = append(f.Is, k.name)
		}
	}
	return f
}

// typed returns the failure of an error that is itself a model error, and its base.
func typed(err error) (*failure, *aycoder.ModelError) {
	switch e := err.(type) {
	case *aycoder.RateLimitError:
		return &failure{Type: failRateLimit, RetryAfter: e.RetryAfter, ResetAt: e.ResetAt}, e.ModelError
	case *aycoder.OverloadedError:
		return &failure{Type: failOverloaded, RetryAfter: e.RetryAfter}, e.ModelError
	case *aycoder.AuthError:
		return &failure{Type: failAuth}, e.ModelError
	case *aycoder.UnknownModelError:
		return &failure{Type: failNoModel, Available: e.Available}, e.ModelError
	case *aycoder.ContextTooLargeError:
		return &failure{Type: failTooLarge, Actual: e.Actual, Max: e.Max}, e.ModelError
	case *aycoder.BadRequestError:
		return &failure{Type: failBadRequest}, e.ModelError
	case *aycoder.RefusalError:
		return &failure{Type: failRefusal}, e.ModelError
	case *aycoder.TimeoutError:
		return &failure{Type: failTimeout, Elapsed: e.Elapsed}, e.ModelError
	case *aycoder.StreamBrokenError:
		return &failure{Type: failBroken, Elapsed: e.After}, e.ModelError
	case *aycoder.ModelError:
		return &failure{Type: failModel}, e
	case *aycoder.LimitError:
		return &failure{Type: failLimit, Limit: e.Limit, Max: e.Max}, nil
	}
	return nil, nil
}

// setBase keeps the fields that errors of models share. Causes are kept to a depth, since a
// chain of them may be circular.
func (f *failure) setBase(e *aycoder.ModelError, depth int) {
	if e == nil {
		f.NoBase = true
		return
	}
	f.Provider, f.Model, f.RequestID, f.Status, f.Kind = e.Provider, e.Model, e.RequestID, e.Status, e.Kind
	switch {
	case e.Err != nil && depth >= maxCauses:
		f.Cause = &failure{Type: failOther, Text: e.Err.Error()}
	case e.Err != nil:
		f.Cause = encodeCause(e.Err, depth+1)
	}
}

// typedIn finds the outermost model error inside of err.
func typedIn(err error) error {
	if f, _ := typed(err); f != nil {
		return err
	}
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		if inner := e.Unwrap(); inner != nil {
			return typedIn(inner)
		}
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			if found := typedIn(inner); found != nil {
				return found
			}
		}
	}
	return nil
}

// check validates a failure that was read.
func (f *failure) check(depth int) error {
	switch {
	case f == nil && depth == 0:
		return errors.New("the error is missing")
	case f == nil:
		return nil
	case depth > 2*maxCauses:
		return errors.New("errors are nested too deep")
	case f.Type == failWraps && f.Cause == nil:
		return errors.New("the cause is missing")
	case f.Type != failWraps && f.Type != failOther && f.typed() == nil:
		return fmt.Errorf("no such error: %q", f.Type)
	}
	return f.Cause.check(depth + 1)
}

// err converts a failure back to an error.
func (f *failure) err() error {
	switch {
	case f == nil:
		return nil
	case f.Type == failWraps:
		return &recordedError{text: f.Text, errs: []error{f.Cause.err()}}
	case f.Type == failOther:
		e := &recordedError{text: f.Text, timeout: f.Timeout}
		for _, k := range knownErrors() {
			for _, name := range f.Is {
				if name == k.name {
					e.errs = append(e.errs, k.err)
				}
			}
		}
		return e
	}
	return f.typed()
}

// typed returns the model error, or nil if the failure is another error.
func (f *failure) typed() error {
	base := f.base()
	switch f.Type {
	case failRateLimit:
		return &aycoder.RateLimitError{ModelError: base,
			RetryAfter: f.RetryAfter, ResetAt: f.ResetAt}
	case failOverloaded:
		return &aycoder.OverloadedError{ModelError: base, RetryAfter: f.RetryAfter}
	case failAuth:
		return &aycoder.AuthError{ModelError: base}
	case failNoModel:
		return &aycoder.UnknownModelError{ModelError: base, Available: f.Available}
	case failTooLarge:
		return &aycoder.ContextTooLargeError{ModelError: base, Actual: f.Actual, Max: f.Max}
	case failBadRequest:
		return &aycoder.BadRequestError{ModelError: base}
	case failRefusal:
		return &aycoder.RefusalError{ModelError: base}
	case failTimeout:
		return &aycoder.TimeoutError{ModelError: base, Elapsed: f.Elapsed}
	case failBroken:
		return &aycoder.StreamBrokenError{ModelError: base, After: f.Elapsed}
	case failModel:
		if base == nil {
			base = &aycoder.ModelError{}
		}
		return base
	case failLimit:
		return &aycoder.LimitError{Limit: f.Limit, Max: f.Max}
	}
	return nil
}

func (f *failure) base() *aycoder.ModelError {
	if f.NoBase {
		return nil
	}
	return &aycoder.ModelError{Provider: f.Provider, Model: f.Model, RequestID: f.RequestID, Status: f.Status,
		Kind: f.Kind, Err: f.Cause.err()}
}

// clean returns a copy in which the function was applied to all texts.
func (f *failure) clean(text func(string) string) *failure {
	if f == nil {
		return nil
	}
	c := *f
	for _, s := range []*string{&c.Text, &c.Provider, &c.Model, &c.RequestID, &c.Kind, &c.Limit} {
		*s = text(strings.ToValidUTF8(*s, "\uFFFD"))
	}
	c.Available = nil
	for _, s := range f.Available {
		c.Available = append(c.Available, text(s))
	}
	c.Cause = f.Cause.clean(text)
	return &c
}

// A recordedError stands for an error whose type is unknown here. It is a [net.Error].
type recordedError struct {
	text    string
	timeout bool
	errs    []error
}

func (e *recordedError) Error() string   { return e.text }
func (e *recordedError) Unwrap() []error { return e.errs }
func (e *recordedError) Timeout() bool   { return e.timeout }
func (e *recordedError) Temporary() bool { return e.timeout }
