package workspace

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"github.com/aycoder/aycoder/internal/runes"
)

// Error describes a failure to read or write a file of a [Workspace]. Its text is meant for a
// model: a tool can return the text unchanged, and often the text names a way to proceed. The
// text does not include Kind; package tools puts the kind in front of the text.
type Error struct {
	// Op is the operation, such as "read". Path is the name that the caller passed.
	Op, Path string
	// Kind is a stable code for the kind of error, for programs to compare.
	Kind ErrorKind
	// Err is the cause.
	Err error
}

// ErrorKind is a stable code for a kind of [Error], such as "not_found".
type ErrorKind string

// The kinds of an [Error].
const (
	// KindOutsideWorkspace means that the path, or a symbolic link in it, leads out of the
	// workspace.
	KindOutsideWorkspace ErrorKind = "outside_workspace"
	// KindNoRoot means that the path names a further root ([WithRoot]) that the workspace does not
	// have, or whose directory is gone.
	KindNoRoot ErrorKind = "no_root"
	// KindSensitivePath means that files of this name usually hold secrets, such as .env.
	KindSensitivePath ErrorKind = "sensitive_path"
	// KindProtectedPath means that the file cannot be written at all, or only by a plan that was
	// approved (see [WithApproved]).
	KindProtectedPath ErrorKind = "protected_path"
	// KindInvalidPath means that no file can have this path, for example because the path is
	// empty, is too long, or contains a NUL byte.
	KindInvalidPath ErrorKind = "invalid_path"
	// KindNotFound means that there is no file or directory of this name.
	KindNotFound ErrorKind = "not_found"
	// KindNotRegular means that the name refers to a device, a socket or a pipe. These are never
	// opened.
	KindNotRegular ErrorKind = "not_regular"
	// KindIsDirectory means that the operation needs a file, but the name refers to a directory.
	KindIsDirectory ErrorKind = "is_directory"
	// KindNotDirectory means that the operation needs a directory, but the name, or an element of
	// its path, refers to a file.
	KindNotDirectory ErrorKind = "not_directory"
	// KindPermission means that the operating system denied this process access to the file.
	KindPermission ErrorKind = "permission"
	// KindStale means that the file has changed since it was read. The operation left the file
	// unchanged.
	KindStale ErrorKind = "stale"
	// KindTooLarge means that a directory has more entries than [Workspace.ReadDir] returns.
	KindTooLarge ErrorKind = "too_large"
	// KindNoSpace means that the disk is full or the quota is used up.
	KindNoSpace ErrorKind = "no_space"
	// KindInterrupted means that the connection to a workspace on another machine was cut while the
	// operation was under way, so that nobody knows whether it has changed anything. It must not
	// simply be repeated.
	KindInterrupted ErrorKind = "interrupted"
	// KindIO means any other error of the operating system.
	KindIO ErrorKind = "io"
)

// Error returns the operation, the path and the cause. A long path is shortened.
func (e *Error) Error() string {
	return e.Op + " " + runes.Path(e.Path) + ": " + e.Err.Error()
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// wrapError gives an error a kind, unless it has one.
func wrapError(op, name string, err error) error {
	if _, ok := errors.AsType[*Error](err); ok {
		return err
	}
	kind := KindIO
	switch {
	case strings.Contains(err.Error(), "path escapes from parent"):
		// The package os does not export this error.
		err = errors.New("a symbolic link leads out of the workspace")
		kind = KindOutsideWorkspace
	case errors.Is(err, fs.ErrNotExist):
		kind = KindNotFound
	case errors.Is(err, fs.ErrPermission):
		kind = KindPermission
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		kind = KindNoSpace
	case errors.Is(err, syscall.ENOTDIR):
		kind = KindNotDirectory
	case errors.Is(err, syscall.EISDIR):
		kind = KindIsDirectory
	case errors.Is(err, syscall.ENXIO): // a socket, or a device that does not exist
		err, kind = errors.New("is not a regular file"), KindNotRegular
	case errors.Is(err, syscall.ENAMETOOLONG), errors.Is(err, syscall.ELOOP):
		kind = KindInvalidPath
	}
	return &Error{Op: op, Path: name, Kind: kind, Err: cause(err)}
}

// cause strips the names from an error of package os: they may be long, and may name temporary
// files.
func cause(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	if e, ok := errors.AsType[*os.LinkError](err); ok {
		return e.Err
	}
	return err
}
