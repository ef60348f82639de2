package source

import (
	"bytes"
	"iter"
	"strings"
)

// scriptTokens returns the tokens of TypeScript and JavaScript.
func scriptTokens(src []byte) iter.Seq[Token] {
	return func(yield func(Token) bool) {
		for l := (scriptLexer{src: src}); l.next(); {
			if !l.yield(yield) {
				return
			}
		}
	}
}

// yield gives the current token. The brackets of a substitution are operators beside the text of a template.
func (l *scriptLexer) yield(yield func(Token) bool) bool {
	start, end := int32(l.start), int32(l.end)
	if l.kind != scriptTemplate {
		return yield(Token{l.kind.public(), Span{start, end}})
	}
	if l.op >= opTemplateMiddle {
		if !yield(Token{Operator, Span{start, start + 1}}) {
			return false
		}
		start++
	}
	opens := l.op == opTemplateHead || l.op == opTemplateMiddle
	if opens {
		end -= 2
	}
	if start < end && !yield(Token{String, Span{start, end}}) {
		return false
	}
	return !opens || yield(Token{Operator, Span{end, end + 2}})
}

func (k scriptKind) public() TokenKind {
	switch k {
	case scriptComment:
		return Comment
	case scriptString, scriptTemplate, scriptRegexp, scriptText:
		return String
	case scriptNumber:
		return Number
	case scriptName, scriptLabel:
		return Identifier
	case scriptWord:
		return Keyword
	}
	return Operator
}

// A scriptScan finds the imports of a file in one pass over its tokens. Nothing but a few tokens is
// remembered, so that a statement that is not complete costs nothing: the search goes on where it stopped.
type scriptScan struct {
	scriptLexer
	f    *Facts
	part Part

	again  bool            // the current token is not yet seen
	recent [8]scriptRecent // the last tokens, in a ring
	turn   int             // where in the ring the next one goes, modulo its length
	bind   int             // where the declarator begins that a require may follow, or -1
	depth  int             // how many brackets are open around it
	mock   int             // how many brackets are open around the first argument of a mock, or -1
	locals []scriptExport

	room int // how many names of imports and exports are not read yet

	docs struct { // the answer that documented gave last
		token int // 1 + its token
		at    int32
	}
	tokens   []scriptToken // in a scan for All
	none     scriptToken   // stands for those before and behind them
	opens    []int32       // the brackets among them that are open
	comments []Span
}

type scriptRecent struct {
	start, end int32
	op         byte
	word       scriptWordClass
}

// before returns the token before the current one, or one further back.
func (s *scriptScan) before(i int) scriptRecent { return s.recent[(s.turn-1-i)&7] }

// A scriptExport is a name of the file that it exports by an export clause.
type scriptExport struct{ name, local string }

func scanTypeScript(f *Facts, src []byte, part Part) {
	s := &scriptScan{scriptLexer: scriptLexer{src: src}, f: f, part: part, bind: -1, mock: -1, room: maxFacts}
	s.none.start, s.none.end = int32(len(src)), int32(len(src))
	if part == All {
		s.tokens = make([]scriptToken, 0, len(src)/6)
	}
	f.Script = bytes.HasPrefix(src, []byte("#!"))
	for len(f.Imports) < maxFacts && s.token() {
		s.statement()
	}
	s.endTokens()
	if part == All {
		s.declare()
	}
	s.export()
	if part == All {
		s.use()
	}
}

// token goes to the next token that is not a comment.
func (s *scriptScan) token() bool {
	if s.again {
		s.again = false
		return s.kind != scriptEnd
	}
	if s.kind != scriptEnd {
		s.recent[s.turn&7] = scriptRecent{int32(s.start), int32(s.end), s.op, s.word}
		s.turn++
	}
	for s.next() {
		if s.kind != scriptComment {
			if s.part == All && len(s.tokens) < maxTokens {
				s.keep()
			}
			return true
		}
		s.comment()
	}
	return false
}

//go:noinline
func (s *scriptScan) text() []byte { return s.src[s.start:s.end] }

func (s *scriptScan) comment() {
	if s.part == All {
		s.comments = append(s.comments, Span{int32(s.start), int32(s.end)})
	}
	if bytes.HasPrefix(s.text(), []byte("///")) {
		s.reference()
	}
	s.f.Generated = s.f.Generated || s.start < generatedWithin && generated(s.text())
}

