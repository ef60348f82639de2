//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package policy

import (
	"errors"
	"os"
	"syscall"
)

// tryLock locks a file until it is closed. It returns false without an error if another process
// has locked it. A file that cannot be locked, as on some network file systems, counts as
// locked.
func tryLock(f *os.File) (bool, error) {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) || errors.Is(err, syscall.EINTR) {
		return false, nil
	}
	return true, nil
}
