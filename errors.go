package aycoder

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// ErrConsumed is yielded by a sequence that is ranged over a second time.
var ErrConsumed = errors.New("sequence already consumed: call Run again")

// ErrDecided is returned where an approval was answered already: by the user, a
// rule, a timeout, or because the run ended.
var ErrDecided = errors.New("already decided")

var errNoMessageDone = errors.New("stream ended before the message was complete")

// ModelError says that a model did not answer. It is the base of the errors that
// say why; all of them unwrap to it:
//
//	if e, ok := errors.AsType[*aycoder.RateLimitError](err); ok { wait(e.RetryAfter) }
//	if e, ok := errors.AsType[*aycoder.ModelError](err); ok { log(e.RequestID) }
//
// No API key is ever part of it.
type ModelError struct {
	// Provider and Model were asked.
	Provider, Model string
	// RequestID is the provider's name for the request, for its support.
	RequestID string
	// Status is the HTTP status, or 0.
	Status int
	// Kind is the provider's own word for the error, such as "overloaded_error".
	Kind string
	// Err is the cause.
	Err error
}

// Error implements error.
func (e *ModelError) Error() string { return e.describe("") }

// Unwrap returns the cause.
func (e *ModelError) Unwrap() error {
	if e == nil {
		return nil
	}
	return e.Err
}

// base is e as the base of another error, which may have none.
func (e *ModelError) base() error {
	if e == nil {
		return nil
	}
	return e
}

// describe says who, what, which status and request, then the cause.
func (e *ModelError) describe(what string) string {
	if e == nil {
		e = &ModelError{}
	}
	var b strings.Builder
	if e.Provider != "" {
		b.WriteString(e.Provider)
	} else {
		b.WriteString("model")
	}
	if e.Model != "" {
		b.WriteString(" " + e.Model)
	}
	b.WriteString(":")
	if what != "" {
		b.WriteString(" " + what)
	}
	var in []string
	if e.Status != 0 {
		in = append(in, fmt.Sprintf("status %d", e.Status))
	}
	if e.RequestID != "" {
		in = append(in, "request "+e.RequestID)
	}
	if len(in) > 0 {
		b.WriteString(" (" + strings.Join(in, ", ") + ")")
	}
	if e.Err != nil {
		if what != "" || len(in) > 0 {
			b.WriteString(":")
		}
		b.WriteString(" " + e.Err.Error())
	}
	return b.String()
}

// RateLimitError says that the provider wants fewer requests or tokens.
type RateLimitError struct {
	*ModelError
	// RetryAfter is how long the provider asked to wait, 0 if it did not say.
	RetryAfter time.Duration
	// ResetAt is when the limit that was hit is full again, zero if unknown.
	ResetAt time.Time
}

// Error implements error.
func (e *RateLimitError) Error() string {
	s := e.describe("rate limited")
	if e.RetryAfter > 0 {
		s += fmt.Sprintf("; retry after %s", e.RetryAfter)
	}
	return s
}

// Unwrap returns the base.
func (e *RateLimitError) Unwrap() error { return e.ModelError.base() }

// OverloadedError says that the provider has no capacity or broke inside: HTTP
// 500, 502, 503, 504, 529. Trying again later helps.
type OverloadedError struct {
	*ModelError
	RetryAfter time.Duration
}

// Error implements error.
func (e *OverloadedError) Error() string { return e.describe("overloaded") }

// Unwrap returns the base.
func (e *OverloadedError) Unwrap() error { return e.ModelError.base() }

// AuthError says that the key is missing, wrong or not allowed to do this.
type AuthError struct{ *ModelError }

// Error implements error.
func (e *AuthError) Error() string { return e.describe("not authorised") }

// Unwrap returns the base.
func (e *AuthError) Unwrap() error { return e.ModelError.base() }

// UnknownModelError says that the provider has no such model.
type UnknownModelError struct {
	*ModelError
	// Available are models the provider has, if it is known.
	Available []string
}

