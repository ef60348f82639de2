package codegraph_test

import (
	"context"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/codegraph"
	"github.com/aycoder/aycoder/internal/timed"
)

// memory is a workspace in memory.
type memory struct {
	fstest.MapFS
	clock int64
}

func (m *memory) ReadDir(_ context.Context, name string) ([]fs.DirEntry, error) {
	return m.MapFS.ReadDir(name)
}

func (m *memory) put(name, text string) {
	m.clock++
	m.MapFS[name] = &fstest.MapFile{Data: []byte(text), ModTime: time.Unix(m.clock, 0)}
}

// variants are other texts of files of the project.
var variants = map[string][]string{
	"go.mod":                    {"module example.com/n\n", "module example.com/m\n\nreplace example.com/x => ./a\n"},
	"a/go.mod":                  {"module example.com/m/a\n"},
	"go.work":                   {"use .\nuse ./a\n"},
	"main.go":                   {"package main\n\nimport x \"example.com/m/a\"\n\nvar _ x.T\n", "package main\n\nimport \"example.com/x\"\n\nfunc main() { a.A() }\n", "package main\n"},
	"a/a.go":                    {"package a\n\nfunc B() {}\n", "package b\n\nfunc A() {}\n", "package a\n\n\n\nfunc A() { other() }\n"},
	"a/b.go":                    {"package a\n\nfunc A() {}\n\nfunc other() {}\n", "package a_test\n"},
	"a/a_test.go":               {"package a\n\nfunc other() { A() }\n", "package a_test\n\nimport \"example.com/m/a\"\n\nfunc x() { a.A() }\n"},
	"p/__init__.py":             {"", "from . import m\nfrom .m import *\n", "g = 1\n"},
	"p/m.py":                    {"def f(): pass\n", "from .n import f\n", "import p\np.g()\n"},
	"p/n.py":                    {"def f(): pass\n", "from p import g\n"},
	"p/m/n.py":                  {"f = 1\n"},
	"run.py":                    {"import p.m\nfrom p import g, m\n", "from p.m import f\nf()\n", "import q\n"},
	"src/q.py":                  {"x = 1\n"},
	"web/index.ts":              {"export {x} from './b'\n", "import d from '@/b'\nimport * as n from './sub'\nn.z()\n", "const q = require('pkg')\n"},
	"web/b.ts":                  {"export {x} from './sub'\n", "export const x = 2, y = 1\n", "export default class {}\n"},
	"web/b.js":                  {"exports.x = 1\n"},
	"web/sub/index.ts":          {"export const x = 1\nexport function z() {}\n", "export * from '../b'\n"},
	"tsconfig.json":             {"{\"compilerOptions\": {\"paths\": {\"@/*\": [\"./web/*\"]}}}", "{ // none\n}"},
	"package.json":              {"{\"workspaces\": [\"packages/*\"]}", "{}"},
	"packages/pkg/package.json": {"{\"name\": \"pkg\", \"main\": \"./lib/x.js\"}", "{\"name\": \"pkg\", \"exports\": {\".\": \"./src/x.ts\"}}"},
	"packages/pkg/src/x.ts":     {"export const pkg = 1\n"},
	"c/x.c":                     {"#include <x.h>\n", "#include \"y.h\"\nint g(void) { return f(); }\n"},
	"c/x.h":                     {"int f(void);\n", "#include \"y.h\"\n"},
	"include/y.h":               {"int f(void);\n"},
	"src/lib.rs":                {"mod m;\nmod n { pub fn f() {} }\nuse n::f;\n", "pub mod m;\nuse crate::m::*;\n"},
	"src/m.rs":                  {"pub fn f() {}\npub use crate::m::o::g;\nmod o;\n"},
	"src/m/mod.rs":              {"pub fn f() {}\n"},
	"src/m/o.rs":                {"pub fn g() {}\n"},
	"Cargo.toml":                {"[package]\nname = \"k\"\n[lib]\npath = \"src/m.rs\"\n", "[workspace]\nmembers = [\"src\"]\n"},
	"J.java":                    {"package p;\nimport p.q.K;\nclass J { K k; }\n", "class J { L l; }\n"},
	"p/q/K.java":                {"package p.q;\npublic class K {}\n", "package p.r;\npublic class K {}\n"},
	"L.java":                    {"package p;\nclass L {}\n", "class L {}\n"},
	".gitignore":                {"*.py\n", "/a/\n", "web\n!web/b.ts\n", ""},
}

// After any edits of files and configurations, the graph is that of a new one. AYCODER_SEQUENCES says
// how many sequences of twenty edits are tried.
func TestGraphIsAsNew(t *testing.T) {
	timed.Serial(t)
	sequences := 60
	if n, err := strconv.Atoi(os.Getenv("AYCODER_SEQUENCES")); err == nil {
		sequences = n
	}
	texts := maps.Clone(variants)
	for i := 0; i < len(project); i += 2 {
		texts[project[i]] = append(slices.Clone(texts[project[i]]), project[i+1])
	}
	names := slices.Sorted(maps.Keys(texts))
	edges, ordered := 0, 0
	for seed := range uint64(sequences) {
		rnd := rand.New(rand.NewPCG(seed, 11))
		files := &memory{MapFS: fstest.MapFS{}}
		for i := 0; i < len(project); i += 2 {
			if rnd.IntN(5) > 0 {
				files.put(project[i], project[i+1])
			}
		}
		g, err := codegraph.New(files)
		require.NoError(t, err)
		_, err = g.Refresh(t.Context())
		require.NoError(t, err)
		for step := range 20 {
			var changed []string
			for range 1 + rnd.IntN(2) {
				changed = append(changed, edit(files, names, texts, rnd)...)
			}
			if rnd.IntN(2) == 0 {
				changed = nil // to be found
			}
			s, err := g.Refresh(t.Context(), changed...)
			require.NoError(t, err)
			procs := runtime.GOMAXPROCS(1 + rnd.IntN(4))
			fresh, err := codegraph.New(&shuffled{files, rnd})
			require.NoError(t, err)
			want, err := fresh.Refresh(t.Context())
			require.NoError(t, err)
			require.Equal(t, codegraph.Edges(want), codegraph.Edges(s), "sequence %d, step %d: %s", seed, step, changed)
			require.Equal(t, shown(t, fresh, want), shown(t, g, s), "sequence %d, step %d: %s", seed, step, changed)
			runtime.GOMAXPROCS(procs)
			edges += len(codegraph.Edges(s))
			ordered += inOrder(t, s)
		}
	}
	require.Greater(t, edges, sequences*20)
	require.Greater(t, ordered, sequences*20)
	t.Logf("%d sequences, %d edges, %d of them in order", sequences, edges, ordered)
}

