package source

import (
	"bytes"
	"cmp"
	"slices"
)

// The declarations are found in the tokens of the file, once its brackets are matched. A declaration is
// read from its first word to the bracket or the line that ends it; what is in a bracket is jumped over.

// maxScriptNesting is how deep namespaces are read in each other.
const maxScriptNesting = 16

// A scriptDeclaration is what is known of a declaration before its own words are read.
type scriptDeclaration struct {
	start    int // its first token, with decorators and modifiers
	parent   int32
	exported bool
	isolated bool // export default
	nesting  int
}

func (s *scriptScan) declare() {
	s.statements(0, len(s.tokens), scriptDeclaration{parent: -1})
	for i := range slices.Backward(s.f.Decls) { // where brackets do not match, an end may have been found too early
		d := &s.f.Decls[i]
		if d.At.End = max(d.At.End, d.Body.End); d.Parent >= 0 {
			p := &s.f.Decls[d.Parent]
			p.At.End = max(p.At.End, d.At.End)
		}
	}
}

// statements reads the statements from one token up to another.
func (s *scriptScan) statements(i, to int, in scriptDeclaration) {
	for i < to && !s.full() {
		d := in
		d.start = i
		next := s.declaration(i, d)
		i = max(next, i+1)
	}
}

// declaration reads a statement and returns the token after it.
func (s *scriptScan) declaration(i int, d scriptDeclaration) int {
	i = s.decorators(i)
	if s.tok(i).word == wordExport {
		d.exported = true
		i++
		if s.isWord(i, "default") {
			d.isolated = true
			i++
		}
	}
	i = s.decorators(i)
	for s.modifies(i) {
		i++
	}
	switch t := s.tok(i); {
	case t.word == wordBind:
		if s.isWord(i+1, "enum") {
			return s.enum(i+1, d)
		}
		return s.variables(i, d)
	case s.isWord(i, "function"):
		return s.function(i, d)
	case s.isWord(i, "class"):
		return s.class(i, d, Class)
	case s.isWord(i, "enum"):
		return s.enum(i, d)
	case t.kind == scriptName:
		if next, ok := s.contextual(i, d); ok {
			return next
		}
	}
	if d.isolated && s.tok(i).kind != scriptName {
		return s.defaultValue(i, d)
	}
	return s.statementEnd(i)
}

// contextual reads a declaration that begins with a word that may also be a name.
func (s *scriptScan) contextual(i int, d scriptDeclaration) (int, bool) {
	next := s.tok(i + 1)
	named := (next.kind == scriptName || next.kind == scriptWord) && !next.newline
	switch s.textOf(i) {
	case "interface":
		if named {
			return s.class(i, d, Interface), true
		}
	case "type":
		if named {
			return s.alias(i, d), true
		}
	case "namespace", "module":
		if named || next.kind == scriptString {
			return s.namespace(i+1, d), true
		}
	case "global":
		if next.op == '{' {
			return s.namespace(i, d), true
		}
	}
	return s.commonJS(i, d)
}

// modifies reports whether a token is a modifier of the declaration that follows.
func (s *scriptScan) modifies(i int) bool {
	t, next := s.tok(i), s.tok(i+1)
	if t.kind != scriptName || next.newline || next.kind != scriptName && next.kind != scriptWord {
		return false
	}
	switch s.textOf(i) {
	case "declare", "abstract":
		return true
	case "async":
		return s.isWord(i+1, "function")
	}
	return false
}

// decorators returns the token after decorators: @a.b(…).
func (s *scriptScan) decorators(i int) int {
	for s.tok(i).op == '@' {
		i++
		if s.tok(i).op == '(' {
			i = s.after(i)
			continue
		}
		i++
		for s.tok(i).op == '.' {
			i += 2
		}
		if s.tok(i).op == '(' {
			i = s.after(i)
		}
	}
	return i
}

