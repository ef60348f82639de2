package aycoder_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/doc"
	"go/doc/comment"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/aycoder/aycoder/internal/timed"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the code of documents, and the list of exported names, anew from their sources")

// A cut is a block of a document that was copied from a source, which it names:
//
//	<!-- examples/hello/main.go -->         the file
//	<!-- example_test.go ExampleRules -->   the body of the function
//	<!-- output example_test.go Example --> what it prints, which go test checks
var cut = regexp.MustCompile("(?m)^<!-- (output )?([\\w/.-]+\\.go)(?: (\\w+))? -->\n```(\\w+)\n((?s:.*?))^```$")

// fence matches the beginning of a block of Go.
var fence = regexp.MustCompile("(?m)^```go$")

// weave returns the document with its blocks updated from their sources.
func weave(document string) (string, error) {
	var errs []error
	out := cut.ReplaceAllStringFunc(document, func(block string) string {
		m := cut.FindStringSubmatch(block)
		text, err := cutFrom(m[2], m[3], m[1] != "")
		errs = append(errs, err)
		head, _, _ := strings.Cut(block, "```")
		return head + "```" + m[4] + "\n" + text + "```"
	})
	woven := 0
	for _, m := range cut.FindAllStringSubmatch(document, -1) {
		if m[4] == "go" {
			woven++
		}
	}
	if n := len(fence.FindAllString(document, -1)); n != woven {
		errs = append(errs, fmt.Errorf("%d of %d blocks of Go name no source", n-woven, n))
	}
	return out, errors.Join(errs...)
}

// cutFrom returns the source of a block: a file, the body of a function in it, or the
// output of the function.
func cutFrom(file, function string, output bool) (string, error) {
	src, err := os.ReadFile(filepath.FromSlash(file))
	if err != nil {
		return "", err
	}
	if function == "" {
		return string(src), nil
	}
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, file, src, parser.ParseComments)
	if err != nil {
		return "", err
	}
	for _, ex := range doc.Examples(f) {
		if "Example"+ex.Name == function && output {
			return ex.Output, nil
		}
	}
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Name.Name == function && !output {
			from, to := fset.Position(fn.Body.Lbrace), fset.Position(fn.Body.Rbrace)
			return body(src[from.Offset+1 : to.Offset]), nil
		}
	}
	return "", fmt.Errorf("%s has no function %s", file, function)
}

// body removes the expected output from a function's body, and one tab from each line.
func body(src []byte) string {
	if i := bytes.Index(src, []byte("\t// Output:")); i >= 0 {
		src = src[:i]
	}
	var out strings.Builder
	for line := range strings.Lines(strings.Trim(string(src), "\n") + "\n") {
		out.WriteString(strings.TrimPrefix(line, "\t"))
	}
	return out.String()
}

func TestDocumentsMatchTheirSources(t *testing.T) {
	documents, err := filepath.Glob("docs/*.md")
	require.NoError(t, err)
	for _, name := range append(documents, "README.md") {
		data, err := os.ReadFile(name)
		require.NoError(t, err)
		want, err := weave(string(data))
		require.NoError(t, err, name)
		if *update && want != string(data) {
			require.NoError(t, os.WriteFile(name, []byte(want), 0o644))
			continue
		}
		require.Equal(t, want, string(data), "%s: run go test -run TestDocuments -update .", name)
	}
}

func TestDocumentsWeave(t *testing.T) {
	const hello = "examples/hello/main.go"
	code, err := os.ReadFile(hello)
	require.NoError(t, err)
	tests := []struct{ name, document, want, err string }{
		{"file", "<!-- " + hello + " -->\n```go\nold\n```\nand", "<!-- " + hello + " -->\n```go\n" + string(code) + "```\nand", ""},
		{"output", "<!-- output example_test.go ExampleComplete -->\n```text\n```", "<!-- output example_test.go ExampleComplete -->\n```text\nend_turn 2 A monoid of endofunctors.\n```", ""},
		{"no source", "```go\nx\n```", "", "1 of 1 blocks of Go name no source"},
		{"no such function", "<!-- example_test.go ExampleX -->\n```go\n```", "", "has no function ExampleX"},
		{"no such file", "<!-- x.go -->\n```go\n```", "", "x.go"},
		{"another language", "```sh\nls\n```", "```sh\nls\n```", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := weave(tt.document)
			if tt.err != "" {
				require.ErrorContains(t, err, tt.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tt.want, got)
		})
	}
}

// The code in the package comment also stands in the examples, which are run.
func TestDocumentsPackageComment(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "doc.go", nil, parser.ParseComments)
	require.NoError(t, err)
	var examples strings.Builder
	for _, name := range []string{"example_test.go", "example_seams_test.go"} {
		src, err := os.ReadFile(name)
		require.NoError(t, err)
		examples.WriteString(flat(string(src)))
	}
	blocks := 0
	for _, b := range new(comment.Parser).Parse(f.Doc.Text()).Content {
		if code, ok := b.(*comment.Code); ok {
			blocks++
			require.Contains(t, examples.String(), flat(code.Text))
		}
	}
	require.Greater(t, blocks, 5)
	require.NotContains(t, examples.String(), flat("agent.Walk(ctx)"))
}

