// Package paint turns text into lines for a terminal: Markdown while it streams, and diffs.
//
// Nothing in a text can act on the terminal: [Style.Clean] makes control characters and overrides of
// the reading direction visible, and every painter cleans what it is given. Each line ends with
// the attributes that it began with, so a line can be shown without those around it. Lines fit
// the width of the [Style], which counts wide characters as two columns.
package paint

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"github.com/aycoder/aycoder/internal/cli/tty"
)

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
var emphasis = [11]look{0, bold, bold, 0, 0, 0, 0, faint, 0, 0, bold}

// sgr appends the sequence that switches from the default to a look.
func (s Style) sgr(dst []byte, l look) []byte {
	role, attributes, color := l>>8, l&0xff, 0
	if s.Color {
		color = palette[role]
	} else {
		if attributes |= emphasis[role]; attributes&(italic|reverse) != 0 {
			attributes |= bold
		}
		attributes &= bold | faint
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

// text paints a string.
func (s Style) text(l look, text string) string {
	r := of(l, text)
	return string(r.render(nil, s))
}

// A row is a line that is being painted.
type row struct {
	text  []byte
	spans []span
	stop  int // where the last tab in the text ends
}

// A span is a part of a row with one look. It starts at the end of the span before it, and ends
// with the row if that is shorter.
type span struct {
	end  int
	look look
}

func of(l look, text string) (r row) {
	r.add(l, text)
	return r
}

// tab is the distance of tab stops in code.
const tab = 4

// add adds text, in which tabs are expanded.
func (r *row) add(l look, text string) {
	if text == "" {
		return
	}
	for tabbed := true; tabbed; {
		var part string
		part, text, tabbed = strings.Cut(text, "\t")
		r.text = append(r.text, part...)
		if tabbed {
			r.text = append(r.text, blanks(tab-tty.Width(string(r.text[r.stop:]))%tab)...)
			r.stop = len(r.text)
		}
	}
	if n := len(r.spans); n > 0 && r.spans[n-1].look == l {
		r.spans[n-1].end = len(r.text)
		return
	}
	r.spans = append(r.spans, span{len(r.text), l})
}

func (r *row) addRow(o row) {
	start := 0
	for _, s := range o.spans {
		end := min(s.end, len(o.text))
		r.add(s.look, string(o.text[start:end]))
		start = end
	}
}

// rest returns the text from a place on, to which more may be added without a change of the row.
func (r *row) rest(from int) row {
	o := row{text: slices.Clip(r.text[from:]), spans: make([]span, 0, len(r.spans))}
	for _, s := range r.spans {
		if s.end > from {
			o.spans = append(o.spans, span{s.end - from, s.look})
		}
	}
	return o
}

func (r *row) reset() { r.text, r.spans, r.stop = r.text[:0], r.spans[:0], 0 }

func (r *row) width() int { return tty.Width(string(r.text)) }

func (r *row) trim() { r.text = bytes.TrimRight(r.text, " ") }

// render appends the row with its escape sequences.
func (r *row) render(dst []byte, s Style) []byte {
	start := 0
	for _, span := range r.spans {
		text := r.text[start:min(span.end, len(r.text))]
		start += len(text)
		before := len(dst)
		if !s.Plain && len(text) > 0 {
			dst = s.sgr(dst, span.look)
		}
		painted := len(dst) > before
		if dst = append(dst, text...); painted {
			dst = append(dst, "\x1b[0m"...)
		}
	}
	return dst
}
