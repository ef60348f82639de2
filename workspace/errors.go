package workspace

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"github.com/aycoder/aycoder/internal/runes"
)

// Error says that a file of a [Workspace] could not be read or written.
type Error struct {
	// Op is the operation, such as "read"; Path is the name that was asked for.
	Op, Path string
	// Kind is a stable name of the kind of error, for programs: "outside_workspace",
	// "sensitive_path", "protected_path", "invalid_path", "not_found", "not_regular",
	// "is_directory", "not_directory", "permission", "stale", "too_large", "no_space" or "io".
	Kind string
	// Err is the cause.
	Err error
}

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
	kind := "io"
	switch {
	case strings.Contains(err.Error(), "path escapes from parent"):
		// The package os does not export this error.
		err = errors.New("a symbolic link leads out of the workspace")
		kind = "outside_workspace"
	case errors.Is(err, fs.ErrNotExist):
		kind = "not_found"
	case errors.Is(err, fs.ErrPermission):
		kind = "permission"
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		kind = "no_space"
	case errors.Is(err, syscall.ENOTDIR):
		kind = "not_directory"
	case errors.Is(err, syscall.EISDIR):
		kind = "is_directory"
	case errors.Is(err, syscall.ENXIO): // a socket, or a device that does not exist
		err, kind = errors.New("is not a regular file"), "not_regular"
	case errors.Is(err, syscall.ENAMETOOLONG), errors.Is(err, syscall.ELOOP):
		kind = "invalid_path"
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
