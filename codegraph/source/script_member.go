package source

import "strings"

// variables reads the declarators after const, let or var.
func (s *scriptScan) variables(i int, d scriptDeclaration) int {
	kind := Var
	if s.isWord(i, "const") {
		kind = Const
	}
	for i++; i < len(s.tokens); i++ {
		i = s.declarator(i, kind, d)
		if s.tok(i).op != ',' {
			break
		}
		d.start = i + 1
	}
	if s.tok(i).op == ';' {
		i++
	}
	return i
}

// declarator reads a name or a pattern, its type and its value, and returns the token after them.
func (s *scriptScan) declarator(i int, kind DeclKind, d scriptDeclaration) int {
	name := i
	i = s.after(i)
	if s.tok(i).op == '!' {
		i++
	}
	if s.tok(i).op == ':' {
		i = s.typeEnd(i + 1)
	}
	value := i + 1
	if s.tok(i).op == '=' {
		i = s.valueEnd(value)
	}
	if t := s.tok(name); t.op == '{' || t.op == '[' {
		s.pattern(name, kind, d, i)
		return i
	}
	if s.tok(name).kind != scriptName {
		return i
	}
	n := s.addDecl(name, kind, d, i)
	if value <= i {
		s.value(value, i, n)
	}
	return i
}

// pattern declares the names of a destructuring pattern.
func (s *scriptScan) pattern(open int, kind DeclKind, d scriptDeclaration, end int) {
	s.patternNames(open, func(i int) {
		if !s.full() {
			s.addDecl(i, kind, d, end)
		}
	})
}

// patternNames finds the names that a pattern declares. Default values are not a part of it, and it ends where
// something stands that cannot be in one.
func (s *scriptScan) patternNames(open int, name func(i int)) {
	end := min(int(s.tok(open).match), len(s.tokens))
	for i := open + 1; i < end; i++ {
		switch t := &s.tokens[i]; {
		case t.op == '=':
			for i+1 < end && s.tokens[i+1].op != ',' && !s.tokens[i+1].closes() {
				i = s.after(i+1) - 1
			}
		case t.op == ';' || t.op == '(' || t.op == opOther || t.op == opArrow || t.word == wordBind:
			return
		case s.binds(i):
			name(i)
		}
	}
}

// binds reports whether a token of a pattern is a name that it declares: one after which neither the
// pattern of a property nor more of an expression follows.
func (s *scriptScan) binds(i int) bool {
	t, before, next := s.tok(i), s.tok(i-1).op, s.tok(i+1).op
	return t.kind == scriptName && (before == '{' || before == '[' || before == ',' || before == ':' || before == opSpread) &&
		(next == ',' || next == '=' || next == '}' || next == ']')
}

// valueEnd returns the token after the value of a variable or field: a comma that begins the next one, a
// closing bracket or the end of the statement.
func (s *scriptScan) valueEnd(i int) int {
	for first := i; i < len(s.tokens); i = s.after(i) {
		t := &s.tokens[i]
		switch {
		case t.op == ';' || t.op == ')' || t.op == ']' || t.op == '}':
			return i
		case i == first:
		case t.op == ',' && s.beginsDeclarator(i+1), s.breaks(i):
			return i
		case t.word == wordBind && !s.isWord(i-1, "as") || t.word == wordExport || t.word == wordImport && s.tok(i+1).op != '(' && s.tok(i+1).op != '.':
			return i
		}
	}
	return i
}

// beginsDeclarator reports whether a declarator begins at a token, and not the second of some type arguments.
func (s *scriptScan) beginsDeclarator(i int) bool {
	t := s.tok(i)
	if t.op == '{' || t.op == '[' {
		i = s.after(i)
		return s.tok(i).op == '='
	}
	next := s.tok(i + 1)
	return t.kind == scriptName && (next.op == '=' || next.op == ':' || next.op == ';' || next.op == ',' || next.op == '!')
}

