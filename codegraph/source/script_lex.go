package source

import (
	"bytes"
	"unicode"
	"unicode/utf8"
)

// The lexer of TypeScript and JavaScript. The grammar needs a parser to tell a regular expression from a
// division and JSX from a comparison. The lexer does without: it knows whether the token before ends an
// operand, and keeps a stack of what is open, which says what a closing bracket closes. So it is wrong only
// where both readings are valid, such as after the brace of a function expression that is divided.

// A scriptKind is a kind of token.
type scriptKind uint8

const (
	scriptEnd     scriptKind = iota
	scriptComment            // also the line with #!
	scriptString
	scriptTemplate // a part of a template literal between quotes and substitutions
	scriptRegexp
	scriptNumber
	scriptName  // an identifier, also a keyword after a dot
	scriptWord  // a keyword
	scriptLabel // the name of an attribute or of an intrinsic element in JSX
	scriptText  // text in JSX
	scriptPunct
)

// Operators have their byte as code. These consist of several bytes or need to be told apart.
const (
	opArrow  = 'A' // =>
	opChain  = 'C' // ?.
	opSpread = 'S' // ...
	opOther  = 'O' // any other of several bytes

	// The parts of templates.
	opTemplate       = 1 // all of one
	opTemplateHead   = 2 // up to the first substitution
	opTemplateMiddle = 3 // between two
	opTemplateTail   = 4 // after the last
)

// The brackets and parts of JSX that can be open. A brace is a block or an expression: after the latter a
// slash divides.
const (
	openParen    = '('
	openControl  = 'c' // the parenthesis after if, for, while and with
	openBracket  = '['
	openBlock    = 'B'
	openObject   = 'E'
	openTemplate = '`' // the substitution in a template
	openJSX      = 'J' // an expression in JSX
	openElement  = 'X' // the children of a JSX element
	openTag      = 'T' // the tag that opens an element
	openClosing  = 'Z' // the tag that closes an element
)

type scriptLexer struct {
	src []byte
	pos int

	// The current token.
	kind       scriptKind
	op         byte // of a scriptPunct
	word       scriptWordClass
	newline    bool // a line ends between the token before and this one
	start, end int

	operand bool // the token before ends an operand
	last    byte // op of the token before, 0 if it is not a scriptPunct
	before  scriptWordClass
	mode    byte // openElement, openTag or openClosing if that is the top of the stack, or 0
	angles  int  // type arguments that are open in a tag
	stack   []byte

	closers map[string]int // where each tag is closed last, made when needed
	noQuote [2]bool        // no further " and ' in the source
}

func (l *scriptLexer) top() byte {
	if len(l.stack) == 0 {
		return 0
	}
	return l.stack[len(l.stack)-1]
}

func (l *scriptLexer) push(b byte) {
	l.stack = append(l.stack, b)
	l.setMode()
}

func (l *scriptLexer) pop() {
	if len(l.stack) > 0 {
		l.stack = l.stack[:len(l.stack)-1]
	}
	l.setMode()
}

//go:noinline
func (l *scriptLexer) setMode() {
	switch b := l.top(); b {
	case openElement, openTag, openClosing:
		l.mode = b
	default:
		l.mode = 0
	}
}

// next reads a token. At the end of the source it reports false.
func (l *scriptLexer) next() bool {
	if l.kind != scriptComment {
		l.newline = false
		l.last, l.before = l.op, l.word
	}
	l.op, l.word = 0, 0
	if l.pos < len(l.src) && l.src[l.pos] > ' ' && l.src[l.pos] < utf8.RuneSelf {
		// most often there is nothing to skip
	} else if !l.space() {
		l.kind, l.start, l.end = scriptEnd, l.pos, l.pos
		return false
	}
	l.start = l.pos
	switch l.mode {
	case openElement:
		l.children()
	case openTag, openClosing:
		l.tag()
	default:
		l.code()
	}
	l.end = l.pos
	if l.kind == scriptComment {
		l.op, l.word = l.last, l.before // as if it were not there
	}
	return true
}

// space skips white space and reports whether something follows.
func (l *scriptLexer) space() bool {
	src, i := l.src, l.pos
	for i < len(src) {
		switch c := src[i]; {
		case c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f':
			i++
		case c == '\n':
			l.newline = true
			i++
		case c < utf8.RuneSelf:
			l.pos = i
			return true
		default:
			r, n := utf8.DecodeRune(src[i:])
			if !scriptSpace(r) {
				l.pos = i
				return true
			}
			l.newline = l.newline || r == '\u2028' || r == '\u2029'
			i += n
		}
	}
	l.pos = i
	return false
}

func scriptSpace(r rune) bool {
	return r == '\uFEFF' || unicode.IsSpace(r) || unicode.Is(unicode.Zs, r)
}

