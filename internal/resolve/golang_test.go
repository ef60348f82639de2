package resolve_test

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/internal/resolve"
	"github.com/aycoder/aycoder/internal/timed"
)

// Each layout follows from the reference of modules and from what the go command does.
func TestGoLayouts(t *testing.T) {
	for name, c := range map[string]struct {
		files string
		want  map[string]string
	}{
		"one module": {`
-- go.mod --
module example.com/m // the module

go 1.26
-- main.go --
package main
import (
	"fmt"
	. "example.com/m/a"
	_ "example.com/m/a/internal/x"
	"example.com/m/empty"
	"example.com/m/testdata/t"
	"example.com/other"
)
import "C"
-- a/a.go --
package a
import "example.com/m"
-- a/internal/x/x.go --
package x
-- empty/only_test.go --
package empty
-- testdata/t/t.go --
package t
-- _skip/s.go --
package s
import "example.com/m/a"
-- root.go --
package main
`, map[string]string{"main.go": "a/ a/internal/x/ testdata/t/", "a/a.go": "./", "_skip/s.go": "a/"}},
		"nested modules and replace": {`
-- go.mod --
module example.com/m
replace (
	example.com/lib v1.2.3 => ./third/lib
	"example.com/far" => example.com/near v1.0.0
)
-- m.go --
package m
import (
	"example.com/lib/sub"
	"example.com/m/nested"
	"example.com/m/plain"
)
-- plain/p.go --
package plain
-- nested/go.mod --
module example.com/m/nested
replace example.com/m => ../
-- nested/n.go --
package nested
import "example.com/m/plain"
-- third/lib/go.mod --
module example.com/lib
-- third/lib/sub/s.go --
package sub
import "example.com/m"
`, map[string]string{"m.go": "third/lib/sub/ nested/ plain/", "nested/n.go": "plain/", "third/lib/sub/s.go": "./"}},
		"workspace": {`
-- go.work --
go 1.26
use (
	./one
	./two
)
use ./three
-- one/go.mod --
module one
-- one/a.go --
package one
import "two/b"
import "three"
-- two/go.mod --
module two
-- two/b/b.go --
package b
-- three/go.mod --
module three
-- three/c.go --
package c
import "one"
`, map[string]string{"one/a.go": "two/b/ three/", "three/c.go": "one/"}},
		"vendored": {`
-- go.mod --
module m
-- m.go --
package m
import "example.com/dep"
-- vendor/example.com/dep/d.go --
package dep
import "example.com/more"
-- vendor/example.com/more/m.go --
package more
`, map[string]string{"m.go": "vendor/example.com/dep/", "vendor/example.com/dep/d.go": "vendor/example.com/more/"}},
		"test modules are not those of others": {`
-- go.mod --
module m
-- m.go --
package m
import "fake/x"
-- testdata/go.mod --
module fake
-- testdata/x/x.go --
package x
import "fake/y"
-- testdata/y/y.go --
package y
`, map[string]string{"m.go": "", "testdata/x/x.go": "testdata/y/"}},
		"no module": {`
-- a.go --
package a
import "b"
-- b/b.go --
package b
`, map[string]string{"a.go": ""}},
		"the library": {`
-- go.mod --
module std
-- fmt/f.go --
package fmt
import "os"
import "golang.org/x/net"
-- os/o.go --
package os
-- vendor/golang.org/x/net/n.go --
package net
`, map[string]string{"fmt/f.go": "os/ vendor/golang.org/x/net/"}},
	} {
		t.Run(name, func(t *testing.T) { requireImports(t, layout(c.files), c.want) })
	}
}

// References follow the scopes of the specification, and types as far as the source names them.
func TestGoRefs(t *testing.T) {
	requireRefs(t, layout(`
-- go.mod --
module m
-- a/types.go --
package a
type T struct {
	Base
	Next *T
	List []Item
	hidden int
}
type Base struct{ ID int }
type Item struct{ Name string }
type Items []Item
type Doer interface{ Do() Item }
var Default = New()
-- a/func.go --
package a
func New() *T { return nil }
func Pair() (*T, error) { return nil, nil }
func (t *T) Method() Item { return t.List[0] }
func (b Base) Promoted() {}
-- a/a_test.go --
package a
func helper() {}
-- a/x_test.go --
package a_test
import "m/a"
var _ = a.New
-- a/use.go --
package a
func use(New int) { helper(); _ = New; Pair() }
-- b/b.go --
package b
import "m/a"
import alias "m/odd"
import . "m/dot"
func f(p a.T, d a.Doer, all a.Items) {
	x := a.New()
	x.Promoted()
	_ = x.Next.List[0].Name
	for _, i := range all { _ = i.Name }
	_ = d.Do().Name
	if a := 1; a > 0 { _ = a }
	_ = []a.Item{{Name: "x"}}
	alias.Odd()
	Dot()
	a.Default.Method()
	switch y := any(x).(type) {
	case *a.T: y.Method()
	case a.Base, a.Doer: y.Method()
	}
}
-- b/odd.go --
package b
import "m/odd"
var _ = strange.Odd
-- odd/odd.go --
package strange
func Odd() {}
-- dot/dot.go --
package dot
func Dot() {}
`), map[string][]string{
		"a/use.go":    {"a/func.go Pair 1"},
		"a/types.go":  {"a/func.go New 1"},
		"a/x_test.go": {"a/func.go New 1"},
		"b/odd.go":    {"odd/odd.go Odd 1"},
		"b/b.go": {
			"a/func.go Method 2", "a/func.go New 1", "a/func.go Promoted 1", "a/types.go Base 1", "a/types.go Default 1",
			"a/types.go Do 1", "a/types.go Doer 2", "a/types.go Item 1", "a/types.go Items 1", "a/types.go List 1",
			"a/types.go Name 4", "a/types.go Next 1", "a/types.go T 2", "dot/dot.go Dot 1", "odd/odd.go Odd 1",
		},
	})
}

