// Package refactor finds Go code that can be made simpler, by its syntax and by what go/types knows without other packages. It
// needs no build, runs nothing, and reads only what it is given.
//
//	for _, f := range refactor.Package(files) {
//		fmt.Println(f.Path, f.Line, f.Text)
//	}
//
// A finding has an edit only where the program stays the same, whatever the rest of it is. In packages that declare type parameters,
// conditions whose type would have to be known are left out. docs/benchmarks.md says how often each
// kind was right.
package refactor

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/internal/runes"
)

// Kind is what could be simpler.
type Kind string

// The kinds.
const (
	ElseAfterReturn Kind = "else after return"      // the else of an if whose body ends with return, break or continue
	Condition       Kind = "simplifiable condition" // x == true, and an if that returns true or false
	Negation        Kind = "negation"               // !!x and !(a == b)
	Nesting         Kind = "nesting"                // a long if at the end of a function or a loop
	Dead            Kind = "dead code"              // an unexported function, variable or constant that nothing uses
	CommentedOut    Kind = "commented-out code"     // code in a comment
	LongParameters  Kind = "long parameter list"    // more than seven parameters
)

// Kinds returns all kinds.
func Kinds() []Kind {
	return []Kind{ElseAfterReturn, Condition, Negation, Nesting, Dead, CommentedOut, LongParameters}
}

// confidence has, for each kind, which part of the findings was judged to be right: see docs/benchmarks.md.
func confidence(k Kind) float64 {
	switch k {
	case Dead:
		return 0.9
	case ElseAfterReturn, Nesting, CommentedOut:
		return 0.95
	}
	return 1
}

// Finding is a place that could be simpler.
type Finding struct {
	Kind Kind   `json:"kind"`
	Path string `json:"path"`
	// Line and End are the first and the last line, from 1.
	Line int `json:"line"`
	End  int `json:"end"`
	// Name is the function or declaration that it is about, or in which it is. It is "" for a comment outside of functions.
	Name string `json:"name,omitempty"`
	// Text is the reason, in one line.
	Text string `json:"text"`
	// Confidence is what part of the findings of its kind was right: see docs/benchmarks.md.
	Confidence float64 `json:"confidence"`
	// Edit makes the change, or is nil if that is for a person to do. It is for this finding alone: find again after it. Of a file,
	// at most 20 findings have one.
	Edit *edit.File `json:"-"`
}

const (
	maxParameters = 7
	minNested     = 10 // lines of an if that is turned
	minComment    = 2  // lines of code in a comment

	maxEdits = 20  // of a file: after one, the others are to be found again
	maxText  = 200 // bytes
)

// file is a parsed file.
type file struct {
	name  string
	src   []byte
	code  string // the same
	ast   *ast.File
	plain bool // it is formatted, so that an edit changes nothing else
	jumps bool // it has a goto
	cgo   bool // it imports "C"
	edits int
	bases map[string]int // the names before a dot, when they are needed
}

type finder struct {
	set   *token.FileSet
	files []*file
	info  types.Info
	out   []Finding
	name  string // of the function that is looked at
}

// Package returns what could be simpler in the Go files of a directory, by their names. They should be all of them, also tests and
// files for other systems: what they use is not dead. Files that cannot be parsed or that are generated have no findings, and the
// findings of the others are then without dead code. It is safe for concurrent use.
func Package(files map[string][]byte) []Finding {
	x := &finder{set: token.NewFileSet(), info: types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}}}
	whole := true
	packages := map[string][]*ast.File{}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if path.Ext(name) != ".go" {
			whole = false // assembly or C may use what Go does not
			continue
		}
		src := files[name]
		tree, err := parser.ParseFile(x.set, name, src, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			whole = false
			continue
		}
		formatted, err := format.Source(src)
		f := &file{name: name, src: src, code: string(src), ast: tree, plain: err == nil && bytes.Equal(formatted, src)}
		f.cgo = slices.ContainsFunc(tree.Imports, func(s *ast.ImportSpec) bool { return s.Path.Value == `"C"` })
		whole = whole && !f.cgo
		ast.Inspect(tree, func(n ast.Node) bool {
			b, ok := n.(*ast.BranchStmt)
			f.jumps = f.jumps || ok && b.Tok == token.GOTO
			return true
		})
		x.files = append(x.files, f)
		packages[tree.Name.Name] = append(packages[tree.Name.Name], tree)
	}
	conf := types.Config{Importer: nowhere{}, Error: func(error) {}, FakeImportC: true}
	for name, trees := range packages {
		if costly(trees) {
			continue
		}
		_, _ = conf.Check(name, x.set, trees, &x.info) // the errors are those of imports that are not there
	}
	for _, f := range x.files {
		if !ast.IsGenerated(f.ast) {
			x.look(f)
		}
	}
	if whole {
		x.dead()
	}
	slices.SortStableFunc(x.out, func(a, b Finding) int { return cmp.Or(cmp.Compare(a.Path, b.Path), a.Line-b.Line) })
	return x.out
}

