package source

import (
	"bytes"
	"iter"
)

// A pyLexer reads the tokens of Python, by the chapter on lexical analysis of the language reference (3.14).
//
// The text of an f-string and the expressions in it are separate tokens, since an expression can
// contain everything, also strings with the same quotes. Open f-strings are on a stack: each is either
// in a text, or in a replacement field, which ends at the bracket depth where it began.
//
// Statements never begin inside of brackets. If a line inside of brackets begins with a word that only
// begins statements, a closing bracket is missing, and the lexer takes all brackets as closed.
type pyLexer struct {
	src        []byte
	pos        int // where the next token is looked for
	start, end int // the token
	kind       TokenKind
	first      bool // the token is the first of a logical line
	fresh      bool // a logical line has begun, and only comments have been read of it
	line       int  // where the line of the token begins, if it is the first of it
	depth      int  // open brackets
	strings    []pyString
}

// A pyString is an f-string that is open.
type pyString struct {
	quote  byte
	long   bool // with three quotes
	raw    bool
	text   bool // in a text, not in a replacement field
	fields int  // replacement fields that are open: more than one in a format specifier
	depth  int  // of brackets outside
}

// newPyLexer returns a lexer before the first token.
func newPyLexer(src []byte) *pyLexer {
	l := &pyLexer{src: src, fresh: true}
	if bytes.HasPrefix(src, []byte("\xef\xbb\xbf")) {
		l.pos, l.line = 3, 3
	}
	return l
}

func pythonTokens(src []byte) iter.Seq[Token] {
	return func(yield func(Token) bool) {
		l := newPyLexer(src)
		for l.next() {
			if !yield(Token{l.kind, Span{int32(l.start), int32(l.end)}}) {
				return
			}
		}
	}
}

// The classes of bytes in pyClass.
const (
	pyBlank  = ' ' // white space in a line
	pyLine   = 'n' // the end of a line
	pyLetter = 'a' // in a name, also at its beginning
	pyDigit  = '0'
	pyQuote  = 'q'
	pyOpen   = '('
	pyClose  = ')'
	pyHash   = '#'
	pyEscape = 'e' // a backslash
	pyColon  = ':' // or a semicolon
	pyDouble = '=' // an operator that = or the same byte can follow
)

// pyClass has the class of each byte; a dot is an operator of one byte, and what is not in ASCII is a letter.
const pyClass = "" +
	"......... n.  .." +
	"................" +
	" =q#.==q()==.=.=" +
	"0000000000::===." +
	"=aaaaaaaaaaaaaaa" +
	"aaaaaaaaaaa(e)=a" +
	".aaaaaaaaaaaaaaa" +
	"aaaaaaaaaaa(=).." +
	"aaaaaaaaaaaaaaaa" +
	"aaaaaaaaaaaaaaaa" +
	"aaaaaaaaaaaaaaaa" +
	"aaaaaaaaaaaaaaaa" +
	"aaaaaaaaaaaaaaaa" +
	"aaaaaaaaaaaaaaaa" +
	"aaaaaaaaaaaaaaaa" +
	"aaaaaaaaaaaaaaaa"

// next reads the next token, and reports whether there is one.
func (l *pyLexer) next() bool {
	if n := len(l.strings); n > 0 && l.strings[n-1].text {
		if l.start = l.pos; l.text() {
			return true
		}
	}
	if !l.blank() {
		return false
	}
	l.start, l.kind, l.first = l.pos, Operator, l.fresh
	c := l.src[l.pos]
	if c == '#' {
		l.kind, l.pos = Comment, lineEnd(l.src, l.pos)
		l.end = l.pos
		return true
	}
	l.fresh = false
	switch pyClass[c] {
	case pyLetter:
		l.word()
	case pyDigit:
		l.number()
	case pyQuote:
		l.quoted(l.pos)
	default:
		l.operator(c)
	}
	l.end = l.pos
	return true
}

// blank goes to the next byte that is not white space.
func (l *pyLexer) blank() bool {
	for l.pos < len(l.src) {
		switch pyClass[l.src[l.pos]] {
		case pyBlank:
			l.pos++
		case pyLine:
			l.pos++
			l.newline()
		case pyEscape:
			n := pyContinues(l.src[l.pos:])
			if n == 0 {
				return true
			}
			l.pos += n
		default:
			return true
		}
	}
	return false
}

