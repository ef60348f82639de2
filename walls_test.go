package aycoder_test

import (
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/aycoder/aycoder/internal/timed"
	"github.com/stretchr/testify/require"
)

const module = "github.com/aycoder/aycoder"

// modules are the modules that go.mod may require directly. docs/design.md says why.
var modules = []string{
	"github.com/pmezard/go-difflib", "github.com/tmaxmax/go-sse",
	"golang.org/x/sync", "github.com/invopop/jsonschema", "golang.org/x/term", "golang.org/x/sys", "github.com/stretchr/testify",
	"golang.org/x/net", "mvdan.cc/sh/v3", "github.com/pelletier/go-toml/v2", "go.yaml.in/yaml/v3",
	"github.com/mattn/go-runewidth", "github.com/clipperhouse/uax29/v2",
}

// A wall says what the code of some directories may import from this module and from
// others.
type wall struct {
	dir    string   // a pattern of path.Match; the first match counts
	own    []string // directories, with all below them if they are at the top
	others []string
}

var walls = []wall{
	{".", []string{"edit", "merge", "internal"}, modules[:4]},
	{"merge", []string{"internal"}, modules[:4]},
	{"edit", []string{"merge", "internal"}, nil},
	{"providers", []string{".", "providers", "internal"}, nil},
	{"providers/*", []string{".", "internal"}, modules[:4]},
	{"middleware", []string{".", "internal"}, modules[:4]},
	{"catalog", []string{".", "internal"}, nil},
	{"diff", []string{"merge", "internal"}, modules[:4]},
	{"generate", []string{".", "internal"}, nil},
	{"budget", []string{".", "tokens", "internal"}, nil},
	{"harness/hooks", []string{".", "tools", "workspace", "internal"}, nil},
	{"workspace", []string{".", "edit", "merge", "internal"}, modules[:4]},
	{"egress", []string{".", "internal"}, nil},
	{"background", []string{".", "internal"}, nil},
	{"tools", []string{".", "background", "diff", "edit", "egress", "generate", "merge", "workspace", "internal"}, append(modules[:4:4], "golang.org/x/net/html")},
	{"policy", []string{".", "internal"}, nil},
	{"journal", []string{"internal"}, nil},
	{"snapshot", []string{".", "journal", "diff", "edit", "workspace", "tools", "internal"}, nil},
	{"session", []string{".", "background", "edit", "journal", "snapshot", "workspace", "tools", "internal"}, nil},
	{"config", []string{".", "catalog", "policy", "internal"}, []string{"github.com/pelletier/go-toml/v2/unstable"}},
	{"tokens", []string{".", "internal"}, nil},
	{"compaction", []string{".", "tokens", "internal"}, nil},
	{"codegraph", []string{".", "codegraph", "tokens", "internal"}, modules[:4]},
	{"codegraph/source", []string{"internal"}, nil},
	{"codegraph/lint", []string{"internal"}, nil},
	{"codegraph/lsp", []string{".", "codegraph/lint", "diff", "edit", "tools", "workspace", "internal"}, nil},
	{"memory", []string{".", "edit", "tools", "workspace", "internal"}, nil},
	{"retrieval", []string{".", "codegraph", "internal"}, nil},
	{"internal/resolve", []string{"codegraph", "internal"}, nil},
	{"insight/code", []string{".", "codegraph", "internal"}, nil},
	{"insight/forecast", []string{".", "codegraph", "insight/code", "insight/usage", "retrieval", "journal", "session", "internal"}, nil},
	{"insight/refactor", []string{"edit", "internal"}, nil},
	{"insight/suggest", []string{".", "codegraph", "codegraph/lint", "edit", "insight/code", "insight/refactor", "tools", "workspace", "internal"}, nil},
	{"insight/usage", []string{".", "internal", "journal", "session"}, nil},
	{"harness/linked", []string{".", "codegraph", "config", "harness", "insight", "journal", "providers", "retrieval", "tools", "workspace"}, nil},
	{"server", []string{".", "harness", "journal", "session", "snapshot", "internal"}, []string{"github.com/tmaxmax/go-sse"}},
	{"harness", []string{
		".", "background", "budget", "catalog", "compaction", "config", "egress", "harness", "journal", "memory", "middleware", "policy", "session", "snapshot", "tools",
		"workspace", "internal",
	}, nil},
	{"harness/project", []string{".", "tools", "workspace", "internal"}, []string{"go.yaml.in/yaml/v3"}},
	{"harness/plugin", []string{".", "config", "harness", "tools", "internal"}, nil},
	{"agenttest/eval", []string{".", "journal", "session", "snapshot", "internal"}, nil},
	{"agenttest", []string{".", "edit", "journal", "merge", "tools", "workspace", "internal"}, nil},
	{"remote", []string{".", "edit", "merge", "tools", "workspace", "internal"}, modules[:4]},
	{"runner", []string{".", "edit", "harness/project", "remote", "tools", "workspace", "internal"}, nil},
	{"remote/aycoder-remote", []string{"remote", "tools", "workspace"}, nil},
	{"server/webhook", []string{".", "edit", "internal"}, nil},
	{"internal/size/*", []string{".", "providers", "internal"}, nil},
	{"internal/api", []string{".", "internal"}, nil},
	{"internal/option", []string{"."}, nil},
	{"internal/original", []string{".", "internal"}, nil},
	{"internal/part", []string{"."}, nil},
	{"internal/wiretest", []string{".", "internal"}, nil},
	{"internal/payer", []string{"."}, nil},
	{"internal/journey", []string{".", "providers/script"}, nil},
	{"internal/htmltext", []string{"internal"}, []string{"golang.org/x/net/html"}},
	{"internal/shell", []string{"internal"}, []string{"mvdan.cc/sh/v3/syntax"}},
	{"internal/flock", nil, []string{"golang.org/x/sys/windows"}},
	{"internal/program", []string{"tools", "internal"}, nil},
	{"internal/proc", []string{"internal"}, []string{"golang.org/x/sys"}},
	{"internal/sandbox", []string{"internal"}, []string{"golang.org/x/sync/semaphore", "golang.org/x/sys"}},
	{"internal/changeset", []string{"edit", "merge", "internal"}, nil},
	// The command line is a host like any other: it can use nothing that others cannot.
	{"internal/cli", []string{"internal/cli",
		".", "insight", "background", "budget", "catalog", "config", "generate", "memory", "tokens", "harness", "codegraph", "providers", "tools", "policy", "runner", "server", "journal", "session", "workspace", "diff", "edit", "egress", "merge", "compaction",
	}, []string{"golang.org/x/term", "golang.org/x/sys"}},
	{"internal/cli/tty", nil, []string{"golang.org/x/term", "golang.org/x/sys", "github.com/mattn/go-runewidth", "github.com/clipperhouse/uax29/v2/graphemes"}},
	{"internal/cli/ttytest", nil, []string{"golang.org/x/term", "golang.org/x/sys"}},
	{"internal/cli/line", []string{"internal/cli/tty"}, nil},
	{"internal/cli/paint", []string{"codegraph", "diff", "internal/cli/tty"}, nil},
	{"internal/*", []string{"internal"}, modules[:4]},
	{"examples/aycoder", []string{"internal/cli"}, nil},
	{"examples/*", []string{".", "background", "config", "harness", "codegraph", "insight", "providers", "tools", "policy", "server", "journal", "session", "snapshot", "workspace", "diff", "edit", "egress", "merge", "compaction"}, []string{"golang.org/x/term", "golang.org/x/sys"}},
	{"examples/tutorial/*", []string{".", "edit", "providers", "tools", "workspace", "policy"}, nil},
}

