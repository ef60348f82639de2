package refactor

import (
	"go/ast"
	"go/token"
)

// maxWritten is how much all constants and types of a package may be, if each name in them stands for what it is: bytes of strings, and
// names.
const maxWritten = 16 << 20

// costly reports whether go/types could take memory or time without bound for a package, as a few lines of somebody hostile can make
// it do: with a constant that is twice as long as the one before, and so on, with such types, or with instances of generic types in
// each other. Of what is imported, nothing is known, so without type parameters in the package there are no instances.
func costly(trees []*ast.File) bool {
	w := written{declared: map[string][]value{}, constant: map[string]bool{}, sizes: map[string]int64{}}
	generic, sum := false, int64(0)
	for _, t := range trees {
		ast.Inspect(t, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncType:
				generic = generic || n.TypeParams != nil
			case *ast.TypeSpec:
				generic = generic || n.TypeParams != nil
				w.declare(n.Name, value{n.Type, n.Assign.IsValid()})
			case *ast.GenDecl:
				w.constants(n)
			}
			return !generic
		})
	}
	if generic {
		return true
	}
	for name := range w.declared {
		sum = min(sum+w.named(name), maxWritten+1)
	}
	for _, t := range trees { // constants can also be put together elsewhere
		ast.Inspect(t, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok && w.constant[id.Name] {
				sum += w.named(id.Name)
			}
			return sum <= maxWritten
		})
	}
	return sum > maxWritten
}

// written knows how much the constants and types of a package are, by their names.
type written struct {
	declared map[string][]value
	constant map[string]bool // the names of constants
	sizes    map[string]int64
}

// value is what a name is declared to be. An alias is compared as a whole, and another type as far as its values have others in them,
// without those behind pointers.
type value struct {
	of    ast.Expr
	whole bool
}

func (w *written) declare(name *ast.Ident, v value) {
	w.declared[name.Name] = append(w.declared[name.Name], v)
}

// constants takes the constants of a declaration. One without a value has that of the one before.
func (w *written) constants(d *ast.GenDecl) {
	if d.Tok != token.CONST {
		return
	}
	var values []ast.Expr
	for _, s := range d.Specs {
		s := s.(*ast.ValueSpec)
		if len(s.Values) > 0 {
			values = s.Values
		}
		for i, id := range s.Names[:min(len(s.Names), len(values))] {
			w.constant[id.Name] = true
			w.declare(id, value{values[i], true})
		}
	}
}

// named returns how much a name stands for.
func (w *written) named(name string) int64 {
	size, known := w.sizes[name]
	if !known {
		w.sizes[name] = 0 // what needs itself is an error
		for _, v := range w.declared[name] {
			size = max(size, w.size(v.of, v.whole))
		}
		w.sizes[name] = size
	}
	return size
}

// size returns how much an expression or type is.
func (w *written) size(x ast.Expr, whole bool) (sum int64) {
	ast.Inspect(x, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.StarExpr, *ast.MapType, *ast.ChanType, *ast.FuncType, *ast.InterfaceType:
			if !whole {
				return false
			}
		case *ast.ArrayType:
			if !whole && n.Len == nil {
				return false
			}
		case *ast.Field: // each of its names has the type
			sum += int64(max(1, len(n.Names))) * (1 + w.size(n.Type, whole))
			return false
		case *ast.BasicLit:
			sum += int64(len(n.Value))
		case *ast.Ident:
			sum += 1 + w.named(n.Name)
		}
		return sum <= maxWritten
	})
	return min(sum, maxWritten+1)
}
