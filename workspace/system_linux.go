package workspace

import (
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// finalName returns the path in the workspace of an open file, which the kernel
// knows whatever happened to the names on the way. It reports false if that does
// not tell: without /proc, or if the workspace itself was moved.
func (w *Workspace) finalName(f *os.File) (string, bool) {
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
	if name == w.real {
		return ".", true
	}
	return strings.CutPrefix(name, strings.TrimSuffix(w.real, "/")+"/")
}

// writable asks whether the file may be written: an exchange does not ask. It is not
// opened for that, since programs that watch a file take each close for a save.
func (t *target) writable() error {
	const write, effective = 2, 0x200 // W_OK, AT_EACCESS
	if err := syscall.Faccessat(int(t.lock.Fd()), t.name, write, effective); err != nil {
		return &fs.PathError{Op: "access", Path: t.name, Err: err}
	}
	return nil
}
