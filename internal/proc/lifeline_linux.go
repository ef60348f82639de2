package proc

import (
	"os"
	"strconv"
	"syscall"
)

// lifeline ends a process group when this program is gone, also if that was killed and
// could do nothing about it. It is a pipe: the command holds the end for reading and
// this program the only one for writing, and when that is closed, the kernel signals
// the owner of the other, in the manner of fcntl(2), "F_SETOWN", "F_SETSIG". Unlike
// PR_SET_PDEATHSIG, which acts when a thread ends, that is true to the program. The first line
// on it is the one that [Gate] waits for.
type lifeline struct{ r, w *os.File }

func newLifeline() (*lifeline, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	return &lifeline{r, w}, nil
}

const (
	fSetSig = 10
	fSetOwn = 8
)

// tie opens the gate, and makes the group of a process the owner. Where the kernel has
// no such thing, that is all that is missing.
func (l *lifeline) tie(pid int) {
	_, _ = l.w.Write(newline) // there is room, and nobody is signalled yet
	conn, err := l.r.SyscallConn()
	if err != nil {
		return
	}
	_ = conn.Control(func(fd uintptr) {
		if fcntl(fd, fSetSig, uintptr(syscall.SIGKILL)) && fcntl(fd, fSetOwn, uintptr(-pid)) {
			fcntl(fd, syscall.F_SETFL, syscall.O_NONBLOCK|syscall.O_ASYNC)
		}
	})
}

func fcntl(fd, cmd, arg uintptr) bool {
	_, _, e := syscall.Syscall(syscall.SYS_FCNTL, fd, cmd, arg)
	return e == 0
}

// close closes the end for reading first: if nobody else has it, nobody is signalled.
func (l *lifeline) close() {
	l.r.Close()
	l.w.Close()
}

// lastInherited returns the highest descriptor that a program gets which this one starts, or 0. This program was itself
// started with it: package os opens none like that.
func lastInherited() (last int) {
	dir, err := os.Open("/proc/self/fd")
	if err != nil {
		return 0
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	for _, name := range names {
		fd, _ := strconv.Atoi(name)
		if flags, _, e := syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_GETFD, 0); e == 0 && flags&syscall.FD_CLOEXEC == 0 {
			last = max(last, fd)
		}
	}
	return last
}
