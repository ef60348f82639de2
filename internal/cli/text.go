package cli

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// clean makes foreign text safe for a terminal: it cannot move the cursor, change a
// colour, set a title or turn the reading direction. Line feeds and tabs stay, carriage
// returns are removed, and other control characters are made visible.
func clean(s string) string {
	if !strings.ContainsFunc(s, unsafeRune) && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '\r':
		case !unsafeRune(r):
			b.WriteRune(r)
		case r < ' ':
			b.WriteRune(0x2400 + r) // ␛ and similar symbols
		case r == 0x7f:
			b.WriteRune(0x2421)
		default:
			fmt.Fprintf(&b, "<%04x>", r)
		}
	}
	return b.String()
}

// cleanLine is clean for text that must stay on one line.
func cleanLine(s string) string {
	return strings.Join(strings.Fields(clean(s)), " ")
}

// unsafeRune reports whether a terminal might act on r: C0 and C1 controls, and
// characters that change the direction of text (UAX 9, explicit formatting).
func unsafeRune(r rune) bool {
	switch {
	case r == '\n' || r == '\t':
		return false
	case r < ' ', r >= 0x7f && r <= 0x9f:
		return true
	case r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069:
		return true
	}
	return false
}

// escapeJSON rewrites unsafe runes as \u escapes. In JSON such runes occur only inside of
// strings, so the value stays the same.
func escapeJSON(line []byte) []byte {
	if !strings.ContainsFunc(string(line), unsafeRune) {
		return line
	}
	out := make([]byte, 0, len(line)+16)
	for _, r := range string(line) {
		if unsafeRune(r) {
			out = fmt.Appendf(out, `\u%04x`, r)
			continue
		}
		out = utf8.AppendRune(out, r)
	}
	return out
}

// columns returns the width of s on a terminal.
func columns(s string) int {
	n := 0
	for _, r := range s {
		n += runeColumns(r)
	}
	return n
}

func runeColumns(r rune) int {
	switch {
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return 0
	case r >= 0x1100 && r <= 0x115f, r >= 0x2e80 && r <= 0xa4cf, r >= 0xac00 && r <= 0xd7a3,
		r >= 0xf900 && r <= 0xfaff, r >= 0xfe30 && r <= 0xfe6f, r >= 0xff00 && r <= 0xff60,
		r >= 0xffe0 && r <= 0xffe6, r >= 0x1f300 && r <= 0x1faff, r >= 0x20000 && r <= 0x3fffd:
		return 2
	}
	return 1
}

// fit shortens s to n columns.
func fit(s string, n int) string {
	if columns(s) <= n {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if n -= runeColumns(r); n < 1 {
			break
		}
		b.WriteRune(r)
	}
	return b.String() + "…"
}

// fold keeps the first and the last lines of a text, and reports the number of lines
// between.
func fold(text string, keep int) []string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if len(lines) <= keep {
		return lines
	}
	head := keep / 2
	tail := keep - head - 1
	out := append([]string{}, lines[:head]...)
	out = append(out, fmt.Sprintf("… %d more lines", len(lines)-head-tail))
	return append(out, lines[len(lines)-tail:]...)
}

// quoteShell quotes an argument for the command that an error suggests.
func quoteShell(s string) string {
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
