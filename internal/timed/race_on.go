//go:build race

package timed

// race reports whether the race detector is on.
const race = true
