package aycoder_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/aycoder/aycoder/internal/timed"
	"github.com/stretchr/testify/require"
)

// A proseRule finds one turn of phrase that reads like a translation.
type proseRule struct {
	pattern *regexp.Regexp
	not     *regexp.Regexp // a match that this one matches as well is good English
	instead string
}

var proseRules = []proseRule{
	{regexp.MustCompile(`(?i)\w*folders?\b`), regexp.MustCompile(`^[A-Z_]+$`), "directory"},
	{regexp.MustCompile(`(?i)(\w+ )?\b(is|are) no \w+`), regexp.MustCompile(`(?i)^there |no longer$`), "is not a"},
	{regexp.MustCompile(`(?i)\bof (its|our|their|your|his|her|my|an?|\w+'s) own\b`), nil, "its own, a separate"},
	{regexp.MustCompile(`(?:^|[.!?] |\n)(What|Who) [^.?!\n]*[.?!]?`), regexp.MustCompile(`\?$`), "a noun as the subject"},
}

// findings returns the phrases of a text that a rule objects to.
func (r *proseRule) findings(text string) (found []string) {
	for _, m := range r.pattern.FindAllString(text, -1) {
		m = strings.TrimSpace(m)
		if r.not == nil || !r.not.MatchString(m) {
			found = append(found, m)
		}
	}
	return found
}

// Comments and documents are in plain English, at least as far as patterns can tell.
func TestProse(t *testing.T) {
	timed.Serial(t)
	t.Parallel()
	var goFiles, documents int
	require.NoError(t, filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		if d.IsDir() {
			if name != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata") {
				return fs.SkipDir
			}
			return nil
		}
		switch {
		case name == "CHANGELOG.md":
		case strings.HasSuffix(name, ".md"):
			documents++
			checkDocument(t, name)
		case strings.HasSuffix(name, ".go"):
			goFiles++
			checkComments(t, name)
		}
		return nil
	}))
	require.Positive(t, goFiles)
	t.Logf("%d Go files and %d documents", goFiles, documents)
}

func checkDocument(t *testing.T, name string) {
	t.Helper()
	data, err := os.ReadFile(name)
	require.NoError(t, err)
	// A paragraph is one line, so that a phrase is found across the end of a line.
	text := regexp.MustCompile(`(\S)\n(\w)`).ReplaceAllString(string(data), "$1 $2")
	for _, r := range proseRules {
		for _, phrase := range r.findings(text) {
			t.Errorf("%s: %q: write %s", name, phrase, r.instead)
		}
	}
}

func checkComments(t *testing.T, name string) {
	t.Helper()
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, nil, parser.ParseComments|parser.SkipObjectResolution)
	require.NoError(t, err)
	for _, group := range file.Comments {
		text := regexp.MustCompile(`(\S)\n(\S)`).ReplaceAllString(group.Text(), "$1 $2")
		if strings.HasPrefix(text, "Output:") {
			continue // what an example prints
		}
		for _, r := range proseRules {
			for _, phrase := range r.findings(text) {
				t.Errorf("%s: %q: write %s", fset.Position(group.Pos()), phrase, r.instead)
			}
		}
	}
}

// Each rule finds what it is for, and nothing beside it.
func TestProseRules(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		text string
		want []string
	}{
		{"the folder of the workspace", []string{"folder"}},
		{"makeFolders makes them", []string{"makeFolders"}},
		{"YARN_CACHE_FOLDER and a directory", nil},
		{"a pipe is no file", []string{"pipe is no file"}},
		{"There is no file, and it is no longer open.", nil},
		{"a process of its own, not the server's own", []string{"of its own"}},
		{"has a thread of the parser's own", nil},
		{"It waits. What is left is removed.", []string{". What is left is removed."}},
		{"Who waits goes first.", []string{"Who waits goes first."}},
		{"What is a rule?", nil},
		{"It says what is left.", nil},
	} {
		var got []string
		for _, r := range proseRules {
			got = append(got, r.findings(tt.text)...)
		}
		require.Equal(t, tt.want, got, tt.text)
	}
}