// shuffled lists the files of a directory in another order each time.
type shuffled struct {
	*memory
	rnd *rand.Rand
}

func (s *shuffled) ReadDir(ctx context.Context, name string) ([]fs.DirEntry, error) {
	list, err := s.memory.ReadDir(ctx, name)
	s.rnd.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list, err
}

// shown returns what a model and a user see of a graph.
func shown(t *testing.T, g *codegraph.Graph, s *codegraph.Snapshot) []string {
	about, err := g.Map(t.Context(), s)
	require.NoError(t, err)
	c, err := g.Context(t.Context(), s, codegraph.Focus{Files: s.Order()[:min(2, len(s.Order()))], Budget: 500})
	require.NoError(t, err)
	return append(s.Order(), about, c.Text(), s.Draw(".").DOT())
}

// inOrder checks that each file comes after those that it depends on, unless they are in one cycle. It returns how many
// dependencies there are.
func inOrder(t *testing.T, s *codegraph.Snapshot) (n int) {
	cycle := map[string]int{}
	for i, files := range s.Cycles() {
		for _, f := range files {
			cycle[f] = i + 1
		}
	}
	order := s.Order()
	for at, file := range order {
		for _, dep := range s.Dependencies(file) {
			i := slices.Index(order, dep)
			if i < 0 || cycle[file] > 0 && cycle[file] == cycle[dep] {
				continue // a file that is not source code, such as a configuration
			}
			require.Less(t, i, at, "%s depends on %s", file, dep)
			n++
		}
	}
	return n
}

// edit changes the files once, and returns what it changed.
func edit(files *memory, names []string, texts map[string][]string, rnd *rand.Rand) []string {
	name := names[rnd.IntN(len(names))]
	switch text := texts[name][rnd.IntN(len(texts[name]))]; rnd.IntN(4) {
	case 0:
		delete(files.MapFS, name)
	case 1: // to another name with the same end
		other := names[rnd.IntN(len(names))]
		if f := files.MapFS[name]; f != nil && path.Ext(name) == path.Ext(other) && !strings.HasPrefix(other, name+"/") {
			delete(files.MapFS, name)
			files.put(other, string(f.Data))
			return []string{name, other}
		}
	default:
		files.put(name, text)
	}
	return []string{name}
}

// A file that cannot be read for a while is read when it can be, although neither its size nor its time has
// changed.
func TestUnreadableForAWhile(t *testing.T) {
	m := &locked{memory: &memory{MapFS: map[string]*fstest.MapFile{}}}
	m.put("a.go", "package a\n\nfunc F() {}\n")
	m.put("b.go", "package a\n\nfunc G() { F() }\n")
	g, err := codegraph.New(m)
	require.NoError(t, err)
	m.name = "a.go"
	s, err := g.Refresh(t.Context())
	require.NoError(t, err)
	require.Nil(t, s.Facts("a.go"))
	m.name = ""
	s, err = g.Refresh(t.Context())
	require.NoError(t, err)
	require.Len(t, s.Facts("a.go").Decls, 1)
	require.Equal(t, []string{"a.go"}, s.Dependencies("b.go"))
	m.name = "a.go"
	_, err = g.Refresh(t.Context(), "a.go")
	require.NoError(t, err)
	m.name = ""
	s, err = g.Refresh(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"a.go"}, s.Dependencies("b.go"))

	m.put("x/x.go", "package x\n")
	m.put("c.go", "package a\n\nimport \"example.com/m/x\"\n\nvar _ = x.X\n")
	m.put("go.mod", "module example.com/m\n")
	m.name = "go.mod"
	s, err = g.Refresh(t.Context())
	require.NoError(t, err)
	require.Empty(t, s.Dependencies("c.go"))
	m.name = ""
	s, err = g.Refresh(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"x/x.go"}, s.Dependencies("c.go"))
}

// An edit that leaves size and time as they were, as by a program that restores the time, is seen where the system has a
// time that no program can set.
func TestEditWithTheSameTime(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("other systems do not tell that time")
	}
	g, dir := open(t, "b.py", "", "c.py", "")
	then := time.Unix(1e9, 0)
	for _, want := range []string{"c", "b"} {
		write(t, dir, "a.py", "import "+want+"\n")
		require.NoError(t, os.Chtimes(filepath.Join(dir, "a.py"), then, then))
		s, err := g.Refresh(t.Context())
		require.NoError(t, err)
		require.Equal(t, []string{want + ".py"}, s.Dependencies("a.py"))
	}
}

// locked cannot open one of its files.
type locked struct {
	*memory
	name string
}

func (l *locked) Open(name string) (fs.File, error) {
	if name == l.name {
		return nil, fs.ErrPermission
	}
	return l.memory.Open(name)
}
