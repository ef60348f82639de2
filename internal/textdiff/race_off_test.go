//go:build !race

package textdiff

const raceEnabled = false
