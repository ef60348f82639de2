package paint

import (
	"strings"

	"github.com/aycoder/aycoder/internal/cli/tty"
)

// Clean makes foreign text safe for a terminal: it cannot move the cursor, change a colour, set a
// title or turn the reading direction. Line feeds and tabs stay, carriage returns are removed,
// and other control characters are made visible, as symbols or, in plain text, as ^[ and the
// like. Bytes that are not UTF-8 become U+FFFD.
func (s Style) Clean(text string) string {
	if !s.Plain {
		return tty.Clean(text)
	}
	out := make([]byte, 0, len(text)+16)
	for _, r := range text {
		if control := r < ' ' || r == 0x7f; control && !strings.ContainsRune("\r\n\t", r) {
			out = append(out, '^', byte(r)^0x40)
			continue
		}
		out = tty.AppendClean(out, r)
	}
	return string(out)
}

// line is Clean for text that must stay on one line.
func (s Style) line(text string) string {
	return strings.Join(strings.Fields(s.Clean(text)), " ")
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
	wide := tty.Width(text)
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
func blanks(n int) string { return strings.Repeat(" ", max(n, 0)) }
