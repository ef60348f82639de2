// Package runes cuts and quotes texts that are shown, between their runes.
package runes

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

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

const maxPath = 200 // bytes of a name in a text

// Path quotes a name that would confuse a reader, and cuts a long one.
func Path(p string) string {
	cut := ""
	if len(p) > maxPath {
		p, cut = Cut(p, maxPath), "…"
	}
	if q := strconv.Quote(p); q != `"`+p+`"` || strings.TrimSpace(p) != p || p == "" {
		p = q
	}
	return p + cut
}