// nowhere has no packages: what comes from them has no type.
type nowhere struct{}

func (nowhere) Import(name string) (*types.Package, error) {
	return nil, fmt.Errorf("%s is not looked at", name)
}

// A change replaces a part of a text.
type change struct {
	from, to token.Pos
	text     string
}

// add adds a finding, with an edit if there are changes.
func (x *finder) add(f *file, k Kind, from, to token.Pos, changes []change, text string, args ...any) {
	v := Finding{Kind: k, Path: f.name, Line: x.line(from), End: x.line(to), Name: x.name, Confidence: confidence(k)}
	v.Text = runes.Shorten(runes.Line(fmt.Sprintf(text, args...)), maxText)
	if len(changes) > 0 && f.plain && f.edits < maxEdits {
		f.edits++
		if proposed, ok := x.edited(f, changes); ok {
			v.Edit = &edit.File{Path: f.name, Kind: edit.Change, Base: f.code, Proposed: proposed}
		}
	}
	x.out = append(x.out, v)
}

// brace removes the brace that ends a block, with the line that it would leave.
func (x *finder) brace(f *file, b *ast.BlockStmt) change {
	before := len(bytes.TrimRight(f.src[:x.offset(b.Rbrace)], " \t\n"))
	return change{b.Rbrace - token.Pos(x.offset(b.Rbrace)-before), b.Rbrace + 1, ""}
}

// edited makes changes, which are in the order of the text.
func (x *finder) edited(f *file, changes []change) (string, bool) {
	var b bytes.Buffer
	last := 0
	for _, c := range changes {
		from, to := x.offset(c.from), x.offset(c.to)
		b.Write(f.src[last:from])
		b.WriteString(c.text)
		last = to
	}
	b.Write(f.src[last:])
	out, err := format.Source(b.Bytes())
	return string(out), err == nil
}

func (x *finder) offset(p token.Pos) int { return x.set.PositionFor(p, false).Offset }

func (x *finder) line(p token.Pos) int { return x.set.PositionFor(p, false).Line }

func (x *finder) text(f *file, n ast.Node) string {
	return f.code[x.offset(n.Pos()):x.offset(n.End())]
}

// commented reports whether a part of a file has a comment.
func commented(f *file, from, to token.Pos) bool {
	g := behind(f, from)
	return g != nil && g.Pos() < to
}

// behind returns the first comment that ends behind a place, or nil.
func behind(f *file, at token.Pos) *ast.CommentGroup {
	i, _ := slices.BinarySearchFunc(f.ast.Comments, at+1, func(g *ast.CommentGroup, at token.Pos) int { return int(g.End() - at) })
	if i == len(f.ast.Comments) {
		return nil
	}
	return f.ast.Comments[i]
}

// look finds what can be seen in a file alone.
func (x *finder) look(f *file) {
	for _, d := range f.ast.Decls {
		x.name = ""
		if fn, ok := d.(*ast.FuncDecl); ok {
			x.name = fn.Name.Name
			if n := fn.Type.Params.NumFields(); n > maxParameters && !strings.HasSuffix(f.name, "_test.go") {
				x.add(f, LongParameters, fn.Pos(), fn.Type.End(), nil, "%s has %d parameters: some of them may belong together in a struct", x.name, n)
			}
		}
		x.walk(f, d, nil, nil)
	}
	x.name = ""
	x.comments(f)
}

