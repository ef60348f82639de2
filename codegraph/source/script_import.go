package source

import "strings"

// A scriptClause is what an import or export clause names.
type scriptClause struct {
	names    []Name // Name is in the other file, As in this one or, in an export, for others
	types    int    // how many of the names are only types
	allTypes bool   // import type
	exported bool   // export import
}

func (c *scriptClause) kind() ImportKind {
	if c.allTypes || len(c.names) > 0 && c.types == len(c.names) {
		return TypeOnly
	}
	return Plain
}

// importDeclaration reads from the token after import. If what it reads is not a declaration, the token that
// does not fit is left to the search.
func (s *scriptScan) importDeclaration(exported bool) {
	c := scriptClause{exported: exported}
	if !s.importClause(&c) || s.add(c.kind(), c.names) < 0 {
		s.again = true
		return
	}
	if last := len(c.names) - 1; exported && last >= 0 {
		s.locals = append(s.locals, scriptExport{c.names[last].As, c.names[last].As})
	}
}

// importClause reads a clause and goes to the path.
func (s *scriptScan) importClause(c *scriptClause) bool {
	if s.kind == scriptName {
		if !s.defaultName(c) {
			return false
		}
		if _, ok := s.literal(); ok { // import type from "x"
			return s.textAt(s.before(0)) == "from"
		}
	}
	switch s.op {
	case '=':
		return s.importEquals(c)
	case '*':
		if !s.token() || !s.is("as") || !s.token() || s.kind != scriptName {
			return false
		}
		c.names = append(c.names, Name{"*", s.string()})
		s.token()
	case '{':
		if !s.specifiers(c) {
			return false
		}
	}
	return s.is("from") && s.token()
}

// defaultName reads the name of the default import, or the word type, which may itself be that name.
func (s *scriptScan) defaultName(c *scriptClause) bool {
	first := s.string()
	s.token()
	if first == "type" || first == "defer" || first == "source" {
		switch {
		case s.op == '{' || s.op == '*':
			c.allTypes = first == "type"
			return true
		case s.is("from"):
			s.token()
			if s.is("from") { // import type from from "x"
				c.allTypes, first = first == "type", "from"
			}
		case s.kind == scriptName:
			c.allTypes, first = first == "type", s.string()
			s.token()
		}
	}
	c.names = append(c.names, Name{"default", first})
	if s.op == ',' {
		s.token()
		return s.op == '{' || s.op == '*'
	}
	return true
}

// importEquals reads import x = require("y") from the equals sign.
func (s *scriptScan) importEquals(c *scriptClause) bool {
	if !s.token() || s.word != wordRequire || !s.token() || s.op != '(' || !s.token() || len(c.names) != 1 {
		return false
	}
	c.names[0].Name = "*"
	return true
}

