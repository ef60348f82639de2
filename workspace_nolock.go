//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package aycoder

import "os"

// lockFolder does nothing: package syscall has no flock(2) here.
func lockFolder(*os.File) bool { return true }
