package lint_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/codegraph/lint"
)

func file(t *testing.T, name string) string {
	data, err := os.ReadFile(filepath.Join("testdata", name))
	require.NoError(t, err)
	return string(data)
}

// The outputs are those of Go 1.26.8, staticcheck 2026.1, ESLint 10, TypeScript 5.9 and Clippy 0.1.95. Those of Ruff and
// golangci-lint are from their documentation, and that in SARIF has the form of Ruff's.
func TestParse(t *testing.T) {
	for _, tt := range []struct {
		name   string
		format lint.Format
		out    string
		want   []lint.Finding
	}{
		{"go vet", lint.GoVet, "# x\n" + `{
	"x": {
		"printf": [
			{
				"posn": "/p/a.go:6:14",
				"end": "/p/a.go:6:16",
				"message": "fmt.Printf format %d has arg \"a\" of wrong type string"
			}
		],
		"stuck": {"error": "the analyzer failed"}
	}
}
{
	"y": {
		"any": [{"posn": "/p/b.go:10:8", "message": "m", "suggested_fixes": [{"message": "Replace interface{} by any", "edits": [{"filename": "/p/b.go", "start": 1, "end": 2, "new": "any"}]}]}]
	}
}
# x/sub
vet: sub/b.go:3:19: too many return values
	have (number)
	want ()
`, []lint.Finding{
			{"/p/a.go", 6, 14, "printf", `fmt.Printf format %d has arg "a" of wrong type string`, "", false},
			{"/p/b.go", 10, 8, "any", "m", "Replace interface{} by any", false},
			{"sub/b.go", 3, 19, "compile", "too many return values\n\thave (number)\n\twant ()", "", true},
		}},
		{"go fix", lint.GoFix, `--- /p/a.go (old)
+++ /p/a.go (new)
@@ -4,9 +4,9 @@
 
 func F() {
 	fmt.Printf("%d\n", "a")
-	for i := 0; i < 10; i++ {
+	for i := range 10 {
 		_ = i
 	}
-	var v interface{}
+	var v any
 	_ = v
 }
--- /p/b.go (old)
+++ /p/b.go (new)
@@ -1,2 +1 @@
--- a comment
-x
`, []lint.Finding{
			{"/p/a.go", 7, 0, "go fix", "outdated: for i := 0; i < 10; i++ {", "\tfor i := range 10 {", false},
			{"/p/a.go", 10, 0, "go fix", "outdated: var v interface{}", "\tvar v any", false},
			{"/p/b.go", 1, 0, "go fix", "outdated: -- a comment\nx", "", false},
		}},
		{"staticcheck", lint.Staticcheck, `{"code":"compile","severity":"error","location":{"file":"","line":0,"column":0},"end":{"file":"","line":0,"column":0},"message":"# x/sub\nsub/b.go:3:19: too many return values\n\thave (number)\n\twant ()"}
{"code":"SA5009","severity":"error","location":{"file":"/p/a.go","line":6,"column":13},"end":{"file":"/p/a.go","line":6,"column":19},"message":"Printf format %d has arg #1 of wrong type string"}
`, []lint.Finding{
			{"sub/b.go", 3, 19, "compile", "too many return values\n\thave (number)\n\twant ()", "", true},
			{"/p/a.go", 6, 13, "SA5009", "Printf format %d has arg #1 of wrong type string", "", false},
		}},
		{"golangci-lint", lint.GolangciLint, "level=warning\n" + `{"Issues":[{"FromLinter":"gofmt","Text":"File is not properly formatted","SourceLines":["a"],"Pos":{"Filename":"/p/a.go","Offset":0,"Line":3,"Column":1},"SuggestedFixes":[{"Message":"","TextEdits":[{"Pos":1,"End":2,"NewText":"eA=="}]}]},{"FromLinter":"typecheck","Text":"undefined: x","Pos":{"Filename":"b.go","Line":1,"Column":2}}],"Report":{}}`,
			[]lint.Finding{
				{"/p/a.go", 3, 1, "gofmt", "File is not properly formatted", "x", false},
				{"b.go", 1, 2, "typecheck", "undefined: x", "", true},
			}},
		{"eslint", lint.ESLint, file(t, "eslint.json"), []lint.Finding{
			{"/p/a.js", 1, 5, "prefer-const", "'a' is never reassigned. Use 'const' instead.", "const a = 1;", false},
			{"/p/a.js", 2, 10, "no-unused-vars", "'f' is defined but never used.", "Remove unused variable 'f'.", false},
			{"/p/broken.js", 1, 1, "", "Parsing error: The keyword 'let' is reserved", "", true},
		}},
		{"ruff", lint.Ruff, `[{"cell": null, "code": "F401", "end_location": {"column": 25, "row": 3}, "filename": "/p/lsp.py", "fix": {"applicability": "safe", "edits": [{"content": "", "end_location": {"column": 1, "row": 4}, "location": {"column": 1, "row": 3}}], "message": "Remove unused import: 'pathlib.Path'"}, "location": {"column": 21, "row": 3}, "message": "'pathlib.Path' imported but unused", "noqa_row": 3, "url": "https://docs.astral.sh/ruff/rules/unused-import"}, {"code": null, "filename": "/p/b.py", "fix": null, "location": {"column": 1, "row": 2}, "message": "SyntaxError: Expected an expression"}]`,
			[]lint.Finding{
				{"/p/lsp.py", 3, 21, "F401", "'pathlib.Path' imported but unused", "Remove unused import: 'pathlib.Path'", false},
				{"/p/b.py", 2, 1, "", "SyntaxError: Expected an expression", "", true},
			}},
		{"clippy", lint.Clippy, file(t, "clippy.json"), []lint.Finding{
			{"/p/crates/a/src/lib.rs", 3, 9, "unused_variables", "unused variable: `y`", "if this is intentional, prefix it with an underscore: _y", false},
			{"/p/crates/a/src/lib.rs", 2, 8, "clippy::bool_comparison", "equality checks against true are unnecessary", "try: x", false},
		}},
		{"tsc", lint.TSC, "src/t.ts(1,7): error TS2322: Type 'string' is not assignable to type 'number'.\r\n  more\nerror TS5083: no file\na.ts(2,1): error TS1005: ';' expected.\n", []lint.Finding{
			{"src/t.ts", 1, 7, "TS2322", "Type 'string' is not assignable to type 'number'.", "", false},
			{"a.ts", 2, 1, "TS1005", "';' expected.", "", true},
		}},
		{"sarif", lint.SARIF, `{"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0", "runs": [{"originalUriBaseIds": {"ROOT": {"uri": "file:///p/"}}, "results": [
			{"ruleId": "E1", "message": {"text": "one"}, "fixes": [{"artifactChanges": [{"artifactLocation": {"uri": "a%20b.py"}, "replacements": [{"deletedRegion": {"startLine": 1}, "insertedContent": {"text": "new"}}]}]}],
			 "locations": [{"physicalLocation": {"artifactLocation": {"uri": "a%20b.py", "uriBaseId": "ROOT"}, "region": {"startLine": 4, "startColumn": 2}}}]},
			{"rule": {"id": "E2"}, "message": {"text": "two"}, "locations": [{"physicalLocation": {"artifactLocation": {"uri": "file:///C:/c.py"}}}]},
			{"ruleId": "E3", "message": {"text": "off"}, "suppressions": [{"kind": "inSource"}], "locations": [{"physicalLocation": {"artifactLocation": {"uri": "x"}}}]},
			{"ruleId": "E4", "message": {"text": "far"}, "locations": [{"physicalLocation": {"artifactLocation": {"uri": "https://example.com/x"}}}]},
			{"ruleId": "E6", "kind": "pass", "message": {"text": "it is as it should be"}, "locations": [{"physicalLocation": {"artifactLocation": {"uri": "x"}}}]},
			{"ruleId": "E7", "baselineState": "absent", "message": {"text": "it was mended"}, "locations": [{"physicalLocation": {"artifactLocation": {"uri": "x"}}}]},
			{"ruleId": "E5", "message": {"text": "nowhere"}}]}]}`, []lint.Finding{
			{"/p/a b.py", 4, 2, "E1", "one", "new", false},
			{"C:/c.py", 0, 0, "E2", "two", "", false},
		}},
		{"sarif by reference", lint.SARIF, "\uFEFF" + `{"version": "2.1.0", "runs": [{"tool": {"driver": {"name": "x", "rules": [
			{"id": "R0", "messageStrings": {"default": {"text": "no {0} here"}}}, {"id": "R1", "messageStrings": {"far": {"text": "{1} before {0}"}}}]}}, "results": [
			{"ruleIndex": 1, "message": {"id": "far", "arguments": ["a", "b"]}, "locations": [{"physicalLocation": {"artifactLocation": {"uri": "x.c"}, "region": {"startLine": 1}}}]},
			{"ruleId": "R0", "message": {"id": "default", "arguments": ["c"]}, "locations": [{"physicalLocation": {"artifactLocation": {"uri": "x.c"}}}]},
			{"rule": {"index": 0}, "message": {"text": "own {0}", "arguments": ["d"]}, "locations": [{"physicalLocation": {"artifactLocation": {"uri": "x.c"}}}]},
			{"ruleIndex": -1, "message": {"id": "none"}, "locations": [{"physicalLocation": {"artifactLocation": {"uri": "x.c"}}}]}]}]}`, []lint.Finding{
			{"x.c", 1, 0, "R1", "b before a", "", false},
			{"x.c", 0, 0, "R0", "no c here", "", false},
			{"x.c", 0, 0, "R0", "own d", "", false},
			{"x.c", 0, 0, "", "", "", false},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			found, err := lint.Parse(tt.format, []byte(tt.out))
			require.NoError(t, err)
			require.Equal(t, tt.want, found)
			for i := range len(tt.out) { // what is cut off is read or refused
				_, err := lint.Parse(tt.format, []byte(tt.out[:i]))
				if err != nil {
					require.ErrorIs(t, err, lint.ErrFormat)
				}
			}
		})
	}
	for _, f := range append(lint.Formats(), "other") {
		for _, out := range []string{"{", "[", `{"version": "1.0"}`, "command not found\n"} {
			found, err := lint.Parse(f, []byte(out))
			require.Empty(t, found)
			if err != nil {
				require.ErrorIs(t, err, lint.ErrFormat)
			}
		}
	}
	found, err := lint.Parse(lint.TSC, []byte(strings.Repeat("a(1,1): error TS1: x\n", 20_000)))
	require.NoError(t, err)
	require.Len(t, found, 10_000)
}

