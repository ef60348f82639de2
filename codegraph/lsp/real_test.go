package lsp_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/aycoder/aycoder/codegraph/lsp"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
	"github.com/stretchr/testify/require"
)

// installed returns a server of this machine with its configuration: its program is in PATH, or in a variable.
func installed(t testing.TB, name, variable string) lsp.Server {
	t.Helper()
	s, ok := lsp.Known(name)
	require.True(t, ok)
	path := os.Getenv(variable)
	if path == "" {
		var err error
		if path, err = exec.LookPath(name); err != nil {
			t.Skipf("%s is not installed: set %s to its path", name, variable)
		}
	}
	s.Command[0] = path
	s.Memory = -1
	return s
}

// repository returns the directory of a checked-out repository.
func repository(t testing.TB, name string) string {
	t.Helper()
	timed.Long(t, "a language server on "+name)
	dir := filepath.Join(os.Getenv("AYCODER_REPOS"), name)
	if _, err := os.Stat(dir); err != nil || os.Getenv("AYCODER_REPOS") == "" {
		t.Skip("AYCODER_REPOS is not set to a directory that has " + name)
	}
	return dir
}

func clientOf(t testing.TB, dir string, opts ...lsp.Option) *lsp.Client {
	ws, err := workspace.Open(dir)
	require.NoError(t, err)
	t.Cleanup(func() { ws.Close() })
	c, err := lsp.New(ws, opts...)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

// count returns how many cases a test with a real server has.
func count(t testing.TB, otherwise int) int {
	n, err := strconv.Atoi(os.Getenv("AYCODER_LSP_CASES"))
	if err != nil {
		return otherwise
	}
	return n
}

// passed returns the environment of a server.
func passed(t testing.TB) []string {
	e, err := tools.LocalExec()
	require.NoError(t, err)
	return e.(tools.RemoteExec).Environ()
}

// python returns the interpreter itself: the launcher of pyenv would change the variables of what it starts.
func python(t testing.TB) string {
	out, err := exec.CommandContext(t.Context(), "python3", "-I", "-c", "import sys; print(sys.executable)").Output()
	if err != nil {
		t.Skip("python3 is not installed")
	}
	return strings.TrimSpace(string(out))
}

type asked struct {
	Path                   string
	Line, Column           int
	Name                   string
	Definition, References [][3]any
	Refused                [2]bool
}

// places turns an answer of the client into the form of the oracle.
func places(found []lsp.Location) [][3]any {
	out := [][3]any{}
	for _, at := range found {
		out = append(out, [3]any{at.Path, float64(at.Line), float64(at.Column)})
	}
	return out
}

// Definitions and references are those that another client gets from the same server.
func TestSameAnswers(t *testing.T) {
	for _, tt := range []struct{ server, variable, repo, ext, language, settings string }{
		{"gopls", "AYCODER_GOPLS", "go-sdk", ".go", "go", `{}`},
		{"gopls", "AYCODER_GOPLS", "crush", ".go", "go", `{}`},
		{"gopls", "AYCODER_GOPLS", "adk-go", ".go", "go", `{}`},
		{"pyright-langserver", "AYCODER_PYRIGHT", "aider", ".py", "python", `{"python":{"analysis":{"diagnosticMode":"openFilesOnly"}}}`},
		{"pyright-langserver", "AYCODER_PYRIGHT", "ayder-cli", ".py", "python", `{"python":{"analysis":{"diagnosticMode":"openFilesOnly"}}}`},
	} {
		t.Run(tt.repo, func(t *testing.T) {
			s, dir := installed(t, tt.server, tt.variable), repository(t, tt.repo)
			script, err := filepath.Abs("testdata/oracle.py")
			require.NoError(t, err)
			oracle := exec.CommandContext(t.Context(), python(t), append([]string{"-I", script, dir, tt.ext, tt.language,
				strconv.Itoa(count(t, 30)), tt.settings}, s.Command...)...)
			oracle.Stderr, oracle.Env, oracle.Dir = os.Stderr, passed(t), dir // pyright finds its interpreter by these
			out, err := oracle.Output()
			require.NoError(t, err)
			c := clientOf(t, dir, lsp.WithServer(s))
			compared, places := 0, 0
			for in := bufio.NewScanner(bytes.NewReader(out)); in.Scan(); {
				var a asked
				require.NoError(t, json.Unmarshal(in.Bytes(), &a))
				compared += same(t, c, &a)
				places += len(a.Definition) + len(a.References)
			}
			t.Logf("%d answers with %d places are the same", compared, places)
			require.Greater(t, compared, 0)
		})
	}
}

// same compares the answers about one name, and returns how many there were.
func same(t *testing.T, c *lsp.Client, a *asked) (compared int) {
	for i, ask := range []func(context.Context, string, lsp.Position) ([]lsp.Location, error){c.Definition, c.References} {
		found, err := ask(t.Context(), a.Path, lsp.Position{Line: a.Line, Column: a.Column})
		if a.Refused[i] {
			require.Error(t, err)
			continue
		}
		require.NoError(t, err, "%s:%d:%d %s", a.Path, a.Line, a.Column, a.Name)
		require.ElementsMatch(t, [][][3]any{a.Definition, a.References}[i], places(found), "%s:%d:%d %s", a.Path, a.Line, a.Column, a.Name)
		if len(found) > 0 {
			compared++
		}
	}
	return compared
}

// Definitions are those that the command line of gopls prints, which does not speak the protocol's units.
func TestGoplsCommandLine(t *testing.T) {
	s, dir := installed(t, "gopls", "AYCODER_GOPLS"), repository(t, "go-sdk")
	c, compared := clientOf(t, dir, lsp.WithServer(s)), 0
	for _, at := range []struct {
		path         string
		line, column int
	}{{"mcp/tool.go", 34, 7}, {"mcp/client.go", 40, 6}, {"mcp/server.go", 60, 2}, {"mcp/tool.go", 30, 23}, {"mcp/tool.go", 30, 59}} {
		from := fmt.Sprintf("%s:%d:%d", at.path, at.line, at.column)
		found, err := c.Definition(t.Context(), at.path, lsp.Position{Line: at.line, Column: at.column})
		if err == nil && len(found) > 0 {
			require.Equal(t, cli(t, s, dir, "definition", from)[:1], shown(dir, found), from)
			compared++
		}
		found, err = c.References(t.Context(), at.path, lsp.Position{Line: at.line, Column: at.column})
		if err == nil && len(found) > 0 {
			require.ElementsMatch(t, cli(t, s, dir, "references", "-d", from), shown(dir, found), from)
			compared++
		}
	}
	require.Greater(t, compared, 3)
	t.Logf("%d answers are the same", compared)
}

// shown returns places as the command line prints them.
func shown(dir string, found []lsp.Location) (out []string) {
	for _, at := range found {
		if at.Outside {
			out = append(out, fmt.Sprintf("%s:%d", at.Path, at.Line))
			continue
		}
		out = append(out, fmt.Sprintf("%s:%d:%d", filepath.Join(dir, at.Path), at.Line, at.Column))
	}
	return out
}

// cli returns the places that a command of gopls prints, which are path:line:column-column.
func cli(t *testing.T, s lsp.Server, dir string, args ...string) (out []string) {
	cmd := exec.CommandContext(t.Context(), s.Command[0], args...)
	cmd.Dir = dir
	printed, err := cmd.Output()
	require.NoError(t, err)
	for _, m := range regexp.MustCompile(`(?m)^(/.*?):(\d+):(\d+)-`).FindAllStringSubmatch(string(printed), -1) {
		at := m[1] + ":" + m[2] + ":" + m[3]
		if !strings.HasPrefix(m[1], dir+"/") {
			at = m[1] + ":" + m[2]
		}
		out = append(out, at)
	}
	return out
}

// A rename right after the start is whole, although pyright then still looks for files.
func TestFirstRenameIsWhole(t *testing.T) {
	w := newWorld(t, map[string]string{"a.py": "def foo(x):\n    return x\n", "b.py": "from a import foo\nprint(foo(1))\n"},
		lsp.WithServer(installed(t, "pyright-langserver", "AYCODER_PYRIGHT")))
	files, err := w.client.Rename(t.Context(), "a.py", lsp.Position{Line: 1, Column: 5}, "bar")
	require.NoError(t, err)
	require.Len(t, files, 2)
	require.Equal(t, "from a import bar\nprint(bar(1))\n", files[1].Proposed)
}

// The first answer is whole, although the server then still loads the project.
func TestFirstReferencesAreWhole(t *testing.T) {
	files := map[string]string{"tsconfig.json": `{"include": ["**/*.ts"]}`, "a.ts": "export function foo(x: number) {\n  return x;\n}\n"}
	want := [][3]any{{"a.ts", float64(1), float64(17)}}
	for i := range 20 {
		name := fmt.Sprintf("b%02d.ts", i)
		files[name] = "import { foo } from \"./a\";\nfoo(1);\n"
		want = append(want, [3]any{name, float64(1), float64(10)}, [3]any{name, float64(2), float64(1)})
	}
	w := newWorld(t, files, lsp.WithServer(installed(t, "typescript-language-server", "AYCODER_TYPESCRIPT")))
	found, err := w.client.References(t.Context(), "a.ts", lsp.Position{Line: 1, Column: 17})
	require.NoError(t, err)
	require.Equal(t, want, places(found))
}
