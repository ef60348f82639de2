package source

import (
	"bytes"
	"strings"
)

// A pyBlock is a class or a function.
type pyBlock struct {
	column int
	decl   int32 // -1 if it is inside of a function
	class  bool
	scope  bool // it has a scope
}

type pyVar struct {
	parent int32
	name   string
}

// A pyTarget is a name that may be assigned to.
type pyTarget struct{ id, use, at int32 }

// A pyPrev is the token before the current one, in the same statement.
type pyPrev struct {
	kind TokenKind
	c    byte // its first byte, or 0
	as   bool // it is the keyword as
	name pyTarget
}

// pyScopes is how many functions and classes inside of each other have scopes. Those further in share the
// scope of the one around them, so that the time stays in proportion to the length.
const pyScopes = 12

// finish ends the blocks that are open at the end of the file.
func (s *pyScan) finish() {
	s.dedent(0)
	s.f.Uses = s.names.uses()
}

// outset looks at where a statement begins.
func (s *pyScan) outset() {
	if s.first {
		s.column = pyColumn(s.src[s.line:s.start])
		s.dedent(s.column)
	}
	if s.begin = s.start; s.from >= 0 {
		s.begin = s.from
	} else if s.doc.End > 0 {
		s.begin = int(s.doc.Start)
	}
	s.from = -1
}

func (s *pyScan) declaration() {
	s.targets, s.off, s.within, s.loop, s.lambda, s.prev = s.targets[:0], false, 0, 0, 0, pyPrev{}
	if s.is("async") {
		s.advance()
	}
	switch {
	case !s.ok:
	case s.is("def"):
		s.define(Func)
	case s.is("class"):
		s.define(Class)
	case s.is("global"), s.is("nonlocal"):
		s.global()
	default:
		s.simple()
	}
}

// pyColumn returns the column after white space: a tab goes to the next multiple of eight.
func pyColumn(blank []byte) (n int) {
	for _, c := range blank {
		switch c {
		case '\t':
			n = n&^7 + 8
		case '\f':
			n = 0
		default:
			n++
		}
	}
	return n
}

// dedent ends the blocks that do not contain a statement at a column.
func (s *pyScan) dedent(column int) {
	for n := len(s.blocks) - 1; n >= 0 && s.blocks[n].column >= column; n-- {
		b := s.blocks[n]
		s.blocks = s.blocks[:n]
		if b.scope {
			s.names.pop()
		}
		if b.decl >= 0 {
			decl := &s.f.Decls[b.decl]
			decl.At.End = int32(s.last)
			if decl.Body.End = decl.At.End; b.class {
				decl.Body.Start = decl.At.End
			}
		}
	}
}

// parent returns the class that a declaration here is in, or -1, and whether it is one of those of the facts.
func (s *pyScan) parent() (decl int32, ok bool) {
	if len(s.blocks) == 0 {
		return -1, true
	}
	b := s.blocks[len(s.blocks)-1]
	return b.decl, b.class && b.decl >= 0
}

// define reads the header of a function or class, and begins its block.
func (s *pyScan) define(kind DeclKind) {
	b := pyBlock{column: s.column, decl: -1, class: kind == Class}
	s.advance()
	if s.ends() || s.kind != Identifier {
		return
	}
	id, at := s.id(), s.start
	s.names.bind(id)
	if parent, ok := s.parent(); ok {
		if parent >= 0 && kind == Func {
			kind = Method
		}
		b.decl = int32(len(s.f.Decls))
		s.declare(s.names.names[id], kind, parent, at)
	}
	if b.scope = len(s.names.scopes) < pyScopes; b.scope && !b.class {
		s.names.push(false)
	}
	s.header(b.class)
	if b.scope && b.class {
		s.names.push(true)
	}
	if b.decl >= 0 {
		s.f.Decls[b.decl].Body = Span{int32(s.last), int32(s.last)}
	}
	s.blocks = append(s.blocks, b)
}

