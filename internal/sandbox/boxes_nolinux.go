//go:build !linux

package sandbox

import "runtime"

// Landlock returns a box that starts nothing: there is Landlock only on Linux.
func Landlock(p Policy) *Box { return newBox(unsupported("landlock"), p) }

// Bubblewrap returns a box that starts nothing: there is bwrap only on Linux.
func Bubblewrap(p Policy) *Box { return newBox(unsupported("bwrap"), p) }

// Reader returns a box for commands that only read, each started with [Call.ReadOnly].
// They may look at all that the host may. The box needs no Close. It is by Seatbelt on
// macOS; elsewhere it starts nothing.
func Reader() *Box {
	p := Policy{everything: true}
	if runtime.GOOS == "darwin" {
		return Seatbelt(p)
	}
	return newBox(unsupported("landlock"), p)
}
