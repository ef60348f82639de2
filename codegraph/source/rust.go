package source

import (
	"bytes"
	"strings"
)

var rustKeywords = words(`
	as async await break const continue crate dyn else enum extern false fn for if impl in let loop match
	mod move mut pub ref return self Self static struct super trait true type unsafe use where while`)

var rustGrammar = grammar{
	keywords: rustKeywords, line: slashes, block: starred, nested: true, chars: true,
	quotes:   []*quote{{`"`, `"`, true, true}},
	prefixes: map[string]bool{"b": false, "c": false, "r": true, "br": true, "cr": true},
	raw:      rustRaw,
}

// rustRaw reads the beginning of a raw string, "##.
func rustRaw(src []byte, from int) (text int, end string) {
	i := from
	for i < len(src) && src[i] == '#' {
		i++
	}
	if i == len(src) || src[i] != '"' {
		return 0, ""
	}
	return i + 1, `"` + string(src[from:i])
}

var rustDialect = dialect{grammar: &rustGrammar, paths: true, declare: declareRust}

func scanRust(f *Facts, src []byte, part Part) {
	f.header(&rustGrammar, src)
	r := rustImports{clexer: lex(&rustGrammar, src), f: f, room: maxPath + 8*len(src)}
	r.run()
	if part == All {
		scanBlocks(f, src, 0, &rustDialect)
	}
}

// rustImports finds what names other files: use, mod and extern crate, wherever they are, also in functions
// and in the arguments of macros, which pass them on. It reads the words of a file and not its structure,
// except for the blocks of inline modules.
type rustImports struct {
	*clexer
	f     *Facts
	depth int
	mods  []inlineMod
	paths []string // what the attributes before this say of the path of a module
	only  bool     // and that without a condition
	names []Name   // and of its names: macro_use brings all macros into scope
	room  int      // how long the paths can be that are not read yet, so that the time stays linear
}

type inlineMod struct {
	within string
	depth  int
}

func (r *rustImports) run() {
	src := r.src
	for i := int(r.tok.End); i < len(src) && len(r.f.Imports) < maxFacts; {
		switch c := src[i]; {
		case r.class[c] == letter:
			i = r.at(i)
		case r.class[c] == mark:
			_, i = r.mark(i)
		case r.class[c] == digit:
			i = r.number(i)
		case c == '#':
			i = r.attribute(i + 1)
		default:
			if c == '{' {
				r.depth++
			} else if c == '}' {
				r.close()
			}
			i++
		}
	}
}

func (r *rustImports) close() {
	r.depth--
	if n := len(r.mods); n > 0 && r.mods[n-1].depth > r.depth {
		r.mods = r.mods[:n-1]
	}
}

func (r *rustImports) within() string {
	if n := len(r.mods); n > 0 {
		return r.mods[n-1].within
	}
	return ""
}

// at reads from the word at i, and returns where to go on.
func (r *rustImports) at(i int) int {
	end := r.wordEnd(i)
	if end < len(r.src) && (r.src[end] == '"' || r.src[end] == '#' || r.src[end] == '\'') {
		_, end = r.word(i)
		return end
	}
	if end-i != 3 && end-i != 6 {
		return end
	}
	r.tok.End = int32(end)
	switch string(r.src[i:end]) {
	case "pub":
		return r.pub()
	case "use":
		r.use(Plain)
	case "mod":
		r.mod()
	case "extern":
		r.crate()
	}
	r.paths, r.names, r.only = nil, nil, false
	return int(r.tok.End)
}

// pub reads pub and what it is limited to: pub(in crate::a).
func (r *rustImports) pub() int {
	kind := Reexport
	r.code()
	if r.is("(") {
		for r.code() && !r.is(")") && (r.tok.Kind == Identifier || r.tok.Kind == Keyword || r.is("::")) {
			if r.is("self") {
				kind = Plain
			}
		}
		if r.is(")") {
			r.code()
		}
	}
	if r.is("use") {
		r.use(kind)
		return int(r.tok.End)
	}
	return int(r.tok.Start)
}

// attribute reads #[…], from behind the #. Only macro_use matters, and path = "…", alone or in cfg_attr.
func (r *rustImports) attribute(i int) int {
	r.tok.End = int32(i)
	if r.code(); !r.is("[") {
		return i
	}
	for depth, before := 1, (ctoken{}); depth > 0 && r.code(); {
		switch {
		case r.is("[") || r.is("("):
			depth++
		case r.is("]") || r.is(")"):
			depth--
		case r.is("macro_use"):
			r.names = []Name{{Name: "*"}}
		case r.tok.Kind == String && string(r.src[before.Start:before.End]) == "path" && r.src[r.tok.Start] == '"':
			r.paths = append(r.paths, strings.Trim(r.text(r.tok), `"`))
			r.only = r.only || depth == 1
		}
		if !r.is("=") {
			before = r.tok
		}
	}
	return int(r.tok.End)
}

