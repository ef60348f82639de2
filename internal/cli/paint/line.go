package paint

import (
	"bytes"
	"strings"
)

// maxLine is how many bytes of a line are read to find out what it is. The beginning of a longer
// line that is not decided then is text.
const maxLine = 4096

// maxDepth is how deep quotes and lists nest. Beyond it, their markers are text.
const maxDepth = 16

// A leaf is a kind of block that has text, or of a line.
type leaf byte

const (
	noLeaf leaf = iota
	blankLine
	paragraph
	headingLine
	underlining // of a heading, below its text
	rule
	fenced
	fenceEnd
	indented
	markup // HTML
	tableHead
	tableRow
)

// A box is a block with other blocks in it: a quote, or an item of a list.
type box struct {
	quote  bool
	indent int    // of the text, from that of the marker's line
	marker string // what is shown before the first line
	shown  bool   // the marker has been
}

// A verdict says what a line is.
type verdict struct {
	keep   int   // boxes that go on
	boxes  []box // new ones
	leaf   leaf
	at     int  // where its text begins
	level  int  // of a heading, or the length of a fence
	indent int  // of a fence
	lazy   bool // it continues a paragraph
}

// A need is how much more of a line a decision takes: nothing, the next byte, or all of it.
type need byte

const (
	decided need = iota
	needByte
	needLine
)

// A reader decides what a line is from its beginning. If it would have to look beyond that, it
// notes what is needed, and what it finds afterwards does not count.
type reader struct {
	*Markdown
	b    []byte
	i    int
	last bool // there is no more to come
	full bool // b is the whole line
	need need
	v    verdict
}

// wants notes that the decision needs more of the line, if there may be more.
func (r *reader) wants(n need) {
	if r.need == decided && !r.last {
		r.need = n
	}
}

// decide says what a line is that begins with b, or how much of it is needed to say it. Tabs are
// expanded.
func (p *Markdown) decide(b []byte, full bool) (verdict, need) {
	p.inline.steps += len(b)
	r := reader{Markdown: p, b: b, full: full, last: full || len(b) >= maxLine}
	r.outer()
	switch {
	case r.need != decided:
	case p.leaf == fenced && r.v.keep == len(p.boxes):
		r.inFence()
	default:
		for r.inner() && r.need == decided {
		}
	}
	return r.v, r.need
}

// indent returns the number of blanks, and whether all of the line is blank.
func (r *reader) indent() (n int, blank bool) {
	for r.i+n < len(r.b) && r.b[r.i+n] == ' ' {
		n++
	}
	if blank = r.i+n == len(r.b); blank {
		r.wants(needByte)
	}
	return n, blank
}

// outer finds the open boxes that the line is in.
func (r *reader) outer() {
	for _, box := range r.Markdown.boxes {
		n, blank := r.indent()
		switch {
		case box.quote && !blank && n < 4 && r.b[r.i+n] == '>':
			r.i += n + 1
			r.skipBlank()
		case box.quote:
			return
		case blank:
		case n >= box.indent:
			r.i += box.indent
		case n > 1:
			// Models indent the lists in numbered items by two blanks as well, which is less than
			// the specification asks for.
			if _, found := r.item(n); !found {
				return
			}
			r.i += n
		default:
			return
		}
		r.v.keep++
	}
}

// skipBlank skips the blank after a marker.
func (r *reader) skipBlank() {
	switch {
	case r.i == len(r.b):
		r.wants(needByte)
	case r.b[r.i] == ' ':
		r.i++
	}
}

// inFence reads a line of fenced code.
func (r *reader) inFence() {
	n, blank := r.indent()
	r.v.leaf, r.v.at = fenced, r.i+min(n, r.fence.indent)
	if blank || n > 3 || r.b[r.i+n] != r.fence.char {
		return
	}
	r.wants(needLine)
	rest := bytes.TrimRight(r.b[r.i+n:], " ")
	k, _ := prefixOf(rest, r.fence.char)
	if r.full && k == len(rest) && k >= r.fence.length {
		r.v.leaf = fenceEnd
	}
}

