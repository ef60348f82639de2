package source

import (
	"bytes"
	"slices"
)

// A pyScan reads statements. The token that it looks at is the current one of its lexer; a statement leaves
// the first token after it as the current one.
type pyScan struct {
	*pyLexer
	f *Facts
	names
	ok    bool     // there is a current token
	last  int      // the end of the last token that is not a comment
	doc   Span     // the comment lines before the current token, or none
	decls *pyDecls // nil if only imports are wanted
	room  int      // how many names of imports are not read yet
}

func scanPython(f *Facts, src []byte, part Part) {
	s := &pyScan{pyLexer: newPyLexer(src), f: f, names: names{}, room: maxFacts}
	f.Script = bytes.HasPrefix(src, []byte("#!"))
	f.Generated = pyGenerated(src)
	if part == All {
		s.decls = &pyDecls{pyScan: s, names: newPyNames(), seen: map[pyVar]bool{}, from: -1}
	}
	for s.advance(); s.ok; {
		s.statement()
	}
	if part == All {
		s.decls.finish()
	}
	f.Imports, f.Decls = slices.Clone(f.Imports), slices.Clone(f.Decls) // without room to grow
}

// advance goes to the next token that is not a comment.
func (s *pyScan) advance() {
	if s.ok {
		s.last = s.end
	}
	s.doc = Span{}
	for s.ok = !s.full() && s.next(); s.ok && s.kind == Comment; s.ok = s.next() {
		if s.decls != nil {
			s.comment()
		}
	}
	if !s.ok {
		s.start, s.end = len(s.src), len(s.src)
	} else if s.doc.End > 0 && bytes.Count(s.src[s.doc.End:s.start], []byte("\n")) != 1 {
		s.doc = Span{}
	}
}

// full reports whether no more of the file is read.
func (s *pyScan) full() bool {
	return len(s.f.Imports) >= maxFacts || s.decls != nil && (len(s.f.Decls) >= maxFacts || len(s.decls.names.names) > maxNames)
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
func (s *pyScan) ends() bool { return !s.ok || s.first || s.is(";") && s.depth == 0 }

//go:noinline
func (s *pyScan) is(text string) bool { return string(s.src[s.start:s.end]) == text }

func (s *pyScan) name() string { return s.intern(s.src[s.start:s.end]) }

func (s *pyScan) statement() {
	if s.is(";") || s.is(":") {
		s.advance()
		return
	}
	if s.decls != nil {
		s.decls.outset()
	}
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
	if s.decls != nil {
		s.decls.statement()
		return
	}
	s.skip()
	s.advance()
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
	return s.intern(parts), at
}

func (s *pyScan) add(path string, at Span, taken []Name) {
	s.f.Imports = append(s.f.Imports, Import{Path: path, Names: taken, At: at})
	if s.decls != nil {
		s.decls.imported(taken)
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

// names are the names of a file, each once, so that facts neither repeat them nor keep the source alive.
type names map[string]string

func (n names) intern(name []byte) string {
	if s, ok := n[string(name)]; ok {
		return s
	}
	s := string(name)
	n[s] = s
	return s
}
