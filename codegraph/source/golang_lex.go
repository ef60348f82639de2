package source

import (
	"bytes"
	"iter"
	"slices"
	"unicode"
	"unicode/utf8"
)

// The kinds of tokens of Go for its parser. Those with one character that is not listed here are that character.
const (
	goEnd byte = iota
	goIdent
	goNumber
	goString // also of one character
	goComment
	goIllegal
	goBinary  // an operator that can only be between two operands
	goAssign  // also with an operator: +=
	goDefine  // :=
	goStep    // ++ and --
	goArrow   // <-
	goDots    // ...
	goBreak   // also continue, goto and fallthrough
	goCase    // from here on, keywords
	goChan    //
	goConst   //
	goDefault //
	goDefer   // also go
	goElse    //
	goFor     //
	goFunc    //
	goIf      //
	goImport  //
	goInterface
	goMap
	goPackage
	goRange
	goReturn
	goSelect
	goStruct
	goSwitch
	goType
	goVar
)

var goKeywords = map[string]byte{
	"break": goBreak, "continue": goBreak, "goto": goBreak, "fallthrough": goBreak, "case": goCase, "chan": goChan,
	"const": goConst, "default": goDefault, "defer": goDefer, "go": goDefer, "else": goElse, "for": goFor, "func": goFunc,
	"if": goIf, "import": goImport, "interface": goInterface, "map": goMap, "package": goPackage, "range": goRange,
	"return": goReturn, "select": goSelect, "struct": goStruct, "switch": goSwitch, "type": goType, "var": goVar,
}

// The classes of bytes that tokens of Go begin with.
const (
	goNothing byte = iota
	goMark
	goArithmetic
	goBlank
	goDigit // from here on, what names consist of
	goLetter
)

// goClasses are the classes of bytes below [utf8.RuneSelf].
var goClasses = [256]byte{
	' ': goBlank, '\t': goBlank, '\r': goBlank, '\n': goBlank,
	'(': goMark, ')': goMark, '[': goMark, ']': goMark, '{': goMark, '}': goMark, ',': goMark, ';': goMark, '.': goMark,
	':': goMark, '!': goMark, '~': goMark, '=': goMark, '"': goMark, '\'': goMark, '`': goMark,
	'+': goArithmetic, '-': goArithmetic, '*': goArithmetic, '/': goArithmetic, '%': goArithmetic, '&': goArithmetic,
	'|': goArithmetic, '^': goArithmetic, '<': goArithmetic, '>': goArithmetic,
	'0': goDigit, '1': goDigit, '2': goDigit, '3': goDigit, '4': goDigit,
	'5': goDigit, '6': goDigit, '7': goDigit, '8': goDigit, '9': goDigit,
	'A': goLetter, 'B': goLetter, 'C': goLetter, 'D': goLetter, 'E': goLetter, 'F': goLetter, 'G': goLetter, 'H': goLetter,
	'I': goLetter, 'J': goLetter, 'K': goLetter, 'L': goLetter, 'M': goLetter, 'N': goLetter, 'O': goLetter, 'P': goLetter,
	'Q': goLetter, 'R': goLetter, 'S': goLetter, 'T': goLetter, 'U': goLetter, 'V': goLetter, 'W': goLetter, 'X': goLetter,
	'Y': goLetter, 'Z': goLetter, '_': goLetter,
	'a': goLetter, 'b': goLetter, 'c': goLetter, 'd': goLetter, 'e': goLetter, 'f': goLetter, 'g': goLetter, 'h': goLetter,
	'i': goLetter, 'j': goLetter, 'k': goLetter, 'l': goLetter, 'm': goLetter, 'n': goLetter, 'o': goLetter, 'p': goLetter,
	'q': goLetter, 'r': goLetter, 's': goLetter, 't': goLetter, 'u': goLetter, 'v': goLetter, 'w': goLetter, 'x': goLetter,
	'y': goLetter, 'z': goLetter,
}

// goBrackets are the brackets: an opening one, and the closing one that matches it, differ by goCloses.
var goBrackets = [256]byte{'(': 1, '[': 2, '{': 3, ')': 1 + goCloses, ']': 2 + goCloses, '}': 3 + goCloses}

const goCloses = 3

// goDeclares are the words that begin declarations other than imports.
var goDeclares = map[byte]bool{goConst: true, goFunc: true, goType: true, goVar: true}

// A goLexer reads the tokens of Go, without the semicolons at the ends of lines.
type goLexer struct {
	src     []byte
	at, end int // of the current token
	kind    byte
	newline bool // a line ends between the token before and this one, or in this one, if it is a comment
}

func lexGo(src []byte) *goLexer {
	l := &goLexer{src: src}
	if hasPrefix(src, "\ufeff") { // the mark of UTF-8
		l.end = 3
	}
	return l
}

