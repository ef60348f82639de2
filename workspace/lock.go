//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package workspace

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"
)

const (
	lockTries = 2500
	lockPause = 2 * time.Millisecond // between two attempts
)

// lockDirectory keeps other processes from writing in a directory until f is closed. It returns
// false if another process holds the lock for too long, or if ctx ends. Directories that cannot
// be locked, as on some network file systems, are used without a lock.
func lockDirectory(ctx context.Context, f *os.File) bool {
	for range lockTries {
		if tryLock(f) {
			return true
		}
		if sleep(ctx, lockPause) != nil {
			return false
		}
	}
	return false
}

// tryLock locks a file until it is closed, and returns false if another process has locked it.
// A file that cannot be locked, as on some network file systems, counts as locked.
func tryLock(f *os.File) bool {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EINTR) {
			return !errors.Is(err, syscall.EWOULDBLOCK)
		}
	}
}