// unsafely are the directories whose code may import unsafe: for system calls, and for
// a text that is not copied.
var unsafely = []string{
	"internal/proc", "internal/atomicswap", "internal/beneath", "internal/sandbox", "internal/sse", "internal/view",
}

// caches are the only variables that change. They hold values that stay the same as long
// as a program runs, or memory that is used again.
var caches = []string{"internal/sse.small", "internal/sse.full", "codegraph/source.goBuffers", "internal/schema.schemas", "internal/mask.ruleIndex", "config.shape", "catalog.embedded", "internal/shell.tables", "compaction.phrases"}

// A source is a parsed file and its directory, relative to the module.
type source struct {
	dir, name string
	file      *ast.File
}

func (s source) test() bool { return strings.HasSuffix(s.name, "_test.go") }

// breaches returns what in a file is on the wrong side of a wall.
func (s source) breaches() []string {
	var out []string
	for _, imp := range s.file.Imports {
		p, err := strconv.Unquote(imp.Path.Value)
		if err != nil || !s.mayImport(p) {
			out = append(out, "imports "+p)
		}
	}
	if s.test() {
		return out
	}
	for _, d := range s.file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil && d.Name.Name == "init" {
				out = append(out, "has an init function")
			}
		case *ast.GenDecl:
			for _, name := range globals(d) {
				if !slices.Contains(caches, s.dir+"."+name) {
					out = append(out, "has the variable "+name)
				}
			}
		}
	}
	return out
}

