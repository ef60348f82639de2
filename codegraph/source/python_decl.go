package source

import (
	"bytes"
	"strings"
)

// pyDecls reads statements for their declarations, and for the names in their expressions.
//
// Names that are assigned to are known only when the = comes. So names that may be targets are
// collected from the beginning of a statement, and after each =, until something comes that is not part
// of a list of targets.
type pyDecls struct {
	*pyScan
	names   pyNames
	blocks  []pyBlock
	seen    map[pyVar]bool
	begin   int  // where the statement begins, with its decorators and comments
	from    int  // where the decorators of the next declaration begin, or -1
	column  int  // of the line of the statement
	listing bool // the statement says what is in __all__

	targets []pyTarget
	off     bool // what was read cannot be a target
	within  int  // the depth of brackets inside of which there are no targets, or 0
	loop    int  // 1 + the depth of brackets of a for whose in has not come, or 0
	lambda  int  // 1 + the depth of brackets of a lambda whose colon has not come, or 0
	prev    pyPrev
}

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
func (d *pyDecls) finish() {
	d.dedent(0)
	d.f.Uses = d.names.uses()
}

// imported binds the names of an import, also of one in a function, for the whole file.
func (d *pyDecls) imported(taken []Name) {
	for _, n := range taken {
		d.names.imported(n)
	}
}

// outset looks at where a statement begins.
func (d *pyDecls) outset() {
	if d.first {
		d.column = pyColumn(d.src[d.line:d.start])
		d.dedent(d.column)
	}
	if d.begin = d.start; d.from >= 0 {
		d.begin = d.from
	} else if d.doc.End > 0 {
		d.begin = int(d.doc.Start)
	}
	d.from = -1
}

