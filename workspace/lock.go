package workspace

import (
	"context"
	"os"
	"time"

	"github.com/aycoder/aycoder/internal/flock"
)

const (
	lockTries = 2500
	lockPause = 2 * time.Millisecond // between two attempts
)

// lockDirectory keeps other processes from writing in a directory until f is closed. It returns
// false if another process holds the lock for too long, or if ctx ends.
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

// tryLock locks a file or a directory until it is closed, and returns false if another process has
// locked it. A file that cannot be locked, as on some network file systems, is used without a lock.
func tryLock(f *os.File) bool {
	ok, err := flock.Try(f)
	return ok || err != nil
}
