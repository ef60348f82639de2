package remote

import (
	"errors"
	"fmt"
	"strings"

	"github.com/aycoder/aycoder/workspace"
)

// ErrDisconnected means that there is no connection to the other machine any more. Every call then
// returns a [DisconnectedError], for which errors.Is(err, ErrDisconnected) is true.
var ErrDisconnected = errors.New("there is no connection to the machine that has the workspace")

// DisconnectedError reports a call that got no answer because the connection was cut or the other side
// did not react to a cancel, or that was made after the connection was cut. Get it with errors.AsType[*DisconnectedError](err). Methods for files and commands
// return it in a [*workspace.Error], which is of [workspace.KindInterrupted] if the call could have
// changed something, and of [workspace.KindIO] if it certainly has changed nothing.
type DisconnectedError struct {
	// Started says that the other machine may have begun with the call. If false, it has not.
	Started bool
	// Err is the reason: a [ProtocolError], the error of a Read or Write, or [io.EOF].
	Err error
}

// Error says whether the outcome is known.
func (e *DisconnectedError) Error() string {
	if e.Started {
		return fmt.Sprintf("there was no answer from the machine that has the workspace (%v)", e.Err)
	}
	return fmt.Sprintf("there is no connection to the workspace (%v); nothing was done", e.Err)
}

// Unwrap returns Err.
func (e *DisconnectedError) Unwrap() error { return e.Err }

// Is reports whether target is [ErrDisconnected].
func (e *DisconnectedError) Is(target error) bool { return target == ErrDisconnected }

// ProtocolError reports bytes from the other side that the protocol does not allow. The connection is
// cut then.
type ProtocolError struct{ Text string }

// Error returns the text.
func (e *ProtocolError) Error() string { return "the other side sent " + e.Text }

func protocolError(format string, args ...any) error {
	return &ProtocolError{fmt.Sprintf(format, args...)}
}

func noResult() error { return protocolError("an answer without a result") }

// VersionError reports that the program on the other machine speaks another version of the protocol.
// Build it from the same version of this module.
type VersionError struct{ Here, There int }

// Error returns both versions.
func (e *VersionError) Error() string {
	return fmt.Sprintf("the program on the other machine speaks version %d of the protocol, and this one version %d: "+
		"build both from the same version of the module", e.There, e.Here)
}

// foreign is an error that happened on the other machine.
type foreign struct {
	text string
	is   error
}

func (e *foreign) Error() string { return e.text }

func (e *foreign) Unwrap() error { return e.is }

// word reports whether a kind is a word, as all are that the model is told.
func word(k workspace.ErrorKind) bool {
	return k != "" && strings.Trim(string(k), "abcdefghijklmnopqrstuvwxyz_") == ""
}
