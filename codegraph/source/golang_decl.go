package source

import (
	"go/ast"
	"go/token"
)

// decls reads the declarations of a file, and the names that they use.
func (g *goScan) decls(file *ast.File) {
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			g.function(d)
		case *ast.GenDecl:
			for _, s := range d.Specs {
				g.spec(d, s)
			}
		}
	}
}

// add adds a declaration, unless its name is blank, and returns its index.
func (g *goScan) add(name *ast.Ident, d Decl) int32 {
	if name.Name == "_" {
		return -1
	}
	d.Name, d.Exported, d.NameAt = g.name(name.Name), name.IsExported(), int32(int(name.Pos())-g.base)
	if d.Body.End == 0 {
		d.Body = Span{d.At.End, d.At.End}
	}
	g.f.Decls = append(g.f.Decls, d)
	return int32(len(g.f.Decls) - 1)
}

func (g *goScan) function(d *ast.FuncDecl) {
	decl := Decl{Kind: Func, Parent: -1, At: g.span(start(d, d.Doc), d.End()), Type: g.result(d.Type)}
	if d.Body != nil {
		decl.Body = g.span(d.Body.Pos(), d.Body.End())
	}
	if d.Recv != nil {
		decl.Kind = Method
		if len(d.Recv.List) > 0 {
			decl.Of = g.typeName(d.Recv.List[0].Type)
		}
	}
	g.add(d.Name, decl)
	g.inScope(func() {
		g.receiver(d.Recv)
		g.signature(d.Type)
		if d.Body != nil {
			g.stmts(d.Body.List)
		}
	})
}

// receiver declares a receiver and the type parameters that it names.
func (g *goScan) receiver(list *ast.FieldList) {
	if list == nil {
		return
	}
	for _, f := range list.List {
		t := ast.Unparen(f.Type)
		if s, ok := t.(*ast.StarExpr); ok {
			t = ast.Unparen(s.X)
		}
		switch x := t.(type) {
		case *ast.IndexExpr:
			g.typeParameter(x.Index)
		case *ast.IndexListExpr:
			for _, i := range x.Indices {
				g.typeParameter(i)
			}
		}
	}
	g.fields(list)
}

func (g *goScan) typeParameter(e ast.Expr) {
	if id, ok := e.(*ast.Ident); ok {
		g.declare(id, "")
	}
}

// start returns where a node begins with its documentation.
func start(n ast.Node, doc *ast.CommentGroup) token.Pos {
	if doc != nil {
		return doc.Pos()
	}
	return n.Pos()
}

// spec reads one specification of a declaration. Without parentheses, it is the whole declaration.
func (g *goScan) spec(d *ast.GenDecl, s ast.Spec) {
	var doc *ast.CommentGroup
	switch s := s.(type) {
	case *ast.TypeSpec:
		doc = s.Doc
	case *ast.ValueSpec:
		doc = s.Doc
	}
	at := g.span(start(s, doc), s.End())
	if !d.Lparen.IsValid() {
		at = g.span(start(d, d.Doc), d.End())
	}
	switch s := s.(type) {
	case *ast.TypeSpec:
		g.typeSpec(s, at)
	case *ast.ValueSpec:
		g.valueSpec(s, at, d.Tok)
	}
}

func (g *goScan) valueSpec(s *ast.ValueSpec, at Span, tok token.Token) {
	kind := Var
	if tok == token.CONST {
		kind = Const
	}
	t := g.typeName(s.Type)
	g.expr(s.Type)
	for i, name := range s.Names {
		of := t
		if i < len(s.Values) {
			if value := g.expr(s.Values[i]); of == "" {
				of = value
			}
		}
		g.add(name, Decl{Kind: kind, Parent: -1, At: at, Type: of})
	}
	for _, v := range s.Values[min(len(s.Values), len(s.Names)):] {
		g.expr(v)
	}
}

func (g *goScan) typeSpec(s *ast.TypeSpec, at Span) {
	kind := Type
	var members *ast.FieldList
	switch t := s.Type.(type) {
	case *ast.InterfaceType:
		kind, members = Interface, t.Methods
	case *ast.StructType:
		members = t.Fields
	}
	parent := g.add(s.Name, Decl{Kind: kind, Parent: -1, At: at, Type: g.typeName(s.Type)})
	g.inScope(func() {
		g.fields(s.TypeParams)
		g.expr(s.Type)
		if members != nil && parent >= 0 {
			g.members(members, parent)
		}
	})
}

// members adds the fields of a struct or the methods of an interface.
func (g *goScan) members(list *ast.FieldList, parent int32) {
	for _, f := range list.List {
		d := Decl{Kind: Field, Parent: parent, At: g.span(start(f, f.Doc), f.End()), Type: g.typeName(f.Type)}
		if t, ok := f.Type.(*ast.FuncType); ok && g.f.Decls[parent].Kind == Interface {
			d.Kind, d.Type = Method, g.result(t)
		}
		for _, name := range f.Names {
			g.add(name, d)
		}
		if len(f.Names) == 0 {
			g.embedded(f.Type, d)
		}
	}
}

// embedded adds an embedded field, whose name is that of its type.
func (g *goScan) embedded(e ast.Expr, d Decl) {
	for {
		switch x := e.(type) {
		case *ast.Ident:
			g.add(x, d)
			return
		case *ast.StarExpr:
			e = x.X
		case *ast.ParenExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.IndexListExpr:
			e = x.X
		case *ast.SelectorExpr:
			e = x.Sel
		default:
			return
		}
	}
}