// prefixOf counts the repetitions of a character that a text begins with, and reports whether
// there is something after them.
func prefixOf(b []byte, c byte) (n int, ended bool) {
	for n < len(b) && b[n] == c {
		n++
	}
	return n, n < len(b)
}

// inner reads the next marker of the line. It reports whether another one may follow.
func (r *reader) inner() (again bool) {
	n, blank := r.indent()
	if blank {
		r.v.leaf, r.v.at = blankLine, len(r.b)
		return false
	}
	if n > 3 && !r.inParagraph() && !(r.leaf == paragraph && r.v.keep < len(r.Markdown.boxes) && len(r.v.boxes) == 0) {
		r.v.leaf, r.v.at = indented, r.i+4
		return false
	}
	rest := r.b[r.i+n:]
	if n < 4 || r.v.keep > 0 {
		if r.rule(rest) {
			return false
		}
		if r.container(n, rest) {
			return true
		}
	}
	r.v.at = r.i + n
	if n > 3 || !r.special(rest) {
		r.text()
	}
	return false
}

// inParagraph reports whether the line may go on with a paragraph in the innermost box.
func (r *reader) inParagraph() bool {
	return r.leaf == paragraph && r.v.keep == len(r.Markdown.boxes) && len(r.v.boxes) == 0
}

// container reads the marker of a quote or an item.
func (r *reader) container(n int, rest []byte) bool {
	if r.v.keep+len(r.v.boxes) >= maxDepth {
		return false
	}
	if rest[0] == '>' && n < 4 {
		r.i += n + 1
		r.skipBlank()
		r.v.boxes = append(r.v.boxes, box{quote: true})
		return true
	}
	item, found := r.item(n)
	if found {
		r.i = min(r.i+item.indent, len(r.b))
		r.task(&item)
		r.v.boxes = append(r.v.boxes, item)
	}
	return found
}

// item reads the marker of an item after n blanks. An item with a number other than 1 and an
// empty one do not end a paragraph.
func (r *reader) item(n int) (item box, found bool) {
	rest := r.b[r.i+n:]
	size := r.markerSize(rest)
	if size == 0 {
		return item, false
	}
	gap := 0
	for size+gap < len(rest) && rest[size+gap] == ' ' {
		gap++
	}
	empty := size+gap == len(rest)
	if empty {
		r.wants(needByte)
	}
	switch {
	case r.inParagraph() && (empty || size > 1 && string(rest[:size-1]) != "1"):
		return item, false
	case empty || gap > 4:
		gap = 1
	}
	item = box{indent: n + size + gap, marker: r.style.glyph("• ", "- ")}
	if size > 1 {
		item.marker = string(rest[:size]) + " "
	}
	return item, true
}

// markerSize returns the length of the marker of a list that a text begins with, or 0.
func (r *reader) markerSize(b []byte) (n int) {
	if b[0] == '-' || b[0] == '+' || b[0] == '*' {
		n = 1
	} else {
		for n < len(b) && n < 10 && b[n] >= '0' && b[n] <= '9' {
			n++
		}
		if n == 0 || n == 10 || n < len(b) && b[n] != '.' && b[n] != ')' {
			return 0
		}
		n++
	}
	if n >= len(b) {
		r.wants(needByte)
	}
	if n > len(b) || n < len(b) && b[n] != ' ' {
		return 0
	}
	return n
}

// task reads the box of a task at the beginning of an item.
func (r *reader) task(item *box) {
	rest := r.b[r.i:]
	for i, set := range []string{"[", " xX", "]", " "} {
		if i == len(rest) {
			r.wants(needByte)
			return
		}
		if strings.IndexByte(set, rest[i]) < 0 {
			return
		}
	}
	mark := r.style.glyph("☐ ", "[ ] ")
	if rest[1] != ' ' {
		mark = r.style.glyph("☑ ", "[x] ")
	}
	if item.marker == r.style.glyph("• ", "- ") && !r.style.Plain {
		item.marker = ""
	}
	item.marker += mark
	r.i += 4
}

