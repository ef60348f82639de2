package source

import "bytes"

// A pyScan reads statements. The token that it looks at is the current one of its lexer; a statement leaves
// the first token after it as the current one.
//
// Names that are assigned to are known only when the = comes. So names that may be targets are
// collected from the beginning of a statement, and after each =, until something comes that is not part
// of a list of targets.
type pyScan struct {
	*pyLexer
	f    *Facts
	ok   bool // there is a current token
	last int  // the end of the last token that is not a comment
	doc  Span // the comment lines before the current token, or none
	room int  // how many names of imports are not read yet

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

func scanPython(f *Facts, src []byte) {
	f.Script = bytes.HasPrefix(src, []byte("#!"))
	f.Generated = pyGenerated(src)
	s := &pyScan{pyLexer: newPyLexer(src), f: f, room: maxFacts, names: newPyNames(), seen: map[pyVar]bool{}, from: -1}
	for s.advance(); s.ok; {
		s.statement()
	}
	s.finish()
}

// advance goes to the next token that is not a comment.
func (s *pyScan) advance() {
	if s.ok {
		s.last = s.end
	}
	s.doc = Span{}
	for s.ok = !s.full() && s.next(); s.ok && s.kind == Comment; s.ok = s.next() {
		s.comment()
	}
	if !s.ok {
		s.start, s.end = len(s.src), len(s.src)
	} else if s.doc.End > 0 && bytes.Count(s.src[s.doc.End:s.start], []byte("\n")) != 1 {
		s.doc = Span{}
	}
}

// full reports whether no more of the file is read.
func (s *pyScan) full() bool {
	return len(s.f.Imports) >= maxFacts || len(s.f.Decls) >= maxFacts || len(s.names.names) > maxNames
}

// comment adds a comment to those before the next token, if it has a line to itself.
func (s *pyScan) comment() {
	switch {
	case !s.first:
	case s.doc.End > 0 && bytes.Count(s.src[s.doc.End:s.start], []byte("\n")) == 1:
		s.doc.End = int32(s.end)
	default:
		s.doc = Span{int32(s.start), int32(s.end)}
	}
}

// ends reports whether the statement ends before the current token.
//
//go:noinline
func (s *pyScan) ends() bool { return !s.ok || s.first || s.is(";") && s.depth == 0 }

//go:noinline
func (s *pyScan) is(text string) bool { return string(s.src[s.start:s.end]) == text }

func (s *pyScan) name() string { return string(s.src[s.start:s.end]) }

func (s *pyScan) statement() {
	if s.is(";") || s.is(":") {
		s.advance()
		return
	}
	s.outset()
	if s.kind == Keyword {
		switch {
		case s.is("import"):
			s.importStatement()
			return
		case s.is("from"):
			s.fromStatement()
			return
		case s.is("if"):
			line, _, _ := bytes.Cut(s.src[s.start:min(s.start+100, len(s.src))], []byte("\n"))
			s.f.Script = s.f.Script || bytes.Contains(line, []byte("__name__")) && bytes.Contains(line, []byte("__main__"))
		}
	}
	s.declaration()
}

// importStatement reads import a.b.c as d, e.
func (s *pyScan) importStatement() {
	for s.advance(); !s.ends(); s.advance() {
		path, at := s.dotted()
		if path == "" {
			continue
		}
		s.add(path, at, []Name{{"*", s.as(path)}})
		if s.ends() {
			return
		}
	}
}

// fromStatement reads from ..a.b import (c as d, e) or from a import *.
func (s *pyScan) fromStatement() {
	s.advance()
	path, at := s.dotted()
	if s.ends() || path == "" || !s.is("import") {
		return
	}
	var taken []Name
	for s.advance(); !s.ends(); s.advance() {
		switch {
		case s.is("*"):
			taken = []Name{{Name: "*"}}
		case s.kind == Identifier && s.room > 0:
			s.room--
			name := s.name()
			s.advance()
			taken = append(taken, Name{name, s.as(name)})
		}
		if s.ends() {
			break
		}
	}
	s.add(path, at, taken)
}

// as reads what may follow a name, and returns the name that it binds.
func (s *pyScan) as(name string) string {
	if s.ends() || !s.is("as") {
		return name
	}
	if s.advance(); !s.ends() && s.kind == Identifier {
		name = s.name()
		s.advance()
	}
	return name
}

// dotted reads the path of an import.
func (s *pyScan) dotted() (path string, at Span) {
	at = Span{int32(s.start), int32(s.start)}
	var parts []byte
	for ; !s.ends() && (s.is(".") || s.kind == Identifier); s.advance() {
		if n := len(parts); s.kind == Identifier && n > 0 && parts[n-1] != '.' {
			break
		}
		parts = append(parts, s.src[s.start:s.end]...)
		at.End = int32(s.end)
	}
	return string(parts), at
}

func (s *pyScan) add(path string, at Span, taken []Name) {
	s.f.Imports = append(s.f.Imports, Import{Path: path, Names: taken, At: at})
	for _, n := range taken {
		s.names.imported(n)
	}
}

// pyGenerated reports whether a comment at the beginning says that a program wrote the file.
func pyGenerated(src []byte) bool {
	for line := range bytes.Lines(src[:min(len(src), 4000)]) {
		line = bytes.TrimSpace(line)
		if len(line) > 0 && line[0] != '#' {
			return false
		}
		if generated(line) {
			return true
		}
	}
	return false
}
