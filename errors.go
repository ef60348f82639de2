package aycoder

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// ErrConsumed is the error of a sequence of events that is ranged over a second time. Such a
// sequence, as returned by [Loop.Run] and [ModelClient].Stream, is single-use.
var ErrConsumed = errors.New("sequence already consumed: call Run again")

// ErrDecided means that a question about a call is no longer open: the user, a rule or a timeout
// has answered it, or the run has ended. See [ApprovalRequested.AllowWith].
var ErrDecided = errors.New("already decided")

// ErrorType returns the name of the type of err, such as "RateLimitError", for logs and metrics: of
// the first error in its tree that is of an exported type of this package. It returns "" if there is
// none, or if a method of an error panics.
func ErrorType(err error) string {
	defer func() { _ = recover() }()
	for err != nil {
		name, ok := strings.CutPrefix(fmt.Sprintf("%T", err), "*aycoder.")
		if ok && name[0] < 'a' {
			return name
		}
		if several, ok := err.(interface{ Unwrap() []error }); ok {
			for _, e := range several.Unwrap() {
				if name := ErrorType(e); name != "" {
					return name
				}
			}
		}
		err = errors.Unwrap(err)
	}
	return ""
}

var errNoMessageDone = errors.New("stream ended before the message was complete")

// ModelError reports that a request to a model failed. The more specific errors, such as
// [*RateLimitError], embed a ModelError and unwrap to it, so a caller can test for either:
//
//	if e, ok := errors.AsType[*aycoder.RateLimitError](err); ok { wait(e.RetryAfter) }
//	if e, ok := errors.AsType[*aycoder.ModelError](err); ok { log(e.RequestID) }
//
// A ModelError never contains an API key.
type ModelError struct {
	// Provider and Model name the model that the request was for.
	Provider, Model string
	// RequestID is the provider's id of the request. The provider's support asks for this id.
	RequestID string
	// Status is the HTTP status code of the response, or 0 if there is none.
	Status int
	// Kind is the provider's own name for this kind of error, such as "overloaded_error".
	Kind string
	// Err is the cause of the error.
	Err error
}

// Error implements the error interface.
func (e *ModelError) Error() string { return e.describe("") }

// Unwrap returns e.Err.
func (e *ModelError) Unwrap() error {
	if e == nil {
		return nil
	}
	return e.Err
}

// base returns e as the base of a more specific error, or nil if that has none.
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

// RateLimitError reports that the client sent more requests or tokens than the provider allows,
// usually HTTP status 429. A run waits as long as the provider asks, and then retries.
type RateLimitError struct {
	*ModelError
	// RetryAfter is how long the provider asked the client to wait, or 0 if it named no time.
	RetryAfter time.Duration
	// ResetAt is the time at which the provider resets the limit, or the zero time if unknown.
	ResetAt time.Time
}

// Error implements the error interface.
func (e *RateLimitError) Error() string {
	s := e.describe("rate limited")
	if e.RetryAfter > 0 {
		s += fmt.Sprintf("; retry after %s", e.RetryAfter)
	}
	return s
}

// Unwrap returns the embedded ModelError.
func (e *RateLimitError) Unwrap() error { return e.ModelError.base() }

// OverloadedError reports that the provider has no capacity or had an internal error, such as the
// HTTP statuses 500, 502, 503 and 529. A run retries, because the same request may succeed later.
type OverloadedError struct {
	*ModelError
	// RetryAfter is how long the provider asked the client to wait, or 0 if it named no time.
	RetryAfter time.Duration
}

// Error implements the error interface.
func (e *OverloadedError) Error() string { return e.describe("overloaded") }

// Unwrap returns the embedded ModelError.
func (e *OverloadedError) Unwrap() error { return e.ModelError.base() }

// AuthError reports that the API key is missing, is wrong, or does not permit the request. A run
// fails at once, because a retry with the same key would fail as well.
type AuthError struct{ *ModelError }

// Error implements the error interface.
func (e *AuthError) Error() string { return e.describe("not authorised") }

// Unwrap returns the embedded ModelError.
func (e *AuthError) Unwrap() error { return e.ModelError.base() }

// UnknownModelError reports that the provider does not have the requested model, or does not offer
// the model to the owner of the API key.
type UnknownModelError struct {
	*ModelError
	// Available are the names of the models that the provider has, or nil if they are unknown.
	Available []string
}

// Error implements the error interface.
func (e *UnknownModelError) Error() string {
	s := e.describe("unknown model")
	if len(e.Available) > 0 {
		s += "; known: " + strings.Join(e.Available, ", ")
	}
	return s
}

// Unwrap returns the embedded ModelError.
func (e *UnknownModelError) Unwrap() error { return e.ModelError.base() }

