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

// A scriptScan reads the tokens of a file, and then finds in them its imports, its declarations and what it uses. A
// statement that is not complete costs nothing: the search goes on where it stopped.
type scriptScan struct {
	scriptLexer
	f *Facts

	tokens   []scriptToken
	none     scriptToken // stands for those before and behind them
	opens    []int32     // the brackets among them that are open
	comments []Span

	bind   int // the token before the declarator that a require may follow, or -1
	depth  int32
	mock   int32 // how many brackets are open around the first argument of a mock, or -1
	locals []scriptExport

	room int // how many names of imports and exports are not read yet

	docs struct { // the answer that documented gave last
		token int // 1 + its token
		at    int32
	}
}

// A scriptExport is a name of the file that it exports by an export clause.
type scriptExport struct{ name, local string }

func scanTypeScript(f *Facts, src []byte, part Part) {
	s := &scriptScan{scriptLexer: scriptLexer{src: src}, f: f, bind: -1, mock: -1, room: maxFacts}
	s.none.start, s.none.end = int32(len(src)), int32(len(src))
	f.Script = bytes.HasPrefix(src, []byte("#!"))
	s.readTokens()
	s.imports()
	if part == All {
		s.declare()
	}
	s.export()
	if part == All {
		s.use()
	}
}

// imports finds the imports and exports.
func (s *scriptScan) imports() {
	comments := s.comments
	for i := 0; i < len(s.tokens) && len(s.f.Imports) < maxFacts; i = s.statement(i) {
		for len(comments) > 0 && comments[0].Start < s.tokens[i].start {
			s.comment(comments[0])
			comments = comments[1:]
		}
	}
	for _, c := range comments {
		s.comment(c)
	}
}

func (s *scriptScan) comment(c Span) {
	text := s.src[c.Start:c.End]
	if bytes.HasPrefix(text, []byte("///")) {
		s.reference(c)
	}
	s.f.Generated = s.f.Generated || c.Start < generatedWithin && generated(text)
}

// generatedWithin is how far into a file a comment may say that the file is generated.
const generatedWithin = 2000

// reference reads a directive of TypeScript: /// <reference path="a.ts"/>, or types="package". A path is
// relative to the file, so it gets the ./ that an import would have.
// See https://www.typescriptlang.org/docs/handbook/triple-slash-directives.html.
func (s *scriptScan) reference(c Span) {
	tag, ok := bytes.CutPrefix(bytes.TrimLeft(s.src[c.Start:c.End], "/ \t"), []byte("<reference"))
	if !ok {
		return
	}
	attr, value, _ := bytes.Cut(tag, []byte("="))
	value = bytes.TrimLeft(value, " \t")
	if len(value) == 0 || value[0] != '"' && value[0] != '\'' {
		return
	}
	quoted, _, ok := bytes.Cut(value[1:], value[:1])
	if !ok {
		return
	}
	name, at := string(quoted), c.End-int32(len(value))+1
	switch attr := string(bytes.TrimSpace(attr)); {
	case attr == "path" && strings.HasPrefix(name, "."):
	case attr == "path":
		name = "./" + name
	case attr != "types":
		return
	}
	s.f.Imports = append(s.f.Imports, Import{Path: name, Kind: TypeOnly, At: Span{at, at + int32(len(quoted))}})
}

// statement looks at one token, and at more if an import may begin with it. It returns where to go on.
func (s *scriptScan) statement(i int) int {
	switch t := &s.tokens[i]; t.word {
	case wordNone:
		s.plain(i)
	case wordBind:
		s.bind, s.depth = i, t.depth
	case wordImport:
		return s.importOrCall(i + 1)
	case wordExport:
		return s.exportStatement(i + 1)
	case wordRequire:
		if s.tok(i+1).op == '(' {
			return s.argument(i + 1)
		}
	case wordMocker:
		if s.tok(i+1).op == '.' {
			s.mocker(i + 2)
			return i + 3
		}
	}
	return i + 1
}

// plain looks at a token that is not a word: the comma between two declarators, or the path of a mock.
func (s *scriptScan) plain(i int) {
	switch t := &s.tokens[i]; {
	case t.op == ',' && s.bind >= 0 && t.depth == s.depth:
		s.bind = i
	case t.op == ';' && t.depth <= s.depth:
		s.bind = -1
	case s.mock == t.depth && t.kind == scriptString && s.tok(i-1).op == '(':
		s.add(i, Mock, nil)
		s.mock = -1
	}
}

// mocker looks for jest.mock(, vi.importActual( and the like, from the name behind the dot. Type arguments may be
// between the name and the parenthesis, and have imports.
func (s *scriptScan) mocker(i int) {
	switch s.textOf(i) {
	case "mock", "doMock", "unmock", "dontMock", "doUnmock", "unstable_mockModule", "setMock", "requireActual", "requireMock",
		"createMockFromModule", "importActual", "importMock":
		s.mock = s.tok(i).depth + 1
	}
}

// literal returns the text between the quotes of a token if it is a string, or a template without substitutions.
func (s *scriptScan) literal(i int) (text string, ok bool) {
	t := s.tok(i)
	text = s.textOf(i)
	if t.kind != scriptString && (t.kind != scriptTemplate || t.op != opTemplate) {
		return "", false
	}
	if len(text) < 2 || text[len(text)-1] != text[0] {
		return "", false
	}
	return text[1 : len(text)-1], true
}

// add adds an import of the path that a token is, and returns its index, or -1 if the token is not a path.
func (s *scriptScan) add(i int, kind ImportKind, names []Name) int {
	path, ok := s.literal(i)
	if !ok {
		return -1
	}
	at := s.tok(i).start + 1
	s.f.Imports = append(s.f.Imports, Import{Path: path, Kind: kind, Names: names, At: Span{at, at + int32(len(path))}})
	return len(s.f.Imports) - 1
}