// id returns the number of the name that is the current token.
func (s *pyScan) id() int32 { return s.names.id(s.src[s.start:s.end]) }

func (s *pyScan) declare(name string, kind DeclKind, parent int32, at int) {
	s.f.Decls = append(s.f.Decls, Decl{
		Name: name, Kind: kind, Exported: true, Parent: parent, NameAt: int32(at),
		At: Span{int32(s.begin), int32(s.end)}, Body: Span{int32(s.end), int32(s.end)},
	})
}

// header reads from after the name of a function or class up to its colon, and binds the parameters.
func (s *pyScan) header(class bool) {
	s.off = true
	for s.advance(); !s.ends(); s.advance() {
		if s.depth == 0 && s.is(":") {
			s.advance()
			return
		}
		if s.kind == Identifier && s.depth == 1 && !class && s.prev.parameter() {
			s.names.bind(s.id())
			s.prev = pyPrev{kind: Identifier, c: s.src[s.start]}
			continue
		}
		s.token()
	}
}

// parameter reports whether a name after the token is a parameter.
func (p pyPrev) parameter() bool {
	return p.kind == Operator && (p.c == '(' || p.c == '[' || p.c == ',' || p.c == '*') || p.c == 0
}

func (s *pyScan) global() {
	for s.advance(); !s.ends(); s.advance() {
		if s.kind == Identifier {
			s.names.bind(-s.id())
		}
	}
}

// simple reads a statement that does not begin a block with a scope, or the header of one like if and for.
func (s *pyScan) simple() {
	if s.is("@") {
		s.from = s.begin
	}
	parent, ok := s.parent()
	s.listing = ok && parent < 0 && s.is("__all__")
	keyword, decls := s.kind == Keyword && !s.is("lambda"), len(s.f.Decls)
	for {
		colon := s.depth == 0 && s.lambda == 0 && s.is(":")
		if colon && (keyword || s.prev.kind == Identifier && s.prev.name.id == 0) {
			s.advance()
			break
		}
		if colon && !s.off {
			s.assign(true)
			s.off = true
		} else {
			s.token()
		}
		if s.advance(); s.ends() {
			break
		}
	}
	for i := range s.f.Decls[decls:] {
		s.f.Decls[decls+i].At.End = int32(s.last)
	}
}

func (s *pyScan) token() {
	prev := s.prev
	s.prev = pyPrev{kind: s.kind, c: s.src[s.start]}
	switch s.kind {
	case Identifier:
		s.identifier(prev)
	case Keyword:
		s.keyword()
	case Operator:
		s.operator(prev)
	case String:
		if s.listing {
			s.export()
		}
		fallthrough
	default:
		s.off = s.off || s.within == 0
	}
}

// export adds a name that stands in a string to those of __all__.
func (s *pyScan) export() {
	if name := bytes.Trim(s.src[s.start:s.end], `"'`); len(name) == s.end-s.start-2 && len(name) > 0 {
		s.f.Exports = append(s.f.Exports, Export{Name: string(name), Local: string(name), Import: -1})
	}
}

// identifier reads a name with the attributes that follow it.
func (s *pyScan) identifier(prev pyPrev) {
	if prev.kind == Operator && prev.c == '.' {
		return
	}
	at := int32(s.start)
	first := s.id()
	id := s.attributes(first)
	if prev.as {
		s.names.bind(first)
		return
	}
	if s.lambda == s.depth+1 && (prev.parameter() || prev.kind == Keyword && prev.c == 'l') {
		s.names.local(first)
		return
	}
	t := pyTarget{id, s.names.use(id), at}
	if prev.kind == Identifier { // after a soft keyword: match, case or type
		s.targets = s.targets[:0]
		if string(s.src[s.begin:][:min(4, len(s.src)-s.begin)]) != "type" {
			return // prev.name.id stays 0: a colon ends the statement
		}
	}
	if s.prev.name = t; id == first && !s.off && s.within == 0 {
		s.targets = append(s.targets, t)
	}
}

