package paint

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/aycoder/aycoder/internal/cli/tty"
)

// run reads a run of emphasis characters. Whether it can open or close an emphasis depends on
// the characters beside it (section "Emphasis and strong emphasis").
func (in *inline) run(at int, b string, last bool) int {
	n, known := runLength(b, last)
	if !known || n < len(b) && !last && !utf8.FullRuneInString(b[n:]) {
		return 0
	}
	if n == maxRun {
		return in.plain(at, b[:n])
	}
	prev, next := in.before(at), rune('\n')
	if n < len(b) {
		next, _ = utf8.DecodeRuneInString(b[n:])
	}
	left := !unicode.IsSpace(next) && (!punct(next) || unicode.IsSpace(prev) || punct(prev))
	right := !unicode.IsSpace(prev) && (!punct(prev) || unicode.IsSpace(next) || punct(next))
	opens, closes := left, right
	switch {
	case b[0] == '_':
		opens, closes = left && (!right || punct(prev)), right && (!left || punct(next))
	case spaced(prev) && spaced(next):
		opens = false
	}
	in.nodes = append(in.nodes, node{at: at, text: b[:n], look: in.base, length: n, opens: opens, closes: closes})
	if opens || closes {
		in.runs = append(in.runs, len(in.nodes)-1)
	}
	return n
}

func punct(r rune) bool { return unicode.IsPunct(r) || unicode.IsSymbol(r) }

// spaced reports whether r is a letter or digit of a script that has blanks between words.
func spaced(r rune) bool {
	if !unicode.IsLetter(r) && !unicode.IsDigit(r) {
		return false
	}
	return tty.RuneWidth(r) < 2 && !unicode.In(r, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar)
}

// match finds the openers of the runs from runs[bottom] on that are before a place in the text.
// Runs that have been used up, or that are inside of an emphasis, are removed.
func (in *inline) match(bottom, before int) {
	var tried [12]int // places before which runs of a kind have no opener
	for i := bottom; i < len(in.runs) && in.nodes[in.runs[i]].at < before; {
		c := &in.nodes[in.runs[i]]
		kind := c.length%3 + 3*int(c.text[0]&1) // an asterisk is even
		if c.opens {
			kind += 6
		}
		j := in.opener(bottom, i, tried[kind])
		if j < 0 {
			if tried[kind] = c.at; c.opens {
				i++
			} else {
				in.runs = slices.Delete(in.runs, i, i+1)
			}
			continue
		}
		o := &in.nodes[in.runs[j]]
		use, attribute := 1, italic
		if len(o.text) > 1 && len(c.text) > 1 {
			use, attribute = 2, bold
		}
		o.text, c.text, c.at = o.text[use:], c.text[use:], c.at+use
		for k := in.runs[j] + 1; k < in.runs[i]; k++ {
			in.nodes[k].look |= attribute
		}
		from, to := j+1, i
		if o.text == "" {
			from = j
		}
		if c.text == "" {
			to = i + 1
		}
		in.runs = slices.Delete(in.runs, from, to)
		i = from
	}
}

// opener returns the place of the opener of runs[i] that is not before a place, or -1.
func (in *inline) opener(bottom, i, from int) int {
	c := &in.nodes[in.runs[i]]
	for j := i - 1; c.closes && j >= bottom; j-- {
		o := &in.nodes[in.runs[j]]
		in.steps++
		if o.at < from || c.at-o.at > maxHold {
			return -1
		}
		// Rule 9: a run that can do both does not match if the sum is a multiple of 3.
		if o.opens && o.text[0] == c.text[0] && !((o.closes || c.opens) && (o.length+c.length)%3 == 0 && o.length%3 != 0) {
			return j
		}
	}
	return -1
}

// bracket begins a link, or with an exclamation mark an image.
func (in *inline) bracket(at int, b string) int {
	in.brackets = append(in.brackets, len(in.nodes))
	in.nodes = append(in.nodes, node{at: at, text: b, look: in.base, image: len(b) == 2})
	return len(b)
}

