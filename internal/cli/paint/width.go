package paint

import (
	"strings"
	"unicode/utf8"

	"github.com/aycoder/aycoder/internal/cli/tty"
)

// Width returns how many columns a text without escape sequences takes.
func Width(s string) int {
	for i := range len(s) {
		if s[i] < ' ' || s[i] >= 0x7f {
			return tty.StringWidth(s)
		}
	}
	return len(s)
}

const joiner = '\u200d'

// joins reports whether a rune belongs to the cluster before it, which is one character for a
// reader: an accent, a part of an emoji, the second half of a flag.
func joins(cluster []byte, r rune) bool {
	if r < 0x300 || len(cluster) == 0 || len(cluster) > 64 {
		return false
	}
	last, size := utf8.DecodeLastRune(cluster)
	switch {
	case last == joiner || r >= 0x1f3fb && r <= 0x1f3ff:
		text := string(cluster)
		return Width(text+string(r)) <= Width(text)
	case flag(r):
		return flag(last) && size == len(cluster)
	}
	return tty.RuneWidth(r) == 0
}

func flag(r rune) bool { return r >= 0x1f1e6 && r <= 0x1f1ff }

// nextCluster returns the length of the first cluster of a text.
func nextCluster(s string) int {
	_, n := utf8.DecodeRuneInString(s)
	for n < len(s) {
		r, size := utf8.DecodeRuneInString(s[n:])
		if !joins([]byte(s[:n]), r) {
			break
		}
		n += size
	}
	return n
}

// fit shortens a clean text to some columns, with a sign where something is missing.
func (s Style) fit(text string, columns int) string {
	if Width(text) <= columns {
		return text
	}
	sign := s.glyph("…", "~")
	if columns < 1 {
		return ""
	}
	return text[:head(text, columns-1)] + sign
}

// head returns how many bytes of a text fit.
func head(text string, columns int) int {
	at := 0
	for at < len(text) {
		n := nextCluster(text[at:])
		if columns -= Width(text[at : at+n]); columns < 0 {
			break
		}
		at += n
	}
	return at
}

// blanks returns n blanks.
func blanks(n int) string {
	const some = "                                "
	if n <= len(some) {
		return some[:max(n, 0)]
	}
	return strings.Repeat(" ", n)
}