func (s source) mayImport(p string) bool {
	rel, own := strings.CutPrefix(p+"/", module+"/")
	rel = strings.TrimSuffix(rel, "/")
	switch {
	case p == "unsafe":
		return slices.Contains(unsafely, s.dir) || s.test() && s.dir == "egress" // which tries system calls
	case p == "encoding/gob" || own && within(rel, "examples"):
		return false
	case s.test():
		return true
	case !own && standard(p):
		return true
	}
	i := slices.IndexFunc(walls, func(w wall) bool {
		ok, err := path.Match(w.dir, s.dir)
		return ok && err == nil
	})
	if i < 0 {
		return false
	}
	if own {
		return rel == s.dir || rel == "" && slices.Contains(walls[i].own, ".") || within(rel, walls[i].own...)
	}
	return within(p, walls[i].others...)
}

// within reports whether a path is one of some directories, or below it.
func within(p string, dirs ...string) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool { return p == dir || strings.HasPrefix(p, dir+"/") })
}

func standard(p string) bool {
	first, _, _ := strings.Cut(p, "/")
	return !strings.Contains(first, ".")
}

// globals returns the variables that are neither errors nor tables.
func globals(d *ast.GenDecl) []string {
	if d.Tok != token.VAR || embedded(d) {
		return nil
	}
	var out []string
	for _, spec := range d.Specs {
		v := spec.(*ast.ValueSpec)
		for i, name := range v.Names {
			if name.Name != "_" && (i >= len(v.Values) || !table(v.Values[i])) {
				out = append(out, name.Name)
			}
		}
	}
	return out
}

// embedded reports whether the variable is an embedded file, which must be a variable.
func embedded(d *ast.GenDecl) bool {
	return d.Doc != nil && strings.HasPrefix(d.Doc.List[len(d.Doc.List)-1].Text, "//go:embed ")
}

// tables are the calls whose results never change.
var tables = []string{
	"errors.New", "fmt.Errorf", "regexp.MustCompile", "late.Regexp", "strings.NewReplacer", "reflect.TypeFor", "set", "words",
}

func table(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.CompositeLit:
		return true
	case *ast.CallExpr:
		return slices.Contains(tables, called(e.Fun))
	}
	return false
}

func called(fun ast.Expr) string {
	switch f := fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		return called(f.X) + "." + f.Sel.Name
	case *ast.IndexExpr:
		return called(f.X)
	}
	return ""
}

// sources parses all Go files of the module.
func sources(t *testing.T) []source {
	t.Helper()
	timed.Serial(t)
	var out []source
	fset := token.NewFileSet()
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			hidden := len(name) > 1 && name[0] == '.'
			if hidden || name == "contrib" || name == "bench" || d.Name() == "testdata" {
				return filepath.SkipDir
			}
			return nil
		}
		if filepath.Ext(name) != ".go" {
			return nil
		}
		f, err := parser.ParseFile(fset, name, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		out = append(out, source{path.Dir(name), path.Base(name), f})
		return nil
	})
	require.NoError(t, err)
	return out
}

