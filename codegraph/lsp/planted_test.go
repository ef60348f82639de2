package lsp_test

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aycoder/aycoder/codegraph/lsp"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
	"github.com/stretchr/testify/require"
)

// copied returns a world with a copy of a repository, without its history.
func copied(t testing.TB, repo string) *world {
	w := &world{TB: t, dir: filepath.Join(t.TempDir(), "ws")}
	require.NoError(t, os.CopyFS(w.dir, os.DirFS(repository(t, repo))))
	require.NoError(t, os.RemoveAll(filepath.Join(w.dir, ".git")))
	ws, err := workspace.Open(w.dir)
	require.NoError(t, err)
	t.Cleanup(func() { ws.Close() })
	w.ws = ws
	return w
}

// connect makes the client, once the files are as they are before the first edit.
func (w *world) connect(s lsp.Server) {
	var err error
	w.client, err = lsp.New(w.ws, lsp.WithServer(s), lsp.WithWait(5*time.Minute))
	require.NoError(w, err)
	w.Cleanup(func() { w.client.Close() })
	tool, err := tools.WriteFile(w.ws)
	require.NoError(w, err)
	w.edit = w.client.Middleware(tool.Call)
}

// sources returns the files with an extension, without tests and generated directories.
func (w *world) sources(ext string, not ...string) (names []string) {
	require.NoError(w, filepath.WalkDir(w.dir, func(p string, d fs.DirEntry, err error) error {
		name, _ := filepath.Rel(w.dir, p)
		if d.IsDir() && name != "." && slices.ContainsFunc(append(not, ".", "_", "testdata"), func(n string) bool {
			return strings.HasPrefix(d.Name(), n)
		}) {
			return filepath.SkipDir
		}
		if strings.HasSuffix(name, ext) && !strings.HasSuffix(name, "_test.go") && !d.IsDir() {
			names = append(names, filepath.ToSlash(name))
		}
		return err
	}))
	return names
}

var place = regexp.MustCompile(`(?m)^(?:\./)?([^\s:]+):(\d+):`)

// lines returns the places in an output as path:line, without those that are known.
func lines(out string, known map[string]bool) (found []string) {
	for _, m := range place.FindAllStringSubmatch(out, -1) {
		if at := m[1] + ":" + m[2]; !known[at] && !slices.Contains(found, at) {
			found = append(found, at)
		}
	}
	slices.Sort(found)
	return found
}

// breakGo plants an error of a kind in a source file, or returns "". It moves no line.
func breakGo(src string, kind int, r *rand.Rand) string {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "x.go", src, parser.SkipObjectResolution)
	if err != nil || strings.Contains(src, "//go:build") {
		return ""
	}
	var uses, imports, declared []token.Pos
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if id, ok := n.Fun.(*ast.Ident); ok {
				uses = append(uses, id.End())
			}
			if sel, ok := n.Fun.(*ast.SelectorExpr); ok {
				uses = append(uses, sel.Sel.End())
			}
		case *ast.ImportSpec:
			if n.Name == nil {
				imports = append(imports, n.Path.Pos())
			}
		case *ast.FuncDecl:
			declared = append(declared, n.Name.End())
		}
		return true
	})
	insert := func(at []token.Pos, text string) string {
		if len(at) == 0 {
			return ""
		}
		i := fset.Position(at[r.IntN(len(at))]).Offset
		return src[:i] + text + src[i:]
	}
	switch kind % 5 {
	case 0:
		return insert(uses, "Planted")
	case 1:
		return src + "var planted int = \"text\"\n"
	case 2:
		return insert(imports, "_ ")
	case 3:
		return insert(declared, "Planted")
	}
	return src + "func planted() int { return }\n"
}