// value looks at the value of a declaration: a function makes it one, and a class or an object has members.
func (s *scriptScan) value(i, end int, n int32) {
	d := &s.f.Decls[n]
	if body, ok := s.functionValue(i); ok {
		d.Kind, d.Body = Func, body
		if d.Parent >= 0 && s.f.Decls[d.Parent].Kind != Module {
			d.Kind = Method
		}
		return
	}
	in := scriptDeclaration{parent: n, exported: d.Exported}
	switch {
	case s.isWord(i, "class"):
		d.Kind = Class
		for i++; i < end && s.tokens[i].op != '{'; {
			i = s.after(i)
		}
		if i < end {
			s.members(i, in, Class)
		}
	case s.tok(i).op == '{' && d.Parent < 0:
		s.members(i, in, Const)
	}
}

// functionValue reports whether a function expression or an arrow function begins at a token, and what its
// body is.
func (s *scriptScan) functionValue(i int) (body Span, ok bool) {
	if s.isWord(i, "async") {
		i++
	}
	if s.isWord(i, "function") {
		_, i = s.functionName(i)
		_, body = s.signature(i)
		return body, true
	}
	if i = s.typeParameters(i); s.tok(i).op == '(' {
		if i = s.after(i); s.tok(i).op == ':' {
			i = s.arrow(i + 1)
		}
	} else if s.tok(i).kind == scriptName {
		i++
	}
	if s.tok(i).op != opArrow {
		return Span{}, false
	}
	if s.tok(i+1).op == '{' {
		body = s.span(i+1, s.after(i+1)-1)
	}
	return body, true
}

// arrow returns the arrow after a result type. It does not look far.
func (s *scriptScan) arrow(i int) int {
	for far := i + 50; i < far && i < len(s.tokens) && s.tokens[i].op != opArrow && s.tokens[i].op != ';' && s.tokens[i].op != '='; {
		i = s.after(i)
	}
	return i
}

// defaultValue reads export default with an expression.
func (s *scriptScan) defaultValue(i int, d scriptDeclaration) int {
	end := s.valueEnd(i)
	if s.tok(end).op == ';' {
		end++
	}
	d.isolated = false
	n := s.addDecl(-1, Const, d, max(end, i+1))
	s.value(i, end, n)
	return end
}

// commonJS reads module.exports = … and exports.name = …, from their first word.
func (s *scriptScan) commonJS(i int, d scriptDeclaration) (next int, ok bool) {
	if s.isWord(i, "module") && s.tok(i+1).op == '.' {
		i += 2
	}
	if !s.isWord(i, "exports") || d.parent >= 0 {
		return i, false
	}
	d.exported = true
	name := -1
	if i++; s.tok(i).op == '.' {
		name = i + 1
		i += 2
	}
	if s.tok(i).op != '=' {
		return i, false
	}
	end := s.valueEnd(i + 1)
	if s.tok(end).op == ';' {
		end++
	}
	s.commonValue(i+1, name, end, d)
	return end, true
}

// commonValue declares or exports the value of an assignment to exports or one of its names.
func (s *scriptScan) commonValue(i, name, end int, d scriptDeclaration) {
	if s.tok(i).kind == scriptName && (s.tok(i+1).op == ';' || i+1 >= end) {
		as := "default"
		if name >= 0 {
			as = s.textOf(name)
		}
		s.locals = append(s.locals, scriptExport{as, s.textOf(i)})
		return
	}
	if s.isWord(i, "require") {
		return
	}
	n := s.addDecl(name, Const, d, end)
	s.value(i, end, n)
	if name < 0 && s.tok(i).op == '{' {
		s.commonNames(i)
	}
}