// Error implements error.
func (e *UnknownModelError) Error() string {
	s := e.describe("unknown model")
	if len(e.Available) > 0 {
		s += "; known: " + strings.Join(e.Available, ", ")
	}
	return s
}

// Unwrap returns the base.
func (e *UnknownModelError) Unwrap() error { return e.ModelError.base() }

// ContextTooLargeError says that the request is larger than the model's context.
type ContextTooLargeError struct {
	*ModelError
	// Actual and Max are tokens, 0 if the provider did not say.
	Actual, Max int64
}

// Error implements error.
func (e *ContextTooLargeError) Error() string { return e.describe("context too large") }

// Unwrap returns the base.
func (e *ContextTooLargeError) Unwrap() error { return e.ModelError.base() }

// BadRequestError says that the provider refused the request as malformed.
type BadRequestError struct{ *ModelError }

// Error implements error.
func (e *BadRequestError) Error() string { return e.describe("bad request") }

// Unwrap returns the base.
func (e *BadRequestError) Unwrap() error { return e.ModelError.base() }

// RefusalError says that the model, or a filter before it, refused to answer.
type RefusalError struct{ *ModelError }

// Error implements error.
func (e *RefusalError) Error() string { return e.describe("refused to answer") }

// Unwrap returns the base.
func (e *RefusalError) Unwrap() error { return e.ModelError.base() }

// TimeoutError says that nothing was heard from the provider for too long.
type TimeoutError struct {
	*ModelError
	Elapsed time.Duration
}

// Error implements error.
func (e *TimeoutError) Error() string {
	return e.describe(fmt.Sprintf("no answer for %s", e.Elapsed.Round(time.Millisecond)))
}

// Unwrap returns the base.
func (e *TimeoutError) Unwrap() error { return e.ModelError.base() }

// Timeout reports true, as net.Error does.
func (e *TimeoutError) Timeout() bool { return true }

// StreamBrokenError says that the connection was lost, or the stream ended or
// turned into nonsense, before the message was complete.
type StreamBrokenError struct {
	*ModelError
	// After is how long the stream lived.
	After time.Duration
}

// Error implements error.
func (e *StreamBrokenError) Error() string { return e.describe("connection lost") }

// Unwrap returns the base.
func (e *StreamBrokenError) Unwrap() error { return e.ModelError.base() }

// ToolError says that a tool call did not do what it was to do. Such an error
// never ends a run: it becomes an output that the model reads, and is handed to
// the host in [ToolFinished]. It is the base of the errors that say why.
type ToolError struct {
	// Tool and CallID say which call it was.
	Tool, CallID string
	// Err is the cause.
	Err error
}

// Error implements error.
func (e *ToolError) Error() string { return e.describe("") }

// Unwrap returns the cause.
func (e *ToolError) Unwrap() error {
	if e == nil {
		return nil
	}
	return e.Err
}

func (e *ToolError) base() error {
	if e == nil {
		return nil
	}
	return e
}