func TestWalls(t *testing.T) {
	files := sources(t)
	require.Greater(t, len(files), 50)
	for _, s := range files {
		for _, b := range s.breaches() {
			t.Errorf("%s/%s %s", s.dir, s.name, b)
		}
	}
	t.Logf("%d files", len(files))
}

func TestWallsFindBreaches(t *testing.T) {
	whole := func(s string) string { return strings.ReplaceAll(s, "@", module) }
	tests := []struct {
		name, file, src, want string
	}{
		{"root imports internal", "a.go", `import "@/internal/glob"`, ""},
		{"root imports a provider", "a.go", `import "@/providers/x"`, "imports @/providers/x"},
		{"root's test imports a provider", "a_test.go", `import "@/providers/x"`, ""},
		{"root imports a stranger", "a.go", `import "github.com/google/uuid"`, "imports github.com/google/uuid"},
		{"root imports a namesake", "a.go", `import "github.com/tmaxmax/go-sse2"`, "imports github.com/tmaxmax/go-sse2"},
		{"provider imports the root", "providers/x/a.go", `import "@"`, ""},
		{"provider imports a provider", "providers/x/a.go", `import "@/providers/y"`, "imports @/providers/y"},
		{"provider imports tools", "providers/x/a.go", `import "@/tools"`, "imports @/tools"},
		{"tools import a provider", "tools/a.go", `import "@/providers/y"`, "imports @/providers/y"},
		{"internal imports the root", "internal/x/a.go", `import "@"`, "imports @"},
		{"internal imports tests' module", "internal/x/a.go", `import "github.com/stretchr/testify/require"`, "imports github.com/stretchr/testify/require"},
		{"line imports the terminal", "internal/cli/line/a.go", `import "@/internal/cli/tty"`, ""},
		{"line imports something else", "internal/cli/line/a.go", `import "@/internal/words"`, "imports @/internal/words"},
		{"example imports tools", "examples/x/a.go", `import "@/tools"`, ""},
		{"the command line imports a public package", "internal/cli/a.go", `import "@/session"`, ""},
		{"the command line imports an internal package", "internal/cli/a.go", `import "@/internal/runes"`, "imports @/internal/runes"},
		{"the command line imports a part of it", "internal/cli/a.go", `import "@/internal/cli/x"`, ""},
		{"a name begins like that of a package", "internal/cli/a.go", `import "@/sessions"`, "imports @/sessions"},
		{"test imports an example", "tools/a_test.go", `import "@/examples/x"`, "imports @/examples/x"},
		{"directory without a wall", "new/a.go", `import "@"`, "imports @"},
		{"gob", "a_test.go", `import "encoding/gob"`, "imports encoding/gob"},
		{"unsafe", "tools/a.go", `import "unsafe"`, "imports unsafe"},
		{"init", "a.go", `func init() {}`, "has an init function"},
		{"method called init", "a.go", `type t int; func (t) init() {}`, ""},
		{"errors and tables", "a.go", `var ErrX = errors.New("x"); var m = map[string]int{}; var _ = 1; var k = reflect.TypeFor[int]()`, ""},
		{"variables", "a.go", `var n int; var a, b = 1, f(); var p = &t{}`, "has the variable n, has the variable a, has the variable b, has the variable p"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f, err := parser.ParseFile(token.NewFileSet(), tt.file, whole("package p\n"+tt.src), 0)
			require.NoError(t, err)
			found := source{path.Dir(tt.file), path.Base(tt.file), f}.breaches()
			require.Equal(t, whole(tt.want), strings.Join(found, ", "))
		})
	}
}

// layers are the examples that make an agent without package harness, with the layer that they show instead.
var layers = map[string]string{
	"examples/hello": "the loop", "examples/loop": "the turns of a loop", "examples/tool": "tools and approvals",
	"examples/todos": "a tool", "examples/web": "approvals", "examples/sandbox": "the sandbox", "examples/bot": "policy and sandbox",
	"examples/session": "sessions and snapshots", "examples/tutorial/read": "tools", "examples/tutorial/edit": "approvals",
	"examples/tutorial/chat": "the policy",
}

