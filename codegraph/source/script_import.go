package source

// A scriptClause is what an import or export clause names.
type scriptClause struct {
	names    []Name // Name is in the other file, As in this one or, in an export, for others
	types    int    // how many of the names are only types
	allTypes bool   // import type
}

func (c *scriptClause) kind() ImportKind {
	if c.allTypes || len(c.names) > 0 && c.types == len(c.names) {
		return TypeOnly
	}
	return Plain
}

// importOrCall reads what follows the word import: a declaration, a call, a type or import.meta. As all functions that
// read a part of an import or export, it returns where to go on.
func (s *scriptScan) importOrCall(i int) int {
	switch t := s.tok(i); {
	case t.op == '(':
		return s.argument(i)
	case t.kind == scriptString:
		s.add(i, Plain, nil)
		return i + 1
	case t.kind == scriptName || t.op == '{' || t.op == '*':
		return s.importDeclaration(i, false)
	}
	return i
}

// importDeclaration reads from the token after import. If what it reads is not a declaration, the token that
// does not fit is left to the search.
func (s *scriptScan) importDeclaration(i int, exported bool) int {
	var c scriptClause
	i, ok := s.importClause(i, &c)
	if !ok || s.add(i, c.kind(), c.names) < 0 {
		return i
	}
	if last := len(c.names) - 1; exported && last >= 0 {
		s.locals = append(s.locals, scriptExport{c.names[last].As, c.names[last].As})
	}
	return i + 1
}

// importClause reads a clause and goes to the path.
func (s *scriptScan) importClause(i int, c *scriptClause) (next int, ok bool) {
	if s.tok(i).kind == scriptName {
		if i, ok = s.defaultName(i, c); !ok {
			return i, false
		}
		if _, ok := s.literal(i); ok { // import type from "x"
			return i, s.isWord(i-1, "from")
		}
	}
	switch s.tok(i).op {
	case '=':
		return s.importEquals(i, c)
	case '*':
		if !s.isWord(i+1, "as") {
			return i + 1, false
		}
		if s.tok(i+2).kind != scriptName {
			return i + 2, false
		}
		c.names = append(c.names, Name{"*", s.textOf(i + 2)})
		i += 3
	case '{':
		if i, ok = s.specifiers(i, c); !ok {
			return i, false
		}
	}
	if !s.isWord(i, "from") {
		return i, false
	}
	return i + 1, true
}

// defaultName reads the name of the default import, or the word type, which may itself be that name.
func (s *scriptScan) defaultName(i int, c *scriptClause) (next int, ok bool) {
	first := s.textOf(i)
	i++
	if first == "type" || first == "defer" || first == "source" {
		switch t := s.tok(i); {
		case t.op == '{' || t.op == '*':
			c.allTypes = first == "type"
			return i, true
		case s.isWord(i, "from"):
			if i++; s.isWord(i, "from") { // import type from from "x"
				c.allTypes, first = first == "type", "from"
			}
		case t.kind == scriptName:
			c.allTypes, first = first == "type", s.textOf(i)
			i++
		}
	}
	c.names = append(c.names, Name{"default", first})
	if s.tok(i).op != ',' {
		return i, true
	}
	op := s.tok(i + 1).op
	return i + 1, op == '{' || op == '*'
}

// importEquals reads import x = require("y") from the equals sign.
func (s *scriptScan) importEquals(i int, c *scriptClause) (next int, ok bool) {
	switch {
	case s.tok(i+1).word != wordRequire:
		return i + 1, false
	case s.tok(i+2).op != '(':
		return i + 2, false
	case len(c.names) != 1:
		return i + 3, false
	}
	c.names[0].Name = "*"
	return i + 3, true
}

