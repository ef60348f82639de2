package codegraph_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
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

// The chain of an item is a shortest one from the nearest file in play, and from the first of those that are
// equally near.
func TestWhyIsTheShortestChain(t *testing.T) {
	for seed := range uint64(30) {
		rnd := rand.New(rand.NewPCG(seed, 3))
		m := &memory{MapFS: map[string]*fstest.MapFile{}}
		const files = 12
		deps := [files][]int{}
		for i := range files {
			var text strings.Builder
			for j := range files {
				if j != i && rnd.IntN(7) == 0 {
					deps[i] = append(deps[i], j)
					fmt.Fprintf(&text, "from f%02d import g%d\ng%d()\n", j, j, j)
				}
			}
			m.put(fmt.Sprintf("f%02d.py", i), text.String()+fmt.Sprintf("def g%d(): pass\n", i))
		}
		g, err := codegraph.New(m)
		require.NoError(t, err)
		s, err := g.Refresh(t.Context())
		require.NoError(t, err)
		inPlay := rnd.Perm(files)[:3]
		focus := codegraph.Focus{Budget: 10_000}
		for _, i := range inPlay {
			focus.Files = append(focus.Files, fmt.Sprintf("f%02d.py", i))
		}
		c, err := g.Context(t.Context(), s, focus)
		require.NoError(t, err)
		for _, item := range c.Items {
			target := -1
			_, err := fmt.Sscanf(item.Path, "f%02d.py", &target)
			require.NoError(t, err)
			require.Equal(t, shortest(deps[:], inPlay, target), item.Why, "seed %d: %s", seed, item.Path)
		}
	}
}

// shortest tries all chains, the shorter first, in the order of starts and files.
func shortest(deps [][]int, starts []int, target int) []string {
	var extend func(chain []int, length int) []int
	extend = func(chain []int, length int) []int {
		last := chain[len(chain)-1]
		if length == 0 && last == target {
			return chain
		}
		for _, d := range deps[last] {
			if length > 0 && !slices.Contains(chain, d) {
				if found := extend(append(slices.Clone(chain), d), length-1); found != nil {
					return found
				}
			}
		}
		return nil
	}
	for length := range len(deps) {
		for _, s := range starts {
			if chain := extend([]int{s}, length); chain != nil {
				var names []string
				for _, i := range chain {
					names = append(names, fmt.Sprintf("f%02d.py", i))
				}
				return names
			}
		}
	}
	return nil
}
