package source

import (
	"go/ast"
	"go/token"
)

func (g *goScan) stmts(list []ast.Stmt) {
	for _, s := range list {
		g.stmt(s)
	}
}

// block reads statements in a scope.
func (g *goScan) block(list []ast.Stmt) { g.inScope(func() { g.stmts(list) }) }

func (g *goScan) stmt(s ast.Stmt) {
	switch s := s.(type) {
	case *ast.BlockStmt:
		g.block(s.List)
	case *ast.ExprStmt:
		g.expr(s.X)
	case *ast.SendStmt:
		g.exprs(s.Chan, s.Value)
	case *ast.IncDecStmt:
		g.expr(s.X)
	case *ast.AssignStmt:
		g.assign(s)
	case *ast.GoStmt:
		g.expr(s.Call)
	case *ast.DeferStmt:
		g.expr(s.Call)
	case *ast.ReturnStmt:
		g.exprs(s.Results...)
	case *ast.LabeledStmt:
		g.stmt(s.Stmt)
	case *ast.DeclStmt:
		g.local(s)
	default:
		g.inScope(func() { g.compound(s) })
	}
}

// compound reads a statement that has a scope.
func (g *goScan) compound(s ast.Stmt) {
	switch s := s.(type) {
	case *ast.IfStmt:
		g.stmt(s.Init)
		g.expr(s.Cond)
		g.block(s.Body.List)
		g.stmt(s.Else)
	case *ast.ForStmt:
		g.stmt(s.Init)
		g.expr(s.Cond)
		g.stmt(s.Post)
		g.block(s.Body.List)
	case *ast.RangeStmt:
		g.rangeOver(s)
	case *ast.SwitchStmt:
		g.stmt(s.Init)
		g.expr(s.Tag)
		g.block(s.Body.List)
	case *ast.TypeSwitchStmt:
		g.typeSwitch(s)
	case *ast.CaseClause:
		g.exprs(s.List...)
		g.stmts(s.Body)
	case *ast.SelectStmt:
		g.block(s.Body.List)
	case *ast.CommClause:
		g.stmt(s.Comm)
		g.stmts(s.Body)
	}
}

func (g *goScan) assign(s *ast.AssignStmt) {
	types := make([]string, len(s.Lhs))
	for i, e := range s.Rhs {
		if of := g.expr(e); i < len(types) {
			types[i] = of
		}
	}
	for i, e := range s.Lhs {
		if id, ok := e.(*ast.Ident); ok && s.Tok == token.DEFINE {
			g.declare(id, types[i])
		} else {
			g.expr(e)
		}
	}
}

// local reads a declaration in a function.
func (g *goScan) local(s *ast.DeclStmt) {
	d, ok := s.Decl.(*ast.GenDecl)
	if !ok {
		return
	}
	for _, spec := range d.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			g.declare(spec.Name, "")
			g.inScope(func() {
				g.fields(spec.TypeParams)
				g.expr(spec.Type)
			})
		case *ast.ValueSpec:
			g.localValues(spec)
		}
	}
}

func (g *goScan) localValues(s *ast.ValueSpec) {
	of := ""
	if s.Type != nil {
		of = g.exprType(s.Type)
	}
	types := make([]string, len(s.Names))
	for i, v := range s.Values {
		if t := g.expr(v); i < len(types) {
			types[i] = t
		}
	}
	for i, name := range s.Names {
		if s.Type != nil {
			types[i] = of
		}
		g.declare(name, types[i])
	}
}

func (g *goScan) rangeOver(s *ast.RangeStmt) {
	types := []string{"", g.element(g.expr(s.X))}
	for i, e := range []ast.Expr{s.Key, s.Value} {
		if id, ok := e.(*ast.Ident); ok && s.Tok == token.DEFINE {
			g.declare(id, types[i])
		} else {
			g.expr(e)
		}
	}
	g.block(s.Body.List)
}

// typeSwitch reads a type switch: in a clause with one type, the name has this type.
func (g *goScan) typeSwitch(s *ast.TypeSwitchStmt) {
	g.stmt(s.Init)
	var name *ast.Ident
	if a, ok := s.Assign.(*ast.AssignStmt); ok && len(a.Lhs) == 1 && len(a.Rhs) == 1 {
		name, _ = a.Lhs[0].(*ast.Ident)
		g.expr(a.Rhs[0])
	} else {
		g.stmt(s.Assign)
	}
	for _, c := range s.Body.List {
		clause, ok := c.(*ast.CaseClause)
		if !ok {
			continue
		}
		g.inScope(func() {
			g.exprs(clause.List...)
			of := ""
			if len(clause.List) == 1 {
				of = g.typeName(clause.List[0])
			}
			if name != nil {
				g.declare(name, of)
			}
			g.stmts(clause.Body)
		})
	}
}