// mod reads the name of a module. If it has no block, it is in another file.
func (r *rustImports) mod() {
	r.code()
	name := r.tok
	text := string(plainName(r.src[name.Start:name.End]))
	if name.Kind != Identifier || !r.code() {
		r.tok.End = name.Start
		return
	}
	switch {
	case r.is("{"):
		r.depth++
		within := text
		if outer := r.within(); outer != "" {
			within = outer + "::" + text
		}
		if len(within) < maxPath {
			r.mods = append(r.mods, inlineMod{within, r.depth})
		}
	case r.is(";"):
		if len(r.paths) == 0 || !r.only {
			r.paths = append(r.paths, text)
		}
		for _, p := range r.paths {
			r.add(Import{Path: p, Kind: Submodule, Names: append([]Name{{text, text}}, r.names...), At: name.Span})
		}
	default:
		r.tok.End = r.tok.Start
	}
}

// crate reads the rest of extern crate x as y;.
func (r *rustImports) crate() {
	if r.code(); !r.is("crate") {
		r.tok.End = r.tok.Start
		return
	}
	r.code()
	name := r.tok
	text := r.text(name)
	as := text
	if r.code(); r.is("as") {
		r.code()
		as = r.text(r.tok)
		r.code()
	}
	path := "::" + text
	if text == "self" {
		path = "crate"
	}
	if r.is(";") {
		r.add(Import{Path: path, Names: []Name{{text, as}}, At: name.Span})
	}
}

func (r *rustImports) add(i Import) {
	if len(r.f.Imports) >= maxFacts {
		return
	}
	i.Within = r.within()
	if i.Kind == Reexport && i.Within == "" {
		n := i.Names[0]
		name := n.As
		if n.Name == "*" {
			name = "*"
		}
		r.f.Exports = append(r.f.Exports, Export{name, n.Name, int32(len(r.f.Imports))})
	}
	r.f.Imports = append(r.f.Imports, i)
}

// maxPath bounds the length of paths, so that the time and space for braces in braces stay linear.
const maxPath = 300

// A useTree is a tree of paths as it is read: use a::{b, c::{d as e, *}};.
type useTree struct {
	*rustImports
	kind  ImportKind
	path  []byte // from the root to here
	open  []int  // how much of the path each open brace has before it
	as    string
	start int32 // where the part of the path that is behind the last brace begins, or -1
	end   int32
}

func (r *rustImports) use(kind ImportKind) {
	t := useTree{rustImports: r, kind: kind, start: -1}
	for r.code() {
		switch {
		case r.is("{"):
			t.open = append(t.open, len(t.path))
			t.start = -1
		case r.is(","), r.is("}"), r.is(";"):
			t.leaf()
			if r.is("}") && len(t.open) > 0 {
				t.open = t.open[:len(t.open)-1]
			}
			if r.is(";") || len(t.open) == 0 && r.is(",") {
				return
			}
		case r.is("as"):
			r.code()
			t.as = r.text(r.tok)
		case !t.segment():
			r.tok.End = r.tok.Start // not a use
			return
		}
	}
}

// segment takes a part of a path, and reports whether it was one.
func (t *useTree) segment() bool {
	text := t.src[t.tok.Start:t.tok.End]
	switch {
	case t.is("$crate"):
		text = text[1:]
	case t.tok.Kind == Identifier && text[0] != '$' && text[0] != '\'':
		text = plainName(text)
	case t.is("self"), t.is("super"), t.is("crate"), t.is("::"), t.is("*"):
	default:
		return false
	}
	if t.start < 0 {
		t.start = t.tok.Start
	}
	t.end = t.tok.End
	if len(t.path) < 2*maxPath {
		t.path = append(t.path, text...)
	}
	return true
}

// leaf ends a path.
func (t *useTree) leaf() {
	from := 0
	if n := len(t.open); n > 0 {
		from = t.open[n-1]
	}
	if t.start >= 0 && len(t.path) > from && len(t.path) < maxPath && t.room >= 0 && len(t.f.Imports) < maxFacts {
		t.room -= len(t.path)
		path := string(bytes.TrimSuffix(t.path, []byte("::self")))
		name := Name{Name: path[strings.LastIndex(path, ":")+1:]}
		if name.Name != "*" {
			name.As = t.as
			if t.as == "" {
				name.As = name.Name
			}
		}
		t.add(Import{Path: path, Kind: t.kind, Names: []Name{name}, At: Span{t.start, t.end}})
	}
	t.path, t.as, t.start = t.path[:from], "", -1
}
