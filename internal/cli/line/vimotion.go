package line

import (
	"strings"
	"unicode"
)

// viMotion returns the place a motion goes to.
func (e *Editor) viMotion(c command) (to int, ok bool) {
	to = e.at
	for range c.times() {
		before := to
		if to, ok = e.viStep(c, to); !ok || to == before {
			break
		}
	}
	return to, ok
}

func (e *Editor) viStep(c command, i int) (to int, ok bool) {
	start, end := e.lineStart(i), e.lineEnd(i)
	switch c.verb {
	case 'h':
		return max(e.prev(i), start), true
	case 'l', ' ':
		return min(e.nextOrEnd(i), end), true
	case 'w', 'W':
		return e.forward(e.forward(i, e.like(c.verb, i)), e.isSpace), true
	case 'b', 'B':
		i = e.back(i, e.isSpace)
		return e.back(i, e.like(c.verb, e.prev(i))), true
	case 'e', 'E':
		i = e.forward(e.nextOrEnd(i), e.isSpace)
		return e.prev(e.forward(i, e.like(c.verb, i))), true
	case '0':
		return start, true
	case '^', '_':
		return end - len(strings.TrimLeft(e.text[start:end], " \t")), true
	case '$':
		return end, true
	case 'j':
		return e.down(i, e.column(i))
	case 'k':
		return e.up(i, e.column(i))
	case 'G':
		return e.lineStart(len(e.text)), true
	case 'f', 't', 'F', 'T':
		return e.viFind(i, c.verb, c.arg)
	}
	return i, false
}

// like returns the condition for the characters of the word at i, whose class they have. A
// command in upper case is for words that only spaces separate.
func (e *Editor) like(verb rune, i int) func(int) bool {
	classOf := e.class
	if unicode.IsUpper(verb) {
		classOf = e.bigClass
	}
	kind := classOf(i)
	return func(j int) bool { return classOf(j) == kind }
}

// viFind looks for a character in the line. The motions t and T stop beside it.
func (e *Editor) viFind(i int, by, r rune) (to int, ok bool) {
	start, end := e.lineStart(i), e.lineEnd(i)
	switch by {
	case 'f', 't':
		from := e.nextOrEnd(i)
		if by == 't' {
			from = e.nextOrEnd(from) // not the one beside the cursor again
		}
		n := strings.IndexRune(e.text[min(from, end):end], r)
		if to = from + n; n >= 0 && by == 't' {
			to = e.prev(to)
		}
		return to, n >= 0
	case 'T':
		i = e.prev(i)
	}
	n := strings.LastIndex(e.text[start:max(i, start)], string(r))
	if to = start + n; n >= 0 && by == 'T' {
		to = e.next(to)
	}
	return to, n >= 0
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
		if end := e.forward(e.at, e.like(c.verb, e.at)); end == e.next(e.at) && c.times() == 1 {
			return e.at, end, false, true
		}
	}
	to, ok = e.viMotion(c)
	if !ok {
		return 0, 0, false, false
	}
	from, to = min(e.at, to), max(e.at, to)
	if strings.ContainsRune("eEft", c.verb) { // the character there belongs to it
		to = e.nextOrEnd(to)
	}
	if (c.verb == 'w' || c.verb == 'W') && to > e.lineEnd(from) && e.lineEnd(from) > from {
		to = e.lineEnd(from) // the last word of a line is deleted without the line feed
	}
	return from, to, false, true
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
		at, moved := e.viMotion(c)
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
	same, end := e.like(c.arg, e.at), e.lineEnd(e.at)
	from, to = max(e.back(e.at, same), e.lineStart(e.at)), min(e.forward(e.at, same), end)
	if c.verb == 'a' {
		to = min(e.forward(to, e.isSpace), end)
	}
	return from, to, from < to
}