// ContextTooLargeError reports that the request has more tokens than the model's context can hold.
// A run then sends a smaller request, in which old messages are left out or shortened.
type ContextTooLargeError struct {
	*ModelError
	// Actual is the number of tokens in the request, and Max is the number that the model accepts.
	// Each is 0 if the provider did not say. Both decide how much smaller the next request is.
	Actual, Max int64
}

// Error implements the error interface.
func (e *ContextTooLargeError) Error() string { return e.describe("context too large") }

// Unwrap returns the embedded ModelError.
func (e *ContextTooLargeError) Unwrap() error { return e.ModelError.base() }

// BadRequestError reports that the provider rejected the request as malformed. A run fails at
// once, because the provider would reject the same request again.
type BadRequestError struct{ *ModelError }

// Error implements the error interface.
func (e *BadRequestError) Error() string { return e.describe("bad request") }

// Unwrap returns the embedded ModelError.
func (e *BadRequestError) Unwrap() error { return e.ModelError.base() }

// RefusalError reports that the model, or a filter of the provider, refused to answer. A run
// yields it in two cases. If the service refuses the request, the client yields the RefusalError,
// and the run ends with [EndFailed]. If an answer ends in a refusal, the client yields a
// [MessageDone] with [StopRefusal] and no error, and the run ends with [EndRefused].
type RefusalError struct{ *ModelError }

// Error implements the error interface.
func (e *RefusalError) Error() string { return e.describe("refused to answer") }

// Unwrap returns the embedded ModelError.
func (e *RefusalError) Unwrap() error { return e.ModelError.base() }

// TimeoutError reports that the provider did not answer in time: it sent nothing for longer than
// the client waits, or reported a timeout itself. A run retries within [RetryPolicy].Budget.
type TimeoutError struct {
	*ModelError
	// Elapsed is how long the client waited before it gave up.
	Elapsed time.Duration
}

// Error implements the error interface.
func (e *TimeoutError) Error() string {
	return e.describe(fmt.Sprintf("no answer for %s", e.Elapsed.Round(time.Millisecond)))
}

// Unwrap returns the embedded ModelError.
func (e *TimeoutError) Unwrap() error { return e.ModelError.base() }

// Timeout returns true. The function os.IsTimeout and similar checks call this method.
func (e *TimeoutError) Timeout() bool { return true }

// StreamBrokenError reports that a response did not arrive completely: the client could not
// connect or lost the connection, or the stream ended early or became invalid. A run retries.
type StreamBrokenError struct {
	*ModelError
	// After is the time from the start of the request to the failure.
	After time.Duration
}

// Error implements the error interface.
func (e *StreamBrokenError) Error() string { return e.describe("connection lost") }

// Unwrap returns the embedded ModelError.
func (e *StreamBrokenError) Unwrap() error { return e.ModelError.base() }

// ToolError reports that a tool call failed. The model reads the failure as the output of the
// call, the host gets the error in [ToolFinished], and the run continues. Only an error that the
// tool marked with [Fatal] ends the run. Specific errors such as [*ToolPanicError] unwrap to it.
type ToolError struct {
	// Tool is the name of the tool, and CallID is the id of the call.
	Tool, CallID string
	// Err is the cause of the error.
	Err error
}

// Error implements the error interface.
func (e *ToolError) Error() string { return e.describe("") }

// Unwrap returns e.Err.
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

// ToolNotFoundError reports that the model called a tool that does not exist. The output of the
// call tells the model which tools do exist.
type ToolNotFoundError struct {
	*ToolError
	// Available are the names of the tools that the model may call. The name that is most similar
	// to the called one comes first.
	Available []string
}

// Error implements the error interface.
func (e *ToolNotFoundError) Error() string {
	s := e.describe("no such tool")
	if len(e.Available) > 0 {
		s += "; there are " + strings.Join(e.Available, ", ")
	}
	return s
}

// Unwrap returns the embedded ToolError.
func (e *ToolNotFoundError) Unwrap() error { return e.ToolError.base() }

// ToolArgsError reports that the arguments do not match the tool's schema. The call was not run.
type ToolArgsError struct {
	*ToolError
	// Problems lists all violations of the schema, with their places: `/name: required`.
	Problems []string
}

// Error implements the error interface.
func (e *ToolArgsError) Error() string {
	return e.describe("invalid arguments: " + strings.Join(e.Problems, "; "))
}

// Unwrap returns the embedded ToolError.
func (e *ToolArgsError) Unwrap() error { return e.ToolError.base() }

// ToolDeniedError reports that a call was denied, or that nobody approved it in time. The tool was
// not called, and the model reads the reason as the output of the call.
type ToolDeniedError struct {
	*ToolError
	// Reason tells the model why the call was denied, or is "". By says who denied the call.
	Reason string
	By     DecidedBy
}

