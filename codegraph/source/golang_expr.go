package source

import (
	"go/ast"
	"go/token"
	"strings"
)

// The expressions and statements of a function are walked with the scopes that the specification of Go
// gives to names, and with what can be said of types without reading another file. A name that is not
// declared in a function is one of the package or of an import.
//
// The depth of the recursion is bounded, since the parser does not read more deeply nested sources.

// A goVar is a name in a function, and the type of its value in the notation of [Use], or "".
type goVar struct {
	name  string
	of    string
	known bool // the name is declared in a function
}

func (g *goScan) declare(id *ast.Ident, of string) {
	if id.Name == "_" {
		return
	}
	before := g.vars[id.Name]
	before.name = id.Name
	g.undo = append(g.undo, before)
	g.vars[id.Name] = goVar{id.Name, of, true}
}

// inScope does something and forgets the names that it declares.
func (g *goScan) inScope(do func()) {
	n := len(g.undo)
	do()
	for i := len(g.undo) - 1; i >= n; i-- {
		g.vars[g.undo[i].name] = g.undo[i]
	}
	g.undo = g.undo[:n]
}

func (g *goScan) use(of, name string) {
	if name != "_" {
		g.count[Use{Of: g.name(of), Name: g.name(name)}]++
	}
}

// signature declares the parameters and results of a function.
func (g *goScan) signature(t *ast.FuncType) {
	g.fields(t.TypeParams)
	g.fields(t.Params)
	g.fields(t.Results)
}

func (g *goScan) fields(list *ast.FieldList) {
	if list == nil {
		return
	}
	for _, f := range list.List {
		g.expr(f.Type)
		of := g.typeName(f.Type)
		for _, name := range f.Names {
			g.declare(name, of)
		}
	}
}

// result returns the type of the first result of a function.
func (g *goScan) result(t *ast.FuncType) string {
	if t.Results == nil || len(t.Results.List) == 0 {
		return ""
	}
	return g.typeName(t.Results.List[0].Type)
}

// typeName returns a type in the notation of [Use].
func (g *goScan) typeName(e ast.Expr) string {
	prefix := ""
	for {
		switch t := e.(type) {
		case *ast.Ident:
			if g.vars[t.Name].known || goTypes[t.Name] {
				return ""
			}
			return g.path(prefix, t.Name)
		case *ast.SelectorExpr:
			if x, ok := t.X.(*ast.Ident); ok {
				return g.path(prefix, x.Name+"."+t.Sel.Name)
			}
			return ""
		case *ast.StarExpr:
			e = t.X
		case *ast.ParenExpr:
			e = t.X
		case *ast.IndexExpr:
			e = t.X
		case *ast.IndexListExpr:
			e = t.X
		case *ast.ArrayType:
			e, prefix = t.Elt, prefix+"[]"
		case *ast.MapType:
			e, prefix = t.Value, prefix+"[]"
		case *ast.ChanType:
			e, prefix = t.Value, prefix+"[]"
		case *ast.Ellipsis:
			e, prefix = t.Elt, prefix+"[]"
		case *ast.FuncType:
			if t.Results == nil || len(t.Results.List) == 0 {
				return ""
			}
			e, prefix = t.Results.List[0].Type, prefix+"()"
		default:
			return ""
		}
	}
}

// path joins two parts of a type, or returns "" if it becomes too long to be worth knowing.
func (g *goScan) path(a, b string) string {
	if len(a)+len(b) > 80 {
		return ""
	}
	return g.name(a + b)
}

// element and called return the type of an element and of the result of a value.
func (g *goScan) element(of string) string { return g.apply(of, "[]") }
func (g *goScan) called(of string) string  { return g.apply(of, "()") }

func (g *goScan) apply(of, op string) string {
	if rest, ok := strings.CutPrefix(of, op); ok || of == "" {
		return rest
	}
	if strings.HasPrefix(of, "[]") || strings.HasPrefix(of, "()") {
		return ""
	}
	return g.path(of, op)
}

// expr counts the names in an expression, and returns its type.
func (g *goScan) expr(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return g.ident(e)
	case *ast.SelectorExpr:
		return g.selector(e)
	case *ast.CallExpr:
		return g.call(e)
	case *ast.CompositeLit:
		return g.literal(e, g.exprType(e.Type))
	case *ast.FuncLit:
		g.inScope(func() {
			g.signature(e.Type)
			g.stmts(e.Body.List)
		})
		return g.typeName(e.Type)
	case *ast.ParenExpr:
		return g.expr(e.X)
	case *ast.StarExpr:
		return g.expr(e.X)
	case *ast.UnaryExpr:
		of := g.expr(e.X)
		if e.Op == token.ARROW {
			return g.element(of)
		}
		return of
	case *ast.BinaryExpr:
		g.expr(e.X)
		g.expr(e.Y)
	case *ast.IndexExpr:
		g.expr(e.Index)
		return g.element(g.expr(e.X))
	case *ast.IndexListExpr:
		for _, i := range e.Indices {
			g.expr(i)
		}
		return g.element(g.expr(e.X))
	case *ast.SliceExpr:
		g.exprs(e.Low, e.High, e.Max)
		return g.expr(e.X)
	case *ast.TypeAssertExpr:
		g.expr(e.X)
		return g.exprType(e.Type)
	case *ast.KeyValueExpr:
		g.exprs(e.Key, e.Value)
	default:
		g.typeExpr(e)
	}
	return ""
}

