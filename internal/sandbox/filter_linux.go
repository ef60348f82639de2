package sandbox

import (
	"encoding/binary"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A filter is a program for the kernel's packet filter, which is run for every system
// call, on a struct seccomp_data: number, architecture, address, six arguments.
type filter []unix.SockFilter

// sockets are the kinds of sockets that commands may open, and whether their connections are
// handed to a bridge.
type sockets struct{ network, unix, bridged bool }

// bytes is the filter as the kernel and bwrap take it.
func (f filter) bytes() []byte {
	var out []byte
	for _, i := range f {
		out = binary.NativeEndian.AppendUint16(out, i.Code)
		out = append(out, i.Jt, i.Jf)
		out = binary.NativeEndian.AppendUint32(out, i.K)
	}
	return out
}

// install makes a filter that of this thread and of what it starts. If the filter hands
// connections to this process, the result is the bridge that gets them, and else nil.
func install(f []byte, bridged bool) (*bridge, error) {
	if len(f) == 0 {
		return nil, nil
	}
	prog := unix.SockFprog{
		Len:    uint16(len(f) / int(unsafe.Sizeof(unix.SockFilter{}))),
		Filter: (*unix.SockFilter)(unsafe.Pointer(&f[0])),
	}
	set := func(flags uintptr) (uintptr, unix.Errno) {
		fd, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&prog)))
		return fd, e
	}
	var fd uintptr
	var e unix.Errno
	if bridged {
		// A signal does not interrupt what this process was told of, since Linux 5.19.
		fd, e = set(unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV)
		if e == unix.EINVAL {
			fd, e = set(unix.SECCOMP_FILTER_FLAG_NEW_LISTENER)
		}
	} else {
		_, e = set(0)
	}
	switch {
	case e != 0:
		return nil, e
	case !bridged:
		return nil, nil
	}
	return newBridge(int(fd))
}
