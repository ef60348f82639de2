package paint

import (
	"bytes"
	"html"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxHold is how many bytes may wait for the end of an emphasis, a link or a code span. After
// them, its beginning is text.
const maxHold = 1000

// maxRun is the length from which a run of markers is text.
const maxRun = 64

// inline paints the text of one block: emphasis, code spans, links. It works as the CommonMark
// specification says in "An algorithm for parsing nested emphasis and links", with two
// differences. Text is handed on as soon as no marker before it is open, and a marker is open for
// at most maxHold bytes. And a marker between two letters or digits does not open an emphasis,
// so that 2*3*4 stays, unless they are of a script without blanks between words.
//
// All decisions depend on the text alone, never on the pieces in which it comes: where the next
// character matters, inline waits for it.
type inline struct {
	to   *wrapper
	base look

	buf   []byte // what is not scanned
	at    int    // bytes scanned before buf
	seek  int    // where to go on looking for the end of a code span, in buf
	prev  rune   // the last character before buf
	trail int    // blanks at the end of what is scanned

	nodes []node // scanned, but waiting
	first int    // of nodes that still wait
	open  []int  // nodes that may open or close something, in order

	brackets          int // among the open nodes
	em, strong, links int // depths
	steps             int // bytes and markers that may have been looked at
}

// A node is text, or a marker: a run of emphasis characters or a bracket.
type node struct {
	text       []byte
	look       look // in place of that of the text around
	kind       nodeKind
	n, length  int // characters of a run, left and at first
	opens      bool
	closes     bool
	image      bool
	at         int
	begin, end [3]int // em, strong and link that begin after the text, or end before it
}

type nodeKind byte

const (
	textNode nodeKind = iota
	runNode
	bracketNode
	softBreak
	hardBreak
)

func (in *inline) start(base look) {
	*in = inline{to: in.to, base: base, buf: in.buf[:0], nodes: in.nodes[:0], open: in.open[:0], prev: '\n', steps: in.steps}
}

// feed adds text. A line feed in it is a line break of the source.
func (in *inline) feed(text []byte) {
	in.buf = append(in.buf, text...)
	in.scan(false)
}

// finish ends the block.
func (in *inline) finish() {
	in.scan(true)
	in.open, in.brackets = slices.DeleteFunc(in.open, in.isBracket), 0
	in.match(0, 0)
	in.open = in.open[:0]
	in.emit()
}

func (in *inline) scan(last bool) {
	done := 0
	for done < len(in.buf) {
		n := in.next(in.buf[done:], last)
		if n == 0 {
			break
		}
		in.prev, _ = utf8.DecodeLastRune(in.buf[done : done+n])
		done += n
		in.at += n
		in.seek = max(in.seek-n, 0)
	}
	in.buf = append(in.buf[:0], in.buf[done:]...)
	in.expire()
	in.emit()
}

var special = [256]bool{'\\': true, '`': true, '*': true, '_': true, '[': true, ']': true, '!': true, '<': true, '&': true, '\n': true}

// next scans the first token, and returns its length, or 0 if more text is needed.
func (in *inline) next(b []byte, last bool) int {
	in.steps += len(b) + len(in.open)
	if !special[b[0]] {
		n := 1
		for n < len(b) && !special[b[n]] {
			n++
		}
		return in.text(b[:n])
	}
	trail := in.trail
	if b[0] != '!' {
		in.trail = 0
	}
	n := in.marker(b, last, trail)
	if n == 0 {
		in.trail = trail
	}
	return n
}

func (in *inline) marker(b []byte, last bool, trail int) int {
	switch b[0] {
	case '\n':
		return in.lineBreak(trail > 1)
	case '\\':
		return in.escape(b, last)
	case '`':
		return in.codeSpan(b, last)
	case '*', '_':
		return in.run(b, last)
	case '<':
		return in.angle(b, last)
	case '&':
		return in.entity(b, last)
	case ']':
		return in.closeBracket(b, last)
	case '!':
		if len(b) == 1 && !last {
			return 0
		}
		if len(b) > 1 && b[1] == '[' {
			return in.openBracket(b[:2])
		}
		return in.text(b[:1])
	}
	return in.openBracket(b[:1])
}

// text hands on text, or keeps it while a marker before it is open.
func (in *inline) text(b []byte) int {
	if blanks := len(b) - len(bytes.TrimRight(b, " ")); blanks < len(b) {
		in.trail = blanks
	} else {
		in.trail += blanks
	}
	return in.plain(b)
}

// add adds a node. Its text is copied if it has to wait.
func (in *inline) add(n node) {
	if in.first == len(in.nodes) && n.kind != runNode && n.kind != bracketNode {
		in.put(&n)
		return
	}
	if k := len(in.nodes) - 1; n.kind == textNode && n.look == 0 && k >= in.first && in.nodes[k].kind == textNode && in.nodes[k].look == 0 && in.nodes[k].end == [3]int{} {
		in.nodes[k].text = append(in.nodes[k].text, n.text...)
		return
	}
	n.text, n.at = slices.Clone(n.text), in.at
	in.nodes = append(in.nodes, n)
}

func (in *inline) lineBreak(hard bool) int {
	kind := softBreak
	if hard {
		kind = hardBreak
	}
	in.add(node{kind: kind})
	return 1
}

func (in *inline) escape(b []byte, last bool) int {
	switch {
	case len(b) == 1 && !last:
		return 0
	case len(b) > 1 && b[1] == '\n':
		in.lineBreak(true)
		return 2
	case len(b) > 1 && asciiPunct(b[1]):
		in.add(node{text: b[1:2]})
		return 2
	}
	return in.plain(b[:1])
}

func asciiPunct(c byte) bool {
	return c < 0x80 && strings.IndexByte("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", c) >= 0
}

// runLength returns the length of the run of one character that a text begins with, and whether
// it is known.
func runLength(b []byte, last bool) (int, bool) {
	n := 1
	for n < len(b) && b[n] == b[0] && n < maxRun {
		n++
	}
	return n, n < len(b) || last || n == maxRun
}

// codeSpan ends at a run of as many backticks as it began with.
func (in *inline) codeSpan(b []byte, last bool) int {
	n, known := runLength(b, last)
	if !known {
		return 0
	}
	for i := max(n, in.seek); n < maxRun && i < n+maxHold; {
		j := bytes.IndexByte(b[i:min(len(b), n+maxHold)], '`')
		if j < 0 {
			if last || len(b) >= n+maxHold {
				break
			}
			in.seek = len(b)
			return 0
		}
		i += j
		k, known := runLength(b[i:], last)
		if !known {
			in.seek = i
			return 0
		}
		if k == n {
			in.add(node{text: codeText(b[n:i]), look: code})
			in.seek = 0
			return i + n
		}
		i += k
	}
	in.seek = 0
	return in.plain(b[:n])
}

// codeText replaces line breaks by blanks, and removes the blank on both sides that separates
// backticks in the code from those around it.
func codeText(b []byte) []byte {
	b = bytes.ReplaceAll(b, []byte{'\n'}, []byte{' '})
	if len(b) > 2 && b[0] == ' ' && b[len(b)-1] == ' ' && len(bytes.TrimSpace(b)) > 0 {
		return b[1 : len(b)-1]
	}
	return b
}

// emit hands on the nodes before the first open marker.
func (in *inline) emit() {
	end := len(in.nodes)
	if len(in.open) > 0 {
		end = in.open[0]
	}
	for ; in.first < end; in.first++ {
		in.put(&in.nodes[in.first])
	}
	if in.first == len(in.nodes) || in.first > maxHold {
		in.nodes = append(in.nodes[:0], in.nodes[in.first:]...)
		for i := range in.open {
			in.open[i] -= in.first
		}
		in.first = 0
	}
}

// put hands a node to the wrapper.
func (in *inline) put(n *node) {
	in.em, in.strong, in.links = in.em-n.end[0], in.strong-n.end[1], in.links-n.end[2]
	switch n.kind {
	case softBreak:
		in.to.blank(0, ' ')
	case hardBreak:
		in.to.hardBreak()
	case runNode:
		in.to.add(in.look(0), bytes.Repeat(n.text, n.n))
	default:
		in.to.add(in.look(n.look), n.text)
	}
	in.em, in.strong, in.links = in.em+n.begin[0], in.strong+n.begin[1], in.links+n.begin[2]
}

func (in *inline) look(role look) look {
	l := in.base
	if in.links > 0 {
		l = l&0xff | link
	}
	if role != 0 {
		l = l&0xff | role
	}
	if in.em > 0 {
		l |= italic
	}
	if in.strong > 0 {
		l |= bold
	}
	return l
}

// angle reads an address in angle brackets, or a tag of HTML, which is text.
func (in *inline) angle(b []byte, last bool) int {
	end := bytes.IndexAny(b[1:min(len(b), maxHold)], "<>\n") + 1
	if end == 0 {
		if !last && len(b) < maxHold {
			return 0
		}
		return in.plain(b[:1])
	}
	inside := b[1:end]
	switch {
	case b[end] != '>' || len(inside) == 0:
		return in.plain(b[:1])
	case address(inside):
		in.add(node{text: inside, look: link})
	case strings.IndexByte("/!?", inside[0]) >= 0 || unicode.IsLetter(rune(inside[0])):
		in.plain(b[:end+1])
	default:
		return in.plain(b[:1])
	}
	return end + 1
}

// address reports whether a text is an absolute URI or an address of electronic mail.
func address(b []byte) bool {
	if bytes.ContainsAny(b, " \t\\") {
		return false
	}
	scheme, _, ok := bytes.Cut(b, []byte{':'})
	if ok && len(scheme) > 1 && len(scheme) <= 32 && bytes.IndexFunc(scheme, notScheme) < 0 {
		return true
	}
	name, host, ok := bytes.Cut(b, []byte{'@'})
	return ok && len(name) > 0 && len(host) > 0 && bytes.IndexFunc(host, notScheme) < 0
}

func notScheme(r rune) bool {
	return r > 0x7f || !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '+' && r != '.' && r != '-'
}

// entity reads a character reference of HTML. The character is cleaned like any other.
func (in *inline) entity(b []byte, last bool) int {
	n := 1
	for n < len(b) && n < 33 && (b[n] == '#' && n == 1 || b[n] < 0x80 && (unicode.IsLetter(rune(b[n])) || unicode.IsDigit(rune(b[n])))) {
		n++
	}
	if n == len(b) && !last && n < 33 {
		return 0
	}
	if n == len(b) || b[n] != ';' {
		return in.plain(b[:1])
	}
	text := html.UnescapeString(string(b[:n+1]))
	if strings.HasPrefix(text, "\n") || text == "\t" {
		text = " "
	}
	in.add(node{text: []byte(in.to.style.Clean(text))})
	return n + 1
}

// clone returns a copy that shares nothing with in.
func (in inline) clone() inline {
	in.buf, in.open = slices.Clone(in.buf), slices.Clone(in.open)
	in.nodes = slices.Clone(in.nodes[in.first:])
	for i := range in.nodes {
		in.nodes[i].text = slices.Clone(in.nodes[i].text)
	}
	for i := range in.open {
		in.open[i] -= in.first
	}
	in.first = 0
	return in
}
