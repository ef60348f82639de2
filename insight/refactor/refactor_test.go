package refactor_test

import (
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/insight/refactor"
)

// cases has, for each kind, code that has a finding of it, and code that is near to it and has none.
var cases = map[refactor.Kind]struct{ found, near []string }{
	refactor.ElseAfterReturn: {
		[]string{
			"func F(a bool) int {\n\tif a {\n\t\treturn 1\n\t} else {\n\t\treturn 2\n\t}\n}",
			"func F(a bool) int {\n\tif a {\n\t\treturn 1\n\t} else {\n\t\tprintln()\n\t}\n\treturn 3\n}",
			"func F(l []int) {\n\tfor _, n := range l {\n\t\tif n > 1 {\n\t\t\tcontinue\n\t\t} else {\n\t\t\tprintln(n)\n\t\t}\n\t}\n}",
			"func F(n int) {\n\tfor {\n\t\tif n > 1 {\n\t\t\tn--\n\t\t\tbreak\n\t\t} else { // more\n\t\t\tm := n\n\t\t\tprintln(m)\n\t\t}\n\t}\n}",
			"func F(n int) int {\n\tswitch n {\n\tcase 1:\n\t\tif n > 2 {\n\t\t\treturn 1\n\t\t} else {\n\t\t\tn++\n\t\t}\n\t}\n\treturn n\n}",
		},
		[]string{
			"func G() (int, error)\n\nfunc F() int {\n\tif n, err := G(); err != nil {\n\t\treturn 1\n\t} else {\n\t\treturn n\n\t}\n}",
			"func F(a, b bool) int {\n\tif a {\n\t\treturn 1\n\t} else if b {\n\t\treturn 2\n\t}\n\treturn 3\n}",
			"func F(a bool) {\n\tif a {\n\t\tprintln(1)\n\t} else {\n\t\tprintln(2)\n\t}\n}",
			"func F(a, b bool) int {\n\tn := 1\n\tif a {\n\t\tn = 2\n\t} else if b {\n\t\treturn 2\n\t} else {\n\t\tn = 3\n\t}\n\treturn n\n}",
			"func F(a bool) {\n\tif a {\n\t\tpanic(1)\n\t} else {\n\t\tprintln(2)\n\t}\n}",
		},
	},
	refactor.Condition: {
		[]string{
			"func F(a bool) bool {\n\treturn a == true\n}",
			"func F(a bool) {\n\tif a != true {\n\t\tprintln()\n\t}\n}",
			"func F(n int) bool {\n\tif n > 1 {\n\t\treturn true\n\t}\n\treturn false\n}",
			"func F(n int) bool {\n\tif n == 1 {\n\t\treturn false\n\t}\n\treturn true\n}",
			"func F(n []bool) bool {\n\tprintln()\n\tif n[0] {\n\t\treturn true\n\t} else {\n\t\treturn false\n\t}\n}",
		},
		[]string{
			"func F(a any) bool {\n\treturn a == true\n}",
			"type B bool\n\nfunc F(a B) bool {\n\tif a {\n\t\treturn true\n\t}\n\treturn false\n}",
			"func F(n int) bool {\n\tif n > 1 {\n\t\treturn true\n\t}\n\tif n < -1 {\n\t\treturn true\n\t}\n\treturn false\n}",
			"func F(n int) any {\n\tif n > 1 {\n\t\treturn true\n\t}\n\treturn false\n}",
			"func F(n int) bool {\n\tif n > 1 && n < 5 {\n\t\t// it is in the middle\n\t\treturn false\n\t}\n\treturn true\n}",
		},
	},
	refactor.Negation: {
		[]string{
			"func F(a, b int) bool {\n\treturn !(a == b)\n}",
			"func F(a bool) bool {\n\treturn !!a\n}",
			"func F(a, b int) {\n\tif !(a != b) && a > 1 {\n\t\tprintln()\n\t}\n}",
			"func F(a bool) bool {\n\treturn !(!a)\n}",
			"func F(a func() error) {\n\tfor !(a() == nil) {\n\t\tprintln()\n\t}\n}",
		},
		[]string{
			"func F(a, b float64) bool {\n\treturn !(a < b)\n}",
			"func F(a, b bool) bool {\n\treturn !(a && b)\n}",
			"func F(a, b int, c bool) bool {\n\treturn c == !(a == b)\n}",
			"func F(a bool) bool {\n\treturn !a\n}",
			"func F(a, b int) bool {\n\treturn !( /* why */ a == b)\n}",
		},
	},
	refactor.Nesting: {
		[]string{
			"func F(a *int) {\n\tif a != nil {\n" + long("\t\t") + "\t}\n}",
			"func F(a []bool) {\n\tfor _, x := range a {\n\t\tprintln(x)\n\t\tif !x {\n" + long("\t\t\t") + "\t\t}\n\t}\n}",
			"func F(a func() bool) {\n\tprintln()\n\tif a() {\n\t\tn := 1\n\t\tprintln(n)\n" + long("\t\t") + "\t}\n}",
			"func F(a bool) {\n\tgo func() {\n\t\tif a {\n" + long("\t\t\t") + "\t\t}\n\t}()\n}",
			"func F(a int) {\n\tfor a < 10 {\n\t\ta++\n\t\tif a == 5 {\n" + long("\t\t\t") + "\t\t}\n\t}\n}",
		},
		[]string{
			"func F(a *int) int {\n\tif a != nil {\n" + long("\t\t") + "\t}\n\treturn 1\n}",
			"func F(a *int) {\n\tif a != nil {\n" + long("\t\t") + "\t}\n\tprintln()\n}",
			"func F(a *int) {\n\tif a != nil {\n\t\tprintln()\n\t\tprintln()\n\t\tprintln()\n\t}\n}",
			"func F(a, b float64) {\n\tif a < b {\n" + long("\t\t") + "\t}\n}",
			"func F(a *int) {\n\tif a != nil {\n" + long("\t\t") + "\t} else {\n\t\tprintln()\n\t}\n}",
			"func F(a int) {\n\tfor a < 10 {\n\t\ta++\n\t\tif a == 5 {\n" + long("\t\t\t") + "\t\t\treturn\n\t\t}\n\t}\n}",
		},
	},
	refactor.Dead: {
		[]string{
			"func F() {}\n\nfunc f() {}",
			"func F() {}\n\nfunc f(n int) int {\n\tif n > 0 {\n\t\treturn f(n - 1)\n\t}\n\treturn 0\n}",
			"var old = 1",
			"const old = \"x\"\n\nfunc F() {}",
			"// old is old.\nvar old []int\n\nfunc F() {}",
		},
		[]string{
			"func F() { f() }\n\nfunc f() {}",
			"func f() {}\n\nvar _ = f",
			"func init() {}",
			"var a = b()\n\nfunc b() int { return 1 }",
			"import _ \"unsafe\"\n\n//go:linkname f runtime.f\nfunc f() {}",
		},
	},
	refactor.CommentedOut: {
		[]string{
			"func F() {\n\t// println(1)\n\t// println(2)\n}",
			"func F() {\n\t// if true {\n\t// \treturn\n\t// }\n\tprintln()\n}",
			"// func G() {\n// \tprintln()\n// }\n\nfunc F() {}",
			"func F() {\n\tn := 1\n\t// n = 2\n\t// n++\n\tprintln(n)\n}",
			"func F() {\n\tfor {\n\t\t// x := y\n\t\t// z(x)\n\t}\n}",
		},
		[]string{
			"func F() {\n\t// It is so, and not\n\t// otherwise.\n}",
			"func F() {\n\t// note: x\n\t// done\n}",
			"// F does it:\n//\n//\tF()\n//\tF()\nfunc F() {}",
			"func F() {\n\t// n\n\t// m\n}",
			"func F() {\n\t// x := 1\n\tprintln()\n}",
			"func F() {\n\t// for {\n\t// \tx()\n\n\t// \ty := z()\n\t// \tw(y)\n\n\t// }, as soon as that is so\n}",
		},
	},
	refactor.LongParameters: {
		[]string{
			"func F(a, b, c, d, e, f, g, h int) {}",
			"func F(a int, b string, c, d, e bool, f, g, h, i int) {}",
			"type T struct{}\n\nfunc (T) F(a, b, c, d, e, f, g, h int) {}",
			"func F(a, b, c, d func(), e, f, g, h int) {}",
			"func F(_, _, _, _, _, _, _, _ int) {}",
		},
		[]string{
			"func F(a, b, c, d, e, f, g int) {}",
			"func F() (a, b, c, d, e, f, g, h int) { return }",
			"var F = func(a, b, c, d, e, f, g int) {}",
			"type T interface{ F(a, b, c, d, e, f, g, h int) }",
			"type F func(a, b, c, d, e, f, g, h int)",
		},
	},
}

