// Package runes cleans, cuts and quotes texts without splitting a rune.
package runes

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

var noNUL = strings.NewReplacer("\x00", "\uFFFD")

// Clean makes s valid UTF-8 without NUL, which JSON, terminals and databases can all hold:
// encoding/json replaces invalid UTF-8 without an error, and PostgreSQL refuses NUL in text.
func Clean(s string) string {
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "\uFFFD")
	}
	if strings.IndexByte(s, 0) >= 0 {
		s = noNUL.Replace(s)
	}
	return s
}

// Cut returns at most the first n bytes of s, and never a part of a rune. The limit n must
// not be negative.
func Cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// Shorten is [Cut] that appends "…" if it removed something.
func Shorten(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return Cut(s, n) + "…"
}

const maxPath = 200 // the most bytes of a name in a text

// Path returns a file name for a message. It quotes names with characters that could
// mislead a reader, such as line breaks or controls, and cuts long ones.
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
