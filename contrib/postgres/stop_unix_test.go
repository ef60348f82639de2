//go:build unix

package postgres

import (
	"os"
	"syscall"
)

// stopProcess stops a process, and reports whether that is possible.
func stopProcess(p *os.Process) bool { return p.Signal(syscall.SIGSTOP) == nil }

func continueProcess(p *os.Process) { _ = p.Signal(syscall.SIGCONT) }