// commonNames exports the names of an object: { a, b: c }.
func (s *scriptScan) commonNames(open int) {
	for i := open + 1; i < int(s.tok(open).match) && i < len(s.tokens) && len(s.locals) < maxFacts; i = s.after(i) {
		if before := s.tok(i - 1).op; before != '{' && before != ',' || s.tok(i).kind != scriptName {
			continue
		}
		name, local := s.textOf(i), i
		if s.tok(i+1).op == ':' {
			local = i + 2
		}
		if next := s.tok(local + 1).op; s.tok(local).kind == scriptName && (next == ',' || next == '}') {
			s.locals = append(s.locals, scriptExport{name, s.textOf(local)})
		} else {
			s.f.Exports = append(s.f.Exports, Export{name, "default", -1})
		}
	}
}

// members reads the members of a class, an interface or, for Const, an object, from the brace. Of an object only
// the functions are declarations.
func (s *scriptScan) members(open int, in scriptDeclaration, of DeclKind) {
	end := min(int(s.tok(open).match), len(s.tokens))
	for i := open + 1; i < end && !s.full(); {
		if op := s.tok(i).op; op == ';' || op == ',' {
			i++
			continue
		}
		i = max(s.memberDecl(i, end, in, of), i+1)
	}
}

// memberDecl reads a member and returns the token after it.
func (s *scriptScan) memberDecl(i, end int, d scriptDeclaration, of DeclKind) int {
	d.start = i
	i = s.decorators(i)
	for s.memberModifier(i) {
		if s.isWord(i, "private") || s.isWord(i, "protected") {
			d.exported = false
		}
		i++
	}
	if s.tok(i).op == '*' {
		i++
	}
	if s.isWord(i, "static") && s.tok(i+1).op == '{' {
		return s.after(i + 1)
	}
	if op := s.tok(i).op; op == '(' || op == '<' || of == Interface && s.isWord(i, "new") { // without a name
		end, _ := s.signature(i)
		return end
	}
	name := i
	if strings.HasPrefix(s.textOf(name), "#") {
		d.exported = false
	}
	if i = s.after(i); s.tok(i).op == '?' || s.tok(i).op == '!' {
		i++
	}
	named := s.named(name)
	if op := s.tok(i).op; op == '(' || op == '<' {
		return s.method(name, i, d, named)
	}
	return s.field(name, i, end, d, of)
}

// named reports whether a token is a name that a member can have. Computed names are not known.
func (s *scriptScan) named(i int) bool {
	switch s.tok(i).kind {
	case scriptName, scriptWord, scriptString:
		return true
	}
	return false
}

func (s *scriptScan) method(name, i int, d scriptDeclaration, named bool) int {
	end, body := s.signature(i)
	if named {
		n := s.addDecl(name, Method, d, end)
		s.f.Decls[n].Body = body
	}
	return end
}

// field reads a property with its type and value.
func (s *scriptScan) field(name, i, end int, d scriptDeclaration, of DeclKind) int {
	value := i + 1
	if of == Const {
		i = s.propertyEnd(i)
	} else {
		if s.tok(i).op == ':' {
			i = s.typeEnd(i + 1)
			value = i + 1
		}
		if s.tok(i).op == '=' {
			i = s.valueEnd(value)
		}
	}
	i = min(i, end)
	body, function := Span{}, false
	if value < i {
		body, function = s.functionValue(value)
	}
	if !s.named(name) || of == Const && !function {
		return i
	}
	kind := Field
	if function {
		kind = Method
	}
	n := s.addDecl(name, kind, d, max(i, name+1))
	s.f.Decls[n].Body = body
	return i
}

// propertyEnd returns the token after the property of an object.
func (s *scriptScan) propertyEnd(i int) int {
	for i < len(s.tokens) && s.tokens[i].op != ',' && s.tokens[i].op != '}' {
		i = s.after(i)
	}
	return i
}

// memberModifier reports whether a token is a modifier of a member and not its name.
func (s *scriptScan) memberModifier(i int) bool {
	if next := s.tok(i + 1); next.op != 0 && next.op != '*' && next.op != '[' || s.breaks(i+1) {
		return false
	}
	switch s.textOf(i) {
	case "public", "private", "protected", "static", "readonly", "abstract", "override", "declare", "async", "get", "set", "accessor":
		return true
	}
	return false
}