// walk looks at a node and all below it. fn is the type of the function around it, and up the node around it.
func (x *finder) walk(f *file, n ast.Node, fn *ast.FuncType, up ast.Node) {
	switch n := n.(type) {
	case *ast.FuncDecl:
		fn = n.Type
	case *ast.FuncLit:
		fn = n.Type
	case *ast.BlockStmt:
		x.list(f, n.List, fn, n, up)
	case *ast.CaseClause:
		x.list(f, n.Body, fn, n, up)
	case *ast.CommClause:
		x.list(f, n.Body, fn, n, up)
	case *ast.BinaryExpr:
		x.comparison(f, n, up)
	case *ast.UnaryExpr:
		x.negation(f, n, up)
	}
	ast.Inspect(n, func(kid ast.Node) bool {
		if kid == nil || kid == n {
			return kid == n
		}
		x.walk(f, kid, fn, n)
		return false
	})
}

// ends reports whether statements end with one after which none follows.
func ends(list []ast.Stmt) bool {
	if len(list) == 0 {
		return false
	}
	switch s := list[len(list)-1].(type) {
	case *ast.ReturnStmt:
		return true
	case *ast.BranchStmt:
		return s.Tok == token.BREAK || s.Tok == token.CONTINUE
	}
	return false
}

// list looks at the statements of a block or clause.
func (x *finder) list(f *file, list []ast.Stmt, fn *ast.FuncType, in, up ast.Node) {
	for i, s := range list {
		s, ok := s.(*ast.IfStmt)
		if !ok || s.Init != nil {
			continue
		}
		last := i == len(list)-1
		if x.returnsBool(f, list[i:], list[:i], fn) {
			continue
		}
		if other, ok := s.Else.(*ast.BlockStmt); ok && ends(s.Body.List) && len(other.List) > 0 {
			var changes []change
			if x.flat(f, list, other.List, fn, in, up, last) && !commented(f, s.Body.Rbrace, other.Lbrace) {
				changes = []change{{s.Body.Rbrace + 1, other.Lbrace + 1, "\n"}, x.brace(f, other)}
			}
			x.add(f, ElseAfterReturn, s.Pos(), s.End(), changes, "the if before ends the block, so its else can stand without it")
			continue
		}
		if last && s.Else == nil {
			x.nesting(f, list, s, fn, in, up)
		}
	}
}

// flat reports whether the statements of a block can stand in the block around it, whose statements are list.
func (x *finder) flat(f *file, list, inner []ast.Stmt, fn *ast.FuncType, in, up ast.Node, last bool) bool {
	names := declared(inner)
	if len(names) == 0 {
		return true
	}
	if !last || f.jumps {
		return false
	}
	around := declared(list)
	switch in := in.(type) {
	case *ast.CommClause:
		if in.Comm != nil {
			maps.Copy(around, declared([]ast.Stmt{in.Comm}))
		}
	case *ast.CaseClause: // the name of a type switch is in each clause
		return false
	}
	signature := func(n ast.Node) bool { // with type parameters, also those of a receiver
		if id, ok := n.(*ast.Ident); ok {
			around[id.Name] = true
		}
		return true
	}
	if fn != nil {
		ast.Inspect(fn, signature)
	}
	if d, ok := up.(*ast.FuncDecl); ok && d.Recv != nil {
		ast.Inspect(d.Recv, signature)
	}
	for name := range names {
		if around[name] {
			return false
		}
	}
	return true
}

// declared returns the names that statements declare in their block.
func declared(list []ast.Stmt) map[string]bool {
	names := map[string]bool{}
	for _, s := range list {
		for {
			l, ok := s.(*ast.LabeledStmt)
			if !ok {
				break
			}
			s = l.Stmt
		}
		switch s := s.(type) {
		case *ast.AssignStmt:
			for _, e := range s.Lhs {
				if id, ok := e.(*ast.Ident); ok && s.Tok == token.DEFINE {
					names[id.Name] = true
				}
			}
		case *ast.DeclStmt:
			if d, ok := s.Decl.(*ast.GenDecl); ok {
				for _, spec := range d.Specs {
					switch spec := spec.(type) {
					case *ast.ValueSpec:
						for _, id := range spec.Names {
							names[id.Name] = true
						}
					case *ast.TypeSpec:
						names[spec.Name.Name] = true
					}
				}
			}
		}
	}
	delete(names, "_")
	return names
}