// Each error that the compiler finds after an edit is reported, and none that was there before.
func TestPlantedGo(t *testing.T) {
	s := installed(t, "gopls", "AYCODER_GOPLS")
	w := copied(t, "go-sdk")
	compile := func() string {
		cmd := exec.CommandContext(t.Context(), "go", "build", "-gcflags=-e", "./...")
		cmd.Dir = w.dir
		out, _ := cmd.CombinedOutput() // it fails where there are errors
		return string(out)
	}
	r := rand.New(rand.NewPCG(1, 2))
	names := w.sources(".go")
	known := map[string]bool{}
	for _, name := range []string{"mcp/tool.go", "mcp/client.go"} { // errors that are there before
		w.write(name, w.text(name)+"\nvar oldError int = \"old\"\n")
	}
	for _, at := range lines(compile(), nil) {
		known[at] = true
	}
	require.NotEmpty(t, known)
	w.connect(s)
	var took []time.Duration
	for done, kind := 0, 0; done < count(t, 10); kind++ {
		name := names[r.IntN(len(names))]
		if kind%4 == 0 {
			name = []string{"mcp/tool.go", "mcp/client.go"}[kind/4%2]
		}
		src := w.text(name)
		broken := breakGo(src, kind, r)
		if broken == "" {
			continue
		}
		var reported string
		took = append(took, timed.Best(1, func() { reported = w.save(name, broken) }))
		want := lines(compile(), known)
		got := lines(reported, nil)
		for _, at := range got {
			require.False(t, known[at], "%s was there before:\n%s", at, reported)
		}
		if len(want) > 0 {
			done++
			for _, at := range want {
				if !slices.Contains(got, at) && !strings.Contains(reported, "more errors are not shown") {
					t.Errorf("edit %d (kind %d) of %s: %s is missing in %s", kind, kind%5, name, at, reported)
				}
			}
			require.NotEmpty(t, got)
		}
		require.Empty(t, w.save(name, src), "what takes the errors back has none")
	}
	slices.Sort(took)
	t.Logf("%d edits, median %v, slowest %v", len(took), took[len(took)/2], took[len(took)-1])
}

// breakPython plants an error of a kind in a source file. It moves no line.
func breakPython(src string, kind int, r *rand.Rand) string {
	calls := regexp.MustCompile(`(?m)^ +.*?\b([a-z_]+)\(`).FindAllStringSubmatchIndex(src, -1)
	switch kind % 5 {
	case 0:
		if len(calls) == 0 {
			return ""
		}
		at := calls[r.IntN(len(calls))][3]
		return src[:at] + "_planted" + src[at:]
	case 1:
		return src + "planted: int = \"text\"\n"
	case 2:
		return src + "import os as planted_os\nplanted_os.no_such_function()\n"
	case 3:
		return src + "def planted() -> int:\n    return \"text\"\n"
	}
	return src + "planted = (1,\n"
}

// The errors after an edit are those that the command line of pyright finds, without those of before.
func TestPlantedPython(t *testing.T) {
	s := installed(t, "pyright-langserver", "AYCODER_PYRIGHT")
	w := copied(t, "aider")
	r := rand.New(rand.NewPCG(3, 4))
	names := w.sources(".py", "tests", "benchmark")
	r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	names = names[:min(len(names), count(t, 10))]
	check := func() map[string]string { // the messages by place
		cmd := exec.CommandContext(t.Context(), filepath.Join(filepath.Dir(s.Command[0]), "pyright"),
			append([]string{"--outputjson"}, names...)...)
		cmd.Dir, cmd.Env = w.dir, passed(t)
		out, _ := cmd.Output() // it fails where there are errors
		var report struct {
			Diagnostics []struct {
				File, Severity, Message string
				Range                   struct{ Start struct{ Line int } }
			} `json:"generalDiagnostics"`
		}
		require.NoError(t, json.Unmarshal(out, &report))
		found := map[string]string{}
		for _, d := range report.Diagnostics {
			if name, err := filepath.Rel(w.dir, d.File); err == nil && d.Severity == "error" {
				found[fmt.Sprintf("%s:%d", name, d.Range.Start.Line+1)] += strings.Split(d.Message, "\n")[0] + "\n"
			}
		}
		return found
	}
	known := check()
	w.connect(s)
	reported := map[string]string{}
	var took []time.Duration
	for kind, name := range names {
		broken := breakPython(w.text(name), kind, r)
		if broken == "" {
			continue
		}
		took = append(took, timed.Best(1, func() { reported[name] = w.save(name, broken) }))
	}
	now, planted := check(), 0
	for name, out := range reported {
		var want []string
		for at := range now {
			if strings.HasPrefix(at, name+":") && known[at] == "" {
				want = append(want, at)
			}
		}
		if slices.Sort(want); len(want) > 0 {
			planted++
		}
		got := slices.DeleteFunc(lines(out, nil), func(at string) bool { return !strings.HasPrefix(at, name+":") })
		require.Subset(t, got, want, "%s: %s", name, out)
		for _, at := range got {
			require.NotEmpty(t, now[at], "%s is no error", at)
			for line := range strings.Lines(known[at]) { // another error may be in the same line
				require.NotContains(t, out, at+": "+strings.TrimSpace(line), "it was there before")
			}
		}
	}
	slices.Sort(took)
	t.Logf("%d edits with errors, %d errors before, median %v, slowest %v", planted, len(known), took[len(took)/2], took[len(took)-1])
	require.Greater(t, planted, len(names)/2)
}
