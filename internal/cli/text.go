package cli

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/aycoder/aycoder/internal/cli/tty"
)

// clean makes foreign text safe for a terminal.
func clean(s string) string { return tty.Clean(s) }

// cleanLine is clean for text that must stay on one line.
func cleanLine(s string) string { return tty.CleanLine(s) }

// columns returns the width of s on a terminal.
func columns(s string) int { return tty.Width(s) }

// fit shortens s to n columns.
func fit(s string, n int) string { return tty.Fit(s, n) }

// fold keeps the first and the last lines of a text, and reports the number of lines
// between.
func fold(text string, keep int) []string { return tty.Fold(text, keep) }

// saidLines is how much of a line that the user has sent stays on the screen: it may have a large paste.
const saidLines = 12

// said formats what the user has sent.
func said(text string) string { return strings.Join(fold(clean(text), saidLines), "\n") }

// escapeJSON rewrites unsafe runes as \u escapes. In JSON such runes occur only inside of
// strings, so the value stays the same.
func escapeJSON(line []byte) []byte {
	text := string(line)
	if tty.Clean(text) == text {
		return line
	}
	out := make([]byte, 0, len(line)+16)
	for _, r := range text {
		if s := string(r); tty.Clean(s) == s {
			out = utf8.AppendRune(out, r)
			continue
		}
		out = fmt.Appendf(out, `\u%04x`, r)
	}
	return out
}

// quoteShell quotes an argument for the command that an error suggests.
func quoteShell(s string) string {
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