// Error implements the error interface.
func (e *ToolDeniedError) Error() string {
	s := e.describe("denied by " + string(e.By))
	if e.Reason != "" {
		s += ": " + e.Reason
	}
	return s
}

// Unwrap returns the embedded ToolError.
func (e *ToolDeniedError) Unwrap() error { return e.ToolError.base() }

// ToolPanicError reports that a tool panicked. The loop recovers the panic, the model reads an
// error as the output of the call, and the run continues.
type ToolPanicError struct {
	*ToolError
	Value any
	// Stack is the stack trace of the panic, for the log. The model does not see the stack trace.
	Stack []byte
}

// Error implements the error interface.
func (e *ToolPanicError) Error() string { return e.describe(fmt.Sprintf("panic: %v", e.Value)) }

// Unwrap returns the embedded ToolError.
func (e *ToolPanicError) Unwrap() error { return e.ToolError.base() }

// ToolTimeoutError reports that a tool exceeded its time limit. The changes by the tool remain.
type ToolTimeoutError struct {
	*ToolError
	Elapsed time.Duration
}

// Error implements the error interface.
func (e *ToolTimeoutError) Error() string {
	return e.describe(fmt.Sprintf("timed out after %s", e.Elapsed))
}

// Unwrap returns the embedded ToolError.
func (e *ToolTimeoutError) Unwrap() error { return e.ToolError.base() }

// ToolCancelledError reports a call that was cancelled with its run. Changes by the tool remain.
type ToolCancelledError struct {
	*ToolError
	// Abandoned is true if the tool did not return within [Limits].Grace: the run stopped
	// waiting, and the outcome is unknown. If Abandoned is false, the tool returned Err. The
	// model reads this error, unless it says only that the context was cancelled.
	Abandoned bool
	// Interrupted is true if the program ended while the call worked, and another one has resumed
	// the run, see [Input.Pending]. The outcome is unknown. The call is not run again.
	Interrupted bool
}

// Error implements the error interface.
func (e *ToolCancelledError) Error() string {
	switch {
	case e.Interrupted:
		return e.describe("interrupted: the program ended while it worked")
	case e.Abandoned:
		return e.describe("cancelled and abandoned: it did not stop")
	}
	return e.describe("cancelled")
}

// Unwrap returns the embedded ToolError.
func (e *ToolCancelledError) Unwrap() error { return e.ToolError.base() }

// StaleApprovalError reports that an approved call was not run, because it would no longer do what
// the approver was shown. For example, the working directory of a command was replaced, or a resumed
// run has a tool that writes in place of one that only read.
type StaleApprovalError struct{ *ToolError }

// Error implements the error interface.
func (e *StaleApprovalError) Error() string {
	return e.describe("not run, as what it would do has changed since it was approved; " +
		"make the call again")
}

// Unwrap returns the embedded ToolError.
func (e *StaleApprovalError) Unwrap() error { return e.ToolError.base() }

// ContextError reports that no valid request to the model could be made: the [ContextBuilder]
// or the function of [WithSetup] failed, the history is invalid, or the request cannot be made small
// enough. The run ends.
type ContextError struct {
	// Op is the operation that failed, such as "build request", "set up turn" or "check history".
	Op  string
	Err error
}

// Error implements the error interface.
func (e *ContextError) Error() string { return e.Op + ": " + e.Err.Error() }

// Unwrap returns e.Err.
func (e *ContextError) Unwrap() error { return e.Err }

// ConfigError reports an invalid option or input. No model was asked, and no tool was called.
type ConfigError struct {
	// Option names the wrong option, field or parameter, such as "WithTools" or "ctx".
	Option string
	Err    error
}

// Error implements the error interface.
func (e *ConfigError) Error() string { return e.Option + ": " + e.Err.Error() }

// Unwrap returns e.Err.
func (e *ConfigError) Unwrap() error { return e.Err }

// LimitError reports that a run, or one response, reached a limit. The history keeps all results
// up to that point, and another run can continue the conversation.
type LimitError struct {
	// Limit describes the limit for people: "turns" or "response bytes". Programs should test
	// [Result.End] instead: it is [EndTurns] if the run reached [Limits].Turns.
	Limit string
	Max   int64
}

// Error implements the error interface.
func (e *LimitError) Error() string { return fmt.Sprintf("limit of %d %s reached", e.Max, e.Limit) }

type fatalError struct{ err error }

func (e *fatalError) Error() string { return e.err.Error() }

func (e *fatalError) Unwrap() error { return e.err }

// Fatal marks err as an error that ends the run. A tool returns such an error for a failure like
// a full disk. After any other error of a tool, the run continues. In both cases, the call has an
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
