package codegraph_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/codegraph"
	"github.com/aycoder/aycoder/internal/corpus"
	"github.com/aycoder/aycoder/tokens"
	"github.com/aycoder/aycoder/workspace"
	"github.com/stretchr/testify/require"
)

// The context of a file that uses at least three others shows, of its uses of names that other files declare,
// at least the given parts: as the type checker counts them, where the declaring file is in the context.
func TestQualityOfContexts(t *testing.T) {
	deps := corpus.Path(t, "deps", "true edges of repositories")
	repos := os.Getenv("AYCODER_REPOS")
	if repos == "" {
		t.Skip("no recorded material: AYCODER_REPOS is not set, a directory with the repositories that the edges are of")
	}
	for _, c := range []struct {
		repo, lang string
		at4, at8   float64
	}{{"crush", "go", 0.75, 0.90}, {"adk-go", "go", 0.75, 0.90}, {"go-sdk", "go", 0.75, 0.90}, {"pi-mono", "ts", 0, 0}, {"genkit", "ts", 0, 0}} {
		t.Run(c.repo, func(t *testing.T) {
			data, err := os.ReadFile(filepath.Join(deps, c.repo+"."+c.lang+".json"))
			require.NoError(t, err)
			uses := usesOf(t, data)
			ws, err := workspace.Open(filepath.Join(repos, c.repo))
			require.NoError(t, err)
			defer ws.Close()
			g, err := codegraph.New(ws)
			require.NoError(t, err)
			s, err := g.Refresh(t.Context())
			require.NoError(t, err)
			q4, q8 := quality(t, s, uses, 4000, contextOf(t, g, s, 4000, true)), quality(t, s, uses, 8000, contextOf(t, g, s, 8000, true))
			quality(t, s, uses, 8000, contextOf(t, g, s, 8000, false))
			if q4 < c.at4 || q8 < c.at8 {
				t.Errorf("%.3f at 4,000 tokens, %.3f at 8,000: want %v, %v", q4, q8, c.at4, c.at8)
			}
			if c.repo != "go-sdk" { // the others take minutes
				return
			}
			if m8 := quality(t, s, uses, 8200, sentFor(t, g, 8200)); q8-m8 > 0.001 {
				t.Errorf("%.3f by the middleware", m8)
			}
			quality(t, s, uses, 2000, sentFor(t, g, 2000))
		})
	}
}

// usesOf returns how often each file uses each other, from recorded edges.
func usesOf(t *testing.T, data []byte) map[string]map[string]int {
	var truth struct {
		Refs []struct {
			From, To string
			N        int
		}
		Defs []struct {
			From, To string
			Names    []string
		}
	}
	require.NoError(t, json.Unmarshal(data, &truth))
	uses := map[string]map[string]int{}
	add := func(from, to string, n int) {
		if from == to || strings.HasSuffix(from, "_test.go") || strings.Contains(from, ".test.") {
			return
		}
		if uses[from] == nil {
			uses[from] = map[string]int{}
		}
		uses[from][to] += n
	}
	for _, r := range truth.Refs {
		add(r.From, r.To, r.N)
	}
	for _, d := range truth.Defs {
		add(d.From, d.To, len(d.Names))
	}
	return uses
}

// quality returns the mean, over the files, of the part of the uses that a context has. It also logs the part
// whose declared name stands in the text of the context.
func quality(t *testing.T, s *codegraph.Snapshot, uses map[string]map[string]int, budget int64, show func(from string) *codegraph.Context) float64 {
	files, names, n, size := 0.0, 0.0, 0, int64(0)
	for from, to := range uses {
		if len(to) < 3 {
			continue
		}
		c := show(from)
		require.LessOrEqual(t, tokens.Estimate(c.Text()), budget+int64(len(c.Items)))
		texts := map[string]string{}
		for _, item := range c.Items {
			texts[item.Path] = item.Text
		}
		all, have := 0, 0
		for file, count := range to {
			all += count
			if texts[file] != "" {
				have += count
			}
		}
		files += float64(have) / float64(all)
		all, have = 0, 0
		for _, ref := range s.References(from) {
			all += max(ref.Count, 1)
			if slices.ContainsFunc([]string{texts[ref.File]}, regexp.MustCompile(`\b`+regexp.QuoteMeta(ref.Name)+`\b`).MatchString) {
				have += max(ref.Count, 1)
			}
		}
		names += float64(have) / float64(max(all, 1))
		n++
		size += c.Tokens
	}
	t.Logf("budget %d: %d files, uses %.3f, with their declarations %.3f, mean size %d", budget, n,
		files/float64(n), names/float64(n), size/int64(n))
	return files / float64(n)
}

// contextOf returns a function that makes the context of a file.
func contextOf(t *testing.T, g *codegraph.Graph, s *codegraph.Snapshot, budget int64, known bool) func(string) *codegraph.Context {
	return func(file string) *codegraph.Context {
		c, err := g.Context(t.Context(), s, codegraph.Focus{Files: []string{file}, Budget: budget, Known: known})
		require.NoError(t, err)
		return c
	}
}

// sentFor returns a function that names a file in a conversation, and returns what the middleware adds.
func sentFor(t *testing.T, g *codegraph.Graph, budget int64) func(string) *codegraph.Context {
	return func(file string) (c *codegraph.Context) {
		mw, err := codegraph.Middleware(g, codegraph.WithBudget(budget, budget), codegraph.WithReport(func(r codegraph.Report) { c = r.Context }))
		require.NoError(t, err)
		build(t, mw(plain()), "1", aycoder.User("Read "+file))
		require.NotNil(t, c, file)
		return c
	}
}