// specifiers reads what is between braces.
func (s *scriptScan) specifiers(i int, c *scriptClause) (next int, ok bool) {
	var words []string
	for i++; i < len(s.tokens); i++ {
		switch t := &s.tokens[i]; {
		case s.named(i) && len(words) < 4:
			words = append(words, unquote(s.textOf(i)))
		case t.op == ',' || t.op == '}':
			if s.room > 0 && len(words) > 0 {
				c.specifier(words)
				s.room--
			}
			words = words[:0]
			if t.op == '}' {
				return i + 1, true
			}
		default:
			return i, false
		}
	}
	return i, false
}

// specifier adds what the words of a specifier say: a, a as b, type a, type a as b. Each word may itself be
// type or as, so that only their number tells.
func (c *scriptClause) specifier(words []string) {
	if len(words)%2 == 0 && len(words) > 0 {
		c.types++
		words = words[1:]
	}
	switch len(words) {
	case 1:
		c.names = append(c.names, Name{words[0], words[0]})
	case 3:
		c.names = append(c.names, Name{words[0], words[2]})
	}
}

// exportStatement reads what follows the word export, if it is not a declaration.
func (s *scriptScan) exportStatement(i int) int {
	t := s.tok(i)
	if typed := s.isWord(i, "type"); typed || t.op == '{' || t.op == '*' {
		if typed {
			i++
		}
		if op := s.tok(i).op; op == '{' || op == '*' {
			return s.exportClause(i)
		}
		return i
	}
	switch {
	case t.word == wordImport:
		return s.importDeclaration(i+1, true)
	case t.op == '=' || s.isWord(i, "default"):
		return s.exportDefault(i + 1)
	}
	return i
}

// exportDefault looks at what is exported by default: a name of the file, or something else.
func (s *scriptScan) exportDefault(i int) int {
	if s.tok(i).kind != scriptName {
		return i
	}
	if next := s.tok(i + 1); next.kind == scriptEnd || next.op == ';' || next.op == '}' || next.newline {
		s.locals = append(s.locals, scriptExport{"default", s.textOf(i)})
	}
	return i + 1
}

// exportClause reads export { … }, with or without a path, and export *.
func (s *scriptScan) exportClause(i int) int {
	var c scriptClause
	if s.tok(i).op == '*' {
		c.names = []Name{{"*", "*"}}
		if i++; s.isWord(i, "as") {
			c.names[0].As = unquote(s.textOf(i + 1))
			i += 2
		}
	} else if next, ok := s.specifiers(i, &c); !ok {
		return next
	} else {
		i = next
	}
	if !s.isWord(i, "from") {
		for _, n := range c.names {
			s.locals = append(s.locals, scriptExport{n.As, n.Name})
		}
		return i
	}
	n := s.add(i+1, Reexport, nil)
	if n < 0 {
		return i + 1
	}
	s.reexport(n, c.names)
	return i + 2
}

// reexport says that an import exports names.
func (s *scriptScan) reexport(i int, names []Name) {
	for _, n := range names {
		s.f.Exports = append(s.f.Exports, Export{n.As, n.Name, int32(i)})
		s.f.Imports[i].Names = append(s.f.Imports[i].Names, Name{Name: n.Name})
	}
}

// argument reads the arguments of import and require, from their parenthesis. A call has one literal, which
// may be followed by other arguments.
func (s *scriptScan) argument(open int) int {
	i := open + 1
	n := s.add(i, Plain, nil)
	if n < 0 {
		return i
	}
	i++
	if op := s.tok(i).op; op != ')' && op != ',' {
		s.f.Imports = s.f.Imports[:n]
		return i
	}
	imp, importing := &s.f.Imports[n], s.tok(open-1).word == wordImport
	imp.Names = s.bound(open)
	s.bind = i
	if importing {
		imp.Kind = Dynamic
		if s.isWord(open-2, "typeof") {
			imp.Kind = TypeOnly
		}
	}
	if s.tok(i).op == ',' {
		return i + 1
	}
	if i++; s.tok(i).op == '.' {
		if i++; s.tok(i).kind == scriptName || s.tok(i).kind == scriptWord {
			member(imp, s.textOf(i))
			return i + 1
		}
	}
	if !importing {
		s.commonExport(n, open)
	}
	return i
}