func long(indent string) string { return strings.Repeat(indent+"println(1)\n", 10) }

func source(code string) string { return "package p\n\n" + code + "\n" }

// Of the cases of each kind, all are found, and none of the near ones. The text of an edit is valid, and has one finding less.
func TestPlanted(t *testing.T) {
	require.Len(t, cases, len(refactor.Kinds()))
	of := func(src string, k refactor.Kind) []refactor.Finding {
		_, err := parser.ParseFile(token.NewFileSet(), "", src, 0)
		require.NoError(t, err, src)
		return slices.DeleteFunc(refactor.Package(map[string][]byte{"a.go": []byte(src)}), func(f refactor.Finding) bool { return f.Kind != k })
	}
	for k, c := range cases {
		for _, code := range c.found {
			found := of(source(code), k)
			require.Len(t, found, 1, "%s:\n%s", k, code)
			f := found[0]
			require.Positive(t, f.Line)
			require.GreaterOrEqual(t, f.End, f.Line)
			if k == refactor.LongParameters {
				require.Nil(t, f.Edit)
				continue
			}
			require.NotNil(t, f.Edit, code)
			require.Equal(t, source(code), f.Edit.Base)
			require.Empty(t, of(f.Edit.Proposed, k), f.Edit.Proposed)
			require.NotRegexp(t, `\n\n\t*}`, f.Edit.Proposed)
		}
		for _, code := range c.near {
			require.Empty(t, of(source(code), k), "%s:\n%s", k, code)
		}
	}
}

