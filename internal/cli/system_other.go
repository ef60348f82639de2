//go:build !linux && !darwin

package cli

import (
	"os"
	"os/exec"
)

// freeBytes returns how much of the disk of a directory the user may still write.
func freeBytes(string) (int64, bool) { return 0, false }

// readerGone knows nothing: the next line that is written tells.
func readerGone(*os.File) bool { return false }

// alone does nothing: only the command itself ends.
func alone(*exec.Cmd) {}

// share does nothing: Windows removes no directory in which a process works.
func share(string) (only func() bool, err error) { return func() bool { return true }, nil }
