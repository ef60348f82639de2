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

// A dependency that a manifest has twice, at different places, is at one of them, always the same.
func TestCargoTwice(t *testing.T) {
	files := layout(`
-- Cargo.toml --
[package]
name = "m"
edition = "2021"
[dependencies]
x = { path = "x" }
[dev-dependencies]
x = { path = "y" }
[build-dependencies]
x = { path = "z" }
-- src/lib.rs --
use x::F;
-- x/Cargo.toml --
[package]
name = "x"
-- x/src/lib.rs --
pub struct F;
-- y/Cargo.toml --
[package]
name = "x"
-- y/src/lib.rs --
pub struct F;
-- z/Cargo.toml --
[package]
name = "x"
-- z/src/lib.rs --
pub struct F;
`)
	found := map[string]bool{}
	for range 50 {
		found[resolve.New(files).Imports("src/lib.rs")[0].To] = true
	}
	require.Len(t, found, 1)
}

// asked counts the files that are looked for.
type asked struct {
	*tree
	files int
}

func (a *asked) IsFile(p string) bool {
	a.files++
	return a.tree.IsFile(p)
}

// Many stars for several directories are like one: each one more would multiply the directories.
func TestManyStars(t *testing.T) {
	allocs := func(pattern string) float64 {
		files := newTree()
		files.put("package.json", []byte(`{"name": "r", "workspaces": ["`+pattern+`"]}`))
		files.put(strings.Repeat("d/", 12)+"package.json", []byte(`{"name": "p"}`))
		files.put("a.ts", []byte("import 'p'\n"))
		return testing.AllocsPerRun(1, func() { resolve.New(files).Imports("a.ts") })
	}
	one := allocs("**")
	for _, pattern := range []string{"**" + strings.Repeat("/**", 9), "**" + strings.Repeat("/d/**", 5)} {
		require.Less(t, allocs(pattern), 10*one, pattern)
	}
}

// Of very long lists in configurations, only the beginning counts: each entry can be a path to look for.
func TestLongLists(t *testing.T) {
	var list strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&list, `"./n%d",`, i)
	}
	for name, text := range map[string]string{
		"exports":  `{"name": "p", "exports": [` + list.String() + `"./x"]}`,
		"extends":  `{"extends": [` + list.String() + `"./x"]}`,
		"paths":    `{"compilerOptions": {"paths": {"p": [` + list.String() + `"./x"]}}}`,
		"rootDirs": `{"compilerOptions": {"rootDirs": ["./", ` + list.String() + `"./x"]}}`,
	} {
		files := &asked{tree: newTree()}
		file := "tsconfig.json"
		if name == "exports" {
			file = "package.json"
		}
		files.put(file, []byte(text))
		files.put("a.ts", []byte("import 'p'\nimport './q'\n"))
		resolve.New(files).Imports("a.ts")
		require.Less(t, files.files, 30_000, name)
	}
}
