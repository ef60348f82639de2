package paint

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// Markdown paints Markdown while it arrives. It is a writer for the text, of which it writes
// complete lines to another writer as soon as they cannot change any more. The output is the
// same for any pieces that the text is written in, also if they end inside of a character or a
// marker.
//
// It knows the blocks and inlines of CommonMark, and the tables and task lists of GitHub. It
// cannot go back, so definitions of links are text, and an underlining makes a heading only of a
// paragraph that has not begun its second line. A table is painted when it is complete, or when
// it is too long to hold. Blocks have a blank line between them where the source has some.
//
// A text of any length takes a bounded amount of memory. A Markdown is not safe for concurrent use.
type Markdown struct {
	style  Style
	w      io.Writer
	pieces cleanPieces
	out    []byte
	before row // what is before a line, kept to use its memory again

	line []byte // the beginning of a line that is not decided
	need int    // the length that line must have for that, or maxLine if all of it is needed
	open bool   // the line is decided, and has not ended

	boxes    []box
	leaf     leaf
	opening  []byte // the first line of the paragraph
	held     bool   // it has not been fed
	more     bool   // the paragraph has other lines, or lines that are written
	fence    fence
	hidden   int    // the boxes before it are not shown
	indent   string // sets code apart from text
	blanks   int    // lines of code that may be at its end
	gap      int    // boxes in which a blank line was, plus one
	any      bool   // something is written
	wrap     wrapper
	inline   inline
	code     highlighter
	codeLine []byte
	table    *table
}

// A fence is what fenced code began with.
type fence struct {
	char           byte
	length, indent int
	begun          bool // its own line has ended
}

// maxOpening is the length of the first line of a paragraph that may become a heading or the
// head of a table.
const maxOpening = 512

// NewMarkdown returns a painter that writes to w.
func NewMarkdown(s Style, w io.Writer) *Markdown {
	p := &Markdown{style: s, w: w, pieces: cleanPieces{style: s}, wrap: wrapper{style: s}}
	p.inline.to = &p.wrap
	return p
}

// SetWidth changes the width for the blocks that follow, after a resize.
func (p *Markdown) SetWidth(columns int) { p.style.Width, p.wrap.style.Width = columns, columns }

// Write adds a piece of the text. Its error is that of the writer.
func (p *Markdown) Write(piece []byte) (int, error) {
	n := len(piece)
	for len(piece) > 0 {
		size := min(len(piece), maxLine)
		p.add(p.pieces.add(piece[:size], false))
		piece = piece[size:]
		if err := p.flush(); err != nil {
			return 0, err
		}
	}
	return n, nil
}

// Flush ends the text, writes what is left of it, and prepares for another text.
func (p *Markdown) Flush() error {
	p.end()
	err := p.flush()
	*p = *NewMarkdown(p.style, p.w)
	p.inline.to = &p.wrap
	return err
}

func (p *Markdown) end() {
	p.add(p.pieces.add(nil, true))
	if p.open || len(p.line) > 0 {
		p.add([]byte{'\n'})
	}
	p.closeLeaf()
	p.keep(0)
}

func (p *Markdown) flush() error {
	if len(p.out) == 0 {
		return nil
	}
	_, err := p.w.Write(p.out)
	p.out = p.out[:0]
	return err
}

// Pending returns the last line of the text that is not written, as it would be painted if the
// text ended here, or "" if there is none. It does not change what is painted later.
func (p *Markdown) Pending() string {
	if p.table != nil {
		return p.style.fit(strings.TrimSpace(string(p.line)), p.style.width())
	}
	q := *p
	q.line, q.out, q.before, q.code.src = slices.Clone(p.line), nil, row{}, nil
	q.pieces.rest, q.pieces.out = slices.Clone(p.pieces.rest), nil
	q.boxes, q.opening, q.codeLine = slices.Clone(p.boxes), slices.Clone(p.opening), slices.Clone(p.codeLine)
	q.wrap, q.inline = p.wrap.clone(), p.inline.clone()
	q.inline.to = &q.wrap
	q.end()
	lines := bytes.Split(bytes.TrimRight(q.out, "\n"), []byte{'\n'})
	return string(lines[len(lines)-1])
}

// add adds cleaned text.
func (p *Markdown) add(b []byte) {
	for len(b) > 0 {
		if !p.open {
			b = b[p.begin(b):]
			continue
		}
		i := bytes.IndexByte(b, '\n')
		if i < 0 {
			p.content(b)
			return
		}
		p.content(b[:i])
		p.endLine()
		b = b[i+1:]
	}
}

