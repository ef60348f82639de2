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
	lockPause = 2 * time.Millisecond // between two
)

// lockFolder keeps others from writing in a folder until it is closed, and reports
// false if somebody else does for long, or when ctx ends. A folder that cannot be
// locked, as on some network file systems, is not.
func lockFolder(ctx context.Context, f *os.File) bool {
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

// tryLock locks a file until it is closed, unless somebody else has. One that cannot be
// locked, as on some network file systems, counts as locked.
func tryLock(f *os.File) bool {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EINTR) {
			return !errors.Is(err, syscall.EWOULDBLOCK)
		}
	}
}