// An edit is left out where the names of the block would meet others, or what it needs is not known.
func TestNoEdit(t *testing.T) {
	for _, code := range []string{
		"func F(a bool) int {\n\tx := 1\n\tif a {\n\t\treturn x\n\t} else {\n\t\tx := 2\n\t\treturn x\n\t}\n}",                                                              // declared twice
		"func F(a bool, x int) int {\n\tif a {\n\t\treturn x\n\t} else {\n\t\tx := 2\n\t\treturn x\n\t}\n}",                                                                 // as a parameter
		"func F(a bool, x int) int {\n\tif a {\n\t\treturn x\n\t} else {\n\t\ty := 2\n\t\tprintln(y)\n\t}\n\ty := 1\n\treturn y\n}",                                         // later
		"var x = 1\n\nfunc F(a bool) int {\n\tif a {\n\t\treturn x\n\t} else {\n\t\tx := 2\n\t\tprintln(x)\n\t}\n\treturn x\n}",                                             // would hide another
		"func F(a bool) int {\n\tif a {\n\t\treturn 1\n\t} /* why */ else {\n\t\treturn 2\n\t}\n}",                                                                          // a comment
		"func F(a any) int {\n\tswitch b := a.(type) {\n\tcase int:\n\t\tif b > 1 {\n\t\t\treturn 1\n\t\t} else {\n\t\t\tb := 2\n\t\t\treturn b\n\t\t}\n\t}\n\treturn 0\n}", // the name of the switch
		"func F(a bool) int {\n  if a {\n\t\treturn 1\n\t} else {\n\t\treturn 2\n\t}\n}",                                                                                    // not formatted
		"func F(a bool) {\n\tif a {\n\t\tgoto end\n\t}\nend:\n\tprintln()\n\tif a {\n\t\treturn\n\t} else {\n\t\tx := 1\n\t\tprintln(x)\n\t}\n}",                            // a goto
		"import \"os\"\n\nfunc f() { os.Exit(1) }",                                                                                    // the import would be left
		"func F[T any](a bool, _ T) int {\n\tif a {\n\t\treturn 1\n\t} else {\n\t\tT := 2\n\t\treturn T\n\t}\n}",                      // the name of a type parameter
		"type R[T any] struct{}\n\nfunc (R[T]) F(a bool) int {\n\tif a {\n\t\treturn 1\n\t} else {\n\t\tT := 2\n\t\treturn T\n\t}\n}", // also of a receiver
		"type B bool\n\nfunc F(a bool) B {\n\treturn a == true\n}",                                                                    // a has another type than the comparison
		"import \"x\"\n\nfunc F(a bool) x.B {\n\treturn a == true\n}",                                                                 // perhaps
		"import \"x\"\n\nfunc F(a bool) {\n\tx.F(1, a == true)\n}",                                                                    // perhaps
		"func F() bool {\n\tconst c bool = true\n\tconst D = c == true\n\treturn D\n}",                                                // as a constant
		"//go:generate go run gen.go\nvar old = 1",                                                                                    // the directive is about more
	} {
		found := refactor.Package(map[string][]byte{"a.go": []byte(source(code))})
		require.NotEmpty(t, found, code)
		require.Nil(t, found[0].Edit, code)
	}
	// A name that another file or assembly uses is not dead.
	for _, other := range []map[string][]byte{
		{"b_windows.go": []byte("package p\n\nfunc G() { f() }\n")}, {"b_test.go": []byte("package p\n\nvar _ = f\n")},
		{"b.s": []byte("CALL ·f(SB)")}, {"b.go": []byte("package p\n\nfunc broken( {\n")}, {"b.go": []byte("package p\n\nimport \"C\"\n")},
	} {
		other["a.go"] = []byte(source("func f() {}"))
		require.Empty(t, refactor.Package(other))
	}
	require.Empty(t, refactor.Package(map[string][]byte{"a.go": []byte("// Code generated by x. DO NOT EDIT.\n\npackage p\n\nfunc F(a bool) bool { return a == true }\n")}))
}

