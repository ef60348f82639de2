//go:build unix && !linux

package proc

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// exitWaiter waits for a command.
type exitWaiter struct{}

func newExitWaiter() *exitWaiter { return &exitWaiter{} }

func (*exitWaiter) prepare(*syscall.SysProcAttr) {}

func (*exitWaiter) close() {}

// wait returns when a command has exited. Package syscall has no waitid(2) here, so the
// command is reaped; its group keeps its id while it has members. It reports false if
// somebody else has reaped it.
func (*exitWaiter) wait(cmd *exec.Cmd) bool {
	_ = cmd.Wait()
	return cmd.ProcessState != nil
}

// reap says how the command ended that was reaped by wait.
func reap(cmd *exec.Cmd) error {
	if cmd.ProcessState == nil {
		return errors.New("wait for command: no state")
	}
	return nil
}

// kin is nothing: who belongs to a command is not to be had here.
type kin struct{}

func mark(int, *Census) *kin { return &kin{} }

func (*kin) kill() int { return 0 }

func (*kin) alive() []struct{} { return nil }

func (*kin) look(int64, bool) func() (time.Duration, error) { return nil }

// lifeline is nothing: a pipe has no owner here that would be signalled.
type lifeline struct{ r *os.File }

func newLifeline() (*lifeline, error) { return &lifeline{}, nil }

func (*lifeline) tie(int) {}

func (*lifeline) close() {}

// lastInherited returns 0: descriptors cannot be looked through.
func lastInherited() int { return 0 }