// code reads a token outside of JSX.
func (l *scriptLexer) code() {
	c := l.src[l.pos]
	switch scriptBytes[c] {
	case byteName, byteUnicode:
		l.name()
	case byteSingle:
		l.take(1, c, false)
	case byteDigit:
		l.number()
	case byteQuote:
		l.quoted(c)
	default:
		switch {
		case c == '`':
			l.template()
		case c == '/':
			l.slash()
		case c == '.' && scriptBytes[l.at(1)] == byteDigit:
			l.number()
		default:
			l.punct(c)
		}
	}
}

// at returns the byte i after the current one, or 0.
func (l *scriptLexer) at(i int) byte {
	if l.pos+i < len(l.src) {
		return l.src[l.pos+i]
	}
	return 0
}

// name reads an identifier or a keyword.
func (l *scriptLexer) name() {
	if l.pos == 0 && l.src[0] == '#' && l.at(1) == '!' {
		l.line()
		return
	}
	l.pos = scriptNameEnd(l.src, l.pos+1)
	l.kind, l.operand = scriptName, true
	if l.last == '.' || l.last == opChain {
		return
	}
	l.word = classOf(l.src[l.start:l.pos])
	if l.word >= wordValue {
		l.kind, l.operand = scriptWord, l.word == wordValue
	}
}

// scriptNameEnd returns where the name ends that goes on at i. Escapes are part of it.
func scriptNameEnd(src []byte, i int) int {
	for i < len(src) && scriptBytes[src[i]] <= byteName {
		i++
	}
	for i < len(src) && scriptBytes[src[i]] <= byteUnicode {
		switch {
		case src[i] < utf8.RuneSelf:
			i++
		default:
			r, n := utf8.DecodeRune(src[i:])
			if scriptSpace(r) {
				return i
			}
			i += n
		}
	}
	return i
}

func (l *scriptLexer) number() {
	src, i := l.src, l.pos
	hex := src[i] == '0' && i+1 < len(src) && src[i+1]|0x20 == 'x'
	for dot := false; i < len(src); i++ {
		c := src[i]
		switch b := scriptBytes[c]; {
		case b <= byteName:
		case c == '.' && !dot && !hex:
			dot = true
		case (c == '+' || c == '-') && !hex && i > l.pos && src[i-1]|0x20 == 'e':
		default:
			l.pos, l.kind, l.operand = i, scriptNumber, true
			return
		}
	}
	l.pos, l.kind, l.operand = i, scriptNumber, true
}

// quoted reads a string. If it does not end, it ends with its line.
func (l *scriptLexer) quoted(c byte) {
	l.pos, l.kind, l.operand = quoteEnd(l.src, l.pos+1, &quote{end: string(c), escape: true}), scriptString, true
}

// template reads a part of a template: from the quote, or from the brace that ends a substitution, up to the
// next substitution, with its dollar and brace, or the end.
func (l *scriptLexer) template() {
	src, i := l.src, l.pos+1
	l.kind = scriptTemplate
	l.op = opTemplate
	if src[l.pos] == '}' {
		l.op = opTemplateTail
	}
	for ; i < len(src); i++ {
		switch {
		case src[i] == '`':
			l.pos, l.operand = i+1, true
			return
		case src[i] == '\\':
			i++
		case src[i] == '$' && i+1 < len(src) && src[i+1] == '{':
			l.pos, l.operand = i+2, false
			l.op = opTemplateMiddle
			if src[l.start] == '`' {
				l.op = opTemplateHead
			}
			l.push(openTemplate)
			return
		}
	}
	l.pos, l.operand = len(src), true
}

// slash reads what begins with a slash: a comment, a regular expression or an operator.
func (l *scriptLexer) slash() {
	switch next := l.at(1); {
	case next == '/':
		l.line()
	case next == '*':
		l.block()
	case l.operand || l.last == '<' && l.start > 0 && l.src[l.start-1] == '<':
		l.take(1, opOther, false)
	default:
		l.regexp()
	}
}

func (l *scriptLexer) line() {
	l.kind, l.pos = scriptComment, lineEnd(l.src, l.pos)
}

func (l *scriptLexer) block() {
	l.kind = scriptComment
	end := after(l.src, l.pos+2, "*/")
	l.newline = l.newline || bytes.IndexByte(l.src[l.pos:end], '\n') >= 0
	l.pos = end
}

// regexp reads a regular expression with its flags. If it does not end, it ends with its line.
func (l *scriptLexer) regexp() {
	src, i := l.src, l.pos+1
	for class := false; i < len(src) && src[i] != '\n' && (class || src[i] != '/'); i++ {
		switch src[i] {
		case '\\':
			if i+1 < len(src) && src[i+1] != '\n' {
				i++
			}
		case '[':
			class = true
		case ']':
			class = false
		}
	}
	if i < len(src) && src[i] == '/' {
		i = scriptNameEnd(src, i+1)
	}
	l.pos, l.kind, l.operand = i, scriptRegexp, true
}
