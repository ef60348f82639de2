package workspace

import (
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// finalName returns the path of an open file in the root. The kernel knows it even if
// names on the way have changed. It returns false if the kernel cannot tell: without /proc, or
// if the root itself was moved.
func (r *root) finalName(f *os.File) (string, bool) {
	conn, err := f.SyscallConn()
	if err != nil {
		return "", false
	}
	name := ""
	if err := conn.Control(func(fd uintptr) {
		name, _ = os.Readlink("/proc/self/fd/" + strconv.Itoa(int(fd)))
	}); err != nil {
		return "", false
	}
	name = strings.TrimSuffix(name, " (deleted)")
	if name == r.real {
		return ".", true
	}
	return strings.CutPrefix(name, strings.TrimSuffix(r.real, "/")+"/")
}

// writable checks the write permission of the file, since an exchange needs only that of the
// directory. It does not open the file: programs that watch it take every close for a save.
func (t *target) writable() error {
	const write, effective = 2, 0x200 // W_OK, AT_EACCESS
	if err := syscall.Faccessat(int(t.lock.Fd()), t.name, write, effective); err != nil {
		return &fs.PathError{Op: "access", Path: t.name, Err: err}
	}
	return nil
}
