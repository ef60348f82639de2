package tty

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/graphemes"
	"github.com/mattn/go-runewidth"
)

// widths measures like most terminals do, in each locale: characters of ambiguous width
// have one column.
var widths = runewidth.Condition{StrictEmojiNeutral: true}

// Clean makes foreign text safe for a terminal: it cannot move the cursor, change a colour,
// set a title or turn the reading direction. Line feeds and tabs stay, carriage returns are
// removed, and other control characters are made visible. The result is valid UTF-8.
func Clean(s string) string {
	if !strings.ContainsFunc(s, unsafeRune) && utf8.ValidString(s) {
		return s
	}
	out := make([]byte, 0, len(s)+16)
	for _, r := range s {
		out = AppendClean(out, r)
	}
	return string(out)
}

// AppendClean appends a character, or what [Clean] shows in its place.
func AppendClean(dst []byte, r rune) []byte {
	switch {
	case r == '\r':
		return dst
	case !unsafeRune(r):
		return utf8.AppendRune(dst, r)
	case r < ' ':
		return utf8.AppendRune(dst, 0x2400+r) // ␛ and similar symbols
	case r == 0x7f:
		return utf8.AppendRune(dst, 0x2421)
	}
	return fmt.Appendf(dst, "<%04x>", r)
}

// CleanLine is [Clean] for text that must stay on one line: each run of white space
// becomes one space.
func CleanLine(s string) string {
	return strings.Join(strings.Fields(Clean(s)), " ")
}

// cleanSpaces is Clean for a line whose spaces matter.
func cleanSpaces(s string) string {
	return strings.NewReplacer("\n", " ", "\t", " ").Replace(Clean(s))
}

// unsafeRune reports whether a terminal might act on r: C0 and C1 controls, and
// characters that change the direction of text (UAX 9, explicit formatting) or separate lines.
func unsafeRune(r rune) bool {
	switch {
	case r >= ' ' && r < 0x7f, r == '\n', r == '\t':
		return false
	case r < ' ', r >= 0x7f && r <= 0x9f:
		return true
	case r == 0x2028, r == 0x2029, r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069:
		return true
	}
	return false
}

// RuneWidth returns the number of columns of a character alone.
func RuneWidth(r rune) int { return widths.RuneWidth(r) }

// maxCluster is the length in bytes that a character has at most, with all its accents.
const maxCluster = 256

// Next returns the length in bytes and the width in columns of the first part of s that
// must stay together: a grapheme cluster, a control character, or an escape sequence. The
// latter two have no width. The length is zero only if s is empty.
func Next(s string) (size, width int) {
	switch {
	case s == "":
		return 0, 0
	case s[0] == esc:
		return controlSequence(s), 0
	case s[0] < ' ' || s[0] == 0x7f:
		return 1, 0
	case s[0] < 0x7f && (len(s) == 1 || s[1] < utf8.RuneSelf):
		return 1, 1
	}
	r, n := utf8.DecodeRuneInString(s)
	if n == len(s) || s[n] < utf8.RuneSelf {
		return n, widths.RuneWidth(r)
	}
	if len(s) > maxCluster {
		s = WholeRunes(s[:maxCluster])
	}
	it := graphemes.FromString(s)
	it.Next()
	if width = widths.StringWidth(it.Value()); width > 2 { // no terminal shows that as one character
		return n, widths.RuneWidth(r)
	}
	return it.End(), width
}

// Width returns the number of columns that s takes on a terminal. Escape sequences and
// control characters take none.
func Width(s string) int {
	n := 0
	for s != "" {
		size, w := Next(s)
		n += w
		s = s[size:]
	}
	return n
}

// Fit shortens a line to n columns and marks the cut with an ellipsis. Escape sequences
// behind the cut are kept, so that a style ends where it did.
func Fit(s string, n int) string {
	if len(s) <= n || Width(s) <= n {
		return s
	}
	var b strings.Builder
	left, cut := n-1, false
	for s != "" {
		size, w := Next(s)
		if !cut && w > left {
			cut = true
			if n > 0 {
				b.WriteString("…")
			}
		}
		if !cut || s[0] == esc {
			b.WriteString(s[:size])
			left -= w
		}
		s = s[size:]
	}
	return b.String()
}

// Wrap breaks text into lines of at most width columns: at spaces, between wide
// characters, and within a word only if the word is longer than a line. Each line but the
// first of a paragraph begins with the text hang. Tabs count as one column and should be
// expanded before.
func Wrap(text string, width int, hang string) []string {
	var out []string
	for line := range strings.SplitSeq(text, "\n") {
		out = append(out, wrapLine(line, width, hang)...)
	}
	return out
}

func wrapLine(s string, width int, hang string) (out []string) {
	indent := Width(hang)
	if indent >= width {
		hang, indent = "", 0
	}
	prefix, room := "", width
	for {
		end, next := LineEnd(s, max(room, 1), true)
		out = append(out, prefix+s[:end])
		if next >= len(s) {
			return out
		}
		s, prefix, room = s[next:], hang, width-indent
	}
}

// maxLineBytes is the length of a line in bytes for each of its columns, so that accents
// do not make it endless.
const maxLineBytes = 32

// LineEnd returns the end of the first line of s, which has some columns, and the begin of
// the second. If s is not whole, the text after it is not known: then the line ends in s
// only if it does so with any text.
func LineEnd(s string, room int, whole bool) (end, next int) {
	if len(s) <= room {
		return len(s), len(s)
	}
	col, last := 0, 0 // last is the width of the character before
	inked := false    // something other than spaces has been seen
	for i := 0; i < len(s); {
		size, w := Next(s[i:])
		if i+size == len(s) && !whole {
			break
		}
		wide := inked && (w == 2 || last == 2 && w > 0)
		full := col+w > room && col > 0 || i > maxLineBytes*(room+1)
		switch {
		case full && s[i] == ' ' && s[i-1] != ' ':
			return i, skipSpaces(s, i)
		case full && (wide || end == 0):
			return i, i
		case full:
			return end, next
		case s[i] == ' ' && inked && s[i-1] != ' ':
			end, next = i, skipSpaces(s, i)
		case wide:
			end, next = i, i
		}
		if w > 0 {
			last, inked = w, inked || s[i] != ' '
		}
		col += w
		i += size
	}
	return len(s), len(s)
}

func skipSpaces(s string, i int) int {
	return len(s) - len(strings.TrimLeft(s[i:], " "))
}

// Fold keeps the first and the last lines of a text, keep lines in all, one of which tells
// the number of lines that were left out.
func Fold(text string, keep int) []string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if len(lines) <= keep {
		return lines
	}
	head := keep / 2
	tail := max(keep-head-1, 0)
	out := append([]string{}, lines[:head]...)
	out = append(out, fmt.Sprintf("… %d more lines", len(lines)-head-tail))
	return append(out, lines[len(lines)-tail:]...)
}
