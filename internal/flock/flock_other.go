//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd || windows)

package flock

import (
	"errors"
	"os"
)

// Try reports that files cannot be locked: package syscall has no flock(2) here.
func Try(*os.File) (bool, error) { return false, errors.ErrUnsupported }

// Unlock does nothing.
func Unlock(*os.File) error { return nil }