// literal returns the value of true or false.
func (x *finder) literal(e ast.Expr) (value, ok bool) {
	id, is := e.(*ast.Ident)
	if !is || x.info.Uses[id] == nil || x.info.Uses[id].Parent() != types.Universe {
		return false, false
	}
	return id.Name == "true", id.Name == "true" || id.Name == "false"
}

// bool reports whether an expression is known to be of the type bool itself, or the result of a comparison.
func (x *finder) bool(e ast.Expr) bool {
	t := x.info.Types[e].Type
	return t == types.Typ[types.Bool] || t == types.Typ[types.UntypedBool]
}

// returned returns the value if a block returns true or false, and does nothing else.
func (x *finder) returned(list []ast.Stmt) (value, ok bool) {
	if len(list) != 1 {
		return false, false
	}
	r, ok := list[0].(*ast.ReturnStmt)
	if !ok || len(r.Results) != 1 {
		return false, false
	}
	return x.literal(r.Results[0])
}

// returnsBool looks for an if that returns true, and else false, or the other way round. A row of conditions that return the same
// reads better as it is.
func (x *finder) returnsBool(f *file, list, before []ast.Stmt, fn *ast.FuncType) bool {
	s := list[0].(*ast.IfStmt)
	yes, ok := x.returned(s.Body.List)
	if !ok || fn == nil || fn.Results.NumFields() != 1 {
		return false
	}
	if id, ok := fn.Results.List[0].Type.(*ast.Ident); !ok || id.Name != "bool" {
		return false
	}
	rest, end := list[1:], s.End()
	if other, ok := s.Else.(*ast.BlockStmt); ok {
		rest = other.List
	} else if s.Else != nil {
		return false
	} else if len(rest) == 1 {
		end = rest[0].End()
	}
	no, ok := x.returned(rest)
	if !ok || yes == no || !x.bool(s.Cond) || commented(f, s.Pos(), end) {
		return false
	}
	if len(before) > 0 && s.Else == nil {
		if p, ok := before[len(before)-1].(*ast.IfStmt); ok {
			if _, alike := x.returned(p.Body.List); alike {
				return false
			}
		}
	}
	text, ok := x.text(f, s.Cond), true
	if !yes {
		if text, ok = x.negated(f, s.Cond); !ok {
			return false
		}
	}
	x.add(f, Condition, s.Pos(), end, []change{{s.Pos(), end, "return " + text}}, "it can return the condition")
	return true
}

// negated returns the opposite of a condition, if that is as simple.
func (x *finder) negated(f *file, e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BinaryExpr:
		if op := map[token.Token]string{token.EQL: " != ", token.NEQ: " == "}[e.Op]; op != "" && simple(e.X) && simple(e.Y) {
			return x.text(f, e.X) + op + x.text(f, e.Y), true
		}
	case *ast.UnaryExpr:
		if e.Op == token.NOT {
			if p, ok := e.X.(*ast.ParenExpr); ok && simple(p.X) {
				return x.text(f, p.X), true
			}
			return x.text(f, e.X), true
		}
	case *ast.Ident, *ast.CallExpr, *ast.SelectorExpr, *ast.IndexExpr:
		return "!" + x.text(f, e), true
	}
	return "", false
}

// simple reports whether an operand binds more strongly than any operator of two, and is not a composite literal, which
// an if cannot have without parentheses.
func simple(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.Ident, *ast.CallExpr, *ast.SelectorExpr, *ast.IndexExpr, *ast.BasicLit, *ast.StarExpr:
		return true
	case *ast.UnaryExpr:
		return simple(e.X)
	}
	return false
}

