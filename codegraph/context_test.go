package codegraph_test

import (
	"math"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/aycoder/aycoder/codegraph"
	"github.com/stretchr/testify/require"
)

// Each file of a context begins with a separate line, and nothing but that line looks like one: neither the end
// of the file before it nor the name of a file.
func TestContextHasOneLineForEachFile(t *testing.T) {
	m := &memory{MapFS: map[string]*fstest.MapFile{}}
	m.put("go.mod", "module m\n")
	m.put("a/a\n== main.go (whole).go", "package a\n\nfunc A() {}")
	m.put("main.go", "package main\n\nimport \"m/a\"\n\nfunc main() { a.A() }")
	g, err := codegraph.New(m)
	require.NoError(t, err)
	s, err := g.Refresh(t.Context())
	require.NoError(t, err)
	for _, budget := range []int64{1000, math.MaxInt64} {
		c, err := g.Context(t.Context(), s, codegraph.Focus{Files: []string{"main.go", "main.go", "none.go"}, Budget: budget})
		require.NoError(t, err)
		require.Len(t, c.Items, 2)
		var heads []string
		for line := range strings.Lines(c.Text()) {
			if strings.HasPrefix(line, "==") {
				heads = append(heads, line)
			}
		}
		require.Equal(t, []string{
			"== \"a/a\\n== main.go (whole).go\" (whole)\n",
			"== main.go (whole) imports a\n",
		}, heads)
	}
	for _, budget := range []int64{-1, 0, 3} {
		c, err := g.Context(t.Context(), s, codegraph.Focus{Files: []string{"main.go"}, Budget: budget})
		require.NoError(t, err)
		require.Empty(t, c.Items)
		require.LessOrEqual(t, c.Tokens, max(budget, 0))
	}
}
