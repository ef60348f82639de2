package source

import (
	"bytes"
	"cmp"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"iter"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

func scanGo(f *Facts, src []byte, part Part) {
	mode := parser.ParseComments | parser.SkipObjectResolution | parser.AllErrors
	if part == ImportsOnly {
		mode |= parser.ImportsOnly
	}
	set := token.NewFileSet()
	file, _ := parser.ParseFile(set, "", src, mode)
	if file.Name.Name == "" && part == All { // it is nested too deeply for the parser
		file, _ = parser.ParseFile(set, "", src, mode|parser.ImportsOnly)
	}
	g := &goScan{f: f, base: int(file.FileStart), size: len(src), names: map[string]string{}, vars: map[string]goVar{}, count: map[Use]int32{}, imports: map[string]bool{}}
	f.Package, f.Generated = g.name(file.Name.Name), ast.IsGenerated(file)
	f.Script = bytes.HasPrefix(src, []byte("#!"))
	for _, i := range file.Imports {
		g.importSpec(i)
	}
	if part == All {
		g.decls(file)
		f.Uses = g.uses()
	}
	f.Imports, f.Decls = slices.Clone(f.Imports), slices.Clone(f.Decls) // without room to grow
}

// A goScan reads the syntax tree of a file.
type goScan struct {
	f     *Facts
	base  int               // the position of the first byte
	size  int               // of the source
	names map[string]string // each name once
	vars  map[string]goVar  // what functions around the current node declare
	undo  []goVar           // what the names in vars meant before, in the order of their declarations
	count map[Use]int32

	imports map[string]bool // the names of imports
}

// name returns a name as a string that all its uses share.
func (g *goScan) name(s string) string {
	if have, ok := g.names[s]; ok {
		return have
	}
	g.names[s] = s
	return s
}

// span returns a range of the file. The parser says that what is missing at the end of a file is after it.
func (g *goScan) span(from, to token.Pos) Span {
	start := min(int(from)-g.base, g.size)
	return Span{int32(start), int32(max(start, min(int(to)-g.base, g.size)))}
}

// importSpec adds an import. Without another name, a package is known by the last part of its path, as
// far as can be said without reading it.
func (g *goScan) importSpec(i *ast.ImportSpec) {
	p, err := strconv.Unquote(i.Path.Value)
	if err != nil || p == "" {
		return
	}
	imp := Import{Path: p, At: g.span(i.Path.Pos(), i.Path.End()), Names: []Name{{"*", g.name(goPackageName(p))}}}
	switch {
	case i.Name == nil:
	case i.Name.Name == "_":
		imp.Names = nil
	case i.Name.Name == ".":
		imp.Names = []Name{{Name: "*"}}
	default:
		imp.Names = []Name{{"*", g.name(i.Name.Name)}}
	}
	for _, n := range imp.Names {
		g.imports[n.As] = true
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

func (g *goScan) uses() []Use {
	out := make([]Use, 0, len(g.count))
	for u, n := range g.count {
		u.Count = n
		out = append(out, u)
	}
	slices.SortFunc(out, func(a, b Use) int { return cmp.Or(cmp.Compare(a.Of, b.Of), cmp.Compare(a.Name, b.Name)) })
	return out
}

func goTokens(src []byte) iter.Seq[Token] {
	return func(yield func(Token) bool) {
		file := token.NewFileSet().AddFile("", -1, len(src))
		var s scanner.Scanner
		s.Init(file, src, nil, scanner.ScanComments)
		for {
			pos, tok, text := s.Scan()
			if tok == token.EOF {
				return
			}
			if tok == token.SEMICOLON && text != ";" { // the end of a line
				continue
			}
			at := int(pos) - file.Base()
			if !yield(Token{goKind(tok), Span{int32(at), int32(goTokenEnd(src, at, tok, text))}}) {
				return
			}
		}
	}
}

func goKind(tok token.Token) TokenKind {
	switch {
	case tok == token.COMMENT:
		return Comment
	case tok == token.STRING || tok == token.CHAR:
		return String
	case tok == token.IDENT:
		return Identifier
	case tok.IsLiteral():
		return Number
	case tok.IsKeyword():
		return Keyword
	}
	return Operator
}

// goTokenEnd returns the end of a token. The text of comments and raw strings lacks carriage returns.
func goTokenEnd(src []byte, at int, tok token.Token, text string) int {
	rest := src[at:]
	end := -1
	switch {
	case bytes.HasPrefix(rest, []byte("//")):
		if end = bytes.IndexByte(rest, '\n'); end < 0 {
			end = len(rest)
		}
		return at + len(bytes.TrimRight(rest[:end], "\r"))
	case bytes.HasPrefix(rest, []byte("/*")):
		end = bytes.Index(rest[2:], []byte("*/")) + 4
		if end < 4 {
			end = len(rest)
		}
	case rest[0] == '`':
		end = bytes.IndexByte(rest[1:], '`') + 2
		if end < 2 {
			end = len(rest)
		}
	case tok == token.ILLEGAL:
		_, end = utf8.DecodeRune(rest)
	case text != "":
		end = len(text)
	default:
		end = len(tok.String())
	}
	return at + end
}
