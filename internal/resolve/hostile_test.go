package resolve_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/internal/resolve"
	"github.com/aycoder/aycoder/internal/timed"
)

// A directory with a dot is not a module. As the module .hidden.a, it would be looked for as a relative one again.
func TestPythonHiddenDirectory(t *testing.T) {
	requireImports(t, layout(`
-- pyproject.toml --
[project]
name = "x"
[tool.setuptools.packages.find]
where = ["src"]
-- src/pkg/__init__.py --
-- src/.hidden/a.py --
from .none import x
from . import b
-- src/.hidden/b.py --
`), map[string]string{"src/.hidden/a.py": "src/.hidden/b.py"})
}

// Many names that nothing declares, in many modules or with many includes, cost no more than their number. It took
// minutes when each was looked for in each.
func TestManyNames(t *testing.T) {
	timed.Serial(t)
	var mods, calls, includes strings.Builder
	files := newTree()
	for i := range 4000 {
		fmt.Fprintf(&mods, "mod m%d {}\n", i)
		fmt.Fprintf(&calls, "f%d();\n", i)
		fmt.Fprintf(&includes, "#include \"h%d.h\"\n", i)
		files.put(fmt.Sprintf("h%d.h", i), fmt.Appendf(nil, "int g%d(void);\n", i))
	}
	files.put("Cargo.toml", []byte("[package]\nname = \"x\"\n"))
	files.put("src/lib.rs", []byte(mods.String()+"fn f() {\n"+calls.String()+"}\n"))
	files.put("a.c", []byte(includes.String()+"void f(void) {\n"+calls.String()+"g7();\n}\n"))
	var stars strings.Builder
	for i := range 2000 {
		files.put(fmt.Sprintf("m%d.py", i), []byte("x = 1\n"))
		fmt.Fprintf(&stars, "from m%d import *\n", i)
	}
	files.put("a.py", []byte(stars.String()+strings.ReplaceAll(calls.String(), ";", "")+"x\n"))
	x := resolve.New(files)
	require.Equal(t, []resolve.Ref{{To: "m1999.py", Name: "x", Count: 1}}, slices.Collect(x.Refs("a.py").All()))
	require.Empty(t, slices.Collect(x.Refs("src/lib.rs").All()))
	require.Contains(t, slices.Collect(x.Refs("a.c").All()), resolve.Ref{To: "h7.h", Name: "g7", Count: 1})
}

// A package whose only file is still empty has no name.
func TestGoPackageWithoutName(t *testing.T) {
	files := layout(`
-- go.mod --
module m
-- a.go --
package m
import "m/b"
func f() { b.F(); g() }
-- b/b.go --
`)
	files.put("b/b.go", []byte("\n"))
	require.Empty(t, slices.Collect(resolve.New(files).Refs("a.go").All()))
}