func (d *pyDecls) statement() {
	d.targets, d.off, d.within, d.loop, d.lambda, d.prev = d.targets[:0], false, 0, 0, 0, pyPrev{}
	if d.is("async") {
		d.advance()
	}
	switch {
	case !d.ok:
	case d.is("def"):
		d.define(Func)
	case d.is("class"):
		d.define(Class)
	case d.is("global"), d.is("nonlocal"):
		d.global()
	default:
		d.simple()
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
func (d *pyDecls) dedent(column int) {
	for n := len(d.blocks) - 1; n >= 0 && d.blocks[n].column >= column; n-- {
		b := d.blocks[n]
		d.blocks = d.blocks[:n]
		if b.scope {
			d.names.pop()
		}
		if b.decl >= 0 {
			decl := &d.f.Decls[b.decl]
			decl.At.End = int32(d.last)
			if decl.Body.End = decl.At.End; b.class {
				decl.Body.Start = decl.At.End
			}
		}
	}
}

// parent returns the class that a declaration here is in, or -1, and whether it is one of those of the facts.
func (d *pyDecls) parent() (decl int32, ok bool) {
	if len(d.blocks) == 0 {
		return -1, true
	}
	b := d.blocks[len(d.blocks)-1]
	return b.decl, b.class && b.decl >= 0
}

// define reads the header of a function or class, and begins its block.
func (d *pyDecls) define(kind DeclKind) {
	b := pyBlock{column: d.column, decl: -1, class: kind == Class}
	d.advance()
	if d.ends() || d.kind != Identifier {
		return
	}
	id, at := d.id(), d.start
	d.names.bind(id)
	if parent, ok := d.parent(); ok {
		if parent >= 0 && kind == Func {
			kind = Method
		}
		b.decl = int32(len(d.f.Decls))
		d.declare(d.names.names[id], kind, parent, at)
	}
	if b.scope = len(d.names.scopes) < pyScopes; b.scope && !b.class {
		d.names.push(false)
	}
	d.header(b.class)
	if b.scope && b.class {
		d.names.push(true)
	}
	if b.decl >= 0 {
		d.f.Decls[b.decl].Body = Span{int32(d.last), int32(d.last)}
	}
	d.blocks = append(d.blocks, b)
}

// id returns the number of the name that is the current token.
func (d *pyDecls) id() int32 { return d.names.id(d.src[d.start:d.end]) }

func (d *pyDecls) declare(name string, kind DeclKind, parent int32, at int) {
	d.f.Decls = append(d.f.Decls, Decl{
		Name: name, Kind: kind, Exported: true, Parent: parent, NameAt: int32(at),
		At: Span{int32(d.begin), int32(d.end)}, Body: Span{int32(d.end), int32(d.end)},
	})
}

// header reads from after the name of a function or class up to its colon, and binds the parameters.
func (d *pyDecls) header(class bool) {
	d.off = true
	for d.advance(); !d.ends(); d.advance() {
		if d.depth == 0 && d.is(":") {
			d.advance()
			return
		}
		if d.kind == Identifier && d.depth == 1 && !class && d.prev.parameter() {
			d.names.bind(d.id())
			d.prev = pyPrev{kind: Identifier, c: d.src[d.start]}
			continue
		}
		d.token()
	}
}

// parameter reports whether a name after the token is a parameter.
func (p pyPrev) parameter() bool {
	return p.kind == Operator && (p.c == '(' || p.c == '[' || p.c == ',' || p.c == '*') || p.c == 0
}

func (d *pyDecls) global() {
	for d.advance(); !d.ends(); d.advance() {
		if d.kind == Identifier {
			d.names.bind(-d.id())
		}
	}
}

// simple reads a statement that does not begin a block with a scope, or the header of one like if and for.
func (d *pyDecls) simple() {
	if d.is("@") {
		d.from = d.begin
	}
	parent, ok := d.parent()
	d.listing = ok && parent < 0 && d.is("__all__")
	keyword, decls := d.kind == Keyword && !d.is("lambda"), len(d.f.Decls)
	for {
		colon := d.depth == 0 && d.lambda == 0 && d.is(":")
		if colon && (keyword || d.prev.kind == Identifier && d.prev.name.id == 0) {
			d.advance()
			break
		}
		if colon && !d.off {
			d.assign(true)
			d.off = true
		} else {
			d.token()
		}
		if d.advance(); d.ends() {
			break
		}
	}
	for i := range d.f.Decls[decls:] {
		d.f.Decls[decls+i].At.End = int32(d.last)
	}
}

func (d *pyDecls) token() {
	prev := d.prev
	d.prev = pyPrev{kind: d.kind, c: d.src[d.start]}
	switch d.kind {
	case Identifier:
		d.identifier(prev)
	case Keyword:
		d.keyword()
	case Operator:
		d.operator(prev)
	case String:
		if d.listing {
			d.export()
		}
		fallthrough
	default:
		d.off = d.off || d.within == 0
	}
}

// export adds a name that stands in a string to those of __all__.
func (d *pyDecls) export() {
	if name := bytes.Trim(d.src[d.start:d.end], `"'`); len(name) == d.end-d.start-2 && len(name) > 0 {
		d.f.Exports = append(d.f.Exports, Export{Name: d.intern(name), Local: d.intern(name), Import: -1})
	}
}

// identifier reads a name with the attributes that follow it.
func (d *pyDecls) identifier(prev pyPrev) {
	if prev.kind == Operator && prev.c == '.' {
		return
	}
	at := int32(d.start)
	first := d.id()
	id := d.attributes(first)
	if prev.as {
		d.names.bind(first)
		return
	}
	if d.lambda == d.depth+1 && (prev.parameter() || prev.kind == Keyword && prev.c == 'l') {
		d.names.local(first)
		return
	}
	t := pyTarget{id, d.names.use(id), at}
	if prev.kind == Identifier { // after a soft keyword: match, case or type
		d.targets = d.targets[:0]
		if string(d.src[d.begin:][:min(4, len(d.src)-d.begin)]) != "type" {
			return // prev.name.id stays 0: a colon ends the statement
		}
	}
	if d.prev.name = t; id == first && !d.off && d.within == 0 {
		d.targets = append(d.targets, t)
	}
}

// attributes reads what follows a name after dots, as far as it matters, and returns the whole.
func (d *pyDecls) attributes(first int32) int32 {
	end := d.end
	for range 7 {
		if end+1 >= len(d.src) || d.src[end] != '.' || pyClass[d.src[end+1]] != pyLetter {
			break
		}
		end = pyNameEnd(d.src, end+1, len(d.src))
	}
	if end == d.end {
		return first
	}
	d.end, d.pos = end, end
	return d.names.chain(d.src[d.start:end], first)
}

func (d *pyDecls) keyword() {
	switch {
	case d.is("for"):
		d.targets, d.off, d.within, d.loop = d.targets[:0], false, 0, d.depth+1
	case d.is("in") && d.loop == d.depth+1:
		d.assign(d.depth == 0)
		d.loop, d.off = 0, true
	case d.is("lambda"):
		d.lambda, d.off = d.depth+1, true
	case d.is("as"):
		d.prev.as = true
	default:
		d.off = d.off || d.within == 0
	}
}

func (d *pyDecls) operator(prev pyPrev) {
	switch c := d.src[d.start]; c {
	case '(', '[', '{':
		d.opening(prev, c)
	case ')', ']', '}':
		if d.within > d.depth {
			d.within = 0
		}
	case ',', '*', '.':
	case ':':
		d.colon(prev)
	default:
		d.equals(prev)
	}
}

// opening begins a call or subscript, inside of which there are no targets, or a list of targets.
func (d *pyDecls) opening(prev pyPrev, c byte) {
	if d.within > 0 {
		return
	}
	d.off = d.off || c == '{'
	if prev.kind == Identifier || prev.c == ')' || prev.c == ']' {
		if n := len(d.targets); n > 0 && d.targets[n-1] == prev.name {
			d.targets = d.targets[:n-1]
		}
		d.within = d.depth
	}
}

func (d *pyDecls) colon(prev pyPrev) {
	switch {
	case d.end-d.start == 2: // :=
		if prev.name.id > 0 {
			d.bind(prev.name, true)
		}
	case d.lambda == d.depth+1:
		d.lambda = 0
	default:
		d.off = d.off || d.within == 0
	}
}

// equals reads an operator that may be an assignment.
func (d *pyDecls) equals(prev pyPrev) {
	op := d.src[d.start:d.end]
	switch {
	case op[len(op)-1] != '=' || len(op) == 2 && strings.IndexByte("=!<>", op[0]) >= 0:
		d.off = d.off || d.within == 0
	case d.depth == 0 && d.lambda == 0:
		d.assign(true)
		d.off, d.within = len(op) > 1, 0
	case len(op) == 1 && prev.name.id > 0 && !d.fieldEnds():
		d.names.drop(prev.name.use) // the name of an argument
	}
}

// fieldEnds reports whether a replacement field ends after the current token, an = that shows the expression.
func (d *pyDecls) fieldEnds() bool {
	return d.specifies() && d.pos < len(d.src) && strings.IndexByte("}!: ", d.src[d.pos]) >= 0
}

// assign binds the targets: to variables, or to names that only an expression knows.
func (d *pyDecls) assign(variable bool) {
	for _, t := range d.targets {
		d.bind(t, variable)
	}
	d.targets = d.targets[:0]
}

// bind binds a target, and declares it, unless it is in a function.
func (d *pyDecls) bind(t pyTarget, variable bool) {
	d.names.drop(t.use)
	if !variable {
		d.names.local(t.id)
		return
	}
	d.names.bind(t.id)
	parent, ok := d.parent()
	name := d.names.names[t.id]
	if v := (pyVar{parent, name}); ok && !d.seen[v] {
		d.seen[v] = true
		d.declare(name, pyVarKind(parent, name), parent, int(t.at))
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