// rule reads a thematic break, or the underlining of a heading.
func (r *reader) rule(b []byte) bool {
	c := b[0]
	if c != '-' && c != '*' && c != '_' || len(b) > 256 {
		return false
	}
	n := 0
	for _, x := range b {
		if x != c && x != ' ' {
			return false
		}
		if x == c {
			n++
		}
	}
	r.wants(needByte)
	if c == '-' && r.canUnderline(b) {
		r.v.leaf, r.v.level = underlining, 2
		return true
	}
	if r.full && n >= 3 {
		r.v.leaf = rule
	}
	return r.v.leaf == rule
}

// canUnderline reports whether the line makes a heading of the paragraph above.
func (r *reader) canUnderline(b []byte) bool {
	b = bytes.TrimRight(b, " ")
	n, _ := prefixOf(b, b[0])
	return r.full && n == len(b) && r.inParagraph() && r.convertible()
}

// special reads the beginning of a block that is not a paragraph.
func (r *reader) special(b []byte) bool {
	switch c := b[0]; {
	case r.convertible() && r.inParagraph() && bytes.IndexByte([]byte("|:-"), c) >= 0 && bytes.IndexByte(r.opening, '|') >= 0:
		return r.delimiters(b)
	case c == '#':
		return r.heading(b)
	case c == '`' || c == '~':
		return r.openFence(b)
	case c == '=' && r.inParagraph() && r.convertible():
		r.wants(needLine)
		r.v.leaf, r.v.level = underlining, 1
		return r.canUnderline(b)
	case c == '<' && !r.inParagraph() && r.leaf != markup:
		return r.html(b)
	case c == '|' && !r.inParagraph() && r.leaf != tableRow:
		r.wants(needLine)
		r.v.leaf = tableHead
		return r.full
	}
	return false
}

// delimiters reads the second line of a table.
func (r *reader) delimiters(b []byte) bool {
	r.wants(needLine)
	r.v.leaf = tableRow
	return r.full && aligns(b) != nil && len(aligns(b)) == len(cells(r.opening))
}

func (r *reader) heading(b []byte) bool {
	n, ended := prefixOf(b, '#')
	if n > 6 || ended && b[n] != ' ' {
		return false
	}
	r.wants(needLine)
	r.v.leaf, r.v.level = headingLine, n
	r.v.at += n
	return true
}

func (r *reader) openFence(b []byte) bool {
	n, ended := prefixOf(b, b[0])
	if n < 3 && (ended || r.last) {
		return false
	}
	r.wants(needLine)
	if b[0] == '`' && bytes.IndexByte(b[n:], '`') >= 0 {
		return false
	}
	r.v.leaf, r.v.level, r.v.indent = fenced, n, r.v.at-r.i
	return r.full
}

// html reads a line of markup, which ends as it begins, with an angle bracket. It and the lines
// after it up to a blank one are shown as they are.
func (r *reader) html(b []byte) bool {
	if len(b) > 1 && b[1] != '/' && b[1] != '!' && b[1] != '?' && (b[1]|0x20 < 'a' || b[1]|0x20 > 'z') {
		return false
	}
	r.wants(needLine)
	r.v.leaf = markup
	return r.full && bytes.HasSuffix(bytes.TrimRight(b, " "), []byte{'>'}) && !address(bytes.Trim(b, "<> "))
}

// text reads a line without a marker: of a paragraph, a table or markup.
func (r *reader) text() {
	inside := r.v.keep == len(r.Markdown.boxes) && len(r.v.boxes) == 0
	r.v.leaf = paragraph
	switch {
	case r.leaf == paragraph && len(r.v.boxes) == 0:
		r.v.lazy, r.v.keep = true, len(r.Markdown.boxes)
	case inside && r.leaf == markup:
		r.v.leaf = markup
	case inside && r.leaf == tableRow:
		if r.wants(needLine); r.full {
			r.v.leaf = tableRow
		}
	}
}
