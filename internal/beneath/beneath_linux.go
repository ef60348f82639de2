package beneath

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"unsafe"
)

// The call is made here and not through golang.org/x/sys, which would make every
// program that links this library larger by all of its tables.

// openHow is struct open_how of openat2(2).
type openHow struct{ flags, mode, resolve uint64 }

const (
	noSymlinks = 0x04 // RESOLVE_NO_SYMLINKS, "also implies RESOLVE_NO_MAGICLINKS"
	below      = 0x08 // RESOLVE_BENEATH

	pathOnly = 0x200000 // O_PATH
)

// openat2 is the number of the call, the same wherever it is known; else 0.
func openat2() uintptr {
	switch runtime.GOARCH {
	case "amd64", "386", "arm", "arm64", "riscv64", "loong64", "ppc64", "ppc64le", "s390x":
		return 437
	}
	return 0
}

// Open opens a file for reading; flags are further ones of open(2). It is
// [errors.ErrUnsupported] or the kernel's error if it did not work.
func Open(dir *os.File, name string, flags int) (*os.File, error) {
	fd, err := open(dir, name, flags)
	if err != nil {
		return nil, err
	}
	// By this name package os looks for the type of an entry, where the directory does
	// not tell.
	return os.NewFile(uintptr(fd), filepath.Join(dir.Name(), name)), nil
}

func open(dir *os.File, name string, flags int) (int, error) {
	call := openat2()
	if call == 0 {
		return -1, errors.ErrUnsupported
	}
	p, err := syscall.BytePtrFromString(name)
	if err != nil {
		return -1, err
	}
	conn, err := dir.SyscallConn()
	if err != nil {
		return -1, err
	}
	how := openHow{flags: uint64(flags | syscall.O_CLOEXEC | syscall.O_LARGEFILE), resolve: below | noSymlinks}
	var fd uintptr
	var errno syscall.Errno
	err = conn.Control(func(at uintptr) {
		for {
			fd, _, errno = syscall.Syscall6(call, at, uintptr(unsafe.Pointer(p)),
				uintptr(unsafe.Pointer(&how)), unsafe.Sizeof(how), 0, 0)
			if errno != syscall.EINTR {
				return
			}
		}
	})
	if err == nil && errno != 0 {
		err = errno
	}
	return int(fd), err
}

// Lstat describes the file, directory or symbolic link of this name. It opens nothing: no pipe, no device.
func Lstat(dir *os.File, name string) (fs.FileInfo, error) {
	// "If the trailing component is a symbolic link, and how.flags contains both O_PATH and O_NOFOLLOW,
	// then an O_PATH file descriptor referencing the symbolic link will be returned." (openat2(2))
	f, err := Open(dir, name, pathOnly|syscall.O_NOFOLLOW)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Stat()
}

// Exact reports whether there is something of this name, and no symbolic link on the
// way. It opens nothing: no pipe, no device.
func Exact(dir *os.File, name string) bool {
	fd, err := open(dir, name, pathOnly)
	if err != nil {
		return false
	}
	syscall.Close(fd)
	return true
}
