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

// MismatchError means that a request differs from the recorded requests. It unwraps to an
// [*aycoder.BadRequestError], so the request is not retried. A program can read the
// differences:
//
//	if e, ok := errors.AsType[*replay.MismatchError](err); ok { fmt.Println(e.Changes) }
type MismatchError struct {
	// File is the path of the recording. Number is the position of the request, counted
	// from 1, among all requests to the [Tape]. Request describes the request, such as
	// "POST /v1/messages".
	File    string
	Number  int
	Request string
	// Nearest is the number, counted from 1, of the recorded interaction to which the
	// request was compared. This is the next unused interaction or, with [Lenient], the
	// most similar one. It is 0 if no unused interaction is left.
	Nearest int
	// Changes are the first differences, at most 20. More is the number of further
	// differences.
	Changes []Change
	More    int
	// Hint is additional advice, for example that the same request is recorded at another
	// place in the file. It may be empty.
	Hint string
}

// Error returns a message with one line for each change. Its length is limited to about 4
// kB.
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

// Unwrap returns an [*aycoder.BadRequestError].
func (e *MismatchError) Unwrap() error { return refusal(errMismatch) }

// IncompleteError means that a recorded response ends too early: the program that
// recorded the response stopped reading, and the program that plays it back reads on. It
// unwraps to an [*aycoder.BadRequestError].
type IncompleteError struct {
	// File is the path of the recording. Interaction is the number, counted from 1, of
	// the incomplete interaction. Request describes the request of this interaction.
	File        string
	Interaction int
	Request     string
}

// Error implements error.
func (e *IncompleteError) Error() string {
	return fmt.Sprintf("replay %s: interaction %d, %s, ends here: it was left while it was recorded",
		e.File, e.Interaction, runes.Shorten(e.Request, maxValue))
}

// Unwrap returns an [*aycoder.BadRequestError].
func (e *IncompleteError) Unwrap() error { return refusal(errIncomplete) }

// FormatError means that a file is not a valid and complete recording.
type FormatError struct {
	// File is the path of the recording. Line is the number, counted from 1, of the
	// invalid line.
	File string
	Line int
	// Torn says that the end of the file is missing, and that everything before is valid.
	// A file looks like this after a crash during the recording; see [WithTorn].
	Torn bool
	// Err is the cause of the error.
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

// Unwrap returns e.Err.
func (e *FormatError) Unwrap() error { return e.Err }

// SecretError means that [Tape.Close] did not write a recording, because the recording
// would have contained a secret. The error does not show the secret.
type SecretError struct {
	// Interaction is the number, counted from 1, of the interaction that contains the
	// secret. Source is the place where the tape learned the secret, such as "header
	// X-Api-Key".
	Interaction int
	Source      string
}

// Error implements error.
func (e *SecretError) Error() string {
	return fmt.Sprintf("interaction %d still holds the secret of %s", e.Interaction, e.Source)
}
