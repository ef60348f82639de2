package proc

import (
	"os"
	"os/exec"
	"syscall"
	"unsafe"
)

// exitWaiter waits for a command without a separate thread, where the kernel has descriptors
// for processes (Linux 5.4).
type exitWaiter struct{ fd int }

func newExitWaiter() *exitWaiter { return &exitWaiter{fd: -1} }

func (w *exitWaiter) prepare(attr *syscall.SysProcAttr) { attr.PidFD = &w.fd }

func (w *exitWaiter) close() {
	if w.fd >= 0 {
		syscall.Close(w.fd)
	}
}

// wait returns when a command has exited, and leaves it to be reaped. It reports false
// if that was done by somebody else: then its id may be that of another.
func (w *exitWaiter) wait(cmd *exec.Cmd) (ours bool) {
	done := false
	if w.fd >= 0 && syscall.SetNonblock(w.fd, true) == nil {
		f := os.NewFile(uintptr(w.fd), "pidfd")
		w.fd = -1
		defer f.Close()
		if conn, err := f.SyscallConn(); err == nil {
			_ = conn.Read(func(uintptr) bool {
				done, ours = exited(cmd.Process.Pid, syscall.WNOHANG)
				return done
			})
		}
	}
	if !done {
		_, ours = exited(cmd.Process.Pid, 0)
	}
	return ours
}

// exited looks whether a child has exited, or waits for that without WNOHANG.
func exited(pid, flags int) (done, ours bool) {
	const pPID = 1
	for {
		var info [128]uint64 // more than a siginfo_t, which begins with the signal
		_, _, e := syscall.Syscall6(syscall.SYS_WAITID, pPID, uintptr(pid), uintptr(unsafe.Pointer(&info[0])),
			uintptr(syscall.WEXITED|syscall.WNOWAIT|flags), 0, 0)
		switch {
		case e == syscall.EINTR:
		case e != 0:
			return true, false
		default:
			return *(*int32)(unsafe.Pointer(&info[0])) != 0, true
		}
	}
}

func reap(cmd *exec.Cmd) error { return cmd.Wait() }
