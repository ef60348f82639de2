//go:build !linux

package sandbox

// Landlock returns a box that starts nothing: there is Landlock only on Linux.
func Landlock(p Policy) *Box { return newBox(unsupported("landlock"), p) }

// Bubblewrap returns a box that starts nothing: there is bwrap only on Linux.
func Bubblewrap(p Policy) *Box { return newBox(unsupported("bwrap"), p) }