func (e *ToolError) describe(what string) string {
	if e == nil {
		e = &ToolError{}
	}
	s := "tool " + e.Tool
	if what != "" {
		s += ": " + what
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// ToolNotFoundError says that the model called a tool that does not exist.
type ToolNotFoundError struct {
	*ToolError
	// Available are the tools there are, the most similar first.
	Available []string
}

// Error implements error.
func (e *ToolNotFoundError) Error() string {
	s := e.describe("no such tool")
	if len(e.Available) > 0 {
		s += "; there are " + strings.Join(e.Available, ", ")
	}
	return s
}

// Unwrap returns the base.
func (e *ToolNotFoundError) Unwrap() error { return e.ToolError.base() }

// ToolArgsError says that a call's arguments do not fit the tool's schema.
type ToolArgsError struct {
	*ToolError
	// Problems are all that is wrong, each with its path: `/path: required`.
	Problems []string
}

// Error implements error.
func (e *ToolArgsError) Error() string {
	return e.describe("invalid arguments: " + strings.Join(e.Problems, "; "))
}

// Unwrap returns the base.
func (e *ToolArgsError) Unwrap() error { return e.ToolError.base() }

// ToolDeniedError says that a call was not allowed.
type ToolDeniedError struct {
	*ToolError
	// Reason is what the model was told, By who decided.
	Reason string
	By     DecidedBy
}

// Error implements error.
func (e *ToolDeniedError) Error() string {
	s := e.describe("denied by " + string(e.By))
	if e.Reason != "" {
		s += ": " + e.Reason
	}
	return s
}

// Unwrap returns the base.
func (e *ToolDeniedError) Unwrap() error { return e.ToolError.base() }

// ToolPanicError says that a tool panicked.
type ToolPanicError struct {
	*ToolError
	Value any
	// Stack is where, for the log. The model does not see it.
	Stack []byte
}

// Error implements error.
func (e *ToolPanicError) Error() string { return e.describe(fmt.Sprintf("panic: %v", e.Value)) }

// Unwrap returns the base.
func (e *ToolPanicError) Unwrap() error { return e.ToolError.base() }

// ToolTimeoutError says that a tool took longer than it may.
type ToolTimeoutError struct {
	*ToolError
	Elapsed time.Duration
}

// Error implements error.
func (e *ToolTimeoutError) Error() string {
	return e.describe(fmt.Sprintf("timed out after %s", e.Elapsed))
}

// Unwrap returns the base.
func (e *ToolTimeoutError) Unwrap() error { return e.ToolError.base() }

// ToolCancelledError says that a call was stopped with its run.
type ToolCancelledError struct {
	*ToolError
	// Abandoned says that the tool did not stop when its context was cancelled, so
	// that its outcome is unknown.
	Abandoned bool
}

// Error implements error.
func (e *ToolCancelledError) Error() string {
	if e.Abandoned {
		return e.describe("cancelled and abandoned: it did not stop")
	}
	return e.describe("cancelled")
}

// Unwrap returns the base.
func (e *ToolCancelledError) Unwrap() error { return e.ToolError.base() }

// StaleApprovalError says that a command was not run because it would not do what was
// shown when it was approved: the folder it starts in, say, is another by now.
type StaleApprovalError struct{ *ToolError }

// Error implements error.
func (e *StaleApprovalError) Error() string {
	return e.describe("not run, as what it would do has changed since it was approved; make the call again")
}

// Unwrap returns the base.
func (e *StaleApprovalError) Unwrap() error { return e.ToolError.base() }

// ContextError says that a request could not be built, or that the one that was
// built is not valid.
type ContextError struct {
	// Op is what was being done, such as "build request" or "check history".
	Op  string
	Err error
}

// Error implements error.
func (e *ContextError) Error() string { return e.Op + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *ContextError) Unwrap() error { return e.Err }

// ConfigError says that an option or an input is wrong.
type ConfigError struct {
	// Option is the option or the field, such as "WithTools".
	Option string
	Err    error
}

// Error implements error.
func (e *ConfigError) Error() string { return e.Option + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *ConfigError) Unwrap() error { return e.Err }

// LimitError says that a bound was reached. What was done until then is kept, and
// the conversation can go on.
type LimitError struct {
	// Limit names the bound: "turns", "response bytes".
	Limit string
	Max   int64
}

// Error implements error.
func (e *LimitError) Error() string { return fmt.Sprintf("limit of %d %s reached", e.Max, e.Limit) }

type fatalError struct{ err error }

func (e *fatalError) Error() string { return e.err.Error() }

func (e *fatalError) Unwrap() error { return e.err }

// Fatal marks an error that a tool returns as one that ends the run: a full disk,
// a lost container. It is the only way a tool ends a run. The call still gets an
// output. Fatal(nil) is nil.
func Fatal(err error) error {
	if err == nil {
		return nil
	}
	return &fatalError{err}
}

func isFatal(err error) bool {
	_, ok := errors.AsType[*fatalError](err)
	return ok
}
