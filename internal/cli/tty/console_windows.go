package tty

import (
	"os"

	"golang.org/x/sys/windows"
)

const windowsConsole = true

// openConsole makes the console understand escape sequences.
func openConsole(out *os.File) (undo func(), ok bool) {
	h := windows.Handle(out.Fd())
	var mode uint32
	if windows.GetConsoleMode(h, &mode) != nil {
		return nil, false
	}
	want := mode | windows.ENABLE_PROCESSED_OUTPUT | windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING
	if windows.SetConsoleMode(h, want) != nil {
		return nil, false
	}
	return func() { _ = windows.SetConsoleMode(h, mode) }, true
}
