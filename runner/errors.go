package runner

import (
	"fmt"
	"time"
)

// A Kind says why a runner, or what came from it, was refused.
type Kind string

const (
	// KindUnauthorized means that the server does not know the token.
	KindUnauthorized Kind = "unauthorized"
	// KindTaken means that another program has the name and is connected. KindHeld means that another one had it and
	// may still work: the name is free after the time of [WithLease], or as soon as that one leaves.
	KindTaken Kind = "taken"
	KindHeld  Kind = "held"
	// KindFenced means that another program has had the name since this one was connected. Nobody knows there
	// what this one has done meanwhile, so a person decides which of them goes on.
	KindFenced Kind = "fenced"
	// KindOffline means that no runner of the name is connected. After the time of [WithWait], the cause is
	// [os.ErrDeadlineExceeded], which package server answers with the status 503.
	KindOffline Kind = "offline"
	// KindManifest means that a manifest is malformed, or does not fit what it describes.
	KindManifest Kind = "manifest"
	// KindChanged means that a text is not the one whose digest is pinned.
	KindChanged Kind = "changed"
	// KindProtocol means that the other side is not the other half of this package.
	KindProtocol Kind = "protocol"
)

// Error reports what was refused. Get it with errors.AsType[*Error](err).
type Error struct {
	// Runner is its name, or "" if that is not known.
	Runner string
	Kind   Kind
	Err    error

	after time.Duration // until another try may help, or 0 if none does
}

// Error returns the kind, the runner and the cause.
func (e *Error) Error() string {
	if e.Runner == "" {
		return fmt.Sprintf("runner (%s): %v", e.Kind, e.Err)
	}
	return fmt.Sprintf("runner %s (%s): %v", e.Runner, e.Kind, e.Err)
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

func refuse(name string, k Kind, format string, args ...any) *Error {
	return &Error{Runner: name, Kind: k, Err: fmt.Errorf(format, args...)}
}
