package source

import (
	"bytes"
	"iter"
	"unicode/utf8"
)

// A grammar says what the comments, strings and words of a language look like. The languages differ in
// these tables and not in how they are read: see [clexer].
type grammar struct {
	keywords map[string]bool
	line     []string    // the beginnings of comments that end with their line
	block    [][2]string // the beginnings and ends of other comments
	nested   bool        // these comments nest
	splice   bool        // a backslash at the end of a line joins it with the next, also in a comment
	quotes   []*quote    // a longer one goes before its beginning
	prefixes map[string]bool
	// raw returns where the text of a string begins whose prefix has the value true, and what ends it.
	// from is where the prefix ends.
	raw func(src []byte, from int) (text int, end string)
	// chars says that a ' quotes one character, and is otherwise something else, as a lifetime is.
	chars bool
}

// A quote is a way to quote a string.
type quote struct {
	open, end string
	escape    bool // a backslash takes the next byte with it; else a single end is written twice
	lines     bool // the string may go on in the next line
}

var (
	slashes   = []string{"//"}
	starred   = [][2]string{{"/*", "*/"}}
	double    = quote{`"`, `"`, true, false}
	single    = quote{"'", "'", true, false}
	back      = quote{"`", "`", true, false}
	textBlock = quote{`"""`, `"""`, true, true}
	tripled   = quote{"'''", "'''", true, true}
)

// A clexer reads tokens. It never goes back, except that it looks once for the end of a comment or of a
// string: one without an end ends with its line, or with the source if it may go over lines.
type clexer struct {
	*grammar
	src   []byte
	class [256]byte
	tok   ctoken // the current token
}

// The classes of bytes.
const (
	other byte = iota
	blank
	mark  // may begin a comment or a string
	digit // from here on, what words consist of
	letter
)

func lex(g *grammar, src []byte) *clexer {
	l := &clexer{grammar: g, src: src}
	for c := range l.class {
		switch {
		case c <= ' ' || c == '\\' && g.splice:
			l.class[c] = blank
		case c >= '0' && c <= '9':
			l.class[c] = digit
		case c|' ' >= 'a' && c|' ' <= 'z' || c == '_' || c == '$' || c >= utf8.RuneSelf:
			l.class[c] = letter
		}
	}
	for _, open := range g.line {
		l.class[open[0]] = mark
	}
	for _, b := range g.block {
		l.class[b[0][0]] = mark
	}
	for _, q := range g.quotes {
		l.class[q.open[0]] = mark
	}
	if g.chars {
		l.class['\''] = mark
	}
	if hasPrefix(src, "\ufeff") { // the mark of UTF-8
		l.tok.End = 3
	}
	return l
}

// A ctoken is a token. Op is the first byte of an operator, or 0 for any other token.
type ctoken struct {
	Token
	op byte
}

// emptyAt returns a token without a text.
func emptyAt(at int32) ctoken { return ctoken{Token: Token{Operator, Span{at, at}}} }

// next reads the next token, and reports whether there is one. The characters ::, -> and => are one token
// each; every other operator has one byte.
func (l *clexer) next() bool {
	src, i := l.src, int(l.tok.End)
	for i < len(src) && l.class[src[i]] == blank {
		i++
	}
	if i == len(src) {
		l.tok = emptyAt(int32(i))
		return false
	}
	kind, end := Operator, i+1
	switch l.class[src[i]] {
	case letter:
		kind, end = l.word(i)
	case digit:
		kind, end = Number, l.number(i)
	case mark:
		kind, end = l.mark(i)
	default:
		if end < len(src) && (src[end] == '>' && (src[i] == '-' || src[i] == '=') || src[i] == ':' && src[end] == ':') {
			end++
		}
	}
	l.tok = ctoken{Token: Token{kind, Span{int32(i), int32(end)}}}
	if kind == Operator {
		l.tok.op = src[i]
	}
	return true
}

// code reads the next token that is not a comment.
//
//go:noinline
func (l *clexer) code() bool {
	for l.next() {
		if l.tok.Kind != Comment {
			return true
		}
	}
	return false
}

// is reports whether the token is this operator or word.
//
//go:noinline
func (l *clexer) is(text string) bool {
	return string(l.src[l.tok.Start:l.tok.End]) == text
}

// newlines returns the number of lines that end between two positions.
//
//go:noinline
func (l *clexer) newlines(from, to int32) int {
	return bytes.Count(l.src[min(from, to):to], []byte("\n"))
}

// text returns a token as a string, which does not keep the source.
func (l *clexer) text(t ctoken) string { return string(l.src[t.Start:t.End]) }

func (l *clexer) wordEnd(i int) int {
	for i < len(l.src) && l.class[l.src[i]] >= digit {
		i++
	}
	return i
}

func (l *clexer) word(i int) (TokenKind, int) {
	end := l.wordEnd(i)
	if end < len(l.src) && (l.src[end] == '"' || l.src[end] == '\'' || l.src[end] == '#') {
		if stop := l.prefixed(i, end); stop > 0 {
			return String, stop
		}
		if k := l.wordEnd(end + 1); l.chars && k > end+1 && string(l.src[i:end+1]) == "r#" { // a raw identifier of Rust
			return Identifier, k
		}
	}
	if end > i+1 && l.keywords[string(l.src[i:end])] {
		return Keyword, end
	}
	return Identifier, end
}

