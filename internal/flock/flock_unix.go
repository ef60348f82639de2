//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

// Package flock locks files with locks of the operating system, which end with their process.
package flock

import (
	"errors"
	"os"
	"syscall"
)

// Try locks a file until it is closed or the process ends. It returns false without an error if
// someone else has locked it, and an error if the file cannot be locked, as on some network file
// systems. The lock belongs to this opening of the file, so that two openings in one process
// exclude each other. A process that is started does not inherit it.
func Try(f *os.File) (bool, error) {
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

// Unlock ends the lock. Closing the file is not enough at once: another goroutine may be starting a
// process, which has a copy of the open file until its program begins.
func Unlock(f *os.File) error {
	return os.NewSyscallError("flock", syscall.Flock(int(f.Fd()), syscall.LOCK_UN))
}