func FuzzParse(f *testing.F) {
	f.Add("--- a (old)\n@@ -1,2 +1 @@\n-a\n+b\n")
	f.Add(`{"x":{"y":[{"posn":"a:1:2"}]}}`)
	f.Add(`[{"messages":[{}]}]`)
	f.Fuzz(func(t *testing.T, out string) {
		for _, format := range lint.Formats() {
			found, err := lint.Parse(format, []byte(out))
			if err == nil {
				for _, v := range found {
					require.NotEmpty(t, v.Path)
					require.GreaterOrEqual(t, v.Line, 0)
				}
			}
		}
	})
}

// A long run of changed lines takes no more memory than is kept of it.
func TestGoFixLongRun(t *testing.T) {
	const n = 2000
	diff := "--- x.go (old)\n+++ x.go (new)\n@@ -1," + strconv.Itoa(n) + " +1 @@\n" + strings.Repeat("-"+strings.Repeat("x", 1000)+"\n", n)
	var list []lint.Finding
	made := testing.AllocsPerRun(1, func() { list, _ = lint.Parse(lint.GoFix, []byte(diff)) })
	require.Len(t, list, 1)
	require.LessOrEqual(t, len(list[0].Message), 2000+len("outdated: "))
	require.Less(t, made, 100.0)
}
