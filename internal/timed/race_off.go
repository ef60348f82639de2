//go:build !race

package timed

// Race reports whether the race detector is on. Slow tests that use one goroutine then run on a
// sample only, since the race detector cannot find anything in them.
const Race = false
