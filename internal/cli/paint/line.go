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

// The answers of a decision that needs more of the line: the next byte, or all of it.
const (
	decided = iota
	needByte
	needLine
)

// A reader decides what a line is from its beginning.
type reader struct {
	*Markdown
	b    []byte
	i    int
	last bool // there is no more to come
	full bool // b is the whole line
	v    verdict
}

// decide says what a line is that begins with b, or how much of it is needed to say it. Tabs are
// expanded.
func (p *Markdown) decide(b []byte, full bool) (verdict, int) {
	p.inline.steps += len(b)
	r := reader{Markdown: p, b: b, full: full, last: full || len(b) >= maxLine}
	if need := r.outer(); need != decided {
		return r.v, need
	}
	if p.leaf == fenced && r.v.keep == len(p.boxes) {
		return r.v, r.inFence()
	}
	for {
		again, need := r.inner()
		if !again {
			return r.v, need
		}
	}
}

// indent returns the number of blanks, and whether all of the line is blank. If that is not yet
// known, more is true.
func (r *reader) indent() (n int, blank, more bool) {
	for r.i+n < len(r.b) && r.b[r.i+n] == ' ' {
		n++
	}
	end := r.i+n == len(r.b)
	return n, end, end && !r.last
}

// outer finds the open boxes that the line is in.
func (r *reader) outer() int {
	for _, box := range r.Markdown.boxes {
		n, blank, more := r.indent()
		if more {
			return needByte
		}
		switch {
		case box.quote && !blank && n < 4 && r.b[r.i+n] == '>':
			r.i += n + 1
			if !r.skipBlank() {
				return needByte
			}
		case box.quote:
			return decided
		case blank:
		case n >= box.indent:
			r.i += box.indent
		case n > 1:
			// Models indent the lists in numbered items by two blanks as well, which is less than
			// the specification asks for.
			_, found, more := r.item(n)
			if more {
				return needByte
			}
			if !found {
				return decided
			}
			r.i += n
		default:
			return decided
		}
		r.v.keep++
	}
	return decided
}

// skipBlank skips the blank after a marker, and reports whether it is known if there is one.
func (r *reader) skipBlank() bool {
	if r.i < len(r.b) && r.b[r.i] == ' ' {
		r.i++
		return true
	}
	return r.i < len(r.b) || r.last
}

