package refactor

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
)

// dead looks for declarations of the package whose names stand nowhere else in its files.
func (x *finder) dead() {
	uses := map[string]int{}
	linked := map[string]bool{} // by a directive
	for _, f := range x.files {
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok {
				uses[id.Name]++
			}
			return true
		})
		for _, g := range f.ast.Comments {
			for _, c := range g.List {
				if strings.HasPrefix(c.Text, "//go:") || strings.HasPrefix(c.Text, "//export ") {
					for w := range strings.FieldsSeq(c.Text) {
						linked[w] = true
					}
				}
			}
		}
	}
	for _, f := range x.files {
		if ast.IsGenerated(f.ast) {
			continue
		}
		for _, d := range f.ast.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil && d.Body != nil && d.Name.Name != "main" && d.Name.Name != "init" {
					x.unused(f, d, d, d.Doc, d.Name, uses, linked)
				}
			case *ast.GenDecl:
				if d.Tok != token.VAR && d.Tok != token.CONST || len(d.Specs) != 1 {
					continue
				}
				if v := d.Specs[0].(*ast.ValueSpec); len(v.Names) == 1 && len(v.Values) <= 1 && (len(v.Values) == 0 || constant(v.Values[0])) {
					x.unused(f, d, v, d.Doc, v.Names[0], uses, linked)
				}
			}
		}
	}
}

// constant reports whether a value is made without calling anything.
func constant(e ast.Expr) bool {
	ok := true
	ast.Inspect(e, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr, *ast.StarExpr, *ast.IndexExpr, *ast.SliceExpr, *ast.TypeAssertExpr:
			ok = false
		case *ast.UnaryExpr:
			ok = ok && n.Op != token.ARROW
		case *ast.BinaryExpr:
			ok = ok && n.Op != token.QUO && n.Op != token.REM
		}
		return ok
	})
	return ok
}

// unused adds a declaration if its name stands only in itself.
func (x *finder) unused(f *file, d ast.Decl, within ast.Node, doc *ast.CommentGroup, name *ast.Ident, uses map[string]int, linked map[string]bool) {
	if name.IsExported() || name.Name == "_" || linked[name.Name] || strings.HasSuffix(f.name, "_test.go") && strings.HasPrefix(name.Name, "_") {
		return
	}
	inside := 0
	ast.Inspect(within, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && id.Name == name.Name {
			inside++
		}
		return true
	})
	if uses[name.Name] > inside {
		return
	}
	from, to := d.Pos(), d.End()
	if doc != nil {
		from = doc.Pos()
	}
	x.name = name.Name
	var changes []change
	if !x.lastUse(f, d) && !trailing(f, to) && !generates(doc) {
		changes = []change{{from, to, ""}}
	}
	x.add(f, Dead, d.Pos(), d.End(), changes, "nothing in the package uses %s", name.Name)
}

// generates reports whether a comment has a directive of go generate, which is not about the declaration.
func generates(doc *ast.CommentGroup) bool {
	return doc != nil && slices.ContainsFunc(doc.List, func(c *ast.Comment) bool { return strings.HasPrefix(c.Text, "//go:generate ") })
}

// trailing reports whether a comment stands behind a declaration in its line.
func trailing(f *file, end token.Pos) bool {
	g := behind(f, end)
	return g != nil && !bytes.Contains(f.src[end-f.ast.FileStart:max(g.Pos(), end)-f.ast.FileStart], []byte("\n"))
}

// lastUse reports whether a declaration may be the only one in its file that uses an import.
func (x *finder) lastUse(f *file, d ast.Decl) bool {
	imports := map[string]bool{}
	for _, spec := range f.ast.Imports {
		if spec.Name != nil {
			if imports[spec.Name.Name] = true; spec.Name.Name == "." {
				return true
			}
			continue
		}
		// The name of a package is mostly a part of its path.
		for _, word := range strings.FieldsFunc(strings.Trim(spec.Path.Value, `"`+"`"), func(r rune) bool { return r == '/' || r == '-' || r == '.' }) {
			imports[word] = true
		}
	}
	own := map[string]bool{}
	ast.Inspect(d, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Field:
			for _, id := range n.Names {
				own[id.Name] = true
			}
		case ast.Stmt:
			for name := range declared([]ast.Stmt{n}) {
				own[name] = true
			}
		}
		return true
	})
	if f.bases == nil {
		f.bases = bases(f.ast)
	}
	for name, n := range bases(d) {
		if f.bases[name] == n && (imports[name] || !own[name]) {
			return true
		}
	}
	return false
}

