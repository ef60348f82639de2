package editmatch

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"
)

const mark = "\ufeff" // byte order mark

// source is a text that is edited. Its lines are what lies between line breaks, so that a
// text that ends in one has an empty last line. Positions are kept in 32 bits: a text has
// at most 64 MB.
type source struct {
	raw    []byte
	bom    int
	crlf   bool    // some lines end in \r\n
	starts []int32 // of the lines in raw
	layers [len(tiers)]*layer

	indents *style // once it was asked for
}

func newSource(raw []byte) *source {
	s := &source{raw: raw, crlf: bytes.Contains(raw, []byte("\r\n"))}
	if bytes.HasPrefix(raw, []byte(mark)) {
		s.bom = len(mark)
	}
	s.starts = lineStarts(raw, s.bom)
	return s
}

// lineStarts returns where lines begin, the first one at from. They are counted before, so
// that the list is made once.
func lineStarts(text []byte, from int) []int32 {
	starts := make([]int32, 1, bytes.Count(text, []byte{'\n'})+1)
	starts[0] = int32(from)
	for pos := from; ; {
		n := bytes.IndexByte(text[pos:], '\n')
		if n < 0 {
			return starts
		}
		pos += n + 1
		starts = append(starts, int32(pos))
	}
}

func (s *source) start(line int) int { return int(s.starts[line]) }

// end returns where a line ends, before its line break.
func (s *source) end(line int) int {
	if line == len(s.starts)-1 {
		return len(s.raw)
	}
	end := s.start(line+1) - 1
	if end > s.start(line) && s.raw[end-1] == '\r' {
		end--
	}
	return end
}

func (s *source) line(i int) []byte { return s.raw[s.start(i):s.end(i)] }

// lineBreak returns what ends a line. For the last line it returns what ends the line before it,
// as lines that are added behind the last one need a break.
func (s *source) lineBreak(line int) string {
	if line == len(s.starts)-1 {
		line--
	}
	if line >= 0 && s.start(line+1)-s.end(line) == 2 {
		return "\r\n"
	}
	return "\n"
}

// layer is a text in the form in which a tier compares it, with \n between lines. Lines
// keep their numbers in each of them, so a line that is found can be looked up in the text.
type layer struct {
	text   []byte
	starts []int32
}

// layer returns the text as tier t sees it.
func (s *source) layer(t tier) *layer {
	if s.layers[t.index] == nil {
		s.layers[t.index] = s.newLayer(t)
	}
	return s.layers[t.index]
}

// A text without \r\n is its own first layer, which saves the copy for most files.
func (s *source) newLayer(t tier) *layer {
	if t.index == 0 && !s.crlf {
		text := s.raw[s.bom:]
		if s.bom == 0 {
			return &layer{text, s.starts}
		}
		return &layer{text, lineStarts(text, 0)}
	}
	l := &layer{make([]byte, 0, len(s.raw)), make([]int32, len(s.starts))}
	for i := range s.starts {
		if i > 0 {
			l.text = append(l.text, '\n')
		}
		l.starts[i] = int32(len(l.text))
		l.text = t.key(l.text, s.line(i))
	}
	return l
}

// locate returns the line, counted from 0, and the column of a position, in bytes of the layer.
func (l *layer) locate(pos int) (line, col int) {
	line, ok := slices.BinarySearch(l.starts, int32(pos))
	if !ok {
		line--
	}
	return line, pos - int(l.starts[line])
}

// blanks are what indentation and blanks at line ends are made of.
const blanks = " \t\v\f"

// isBlank reports whether a text is only blanks, or empty.
func isBlank[T string | []byte](s T) bool {
	for i := range len(s) {
		if strings.IndexByte(blanks, s[i]) < 0 {
			return false
		}
	}
	return true
}

// indentOf returns the blanks at the beginning.
func indentOf(s string) string { return s[:len(s)-len(strings.TrimLeft(s, blanks))] }

// tailOf returns the blanks at the end.
func tailOf(s string) string { return s[len(strings.TrimRight(s, blanks)):] }

// fold appends a text in which typographic characters are replaced by what a
// keyboard has for them. Bytes that are not UTF-8 stay.
func fold(dst, s []byte) []byte {
	for len(s) > 0 {
		n := plainLen(s)
		dst, s = append(dst, s[:n]...), s[n:]
		if len(s) > 0 {
			form, size := foldOne(s)
			dst, s = append(dst, form...), s[size:]
		}
	}
	return dst
}

// plainLen returns how many bytes of ASCII a text begins with.
func plainLen(s []byte) int {
	for i, c := range s {
		if c >= utf8.RuneSelf {
			return i
		}
	}
	return len(s)
}

// foldOne returns the form of the first character and how many bytes that has.
func foldOne(s []byte) (form []byte, size int) {
	r, size := utf8.DecodeRune(s)
	if f, ok := plainForm(r); ok {
		return []byte(f), size
	}
	return s[:size], size
}

// plainForm returns what a keyboard has for a quote, a dash or a space. The characters are
// those that word processors and models put in place of the ones on a keyboard, and Unicode's
// spaces and zero-width characters, but not joiners and marks of direction: they change a text.
func plainForm(r rune) (string, bool) {
	switch r {
	case '‘', '’', '‚', '‛', '′':
		return "'", true
	case '“', '”', '„', '‟', '″':
		return `"`, true
	case '‐', '‑', '‒', '–', '—', '―', '−':
		return "-", true
	case '…':
		return "...", true
	case '\u00a0', '\u202f', '\u205f', '\u3000':
		return " ", true
	case '\u00ad', '\u200b', '\u2060', '\ufeff': // have no width
		return "", true
	}
	return " ", r >= '\u2000' && r <= '\u200a'
}

// cursor walks along a text and its folded form. One character may become three, as the
// ellipsis does, or none.
type cursor struct {
	text     []byte
	pos, key int // bytes of the text, and of its folded form, that are behind
}

// next goes over one character, and reports false at the end.
func (c *cursor) next() bool {
	if c.pos == len(c.text) {
		return false
	}
	form, size := foldOne(c.text[c.pos:])
	c.pos, c.key = c.pos+size, c.key+len(form)
	return true
}

// toPos goes on to a position in the text.
func (c *cursor) toPos(pos int) bool {
	for c.pos < pos && c.next() {
	}
	return c.pos == pos
}

// toKey goes on to a position in the folded form. There is none within a character.
func (c *cursor) toKey(key int) bool {
	for c.key < key && c.next() {
	}
	return c.key == key
}
