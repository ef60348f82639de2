package source

import "bytes"

// punct reads an operator or a bracket.
func (l *scriptLexer) punct(c byte) {
	next := l.at(1)
	switch c {
	case '(', '[', '{':
		l.open(c)
		return
	case ')', ']', '}':
		l.close(c)
		return
	case '<':
		if !l.operand && l.jsxBegins() {
			l.element()
			return
		}
	case '+', '-':
		if next == c { // operand stays: after one, this is a suffix
			l.take(2, opOther, l.operand)
			return
		}
	case '!':
		if next != '=' {
			l.take(1, c, l.operand && !l.newline) // an assertion of TypeScript, or a negation
			return
		}
	}
	n, op := 1, c
	switch {
	case c == '=' && next == '>':
		n, op = 2, opArrow
	case c == '.' && next == '.' && l.at(2) == '.':
		n, op = 3, opSpread
	case c == '?' && next == '.' && scriptBytes[l.at(2)] != byteDigit:
		n, op = 2, opChain
	case c == '>': // each for itself: they may close type arguments
	case bytes.IndexByte([]byte("=<&|?*"), next) >= 0 && next != 0 && (next == '=' || next == c):
		n, op = l.run(), opOther
	}
	l.take(n, op, false)
}

// run returns the length of an operator that begins with the current byte and repeats it or ends with =.
func (l *scriptLexer) run() int {
	c, n := l.at(0), 1
	for n < 3 && l.at(n) == c && c != '=' {
		n++
	}
	for n < 4 && l.at(n) == '=' {
		n++
	}
	return n
}

// take makes a token of n bytes.
func (l *scriptLexer) take(n int, op byte, operand bool) {
	if op <= opTemplateTail {
		op = opOther // a control character, not a part of a template
	}
	l.pos += n
	l.kind, l.op, l.operand = scriptPunct, op, operand
}

func (l *scriptLexer) open(c byte) {
	what := c
	switch {
	case c == '(' && l.before == wordControl:
		what = openControl
	case c == '{' && l.beginsBlock():
		what = openBlock
	case c == '{':
		what = openObject
	}
	l.take(1, c, false)
	l.push(what)
}

// beginsBlock reports whether a brace opens a block rather than an object.
func (l *scriptLexer) beginsBlock() bool {
	switch l.last {
	case ')', ';', '}', opArrow, '>':
		return true
	case '{':
		return l.top() == openBlock
	case 0:
		return l.operand || l.before == wordBlock || l.before == wordNone // the last: at the beginning of the file
	}
	return false
}

// close closes a bracket. A brace also closes the parentheses and brackets that are open in it. Other
// brackets that do not match are passed over.
func (l *scriptLexer) close(c byte) {
	if c == '}' {
		for n := len(l.stack); n > 0 && (l.stack[n-1] == openParen || l.stack[n-1] == openControl || l.stack[n-1] == openBracket); n-- {
			l.stack = l.stack[:n-1]
		}
	}
	switch top := l.top(); {
	case c == '}' && top == openTemplate:
		l.pop()
		l.template()
		return
	case c == '}' && (top == openBlock || top == openObject || top == openJSX):
		l.pop()
		l.take(1, c, top == openObject)
		return
	case c == ')' && (top == openParen || top == openControl):
		l.pop()
		l.take(1, c, top == openParen)
		return
	case c == ']' && top == openBracket:
		l.pop()
	}
	l.take(1, c, c != '}')
}

// jsxBegins reports whether < begins an element of JSX and not type parameters or a type assertion. Both can
// stand where an operand is expected. It is an element if it looks like one up to its first attribute, or if
// it has none and is closed somewhere.
func (l *scriptLexer) jsxBegins() bool {
	if l.at(1) == '>' {
		return true
	}
	src, i := l.src, l.pos+1
	if i >= len(src) || scriptBytes[src[i]] != byteName && scriptBytes[src[i]] != byteUnicode {
		return false
	}
	name := src[i:tagNameEnd(src, i)]
	if jsxTypeWord(name) {
		return false
	}
	i += len(name)
	if i < len(src) && src[i] == '<' {
		i = typeArguments(src, i)
	}
	gap := i
	for i < len(src) && (src[i] == ' ' || src[i] == '\n' || src[i] == '\t' || src[i] == '\r') {
		i++
	}
	if i == len(src) {
		return false
	}
	switch c := src[i]; {
	case c == '>':
		return l.closedAfter(name)
	case c == '/':
		return i+1 < len(src) && (src[i+1] == '>' || src[i+1] == '*' || src[i+1] == '/')
	case c == '{':
		return true
	}
	attr := src[i:scriptNameEnd(src, i)]
	return i > gap && len(attr) > 0 && string(attr) != "extends"
}

