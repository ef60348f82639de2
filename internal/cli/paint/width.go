package paint

import (
	"strings"

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

// joins reports whether a rune belongs to the cluster before it, which is one character for a
// reader: an accent, a part of an emoji, the second half of a flag. A cluster that is
// wider than a character can be may be broken.
func joins(cluster []byte, r rune) bool {
	if r < 0x300 || len(cluster) == 0 || len(cluster) > 64 {
		return false
	}
	n, width := tty.Next(string(cluster) + string(r))
	return n > len(cluster) && width <= 2
}

// fit shortens a clean text to some columns, with a sign where something is missing.
func (s Style) fit(text string, columns int) string {
	short := tty.Fit(text, columns)
	if !s.Plain || short == text || short == "" {
		return short
	}
	return strings.TrimSuffix(short, "…") + "~"
}

// end shortens a clean text to some columns, and keeps its end.
func (s Style) end(text string, columns int) string {
	wide := Width(text)
	if wide <= columns {
		return text
	}
	for wide >= columns && text != "" {
		n, w := tty.Next(text)
		text, wide = text[n:], wide-w
	}
	return s.glyph("…", "~") + text
}

// blanks returns n blanks.
func blanks(n int) string {
	const some = "                                "
	if n <= len(some) {
		return some[:max(n, 0)]
	}
	return strings.Repeat(" ", n)
}
