//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd || windows)

package session

import (
	"errors"
	"os"
)

// tryLock reports that files cannot be locked: package syscall has no flock(2) here.
func tryLock(*os.File) (bool, error) { return false, errors.ErrUnsupported }