// next reads the next token, and reports whether there is one.
func (l *goLexer) next() bool {
	src, i := l.src, l.end
	l.newline = false
	for i < len(src) && goClasses[src[i]] == goBlank {
		l.newline = l.newline || src[i] == '\n'
		i++
	}
	l.at = i
	if i == len(src) {
		l.kind, l.end, l.newline = goEnd, i, true
		return false
	}
	switch c := src[i]; {
	case goClasses[c] == goLetter:
		l.kind, l.end = goIdent, goWordEnd(src, i+1)
	case c >= utf8.RuneSelf:
		l.kind, l.end = goIdent, goWordEnd(src, i)
		if l.end == i {
			_, size := utf8.DecodeRune(src[i:])
			l.kind, l.end = goIllegal, i+size
		}
	case goClasses[c] == goDigit, c == '.' && i+1 < len(src) && goClasses[src[i+1]] == goDigit:
		l.kind, l.end = goNumber, goNumberEnd(src, i)
	default:
		l.mark(c)
	}
	return true
}

func goWordEnd(src []byte, i int) int {
	for i < len(src) {
		if goClasses[src[i]] >= goDigit {
			i++
			continue
		}
		if src[i] < utf8.RuneSelf {
			break
		}
		r, size := utf8.DecodeRune(src[i:])
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			break
		}
		i += size
	}
	return i
}

func goNumberEnd(src []byte, i int) int {
	hex := i+1 < len(src) && src[i] == '0' && src[i+1]|' ' == 'x'
	for i++; i < len(src); i++ {
		c, before := src[i], src[i-1]|' '
		sign := (c == '+' || c == '-') && (before == 'p' && hex || before == 'e' && !hex)
		if !sign && c != '.' && goClasses[c] < goDigit {
			break
		}
	}
	return i
}

// mark reads a comment, string or operator.
func (l *goLexer) mark(c byte) {
	rest := l.src[l.at:]
	second := byte(0)
	if len(rest) > 1 {
		second = rest[1]
	}
	switch {
	case c == '/' && second == '/':
		l.kind, l.end = goComment, l.at+len(bytes.TrimRight(l.src[l.at:lineEnd(l.src, l.at)], "\r"))
	case c == '/' && second == '*':
		l.kind, l.end = goComment, after(l.src, l.at+2, "*/")
		l.newline = l.newline || bytes.IndexByte(l.src[l.at:l.end], '\n') >= 0
	case c == '"' || c == '\'':
		l.kind, l.end = goString, quoteEnd(l.src, l.at+1, &quote{end: string(c), escape: true})
	case c == '`':
		l.kind, l.end = goString, after(l.src, l.at+1, "`")
	default:
		l.operator(c, second)
	}
}

// operator reads an operator, whose first two bytes are c and second.
func (l *goLexer) operator(c, second byte) {
	l.kind, l.end = c, l.at+1
	switch {
	case c == ':' && second == '=':
		l.kind, l.end = goDefine, l.at+2
	case c == '<' && second == '-':
		l.kind, l.end = goArrow, l.at+2
	case c == '.' && second == '.' && hasPrefix(l.src[l.at:], "..."):
		l.kind, l.end = goDots, l.at+3
	case (c == '+' || c == '-') && second == c:
		l.kind, l.end = goStep, l.at+2
	case second == '=' && (c == '<' || c == '>' || c == '=' || c == '!'):
		l.kind, l.end = goBinary, l.at+2
	case c == '=':
		l.kind = goAssign
	case goClasses[c] == goArithmetic:
		l.arithmetic(c, second)
	case goClasses[c] == goNothing:
		l.kind = goIllegal
	}
}

// arithmetic reads an operator that can be assigned with.
func (l *goLexer) arithmetic(c, second byte) {
	if second == c && (c == '&' || c == '|' || c == '<' || c == '>') || c == '&' && second == '^' {
		l.kind, l.end = goBinary, l.at+2
	} else if c == '/' || c == '%' || c == '<' || c == '>' {
		l.kind = goBinary
	}
	if l.end < len(l.src) && l.src[l.end] == '=' && (c != '&' && c != '|' || second != c) {
		l.kind, l.end = goAssign, l.end+1
	}
}

func tokensOfGo(src []byte) iter.Seq[Token] {
	return func(yield func(Token) bool) {
		for l := lexGo(src); l.next() && yield(Token{l.public(), Span{int32(l.at), int32(l.end)}}); {
		}
	}
}

// public returns the kind of the token for [Tokens].
func (l *goLexer) public() TokenKind {
	switch l.kind {
	case goComment:
		return Comment
	case goString:
		return String
	case goNumber:
		return Number
	case goIdent:
		if goKeywords[string(l.src[l.at:l.end])] > 0 {
			return Keyword
		}
		return Identifier
	}
	return Operator
}

// goTokens are the tokens of a file without the comments. Opening and closing brackets match.
type goTokens struct {
	src      []byte
	toks     []goToken // then two of the kind goEnd
	comments []Span
	words    []goWord          // by the number of a name
	open     []int32           // the brackets that are not closed, by their indices in toks
	deep     bool              // there are too many, or too deeply nested ones; then toks are those of the imports
	unclosed [1 + goCloses]int // how many of them there are of a kind, by goBrackets
}