// A line directive does not change where a finding is.
func TestLineDirective(t *testing.T) {
	code := source("//line other.y:100\nfunc F(a bool) bool {\n\treturn a == true\n}")
	found := refactor.Package(map[string][]byte{"a.go": []byte(code)})
	require.Len(t, found, 1)
	require.Equal(t, []int{5, 5}, []int{found[0].Line, found[0].End})
}

// The text of a finding is one line.
func TestOneLine(t *testing.T) {
	code := source("func F(a func(int, string) bool) bool {\n\treturn a(1,\n\t\t`x\ny`) == true\n}")
	found := refactor.Package(map[string][]byte{"a.go": []byte(code)})
	require.Len(t, found, 1)
	require.NotContains(t, found[0].Text, "\n")
}

// Of files with many findings, the memory grows with their number, and not with its square.
func TestMany(t *testing.T) {
	for name, of := range map[string]func(n int) string{
		"edits":  func(n int) string { return "func F(a bool) {\n" + strings.Repeat("\t_ = !!a\n", n) + "}" },
		"nested": func(n int) string { return "func F(a bool) bool { return " + strings.Repeat("!", 2*n) + "a }" },
		"calls": func(n int) string {
			return "func f(bool) bool\n\nfunc F(a bool) bool { return " + strings.Repeat("f(", n) + "a" + strings.Repeat(") == true", n) + " }"
		},
		"unused": func(n int) string {
			var b strings.Builder
			for i := range n {
				fmt.Fprintf(&b, "var a%d = 1\n\n// more\n\n", i)
			}
			return b.String() + "func F() {}"
		},
	} {
		size := func(n int) float64 {
			files := map[string][]byte{"a.go": []byte(source(of(n)))}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			require.NotEmpty(t, refactor.Package(files))
			runtime.ReadMemStats(&after)
			return float64(after.TotalAlloc - before.TotalAlloc)
		}
		size(100)
		require.Less(t, size(2000)/size(500), 8.0, name)
	}
}

