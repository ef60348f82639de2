//go:build race

package editmatch_test

// raceEnabled makes the long tests take less.
const raceEnabled = true