// A goToken is a token of a file. Of an opening bracket, to is the index of the closing one, of a name or
// keyword its number, and of others their end.
type goToken struct {
	at, to int32
	kind   byte
}

// endOf returns where a token ends.
func (g *goTokens) endOf(t goToken) int32 {
	switch b := goBrackets[t.kind]; {
	case t.kind == goIdent || t.kind >= goBreak && t.kind < ' ':
		return t.at + g.words[t.to].size
	case b > 0 && b <= goCloses:
		return t.at + 1
	}
	return t.to
}

// A goWord is what is known of a name.
type goWord struct {
	kind     byte  // goIdent, or the keyword
	isType   bool  // one of goTypes
	isValue  bool  // one of goValues
	imported bool  // the name of an import
	local    bool  // declared in a function
	of       int32 // then the type of its value
	size     int32 // its length
}

// read reads the tokens of the file, or, for its imports, those before the first other declaration.
func (g *goTokens) read(names *nameTable, part Part) {
	src := g.src
	if part == All {
		g.toks = slices.Grow(g.toks, len(src)/4+8)
	}
	l := lexGo(src)
	ends := false // the end of this line is that of a statement
	imports := 0  // how many tokens are before the first other declaration
	for more := true; more; {
		more = l.next()
		if ends && l.newline && len(g.toks) > 0 {
			end := g.endOf(g.toks[len(g.toks)-1])
			g.toks = append(g.toks, goToken{end, end, ';'})
			ends = false
		}
		if l.kind == goComment {
			g.comments = append(g.comments, Span{int32(l.at), int32(l.end)})
			continue
		}
		t := goToken{int32(l.at), int32(l.end), l.kind}
		if t.kind == goIdent {
			t.to = names.id(src[l.at:l.end])
			t.kind = g.word(names, t.to).kind
		}
		if imports == 0 && len(g.open) == 0 && goDeclares[t.kind] {
			if imports = len(g.toks); part == ImportsOnly {
				break
			}
		}
		if !more || t.kind == goFunc && len(g.open) > 0 && startsFunction(src, l.at) {
			g.closeAll()
		}
		g.put(t)
		if len(g.open) > goDepth || len(g.toks) > goMost || len(names.names) > goMost/16 {
			g.toks, g.open, g.deep = g.toks[:imports], nil, true
			break
		}
		ends = t.kind == goIdent || t.kind == goNumber || t.kind == goString || t.kind == goBreak || t.kind == goReturn ||
			t.kind == goStep || t.kind == ')' || t.kind == ']' || t.kind == '}'
	}
	for range 2 {
		g.toks = append(g.toks, goToken{int32(l.at), int32(l.at), goEnd})
	}
}

// word returns what is known of a name.
func (g *goTokens) word(names *nameTable, id int32) *goWord {
	for int(id) >= len(g.words) {
		name := names.names[len(g.words)]
		kind := goKeywords[name]
		if kind == 0 {
			kind = goIdent
		}
		g.words = append(g.words, goWord{kind: kind, isType: goTypes[name], isValue: goValues[name], size: int32(len(name))})
	}
	return &g.words[id]
}

// startsFunction reports whether the word func at the beginning of a line declares a function or method, as it
// cannot do in a block.
func startsFunction(src []byte, at int) bool {
	if at > 0 && src[at-1] != '\n' {
		return false
	}
	line, _, _ := bytes.Cut(src[at+len("func"):], []byte("\n"))
	if line = bytes.TrimLeft(line, " "); hasPrefix(line, "(") {
		_, line, _ = bytes.Cut(line, []byte(")"))
		line = bytes.TrimLeft(line, " ")
	}
	n := goWordEnd(line, 0)
	return n > 0 && n < len(line) && (line[n] == '(' || line[n] == '[')
}

// put appends a token. If it closes a bracket, those in it that are open are closed before.
func (g *goTokens) put(t goToken) {
	switch b := goBrackets[t.kind]; {
	case b == 0:
		g.toks = append(g.toks, t)
	case b <= goCloses:
		g.unclosed[b]++
		g.open = append(g.open, int32(len(g.toks)))
		g.toks = append(g.toks, t)
	case g.unclosed[b-goCloses] > 0:
		for g.innermost() != b-goCloses {
			g.close(goToken{at: t.at, to: t.at})
		}
		g.close(t)
	}
}

// innermost returns what goBrackets says of the last bracket that is open.
func (g *goTokens) innermost() byte { return goBrackets[g.toks[g.open[len(g.open)-1]].kind] }

// close closes the last bracket that is open.
func (g *goTokens) close(t goToken) {
	b := g.innermost()
	t.kind = "()]}"[b]
	g.unclosed[b]--
	last := len(g.open) - 1
	g.toks[g.open[last]].to = int32(len(g.toks))
	g.open = g.open[:last]
	g.toks = append(g.toks, t)
}

// closeAll closes all brackets behind the last token.
func (g *goTokens) closeAll() {
	for len(g.open) > 0 {
		end := g.endOf(g.toks[len(g.toks)-1])
		g.close(goToken{at: end, to: end})
	}
}
