package code_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/codegraph"
	"github.com/aycoder/aycoder/insight/code"
	"github.com/aycoder/aycoder/workspace"
)

func structure(t testing.TB, dir string) (*code.Structure, *codegraph.Snapshot) {
	ws, err := workspace.Open(dir)
	require.NoError(t, err)
	t.Cleanup(func() { ws.Close() })
	g, err := codegraph.New(ws)
	require.NoError(t, err)
	s, err := g.Refresh(t.Context())
	require.NoError(t, err)
	return code.StructureOf(s), s
}

func TestStructure(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":             "module m\n",
		"main.go":            "package main\n\nimport (\n\t\"m/internal/a\"\n\t\"m/lib\"\n)\n\nfunc main() { a.Used(); lib.Used(); Own() }\n\nfunc Own() {}\n",
		"internal/a/a.go":    "package a\n\nimport \"m/internal/b\"\n\nfunc Used() { b.Used(); Here() }\n\nfunc Here() {}\n\ntype T struct{}\n\nfunc (T) Method() {}\n",
		"internal/a/a2.go":   "package a\n\nfunc init() { Here() }\n",
		"internal/b/b.go":    "package b\n\nfunc Used() {}\n\nfunc Tested() {}\n\nvar Dead = 1\n",
		"internal/c_test.go": "package c\n\nimport \"m/internal/b\"\n\nvar _ = b.Tested\n",
		"lib/lib.go":         "package lib\n\nfunc Used() {}\n\nfunc Offered() {}\n",
		"py/x/__init__.py":   "",
		"py/x/one.py":        "from py.y.two import two\n\ndef one():\n    return two\n",
		"py/y/__init__.py":   "",
		"py/y/two.py":        "from py.x.one import one\n\ndef two():\n    return one\n",
		"ts/a.ts":            "export function used() {}\nexport function dead() {}\nexport const t = 1\n",
		"ts/b.ts":            "import { used, t } from './a'\nused(); t\n",
		"ts/all.ts":          "export function x() {}\nexport function y() {}\n",
		"ts/index.ts":        "export * from './all'\nimport { x } from './all'\nx()\n",
		"vendor/v/v.go":      "package v\n",
	} {
		write(t, dir, name, text)
	}
	got, _ := structure(t, dir)
	require.Equal(t, [][]string{{"py/x", "py/y"}}, got.Cycles)
	require.Equal(t, [][]string{{"internal/b", "lib", "py/x", "py/y", "ts"}, {"internal/a"}, {"."}}, got.Layers)
	require.Equal(t, []code.Export{{"internal/a/a.go", "Here"}, {"internal/b/b.go", "Dead"}, {"main.go", "Own"}, {"ts/a.ts", "dead"}}, got.Unused)
	var b strings.Builder
	require.NoError(t, got.WriteText(&b))
	require.Contains(t, b.String(), "directories that depend on each other: 1 sets\n  py/x, py/y\n")
	empty, _ := structure(t, t.TempDir())
	require.Empty(t, empty.Layers)
	require.NoError(t, empty.WriteText(&b))
}

// No package of Go is in a cycle, each layer needs the one before it as go list has it, and no other directory has the text of an
// unused name behind that of its package.
func TestStructureOfRepositories(t *testing.T) {
	for _, dir := range repos(t) {
		got, s := structure(t, dir)
		layer := map[string]int{}
		for i, l := range got.Layers {
			for _, d := range l {
				layer[d] = i
			}
		}
		edges := 0
		for mod := range strings.FieldsSeq(git(t, dir, "x", "ls-files", "go.mod", "**/go.mod")) {
			cmd := exec.Command("go", "list", "-e", "-f", "{{.Dir}} {{join .Imports \",\"}} {{.ImportPath}}", "./...")
			cmd.Dir, cmd.Env = filepath.Join(dir, filepath.Dir(mod)), append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off")
			out, _ := cmd.Output()
			dirs := map[string]string{}
			for line := range strings.Lines(string(out)) {
				if words := strings.Fields(line); len(words) >= 2 {
					rel, _ := filepath.Rel(dir, words[0])
					dirs[words[len(words)-1]] = filepath.ToSlash(rel)
				}
			}
			for line := range strings.Lines(string(out)) {
				words := strings.Fields(line)
				if len(words) != 3 {
					continue
				}
				from := dirs[words[2]]
				for on := range strings.SplitSeq(words[1], ",") {
					if to, ok := dirs[on]; ok && from != to {
						a, ok1 := layer[from]
						b, ok2 := layer[to]
						if ok1 && ok2 {
							edges++
							require.Greater(t, a, b, "%s needs %s", from, to)
						}
					}
				}
			}
		}
		for _, c := range got.Cycles {
			for _, d := range c {
				require.False(t, slices.ContainsFunc(slices.Collect(s.Files()), func(f string) bool {
					return filepath.Dir(f) == d && strings.HasSuffix(f, ".go") && !strings.HasSuffix(f, "_test.go")
				}), c)
			}
		}
		wrong := 0
		for _, u := range got.Unused {
			if !strings.HasSuffix(u.Path, ".go") || s.Facts(u.Path).Package == "main" {
				continue
			}
			used := regexp.MustCompile(`\b` + s.Facts(u.Path).Package + `\.` + u.Name + `\b`)
			for name := range s.Files() {
				if strings.HasSuffix(name, ".go") && filepath.Dir(name) != filepath.Dir(u.Path) {
					if data, err := os.ReadFile(filepath.Join(dir, name)); err == nil && used.Match(data) {
						t.Logf("%s %s: %s has its name", u.Path, u.Name, name)
						wrong++
						break
					}
				}
			}
		}
		t.Logf("%s: %d directories, %d edges of go list, %d cycles, %d unused, %d of them in another text", filepath.Base(dir), len(layer), edges, len(got.Cycles), len(got.Unused), wrong)
	}
}