// attributes reads what follows a name after dots, as far as it matters, and returns the whole.
func (s *pyScan) attributes(first int32) int32 {
	end := s.end
	for range 7 {
		if end+1 >= len(s.src) || s.src[end] != '.' || pyClass[s.src[end+1]] != pyLetter {
			break
		}
		end = pyNameEnd(s.src, end+1, len(s.src))
	}
	if end == s.end {
		return first
	}
	s.end, s.pos = end, end
	return s.names.chain(s.src[s.start:end], first)
}

func (s *pyScan) keyword() {
	switch {
	case s.is("for"):
		s.targets, s.off, s.within, s.loop = s.targets[:0], false, 0, s.depth+1
	case s.is("in") && s.loop == s.depth+1:
		s.assign(s.depth == 0)
		s.loop, s.off = 0, true
	case s.is("lambda"):
		s.lambda, s.off = s.depth+1, true
	case s.is("as"):
		s.prev.as = true
	default:
		s.off = s.off || s.within == 0
	}
}

func (s *pyScan) operator(prev pyPrev) {
	switch c := s.src[s.start]; c {
	case '(', '[', '{':
		s.opening(prev, c)
	case ')', ']', '}':
		if s.within > s.depth {
			s.within = 0
		}
	case ',', '*', '.':
	case ':':
		s.colon(prev)
	default:
		s.equals(prev)
	}
}

// opening begins a call or subscript, inside of which there are no targets, or a list of targets.
func (s *pyScan) opening(prev pyPrev, c byte) {
	if s.within > 0 {
		return
	}
	s.off = s.off || c == '{'
	if prev.kind == Identifier || prev.c == ')' || prev.c == ']' {
		if n := len(s.targets); n > 0 && s.targets[n-1] == prev.name {
			s.targets = s.targets[:n-1]
		}
		s.within = s.depth
	}
}

func (s *pyScan) colon(prev pyPrev) {
	switch {
	case s.end-s.start == 2: // :=
		if prev.name.id > 0 {
			s.bind(prev.name, true)
		}
	case s.lambda == s.depth+1:
		s.lambda = 0
	default:
		s.off = s.off || s.within == 0
	}
}

// equals reads an operator that may be an assignment.
func (s *pyScan) equals(prev pyPrev) {
	op := s.src[s.start:s.end]
	switch {
	case op[len(op)-1] != '=' || len(op) == 2 && strings.IndexByte("=!<>", op[0]) >= 0:
		s.off = s.off || s.within == 0
	case s.depth == 0 && s.lambda == 0:
		s.assign(true)
		s.off, s.within = len(op) > 1, 0
	case len(op) == 1 && prev.name.id > 0 && !s.fieldEnds():
		s.names.drop(prev.name.use) // the name of an argument
	}
}

// fieldEnds reports whether a replacement field ends after the current token, an = that shows the expression.
func (s *pyScan) fieldEnds() bool {
	return s.specifies() && s.pos < len(s.src) && strings.IndexByte("}!: ", s.src[s.pos]) >= 0
}

// assign binds the targets: to variables, or to names that only an expression knows.
func (s *pyScan) assign(variable bool) {
	for _, t := range s.targets {
		s.bind(t, variable)
	}
	s.targets = s.targets[:0]
}

// bind binds a target, and declares it, unless it is in a function.
func (s *pyScan) bind(t pyTarget, variable bool) {
	s.names.drop(t.use)
	if !variable {
		s.names.local(t.id)
		return
	}
	s.names.bind(t.id)
	parent, ok := s.parent()
	name := s.names.names[t.id]
	if v := (pyVar{parent, name}); ok && !s.seen[v] {
		s.seen[v] = true
		s.declare(name, pyVarKind(parent, name), parent, int(t.at))
	}
}

func pyVarKind(parent int32, name string) DeclKind {
	switch {
	case parent >= 0:
		return Field
	case strings.ToUpper(name) == name && strings.ToLower(name) != name:
		return Const
	}
	return Var
}
