package aycoder

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// ErrConsumed is yielded by a sequence when it is ranged over for the second time.
var ErrConsumed = errors.New("sequence already consumed: call Run again")

// ErrDecided is returned if an approval is already decided: by the user, a rule or a
// timeout, or because the run ended.
var ErrDecided = errors.New("already decided")

var errNoMessageDone = errors.New("stream ended before the message was complete")

// ModelError reports that a model did not answer. It is the base of more specific
// errors, which all unwrap to it:
//
//	if e, ok := errors.AsType[*aycoder.RateLimitError](err); ok { wait(e.RetryAfter) }
//	if e, ok := errors.AsType[*aycoder.ModelError](err); ok { log(e.RequestID) }
//
// It never contains an API key.
type ModelError struct {
	// Provider and Model name the model that was asked.
	Provider, Model string
	// RequestID is the provider's id of the request, for its support.
	RequestID string
	// Status is the HTTP status, or 0.
	Status int
	// Kind is the provider's own name of the error, such as "overloaded_error".
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

// base returns e as the base of another error, or nil if that has none.
func (e *ModelError) base() error {
	if e == nil {
		return nil
	}
	return e
}

// describe returns the error text: the model, what happened, status and request id, then the cause.
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

// RateLimitError reports that the provider wants fewer requests or tokens: HTTP status 429.
// A run waits as long as the provider asks, and asks again.
type RateLimitError struct {
	*ModelError
	// RetryAfter is how long the provider asked to wait, or 0 if it did not say.
	RetryAfter time.Duration
	// ResetAt is the time at which the limit is reset, zero if unknown.
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

// OverloadedError reports that the provider has no capacity or an internal error, such
// as the HTTP statuses 500, 502, 503 and 529. Trying again later helps.
type OverloadedError struct {
	*ModelError
	// RetryAfter is how long the provider asked to wait, or 0 if it did not say.
	RetryAfter time.Duration
}

// Error implements error.
func (e *OverloadedError) Error() string { return e.describe("overloaded") }

// Unwrap returns the base.
func (e *OverloadedError) Unwrap() error { return e.ModelError.base() }

// AuthError reports that the API key is missing, wrong or not allowed to do this. A run
// fails at once, as the same key would fail again.
type AuthError struct{ *ModelError }

// Error implements error.
func (e *AuthError) Error() string { return e.describe("not authorised") }

// Unwrap returns the base.
func (e *AuthError) Unwrap() error { return e.ModelError.base() }

// UnknownModelError reports that the provider does not have the model, or does not have it
// for the owner of this key.
type UnknownModelError struct {
	*ModelError
	// Available are the models that the provider has, if known.
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

// ContextTooLargeError reports that the request is larger than the model's context. A run
// leaves out old messages and asks again.
type ContextTooLargeError struct {
	*ModelError
	// Actual is the size of the request and Max what the model takes, in tokens, or 0 if
	// the provider did not say. They decide how much the next request leaves out.
	Actual, Max int64
}

// Error implements error.
func (e *ContextTooLargeError) Error() string { return e.describe("context too large") }

// Unwrap returns the base.
func (e *ContextTooLargeError) Unwrap() error { return e.ModelError.base() }

// BadRequestError reports that the provider refused the request as malformed. It would
// refuse it again, so a run fails at once.
type BadRequestError struct{ *ModelError }

// Error implements error.
func (e *BadRequestError) Error() string { return e.describe("bad request") }

// Unwrap returns the base.
func (e *BadRequestError) Unwrap() error { return e.ModelError.base() }

// RefusalError reports that the model, or a filter before it, refused to answer. A
// client yields it if the service refuses the request; then the run ends with EndFailed.
// For an answer that ends in a refusal a client yields a [MessageDone] with
// [StopRefusal], and the run ends with EndRefused and this error.
type RefusalError struct{ *ModelError }

// Error implements error.
func (e *RefusalError) Error() string { return e.describe("refused to answer") }

// Unwrap returns the base.
func (e *RefusalError) Unwrap() error { return e.ModelError.base() }

// TimeoutError reports that the provider sent nothing for longer than the client waits. A
// run asks again, within its budget.
type TimeoutError struct {
	*ModelError
	// Elapsed is how long the client waited.
	Elapsed time.Duration
}

// Error implements error.
func (e *TimeoutError) Error() string {
	return e.describe(fmt.Sprintf("no answer for %s", e.Elapsed.Round(time.Millisecond)))
}

// Unwrap returns the base.
func (e *TimeoutError) Unwrap() error { return e.ModelError.base() }

// Timeout returns true, for code that looks for a net.Error.
func (e *TimeoutError) Timeout() bool { return true }

// StreamBrokenError reports that there was no connection or that it was lost, or that the
// stream ended or became invalid, before the message was complete.
type StreamBrokenError struct {
	*ModelError
	// After is how long the stream had lasted.
	After time.Duration
}

// Error implements error.
func (e *StreamBrokenError) Error() string { return e.describe("connection lost") }

// Unwrap returns the base.
func (e *StreamBrokenError) Unwrap() error { return e.ModelError.base() }

// ToolError reports that a tool call failed. Such an error never ends a run: the model
// reads it as the output of the call, and the host gets it in [ToolFinished]. It is the
// base of more specific errors.
type ToolError struct {
	// Tool and CallID identify the call.
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

// ToolNotFoundError reports that the model called a tool that does not exist. It reads the
// names of those that do.
type ToolNotFoundError struct {
	*ToolError
	// Available are the names of all tools, the most similar first.
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

// ToolArgsError reports that the arguments of a call do not match the tool's schema, so the
// tool was not called.
type ToolArgsError struct {
	*ToolError
	// Problems lists everything that is wrong, each with its path: `/path: required`.
	Problems []string
}

// Error implements error.
func (e *ToolArgsError) Error() string {
	return e.describe("invalid arguments: " + strings.Join(e.Problems, "; "))
}

// Unwrap returns the base.
func (e *ToolArgsError) Unwrap() error { return e.ToolError.base() }

// ToolDeniedError reports that a call was not allowed, so the tool was not called. The model
// reads the reason.
type ToolDeniedError struct {
	*ToolError
	// Reason is the reason that the model reads, By says who decided.
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

// ToolPanicError reports that a tool panicked. The loop recovers the panic, and the run goes
// on without the result.
type ToolPanicError struct {
	*ToolError
	Value any
	// Stack is the stack trace, for the log. The model does not see it.
	Stack []byte
}

// Error implements error.
func (e *ToolPanicError) Error() string { return e.describe(fmt.Sprintf("panic: %v", e.Value)) }

// Unwrap returns the base.
func (e *ToolPanicError) Unwrap() error { return e.ToolError.base() }

// ToolTimeoutError reports that a tool took longer than it may, and was stopped by its
// context. Its effects up to then remain.
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

// ToolCancelledError reports that a call was stopped with its run. Its effects up to then remain.
type ToolCancelledError struct {
	*ToolError
	// Abandoned says that the tool had not stopped when [Limits].Grace was over. Nobody
	// learns its outcome any more. If it is false, the tool returned the error Err, and
	// the model reads that too, unless it is just the error of the context.
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

// StaleApprovalError reports that a command was not run because it would no longer do what was
// shown when it was approved, for example because its working directory is a different one now.
type StaleApprovalError struct{ *ToolError }

// Error implements error.
func (e *StaleApprovalError) Error() string {
	return e.describe("not run, as what it would do has changed since it was approved; make the call again")
}

// Unwrap returns the base.
func (e *StaleApprovalError) Unwrap() error { return e.ToolError.base() }

// ContextError reports that a request could not be built from the history, or that it is
// not valid. It ends the run.
type ContextError struct {
	// Op is the operation, such as "build request" or "check history".
	Op  string
	Err error
}

// Error implements error.
func (e *ContextError) Error() string { return e.Op + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *ContextError) Unwrap() error { return e.Err }

// ConfigError reports that an option or an input is wrong. It is the caller's mistake, so
// nothing was asked of a model or a tool.
type ConfigError struct {
	// Option names the option or the field, such as "WithTools".
	Option string
	Err    error
}

// Error implements error.
func (e *ConfigError) Error() string { return e.Option + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *ConfigError) Unwrap() error { return e.Err }

// LimitError reports that a limit was reached. Everything done until then is kept, and
// the conversation can go on.
type LimitError struct {
	// Limit names the limit for people, with its unit: "turns", "response bytes". A
	// program sees in [Result.End] that a run has reached its limit of turns: [EndTurns].
	Limit string
	Max   int64
}

// Error implements error.
func (e *LimitError) Error() string { return fmt.Sprintf("limit of %d %s reached", e.Max, e.Limit) }

type fatalError struct{ err error }

func (e *fatalError) Error() string { return e.err.Error() }

func (e *fatalError) Unwrap() error { return e.err }

// Fatal marks an error of a tool as one that ends the run, such as a full disk or a lost
// container. No other error of a tool does. The call still gets an output. Fatal(nil) is nil.
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
