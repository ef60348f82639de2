package paint

import (
	"html"
	"regexp"
	"strings"
	"unicode/utf8"
)

// maxHold is how many bytes there may be between the beginning of an emphasis, a link or a code
// span and its end. Without an end there, the beginning is text.
const maxHold = 1000

// maxRun is the length from which a run of markers is text.
const maxRun = len(longBlank)

const longBlank = "                                                                "

// inline paints the text of one block: emphasis, code spans, links. It works as the CommonMark
// specification says in "An algorithm for parsing nested emphasis and links", except that a
// marker between two letters or digits does not open an emphasis, so that 2*3*4 stays, unless
// they are of a script without blanks between words.
//
// Text that nothing can change any more is painted. The rest is held, and parsed again when more
// text is there. It begins at the first marker that could still open something: no emphasis and
// no link is around such a marker, so parsing can start there.
type inline struct {
	style Style
	base  look

	held     string
	prev     rune   // the last character before it
	first    node   // the run that it begins with, if that has been read
	nodes    []node // of what is held
	runs     []int  // nodes that may open or close an emphasis
	brackets []int  // nodes that may begin a link
	steps    int    // bytes and markers that may have been looked at
}

// A node is text, or a marker: a run of emphasis characters or a bracket.
type node struct {
	at        int // in the held text
	text      string
	look      look
	length    int // of a run, at first
	opens     bool
	closes    bool
	image     bool // a bracket of one
	forbidden bool // a bracket before a link, which cannot be one as well
}

func (in *inline) start(base look) {
	*in = inline{style: in.style, base: base, prev: '\n', nodes: in.nodes, runs: in.runs, brackets: in.brackets, steps: in.steps}
}

// paint paints all of a text.
func (in *inline) paint(base look, text string) (r row) {
	in.start(base)
	in.feed(text, true, &r)
	return r
}

// feed adds text, and paints what is known of the text now. A line feed in the text is a line break
// of the source, and in the row a hard one.
func (in *inline) feed(text string, last bool, to *row) {
	in.held += strings.ReplaceAll(text, "\t", " ")
	known := in.parse(last)
	for i := range in.nodes {
		if n := &in.nodes[i]; n.at < known {
			to.add(n.look, n.text)
		}
	}
	if known > 0 {
		in.prev, _ = utf8.DecodeLastRuneInString(in.held[:known])
		in.held = in.held[known:]
	}
}

// parse makes nodes of the held text, and returns the length of what no other text can change.
func (in *inline) parse(last bool) int {
	in.nodes, in.runs, in.brackets = in.nodes[:0], in.runs[:0], in.brackets[:0]
	in.steps += len(in.held)
	at := len(in.first.text)
	if at > 0 {
		in.nodes, in.runs, in.first = append(in.nodes, in.first), append(in.runs, 0), node{}
	}
	for at < len(in.held) {
		n := in.token(at, last)
		if n == 0 {
			break
		}
		at += n
	}
	if last {
		in.match(0, at)
		return at
	}
	known := at
	for _, i := range in.brackets {
		if b := &in.nodes[i]; at-b.at <= maxHold && !b.forbidden {
			known = min(known, b.at)
		}
	}
	in.match(0, known)
	for _, i := range in.runs {
		if r := in.nodes[i]; r.at < known && r.at >= known-maxHold && r.opens {
			n, _ := runLength(in.held[r.at:], true)
			known, r.at, r.text = r.at, 0, in.held[r.at:r.at+n]
			in.first = r
			break
		}
	}
	return known
}

var special = [256]bool{'\\': true, '`': true, '*': true, '_': true, '[': true, ']': true, '!': true, '<': true, '&': true, '\n': true}

// token reads the token at a place, and returns its length, or 0 if that depends on more text.
func (in *inline) token(at int, last bool) int {
	b := in.held[at:]
	switch b[0] {
	case '\n':
		if strings.HasSuffix(in.held[:at], "  ") {
			return in.add(at, b[:1], "\n", 0)
		}
		return in.add(at, b[:1], " ", 0)
	case '\\':
		return in.escape(at, b, last)
	case '`':
		return in.codeSpan(at, b, last)
	case '*', '_':
		return in.run(at, b, last)
	case '<':
		return in.angle(at, b, last)
	case '&':
		return in.entity(at, b, last)
	case ' ':
		return in.blanks(at, b, last)
	case '[':
		return in.bracket(at, b[:1])
	case ']':
		return in.closeBracket(at, b, last)
	case '!':
		if len(b) == 1 && !last {
			return 0
		}
		if strings.HasPrefix(b, "![") {
			return in.bracket(at, b[:2])
		}
	}
	end := 1
	for end < len(b) && !special[b[end]] {
		end++
	}
	text, _, _ := strings.Cut(b[:end], longBlank)
	return in.plain(at, strings.TrimRight(text, " "))
}