// bases counts the names that stand before a dot.
func bases(n ast.Node) map[string]int {
	found := map[string]int{}
	ast.Inspect(n, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if id, ok := s.X.(*ast.Ident); ok {
				found[id.Name]++
			}
		}
		return true
	})
	return found
}

// comments looks for code in comments that are not documentation.
func (x *finder) comments(f *file) {
	if f.cgo {
		return
	}
	docs := map[*ast.CommentGroup]bool{}
	ast.Inspect(f.ast, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			docs[n.Doc] = true
		case *ast.GenDecl:
			docs[n.Doc] = true
		case *ast.TypeSpec:
			docs[n.Doc] = true
		case *ast.ValueSpec:
			docs[n.Doc] = true
		case *ast.Field:
			docs[n.Doc] = true
		case *ast.File:
			docs[n.Doc] = true
		}
		return true
	})
	for rest := f.ast.Comments; len(rest) > 0; {
		n := 1 // paragraphs of a comment, of which each may look like code only without the others
		for n < len(rest) && !docs[rest[n-1]] && !docs[rest[n]] && len(bytes.TrimSpace(f.src[x.offset(rest[n-1].End()):x.offset(rest[n].Pos())])) == 0 {
			n++
		}
		var all []*ast.Comment
		for _, g := range rest[:n] {
			all = append(all, g.List...)
		}
		from, to, doc := rest[0].Pos(), rest[n-1].End(), docs[rest[0]]
		rest = rest[n:]
		if doc || from < f.ast.Package || len(all) < minComment {
			continue
		}
		var b strings.Builder
		ok := true
		for _, c := range all {
			line, is := strings.CutPrefix(c.Text, "//")
			ok = ok && is && !strings.HasPrefix(line, "go:") && !strings.HasPrefix(line, "line ") && !strings.HasPrefix(line, "export ")
			b.WriteString(line + "\n")
		}
		before := f.src[:x.offset(from)]
		before = before[bytes.LastIndexByte(before, '\n')+1:]
		if !ok || len(bytes.TrimSpace(before)) > 0 || !isCode(b.String()) {
			continue
		}
		end := to
		if x.offset(end) < len(f.src) {
			end++ // the line feed
		}
		x.add(f, CommentedOut, from, to, []change{{from - token.Pos(len(before)), end, ""}}, "%d lines of code are commented out", len(all))
	}
}

// isCode reports whether a text is Go code and nothing else: statements or declarations, of which at least one does something.
func isCode(text string) bool {
	set := token.NewFileSet()
	tree, err := parser.ParseFile(set, "", "package p\nfunc _() {\n"+text+"\n}", parser.SkipObjectResolution)
	if err != nil {
		tree, err = parser.ParseFile(set, "", "package p\n"+text, parser.SkipObjectResolution)
	}
	if err != nil || len(tree.Decls) == 0 {
		return false
	}
	does := false
	for _, d := range tree.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Body == nil {
			does = does || !ok && d.(*ast.GenDecl).Tok != token.IMPORT
			continue
		}
		does = does || fn.Name.Name != "_"
		for _, s := range fn.Body.List {
			switch s := s.(type) {
			case *ast.ExprStmt:
				if _, call := s.X.(*ast.CallExpr); !call {
					return false // words
				}
				does = true
			case *ast.LabeledStmt, *ast.BadStmt:
				return false // "note: x" is a label
			case *ast.EmptyStmt:
			default:
				does = true
			}
		}
	}
	return does
}
