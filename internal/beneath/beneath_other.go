//go:build !linux

package beneath

import (
	"errors"
	"io/fs"
	"os"
)

// Open is not supported: the system has no such call.
func Open(*os.File, string, int) (*os.File, error) { return nil, errors.ErrUnsupported }

// Lstat is not supported.
func Lstat(*os.File, string) (fs.FileInfo, error) { return nil, errors.ErrUnsupported }

// Exact reports false: it is not known.
func Exact(*os.File, string) bool { return false }

// Regular is not supported.
func Regular(*os.File, string, int) (fs.File, error) { return nil, errors.ErrUnsupported }
