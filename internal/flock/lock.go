package flock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// pause is the time between two tries of [Lock].
const pause = 5 * time.Millisecond

// Lock locks a file with the given name, which it makes if it is missing, and waits for others until ctx is done.
// The file is never removed: two processes could lock a removed one and its successor at the same time. Where the
// system or the file system has no locks, Lock returns without one, as there is no other way to go on: of two
// processes that write at once, one may lose its change. Any other fault of the lock is an error.
func Lock(ctx context.Context, name string) (unlock func(), err error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := wait(ctx, func() (bool, error) { return Try(f) }); err != nil {
		f.Close()
		return nil, err
	}
	return func() {
		_ = Unlock(f)
		_ = f.Close()
	}, nil
}

// wait calls try until it succeeds.
func wait(ctx context.Context, try func() (bool, error)) error {
	for {
		switch ok, err := try(); {
		case ok, lockless(err):
			return nil
		case err != nil:
			return fmt.Errorf("lock: %w", err)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// lockless reports whether an error says that there are no locks. An NFS server without a lock service says ENOLCK.
func lockless(err error) bool {
	return errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.ENOLCK)
}
