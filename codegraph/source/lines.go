package source

import "bytes"

// lineWords are the words with which a declaration begins in one language or another.
var lineWords = map[string]DeclKind{
	"def": Func, "defp": Func, "fn": Func, "fun": Func, "func": Func, "function": Func, "proc": Func, "rpc": Func, "sub": Func,
	"class": Class, "object": Class, "record": Class,
	"interface": Interface, "protocol": Interface, "trait": Interface,
	"data": Type, "enum": Type, "message": Type, "newtype": Type, "struct": Type, "type": Type, "typealias": Type, "union": Type,
	"defmodule": Module, "module": Module, "namespace": Module, "package": Module, "service": Module,
	"const": Const, "let": Const, "val": Const, "var": Var,
	"defmacro": Macro, "macro": Macro,
}

// lineModifiers are the words that can be before one of lineWords.
var lineModifiers = words(`
	abstract actor actual annotation async case companion convenience data expect export external
	fileprivate final implicit indirect infix inline inner internal lateinit lazy local mutable mutating
	open operator override private protected pub public readonly required sealed static suspend tailrec
	unsafe value weak`)

// endLanguages are those in which a block ends with the word end.
var endLanguages = map[Language]bool{"ruby": true, "lua": true, "julia": true, "elixir": true, "haskell": true, "ocaml": true, "sql": true}

// lineMiddles are the words that are indented as the beginning and the end of a block, and are neither.
var lineMiddles = words(`rescue ensure else elsif catch after`)

// A lineFrame is a declaration whose end was not read yet.
type lineFrame struct {
	decl   int
	indent int   // of its line
	depth  int   // how many braces are open around it
	body   int32 // where its block begins
	braces bool  // that is in braces
	head   bool  // its block may still begin
	parens int   // how many parentheses of its head are open
	holds  bool  // there may be declarations in it
}

// lines reads declarations of languages of which it knows no more than the words that begin one. A block is
// what is in braces, or what ends with the word end, indented as the declaration is. If it is
// neither, the body is not known.
type lines struct {
	*clexer
	*tally
	f     *Facts
	ends  bool // blocks end with the word end, and braces are something else
	open  []lineFrame
	depth int
	last  int32 // the end of the last token that is not a comment
	doc   Span  // the comments directly before this line
	line  int32 // where the line of the current token begins
	prev  ctoken
}

func scanLines(f *Facts, l *clexer) {
	s := &lines{clexer: l, tally: newTally(0), f: f, ends: endLanguages[f.Language]}
	scanned := int32(0)
	for !s.full(f) && s.next() {
		fresh := s.last == 0
		for ; scanned < s.tok.Start; scanned++ {
			if s.src[scanned] == '\n' {
				fresh, s.line = true, scanned+1
			}
		}
		switch {
		case s.tok.Kind == Comment:
			s.comment(fresh)
			continue
		case fresh:
			s.begin()
		}
		s.step()
		s.last, s.prev = s.tok.End, s.tok
	}
	for _, fr := range s.open {
		f.Decls[fr.decl].At.End = s.last
	}
	f.Uses = s.uses()
}

// comment notes a comment that has its lines for itself.
func (s *lines) comment(fresh bool) {
	if !fresh {
		return
	}
	if s.doc.Start == s.doc.End || s.newlines(s.doc.End, s.tok.Start) > 1 {
		s.doc.Start = s.tok.Start
	}
	s.doc.End = s.tok.End
}

// begin reads the beginning of a line.
func (s *lines) begin() {
	indent := int(s.tok.Start - s.line)
	for n := len(s.open); n > 0; n = len(s.open) {
		top := &s.open[n-1]
		if top.head && top.body == 0 && top.parens <= 0 {
			top.body = s.last
		}
		closed := top.braces && s.is("}") && indent <= top.indent
		if closed && indent == top.indent {
			s.depth = top.depth + 1 // whatever there was: the code is indented as it is meant
			break
		}
		same := indent == top.indent && s.ends && lineMiddles[string(s.src[s.tok.Start:s.tok.End])]
		if !closed && (same || top.braces || top.head && (!s.ends && s.is("{") || top.parens > 0) || indent > top.indent) {
			break
		}
		if indent == top.indent && s.is("end") {
			s.finish(top, s.tok.End)
		} else {
			s.f.Decls[top.decl].At.End = s.last
		}
		s.open = s.open[:n-1]
	}
	if s.mayDeclare() {
		s.declare(indent)
	}
	s.doc = Span{}
}

func (s *lines) mayDeclare() bool {
	if len(s.open) == 0 {
		return s.depth == 0
	}
	top := s.open[len(s.open)-1]
	return top.holds && (!top.braces || s.depth == top.depth+1) && (!top.head || top.parens <= 0) && len(s.open) < maxNesting
}