// addDecl adds a declaration and returns its index. Its name is that of a token; without one, it is exported
// by default.
func (s *scriptScan) addDecl(name int, kind DeclKind, d scriptDeclaration, end int) int32 {
	at := Span{s.documented(d.start), s.tok(end - 1).end}
	decl := Decl{Name: "default", Kind: kind, Exported: d.exported, Parent: d.parent, At: at, NameAt: s.tok(d.start).start}
	if name >= 0 {
		t := s.tok(name)
		decl.Name, decl.NameAt = unquote(string(s.src[t.start:t.end])), t.start
	}
	s.f.Decls = append(s.f.Decls, decl)
	if d.isolated && name >= 0 {
		s.f.Exports = append(s.f.Exports, Export{"default", decl.Name, -1})
	}
	return int32(len(s.f.Decls) - 1)
}

func unquote(name string) string {
	if len(name) > 1 && (name[0] == '"' || name[0] == '\'') && name[len(name)-1] == name[0] {
		return name[1 : len(name)-1]
	}
	return name
}

// full reports whether no more declarations are read.
func (s *scriptScan) full() bool { return len(s.f.Decls) >= maxFacts }

// documented returns where the comments begin that stand directly before a token, or the token itself. The answer is
// kept, as all the names of a pattern have the same comments.
func (s *scriptScan) documented(i int) int32 {
	if s.docs.token != i+1 {
		s.docs.token, s.docs.at = i+1, s.docStart(i)
	}
	return s.docs.at
}

func (s *scriptScan) docStart(i int) int32 {
	at := s.tok(i).start
	n, _ := slices.BinarySearchFunc(s.comments, at, func(c Span, at int32) int { return cmp.Compare(c.Start, at) })
	before := s.tok(i - 1).end
	if i == 0 {
		before = 0
	}
	for n--; n >= 0; n-- {
		c := s.comments[n]
		if c.Start < before || bytes.Count(s.src[c.End:at], []byte("\n")) > 1 || s.trails(c) {
			break
		}
		at = c.Start
	}
	return at
}

// trails reports whether a comment stands behind something in its line, or is the line with #!.
func (s *scriptScan) trails(c Span) bool {
	if bytes.HasPrefix(s.src[c.Start:], []byte("#!")) {
		return true
	}
	for i := c.Start - 1; i >= 0 && s.src[i] != '\n'; i-- {
		if s.src[i] != ' ' && s.src[i] != '\t' {
			return true
		}
	}
	return false
}

func (s *scriptScan) span(from, to int) Span { return Span{s.tok(from).start, s.tok(to).end} }

// function reads a function from its keyword.
func (s *scriptScan) function(i int, d scriptDeclaration) int {
	name, i := s.functionName(i)
	end, body := s.signature(i)
	n := s.addDecl(name, Func, d, end)
	s.f.Decls[n].Body = body
	return end
}

// functionName returns the name behind the word function, or -1, and what follows it.
func (s *scriptScan) functionName(i int) (name, next int) {
	if i++; s.tok(i).op == '*' {
		i++
	}
	if s.tok(i).kind == scriptName {
		return i, i + 1
	}
	return -1, i
}

// signature reads type parameters, parameters, result type and body. It returns the token after them.
func (s *scriptScan) signature(i int) (end int, body Span) {
	i = s.typeParameters(i)
	if s.tok(i).op != '(' {
		return i, Span{}
	}
	i = s.after(i)
	if s.tok(i).op == ':' {
		i = s.typeEnd(i + 1)
	}
	if s.tok(i).op == '{' {
		end := s.after(i)
		return end, s.span(i, end-1)
	}
	if s.tok(i).op == ';' {
		i++
	}
	return i, Span{}
}

// typeParameters returns the token after <…>.
func (s *scriptScan) typeParameters(i int) int {
	if t := s.tok(i); t.op == '<' && t.match > 0 {
		return int(t.match) + 1
	}
	return i
}

// typeEnd returns the token after the type that begins at i: the brace of a body, an equals sign, a comma,
// a closing bracket or the end of the statement.
func (s *scriptScan) typeEnd(i int) int {
	conditions := 0
	for first := i; i < len(s.tokens); i = s.after(i) {
		t := &s.tokens[i]
		before := s.tok(i - 1)
		switch {
		case t.op == '<' && t.match > 0:
			i = int(t.match)
		case t.closes() || t.op == ';':
			return i
		case t.kind == scriptName && before.kind >= scriptName && before.ends() && !s.joinsTypes(i):
			return i // two names side by side are not a type
		case t.op == '?':
			conditions++
		case t.op == ':' && i > first:
			if conditions--; conditions < 0 {
				return i
			}
		case t.op == ',' || t.op == '=' || t.kind == scriptWord && !s.inType(i):
			return i
		case t.op == '{' && i > first && before.ends() && !s.joinsTypes(i):
			return i
		case i > first && s.breaks(i):
			return i
		}
	}
	return i
}

