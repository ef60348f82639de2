//go:build !darwin

package sandbox

// Seatbelt returns a box that starts nothing: there is seatbelt only on macOS.
func Seatbelt(p Policy) *Box { return newBox(unsupported("seatbelt"), p) }
