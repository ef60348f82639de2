package cli

import (
	"os"

	"golang.org/x/sys/unix"
)

// flushInput discards text that was typed into a terminal and not read yet, such as half
// a line.
func flushInput(f *os.File) {
	const read = 1 // FREAD of sys/fcntl.h
	_ = unix.IoctlSetPointerInt(int(f.Fd()), unix.TIOCFLUSH, read)
}
