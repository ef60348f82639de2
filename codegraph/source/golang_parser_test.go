package source

import (
	"bytes"
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
)

// ParserFacts returns the facts of a file of Go by the syntax tree of go/parser, or nil if it has errors.
func ParserFacts(src []byte) *Facts {
	f := &Facts{Language: Go}
	if !scanWithParser(f, src, All) {
		return nil
	}
	f.Imports, f.Decls, f.Uses = fit(f.Imports), fit(f.Decls), fit(f.Uses)
	return f
}

func scanWithParser(f *Facts, src []byte, part Part) bool {
	mode := parser.ParseComments | parser.SkipObjectResolution | parser.AllErrors
	if part == ImportsOnly {
		mode |= parser.ImportsOnly
	}
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, "", src, mode)
	if err != nil {
		return false
	}
	g := &goScan{f: f, base: int(file.FileStart), size: len(src), names: map[string]string{}, vars: map[string]parsedVar{}, count: map[Use]int32{}, imports: map[string]bool{}}
	f.Package, f.Generated = g.name(file.Name.Name), ast.IsGenerated(file)
	f.Script = bytes.HasPrefix(src, []byte("#!"))
	for _, i := range file.Imports {
		g.importSpec(i)
	}
	if part == All {
		g.decls(file)
		f.Uses = g.uses()
	}
	return true
}

// A goScan reads the syntax tree of a file.
type goScan struct {
	f     *Facts
	base  int                  // the position of the first byte
	size  int                  // of the source
	names map[string]string    // each name once
	vars  map[string]parsedVar // what functions around the current node declare
	undo  []parsedVar          // what the names in vars meant before, in the order of their declarations
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

func (g *goScan) uses() []Use {
	out := make([]Use, 0, len(g.count))
	for u, n := range g.count {
		u.Count = n
		out = append(out, u)
	}
	slices.SortFunc(out, func(a, b Use) int { return cmp.Or(cmp.Compare(a.Of, b.Of), cmp.Compare(a.Name, b.Name)) })
	return out
}

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

// The expressions and statements of a function are walked with the scopes that the specification of Go
// gives to names, and with what can be said of types without reading another file. A name that is not
// declared in a function is one of the package or of an import.
//
// The depth of the recursion is bounded, since the parser does not read more deeply nested sources.

// A parsedVar is a name in a function, and the type of its value in the notation of [Use], or "".
type parsedVar struct {
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
	g.vars[id.Name] = parsedVar{id.Name, of, true}
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
