//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package session

import (
	"errors"
	"os"
	"syscall"
)

// tryLock locks a file until it is closed, and returns false if someone else has locked it. The
// lock belongs to this opening of the file, so that two openings in one process exclude each
// other. A process that is started does not inherit it.
func tryLock(f *os.File) (bool, error) {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EWOULDBLOCK):
			return false, nil
		default:
			return err == nil, os.NewSyscallError("flock", err)
		}
	}
}