// generatedWithin is how far into a file a comment may say that the file is generated.
const generatedWithin = 2000

// reference reads a directive of TypeScript: /// <reference path="a.ts"/>, or types="package". A path is
// relative to the file, so it gets the ./ that an import would have.
// See https://www.typescriptlang.org/docs/handbook/triple-slash-directives.html.
func (s *scriptScan) reference() {
	tag, ok := bytes.CutPrefix(bytes.TrimLeft(s.text(), "/ \t"), []byte("<reference"))
	if !ok {
		return
	}
	attr, value, _ := bytes.Cut(tag, []byte("="))
	value = bytes.TrimLeft(value, " \t")
	if len(value) == 0 || value[0] != '"' && value[0] != '\'' {
		return
	}
	start := s.end - len(value) + 1
	n := bytes.IndexByte(s.src[start:s.end], value[0])
	if n < 0 {
		return
	}
	at, name := Span{int32(start), int32(start + n)}, string(s.src[start:start+n])
	switch attr := string(bytes.TrimSpace(attr)); {
	case attr == "path" && strings.HasPrefix(name, "."):
	case attr == "path":
		name = "./" + name
	case attr != "types":
		return
	}
	s.f.Imports = append(s.f.Imports, Import{Path: name, Kind: TypeOnly, At: at})
}

// statement looks at one token, and at more if an import may begin with it.
func (s *scriptScan) statement() {
	switch s.word {
	case wordNone:
		s.plain()
	case wordBind:
		s.bind, s.depth = s.end, len(s.stack)
	case wordImport:
		s.importOrCall()
	case wordExport:
		s.exportStatement()
	case wordRequire:
		if s.token(); s.op == '(' {
			s.argument()
			return
		}
		s.again = true
	case wordMocker:
		s.mocker()
	}
}

// plain looks at a token that is not a word: the comma between two declarators, or the path of a mock.
func (s *scriptScan) plain() {
	switch {
	case s.op == ',' && s.bind >= 0 && len(s.stack) == s.depth:
		s.bind = s.end
	case s.op == ';' && len(s.stack) <= s.depth:
		s.bind = -1
	case s.mock == len(s.stack) && s.kind == scriptString && s.before(0).op == '(':
		s.add(Mock, nil)
		s.mock = -1
	}
}

// mocker looks for jest.mock(, vi.importActual( and the like. Type arguments may be between the name and the
// parenthesis, and have imports.
func (s *scriptScan) mocker() {
	if !s.token() || s.op != '.' || !s.token() {
		s.again = true
		return
	}
	switch string(s.text()) {
	case "mock", "doMock", "unmock", "dontMock", "doUnmock", "unstable_mockModule", "setMock", "requireActual", "requireMock",
		"createMockFromModule", "importActual", "importMock":
		s.mock = len(s.stack) + 1
	}
}

// literal returns the text between the quotes of the current token if it is a string, or a template without
// substitutions.
func (s *scriptScan) literal() (text []byte, ok bool) {
	text = s.text()
	if s.kind == scriptTemplate && (s.op != opTemplate || text[len(text)-1] != '`') || s.kind != scriptTemplate && s.kind != scriptString {
		return nil, false
	}
	if len(text) < 2 || text[len(text)-1] != text[0] {
		return nil, false
	}
	return text[1 : len(text)-1], true
}

// add adds an import of the path that is the current token.
func (s *scriptScan) add(kind ImportKind, names []Name) int {
	text, ok := s.literal()
	if !ok {
		return -1
	}
	at := Span{int32(s.start + 1), int32(s.start + 1 + len(text))}
	s.f.Imports = append(s.f.Imports, Import{Path: string(text), Kind: kind, Names: names, At: at})
	return len(s.f.Imports) - 1
}

// importOrCall reads what begins with import: a declaration, a call, a type or import.meta.
func (s *scriptScan) importOrCall() {
	switch s.token(); {
	case s.op == '(':
		s.argument()
	case s.kind == scriptString:
		s.add(Plain, nil)
	case s.kind == scriptName || s.op == '{' || s.op == '*':
		s.importDeclaration(false)
	default:
		s.again = true
	}
}
