//go:build unix

package timed

import (
	"syscall"
	"time"
)

// CPU returns the processor time of this process so far. On systems that do not tell, it returns the time of day.
func CPU() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // it cannot fail
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
