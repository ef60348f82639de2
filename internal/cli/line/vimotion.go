package line

import (
	"strings"
	"unicode"
)

// viMotion returns the place a motion goes to, and whether an operator includes the
// character there.
func (e *Editor) viMotion(c command) (to int, inclusive, ok bool) {
	to = e.at
	for range c.times() {
		before := to
		if to, inclusive, ok = e.viStep(c, to); !ok || to == before {
			break
		}
	}
	return to, inclusive, ok
}

func (e *Editor) viStep(c command, i int) (to int, inclusive, ok bool) {
	start, end := e.lineStart(i), e.lineEnd(i)
	switch c.verb {
	case 'h':
		return max(e.prev(i), start), false, true
	case 'l', ' ':
		return min(e.nextOrEnd(i), end), false, true
	case 'w', 'W':
		return e.viWord(i, e.classes(c.verb)), false, true
	case 'b', 'B':
		return e.viBack(i, e.classes(c.verb)), false, true
	case 'e', 'E':
		return e.viEnd(i, e.classes(c.verb)), true, true
	case '0':
		return start, false, true
	case '^', '_':
		return end - len(strings.TrimLeft(e.text[start:end], " \t")), false, true
	case '$':
		return end, false, true
	case 'j':
		to, ok = e.down(i, e.column(i))
		return to, false, ok
	case 'k':
		to, ok = e.up(i, e.column(i))
		return to, false, ok
	case 'G':
		return e.lineStart(len(e.text)), false, true
	case 'f', 't', 'F', 'T':
		e.vi.find, e.vi.findBy = c.arg, c.verb
		return e.viFind(i, c.verb, c.arg)
	case ';':
		return e.viFind(i, e.vi.findBy, e.vi.find)
	case ',':
		return e.viFind(i, e.vi.findBy^('a'^'A'), e.vi.find)
	}
	return i, false, false
}

func (e *Editor) classes(verb rune) func(int) class {
	if unicode.IsUpper(verb) {
		return e.bigClass
	}
	return e.class
}

// viWord returns the begin of the next word.
func (e *Editor) viWord(i int, class func(int) class) int {
	if i < len(e.text) && class(i) != space {
		for c := class(i); i < len(e.text) && class(i) == c; {
			i = e.next(i)
		}
	}
	for i < len(e.text) && class(i) == space {
		i = e.next(i)
	}
	return i
}

// viBack returns the begin of the word in front of i.
func (e *Editor) viBack(i int, class func(int) class) int {
	for i > 0 && class(e.prev(i)) == space {
		i = e.prev(i)
	}
	if i == 0 {
		return 0
	}
	for c := class(e.prev(i)); i > 0 && class(e.prev(i)) == c; {
		i = e.prev(i)
	}
	return i
}

// viEnd returns the last character of the word behind i.
func (e *Editor) viEnd(i int, class func(int) class) int {
	i = e.nextOrEnd(i)
	for i < len(e.text) && class(i) == space {
		i = e.next(i)
	}
	if i == len(e.text) {
		return e.prev(i)
	}
	for c := class(i); e.next(i) < len(e.text) && class(e.next(i)) == c; {
		i = e.next(i)
	}
	return i
}

// viFind looks for a character in the line. The motions t and T stop beside it.
func (e *Editor) viFind(i int, by, r rune) (to int, inclusive, ok bool) {
	if r == 0 {
		return i, false, false
	}
	start, end := e.lineStart(i), e.lineEnd(i)
	from := e.nextOrEnd(i)
	switch {
	case by == 'f' || by == 't':
		if by == 't' {
			from = e.nextOrEnd(from) // not the one beside the cursor again
		}
		if n := strings.IndexRune(e.text[min(from, end):end], r); n >= 0 {
			to = from + n
			if by == 't' {
				to = e.prev(to)
			}
			return to, true, true
		}
	case by == 'T' && i > start:
		i = e.prev(i)
		fallthrough
	default:
		if n := strings.LastIndex(e.text[start:max(i, start)], string(r)); n >= 0 {
			to = start + n
			if by == 'T' {
				to = e.next(to)
			}
			return to, false, true
		}
	}
	return i, false, false
}

