package aycoder_test

import (
	"bufio"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/internal/timed"
)

// Coverage of a part of a real run says what an approved edit costs, and where its code is: see
// testdata/answer.
func TestApprovedEdit(t *testing.T) {
	timed.Long(t, "a program that is built with coverage")
	timed.Serial(t)
	program := filepath.Join(t.TempDir(), "answer")
	command(t, "go", "build", "-cover", "-covermode=atomic", "-o="+program, "-coverpkg="+module+",encoding/json,"+
		"./testdata/answer,./internal/schema,./internal/editmatch", "./testdata/answer")
	covered := func(t *testing.T, args ...string) []block {
		out := t.TempDir()
		command(t, program, append(args, out)...)
		command(t, "go", "tool", "covdata", "textfmt", "-i="+out, "-o="+filepath.Join(out, "profile"))
		return readProfile(t, filepath.Join(out, "profile"))
	}

	// Whoever wants to know what an answer does until the tool starts reads one page.
	t.Run("on one page", func(t *testing.T) {
		lines, all := map[string]int{}, 0
		for _, b := range covered(t, "answer", "edit") {
			if b.count > 0 && filepath.Dir(b.file) == module {
				lines[filepath.Base(b.file)] += b.statements
				all += b.statements
			}
		}
		page := lines["approval.go"]
		for _, name := range slices.Sorted(maps.Keys(lines)) {
			t.Logf("%4d %s", lines[name], name)
		}
		t.Logf("%d statements in %d files, %.1f %% of them in approval.go", all, len(lines), 100*float64(page)/float64(all))
		require.LessOrEqual(t, len(lines), 8, "files")
		require.GreaterOrEqual(t, 100*page, 70*all, "statements in approval.go")
	})

	// Arguments are validated once. They are decoded three times: for the subject, which is
	// two calls, by the tool, and for the digest. The text is matched once. With other
	// arguments, these are validated, decoded and matched like the first, and compared with
	// them in the form that the digest is made of.
	for how, want := range map[string]map[string]int{
		"allow": {"Schema.validate": 1, "Plan": 1, "Unmarshal": 3, "Decoder.Decode": 1},
		"edit":  {"Schema.validate": 2, "Plan": 2, "Unmarshal": 6, "Decoder.Decode": 3},
	} {
		t.Run("once/"+how, func(t *testing.T) {
			got := callCounts(t, covered(t, "call", how))
			for name := range got {
				if _, ok := want[name]; !ok {
					delete(got, name)
				}
			}
			require.Equal(t, want, got)
		})
	}
}

func command(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Env = append(os.Environ(), "GOCOVERDIR="+t.TempDir())
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s %s: %s", name, args, out)
	return string(out)
}

// A block of statements, and how often it ran.
type block struct {
	file                            string // import path and name
	line, column, statements, count int
}

func readProfile(t *testing.T, name string) (blocks []block) {
	f, err := os.Open(name)
	require.NoError(t, err)
	defer f.Close()
	r := bufio.NewScanner(f)
	require.True(t, r.Scan(), "mode")
	for r.Scan() {
		var b block
		at := strings.LastIndexByte(r.Text(), ':')
		_, err := fmt.Sscanf(r.Text()[at+1:], "%d.%d,%s %d %d", &b.line, &b.column, new(string), &b.statements, &b.count)
		require.NoError(t, err, r.Text())
		b.file = r.Text()[:at]
		blocks = append(blocks, b)
	}
	require.NoError(t, r.Err())
	return blocks
}

// callCounts returns how often each function was called, except for those of this package.
func callCounts(t *testing.T, blocks []block) map[string]int {
	first := map[string]map[int]block{} // of a line
	for _, b := range blocks {
		lines := first[b.file]
		if lines == nil {
			lines = map[int]block{}
			first[b.file] = lines
		}
		if before, ok := lines[b.line]; !ok || b.column < before.column {
			lines[b.line] = b
		}
	}
	out, root := map[string]int{}, strings.TrimSpace(command(t, "go", "env", "GOROOT"))
	for file, lines := range first {
		path, own := strings.CutPrefix(file, module+"/")
		switch {
		case !own:
			path = filepath.Join(root, "src", file)
		case !strings.HasPrefix(path, "internal/"):
			continue
		}
		fset := token.NewFileSet()
		parsed, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, d := range parsed.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			if b, ok := lines[fset.Position(fn.Body.Lbrace).Line]; ok && b.count > 0 {
				out[receiver(fn)+fn.Name.Name] += b.count
			}
		}
	}
	return out
}

func receiver(fn *ast.FuncDecl) string {
	if fn.Recv == nil {
		return ""
	}
	of := fn.Recv.List[0].Type
	if star, ok := of.(*ast.StarExpr); ok {
		of = star.X
	}
	if name, ok := of.(*ast.Ident); ok {
		return name.Name + "."
	}
	return ""
}
