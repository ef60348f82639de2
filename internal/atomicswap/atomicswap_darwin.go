package atomicswap

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Exchange gives two files each other's name, whatever kind they are.
func Exchange(dir *os.File, a, b string) error { return rename(dir, a, b, unix.RENAME_SWAP) }

// Move renames a file. If there is one of the new name, the error is [os.ErrExist].
func Move(dir *os.File, from, to string) error { return rename(dir, from, to, unix.RENAME_EXCL) }

func rename(dir *os.File, from, to string, flags uint32) error {
	err := control(dir, func(fd int) error { return unix.RenameatxNp(fd, from, fd, to, flags) })
	// Volumes without VOL_CAP_INT_RENAME_SWAP and _EXCL.
	if errors.Is(err, unix.ENOTSUP) || errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("%w: %w", errors.ErrUnsupported, err)
	}
	return err
}
