package paint

import (
	"bytes"
	"io"
	"slices"
	"strings"

	"github.com/aycoder/aycoder/internal/cli/tty"
)

// Markdown paints Markdown while it arrives. It is a writer for the text, of which it writes
// complete lines to another writer as soon as they cannot change any more. Pending paints the
// rest. The output is the same for any pieces that the text is written in, also if they end inside
// of a character or a marker.
//
// A line of the source is held until it ends, or until it is long and certainly text. The inlines
// of a paragraph are held as source as well, from the first marker that is open, and are parsed
// again when there is more text. So the parsers of both read whole texts.
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
	out    []byte
	before row // what is before a line, kept to use its memory again

	rest []byte // what is not read yet
	line string // the beginning of a line that is held
	open bool   // it is decided what the line is that goes on

	boxes       []box
	leaf        leaf
	opening     string // the first line of the paragraph
	held        bool   // it may become a heading or the head of a table
	fence       string // the marker that fenced code began with
	fenceIndent int
	hidden      int    // the boxes before it are not shown
	indent      string // sets code apart from text
	blanks      int    // lines of code that may be at its end
	gap         int    // boxes in which a blank line was, plus one
	any         bool   // something is written
	wrap        wrapper
	inline      inline
	code        highlighter
	table       *table
}

// maxBlanks is how many blank lines are shown between two of indented code.
const maxBlanks = 100

// maxOpening is the length of the first line of a paragraph that may become a heading or the
// head of a table, if it does not begin with a bar.
const maxOpening = 160

// NewMarkdown returns a painter that writes to w.
func NewMarkdown(s Style, w io.Writer) *Markdown {
	return &Markdown{style: s, w: w, inline: inline{style: s}}
}

// SetWidth changes the width for the blocks that follow, after a resize.
func (p *Markdown) SetWidth(columns int) { p.style.Width = columns }

// minPiece is how much text without the end of a line is read at once.
const minPiece = 128

// Write adds a piece of the text. Its error is that of the writer.
func (p *Markdown) Write(piece []byte) (int, error) {
	for part := range slices.Chunk(piece, maxLine) {
		p.rest = append(p.rest, part...)
		if len(p.rest) < minPiece && bytes.IndexByte(part, '\n') < 0 {
			continue
		}
		text := string(tty.WholeRunes(p.rest))
		p.rest = append(p.rest[:0], p.rest[len(text):]...)
		p.add(p.style.Clean(text))
		if err := p.flush(); err != nil {
			return 0, err
		}
	}
	return len(piece), nil
}

// Flush ends the text, writes what is left of it, and prepares for another text.
func (p *Markdown) Flush() error {
	p.end()
	err := p.flush()
	*p = *NewMarkdown(p.style, p.w)
	return err
}

