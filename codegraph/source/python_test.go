package source_test

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/aycoder/aycoder/codegraph/source"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/stretchr/testify/require"
)

// importOracle prints, for each file that Python can parse, its path and the specifiers of its imports.
const importOracle = `
for path in files:
    try:
        with open(path, "rb") as f: tree = ast.parse(f.read())
    except (SyntaxError, ValueError, RecursionError): continue
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import): found += [a.name for a in node.names]
        elif isinstance(node, ast.ImportFrom): found.append("." * node.level + (node.module or ""))
    print(json.dumps([path, found]))
`

// askPython runs a program with every 200th file of Python, or all with AYCODER_PYTHON=all, and calls line with
// each line that it prints.
func askPython(t *testing.T, program string, line func([]byte)) {
	timed.Serial(t)
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not installed: there is nothing to compare with")
	}
	step := "200"
	if os.Getenv("AYCODER_PYTHON") == "all" {
		step = "1"
	}
	cmd := exec.CommandContext(t.Context(), python, "-c", pythonFiles+program, step)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	in := bufio.NewReader(out)
	for {
		data, err := in.ReadBytes('\n')
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
		line(data)
	}
	require.NoError(t, cmd.Wait())
}

// pythonFiles lists the sources of Python's library and of what is installed.
const pythonFiles = `
import ast, io, json, os, sys, symtable, tokenize, warnings
warnings.simplefilter("ignore")
files = set()
for root in {p for p in sys.path if os.path.isdir(p)}:
    for dir, _, names in os.walk(root):
        files |= {os.path.join(dir, n) for n in names if n.endswith(".py")}
files = sorted(files)[::int(sys.argv[1])]
`

// The specifiers of imports are those that Python itself finds, in its library and in what is installed.
func TestPythonImportsLikeAST(t *testing.T) {
	var imports score
	askPython(t, importOracle, func(line []byte) {
		var path string
		var want []string
		require.NoError(t, json.Unmarshal(line, &[]any{&path, &want}))
		src, err := os.ReadFile(path)
		require.NoError(t, err)
		for _, part := range []source.Part{source.ImportsOnly, source.All} {
			var got []string
			for _, i := range source.Scan(source.Python, src, part).Imports {
				got = append(got, i.Path)
			}
			imports.add(t, path, "import of", want, got)
		}
	})
	imports.require(t, "imports", 0.999, 0.9999)
}

// declOracle prints, for each file, the functions, classes and variables at its top and in its classes:
// name, whether it is in a class, first and last line; then the names of the top and of imports that it uses.
const declOracle = `
def targets(t):
    if isinstance(t, ast.Name): return [t.id]
    if isinstance(t, ast.Starred): return targets(t.value)
    if isinstance(t, (ast.Tuple, ast.List)): return [n for e in t.elts for n in targets(e)]
    return []

def visit(node, owner, out, seen):
    for c in ast.iter_child_nodes(node):
        if isinstance(c, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            out.append([c.name, owner, min([c.lineno] + [d.lineno for d in c.decorator_list]), c.end_lineno])
            if isinstance(c, ast.ClassDef): visit(c, c.name, out, set())
        elif isinstance(c, (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.For, ast.AsyncFor)):
            ts = c.targets if isinstance(c, ast.Assign) else [c.target]
            for n in [n for t in ts for n in targets(t)]:
                if n not in seen: out.append([n, owner, c.lineno, 0])
                seen.add(n)
        if not isinstance(c, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.expr)): visit(c, owner, out, seen)

def used(table, out, imports):
    for s in table.get_symbols():
        if s.is_imported(): imports.add(s.get_name())
        if (s.is_global() or table.get_type() == "module" or s.is_imported()) and s.is_referenced(): out.add(s.get_name())
    for c in table.get_children(): used(c, out, imports)

for path in files:
    try:
        with open(path, "rb") as f: src = f.read()
        tree = ast.parse(src)
        table = symtable.symtable(src.decode("utf-8").replace("from __future__ import annotations", "pass"), path, "exec")
    except (SyntaxError, ValueError, RecursionError): continue
    if any(isinstance(n, ast.ImportFrom) and n.names[0].name == "*" for n in ast.walk(tree)): continue
    decls, uses, imports = [], set(), set()
    visit(tree, "", decls, set())
    used(table, uses, imports)
    bound = {s.get_name() for s in table.get_symbols() if s.is_assigned() or s.is_imported() or s.is_namespace()} | imports
    print(json.dumps([path, decls, sorted(uses & bound)]))
`

// A score compares two collections.
type score struct{ want, got, hits int }

func (c *score) add(t *testing.T, path, what string, want, got []string) {
	left := map[string]int{}
	for _, s := range want {
		left[s]++
	}
	c.want, c.got = c.want+len(want), c.got+len(got)
	for _, s := range got {
		if left[s]--; left[s] >= 0 {
			c.hits++
		} else {
			t.Logf("%s: false %s %s", path, what, s)
		}
	}
	for s, n := range left {
		if n > 0 {
			t.Logf("%s: missed %s %s", path, what, s)
		}
	}
}

func (c *score) require(t *testing.T, what string, precision, recall float64) {
	t.Logf("%s: %+v", what, *c)
	require.Positive(t, c.want)
	require.GreaterOrEqual(t, float64(c.hits), recall*float64(c.want), what+" recall")
	require.GreaterOrEqual(t, float64(c.hits), precision*float64(c.got), what+" precision")
}

// Declarations and the names that are used are those that Python itself finds.
func TestPythonDeclsLikeAST(t *testing.T) {
	var decls, uses score
	askPython(t, declOracle, func(line []byte) {
		var path string
		var tree [][]any
		var used []string
		require.NoError(t, json.Unmarshal(line, &[]any{&path, &tree, &used}))
		src, err := os.ReadFile(path)
		require.NoError(t, err)
		f := source.Scan(source.Python, src, source.All)
		var want, got []string
		for _, d := range tree {
			want = append(want, fmt.Sprint(d...))
		}
		for _, d := range f.Decls {
			owner, last := "", 0
			if d.Parent >= 0 {
				owner = f.Decls[d.Parent].Name
			}
			first := 1 + bytes.Count(src[:firstCode(src, d.At)], []byte("\n"))
			if d.Kind <= source.Method || d.Kind == source.Class {
				last = 1 + bytes.Count(src[:d.At.End], []byte("\n"))
			}
			got = append(got, fmt.Sprint(d.Name, owner, first, last))
		}
		decls.add(t, path, "declaration", want, got)
		names := map[string]bool{}
		for _, u := range f.Uses {
			first, _, _ := strings.Cut(cmp.Or(u.Of, u.Name), ".")
			names[first] = true
		}
		uses.add(t, path, "use of", used, slices.Collect(maps.Keys(names)))
	})
	decls.require(t, "declarations", 0.999, 0.999)
	uses.require(t, "uses", 0.99, 0.99)
}

// firstCode returns where the first line of a declaration is that is not a comment.
func firstCode(src []byte, at source.Span) int {
	i := int(at.Start)
	for src[i] == '#' {
		i += bytes.IndexByte(src[i:], '\n') + 1
		i += len(src[i:]) - len(bytes.TrimLeft(src[i:], " \t"))
	}
	return i
}
