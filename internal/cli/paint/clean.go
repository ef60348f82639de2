package paint

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Clean makes foreign text safe for a terminal: it cannot move the cursor, change a colour, set a
// title or turn the reading direction. Line feeds and tabs stay, carriage returns are removed,
// and other control characters are made visible, as symbols or, in plain text, as ^[ and the
// like. Bytes that are not UTF-8 become U+FFFD.
func (s Style) Clean(text string) string {
	if utf8.ValidString(text) && !strings.ContainsFunc(text, unsafeRune) {
		return text
	}
	out := make([]byte, 0, len(text)+16)
	for _, r := range text {
		out = s.appendRune(out, r)
	}
	return string(out)
}

// line is Clean for text that must stay on one line.
func (s Style) line(text string) string {
	return strings.Join(strings.Fields(s.Clean(text)), " ")
}

// appendRune appends a rune, or what is shown in its place.
func (s Style) appendRune(dst []byte, r rune) []byte {
	switch {
	case r == '\r':
		return dst
	case !unsafeRune(r):
		return utf8.AppendRune(dst, r)
	case s.Plain && r < 0x80:
		return append(dst, '^', byte(r)^0x40)
	case r < ' ':
		return utf8.AppendRune(dst, 0x2400+r) // ␛ and similar symbols
	case r == 0x7f:
		return utf8.AppendRune(dst, 0x2421)
	}
	return fmt.Appendf(dst, "<%04x>", r)
}

// unsafeRune reports whether a terminal might act on a rune: C0 and C1 controls, and characters
// that change the direction of text (UAX 9, explicit formatting) or separate lines.
func unsafeRune(r rune) bool {
	switch {
	case r == '\n' || r == '\t':
		return false
	case r < ' ', r >= 0x7f && r <= 0x9f:
		return true
	case r == 0x2028, r == 0x2029, r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069:
		return true
	}
	return false
}

// cleanPieces cleans a text that arrives in pieces, which may be cut inside of a character.
type cleanPieces struct {
	style Style
	rest  []byte // the beginning of a character
	out   []byte
}

// add returns what is known of the text now. The result is valid until the next call.
func (c *cleanPieces) add(piece []byte, last bool) []byte {
	c.out = c.out[:0]
	if len(c.rest) > 0 {
		piece = append(c.rest, piece...)
		c.rest = nil
	}
	for len(piece) > 0 {
		if b := piece[0]; b >= ' ' && b < 0x7f || b == '\n' || b == '\t' {
			c.out = append(c.out, b)
			piece = piece[1:]
			continue
		}
		if !last && !utf8.FullRune(piece) {
			c.rest = append([]byte(nil), piece...)
			break
		}
		r, size := utf8.DecodeRune(piece)
		c.out = c.style.appendRune(c.out, r)
		piece = piece[size:]
	}
	return c.out
}