// inFence reads a line of fenced code.
func (r *reader) inFence() int {
	n, blank, more := r.indent()
	if more {
		return needByte
	}
	r.v.leaf, r.v.at = fenced, r.i+min(n, r.fence.indent)
	if blank || n > 3 || r.b[r.i+n] != r.fence.char {
		return decided
	}
	if !r.last {
		return needLine
	}
	rest := bytes.TrimRight(r.b[r.i+n:], " ")
	k, _ := prefixOf(rest, r.fence.char)
	if r.full && k == len(rest) && k >= r.fence.length {
		r.v.leaf = fenceEnd
	}
	return decided
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
func (r *reader) inner() (again bool, need int) {
	n, blank, more := r.indent()
	if more {
		return false, needByte
	}
	if blank {
		r.v.leaf, r.v.at = blankLine, len(r.b)
		return false, decided
	}
	if n > 3 && !r.inParagraph() && !(r.leaf == paragraph && r.v.keep < len(r.Markdown.boxes) && len(r.v.boxes) == 0) {
		r.v.leaf, r.v.at = indented, r.i+4
		return false, decided
	}
	rest := r.b[r.i+n:]
	if n < 4 || r.v.keep > 0 {
		if again, need, ok := r.container(n, rest); ok {
			return again, need
		}
	}
	r.v.at = r.i + n
	if n < 4 {
		if need, ok := r.special(rest); ok {
			return false, need
		}
	}
	return false, r.text(rest)
}

// inParagraph reports whether the line may go on with a paragraph in the innermost box.
func (r *reader) inParagraph() bool {
	return r.leaf == paragraph && r.v.keep == len(r.Markdown.boxes) && len(r.v.boxes) == 0
}

// container reads the marker of a quote or an item.
func (r *reader) container(n int, rest []byte) (again bool, need int, ok bool) {
	if r.v.keep+len(r.v.boxes) >= maxDepth {
		return false, decided, false
	}
	if rest[0] == '>' && n < 4 {
		r.i += n + 1
		if !r.skipBlank() {
			return false, needByte, true
		}
		r.v.boxes = append(r.v.boxes, box{quote: true})
		return true, decided, true
	}
	if need, ok := r.rule(rest); ok {
		return false, need, true
	}
	item, found, more := r.item(n)
	if more {
		return false, needByte, true
	}
	if !found {
		return false, decided, false
	}
	r.i = min(r.i+item.indent, len(r.b))
	if need := r.task(&item); need != decided {
		return false, need, true
	}
	r.v.boxes = append(r.v.boxes, item)
	return true, decided, true
}

// item reads the marker of an item after n blanks. An item with a number other than 1 and an
// empty one do not end a paragraph.
func (r *reader) item(n int) (item box, found, more bool) {
	rest := r.b[r.i+n:]
	size, more := markerSize(rest, r.last)
	if size == 0 || more {
		return item, false, more
	}
	gap := 0
	for size+gap < len(rest) && rest[size+gap] == ' ' {
		gap++
	}
	empty := size+gap == len(rest)
	switch {
	case empty && !r.last:
		return item, false, true
	case r.inParagraph() && (empty || size > 1 && string(rest[:size-1]) != "1"):
		return item, false, false
	case empty || gap > 4:
		gap = 1
	}
	item = box{indent: n + size + gap, marker: r.style.glyph("• ", "- ")}
	if size > 1 {
		item.marker = string(rest[:size]) + " "
	}
	return item, true, false
}

// markerSize returns the length of the marker of a list that a text begins with, or 0.
func markerSize(b []byte, last bool) (n int, more bool) {
	if b[0] == '-' || b[0] == '+' || b[0] == '*' {
		n = 1
	} else {
		for n < len(b) && n < 10 && b[n] >= '0' && b[n] <= '9' {
			n++
		}
		if n == 0 || n == 10 || n < len(b) && b[n] != '.' && b[n] != ')' {
			return 0, false
		}
		n++
	}
	switch {
	case n < len(b) && b[n] == ' ', n == len(b) && last:
		return n, false
	}
	return 0, n >= len(b) && !last
}

// task reads the box of a task at the beginning of an item.
func (r *reader) task(item *box) int {
	rest := r.b[r.i:]
	for i, set := range []string{"[", " xX", "]", " "} {
		if i == len(rest) && !r.last {
			return needByte
		}
		if i == len(rest) || strings.IndexByte(set, rest[i]) < 0 {
			return decided
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
	return decided
}

// rule reads a thematic break, or the underlining of a heading.
func (r *reader) rule(b []byte) (need int, ok bool) {
	c := b[0]
	if c != '-' && c != '*' && c != '_' || len(b) > 256 {
		return decided, false
	}
	n := 0
	for _, x := range b {
		if x != c && x != ' ' {
			return decided, false
		}
		if x == c {
			n++
		}
	}
	switch {
	case !r.last:
		return needByte, true
	case c == '-' && r.canUnderline(b):
		r.v.leaf, r.v.level = underlining, 2
		return decided, true
	case !r.full || n < 3:
		return decided, false
	}
	r.v.leaf = rule
	return decided, true
}

// canUnderline reports whether the line makes a heading of the paragraph above.
func (r *reader) canUnderline(b []byte) bool {
	b = bytes.TrimRight(b, " ")
	n, _ := prefixOf(b, b[0])
	return r.full && n == len(b) && r.inParagraph() && r.convertible()
}

// special reads the beginning of a block that is not a paragraph.
func (r *reader) special(b []byte) (need int, ok bool) {
	switch c := b[0]; {
	case r.convertible() && r.inParagraph() && bytes.IndexByte([]byte("|:-"), c) >= 0 && bytes.IndexByte(r.opening, '|') >= 0:
		return r.delimiters(b)
	case c == '_':
		return r.rule(b)
	case c == '#':
		return r.heading(b)
	case c == '`' || c == '~':
		return r.openFence(b)
	case c == '=' && r.inParagraph() && r.convertible():
		if !r.last {
			return needLine, true
		}
		r.v.leaf, r.v.level = underlining, 1
		return decided, r.canUnderline(b)
	case c == '<' && !r.inParagraph() && r.leaf != markup:
		return r.html(b)
	case c == '|' && !r.inParagraph() && r.leaf != tableRow:
		if !r.last {
			return needLine, true
		}
		r.v.leaf = tableHead
		return decided, r.full
	}
	return decided, false
}

// delimiters reads the second line of a table.
func (r *reader) delimiters(b []byte) (int, bool) {
	if !r.last {
		return needLine, true
	}
	r.v.leaf = tableRow
	return decided, r.full && aligns(b) != nil && len(aligns(b)) == len(cells(r.opening))
}

func (r *reader) heading(b []byte) (int, bool) {
	n, ended := prefixOf(b, '#')
	switch {
	case n > 6 || ended && b[n] != ' ':
		return decided, false
	case !r.last:
		return needLine, true
	}
	r.v.leaf, r.v.level = headingLine, n
	r.v.at += n
	return decided, true
}

func (r *reader) openFence(b []byte) (int, bool) {
	n, ended := prefixOf(b, b[0])
	switch {
	case n < 3 && (ended || r.last):
		return decided, false
	case !r.last:
		return needLine, true
	case b[0] == '`' && bytes.IndexByte(b[n:], '`') >= 0:
		return decided, false
	}
	r.v.leaf, r.v.level, r.v.indent = fenced, n, r.v.at-r.i
	return decided, r.full
}

// html reads a line of markup, which ends as it begins, with an angle bracket. It and the lines
// after it up to a blank one are shown as they are.
func (r *reader) html(b []byte) (int, bool) {
	if len(b) > 1 && b[1] != '/' && b[1] != '!' && b[1] != '?' && (b[1]|0x20 < 'a' || b[1]|0x20 > 'z') {
		return decided, false
	}
	if !r.last {
		return needLine, true
	}
	r.v.leaf = markup
	return decided, r.full && bytes.HasSuffix(bytes.TrimRight(b, " "), []byte{'>'}) && !address(bytes.Trim(b, "<> "))
}

// text reads a line without a marker: of a paragraph, a table or markup.
func (r *reader) text(b []byte) int {
	inside := r.v.keep == len(r.Markdown.boxes) && len(r.v.boxes) == 0
	r.v.leaf = paragraph
	switch {
	case r.leaf == paragraph && len(r.v.boxes) == 0:
		r.v.lazy, r.v.keep = true, len(r.Markdown.boxes)
	case inside && r.leaf == markup:
		r.v.leaf = markup
	case inside && r.leaf == tableRow:
		if !r.last {
			return needLine
		}
		if r.full {
			r.v.leaf = tableRow
		}
	}
	return decided
}
