//go:build unix

package agenttest

import "syscall"

// makeFIFO makes a pipe that has a name.
func makeFIFO(name string) bool { return syscall.Mkfifo(name, 0o600) == nil }