// A host that shows no layer composes its agent with package harness.
func TestExamplesCompose(t *testing.T) {
	found := map[string]bool{}
	for _, s := range sources(t) {
		if !strings.HasPrefix(s.dir, "examples/") || s.test() {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok && called(call.Fun) == "aycoder.New" {
				found[s.dir] = true
			}
			return true
		})
	}
	for dir := range found {
		require.NotEmpty(t, layers[dir], "%s calls aycoder.New: use harness.New, or say in the list which layer it shows", dir)
	}
	require.Len(t, found, len(layers))
}

// comments counts the package comments of each directory. Each package must have one.
func comments(files []source) map[string]int {
	n := map[string]int{}
	for _, s := range files {
		if s.test() {
			continue
		}
		n[s.dir] += 0
		if s.file.Doc != nil {
			n[s.dir]++
		}
	}
	return n
}

func TestPackageComments(t *testing.T) {
	for dir, n := range comments(sources(t)) {
		if n != 1 {
			t.Errorf("%s has %d package comments, want 1", dir, n)
		}
	}
	parse := func(src string) source {
		f, err := parser.ParseFile(token.NewFileSet(), "a.go", src, parser.ParseComments)
		require.NoError(t, err)
		return source{"x", "a.go", f}
	}
	with, without := parse("// Package x is.\npackage x"), parse("// No comment.\n\npackage x")
	require.Equal(t, 0, comments([]source{without})["x"])
	require.Equal(t, 1, comments([]source{with, without})["x"])
	require.Equal(t, 2, comments([]source{with, with})["x"])
}

// direct returns the modules that a go.mod requires directly.
func direct(gomod string) []string {
	var out []string
	inside := false
	for line := range strings.Lines(gomod) {
		line = strings.TrimSpace(line)
		rest, single := strings.CutPrefix(line, "require ")
		switch {
		case rest == "(":
			inside = true
		case line == ")":
			inside = false
		case (inside || single) && !strings.HasSuffix(line, "// indirect"):
			if fields := strings.Fields(rest); len(fields) > 1 {
				out = append(out, fields[0])
			}
		}
	}
	return out
}

func TestDirectModules(t *testing.T) {
	data, err := os.ReadFile("go.mod")
	require.NoError(t, err)
	found := direct(string(data))
	require.NotEmpty(t, found)
	require.Subset(t, modules, found)

	found = direct("require a.b/c v1\nrequire (\n\td.e/f v2\n\tg.h/i v3 // indirect\n)\n")
	require.Equal(t, []string{"a.b/c", "d.e/f"}, found)
}

// A program that imports the root package does not link packages that only tests need.
func TestRootLinks(t *testing.T) {
	seen := map[string]bool{}
	var visit func(dir string)
	visit = func(dir string) {
		pkg, err := build.ImportDir(dir, 0)
		require.NoError(t, err)
		for _, p := range pkg.Imports {
			if rel, ok := strings.CutPrefix(p, module+"/"); ok && !seen[p] {
				seen[p] = true
				visit(rel)
				continue
			}
			seen[p] = true
		}
	}
	visit(".")
	for _, p := range []string{"testing", "net/http", "os/exec", "flag", "fmt"} {
		want := p == "fmt"
		require.Equal(t, want, seen[p], fmt.Sprintf("root links %s", p))
	}
}

// Neither the root package nor the tools bring a server or OpenTelemetry with them, and the root brings no network. The code
// graph does without html, which takes 65 kB for its table of entities, even if only EscapeString is called.
func TestDependencies(t *testing.T) {
	timed.Serial(t)
	for pkg, unwanted := range map[string][]string{
		".":           {"go.opentelemetry.io", "github.com/prometheus", "net/http", module + "/server", module + "/egress", module + "/tools"},
		"./tools":     {"go.opentelemetry.io", "github.com/prometheus", "net/http/httptest", "net/http/pprof", "expvar", module + "/server", module + "/harness"},
		"./retrieval": {"html", module + "/server", module + "/tools"},
	} {
		out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", pkg).Output()
		require.NoError(t, err)
		deps := strings.Fields(string(out))
		require.Contains(t, deps, "fmt")
		for _, dep := range deps {
			require.False(t, within(dep, unwanted...), "%s needs %s", pkg, dep)
		}
	}
}