// begin adds to the beginning of a line, and returns how much it took. Tabs are expanded.
func (p *Markdown) begin(b []byte) int {
	full := b[0] == '\n'
	_, size := utf8.DecodeRune(b)
	switch {
	case full:
	case b[0] == '\t':
		p.line = append(p.line, "    "[len(p.line)%tab:]...)
	default:
		p.line = append(p.line, b[:size]...)
	}
	// Between the first and the last of some blanks, nothing is decided.
	k := len(p.line)
	blanks := k > 1 && p.line[k-1] == ' ' && p.line[k-2] == ' '
	if !full && k < maxLine && (blanks || k < p.need) {
		return size
	}
	v, need := p.decide(p.line, full)
	switch need {
	case needByte:
		p.need = k + 1
		return size
	case needLine:
		p.need = maxLine
		return size
	}
	p.need, p.open = 0, true
	p.apply(v, p.line)
	if full {
		p.endLine()
	}
	p.line = p.line[:0]
	return size
}

// apply begins the line that a verdict is about.
func (p *Markdown) apply(v verdict, line []byte) {
	goesOn := v.keep == len(p.boxes) && len(v.boxes) == 0 && v.leaf == p.leaf &&
		(v.lazy || v.leaf == fenced && p.fence.length > 0 || v.leaf == markup || v.leaf == tableRow || v.leaf == indented)
	switch {
	case v.leaf == underlining:
		p.underline(v.level)
		return
	case v.leaf == tableRow && p.table == nil:
		p.startTable(line[v.at:])
		return
	case !goesOn && !(v.leaf == blankLine && p.leaf == indented && v.keep == len(p.boxes) && len(v.boxes) == 0):
		p.closeLeaf()
		p.keep(v.keep)
		p.boxes = append(p.boxes, v.boxes...)
		p.start(v, line)
		p.measure()
	}
	p.text(v, line[v.at:], goesOn)
}

// start begins a block.
func (p *Markdown) start(v verdict, line []byte) {
	p.leaf = v.leaf
	switch v.leaf {
	case blankLine, fenceEnd:
		p.leaf = noLeaf
	case paragraph, tableHead:
		p.opening, p.held, p.more = p.opening[:0], v.leaf == tableHead, false
		p.leaf = paragraph
		p.inline.start(0)
	case headingLine:
		p.inline.start(headings(v.level))
	case fenced:
		rest := line[v.at:]
		p.fence = fence{char: rest[0], length: v.level, indent: v.indent}
		p.code = highlight(string(rest[v.level:]))
	case indented:
		p.code = highlighter{base: code}
	}
}

// text adds the rest of a decided line.
func (p *Markdown) text(v verdict, b []byte, goesOn bool) {
	switch v.leaf {
	case blankLine:
		if len(v.boxes) > 0 {
			return // an item without text
		}
		if p.gap = v.keep + 1; p.leaf == indented {
			p.blanks++
		}
	case rule:
		p.wrap.add(comment, bytes.Repeat([]byte(p.style.glyph("─", "-")), min(p.wrap.width, 40)))
	case fenced:
		if goesOn {
			p.content(b)
		}
	case headingLine:
		p.content(closing(b))
	case tableRow:
		p.table.add(string(b))
	case paragraph:
		if goesOn {
			p.nextLine()
		}
		p.content(b)
	case tableHead:
		p.opening = append(p.opening, b...)
	case indented, markup:
		p.content(b)
	}
}

// nextLine begins another line of a paragraph.
func (p *Markdown) nextLine() {
	p.feedHeld()
	p.more = true
	p.inline.feed([]byte{'\n'})
}

func (p *Markdown) feedHeld() {
	if p.held {
		p.held = false
		p.inline.feed(p.opening)
	}
}

func headings(level int) look {
	switch level {
	case 1:
		return heading | bold | underline
	case 2:
		return heading | bold
	}
	return bold
}

// closing removes the marker at the end of a heading.
func closing(b []byte) []byte {
	b = bytes.Trim(b, " ")
	t := bytes.TrimRight(b, "#")
	if len(t) == 0 || t[len(t)-1] == ' ' {
		return bytes.TrimRight(t, " ")
	}
	return b
}

// content adds text of the current line.
func (p *Markdown) content(b []byte) {
	switch p.leaf {
	case paragraph, headingLine:
		if p.leaf == paragraph && !p.more && len(p.opening) <= maxOpening {
			p.opening = append(p.opening, b...)
		}
		p.inline.feed(b)
		p.drain()
	case markup:
		p.wrap.add(0, b)
		p.drain()
	case fenced, indented:
		for len(p.codeLine)+len(b) > maxLine {
			n := max(maxLine-len(p.codeLine), 0)
			for n < len(b) && !utf8.RuneStart(b[n]) {
				n++
			}
			p.codeLine = append(p.codeLine, b[:n]...)
			p.paintCode(false)
			b = b[n:]
		}
		p.codeLine = append(p.codeLine, b...)
	}
}

