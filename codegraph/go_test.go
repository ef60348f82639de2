package codegraph_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/aycoder/aycoder/codegraph"
	"github.com/stretchr/testify/require"
)

const goMod = "module example.com/m\n\ngo 1.26\n"

func TestOrderOfGo(t *testing.T) {
	g, dir := open(t,
		"go.mod", goMod,
		"main.go", "package main\n\nimport \"example.com/m/a\"\n\nfunc main() { a.A() }\n",
		"a/a.go", "package a\n\nimport \"example.com/m/b\"\n\nfunc A() { b.B(helper()) }\n",
		"a/helper.go", "package a\n\nfunc helper() int { return 1 }\n",
		"b/b.go", "package b\n\nfunc B(int) { C() }\n",
		"b/c.go", "package b\n\nfunc C() { B(0) }\n",
		"b/other.go", "package b\n\nfunc Unused() {}\n",
		"README.md", "nothing\n",
	)
	s, err := g.Refresh(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"a/a.go"}, s.Dependencies("main.go"))
	require.Equal(t, []string{"a/helper.go", "b/b.go"}, s.Dependencies("a/a.go"))
	require.Equal(t, []string{"a/a.go", "b/c.go"}, s.Dependents("b/b.go"))
	require.Equal(t, [][]string{{"b/b.go", "b/c.go"}}, s.Cycles())
	require.Equal(t, []string{"a/helper.go", "b/b.go", "b/c.go", "a/a.go", "b/other.go", "main.go"}, s.Order())
	require.Equal(t, []string{"main.go", "a/a.go", "b/b.go", "b/c.go"}, s.Why("main.go", "b/c.go"))
	require.Nil(t, s.Why("b/c.go", "main.go"))

	write(t, dir, "b/c.go", "package b\n\nfunc C() {}\n")
	after, err := g.Refresh(t.Context(), "b/c.go")
	require.NoError(t, err)
	require.Empty(t, after.Cycles())
	require.Len(t, s.Cycles(), 1, "a snapshot does not change")
	require.NoError(t, os.Remove(filepath.Join(dir, "a", "helper.go")))
	after, err = g.Refresh(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"b/b.go"}, after.Dependencies("a/a.go"))
	require.False(t, slices.Contains(slices.Collect(after.Files()), "a/helper.go"))
	again, err := g.Refresh(t.Context())
	require.NoError(t, err)
	require.NotNil(t, again)
}

func focus(file string, budget int64) codegraph.Focus {
	return codegraph.Focus{Files: []string{file}, Budget: budget}
}

func TestContextOfGo(t *testing.T) {
	big := strings.Repeat("\tprintln(\"a long body that nobody needs to see\")\n", 100)
	g, _ := open(t,
		"go.mod", goMod,
		"main.go", "package main\n\nimport \"example.com/m/a\"\n\nfunc main() { a.Open(a.Name) }\n",
		"a/a.go", "package a\n\n// Open opens.\n//\n// It is long.\nfunc Open(name string) {\n"+big+"}\n\n// Other is not used.\nfunc Other() {\n"+big+"}\n\nconst Name = \"x\"\n",
		"z/z.go", "package z\n",
	)
	s, err := g.Refresh(t.Context())
	require.NoError(t, err)
	text := func(budget int64) string {
		c, err := g.Context(t.Context(), s, focus("main.go", budget))
		require.NoError(t, err)
		require.LessOrEqual(t, c.Tokens, budget)
		for range 3 {
			again, err := g.Context(t.Context(), s, focus("main.go", budget))
			require.NoError(t, err)
			require.Equal(t, c, again)
		}
		return c.Text()
	}
	require.Equal(t, "== a/a.go (signatures)\n// Open opens.\nfunc Open(name string) { … }\nconst Name = \"x\"\n== main.go (whole) imports a\npackage main\n\nimport \"example.com/m/a\"\n\nfunc main() { a.Open(a.Name) }\n", text(68))
	require.Contains(t, text(100_000), "a long body")
	require.NotContains(t, text(100_000), "package z")
	require.Empty(t, text(3))
}
