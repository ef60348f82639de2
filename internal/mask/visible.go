package mask

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Visible returns text in which what nobody sees is written out, as <U+202E>: control
// characters other than tab and line break, characters without width, those that turn
// the direction of text, tags, characters for private use, and those that are not
// assigned. A reader of the text sees what a model is told, and the other way round.
// Characters that scripts and emoji need stay: joiners in emoji and between letters of scripts
// that join, a variation selector behind a symbol, direction marks beside letters of scripts
// from right to left. Bytes that are not UTF-8 become U+FFFD.
//
// The form is one of no programming language, so that a literal in source code is not
// taken for a character that was written out: see [Unescape].
func Visible(text string) string { return VisibleWithin(text, len(text)*maxEscape) }

const (
	maxEscape = len("<U+10FFFF>")
	lost      = "\uFFFD"
)

// VisibleWithin is [Visible] for a text that may get longer only by so many bytes. A byte
// whose escape would exceed that becomes U+FFFD, or a question mark if that is too long. So
// an edit that was masked still fits the bounds it was checked against.
func VisibleWithin(text string, room int) string {
	if plain(text) {
		return text
	}
	var b strings.Builder
	prev := rune(-1)
	for i, r := range text {
		size := utf8.RuneLen(r)
		if r == utf8.RuneError {
			_, size = utf8.DecodeRuneInString(text[i:])
		}
		if hidden(r) && !keeps(prev, r, text[i+size:]) && (r != '\r' || !strings.HasPrefix(text[i+1:], "\n")) {
			out := escape(r)
			if room -= len(out) - size; room < 0 && size == len(lost) {
				out = lost
			} else if room < 0 {
				out = "?"
			}
			b.WriteString(out)
			prev = 0
			continue
		}
		b.WriteRune(r)
		prev = r
	}
	return b.String()
}

// escape returns the form that a character is written in.
func escape(r rune) string { return fmt.Sprintf("<U+%04X>", r) }

// plain reports whether a text has only characters of ASCII that are seen, which is true of
// most.
func plain(text string) bool {
	for i := range len(text) {
		if c := text[i]; c >= 0x7f || c < ' ' && c != '\n' && c != '\t' {
			return false
		}
	}
	return true
}

// hidden reports whether nobody sees a character.
func hidden(r rune) bool {
	switch {
	case r == '\n' || r == '\t':
		return false
	case r < ' ', r >= 0x7f && r < 0xa0:
		return true
	case r < 0xad:
		return false
	case r == 0x34f, r == 0x115f, r == 0x1160, r == 0x17b4, r == 0x17b5, r == 0x2800, r == 0x3164, r == 0xffa0:
		return true // fillers: letters and marks that look like nothing
	case r >= 0xfe00 && r <= 0xfe0f, r >= 0xe0100 && r <= 0xe01ef, r >= 0x180b && r <= 0x180f:
		return true // variation selectors
	}
	return !unicode.IsGraphic(r)
}

// keeps reports whether writing needs a character that nobody sees, after one and
// before a text.
func keeps(prev, r rune, rest string) bool {
	next, _ := utf8.DecodeRuneInString(rest)
	switch {
	case r == 0x200d && (emoji(prev) || prev == 0xfe0f):
		return emoji(next)
	case r == 0x200c || r == 0x200d:
		return unicode.In(prev, joining...)
	case r == 0xfe0e || r == 0xfe0f:
		return emoji(prev) || prev >= '0' && prev <= '9' || prev == '#' || prev == '*' ||
			prev > 0x7f && (unicode.IsSymbol(prev) || unicode.IsPunct(prev))
	case r >= 0xfe00 && r <= 0xfe0f, r >= 0xe0100 && r <= 0xe01ef:
		return unicode.In(prev, unicode.Han, unicode.Sm)
	case r >= 0x180b && r <= 0x180f:
		return unicode.Is(unicode.Mongolian, prev) && !hidden(prev)
	case r == 0x200e || r == 0x200f || r == 0x61c:
		return unicode.In(prev, rightToLeft...) || unicode.In(next, rightToLeft...) && !hidden(next)
	case r == 0xfeff:
		return prev == -1 // a byte order mark
	}
	return false
}

// joining are the scripts whose letters have other forms beside a joiner, and
// rightToLeft those that are written so.
var (
	joining = []*unicode.RangeTable{
		unicode.Arabic, unicode.Syriac, unicode.Nko, unicode.Mongolian, unicode.Devanagari, unicode.Bengali,
		unicode.Gurmukhi, unicode.Gujarati, unicode.Oriya, unicode.Tamil, unicode.Telugu, unicode.Kannada,
		unicode.Malayalam, unicode.Sinhala, unicode.Khmer, unicode.Myanmar, unicode.Tibetan, unicode.Lao,
		unicode.Balinese, unicode.Javanese, unicode.Limbu,
	}
	rightToLeft = []*unicode.RangeTable{
		unicode.Hebrew, unicode.Arabic, unicode.Syriac, unicode.Thaana, unicode.Nko, unicode.Adlam,
	}
)