// A few lines do not make go/types take all memory, or work without end.
func TestHostile(t *testing.T) {
	var texts, types, aliases strings.Builder
	texts.WriteString("const (\n\ta0 = \"0123456789\"\n")
	types.WriteString("type P[A any] struct{ a, b A }\n\ntype T0 int\n")
	aliases.WriteString("type A0 = int\n\ntype B0 = int\n")
	for i := range 40 {
		fmt.Fprintf(&texts, "\ta%d = a%d + (a%d)\n", i+1, i, i)
		fmt.Fprintf(&types, "\ntype T%d P[P[T%d]]\n", i+1, i)
		fmt.Fprintf(&aliases, "\ntype A%d = struct{ a, b A%d }\n\ntype B%d = struct{ a, b B%d }\n", i+1, i, i+1, i)
	}
	for _, code := range []string{
		texts.String() + ")\n\nconst N = len(a40)", texts.String() + "\tb\n)\n\nvar N = string(a40)[0] + string(b)[1]", types.String() + "\nvar X T40",
		aliases.String() + "\nvar X A40\n\nvar Y B40 = X", strings.ReplaceAll(aliases.String(), "=", "") + "\nvar X A40\n\nvar Y = B40(X)",
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		refactor.Package(map[string][]byte{"a.go": []byte(source(code))})
		runtime.ReadMemStats(&after)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(64<<20))
	}
}

func FuzzPackage(f *testing.F) {
	for _, c := range cases {
		for _, code := range append(c.found, c.near...) {
			f.Add(source(code))
		}
	}
	f.Fuzz(func(t *testing.T, src string) {
		for _, v := range refactor.Package(map[string][]byte{"a.go": []byte(src)}) {
			if v.Edit != nil {
				_, err := parser.ParseFile(token.NewFileSet(), "", v.Edit.Proposed, 0)
				require.NoError(t, err, v.Edit.Proposed)
			}
		}
	})
}

func ExamplePackage() {
	code := "package p\n\nfunc Big(n int) bool {\n\tif n > 9 {\n\t\treturn true\n\t} else {\n\t\treturn false\n\t}\n}\n"
	for _, f := range refactor.Package(map[string][]byte{"big.go": []byte(code)}) {
		fmt.Printf("%s:%d: %s: %s\n%s", f.Path, f.Line, f.Kind, f.Text, f.Edit.Proposed)
	}
	// Output:
	// big.go:4: simplifiable condition: it can return the condition
	// package p
	//
	// func Big(n int) bool {
	// 	return n > 9
	// }
}

// All edits that are offered in real repositories are made, in rounds of edits that do not meet, until none is left. The
// repositories then compile, also their tests, and the tests pass. AYCODER_REFACTOR names directories of modules whose tests
// pass, which the test changes.
func TestRepositories(t *testing.T) {
	roots := filepath.SplitList(os.Getenv("AYCODER_REFACTOR"))
	if len(roots) == 0 {
		t.Skip("AYCODER_REFACTOR names no directories")
	}
	for _, root := range roots {
		made := map[refactor.Kind]int{}
		for round := 0; ; round++ {
			changed := 0
			for _, files := range packages(t, root) {
				done := map[string]bool{}
				for _, f := range refactor.Package(files) {
					if f.Edit == nil || done[f.Path] {
						continue
					}
					done[f.Path] = true
					require.NoError(t, os.WriteFile(f.Path, []byte(f.Edit.Proposed), 0o644))
					made[f.Kind]++
					changed++
				}
			}
			if changed == 0 {
				break
			}
			require.Less(t, round, 1000)
		}
		t.Log(filepath.Base(root), made)
		cmd := exec.Command("go", "test", "./...")
		cmd.Dir = root
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s: %s", root, out)
	}
}

// packages returns the files of each directory of a module.
func packages(t *testing.T, root string) map[string]map[string][]byte {
	dirs := map[string]map[string][]byte{}
	require.NoError(t, filepath.WalkDir(root, func(p string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() && (d.Name() == "testdata" || d.Name() == "vendor" || strings.HasPrefix(d.Name(), "_") || strings.HasPrefix(d.Name(), ".")) && p != root {
			return filepath.SkipDir
		}
		if ext := filepath.Ext(p); err != nil || !slices.Contains([]string{".go", ".s", ".c"}, ext) {
			return err
		}
		src, err := os.ReadFile(p)
		if dirs[filepath.Dir(p)] == nil {
			dirs[filepath.Dir(p)] = map[string][]byte{}
		}
		dirs[filepath.Dir(p)][p] = src
		return err
	}))
	return dirs
}