// The code in package comments is whole statements or declarations, and the names that it takes from packages are there.
func TestDocumentsPackageComments(t *testing.T) {
	names := map[string][]string{}
	for _, s := range sources(t) {
		if !s.test() {
			names[s.file.Name.Name] = append(names[s.file.Name.Name], exported(s.file)...)
		}
	}
	blocks := 0
	for _, s := range sources(t) {
		if s.test() || s.file.Doc == nil {
			continue
		}
		for _, b := range new(comment.Parser).Parse(s.file.Doc.Text()).Content {
			code, ok := b.(*comment.Code)
			if !ok || !strings.Contains(code.Text, ":=") {
				continue
			}
			blocks++
			text := strings.ReplaceAll(code.Text, "…", "")
			f, err := parser.ParseFile(token.NewFileSet(), "", "package x\nfunc _() {\n"+text+"}", 0)
			if err != nil {
				f, err = parser.ParseFile(token.NewFileSet(), "", "package x\n"+text, 0)
			}
			require.NoError(t, err, "%s/%s:\n%s", s.dir, s.name, code.Text)
			for n := range ast.Preorder(f) {
				sel, ok := n.(*ast.SelectorExpr)
				if !ok {
					continue
				}
				if x, ok := sel.X.(*ast.Ident); ok && x.Obj == nil && names[x.Name] != nil { // a package, and not a variable
					require.Contains(t, names[x.Name], sel.Sel.Name, "%s/%s: %s", s.dir, s.name, x.Name)
				}
			}
		}
	}
	require.Greater(t, blocks, 50)
}

// flat removes the indentation of every line.
func flat(s string) string {
	var out strings.Builder
	out.WriteByte('\n')
	for line := range strings.Lines(s) {
		out.WriteString(strings.TrimSpace(line) + "\n")
	}
	return out.String()
}

// Links from documents lead to existing files, and to headings in them.
func TestDocumentsLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#]*)#?([^)]*)\)`)
	code := regexp.MustCompile("(?ms)^```.*?^```")
	documents, err := filepath.Glob("docs/*.md")
	require.NoError(t, err)
	for _, name := range append(documents, "README.md", "CHANGELOG.md") {
		data, err := os.ReadFile(name)
		require.NoError(t, err)
		for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(string(data), ""), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			target := filepath.FromSlash(name)
			if m[1] != "" {
				target = filepath.FromSlash(path.Join(path.Dir(filepath.ToSlash(name)), m[1]))
			}
			_, err := os.Stat(target)
			require.NoError(t, err, "%s links to %s", name, m[1])
			if m[2] != "" {
				text, err := os.ReadFile(target)
				require.NoError(t, err)
				require.Contains(t, anchors(code.ReplaceAllString(string(text), "")), m[2], "%s links to a heading of %s", name, target)
			}
		}
	}
}

// anchors returns the names by which links refer to the headings of a document.
func anchors(document string) (names []string) {
	for _, m := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(document, -1) {
		name := regexp.MustCompile(`[^\pL\pN _-]`).ReplaceAllString(strings.ToLower(m[1]), "")
		names = append(names, strings.ReplaceAll(name, " ", "-"))
	}
	return names
}

func TestDocumentsAnchors(t *testing.T) {
	require.Equal(t, []string{"its-test", "if-its-slow", "x_y-1"}, anchors("## Its test\ntext\n### If it's slow?\n# `x_y` 1\n"))
}

// Names in documents exist, so that a name which is changed is also changed there: aycoder.New
// in its package, and New alone in any package. A guide for migration has the names of another
// library in its first column and in its prose.
func TestDocumentsNames(t *testing.T) {
	timed.Serial(t)
	known, members := exportedNames(t)
	quoted, name := regexp.MustCompile("`([^`]+)`"), regexp.MustCompile(`^(?:([a-z]+)\.)?([A-Z]\w*[a-z]\w*)`)
	code := regexp.MustCompile("(?ms)^```.*?^```")
	documents, err := filepath.Glob("docs/*.md")
	require.NoError(t, err)
	checked := 0
	for _, document := range append(documents, "README.md") {
		data, err := os.ReadFile(document)
		require.NoError(t, err)
		for line := range strings.Lines(code.ReplaceAllString(string(data), "")) {
			if strings.HasPrefix(filepath.Base(document), "from-") {
				_, line, _ = strings.Cut(strings.TrimPrefix(line, "|"), "|")
			}
			for _, m := range quoted.FindAllStringSubmatch(line, -1) {
				n := name.FindStringSubmatch(m[1])
				if n == nil || n[1] != "" && known[n[1]] == nil || n[1] == "" && document == filepath.Join("docs", "design.md") {
					continue // design.md speaks of other libraries, too
				}
				checked++
				if n[1] == "" && !members[n[2]] || n[1] != "" && !known[n[1]][n[2]] {
					t.Errorf("%s: there is no %s", document, n[0])
				}
			}
		}
	}
	require.Greater(t, checked, 50)
	t.Logf("%d names", checked)
}

// exportedNames returns the exported names of each package, by the name of the package, and
// those of all packages together, with methods and fields.
func exportedNames(t *testing.T) (known map[string]map[string]bool, members map[string]bool) {
	known, members = make(map[string]map[string]bool), make(map[string]bool)
	for _, s := range sources(t) {
		pkg := s.file.Name.Name
		if s.test() || pkg == "main" || strings.HasPrefix(s.dir, "internal") {
			continue
		}
		if known[pkg] == nil {
			known[pkg] = make(map[string]bool)
		}
		for _, name := range exported(s.file) {
			known[pkg][name] = true
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.Ident:
				members[n.Name] = true
			case *ast.BlockStmt: // only declarations
				return false
			}
			return true
		})
	}
	return known, members
}
