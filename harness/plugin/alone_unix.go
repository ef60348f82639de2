//go:build unix

package plugin

import (
	"os/exec"
	"syscall"
)

// alone makes a command end with all that it has started.
func alone(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