// pyContinues returns the length of a backslash with the end of a line, or 0.
func pyContinues(src []byte) int {
	switch {
	case bytes.HasPrefix(src, []byte("\\\n")):
		return 2
	case bytes.HasPrefix(src, []byte("\\\r\n")):
		return 3
	}
	return 0
}

// newline is called after the end of a line outside of strings and comments.
func (l *pyLexer) newline() {
	if l.depth > 0 {
		i := l.pos
		for i < len(l.src) && pyClass[l.src[i]] == pyBlank {
			i++
		}
		if !pyOnlyFirst(l.src[i:pyNameEnd(l.src, i, i+9)]) {
			return
		}
		l.depth, l.strings = 0, l.strings[:0]
	}
	l.fresh, l.line = true, l.pos
}

// pyNameEnd returns the end of the name at i, or limit if the name goes on there.
func pyNameEnd(src []byte, i, limit int) int {
	for limit = min(limit, len(src)); i < limit && (pyClass[src[i]] == pyLetter || pyClass[src[i]] == pyDigit); {
		i++
	}
	return i
}

// word reads a name, a keyword, or a string with a prefix.
func (l *pyLexer) word() {
	l.pos = pyNameEnd(l.src, l.pos, len(l.src))
	if l.pos-l.start <= 2 && l.pos < len(l.src) && pyClass[l.src[l.pos]] == pyQuote && pyPrefix(l.src[l.start:l.pos]) {
		l.quoted(l.start)
		return
	}
	l.kind = Identifier
	if pyKeyword(l.src[l.start:l.pos]) {
		l.kind = Keyword
	}
}

// pyPrefix reports whether letters can be before a quote.
func pyPrefix(letters []byte) bool {
	for _, c := range letters {
		switch c | ' ' {
		case 'r', 'b', 'u', 'f', 't':
		default:
			return false
		}
	}
	return true
}

// number reads a number. In 1.real and 1if, it takes the letters too.
func (l *pyLexer) number() {
	l.kind = Number
	hex := len(l.src) > l.pos+1 && l.src[l.pos+1]|' ' == 'x'
	for ; l.pos < len(l.src); l.pos++ {
		switch c := l.src[l.pos]; {
		case pyClass[c] == pyLetter || pyClass[c] == pyDigit || c == '.':
		case (c == '+' || c == '-') && !hex && l.pos > l.start && l.src[l.pos-1]|' ' == 'e':
		default:
			return
		}
	}
}

func (l *pyLexer) operator(c byte) {
	l.pos++
	after := byte(0)
	if l.pos < len(l.src) {
		after = l.src[l.pos]
	}
	switch pyClass[c] {
	case pyOpen:
		l.depth++
	case pyClose:
		l.closing()
	case pyColon:
		if after == '=' && c == ':' && !l.specifies() {
			l.pos++
		} else if c == ':' && l.specifies() {
			l.strings[len(l.strings)-1].text = true
		}
	case pyDouble:
		l.double(c, after)
	default:
		if c == '.' && pyClass[after] == pyDigit {
			l.number()
		}
	}
}

// specifies reports whether pos is directly in a replacement field, so that a colon begins a format specifier.
func (l *pyLexer) specifies() bool {
	n := len(l.strings)
	return n > 0 && l.depth == l.strings[n-1].depth+l.strings[n-1].fields
}

func (l *pyLexer) closing() {
	if !l.specifies() {
		l.depth = max(l.depth-1, 0)
	} else if l.src[l.pos-1] == '}' { // another bracket does not close a replacement field
		s := &l.strings[len(l.strings)-1]
		s.fields--
		s.text = true
		l.depth--
	}
}

func (l *pyLexer) double(c, after byte) {
	if c == '!' && len(l.strings) > 0 && pyClass[after] == pyLetter { // a conversion
		l.pos++
		return
	}
	if after == c && (c == '*' || c == '/' || c == '<' || c == '>') {
		if l.pos++; l.pos < len(l.src) {
			after = l.src[l.pos]
		}
	}
	if after == '=' || c == '-' && after == '>' {
		l.pos++
	}
}

