//go:build !race

package aycoder

const raceEnabled = false
