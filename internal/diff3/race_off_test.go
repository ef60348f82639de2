//go:build !race

package diff3

const raceEnabled = false
