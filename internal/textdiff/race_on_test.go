//go:build race

package textdiff

// raceEnabled makes the long tests take a sample.
const raceEnabled = true