// endLine ends the current line.
func (p *Markdown) endLine() {
	p.open = false
	switch p.leaf {
	case headingLine:
		p.closeLeaf()
	case markup, rule:
		p.wrap.close()
		p.drain()
		if p.leaf == rule {
			p.leaf = noLeaf
		}
	case fenced, indented:
		p.endCode()
	}
}

// endCode ends a line of code. The line of the fence itself is not one.
func (p *Markdown) endCode() {
	switch {
	case p.leaf == fenced && !p.fence.begun:
		p.fence.begun = true
	case p.leaf == indented && len(p.codeLine) == 0:
	default:
		for ; p.blanks > 0; p.blanks-- {
			p.gap = 0
			p.wrap.endLine()
		}
		p.paintCode(true)
	}
}

// paintCode paints the line of code, or the beginning of a long one.
func (p *Markdown) paintCode(end bool) {
	p.wrap.pre = true
	p.code.paint(p.codeLine, end, &p.wrap)
	p.codeLine = p.codeLine[:0]
	if end {
		p.wrap.endCluster()
		p.wrap.endLine()
	}
	p.drain()
}

// convertible reports whether the paragraph is one line of which nothing is written.
func (p *Markdown) convertible() bool {
	return p.leaf == paragraph && !p.more && (p.held || len(p.opening) <= maxOpening)
}

// underline makes a heading of the paragraph.
func (p *Markdown) underline(level int) {
	p.wrap.reset()
	p.leaf, p.held = headingLine, false
	p.inline.start(headings(level))
	p.inline.feed(p.opening)
	p.closeLeaf()
}

// closeLeaf ends a paragraph, a heading, code or a table.
func (p *Markdown) closeLeaf() {
	switch p.leaf {
	case paragraph, headingLine:
		p.feedHeld()
		p.inline.finish()
		p.wrap.close()
		p.drain()
	case tableRow:
		p.table.finish()
		p.table = nil
	case fenced, indented:
		p.wrap.pre, p.blanks, p.indent, p.fence = false, 0, "", fence{}
	}
	p.leaf = noLeaf
}

// keep leaves the boxes from n on. An item without text is shown as well.
func (p *Markdown) keep(n int) {
	n = min(n, len(p.boxes))
	if slices.ContainsFunc(p.boxes[n:], func(b box) bool { return !b.quote && !b.shown }) {
		p.writeLine(nil)
	}
	p.boxes = p.boxes[:n]
	p.gap = min(p.gap, n+1)
}

// drain writes the finished lines.
func (p *Markdown) drain() {
	p.wrap.take(func(line []byte, _ int) {
		p.more = true
		p.writeLine(line)
	})
}

// writeLine writes a line after the markers of its boxes, and the blank line before it.
func (p *Markdown) writeLine(line []byte) {
	if p.gap > 0 && p.any {
		p.out = append(p.prefix(p.out, min(p.gap-1, len(p.boxes)), false), '\n')
	}
	p.gap, p.any = 0, true
	p.out = p.prefix(p.out, len(p.boxes), len(line) > 0)
	p.out = append(append(p.out, line...), '\n')
}

// prefix appends what is before a line in the first n boxes. An item begins with its marker,
// unless the line is a blank one between two blocks.
func (p *Markdown) prefix(dst []byte, n int, text bool) []byte {
	r := &p.before
	r.reset()
	for i := range p.boxes[:n] {
		b := &p.boxes[i]
		mark, l := b.prefix(p.style), accent
		switch {
		case b.quote:
			l = comment
		case b.shown || !text && p.gap > 0:
			mark, l = blanks(Width(mark)), 0
		default:
			b.shown = true
		}
		if i >= p.hidden {
			r.add(l, []byte(mark), 0)
		}
	}
	r.add(0, []byte(p.indent), 0)
	if !text {
		r.trim()
	}
	return r.render(dst, p.style)
}

// prefix returns what the first line in a box begins with.
func (b *box) prefix(s Style) string {
	if b.quote {
		return s.glyph("│ ", "> ")
	}
	return b.marker
}

// measure sets the width of lines in the boxes. If the boxes take more than half of it, the
// outer ones are not shown.
func (p *Markdown) measure() {
	width, used := p.style.width(), 0
	for p.hidden = len(p.boxes); p.hidden > 0; p.hidden-- {
		n := Width(p.boxes[p.hidden-1].prefix(p.style))
		if used+n > width/2 {
			break
		}
		used += n
	}
	p.indent = ""
	if (p.leaf == fenced || p.leaf == indented) && width-used > 10 {
		p.indent = "  "
	}
	p.wrap.width = max(width-used-len(p.indent), 1)
}
