package atomicswap

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Exchange gives two files each other's name, whatever kind they are.
func Exchange(dir *os.File, a, b string) error { return rename(dir, a, b, unix.RENAME_EXCHANGE) }

// Move renames a file. If there is one of the new name, the error is [os.ErrExist].
func Move(dir *os.File, from, to string) error { return rename(dir, from, to, unix.RENAME_NOREPLACE) }

func rename(dir *os.File, from, to string, flags uint) error {
	err := control(dir, func(fd int) error { return unix.Renameat2(fd, from, fd, to, flags) })
	// "EINVAL: The filesystem does not support one of the flags in flags." (rename(2))
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		return fmt.Errorf("%w: %w", errors.ErrUnsupported, err)
	}
	return err
}

// Lease keeps writers out of a file that is open for reading only, until Release or
// Close: who opens it for writing, or truncates it, waits in the kernel. It is
// [ErrBusy] if somebody has it open for writing, through whatever name. The lease
// is of the kind F_RDLCK of fcntl(2), which needs the file's owner or CAP_LEASE. The
// kernel takes it away from one that keeps others waiting for long: see [Leased].
func Lease(f *os.File) error {
	err := fcntl(f, unix.F_SETLEASE, unix.F_RDLCK)
	switch {
	case err == nil:
		// Who waits is seen by Leased: nobody needs the SIGIO.
		return fcntl(f, unix.F_SETOWN, 0)
	case errors.Is(err, unix.EAGAIN):
		return ErrBusy
	}
	return fmt.Errorf("%w: %w", errors.ErrUnsupported, err)
}

// Leased reports whether a lease is still held and nobody waits for its end.
func Leased(f *os.File) bool {
	held := false
	err := control(f, func(fd int) error {
		// While it is being broken, this is the kind that it is to become.
		kind, err := unix.FcntlInt(uintptr(fd), unix.F_GETLEASE, 0)
		held = kind == unix.F_RDLCK
		return err
	})
	return held && err == nil
}

// Release gives up a lease, if there is one.
func Release(f *os.File) { _ = fcntl(f, unix.F_SETLEASE, unix.F_UNLCK) }

func fcntl(f *os.File, cmd, arg int) error {
	return control(f, func(fd int) error {
		_, err := unix.FcntlInt(uintptr(fd), cmd, arg)
		return err
	})
}
