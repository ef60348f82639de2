//go:build !race

package timed

// Race says whether the race detector is on: tests of one goroutine that take long then take
// a sample, since there is nothing for it to find.
const Race = false
