package atomicswap

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"unsafe"
)

// The calls are made here and not through golang.org/x/sys, which would make every
// program that links this library larger by all of its tables.
const (
	renameNoReplace = 1
	renameExchange  = 2
	setOwner        = 8 // F_SETOWN
)

// renameat2 is the number of the call, or 0 where it is not known.
func renameat2() uintptr {
	switch runtime.GOARCH {
	case "amd64":
		return 316
	case "386":
		return 353
	case "arm":
		return 382
	case "arm64", "riscv64", "loong64":
		return 276
	case "ppc64", "ppc64le":
		return 357
	case "s390x":
		return 347
	}
	return 0
}

// Exchange gives two files each other's name, whatever kind they are.
func Exchange(dir *os.File, a, b string) error { return rename(dir, a, b, renameExchange) }

// Move renames a file. If there is one of the new name, the error is [os.ErrExist].
func Move(dir *os.File, from, to string) error { return rename(dir, from, to, renameNoReplace) }

func rename(dir *os.File, from, to string, flags uintptr) error {
	call := renameat2()
	if call == 0 {
		return errors.ErrUnsupported
	}
	old, err := syscall.BytePtrFromString(from)
	if err != nil {
		return err
	}
	name, err := syscall.BytePtrFromString(to)
	if err != nil {
		return err
	}
	err = control(dir, func(fd int) error {
		_, _, errno := syscall.Syscall6(call, uintptr(fd), uintptr(unsafe.Pointer(old)),
			uintptr(fd), uintptr(unsafe.Pointer(name)), flags, 0)
		return failed(errno)
	})
	// "EINVAL: The filesystem does not support one of the flags in flags." (rename(2))
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOSYS) {
		return fmt.Errorf("%w: %w", errors.ErrUnsupported, err)
	}
	return err
}

// failed keeps 0 from being an error.
func failed(errno syscall.Errno) error {
	if errno == 0 {
		return nil
	}
	return errno
}

// Lease keeps writers out of a file that is open for reading only, until Release or
// Close: who opens it for writing, or truncates it, waits in the kernel. It is
// [ErrBusy] if somebody has it open for writing, through whatever name. The lease
// is of the kind F_RDLCK of fcntl(2), which needs the file's owner or CAP_LEASE. The
// kernel takes it away from one that keeps others waiting for long: see [Leased].
func Lease(f *os.File) error { return lease(f, syscall.F_RDLCK) }

func lease(f *os.File, kind int) error {
	err := fcntl(f, syscall.F_SETLEASE, kind)
	if err == nil {
		// Leased notices that another process waits, so the SIGIO is not needed.
		return fcntl(f, setOwner, 0)
	}
	var st syscall.Statfs_t
	_ = control(f, func(fd int) error { return syscall.Fstatfs(fd, &st) })
	return leaseError(err, uint32(st.Type))
}

// leaseError tells a busy file from a lease that is not available. A file system that grants a
// lease only if its server has granted one refuses with the same error as for a file that is open
// for writing: "No delegation, no lease", nfs4_add_lease in fs/nfs/nfs4proc.c, and cifs_setlease
// in fs/smb/client/cifsfs.c.
func leaseError(err error, fileSystem uint32) error {
	if errors.Is(err, syscall.EAGAIN) && !remote[fileSystem] {
		return ErrBusy
	}
	return fmt.Errorf("%w: %w", errors.ErrUnsupported, err)
}

// remote holds the numbers of such file systems in statfs(2).
var remote = map[uint32]bool{
	0x6969:     true, // NFS_SUPER_MAGIC
	0x517b:     true, // SMB_SUPER_MAGIC
	0xff534d42: true, // CIFS_SUPER_MAGIC
	0xfe534d42: true, // SMB2_SUPER_MAGIC
}

// LeaseAlone keeps everybody else from opening a file at all, until Release or Close. It is
// [ErrBusy] if somebody has it open, except through f. The lease is of the kind F_WRLCK.
func LeaseAlone(f *os.File) error { return lease(f, syscall.F_WRLCK) }

// Leased reports whether a lease of Lease is still held and nobody waits for its end.
func Leased(f *os.File) bool {
	held := false
	err := control(f, func(fd int) error {
		// While it is being broken, this is the kind that it is to become.
		kind, _, errno := syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_GETLEASE, 0)
		held = kind == syscall.F_RDLCK
		return failed(errno)
	})
	return held && err == nil
}

// Release gives up a lease, if there is one.
func Release(f *os.File) { _ = fcntl(f, syscall.F_SETLEASE, syscall.F_UNLCK) }

func fcntl(f *os.File, cmd, arg int) error {
	return control(f, func(fd int) error {
		_, _, errno := syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), uintptr(cmd), uintptr(arg))
		return failed(errno)
	})
}