// inType reports whether a keyword can be a part of a type.
func (s *scriptScan) inType(i int) bool {
	switch s.tok(i).word {
	case wordValue, wordVoid, wordImport:
		return true
	}
	return s.isWord(i, "typeof") || s.isWord(i, "extends") || s.isWord(i, "new") || s.isWord(i, "in")
}

// joinsTypes reports whether a name can stand behind another one in a type.
func (s *scriptScan) joinsTypes(i int) bool {
	switch s.textOf(i - 1) {
	case "keyof", "readonly", "unique", "infer", "asserts", "is", "abstract":
		return true
	}
	return s.isWord(i, "is")
}

// statementEnd returns the token after the statement that i is in.
func (s *scriptScan) statementEnd(i int) int {
	for first := i; i < len(s.tokens); i = s.after(i) {
		t := &s.tokens[i]
		switch {
		case t.op == ';':
			return i + 1
		case i == first:
		case t.op == '}' || s.breaks(i):
			return i
		case s.tokens[i-1].op == '}' && (t.word == wordBind || t.word == wordExport || t.word == wordImport || s.isWord(i, "function") || s.isWord(i, "class")):
			return i
		}
	}
	return i
}

// class reads a class or an interface from its keyword.
func (s *scriptScan) class(i int, d scriptDeclaration, kind DeclKind) int {
	name := -1
	if i++; s.tok(i).kind == scriptName && !s.isWord(i, "implements") || s.tok(i).kind == scriptName && s.tok(i+1).op == '{' {
		name = i
		i++
	}
	open := i
	for open < len(s.tokens) && s.tokens[open].op != ';' && s.tokens[open].op != '}' {
		if before := s.tok(open - 1); s.tokens[open].op == '{' && (before.ends() || before.word == wordBlock) {
			break
		}
		open = s.after(open)
	}
	if s.tok(open).op != '{' {
		return open
	}
	end := s.after(open)
	n := s.addDecl(name, kind, d, end)
	s.members(open, scriptDeclaration{parent: n, exported: d.exported}, kind)
	return end
}

// enum reads an enum from its keyword.
func (s *scriptScan) enum(i int, d scriptDeclaration) int {
	if s.tok(i+1).kind != scriptName || s.tok(i+2).op != '{' {
		return s.statementEnd(i)
	}
	end := s.after(i + 2)
	n := s.addDecl(i+1, Type, d, end)
	for j := i + 3; j < end-1 && !s.full(); j++ {
		member := j
		for j < end-1 && s.tokens[j].op != ',' {
			j = s.after(j)
		}
		if k := s.tok(member).kind; k == scriptName || k == scriptString || k == scriptWord {
			s.addDecl(member, Field, scriptDeclaration{start: member, parent: n, exported: d.exported}, j)
		}
	}
	return end
}

// alias reads type A<T> = …, with the members of a type literal.
func (s *scriptScan) alias(i int, d scriptDeclaration) int {
	equals := s.typeParameters(i + 2)
	end := s.statementEnd(equals)
	n := s.addDecl(i+1, Type, d, end)
	if s.tok(equals).op == '=' && s.tok(equals+1).op == '{' {
		s.members(equals+1, scriptDeclaration{parent: n, exported: d.exported}, Interface)
	}
	return end
}

// namespace reads a namespace, module or global from its name.
func (s *scriptScan) namespace(name int, d scriptDeclaration) int {
	i := name + 1
	for s.tok(i).op == '.' {
		i += 2
	}
	if s.tok(i).op != '{' {
		return s.statementEnd(i)
	}
	end := s.after(i)
	n := s.addDecl(name, Module, d, end)
	s.f.Decls[n].Name = unquote(string(s.src[s.tok(name).start:s.tok(i-1).end]))
	if d.nesting < maxScriptNesting {
		s.statements(i+1, end-1, scriptDeclaration{parent: n, nesting: d.nesting + 1})
	}
	return end
}
