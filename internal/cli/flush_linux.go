package cli

import (
	"os"

	"golang.org/x/sys/unix"
)

// flushInput discards text that was typed into a terminal and not read yet, such as half
// a line.
func flushInput(f *os.File) { _ = unix.IoctlSetInt(int(f.Fd()), unix.TCFLSH, unix.TCIFLUSH) }
