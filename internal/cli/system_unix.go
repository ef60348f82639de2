//go:build linux || darwin

package cli

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"

	"golang.org/x/sys/unix"
)

// freeBytes returns how much of the disk of a directory the user may still write.
func freeBytes(dir string) (int64, bool) {
	var st unix.Statfs_t
	if unix.Statfs(dir, &st) != nil {
		return 0, false
	}
	return int64(st.Bavail) * int64(st.Bsize), true
}

// readerGone reports whether nobody can read any more what is written to a pipe.
func readerGone(f *os.File) bool {
	fds := []unix.PollFd{{Fd: int32(f.Fd())}}
	n, err := unix.Poll(fds, 0)
	return err == nil && n > 0 && fds[0].Revents&(unix.POLLERR|unix.POLLHUP) != 0
}

// alone makes the end of a command's context that of all that it has started: it has a process group for that.
func alone(cmd *exec.Cmd) {
	cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGKILL) }
}

// share says until the end of this process that it works in a directory. The function reports whether no other process
// does, and keeps others away from then on. The error is [fs.ErrNotExist] if another process has removed the directory.
func share(dir string) (only func() bool, err error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	_ = unix.Flock(int(f.Fd()), unix.LOCK_SH) // a file system without locks shares nothing
	was, err := f.Stat()
	if now, statErr := os.Stat(dir); err != nil || statErr != nil || !os.SameFile(was, now) {
		_ = f.Close()
		return nil, errors.Join(err, fs.ErrNotExist)
	}
	return func() bool { return !errors.Is(unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB), unix.EWOULDBLOCK) }, nil
}