// jsxTypeWord reports whether a name after < shows that a type follows.
func jsxTypeWord(name []byte) bool {
	switch string(name) {
	case "const", "keyof", "typeof", "readonly", "unique", "in", "out", "infer", "new", "abstract", "asserts":
		return true
	}
	return false
}

// typeArguments returns where the type arguments end that begin at i. It does not look far.
func typeArguments(src []byte, i int) int {
	depth := 0
	for j := i; j < len(src) && j < i+100; j++ {
		switch src[j] {
		case '<':
			depth++
		case '>':
			if depth--; depth == 0 {
				return j + 1
			}
		case ';', '(':
			return i
		}
	}
	return i
}

// tagNameEnd returns where the name of a tag or attribute ends, which may have hyphens, colons and dots.
func tagNameEnd(src []byte, i int) int {
	for i < len(src) && (scriptBytes[src[i]] <= byteUnicode || src[i] == '-' || src[i] == ':' || src[i] == '.') {
		i++
	}
	return i
}

// closedAfter reports whether a closing tag with a name follows.
func (l *scriptLexer) closedAfter(name []byte) bool {
	if l.closers == nil {
		l.closers = map[string]int{}
		for i := 0; ; {
			n := bytes.Index(l.src[i:], []byte("</"))
			if n < 0 {
				break
			}
			i += n + 2
			l.closers[string(l.src[i:tagNameEnd(l.src, i)])] = i
		}
	}
	return l.closers[string(name)] > l.pos
}

// element opens an element at <.
func (l *scriptLexer) element() {
	l.take(1, '<', false)
	l.stack = append(l.stack, openElement)
	l.push(openTag)
	l.angles = 0
}

// tag reads a token in a tag of JSX.
func (l *scriptLexer) tag() {
	switch c := l.src[l.pos]; {
	case scriptBytes[c] <= byteUnicode:
		l.tagName()
	case c == '"' || c == '\'':
		l.attribute(c)
	case c == '{':
		l.take(1, c, false)
		l.push(openJSX)
	case c == '<' && l.last == '=':
		l.element()
	case c == '<':
		l.angles++
		l.take(1, c, false)
	case c == '>' && l.angles > 0:
		l.angles--
		l.take(1, c, false)
	case c == '>':
		l.take(1, c, false)
		l.endTag()
	case c == '/' && l.at(1) == '>':
		l.take(2, '>', false)
		l.pop()
		l.endElement()
	case c == '/' && l.at(1) == '/':
		l.line()
	case c == '/' && l.at(1) == '*':
		l.block()
	default:
		l.take(1, c, false)
	}
}

// tagName reads a name in a tag. Those of components, and of types, are names of the file.
func (l *scriptLexer) tagName() {
	first := l.mode == openTag && l.last == '<'
	src, i := l.src, l.pos
	for i < len(src) && (scriptBytes[src[i]] <= byteUnicode || src[i] == '-' || src[i] == ':') {
		i++
	}
	c := src[l.pos]
	component := first && (c < 'a' || c > 'z' || i < len(src) && src[i] == '.')
	l.pos, l.kind = i, scriptLabel
	if component || l.angles > 0 || l.mode == openTag && l.last == '.' {
		l.kind = scriptName
	}
}

// attribute reads a string in a tag, which has no escapes and may have several lines. If it does not
// end, it ends with its line.
func (l *scriptLexer) attribute(quote byte) {
	l.kind = scriptString
	which := int(quote) & 1
	if !l.noQuote[which] {
		if i := bytes.IndexByte(l.src[l.pos+1:], quote); i >= 0 {
			l.pos += i + 2
			return
		}
		l.noQuote[which] = true
	}
	l.line()
	l.kind = scriptString
}

func (l *scriptLexer) endTag() {
	closing := l.mode == openClosing
	l.pop()
	if closing {
		l.endElement()
	}
}

func (l *scriptLexer) endElement() {
	l.pop()
	l.operand = true
}

// children reads a token between two tags of JSX.
func (l *scriptLexer) children() {
	switch c := l.src[l.pos]; {
	case c == '{':
		l.take(1, c, false)
		l.push(openJSX)
	case c == '<' && l.at(1) == '/':
		l.take(2, '/', false)
		l.push(openClosing)
	case c == '<':
		l.element()
	default:
		l.kind = scriptText
		if i := bytes.IndexAny(l.src[l.pos:], "{<"); i >= 0 {
			l.pos += i
			return
		}
		l.pos = len(l.src)
	}
}