func (p *Markdown) end() {
	p.add(p.style.Clean(string(p.rest)))
	if p.open || p.line != "" {
		p.add("\n")
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

// maxPending is how many lines are shown of what is not written.
const maxPending = 8

// Pending returns the last lines of the text that are not written, as they would be painted if
// the text ended here. It does not change what is painted later.
func (p *Markdown) Pending() []string {
	q := *p
	q.out, q.boxes = nil, slices.Clone(p.boxes)
	q.wrap.text, q.wrap.spans = slices.Clone(p.wrap.text), slices.Clone(p.wrap.spans)
	if p.table != nil {
		t := *p.table
		t.Markdown, q.table = &q, &t
	}
	q.end()
	lines := strings.Split(string(q.out), "\n")
	last := len(lines) - 1
	return lines[max(last-maxPending, 0):last]
}

// add adds clean text.
func (p *Markdown) add(text string) {
	for text != "" {
		line, rest, ends := strings.Cut(text, "\n")
		if p.open && !p.inCode() {
			p.content(line, ends)
		} else {
			long := len(p.line)+len(line) >= maxLine
			if long {
				line = tty.WholeRunes(line[:maxLine-len(p.line)])
				rest, ends = text[len(line):], false
			}
			p.line += line
			p.hold(ends, long)
		}
		if ends {
			p.open = false
			if p.leaf == headingLine {
				p.closeLeaf()
			}
		}
		text = rest
	}
}

func (p *Markdown) inCode() bool { return p.leaf == fenced || p.leaf == indented }

// minText is the length of a line from which it may be decided that it is text. Tabs behind it
// are not between markers.
const minText = 64

// hold decides what the held line is, if it has ended, is too long, or is text in any case. A line
// of code that has begun is held as well.
func (p *Markdown) hold(ends, long bool) {
	if !ends && !long && (len(p.line) < minText || p.inCode()) {
		return
	}
	line := p.line
	if n := min(len(line), minText); strings.Contains(line[:n], "\t") {
		line = string(of(0, line[:n]).text) + line[n:]
	}
	if p.open {
		p.line = ""
		p.content(line, ends)
		return
	}
	v := p.decide(line, !long)
	if ends || long || v.leaf == paragraph && len(line)-v.at > minText/2 && strings.IndexByte("|<:-=", line[v.at]) < 0 {
		p.line = ""
		p.apply(v, line[v.at:], ends)
		p.open = p.leaf != noLeaf
	}
}

// apply begins the line that a verdict is about, and adds its text.
func (p *Markdown) apply(v verdict, text string, ends bool) {
	same := v.keep == len(p.boxes) && len(v.boxes) == 0
	goesOn := same && v.leaf == p.leaf
	if !goesOn && v.leaf != underlining && v.leaf != tableRow && !(same && v.leaf == blankLine && p.leaf == indented) {
		p.closeLeaf()
		p.keep(v.keep)
		p.boxes = append(p.boxes, v.boxes...)
		p.leaf = v.leaf
		p.measure()
	}
	switch v.leaf {
	case blankLine:
		if len(v.boxes) == 0 { // it is not an item without text
			p.gap = v.keep + 1
		}
		if p.leaf == indented {
			p.blanks = min(p.blanks+1, maxBlanks)
		} else {
			p.leaf = noLeaf
		}
	case fenceEnd:
		p.leaf = noLeaf
	case rule:
		p.wrap.add(comment, strings.Repeat(p.style.glyph("─", "-"), min(p.wrap.width, 40)))
		p.wrap.lines(true, p.writeLine)
		p.leaf = noLeaf
	case underlining:
		p.leaf = headingLine
		p.inline.start(headings[v.level])
		p.closeLeaf()
	case tableRow:
		if p.table == nil {
			p.startTable(text)
			return
		}
		p.table.row(text)
	case headingLine:
		p.inline.start(headings[v.level])
		p.content(closing(text), ends)
	case paragraph:
		if goesOn {
			p.release()
			p.feed("\n")
		} else {
			p.inline.start(0)
			p.opening, p.held = "", true
		}
		p.content(text, ends)
	default:
		if !goesOn {
			p.code = highlighter{base: code}
		}
		if !goesOn && v.leaf == fenced {
			p.fence, p.fenceIndent, p.code = text[:v.level], v.indent, highlight(text[v.level:])
			return
		}
		p.content(text, ends)
	}
}

// release paints the first line of a paragraph.
func (p *Markdown) release() {
	if p.held {
		p.held = false
		p.feed(p.opening)
	}
}

func (p *Markdown) feed(text string) {
	p.inline.feed(text, false, &p.wrap.row)
	p.wrap.lines(false, p.writeLine)
}

var headings = [7]look{1: heading | bold | underline, heading | bold, bold, bold, bold, bold}

// closing removes the marker at the end of a heading.
func closing(b string) string {
	b = strings.Trim(b, " ")
	t := strings.TrimRight(b, "#")
	if t == "" || strings.HasSuffix(t, " ") {
		return strings.TrimRight(t, " ")
	}
	return b
}

// content adds text of the current line.
func (p *Markdown) content(b string, ends bool) {
	switch {
	case p.held:
		p.opening += b
		if n := len(p.opening); n > maxLine || n > maxOpening && p.opening[0] != '|' {
			p.release()
		}
	case p.leaf == paragraph || p.leaf == headingLine:
		p.feed(b)
	case p.leaf == markup:
		p.wrap.add(0, strings.ReplaceAll(b, "\t", " ")) // where a column begins depends on the pieces
		p.wrap.lines(ends, p.writeLine)
	case p.inCode():
		for ; p.blanks > 0; p.blanks-- {
			p.gap = 0
			p.wrap.add(0, "\n")
		}
		p.code.paint(b, ends, &p.wrap.row)
		p.wrap.lines(ends, p.writeLine)
	}
}

// closeLeaf ends a paragraph, a heading, code or a table.
func (p *Markdown) closeLeaf() {
	switch p.leaf {
	case paragraph, headingLine:
		p.release()
		p.inline.feed("", true, &p.wrap.row)
		p.wrap.lines(true, p.writeLine)
	case tableRow:
		p.table.finish()
		p.table = nil
	}
	p.leaf, p.wrap.pre, p.blanks, p.indent = noLeaf, false, 0, ""
}

// keep leaves the boxes from n on. An item without text is shown as well.
func (p *Markdown) keep(n int) {
	n = min(n, len(p.boxes))
	if slices.ContainsFunc(p.boxes[n:], func(b box) bool { return !b.quote && !b.shown }) {
		p.writeLine(row{})
	}
	p.boxes = p.boxes[:n]
	p.gap = min(p.gap, n+1)
}

// writeLine writes a line after the markers of its boxes, and the blank line before it.
func (p *Markdown) writeLine(line row) {
	if p.gap > 0 && p.any {
		p.prefix(min(p.gap-1, len(p.boxes)), false)
		p.out = append(p.out, '\n')
	}
	p.gap, p.any = 0, true
	p.prefix(len(p.boxes), len(line.text) > 0)
	p.out = append(line.render(p.out, p.style), '\n')
}

// prefix writes what is before a line in the first n boxes. An item begins with its marker,
// unless the line is a blank one between two blocks.
func (p *Markdown) prefix(n int, text bool) {
	r := &p.before
	r.reset()
	for i := range p.boxes[:n] {
		b := &p.boxes[i]
		mark, l := b.marker, accent
		switch {
		case b.quote:
			l = comment
		case b.shown || !text && p.gap > 0:
			mark, l = blanks(tty.Width(mark)), 0
		default:
			b.shown = true
		}
		if i >= p.hidden {
			r.add(l, mark)
		}
	}
	r.add(0, p.indent)
	if !text {
		r.trim()
	}
	p.out = r.render(p.out, p.style)
}

// measure sets the width of lines in the boxes. If the boxes take more than half of it, the
// outer ones are not shown.
func (p *Markdown) measure() {
	width, used := p.style.width(), 0
	for p.hidden = len(p.boxes); p.hidden > 0; p.hidden-- {
		n := tty.Width(p.boxes[p.hidden-1].marker)
		if used+n > width/2 {
			break
		}
		used += n
	}
	if p.wrap.pre = p.inCode(); p.wrap.pre && width-used > 10 {
		p.indent = "  "
	}
	p.wrap.width = max(width-used-len(p.indent), 1)
}
