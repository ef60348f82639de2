package source

import (
	"bytes"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// Go is read in two passes. The first finds the tokens of a file and matches the brackets: what is left open
// where a function begins at the start of a line, or where the file ends, is closed there, and a bracket that
// closes nothing is left out. So an error stays in the function in which it is. The second reads the
// declarations, statements and expressions from the beginning to the end. It steps into brackets and over them,
// and never past the bracket that ends what it reads.
//
// The syntax and the scopes of names are those of the specification of Go. The types of values are those that
// can be told without another file.

// goDepth bounds how deeply statements, expressions and types can be nested, and goMost how many tokens a file can
// have, and 16 times as many as different names. Of a file with more only the imports are known.
const (
	goDepth = 2000
	goMost  = 1 << 21
)

// A goReader reads the tokens of a file.
type goReader struct {
	nameTable
	useCount
	goTokens
	f      *Facts
	decls  []Decl
	p      int        // the current token
	undo   []goScoped // what names meant before, in the order of their declarations
	types  []int32    // of the values that are being read
	header bool       // a { begins the block of a statement
	guard  int32      // the name that a type switch gives to its value
	depth  int
	blank  int32 // the number of _

	notation [2 * goLongest]byte // memory for the notation that is being made
	packer   packer
}

// A goScoped is a name and what it meant before it was declared in a function.
type goScoped struct {
	id    int32
	local bool
	of    int32
}

// goBuffers have read a file. The next one takes their memory, which is a third of all that the graph of a workspace
// would allocate.
var goBuffers = sync.Pool{New: func() any {
	return &goReader{nameTable: newNameTable(0), useCount: newUseCount(0), packer: packer{nameTable: newNameTable(0)}}
}}

// maxBuffer bounds what is kept, in tokens.
const maxBuffer = 1 << 18

func (g *goReader) scan(f *Facts, src []byte, part Part) {
	f.Script = bytes.HasPrefix(src, []byte("#!"))
	g.reset(f, src, part)
	g.read(&g.nameTable, part)
	g.blank = g.id([]byte("_"))
	if g.kind() == goPackage && g.toks[1].kind == goIdent {
		g.file()
	}
	g.decls, f.Decls = f.Decls, append(make([]Decl, 0, len(f.Decls)), f.Decls...)
	g.f, g.src = nil, nil
}

// reset makes a reader like a new one for a file, in the memory that it has.
func (g *goReader) reset(f *Facts, src []byte, part Part) {
	room := 0
	if part == All { // to grow takes longer than to read the names
		room = len(src) / 64
	}
	g.nameTable.reset(room)
	g.useCount.reset(room / 2)
	f.Decls = g.decls[:0]
	*g = goReader{
		nameTable: g.nameTable, useCount: g.useCount, packer: g.packer, f: f, undo: g.undo[:0], types: g.types[:0],
		goTokens: goTokens{src: src, toks: g.toks[:0], comments: g.comments[:0], words: g.words[:0], open: g.open[:0]},
	}
}

// file reads a file from its package clause on.
func (g *goReader) file() {
	f := g.f
	f.Package, f.Generated = g.names[g.toks[1].to], g.isGenerated()
	for g.p = 2; g.kind() != goEnd; {
		switch word := g.kind(); word {
		case goImport:
			g.specs(func(int32) { g.importSpec() })
		case goFunc:
			g.function()
		case goConst, goVar:
			g.specs(func(start int32) { g.valueSpec(word, start) })
		case goType:
			g.specs(g.typeSpec)
		default:
			g.p++
		}
	}
	f.Uses = g.uses(g.names)
	if g.deep {
		f.Decls, f.Uses = nil, nil
	}
}

func (g *goReader) kind() byte { return g.toks[g.p].kind }

// end returns where the last token ends that was read.
func (g *goReader) end() int32 { return g.endOf(g.toks[g.p-1]) }

func (g *goReader) isGenerated() bool {
	for _, c := range g.comments {
		if c.Start > g.toks[0].at {
			break
		}
		for line := range bytes.SplitSeq(g.src[c.Start:c.End], []byte("\n")) {
			line = bytes.TrimRight(line, "\r")
			if hasPrefix(line, "// Code generated ") && bytes.HasSuffix(line, []byte(" DO NOT EDIT.")) {
				return true
			}
		}
	}
	return false
}

// specs reads a declaration that may have several specifications in parentheses, each with read. Start is where
// a specification begins, with its documentation, or the declaration, if it is the only one.
func (g *goReader) specs(read func(start int32)) {
	start := g.docStart(g.p)
	g.p++
	if g.kind() != '(' {
		read(start)
		return
	}
	g.list(func() { read(g.docStart(g.p)) })
}

// list reads what is in the brackets that begin here, item by item.
func (g *goReader) list(read func()) {
	closing := int(g.toks[g.p].to)
	header := g.header
	g.header = false
	for g.p++; g.p < closing; {
		if k := g.kind(); k == ';' || k == ',' {
			g.p++
			continue
		}
		from := g.p
		read()
		if g.p == from { // not what is expected here
			g.p++
		}
	}
	g.p, g.header = closing+1, header
}

// importSpec adds an import. Without another name, a package is known by the last part of its path, as
// far as can be said without reading it.
func (g *goReader) importSpec() {
	as, named := g.toks[g.p], false
	if as.kind == goIdent || as.kind == '.' {
		named = true
		g.p++
	}
	if g.kind() != goString {
		return
	}
	t := g.toks[g.p]
	g.p++
	p, err := strconv.Unquote(string(g.src[t.at:t.to]))
	if err != nil || p == "" {
		return
	}
	name := Name{Name: "*"}
	switch {
	case !named:
		name.As = g.names[g.id([]byte(goPackageName(p)))]
	case as.kind == goIdent:
		name.As = g.names[as.to]
	}
	imp := Import{Path: p, At: Span{t.at, t.to}}
	if name.As != "_" {
		imp.Names = []Name{name}
		g.word(&g.nameTable, g.id([]byte(name.As))).imported = true
	}
	g.f.Imports = append(g.f.Imports, imp)
}

// goPackageName guesses the name of a package of Go by its import path: the last part, without a version.
func goPackageName(importPath string) string {
	dir, last := path.Split(importPath)
	if len(last) > 1 && last[0] == 'v' && strings.Trim(last[1:], "0123456789") == "" && dir != "" {
		last = path.Base(dir)
	}
	last, _, _ = strings.Cut(last, ".v")
	return last
}

// docStart returns where a token begins with its documentation: the last comments before it, if they end in the
// line before, and do not begin in the line of another token.
func (g *goReader) docStart(i int) int32 {
	at, last := g.toks[i].at, g.endOf(g.toks[i-1])
	k, _ := slices.BinarySearchFunc(g.comments, last, func(c Span, at int32) int { return int(c.Start - at) })
	for ; k < len(g.comments) && g.comments[k].End <= at && g.lines(last, g.comments[k].Start) == 0; k++ {
		last = g.comments[k].End
	}
	start := at
	for ; k < len(g.comments) && g.comments[k].End <= at; k++ {
		if start == at || g.lines(last, g.comments[k].Start) > 1 {
			start = g.comments[k].Start
		}
		last = g.comments[k].End
	}
	if g.lines(last, at) != 1 {
		return at
	}
	return start
}

func (g *goReader) lines(from, to int32) int { return bytes.Count(g.src[from:to], []byte("\n")) }

// declareAt adds a declaration, unless its name is blank, and returns its index. The declaration ends with the
// token that was read last.
func (g *goReader) declareAt(name goToken, start int32, d Decl) int32 {
	if name.to == g.blank {
		return -1
	}
	d.Name = g.names[name.to]
	first, _ := utf8.DecodeRuneInString(d.Name)
	d.Exported, d.NameAt, d.At = unicode.IsUpper(first), name.at, Span{start, g.end()}
	if d.Body.End == 0 {
		d.Body = Span{d.At.End, d.At.End}
	}
	g.f.Decls = append(g.f.Decls, d)
	return int32(len(g.f.Decls) - 1)
}

// extend makes a declaration end with the token that was read last.
func (g *goReader) extend(decl int32) {
	if decl >= 0 {
		d := &g.f.Decls[decl]
		d.At.End = g.end()
		d.Body = Span{d.At.End, d.At.End}
	}
}
