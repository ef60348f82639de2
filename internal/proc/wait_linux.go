package proc

import (
	"os/exec"
	"syscall"
	"unsafe"
)

// waitExit returns when a command has exited, and leaves it to be reaped. It reports
// false if that was done by somebody else: then its id may be that of another.
func waitExit(cmd *exec.Cmd) bool {
	const pPID = 1
	var info [128]uint64 // more than a siginfo_t
	for {
		_, _, e := syscall.Syscall6(syscall.SYS_WAITID, pPID, uintptr(cmd.Process.Pid),
			uintptr(unsafe.Pointer(&info[0])), syscall.WEXITED|syscall.WNOWAIT, 0, 0)
		if e != syscall.EINTR {
			return e == 0
		}
	}
}

func reap(cmd *exec.Cmd) error { return cmd.Wait() }