// member reads import("x").name or require("x").name. A promise has few members: any other name is that of
// a type.
func member(imp *Import, name string) {
	if imp.Kind == Dynamic {
		switch name {
		case "then", "catch", "finally":
			return
		}
		imp.Kind = TypeOnly
	}
	switch {
	case imp.Kind == TypeOnly:
		imp.Names = []Name{{Name: name}}
	case len(imp.Names) == 1 && imp.Names[0].Name == "*":
		imp.Names[0].Name = name
	default:
		imp.Names = nil
	}
}

// commonExport finds the exports of module.exports = require("x") and exports.name = require("x"), by the parenthesis.
func (s *scriptScan) commonExport(n, open int) {
	switch {
	case s.tok(open-2).op != '=':
		return
	case s.isWord(open-3, "exports"):
		s.reexport(n, []Name{{"*", "*"}, {"default", "default"}})
	case s.tok(open-4).op == '.' && s.isWord(open-5, "exports"):
		s.reexport(n, []Name{{"*", s.textOf(open - 3)}})
	default:
		return
	}
	s.f.Imports[n].Kind = Reexport
}

// bound returns what a declaration takes from the call that initializes it, and whose parenthesis is at open.
func (s *scriptScan) bound(open int) []Name {
	equals := open - 2
	if s.tok(equals).word == wordAwait {
		equals--
	}
	first := s.bind + 1
	if s.bind < 0 || s.tok(equals).op != '=' || equals <= s.bind {
		return nil
	}
	switch next := s.tok(first + 1); {
	case s.tok(first).op == '{':
		return s.taken(first)
	case s.tok(first).kind != scriptName || first+1 < equals && next.op != ':':
		return nil
	}
	return []Name{{"*", s.textOf(first)}}
}

// taken returns the names of a pattern from its brace: { a, b: c, d = 1, ...e }.
func (s *scriptScan) taken(open int) (names []Name) {
	state := byte(',')
	for i := open + 1; i < int(s.tok(open).match) && i < len(s.tokens); i = s.after(i) {
		switch t := &s.tokens[i]; {
		case t.opens():
			if state == ':' && len(names) > 0 { // a pattern in it
				names[len(names)-1].As = ""
			}
			state = 0
		case t.op == ',' || t.op == ':' || t.op == opSpread:
			state = t.op
		case s.named(i):
			switch text := s.textOf(i); state {
			case ',':
				names = append(names, Name{unquote(text), text})
			case ':':
				if len(names) > 0 { // else it is not valid
					names[len(names)-1].As = text
				}
			case opSpread:
				names = append(names, Name{"*", text})
			}
			state = 0
		}
	}
	return names
}

// export adds the exports of names that are declared or imported elsewhere in the file.
func (s *scriptScan) export() {
	if len(s.locals) == 0 {
		return
	}
	imports := map[string]Export{}
	for i, imp := range s.f.Imports {
		for _, n := range imp.Names {
			if n.As != "" {
				imports[n.As] = Export{"", n.Name, int32(i)}
			}
		}
	}
	exported := map[string]bool{} // the names that are declared, with true if export has them as they are
	for _, d := range s.f.Decls {
		if d.Parent < 0 {
			exported[d.Name] = false
		}
	}
	for _, e := range s.locals {
		_, declared := exported[e.local]
		if from, ok := imports[e.local]; ok {
			from.Name = e.name
			s.f.Exports = append(s.f.Exports, from)
		} else if declared && e.name == e.local {
			exported[e.local] = true
		} else {
			s.f.Exports = append(s.f.Exports, Export{e.name, e.local, -1})
		}
	}
	for i := range s.f.Decls {
		d := &s.f.Decls[i]
		d.Exported = d.Exported || d.Parent < 0 && exported[d.Name]
	}
}
