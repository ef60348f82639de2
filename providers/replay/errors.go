package replay

import (
	"errors"
	"fmt"
	"strings"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/runes"
)

var (
	errMismatch   = errors.New("request was not recorded")
	errIncomplete = errors.New("recording is not complete")
)

// refusal wraps an error of this package in a model error that is not retried.
func refusal(cause error) error {
	return &aycoder.BadRequestError{ModelError: &aycoder.ModelError{Provider: "replay", Err: cause}}
}

// MismatchError means that a request differs from the recorded ones. It unwraps to an
// [aycoder.BadRequestError]:
//
//	if e, ok := errors.AsType[*replay.MismatchError](err); ok { fmt.Println(e.Changes) }
type MismatchError struct {
	// File is the path of the recording. Number is the position of the request among those sent
	// to the [Tape], counted from 1, and Request describes it: "POST /v1/messages".
	File    string
	Number  int
	Request string
	// Nearest is the 1-based number of the recorded interaction to which the request was
	// compared: the next one or, with [Lenient], the most similar. It is 0 if there is
	// none.
	Nearest int
	// Changes are the first differences; More is the number of the others.
	Changes []Change
	More    int
	// Hint is additional advice, for example that the request is recorded elsewhere in
	// the file. It may be empty.
	Hint string
}

// Error implements error. It shows a line for each change, at most about 4 kB in all.
func (e *MismatchError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "replay %s: request %d, %s, ", e.File, e.Number, runes.Shorten(e.Request, maxValue))
	if e.Nearest == 0 {
		b.WriteString("was not recorded: nothing is left")
	} else {
		fmt.Fprintf(&b, "is not the one that was recorded as interaction %d", e.Nearest)
	}
	if e.Hint != "" {
		b.WriteString(" (" + e.Hint + ")")
	}
	for i, c := range e.Changes {
		if i == 0 {
			b.WriteByte(':')
		}
		b.WriteString("\n  " + c.String())
	}
	if e.More > 0 {
		fmt.Fprintf(&b, "\n  … and %d more", e.More)
	}
	return b.String()
}

// Unwrap returns an [aycoder.BadRequestError].
func (e *MismatchError) Unwrap() error { return refusal(errMismatch) }

// IncompleteError means that a program reads more of an answer than was recorded. It
// unwraps to an [aycoder.BadRequestError].
type IncompleteError struct {
	// File is the recording, Interaction is the 1-based number of the incomplete
	// interaction, and Request describes its request.
	File        string
	Interaction int
	Request     string
}

// Error implements error.
func (e *IncompleteError) Error() string {
	return fmt.Sprintf("replay %s: interaction %d, %s, ends here: it was left while it was recorded",
		e.File, e.Interaction, runes.Shorten(e.Request, maxValue))
}

// Unwrap returns an [aycoder.BadRequestError].
func (e *IncompleteError) Unwrap() error { return refusal(errIncomplete) }

// FormatError means that a file is not a complete recording.
type FormatError struct {
	// File is the recording, and Line is the 1-based number of the line with the error.
	File string
	Line int
	// Torn says that the end of the file is missing and the rest is valid.
	Torn bool
	// Err describes the error.
	Err error
}

// Error implements error.
func (e *FormatError) Error() string {
	what := "line"
	if e.Torn {
		what = "torn at line"
	}
	return fmt.Sprintf("read recording %s: %s %d: %v", e.File, what, e.Line, e.Err)
}

// Unwrap returns the cause.
func (e *FormatError) Unwrap() error { return e.Err }

// SecretError means that a recording was not written because it would have contained a
// secret. The error does not show the secret.
type SecretError struct {
	// Interaction is the 1-based number of the interaction, and Source is where the
	// secret came from: "header X-Api-Key".
	Interaction int
	Source      string
}

// Error implements error.
func (e *SecretError) Error() string {
	return fmt.Sprintf("interaction %d still holds the secret of %s", e.Interaction, e.Source)
}