// comparison looks for x == true. An edit needs a condition, or a place for a bool: a comparison can also stand where any other type
// with bool below is needed, and x cannot.
func (x *finder) comparison(f *file, n *ast.BinaryExpr, up ast.Node) {
	if n.Op != token.EQL && n.Op != token.NEQ || strings.HasSuffix(f.name, "_test.go") { // which say what they expect
		return
	}
	other := n.X
	value, ok := x.literal(n.Y)
	if !ok {
		other = n.Y
		value, ok = x.literal(n.X)
	}
	if _, both := x.literal(other); !ok || both || x.info.Types[other].Type != types.Typ[types.Bool] || !simple(other) || commented(f, n.Pos(), n.End()) {
		return
	}
	text := x.text(f, other)
	if value != (n.Op == token.EQL) {
		if text, ok = x.negated(f, other); !ok {
			return
		}
	}
	var changes []change
	switch up.(type) {
	case *ast.IfStmt, *ast.ForStmt:
		changes = []change{{n.Pos(), n.End(), text}}
	default:
		if t := x.info.Types[n]; t.Type == types.Typ[types.Bool] && t.Value == nil {
			changes = []change{{n.Pos(), n.End(), text}}
		}
	}
	x.add(f, Condition, n.Pos(), n.End(), changes, "%s compares a bool with %v", runes.Cut(x.text(f, n), maxText), value)
}

// negation looks for !!x and !(a == b).
func (x *finder) negation(f *file, n *ast.UnaryExpr, up ast.Node) {
	if outer, ok := up.(*ast.UnaryExpr); n.Op != token.NOT || ok && outer.Op == token.NOT || commented(f, n.Pos(), n.End()) {
		return // of many negations, the outer two are one finding
	}
	inner := n.X
	if p, ok := inner.(*ast.ParenExpr); ok {
		inner = p.X
	}
	text, ok := "", false
	switch e := inner.(type) {
	case *ast.UnaryExpr:
		if ok = e.Op == token.NOT && simple(e.X); ok {
			text = x.text(f, e.X)
		}
	case *ast.BinaryExpr:
		if b, binary := up.(*ast.BinaryExpr); !binary || b.Op == token.LAND || b.Op == token.LOR {
			text, ok = x.negated(f, e)
		}
	}
	if ok {
		x.add(f, Negation, n.Pos(), n.End(), []change{{n.Pos(), n.End(), text}}, "%s is %s", runes.Cut(x.text(f, n), maxText), text)
	}
}

// nesting looks at an if that is nearly all of a function without results, or of a loop. Where other work comes before it, an end in
// the middle would be overlooked when more is added.
func (x *finder) nesting(f *file, list []ast.Stmt, s *ast.IfStmt, fn *ast.FuncType, in, up ast.Node) {
	leave := ""
	switch up.(type) {
	case *ast.FuncDecl, *ast.FuncLit:
		if fn.Results.NumFields() == 0 {
			leave = "return"
		}
	case *ast.ForStmt, *ast.RangeStmt:
		if !ends(s.Body.List) { // else it is the search for one, and the loop would end with a jump
			leave = "continue"
		}
	}
	lines := x.line(s.End()) - x.line(s.Pos())
	whole := x.line(list[len(list)-1].End()) - x.line(list[0].Pos())
	if leave == "" || lines < minNested || len(s.Body.List) < 3 || len(list) > 3 || 4*lines < 3*whole || recovers(list) {
		return
	}
	cond, ok := x.negated(f, s.Cond)
	if !ok || commented(f, s.Cond.Pos(), s.Body.Lbrace) || !x.bool(s.Cond) {
		return
	}
	var changes []change
	if x.flat(f, list, s.Body.List, fn, in, up, true) {
		changes = []change{{s.Cond.Pos(), s.Body.Lbrace + 1, cond + " {\n" + leave + "\n}\n"}, x.brace(f, s.Body)}
	}
	x.add(f, Nesting, s.Pos(), s.End(), changes, "%d lines are in an if to the end: if %s { %s } takes a level away", lines-1, cond, leave)
}

// recovers reports whether statements ask for a panic, which an if follows by custom.
func recovers(list []ast.Stmt) bool {
	found := false
	for _, s := range list {
		if a, ok := s.(*ast.AssignStmt); ok {
			for _, e := range a.Rhs {
				call, ok := e.(*ast.CallExpr)
				id, named := (*ast.Ident)(nil), false
				if ok {
					id, named = call.Fun.(*ast.Ident)
				}
				found = found || named && id.Name == "recover"
			}
		}
	}
	return found
}
