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

// refusal is what an error of this package is in terms of models: one that no retry
// mends.
func refusal(cause error) error {
	return &aycoder.BadRequestError{ModelError: &aycoder.ModelError{Provider: "replay", Err: cause}}
}

// MismatchError says that a request is not one that was recorded. It unwraps to an
// [aycoder.BadRequestError]:
//
//	if e, ok := errors.AsType[*replay.MismatchError](err); ok { fmt.Println(e.Changes) }
type MismatchError struct {
	// File is the recording, Number which request to the tape it is, from 1, and Request
	// what it is: "POST /v1/messages".
	File    string
	Number  int
	Request string
	// Nearest is the recorded interaction that it was compared with, from 1: the next
	// one, or with [Lenient] the most similar. It is 0 if there is none.
	Nearest int
	// Changes are what is different, the first of them; More is how many there are
	// besides.
	Changes []Change
	More    int
	// Hint says more: that the request was recorded elsewhere. It may be empty.
	Hint string
}

// Error implements error. It shows a line for each change, in some 4 kB at most.
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

// IncompleteError says that a program wants more of an answer than was recorded. It
// unwraps to an [aycoder.BadRequestError].
type IncompleteError struct {
	// File is the recording, Interaction which of it is not complete, from 1, and Request
	// what was asked.
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

// FormatError says that a file is no whole recording.
type FormatError struct {
	// File is the recording, Line where it is wrong, from 1.
	File string
	Line int
	// Torn says that the end is missing, and all before it is whole.
	Torn bool
	// Err is what is wrong.
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

// SecretError says that a recording would have held a secret, so that it was not
// written. It does not show the secret.
type SecretError struct {
	// Interaction is where, from 1, Source whose secret it is: "header X-Api-Key".
	Interaction int
	Source      string
}

// Error implements error.
func (e *SecretError) Error() string {
	return fmt.Sprintf("interaction %d still holds the secret of %s", e.Interaction, e.Source)
}
