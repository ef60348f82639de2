// Package runes cuts texts that are shown, between their runes.
package runes

import "unicode/utf8"

// Cut returns the first n bytes of s at most, and ends before a rune. N is not negative.
func Cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// Shorten is [Cut] with "…" behind what was cut.
func Shorten(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return Cut(s, n) + "…"
}