func (g *goScan) exprs(list ...ast.Expr) {
	for _, e := range list {
		g.expr(e)
	}
}

// exprType counts the names in a type, and returns it.
func (g *goScan) exprType(e ast.Expr) string {
	g.expr(e)
	return g.typeName(e)
}

func (g *goScan) typeExpr(e ast.Expr) {
	switch e := e.(type) {
	case *ast.ArrayType:
		g.exprs(e.Len, e.Elt)
	case *ast.MapType:
		g.exprs(e.Key, e.Value)
	case *ast.ChanType:
		g.expr(e.Value)
	case *ast.Ellipsis:
		g.expr(e.Elt)
	case *ast.FuncType:
		g.inScope(func() { g.signature(e) })
	case *ast.StructType:
		g.memberTypes(e.Fields)
	case *ast.InterfaceType:
		g.memberTypes(e.Methods)
	}
}

func (g *goScan) memberTypes(list *ast.FieldList) {
	for _, f := range list.List {
		g.expr(f.Type)
	}
}

func (g *goScan) ident(id *ast.Ident) string {
	if v := g.vars[id.Name]; v.known {
		return v.of
	}
	if goTypes[id.Name] || goValues[id.Name] {
		return ""
	}
	g.use("", id.Name)
	return g.name(id.Name)
}

// selector counts a member of a value, or a name of a package.
func (g *goScan) selector(e *ast.SelectorExpr) string {
	of := ""
	if x, ok := e.X.(*ast.Ident); ok && !g.vars[x.Name].known {
		if of = g.name(x.Name); !g.imports[of] {
			g.use("", of)
		}
	} else {
		of = g.expr(e.X)
	}
	if of == "" || strings.HasPrefix(of, "[]") || strings.HasPrefix(of, "()") {
		return ""
	}
	g.use(of, e.Sel.Name)
	return g.path(of, "."+e.Sel.Name)
}

func (g *goScan) call(e *ast.CallExpr) string {
	builtin := ""
	if id, ok := e.Fun.(*ast.Ident); ok && !g.vars[id.Name].known && goValues[id.Name] {
		builtin = id.Name
	}
	of := ""
	if builtin == "" {
		of = g.called(g.expr(e.Fun))
	}
	for i, a := range e.Args {
		t := g.expr(a)
		switch {
		case i > 0:
		case builtin == "append":
			of = t
		case builtin == "new" || builtin == "make":
			of = g.typeName(a)
		}
	}
	return of
}

// literal reads a composite literal of a type, or without one, of the type of the elements around it.
func (g *goScan) literal(e *ast.CompositeLit, of string) string {
	for _, elt := range e.Elts {
		value := elt
		if kv, ok := elt.(*ast.KeyValueExpr); ok {
			value = kv.Value
			g.key(kv.Key, e.Type, of)
		}
		if u, ok := value.(*ast.UnaryExpr); ok && u.Op == token.AND {
			value = u.X
		}
		if lit, ok := value.(*ast.CompositeLit); ok && lit.Type == nil {
			g.literal(lit, g.element(of))
		} else {
			g.expr(value)
		}
	}
	return of
}

// key reads a key: a field, if it is a name, unless the type is one with other keys.
func (g *goScan) key(key, t ast.Expr, of string) {
	id, ok := key.(*ast.Ident)
	if _, isMap := t.(*ast.MapType); !ok || isMap || strings.HasPrefix(of, "[]") {
		g.expr(key)
		return
	}
	if _, isArray := t.(*ast.ArrayType); isArray {
		g.expr(key)
	} else if of != "" {
		g.use(of, id.Name)
	}
}

// goTypes and goValues are the predeclared names of Go, without those that were added when packages already
// declared them: max, min, clear and any.
var goTypes = map[string]bool{
	"bool": true, "byte": true, "comparable": true, "complex64": true, "complex128": true, "error": true, "float32": true,
	"float64": true, "int": true, "int8": true, "int16": true, "int32": true, "int64": true, "rune": true, "string": true,
	"uint": true, "uint8": true, "uint16": true, "uint32": true, "uint64": true, "uintptr": true,
}

var goValues = map[string]bool{
	"append": true, "cap": true, "close": true, "complex": true, "copy": true, "delete": true, "false": true, "imag": true,
	"iota": true, "len": true, "make": true, "new": true, "nil": true, "panic": true, "print": true, "println": true,
	"real": true, "recover": true, "true": true,
}