// viRange returns what an operator is for.
func (e *Editor) viRange(c command) (from, to int, lines, ok bool) {
	switch {
	case c.verb == c.op || c.verb == 'j' || c.verb == 'k' || c.verb == 'G':
		from, to, ok = e.viLines(c)
		return from, to, true, ok
	case c.verb == 'i' || c.verb == 'a':
		from, to, ok = e.viObject(c)
		return from, to, false, ok
	case c.op == 'c' && (c.verb == 'w' || c.verb == 'W') && e.at < len(e.text) && e.class(e.at) != space:
		c.verb += 'e' - 'w' // cw changes to the end of the word
		if e.at == e.viWordEnd(c.verb) && c.times() == 1 {
			return e.at, e.next(e.at), false, true
		}
	}
	to, inclusive, ok := e.viMotion(c)
	if !ok {
		return 0, 0, false, false
	}
	from, to = min(e.at, to), max(e.at, to)
	if inclusive {
		to = e.nextOrEnd(to)
	}
	if c.verb == 'w' && to > e.lineEnd(from) && e.lineEnd(from) > from {
		to = e.lineEnd(from) // the last word of a line is deleted without the line feed
	}
	return from, to, false, true
}

// viWordEnd returns the last character of the word at the cursor.
func (e *Editor) viWordEnd(verb rune) int {
	i, class := e.at, e.classes(verb)
	for n := e.next(i); n < len(e.text) && class(n) == class(i); n = e.next(i) {
		i = n
	}
	return i
}

// viLines returns whole lines, with one line feed unless they are changed.
func (e *Editor) viLines(c command) (from, to int, ok bool) {
	from, to = e.at, e.at
	switch c.verb {
	case c.op:
		for n := c.times() - 1; n > 0; n-- {
			to, _ = e.down(to, 0)
		}
	default:
		at, _, moved := e.viMotion(c)
		if !moved {
			return 0, 0, false
		}
		from, to = min(from, at), max(to, at)
	}
	from, to = e.lineStart(from), e.lineEnd(to)
	switch {
	case c.op != 'd':
	case to < len(e.text):
		to++
	case from > 0:
		from--
	}
	return from, to, true
}

// viObject returns a word, or what is between quotes or brackets.
func (e *Editor) viObject(c command) (from, to int, ok bool) {
	if c.arg == 'w' || c.arg == 'W' {
		return e.viWordObject(c)
	}
	pairs := map[rune]string{
		'"': `""`, '\'': `''`, '`': "``", '(': "()", ')': "()", 'b': "()",
		'[': "[]", ']': "[]", '{': "{}", '}': "{}", 'B': "{}", '<': "<>", '>': "<>",
	}
	pair, known := pairs[c.arg]
	if !known {
		return 0, 0, false
	}
	start, end := e.lineStart(e.at), e.lineEnd(e.at)
	from = strings.LastIndexByte(e.text[start:min(e.at+1, end)], pair[0])
	if from < 0 {
		return 0, 0, false
	}
	from += start
	length := strings.IndexByte(e.text[from+1:end], pair[1])
	if length < 0 || from+1+length < e.at {
		return 0, 0, false
	}
	if c.verb == 'a' {
		return from, from + length + 2, true
	}
	return from + 1, from + 1 + length, true
}

func (e *Editor) viWordObject(c command) (from, to int, ok bool) {
	if e.at == len(e.text) {
		return 0, 0, false
	}
	class := e.classes(c.arg)
	kind := class(e.at)
	from, to = e.at, e.at
	for from > e.lineStart(e.at) && class(e.prev(from)) == kind {
		from = e.prev(from)
	}
	end := e.lineEnd(e.at)
	for to < end && class(to) == kind {
		to = e.next(to)
	}
	if c.verb == 'a' {
		for to < end && class(to) == space {
			to = e.next(to)
		}
	}
	return from, to, from < to
}