// before returns the character before a place.
func (in *inline) before(at int) rune {
	if at == 0 {
		return in.prev
	}
	r, _ := utf8.DecodeLastRuneInString(in.held[:at])
	return r
}

// blanks reads blanks, which are not shown before a line break. Nor are those after many.
func (in *inline) blanks(at int, b string, last bool) int {
	n, known := runLength(b, last)
	switch {
	case !known:
		return 0
	case n < maxRun && n < len(b) && b[n] == '\n', in.before(at) == ' ':
		return in.add(at, b[:n], "", 0)
	}
	return in.plain(at, b[:n])
}

// add adds a text with a role, which is shown for a part of the source, and returns the length of
// that.
func (in *inline) add(at int, source, text string, role look) int {
	n := node{at: at, text: text, look: in.base}
	if role != 0 {
		n.look = in.base&0xff | role
	}
	in.nodes = append(in.nodes, n)
	return len(source)
}

// plain adds text as it is.
func (in *inline) plain(at int, text string) int { return in.add(at, text, text, 0) }

func (in *inline) escape(at int, b string, last bool) int {
	switch {
	case len(b) == 1 && !last:
		return 0
	case len(b) > 1 && (b[1] == '\n' || escaped.MatchString(b[:2])):
		return in.add(at, b[:2], b[1:2], 0)
	}
	return in.plain(at, b[:1])
}

// runLength returns the length of the run of one character that a text begins with, and whether
// it is known.
func runLength(b string, last bool) (int, bool) {
	n := 1
	for n < len(b) && b[n] == b[0] && n < maxRun {
		n++
	}
	return n, n < len(b) || last || n == maxRun
}

// codeSpan ends at a run of as many backticks as it began with.
func (in *inline) codeSpan(at int, b string, last bool) int {
	n, known := runLength(b, last)
	for i := n; known && n < maxRun && i < n+maxHold; {
		rest := b[i:min(len(b), n+maxHold)]
		j := strings.IndexByte(rest, '`')
		if j < 0 {
			in.steps += len(rest)
			known = last || len(b) >= n+maxHold
			break
		}
		i, in.steps = i+j, in.steps+j
		var k int
		if k, known = runLength(b[i:], last); known && k == n {
			return in.add(at, b[:i+n], codeText(b[n:i]), code)
		}
		i += k
	}
	if !known {
		return 0
	}
	return in.plain(at, b[:n])
}

// codeText replaces line breaks by blanks, and removes the blank on both sides that separates
// backticks in the code from those around it.
func codeText(b string) string {
	b = strings.ReplaceAll(b, "\n", " ")
	if len(b) > 2 && b[0] == ' ' && b[len(b)-1] == ' ' && strings.TrimSpace(b) != "" {
		return b[1 : len(b)-1]
	}
	return b
}

var (
	// tag is an address in angle brackets, which is an absolute URI or one of electronic mail, or a
	// tag of HTML, which is text.
	tag    = regexp.MustCompile(`^<(?:([a-zA-Z0-9+.-]{2,32}:[^<> \n\\]*|[^@<> \n\\]+@[a-zA-Z0-9+.-]+)|[/!?\pL][^<>\n]*)>`)
	entity = regexp.MustCompile(`^&(?:#[a-zA-Z0-9]{1,30}|[a-zA-Z0-9]{1,31});`)
)

// angle reads what is in angle brackets.
func (in *inline) angle(at int, b string, last bool) int {
	m := tag.FindStringSubmatch(b[:min(len(b), maxHold)])
	switch {
	case m == nil && !last && len(b) < maxHold && !strings.ContainsAny(b[1:], "<>\n"):
		return 0
	case m == nil:
		return in.plain(at, b[:1])
	case m[1] == "":
		return in.plain(at, m[0])
	}
	return in.add(at, m[0], m[1], link)
}

// entity reads a character reference of HTML. The character is cleaned like any other.
func (in *inline) entity(at int, b string, last bool) int {
	source := entity.FindString(b)
	switch {
	case source == "" && !last && len(b) < 33 && !strings.ContainsAny(b, " \n;"):
		return 0
	case source == "":
		return in.plain(at, b[:1])
	}
	text := html.UnescapeString(source)
	if strings.HasPrefix(text, "\n") || text == "\t" {
		text = " "
	}
	return in.add(at, source, in.style.Clean(text), 0)
}
