//go:build unix && !linux

package proc

import (
	"errors"
	"os/exec"
)

// waitExit returns when a command has exited. Package syscall has no waitid(2)
// here, so the command is reaped; its group keeps its id while it has members. It
// reports false if somebody else has reaped it.
func waitExit(cmd *exec.Cmd) bool {
	_ = cmd.Wait()
	return cmd.ProcessState != nil
}

// reap says how the command ended that waitExit has reaped.
func reap(cmd *exec.Cmd) error {
	if cmd.ProcessState == nil {
		return errors.New("wait for command: no state")
	}
	return nil
}

// killSession does nothing: who is in a session is not to be had here.
func killSession(int) {}
