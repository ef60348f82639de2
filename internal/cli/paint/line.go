package paint

import (
	"regexp"
	"strings"
)

// maxLine is how many bytes of a line are read to find out what it is. Of a longer line, the
// beginning is text, unless that much of it is a block of another kind.
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
	tableRow
)

// A box is a block with other blocks in it: a quote, or an item of a list.
type box struct {
	quote  bool
	indent int    // of the text, from that of the marker's line
	marker string // what is shown before the first line, or before all of a quote
	shown  bool   // the marker has been
}

// A verdict says what a line is.
type verdict struct {
	keep   int   // boxes that go on
	boxes  []box // new ones
	leaf   leaf
	at     int // where its text begins
	level  int // of a heading, or the length of a fence
	indent int // of a fence
}

// A reader decides what a line is.
type reader struct {
	*Markdown
	b    string
	i    int
	full bool // b is the whole line, and not the beginning of a long one
	v    verdict
}

// decide says what a line is. Tabs are expanded.
func (p *Markdown) decide(line string, full bool) verdict {
	p.inline.steps += len(line)
	r := reader{Markdown: p, b: line, full: full}
	if r.outer(); p.leaf == fenced && r.v.keep == len(p.boxes) {
		r.inFence()
		return r.v
	}
	for r.inner() {
	}
	return r.v
}

// indent returns the number of blanks, and whether all of the line is blank.
func (r *reader) indent() (n int, blank bool) {
	rest := strings.TrimLeft(r.b[r.i:], " ")
	return len(r.b) - r.i - len(rest), rest == ""
}

// outer finds the open boxes that the line is in.
func (r *reader) outer() {
	for _, box := range r.Markdown.boxes {
		n, blank := r.indent()
		switch {
		case box.quote && !blank && n < 4 && r.b[r.i+n] == '>':
			r.quoted(n)
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

// quoted skips the marker of a quote after n blanks, and the blank after it.
func (r *reader) quoted(n int) {
	if r.i += n + 1; strings.HasPrefix(r.b[r.i:], " ") {
		r.i++
	}
}

// inFence reads a line of fenced code.
func (r *reader) inFence() {
	n, _ := r.indent()
	r.v.leaf, r.v.at = fenced, r.i+min(n, r.fenceIndent)
	rest := strings.TrimRight(r.b[r.i+n:], " ")
	if r.full && n < 4 && len(rest) >= len(r.fence) && strings.Trim(rest, r.fence[:1]) == "" {
		r.v.leaf = fenceEnd
	}
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
		if r.line(rest) {
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
func (r *reader) inParagraph() bool { return r.leaf == paragraph && r.inside() }

// inside reports whether the line is in the same boxes as the one before.
func (r *reader) inside() bool { return r.v.keep == len(r.Markdown.boxes) && len(r.v.boxes) == 0 }

// container reads the marker of a quote or an item.
func (r *reader) container(n int, rest string) bool {
	if r.v.keep+len(r.v.boxes) >= maxDepth {
		return false
	}
	if rest[0] == '>' && n < 4 {
		r.quoted(n)
		r.v.boxes = append(r.v.boxes, box{quote: true, marker: r.style.glyph("│ ", "> ")})
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

var (
	itemMarker    = regexp.MustCompile(`^([-+*]|[0-9]{1,9}[.)])( +|$)`)
	headingMarker = regexp.MustCompile(`^#{1,6}(?: |$)`)
)

// item reads the marker of an item after n blanks. An item with a number other than 1 and an
// empty one do not end a paragraph.
func (r *reader) item(n int) (item box, found bool) {
	rest := r.b[r.i+n:]
	if strings.IndexByte("-+*0123456789", rest[0]) < 0 {
		return item, false
	}
	m := itemMarker.FindStringSubmatch(rest)
	if m == nil {
		return item, false
	}
	marker, gap, empty := m[1], len(m[2]), len(m[0]) == len(rest)
	switch {
	case r.inParagraph() && (empty || len(marker) > 1 && marker[:len(marker)-1] != "1"):
		return item, false
	case empty || gap > 4:
		gap = 1
	}
	item = box{indent: n + len(marker) + gap, marker: r.style.glyph("• ", "- ")}
	if len(marker) > 1 {
		item.marker = marker + " "
	}
	return item, true
}

// task reads the box of a task at the beginning of an item.
func (r *reader) task(item *box) {
	rest := r.b[r.i:]
	if len(rest) < 4 || rest[0] != '[' || strings.IndexByte(" xX", rest[1]) < 0 || rest[2:4] != "] " {
		return
	}
	mark := r.style.glyph("☐ ", "[ ] ")
	if rest[1] != ' ' {
		mark = r.style.glyph("☑ ", "[x] ")
	}
	if item.marker == "• " {
		item.marker = ""
	}
	item.marker += mark
	r.i += 4
}

// line reads a thematic break, or the underlining of a heading.
func (r *reader) line(b string) bool {
	c := b[:1]
	if !r.full || strings.IndexByte("=-*_", c[0]) < 0 || strings.Trim(b, c+" ") != "" {
		return false
	}
	switch {
	case strings.Contains("=-", c) && r.inParagraph() && r.held && strings.Trim(strings.TrimRight(b, " "), c) == "":
		r.v.leaf, r.v.level = underlining, 1+strings.Index("=-", c)
	case c != "=" && strings.Count(b, c) >= 3:
		r.v.leaf = rule
	}
	return r.v.leaf != noLeaf
}

// special reads the beginning of a block that is not a paragraph.
func (r *reader) special(b string) bool {
	switch c := b[0]; {
	case r.inParagraph() && r.held && strings.IndexByte("|:-", c) >= 0:
		r.v.leaf = tableRow
		columns := len(aligns(b))
		return r.full && columns > 0 && strings.Contains(r.opening, "|") && columns == len(cells(r.opening))
	case c == '#':
		return r.heading(b)
	case c == '`' || c == '~':
		return r.openFence(b)
	case c == '<' && !r.inParagraph() && r.leaf != markup:
		return r.html(b)
	}
	return false
}

func (r *reader) heading(b string) bool {
	marker := headingMarker.FindString(b)
	r.v.leaf, r.v.level = headingLine, strings.Count(marker, "#")
	r.v.at += len(marker)
	return marker != ""
}

func (r *reader) openFence(b string) bool {
	info := strings.TrimLeft(b, b[:1])
	r.v.leaf, r.v.level, r.v.indent = fenced, len(b)-len(info), r.v.at-r.i
	return r.full && r.v.level >= 3 && (b[0] == '~' || strings.IndexByte(info, '`') < 0)
}

// html reads a line of markup, which ends as it begins, with an angle bracket. It and the lines
// after it up to a blank one are shown as they are.
func (r *reader) html(b string) bool {
	r.v.leaf = markup
	m := tag.FindStringSubmatch(b)
	return r.full && m != nil && m[1] == "" && strings.HasSuffix(strings.TrimRight(b, " "), ">")
}

// text reads a line without a marker: of a paragraph, a table or markup.
func (r *reader) text() {
	r.v.leaf = paragraph
	switch {
	case r.leaf == paragraph && len(r.v.boxes) == 0:
		r.v.keep = len(r.Markdown.boxes)
	case r.inside() && (r.leaf == markup || r.leaf == tableRow && r.full):
		r.v.leaf = r.leaf
	}
}