func TestGoSameAfterEdits(t *testing.T) {
	timed.Serial(t)
	requireSameAfterEdits(t, `
-- go.mod --
module m
replace n => ./n
-- go.work --
use ./n
use .
-- m.go --
package m
import "n/sub"
import "m/a"
var V = a.New()
func f() { sub.F().G() }
-- a/a.go --
package a
import "n"
type T struct { n.N }
func (t T) M() { t.Field.X() }
-- a/new.go --
package a
func New() T { return T{} }
-- a/a_test.go --
package a
import "m"
func g() { m.V.M() }
-- n/go.mod --
module n
-- n/n.go --
package n
type N struct { Field *N }
func (n N) X() {}
-- n/sub/go.mod --
module n/sub
-- n/sub/s.go --
package sub
import other "n"
func F() other.N { return other.N{} }
-- vendor/n/v.go --
package n
func X() {}
`, 60)
}

// ownPackage is what go list says of one package.
type ownPackage struct {
	Dir, ImportPath                    string
	GoFiles, TestGoFiles, XTestGoFiles []string
	Imports, TestImports, XTestImports []string
}

func ownPackages(t *testing.T, root string, patterns ...string) (out []ownPackage) {
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"list", "-e", "-json=Dir,ImportPath,GoFiles,TestGoFiles,XTestGoFiles,Imports,TestImports,XTestImports"}, patterns...)...)
	cmd.Dir = root
	data, err := cmd.Output()
	if err != nil {
		t.Skip("go list is not available: ", err)
	}
	for d := json.NewDecoder(strings.NewReader(string(data))); ; {
		var p ownPackage
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return out
		} else {
			require.NoError(t, err)
		}
		p.Dir, err = filepath.Rel(root, p.Dir)
		require.NoError(t, err)
		p.Dir = filepath.ToSlash(p.Dir)
		out = append(out, p)
	}
}

// The imports between the packages of this module are those that the go command sees, and the references of some
// of them are those that the type checker finds.
func TestGoLikeGo(t *testing.T) {
	timed.Serial(t)
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	x := resolve.New(readTree(t, root))
	t.Run("imports", func(t *testing.T) { testOwnImports(t, root, x) })
	t.Run("references", func(t *testing.T) { testOwnRefs(t, root, x) })
}

func testOwnImports(t *testing.T, root string, x *resolve.Index) {
	packages := ownPackages(t, root, "./...")
	dirs := map[string]string{}
	for _, p := range packages {
		dirs[p.ImportPath] = p.Dir + "/"
	}
	edges := 0
	for _, p := range packages {
		want, got := map[string]bool{}, map[string]bool{}
		for _, i := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
			if dir := dirs[i]; dir != "" {
				want[dir] = true
			}
		}
		for _, name := range slices.Concat(p.GoFiles, p.TestGoFiles, p.XTestGoFiles) {
			for _, e := range x.Imports(path.Join(p.Dir, name)) {
				got[e.To] = true
				edges++
			}
		}
		require.Equal(t, want, got, p.Dir)
	}
	require.Positive(t, edges)
}

func testOwnRefs(t *testing.T, root string, x *resolve.Index) {
	want, got := map[pair]int{}, map[pair]int{}
	all, hit := 0, 0
	set := token.NewFileSet()
	library := importer.ForCompiler(set, "source", nil)
	for _, p := range ownPackages(t, root, "./internal/textdiff", "./internal/ignore", "./internal/glob") {
		for file, uses := range checkedUses(t, set, library, root, p) {
			for to, n := range uses {
				want[pair{file, to}] += n
			}
			for r := range x.Refs(file).All() {
				got[pair{file, r.To}] += int(r.Count)
			}
		}
	}
	p, r := score(t, "own packages", want, got)
	for k, n := range want {
		all += n
		if got[k] > 0 {
			hit += n
		}
	}
	require.GreaterOrEqual(t, p, 0.98)
	require.GreaterOrEqual(t, r, 0.97)
	require.GreaterOrEqual(t, float64(hit), 0.98*float64(all))
}

// checkedUses returns, for each file of a package, how often it uses what other files in the module declare.
func checkedUses(t *testing.T, set *token.FileSet, from types.Importer, root string, p ownPackage) map[string]map[string]int {
	var files []*ast.File
	out := map[string]map[string]int{}
	relative := func(pos token.Pos) string {
		rel, err := filepath.Rel(root, set.Position(pos).Filename)
		require.NoError(t, err)
		return filepath.ToSlash(rel)
	}
	for _, name := range p.GoFiles {
		f, err := parser.ParseFile(set, filepath.Join(root, p.Dir, name), nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		files = append(files, f)
		out[relative(f.Package)] = map[string]int{}
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	config := types.Config{Importer: from, Error: func(error) {}}
	config.Check(p.ImportPath, set, files, info)
	for id, obj := range info.Uses {
		if _, isPackage := obj.(*types.PkgName); isPackage || !obj.Pos().IsValid() {
			continue
		}
		if file, to := relative(id.Pos()), relative(obj.Pos()); file != to && !strings.HasPrefix(to, "../") {
			out[file][to]++
		}
	}
	return out
}