// emoji reports whether a character may be one that is joined with others.
func emoji(r rune) bool {
	picture := r >= 0x1f000 && r <= 0x1faff || r >= 0x2190 && r <= 0x2bff || r == 0x3030 || r == 0x303d
	return picture && !hidden(r)
}

// Hidden are the characters of a text that [Visible] writes out, to be put back in
// others.
type Hidden struct {
	runes   map[rune]bool
	literal map[rune]bool // those that are written out in the text as such
}

// HiddenIn returns the characters of a text that nobody sees.
func HiddenIn(within string) *Hidden {
	h := &Hidden{map[rune]bool{}, map[rune]bool{}}
	if !plain(within) {
		for _, r := range within {
			if hidden(r) {
				h.runes[r] = true
			}
		}
	}
	unescape(within, func(r rune, literal string) string {
		h.literal[r] = true
		return literal
	})
	return h
}

// Unescape puts characters back that [Visible] wrote out, those that are in the text and
// are not written out there as well. It reports whether one is both: then nobody knows
// which is meant, and it stays as it is. A model writes back what it read, so a file keeps
// its own invisible characters in an edit.
func (h *Hidden) Unescape(text string) (out string, ambiguous bool) {
	out = unescape(text, func(r rune, literal string) string {
		switch {
		case !h.runes[r]:
		case h.literal[r]:
			ambiguous = true
		default:
			return string(r)
		}
		return literal
	})
	return out, ambiguous
}

// unescape puts what a function returns in the place of each character that is written
// out.
func unescape(text string, with func(r rune, literal string) string) string {
	var b strings.Builder
	for {
		i := strings.Index(text, "<U+")
		if i < 0 {
			break
		}
		r, n := escapeAt(text[i:])
		literal := text[i : i+max(n, 1)]
		b.WriteString(text[:i])
		text = text[i+len(literal):]
		if n > 0 {
			literal = with(r, literal)
		}
		b.WriteString(literal)
	}
	if b.Len() == 0 {
		return text
	}
	b.WriteString(text)
	return b.String()
}

// escapeAt returns the character that begins a text, written out, and the length of
// that, or 0.
func escapeAt(s string) (r rune, n int) {
	end := strings.IndexByte(s[:min(len(s), 12)], '>')
	if end < 0 {
		return 0, 0
	}
	if _, err := fmt.Sscanf(s[:end+1], "<U+%X>", &r); err != nil || !hidden(r) || escape(r) != s[:end+1] {
		return 0, 0
	}
	return r, end + 1
}

// StripEscapes returns the output of a program as a terminal would show it, one line
// below the other: without the sequences that set colours, move the cursor and the like
// (ECMA-48), without what a backspace erased, and with a line break for a carriage
// return, so that nothing is overwritten. Other control characters stay, for [Visible].
func StripEscapes(text string) string {
	if !strings.ContainsAny(text, "\x1b\u009b\r\b") {
		return text
	}
	text = strings.ToValidUTF8(text, "\uFFFD") // so that nothing is put together
	out := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		n := sequence(text[i:])
		switch c := text[i]; {
		case n > 0:
			i += n - 1
		case c == '\r':
			if rest := strings.TrimLeft(text[i:], "\r"); rest != "" && rest[0] != '\n' {
				out = append(out, '\n')
			}
			for i+1 < len(text) && text[i+1] == '\r' {
				i++
			}
		case c == '\b':
			if r, size := utf8.DecodeLastRune(out); r != '\n' {
				out = out[:len(out)-size]
			}
		default:
			out = append(out, c)
		}
	}
	return string(out)
}

// maxSequence is how long an escape sequence may be. A longer one is text behind a stray
// escape.
const maxSequence = 4096

// sequence returns the length of the escape sequence that begins a text, or 0. One
// that does not end takes only its first byte: what follows is text.
func sequence(s string) int {
	switch {
	case strings.HasPrefix(s, "\u009b"):
		return max(2, control(s, 2))
	case len(s) < 2 || s[0] != 0x1b:
		if s[0] == 0x1b {
			return 1
		}
		return 0
	case s[1] == '[':
		return max(1, control(s, 2))
	case strings.IndexByte("]PX^_", s[1]) >= 0:
		return max(1, command(s))
	case s[1] >= ' ' && s[1] <= '/':
		return min(len(s), 3)
	case s[1] >= '0' && s[1] <= '~':
		return 2
	}
	return 1
}

// control returns the length of a control sequence whose parameters begin at i, or 0.
func control(s string, i int) int {
	for ; i < len(s); i++ {
		switch c := s[i]; {
		case c >= '@' && c <= '~':
			return i + 1
		case c < ' ' || c > '?' || i > maxSequence:
			return 0
		}
	}
	return 0
}

// command returns the length of a command string, such as a title or a link, or 0.
func command(s string) int {
	for i := 2; i < min(len(s), maxSequence); i++ {
		switch {
		case s[i] == '\n':
			return 0
		case s[i] == '\a':
			return i + 1
		case s[i] == 0x1b && i+1 < len(s) && s[i+1] == '\\':
			return i + 2
		}
	}
	return 0
}
