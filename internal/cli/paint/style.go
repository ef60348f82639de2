// Package paint turns text into lines for a terminal: Markdown while it streams, and diffs.
//
// Nothing in a text can act on the terminal: [Style.Clean] makes control characters and overrides of
// the reading direction visible, and every painter cleans what it is given. Each line ends with
// the attributes that it began with, so a line can be shown without those around it. Lines fit
// the width of the [Style], which counts wide characters as two columns.
package paint

import "strconv"

// Style says what the terminal can show. The zero value paints for 80 columns, without colour.
type Style struct {
	// Color permits colours. Without it, only bold and faint distinguish text, as NO_COLOR wants.
	Color bool
	// Width is the number of columns. Default: 80.
	Width int
	// Plain leaves out all escape sequences, and all symbols that are not ASCII. The words are
	// the same.
	Plain bool
}

func (s Style) width() int {
	if s.Width <= 0 {
		return 80
	}
	return s.Width
}

// glyph returns a symbol, or its replacement in plain text.
func (s Style) glyph(symbol, ascii string) string {
	if s.Plain {
		return ascii
	}
	return symbol
}

// dot separates the parts of a line.
func (s Style) dot() string { return s.glyph(" · ", " - ") }

// A look says how a piece of text is shown: attributes, and a role that decides the colour.
type look uint16

const (
	bold look = 1 << iota
	faint
	italic
	underline
	reverse
)

const (
	heading look = (iota + 1) << 8
	code
	link
	keyword
	quoted // a string in code
	number
	comment
	added
	removed
	accent
)

// palette has the colours of the roles. They are from the 16 basic colours, so that the theme of the
// user decides what they look like, and readable on white and on black, since no terminal is asked for
// its background: yellow and bright cyan are not on white, and the dark blue is not on black.
var palette = [11]int{0, 95, 36, 94, 35, 32, 36, 90, 32, 31, 36}

// emphasis says what takes the place of a role where there are no colours.
var emphasis = [11]look{bold, bold, bold, 0, 0, 0, 0, faint, 0, 0, bold}

// sgr appends the sequence that switches from the default to a look.
func (s Style) sgr(dst []byte, l look) []byte {
	role, attributes := l>>8, l&0xff
	color := 0
	if s.Color {
		color = palette[role]
	} else {
		attributes = colorless(attributes)
		if role > 0 {
			attributes |= emphasis[role]
		}
	}
	start := len(dst)
	dst = append(dst, "\x1b["...)
	for i, n := range [...]byte{'1', '2', '3', '4', '7'} {
		if attributes>>i&1 != 0 {
			dst = append(dst, n, ';')
		}
	}
	if color != 0 {
		dst = append(strconv.AppendInt(dst, int64(color), 10), ';')
	}
	if dst[len(dst)-1] != ';' {
		return dst[:start]
	}
	dst[len(dst)-1] = 'm'
	return dst
}

// colorless replaces attributes that are not bold or faint.
func colorless(l look) look {
	if l&(italic|reverse) != 0 {
		l |= bold
	}
	return l & (bold | faint)
}

// text paints a string.
func (s Style) text(l look, text string) string {
	r := row{}
	r.add(l, []byte(text), 0)
	return string(r.render(nil, s))
}

// A row is a line that is being painted.
type row struct {
	text  []byte
	spans []span
	width int
}

// A span is a part of a row with one look. It starts at the end of the span before it.
type span struct {
	end  int
	look look
}

func (r *row) add(l look, text []byte, width int) {
	r.text = append(r.text, text...)
	r.width += width
	if n := len(r.spans); n > 0 && r.spans[n-1].look == l {
		r.spans[n-1].end = len(r.text)
		return
	}
	r.spans = append(r.spans, span{len(r.text), l})
}

func (r *row) addRow(o *row) {
	start := 0
	for _, s := range o.spans {
		r.add(s.look, o.text[start:s.end], 0)
		start = s.end
	}
	r.width += o.width
}

func (r *row) reset() { r.text, r.spans, r.width = r.text[:0], r.spans[:0], 0 }

func (r *row) lastLook() look {
	if n := len(r.spans); n > 0 {
		return r.spans[n-1].look
	}
	return 0
}

// render appends the row with its escape sequences.
func (r *row) render(dst []byte, s Style) []byte {
	if s.Plain {
		return append(dst, r.text...)
	}
	start := 0
	for _, span := range r.spans {
		if span.end == start {
			continue
		}
		before := len(dst)
		dst = s.sgr(dst, span.look)
		painted := len(dst) > before
		dst = append(dst, r.text[start:span.end]...)
		if start = span.end; painted {
			dst = append(dst, "\x1b[0m"...)
		}
	}
	return dst
}

// trim removes the blanks at the end.
func (r *row) trim() {
	for len(r.text) > 0 && r.text[len(r.text)-1] == ' ' {
		r.text = r.text[:len(r.text)-1]
	}
	for i := range r.spans {
		r.spans[i].end = min(r.spans[i].end, len(r.text))
	}
}

func (r row) clone() row {
	r.text, r.spans = append([]byte(nil), r.text...), append([]span(nil), r.spans...)
	return r
}
