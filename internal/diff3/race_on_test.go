//go:build race

package diff3

// raceEnabled makes the long tests take a sample.
const raceEnabled = true
