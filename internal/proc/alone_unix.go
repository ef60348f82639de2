//go:build unix

package proc

import (
	"os/exec"
	"syscall"
)

// Alone makes a command with a context end with all that it has started: its Cancel kills the process group.
func Alone(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
