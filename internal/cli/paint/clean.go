package paint

import (
	"strings"
	"unicode/utf8"

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
	if control := r < ' ' || r == 0x7f; s.Plain && control && !strings.ContainsRune("\r\n\t", r) {
		return append(dst, '^', byte(r)^0x40)
	}
	return tty.AppendClean(dst, r)
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
