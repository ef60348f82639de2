package aycoder

import (
	"io/fs"
	"syscall"
)

// writable asks whether the file may be written: an exchange does not ask. It is not
// opened for that, since programs that watch a file take each close for a save.
func (t *target) writable() error {
	const write, effective = 2, 0x200 // W_OK, AT_EACCESS
	if err := syscall.Faccessat(int(t.lock.Fd()), t.name, write, effective); err != nil {
		return &fs.PathError{Op: "access", Path: t.name, Err: err}
	}
	return nil
}
