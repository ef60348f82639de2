package sandbox

import (
	"encoding/binary"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A filter is a program for the kernel's packet filter, which is run for every system
// call, on a struct seccomp_data: number, architecture, address, six arguments.
type filter []unix.SockFilter

// sockets are the kinds of sockets that commands may open.
type sockets struct{ network, unix bool }

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

// installFilter makes a filter that of this thread and of what it starts.
func installFilter(f []byte) error {
	if len(f) == 0 {
		return nil
	}
	prog := unix.SockFprog{
		Len:    uint16(len(f) / int(unsafe.Sizeof(unix.SockFilter{}))),
		Filter: (*unix.SockFilter)(unsafe.Pointer(&f[0])),
	}
	_, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&prog)))
	if e != 0 {
		return e
	}
	return nil
}
