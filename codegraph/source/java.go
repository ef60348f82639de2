package source

import (
	"strings"
)

var javaKeywords = words(`
	abstract assert boolean break byte case catch char class const continue default do double else enum
	extends false final finally float for goto if implements import instanceof int interface long native new
	null package private protected public return short static strictfp super switch synchronized this throw
	throws transient true try void volatile while`)

var javaGrammar = grammar{
	keywords: javaKeywords, line: slashes, block: starred, quotes: []*quote{&textBlock, &double, &single},
}

var javaDialect = dialect{
	grammar: &javaGrammar, dotted: true, declare: declareJava,
	types: words(`boolean byte char double float int long short final`),
}

// scanJava reads the package clause and the imports, and the rest only if it is asked for: imports cannot
// come after the first declaration.
func scanJava(f *Facts, src []byte, part Part) {
	f.header(&javaGrammar, src)
	from := f.clauses(lex(&javaGrammar, src))
	if part == All {
		scanBlocks(f, src, from, &javaDialect)
	}
}

// clauses reads up to the first declaration, and returns where the last clause ends.
func (f *Facts) clauses(l *clexer) (end int32) {
	for depth := 0; len(f.Imports) < maxFacts && l.code(); {
		switch {
		case l.is("("): // of an annotation
			depth++
		case l.is(")"):
			depth--
		case depth > 0:
		case l.is("package"):
			f.Package, _, end = l.path()
		case l.is("import"):
			path, at, to := l.path()
			if path != "" {
				name := Name{Name: path[strings.LastIndexByte(path, '.')+1:]}
				if name.Name != "*" {
					name.As = name.Name
				}
				f.Imports = append(f.Imports, Import{Path: path, Names: []Name{name}, At: at})
			}
			end = to
		case l.tok.Kind == Keyword, l.tok.Kind == Operator && !l.is("@") && !l.is(".") && !l.is(";"):
			return end
		}
	}
	return end
}

// path reads a name with dots and the semicolon behind it.
func (l *clexer) path() (path string, at Span, end int32) {
	var text []byte
	for end = l.tok.End; l.code() && (l.tok.Kind == Identifier || l.is(".") || l.is("*") || l.is("static")); end = l.tok.End {
		if l.is("static") {
			continue
		}
		if text == nil {
			at.Start = l.tok.Start
		}
		text = append(text, l.src[l.tok.Start:l.tok.End]...)
		at.End = l.tok.End
	}
	if l.is(";") {
		return string(text), at, l.tok.End
	}
	l.tok.End = end // the clause is not complete: what follows may be the next
	return string(text), at, end
}

// A typeWord says what a word at the beginning of a declaration declares, and what its block holds.
type typeWord struct {
	kind  DeclKind
	block block
}

var javaTypes = map[string]typeWord{
	"class": {Class, members}, "interface": {Interface, members}, "enum": {Type, enumerators}, "record": {Class, members},
	"struct": {Type, members}, "namespace": {Module, members}, "mixin": {Class, members}, "extension": {Class, members}, // C#, Dart
}

var javaModifiers = words(`
	public protected private static final abstract native synchronized transient volatile strictfp default
	sealed non - internal virtual override async partial readonly unsafe extern required const late external
	covariant base ref`)

// directiveWords are the first words of what declares nothing.
var directiveWords = words(`using import export package library part`)

// declareJava reads a head of Java. C# and Dart are similar enough.
func declareJava(b *blocks, end byte) block {
	h := declHead{blocks: b, head: b.head}
	h.modifiers()
	if h.i >= len(h.head) || h.head[h.i].op == 0 && directiveWords[string(b.src[h.head[h.i].Start:h.head[h.i].End])] {
		return code
	}
	if b.top().block == enumerators {
		if h.head[h.i].Kind == Identifier {
			h.add(Field, h.head[h.i])
		}
		return fields
	}
	if what, ok := h.typeBlock(); ok {
		return what
	}
	return h.javaMember(end)
}

func (h *declHead) modifiers() {
	for ; h.i < len(h.head); h.i++ {
		switch t := h.head[h.i]; {
		case t.op == '@' && h.i+1 < len(h.head) && !h.word(h.head[h.i+1], "interface"):
			for h.i++; h.i+2 < len(h.head) && h.head[h.i+1].op == '.'; h.i += 2 {
			}
			if h.at(h.i+1).op == '(' {
				h.i = h.closing(h.i + 1)
			}
		case t.op == '@':
		case t.op == '[': // an attribute of C#
			h.i = h.closing(h.i)
		case t.op == '<':
			h.i = h.angles(h.i) - 1
		case t.op != 0 && t.op != '-' || !javaModifiers[string(h.src[t.Start:t.End])]:
			return
		case h.word(t, "private"):
			h.private = true
		}
	}
}

// typeBlock reads a class or the like. Record, which is not a keyword, needs a name and parentheses.
func (h *declHead) typeBlock() (block, bool) {
	if h.i+1 >= len(h.head) || h.head[h.i].op != 0 {
		return code, false
	}
	t, ok := javaTypes[string(h.src[h.head[h.i].Start:h.head[h.i].End])]
	if !ok {
		return code, false
	}
	i := h.i + 1
	if h.head[h.i].Kind == Identifier && h.head[i].Kind == Keyword && i+1 < len(h.head) { // record struct
		i++
	}
	name := h.head[i]
	if name.Kind != Identifier || h.head[h.i].Kind == Identifier && h.at(i+1).op == '=' {
		return code, false
	}
	if t.kind == Module {
		name = h.head[len(h.head)-1]
	}
	h.add(t.kind, name)
	return t.block, true
}

// javaMember reads a method, a field or a property.
func (h *declHead) javaMember(end byte) block {
	for i := h.i; i < len(h.head); i++ {
		switch op := h.head[i].op; {
		case op == '=':
			if end == ';' {
				h.declarators()
			}
			return value
		case op == '(' && i > h.i && h.head[i-1].Kind == Identifier:
			return h.method(h.head[i-1], i-1 == h.i, end)
		case op == '(':
			return code
		}
	}
	switch {
	case end == ';':
		h.declarators()
	case !h.member():
		return code
	case len(h.head) == h.i+1 && h.head[h.i].Kind == Identifier: // the constructor of a record
		h.add(Method, h.head[h.i])
	case len(h.head) > h.i+1 && h.head[len(h.head)-1].Kind == Identifier: // a property of C#
		h.add(Field, h.head[len(h.head)-1])
		return fields
	}
	return code
}

// method adds a method, or a function outside of all types. One without a result is a constructor.
func (h *declHead) method(name ctoken, bare bool, end byte) block {
	kind := Func
	if h.member() {
		kind = Method
	}
	switch {
	case kind == Func && bare && end == ';':
		return code // a call
	case h.word(h.head[len(h.head)-1], "default"):
		return value // of an annotation
	}
	h.add(kind, name)
	return code
}