// quoted reads a string, or begins an f-string, whose quote is at pos and whose prefix begins at from.
func (l *pyLexer) quoted(from int) {
	l.kind = String
	raw, format := false, false
	for _, c := range l.src[from:l.pos] {
		raw = raw || c|' ' == 'r'
		format = format || c|' ' == 'f' || c|' ' == 't'
	}
	quote := l.src[l.pos]
	long := bytes.HasPrefix(l.src[l.pos:], []byte{quote, quote, quote})
	if long {
		l.pos += 2
	}
	l.pos++
	if !format {
		l.pos = pyStringEnd(l.src, l.pos, quote, long)
		return
	}
	l.strings = append(l.strings, pyString{quote: quote, long: long, raw: raw, text: true, depth: l.depth})
	first := l.first
	l.text()
	l.first = first
}

// pyStringEnd returns the end of a string whose text begins at i. A backslash before a quote keeps it from
// ending the string, also in raw strings.
func pyStringEnd(src []byte, i int, c byte, long bool) int {
	if long {
		return pyLongEnd(src, i, c)
	}
	return quoteEnd(src, i, &quote{end: string(c), escape: true})
}

func pyLongEnd(src []byte, i int, quote byte) int {
	for {
		n := bytes.IndexByte(src[i:], quote)
		if n < 0 {
			return len(src)
		}
		escapes := 0
		for escapes < n && src[i+n-1-escapes] == '\\' {
			escapes++
		}
		i += n + 1
		if escapes%2 == 0 && i+1 < len(src) && src[i] == quote && src[i+1] == quote {
			return i + 2
		}
	}
}

// text reads a text of the innermost f-string, up to its end or a replacement field, and reports
// whether there was any.
func (l *pyLexer) text() bool {
	s := &l.strings[len(l.strings)-1]
	l.kind, l.first = String, false
	for l.pos < len(l.src) && s.text {
		c := l.src[l.pos]
		switch {
		case c == '\n' && !s.long:
			l.leave()
			return l.part()
		case c == s.quote && (!s.long || bytes.HasPrefix(l.src[l.pos:], []byte{c, c, c})):
			l.pos++
			if s.long {
				l.pos += 2
			}
			l.leave()
			return l.part()
		case c == '{' || c == '}':
			l.brace(s, c)
		case c == '\\':
			l.escape(s)
		default:
			l.pos++
		}
	}
	l.pos = min(l.pos, len(l.src))
	return l.part()
}

// part ends a token at pos.
func (l *pyLexer) part() bool {
	l.end = l.pos
	return l.end > l.start
}

// leave ends the innermost f-string.
func (l *pyLexer) leave() {
	s := l.strings[len(l.strings)-1]
	l.strings = l.strings[:len(l.strings)-1]
	l.depth = s.depth
}

// brace reads a brace in a text of an f-string, unless it begins or ends a replacement field.
func (l *pyLexer) brace(s *pyString, c byte) {
	switch {
	case s.fields > 0 && c == '}': // the field that this format specifier belongs to
		s.text = false
	case s.fields == 0 && l.pos+1 < len(l.src) && l.src[l.pos+1] == c:
		l.pos += 2
	case c == '{':
		s.fields++
		s.text = false
	default:
		l.pos++
	}
}

func (l *pyLexer) escape(s *pyString) {
	l.pos++
	switch {
	case l.pos >= len(l.src):
	case l.src[l.pos] == '{' || l.src[l.pos] == '}': // not escaped by it
	case !s.raw && bytes.HasPrefix(l.src[l.pos:], []byte("N{")):
		l.pos += 2
		for l.pos < len(l.src) && l.src[l.pos] != '}' && l.src[l.pos] != s.quote && l.src[l.pos] != '\n' {
			l.pos++
		}
		if l.pos < len(l.src) && l.src[l.pos] == '}' {
			l.pos++
		}
	case bytes.HasPrefix(l.src[l.pos:], []byte("\r\n")):
		l.pos += 2
	default:
		l.pos++
	}
}

// pyOnlyFirst reports whether a word can only begin a statement.
func pyOnlyFirst(word []byte) bool {
	switch string(word) {
	case "assert", "class", "continue", "def", "del", "global", "import", "nonlocal", "pass", "raise", "return", "try",
		"while", "with":
		return true
	}
	return false
}

func pyKeyword(word []byte) bool {
	switch string(word) {
	case "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue", "def", "del",
		"elif", "else", "except", "finally", "for", "from", "global", "if", "import", "in", "is", "lambda", "nonlocal",
		"not", "or", "pass", "raise", "return", "try", "while", "with", "yield":
		return true
	}
	return false
}