// prefixed returns the end of a string whose prefix is the word from i to end, or 0.
func (l *clexer) prefixed(i, end int) int {
	raw, ok := l.prefixes[string(l.src[i:end])]
	switch {
	case !ok:
		return 0
	case raw:
		text, stop := l.raw(l.src, end)
		if text == 0 {
			return 0
		}
		return after(l.src, text, stop)
	case l.src[end] == '#':
		return 0
	}
	kind, stop := l.mark(end)
	if kind != String {
		return 0
	}
	return stop
}

// after returns where the first end behind i ends, or the end of the source.
func after(src []byte, i int, end string) int {
	if k := bytes.Index(src[i:], []byte(end)); k >= 0 {
		return i + k + len(end)
	}
	return len(src)
}

// lineEnd returns where the line of i ends, without its newline.
func lineEnd(src []byte, i int) int {
	if n := bytes.IndexByte(src[i:], '\n'); n >= 0 {
		return i + n
	}
	return len(src)
}

func (l *clexer) number(start int) int {
	hex := start+1 < len(l.src) && l.src[start] == '0' && l.src[start+1]|' ' == 'x'
	i := start + 1
	for ; i < len(l.src); i++ {
		c, before := l.src[i], l.src[i-1]|' '
		if l.class[c] >= digit {
			continue
		}
		sign := (c == '+' || c == '-') && (before == 'p' || before == 'e' && !hex)
		separator := c == '.' || c == '\'' && l.splice // 1'000 in C++
		if !sign && !separator || i+1 == len(l.src) || l.class[l.src[i+1]] != digit {
			break
		}
	}
	return i
}

// mark returns the kind and end of what begins at i, with a byte that may begin a comment or a string.
func (l *clexer) mark(i int) (TokenKind, int) {
	rest, c := l.src[i:], l.src[i] // most differ in their first byte
	for _, b := range l.block {
		if b[0][0] == c && hasPrefix(rest, b[0]) {
			return Comment, l.blockEnd(i, b[0], b[1])
		}
	}
	for _, open := range l.line {
		if open[0] == c && hasPrefix(rest, open) && (open != "#" || l.fresh(i)) {
			return Comment, l.lineEnd(i)
		}
	}
	if l.chars && c == '\'' {
		return l.char(i)
	}
	for _, q := range l.quotes {
		if q.open[0] == c && hasPrefix(rest, q.open) {
			return String, quoteEnd(l.src, i+len(q.open), q)
		}
	}
	return Operator, i + 1
}

// fresh reports whether a # at i may begin a comment: it does not in $# or in a#b.
func (l *clexer) fresh(i int) bool {
	return i == 0 || bytes.IndexByte([]byte(" \t\r\n;)}]\xbf"), l.src[i-1]) >= 0 // the last ends the mark of UTF-8
}

func hasPrefix(b []byte, prefix string) bool {
	return len(b) >= len(prefix) && string(b[:len(prefix)]) == prefix
}

// lineEnd returns the end of the line, without its newline. A line that a backslash joins with the
// next goes on there.
func (l *clexer) lineEnd(i int) int {
	for i = lineEnd(l.src, i); l.splice && i < len(l.src) && spliced(l.src, i); {
		i = lineEnd(l.src, i+1)
	}
	return i
}

// spliced reports whether a backslash joins the line that ends at i with the next one.
func spliced(src []byte, i int) bool {
	return bytes.HasSuffix(bytes.TrimSuffix(src[max(0, i-2):i], []byte("\r")), []byte("\\"))
}

func (l *clexer) blockEnd(i int, open, end string) int {
	if !l.nested {
		return after(l.src, i+len(open), end)
	}
	for depth := 0; i < len(l.src); i++ {
		if l.src[i] == open[0] && hasPrefix(l.src[i:], open) {
			i += len(open) - 1
			depth++
		} else if l.src[i] == end[0] && hasPrefix(l.src[i:], end) {
			i += len(end) - 1
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return len(l.src)
}

// quoteEnd returns the end of a string whose text begins at i.
func quoteEnd(src []byte, i int, q *quote) int {
	for ; i < len(src); i++ {
		switch c := src[i]; {
		case c == q.end[0] && hasPrefix(src[i:], q.end):
			if q.escape || len(q.end) > 1 || !hasPrefix(src[i+1:], q.end) {
				return i + len(q.end)
			}
			i++
		case c == '\\' && q.escape:
			if i++; hasPrefix(src[i:min(i+2, len(src))], "\r\n") {
				i++
			}
		case c == '\n' && !q.lines:
			return i
		}
	}
	return len(src)
}

// char reads 'x', '\n', or the ' before a name.
func (l *clexer) char(i int) (TokenKind, int) {
	if i+1 < len(l.src) && l.src[i+1] == '\\' {
		return String, quoteEnd(l.src, i+1, &single)
	}
	_, size := utf8.DecodeRune(l.src[i+1:])
	if end := i + 1 + size; size > 0 && end < len(l.src) && l.src[end] == '\'' && l.src[i+1] != '\'' {
		return String, end + 1
	}
	return Identifier, l.wordEnd(i + 1)
}

// all returns the tokens of a source.
func (g *grammar) all(src []byte) iter.Seq[Token] {
	return func(yield func(Token) bool) {
		for l := lex(g, src); l.next() && yield(l.tok.Token); {
		}
	}
}
