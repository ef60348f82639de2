package workspace

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"github.com/aycoder/aycoder/internal/runes"
)

// Error says that a file of a [Workspace] could not be read or written. Its text is meant for
// a model: a tool can return it as it is. If something else helps, it says what. Kind is not
// part of the text; package tools puts it in front.
type Error struct {
	// Op is the operation, such as "read"; Path is the name that was asked for.
	Op, Path string
	// Kind is the kind of error, for programs.
	Kind ErrorKind
	// Err is the cause.
	Err error
}

// ErrorKind is a stable name of the kind of an [Error].
type ErrorKind string

// The kinds of an [Error].
const (
	// KindOutsideWorkspace means that the path, or a symbolic link in it, leads out of the
	// workspace.
	KindOutsideWorkspace ErrorKind = "outside_workspace"
	// KindSensitivePath means that files of this name usually hold secrets, such as .env.
	KindSensitivePath ErrorKind = "sensitive_path"
	// KindProtectedPath means that writing the file takes an approval of just this file, or is
	// refused.
	KindProtectedPath ErrorKind = "protected_path"
	// KindInvalidPath means that no file can have this path: it is empty, too long, or has a
	// NUL in it.
	KindInvalidPath ErrorKind = "invalid_path"
	// KindNotFound means that there is no file or directory of this name.
	KindNotFound ErrorKind = "not_found"
	// KindNotRegular means that the name is that of a device, a socket or a pipe, which is
	// never opened.
	KindNotRegular ErrorKind = "not_regular"
	// KindIsDirectory means that a file was wanted, and the name is that of a directory.
	KindIsDirectory ErrorKind = "is_directory"
	// KindNotDirectory means that a directory was wanted, or is in the path, and is a file.
	KindNotDirectory ErrorKind = "not_directory"
	// KindPermission means that the system refused it to the user of this process.
	KindPermission ErrorKind = "permission"
	// KindStale means that the file has changed since it was read, and was left as it is.
	KindStale ErrorKind = "stale"
	// KindTooLarge means that a directory has more entries than are listed.
	KindTooLarge ErrorKind = "too_large"
	// KindNoSpace means that the disk is full, or the quota used up.
	KindNoSpace ErrorKind = "no_space"
	// KindIO means any other error of the system.
	KindIO ErrorKind = "io"
)

// Error implements the error interface. Long names are shortened.
func (e *Error) Error() string {
	return e.Op + " " + runes.Path(e.Path) + ": " + e.Err.Error()
}

// Unwrap returns the cause.
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