// specifiers reads what is between braces, and goes to the token behind them.
func (s *scriptScan) specifiers(c *scriptClause) bool {
	var words [4]string
	n := 0
	for s.token() {
		switch {
		case s.kind == scriptName || s.kind == scriptWord:
			if n == len(words) {
				return false
			}
			words[n] = s.string()
			n++
		case s.kind == scriptString && n < len(words):
			words[n] = strings.Trim(s.string(), `"'`)
			n++
		case s.op == ',' || s.op == '}':
			if s.room > 0 && n > 0 {
				c.specifier(words[:n])
				s.room--
			}
			n = 0
			if s.op == '}' {
				s.token()
				return true
			}
		default:
			return false
		}
	}
	return false
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

// exportStatement reads what begins with export, if it is not a declaration.
func (s *scriptScan) exportStatement() {
	s.token()
	switch {
	case s.is("type"):
		if s.token(); s.op == '{' || s.op == '*' {
			s.exportClause()
			return
		}
	case s.op == '{' || s.op == '*':
		s.exportClause()
		return
	case s.word == wordImport:
		s.token()
		s.importDeclaration(true)
		return
	case s.op == '=' || s.word == wordOther && s.is("default"):
		s.token()
		s.exportDefault()
	}
	s.again = true
}

// exportDefault looks at what is exported by default: a name of the file, or something else.
func (s *scriptScan) exportDefault() {
	if s.kind != scriptName {
		return
	}
	name := s.string()
	if s.token(); s.kind == scriptEnd || s.op == ';' || s.op == '}' || s.newline {
		s.locals = append(s.locals, scriptExport{"default", name})
	}
}

// exportClause reads export { … }, with or without a path, and export *.
func (s *scriptScan) exportClause() {
	s.again = !s.exports()
}

func (s *scriptScan) exports() bool {
	var c scriptClause
	if s.op == '*' {
		c.names = []Name{{"*", "*"}}
		if s.token(); s.is("as") {
			s.token()
			c.names[0].As = strings.Trim(s.string(), `"'`)
			s.token()
		}
	} else if !s.specifiers(&c) {
		return false
	}
	if !s.is("from") {
		for _, n := range c.names {
			s.locals = append(s.locals, scriptExport{n.As, n.Name})
		}
		return false
	}
	s.token()
	i := s.add(Reexport, nil)
	if i >= 0 {
		s.reexport(i, c.names)
	}
	return i >= 0
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
func (s *scriptScan) argument() {
	call := scriptCall{importing: s.before(0).word == wordImport}
	for i := range call.before {
		call.before[i] = s.before(i + 1)
	}
	s.token()
	i := s.add(Plain, nil)
	if i < 0 {
		s.again = true
		return
	}
	if s.token(); s.op != ')' && s.op != ',' {
		s.f.Imports = s.f.Imports[:i]
		s.again = true
		return
	}
	imp := &s.f.Imports[i]
	imp.Names = s.bound(call)
	if call.importing {
		imp.Kind = Dynamic
		if s.textAt(call.before[0]) == "typeof" {
			imp.Kind = TypeOnly
		}
	}
	if s.op != ')' {
		return
	}
	if s.token(); s.op == '.' && s.token() && (s.kind == scriptName || s.kind == scriptWord) {
		s.member(imp, s.string())
		return
	}
	s.again = true
	if !call.importing {
		s.commonExport(i, call)
	}
}

// A scriptCall is a call of import or require, with the tokens before it, the last first.
type scriptCall struct {
	importing bool
	before    [4]scriptRecent
}

func (s *scriptScan) textAt(t scriptRecent) string { return string(s.src[t.start:t.end]) }

// member reads import("x").name or require("x").name. A promise has few members: any other name is that of
// a type.
func (s *scriptScan) member(imp *Import, name string) {
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

// commonExport finds the exports of module.exports = require("x") and exports.name = require("x").
func (s *scriptScan) commonExport(i int, call scriptCall) {
	switch {
	case call.before[0].op != '=':
		return
	case s.textAt(call.before[1]) == "exports":
		s.reexport(i, []Name{{"*", "*"}, {"default", "default"}})
	case call.before[2].op == '.' && s.textAt(call.before[3]) == "exports":
		s.reexport(i, []Name{{"*", s.textAt(call.before[1])}})
	default:
		return
	}
	s.f.Imports[i].Kind = Reexport
}

// bound returns what a declaration takes from the call that initializes it. The text between is read a second
// time, but not a third.
func (s *scriptScan) bound(call scriptCall) []Name {
	equals := call.before[0]
	if equals.word == wordAwait {
		equals = call.before[1]
	}
	if s.bind < 0 || equals.op != '=' || int(equals.start) < s.bind {
		return nil
	}
	l := scriptLexer{src: s.src[s.bind:equals.start]}
	s.bind = s.end
	l.next()
	if l.op == '{' {
		return l.pattern()
	}
	if l.kind != scriptName {
		return nil
	}
	name := string(l.src[l.start:l.end])
	if l.next() && l.op != ':' {
		return nil
	}
	return []Name{{"*", name}}
}

// pattern returns the names of a pattern from its brace: { a, b: c, d = 1, ...e }.
func (l *scriptLexer) pattern() (names []Name) {
	for state := byte(','); l.next() && len(l.stack) > 0; {
		switch {
		case len(l.stack) > 1:
			if state == ':' && len(names) > 0 { // a pattern in it
				names[len(names)-1].As = ""
			}
			state = 0
		case l.op == ',' || l.op == ':' || l.op == opSpread:
			state = l.op
		case l.kind == scriptName || l.kind == scriptWord || l.kind == scriptString:
			text := string(l.src[l.start:l.end])
			switch state {
			case ',':
				names = append(names, Name{strings.Trim(text, `"'`), text})
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
		} else if s.part == All {
			s.f.Exports = append(s.f.Exports, Export{e.name, e.local, -1})
		}
	}
	for i := range s.f.Decls {
		d := &s.f.Decls[i]
		d.Exported = d.Exported || d.Parent < 0 && exported[d.Name]
	}
}

func (s *scriptScan) is(word string) bool { return s.kind != scriptString && string(s.text()) == word }

func (s *scriptScan) string() string { return string(s.text()) }