// declare reads a declaration that begins with the current token.
func (s *lines) declare(indent int) {
	start, exported := s.tok.Start, true
	if s.doc.Start < s.doc.End && s.newlines(s.doc.End, start) <= 1 {
		start = s.doc.Start
	}
	for lineModifiers[string(s.src[s.tok.Start:s.tok.End])] || s.is("@") {
		exported = exported && !s.is("private") && !s.is("fileprivate") && !s.is("local")
		at := s.tok
		if !s.next() || s.tok.Kind == Comment || s.newlines(at.End, s.tok.Start) > 0 {
			s.tok = emptyAt(at.End)
			return
		}
	}
	word := s.tok
	kind, ok := lineWords[string(s.src[word.Start:word.End])]
	if shell := !ok && s.f.Language == "shell" && word.Kind == Identifier && hasPrefix(s.src[word.End:], "()"); shell {
		s.name(Func, word, ctoken{}, Span{start, word.End}, exported, indent)
	}
	if !ok {
		return
	}
	name, of := s.declared()
	if s.f.Package == "" && string(s.src[word.Start:word.End]) == "package" {
		s.f.Package = string(bytes.TrimSpace(s.src[word.End:max(name.End, word.End)]))
		return
	}
	if name.Kind == Identifier {
		s.name(kind, name, of, Span{start, name.End}, exported, indent)
	}
}

// declared reads the name behind a word, the last of a.b.c, and what is before its dot. The current token is
// then the last one of the name.
func (s *lines) declared() (name, of ctoken) {
	angles := 0
	for at := s.tok; ; at = s.tok {
		if !s.next() || s.newlines(at.End, s.tok.Start) > 0 || s.tok.Kind == Comment {
			s.tok = emptyAt(at.End) // it is read again
			return name, of
		}
		switch {
		case s.is("<"):
			angles++
		case s.is(">"):
			angles--
		case angles > 0, s.quoted(): // type 'a t
		case s.is("."), s.is("::"), s.is(":") && name.Kind == Identifier && s.f.Language == "lua", s.is("&"):
			if name.Kind == Identifier {
				of, name = name, ctoken{}
			}
		case (s.tok.Kind == Identifier || s.is("self")) && name.Start == name.End:
			name = s.tok
			name.Kind = Identifier
		default:
			s.tok = emptyAt(at.End) // it is read again
			return name, of
		}
	}
}

// quoted reports whether the current token is a name behind a quote, such as that of a variable for types, or the
// quote alone.
func (s *lines) quoted() bool { return s.tok.Kind == Identifier && s.src[s.tok.Start] == '\'' }

func (s *lines) name(kind DeclKind, name, of ctoken, at Span, exported bool, indent int) {
	d := Decl{Kind: kind, Exported: exported, Parent: -1, At: at, NameAt: name.Start}
	d.Name, d.Of = s.tally.name(s.src[name.Start:name.End]), s.tally.name(s.src[of.Start:of.End])
	if n := len(s.open); n > 0 {
		d.Parent = int32(s.open[n-1].decl)
		if outer := s.f.Decls[d.Parent].Kind; outer != Module {
			switch kind {
			case Func:
				d.Kind = Method
			case Const, Var:
				d.Kind = Field
			}
		}
	}
	holds := kind == Class || kind == Interface || kind == Type || kind == Module
	s.open = append(s.open, lineFrame{decl: len(s.f.Decls), indent: indent, depth: s.depth, head: true, holds: holds})
	s.f.Decls = append(s.f.Decls, d)
}

// step reads one token for its braces, and for the name that it may be.
func (s *lines) step() {
	var top *lineFrame
	if n := len(s.open); n > 0 {
		top = &s.open[n-1]
	}
	if s.tok.Kind == Identifier && !s.quoted() && string(s.src[s.prev.Start:s.prev.End]) != "." && (top == nil || s.f.Decls[top.decl].NameAt != s.tok.Start) {
		s.use(nil, s.src[s.tok.Start:s.tok.End])
	}
	if top != nil && string(s.src[s.prev.Start:s.prev.End]) == "=" && top.parens <= 0 && !s.is("{") {
		top.head = top.head && s.ends // a value
	}
	if s.tok.Kind != Operator || s.tok.Start == s.tok.End {
		return
	}
	switch s.src[s.tok.Start] {
	case '(', '[':
		if top != nil && top.head {
			top.parens++
		}
	case ')', ']':
		if top != nil && top.head {
			top.parens--
		}
	case '{':
		if top != nil && top.head && top.parens <= 0 && !s.ends {
			top.body, top.braces, top.head, top.depth = s.tok.Start, true, false, s.depth
		}
		s.depth++
	case '}':
		s.depth = max(s.depth-1, 0)
		if top != nil && top.braces && s.depth <= top.depth {
			s.finish(top, s.tok.End)
			s.open = s.open[:len(s.open)-1]
		}
	}
}

// finish ends a declaration with its block.
func (s *lines) finish(fr *lineFrame, end int32) {
	d := &s.f.Decls[fr.decl]
	d.At.End = end
	if (d.Kind == Func || d.Kind == Method) && fr.body > 0 { // or else its body is a value
		d.Body = Span{fr.body, end}
	}
}
