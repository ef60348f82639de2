package code

import (
	"go/ast"
	"go/parser"
	"go/token"

	"github.com/aycoder/aycoder/codegraph/source"
)

// Func is a function and its cyclomatic complexity.
type Func struct {
	Name       string `json:"name"` // with its receiver, such as (*T).Name
	Line       int    `json:"line"`
	Complexity int    `json:"complexity"`
}

// Complexity returns the functions of a Go file with their cyclomatic complexity (McCabe 1976): 1, and 1 for each if, for,
// case, && and ||, as gocyclo v0.6.0 counts them. Function literals count for the function that has them. ok is false if the file
// cannot be parsed.
func Complexity(src []byte) (funcs []Func, ok bool) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, "", src, parser.SkipObjectResolution)
	if err != nil {
		return nil, false
	}
	add := func(name string, at token.Pos, body ast.Node) {
		funcs = append(funcs, Func{name, set.PositionFor(at, false).Line, complexity(body)})
	}
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			add(funcName(d), d.Pos(), d)
		case *ast.GenDecl:
			for _, s := range d.Specs {
				if v, ok := s.(*ast.ValueSpec); ok {
					for _, x := range v.Values {
						if f, ok := x.(*ast.FuncLit); ok {
							add(v.Names[0].Name, f.Pos(), f)
						}
					}
				}
			}
		}
	}
	return funcs, true
}

func funcName(d *ast.FuncDecl) string {
	if d.Recv == nil || len(d.Recv.List) == 0 {
		return d.Name.Name
	}
	return "(" + receiver(d.Recv.List[0].Type) + ")." + d.Name.Name
}

func receiver(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.Ident:
		return x.Name
	case *ast.StarExpr:
		return "*" + receiver(x.X)
	case *ast.IndexExpr:
		return receiver(x.X)
	case *ast.IndexListExpr:
		return receiver(x.X)
	case *ast.ParenExpr:
		return receiver(x.X)
	}
	return "?"
}

func complexity(n ast.Node) int {
	sum := 1
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.IfStmt, *ast.ForStmt, *ast.RangeStmt:
			sum++
		case *ast.CaseClause:
			if n.List != nil {
				sum++
			}
		case *ast.CommClause:
			if n.Comm != nil {
				sum++
			}
		case *ast.BinaryExpr:
			if n.Op == token.LAND || n.Op == token.LOR {
				sum++
			}
		}
		return true
	})
	return sum
}

// fileComplexity returns the sum for a file: of Go by its functions, of other known languages about, by their words.
func fileComplexity(name string, src []byte) int {
	lang := source.LanguageOf(name, src[:min(len(src), 512)])
	sum := 0
	if lang == source.Go {
		funcs, _ := Complexity(src)
		for _, f := range funcs {
			sum += f.Complexity
		}
		return sum
	}
	switch lang {
	case source.Python, source.TypeScript, source.Rust, source.Java, source.C:
	default:
		return 0
	}
	before := ""
	for t := range source.Tokens(lang, src) {
		word := string(src[t.Start:min(t.End, t.Start+10)])
		if t.Kind == source.Comment || t.Kind == source.String {
			continue
		}
		switch word {
		case "if", "elif", "for", "while", "case", "catch", "except", "match", "&&", "||", "and", "or":
			sum++
		case "&", "|":
			if before == word {
				sum++
				word = ""
			}
		}
		before = word
	}
	return sum
}