// closeBracket ends a link, if an address follows.
func (in *inline) closeBracket(at int, b string, last bool) int {
	k := len(in.brackets) - 1
	if k < 0 || at-in.nodes[in.brackets[k]].at > maxHold {
		return in.plain(at, b[:1])
	}
	open := in.brackets[k]
	if !in.nodes[open].forbidden && (len(b) == 1 || b[1] == '(') {
		n, address := in.destination(b[1:min(len(b), 2*maxHold)])
		switch {
		case n > 0:
			in.link(at, open, address)
			return 1 + n
		case !last && len(b) < 2*maxHold:
			return 0
		}
	}
	in.brackets = in.brackets[:k]
	return in.plain(at, b[:1])
}

// link makes a link of the nodes from a bracket on. Brackets before it cannot be links, which do
// not nest.
func (in *inline) link(at, open int, address string) {
	k, _ := slices.BinarySearch(in.runs, open)
	in.match(k, at)
	in.runs = in.runs[:k]
	in.brackets = in.brackets[:len(in.brackets)-1]
	o := &in.nodes[open]
	o.text = ""
	var label strings.Builder
	for i := open + 1; i < len(in.nodes); i++ {
		n := &in.nodes[i]
		label.WriteString(n.text)
		if n.look&^0xff == in.base&^0xff {
			n.look = n.look&0xff | link
		}
	}
	if text := label.String(); address != "" && text != address && "mailto:"+text != address {
		if text != "" {
			in.plain(at, " ")
		}
		in.add(at, "", "("+address+")", comment)
	}
	if !o.image {
		for _, i := range in.brackets {
			in.nodes[i].forbidden = !in.nodes[i].image
		}
	}
}

var escaped = regexp.MustCompile(`\\([!-/:-@\[-` + "`" + `{-~])`)

// destination reads what follows the text of a link: (address), (<address>) or (address "title").
// It returns its length, or 0 if it is something else, and the text to show.
func (in *inline) destination(b string) (n int, shown string) {
	if b == "" {
		return 0, ""
	}
	start := 1 + blankRun(b[1:])
	end, next := address(b, start)
	in.steps += next
	if end < 0 {
		return 0, ""
	}
	if next > end { // in angle brackets
		start++
	}
	shown = b[start:end]
	n = next + blankRun(b[next:])
	if n > next && n < len(b) && strings.IndexByte(`"'(`, b[n]) >= 0 {
		closing := b[n]
		if closing == '(' {
			closing = ')'
		}
		title := b[n+1 : min(len(b), n+maxHold)]
		i := unescaped(title, 0, string(closing))
		if in.steps += len(title); i < 0 {
			return 0, ""
		}
		shown += ` "` + title[:i] + `"`
		n += i + 2
		n += blankRun(b[n:])
	}
	if n >= len(b) || b[n] != ')' {
		return 0, ""
	}
	shown = strings.ReplaceAll(escaped.ReplaceAllString(shown, "$1"), "\n", " ")
	return n + 1, strings.TrimSpace(shown)
}

// maxParens is how deep parentheses nest in an address, as in other programs.
const maxParens = 32

// address returns the end of an address, or -1, and the place behind it and its angle bracket.
func address(b string, start int) (end, next int) {
	if strings.HasPrefix(b[start:], "<") {
		switch end = unescaped(b, start+1, "<>\n"); {
		case end < 0:
			return -1, len(b)
		case b[end] != '>':
			return -1, end
		}
		return end, end + 1
	}
	depth := 0
	for end = start; ; end++ {
		if end = unescaped(b, end, " \n()"); end < 0 {
			return -1, len(b)
		}
		switch {
		case b[end] == '(' && depth < maxParens:
			depth++
		case b[end] == ')' && depth > 0:
			depth--
		case b[end] == '(' || depth > 0:
			return -1, end
		default:
			return end, end
		}
	}
}

// unescaped returns the place of the first of some characters that is not behind a backslash, or -1.
func unescaped(b string, from int, chars string) int {
	for i := from; ; i += 2 {
		j := strings.IndexAny(b[min(i, len(b)):], chars+`\`)
		if j < 0 {
			return -1
		}
		if i += j; b[i] != '\\' {
			return i
		}
	}
}

// blankRun returns how many blanks and line feeds a text begins with.
func blankRun(b string) int { return len(b) - len(strings.TrimLeft(b, " \n")) }
