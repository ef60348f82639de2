package retrieval_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/retrieval"
)

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func newIndex(tb testing.TB, dim, exactBelow int) *retrieval.Index {
	tb.Helper()
	ix, err := retrieval.NewIndex("hashed", dim, retrieval.Params{ExactBelow: exactBelow})
	require.NoError(tb, err)
	return ix
}

func vectorsOf(texts []string, from, dim int) (out []retrieval.Vector) {
	for i, text := range texts {
		out = append(out, retrieval.Vector{Item: retrieval.Item{ID: fmt.Sprintf("%06d", from+i)}, Values: hashed(text, dim)})
	}
	return out
}

// recall returns the share of the ten nearest that a search in a graph finds, by their scores: which of
// several equal ones it finds does not matter. It also returns the median times of both.
func recall(tb testing.TB, graph, exact *retrieval.Index, queries []string, dim int) (share float64, took, exactTook time.Duration) {
	tb.Helper()
	const k = 10
	hits := 0
	var times, exactTimes []time.Duration
	for _, q := range queries {
		v := hashed(q, dim)
		start := time.Now()
		found, err := graph.Search(v, k, nil)
		times = append(times, time.Since(start))
		require.NoError(tb, err)
		start = time.Now()
		want, err := exact.Search(v, k, nil)
		exactTimes = append(exactTimes, time.Since(start))
		require.NoError(tb, err)
		require.Len(tb, want, k)
		for _, m := range found {
			if m.Score >= want[k-1].Score-1e-6 {
				hits++
			}
		}
	}
	slices.Sort(times)
	slices.Sort(exactTimes)
	return float64(hits) / float64(k*len(queries)), times[len(times)/2], exactTimes[len(times)/2]
}

// BenchmarkRecall measures the bar: 50,000 vectors of 768 dimensions, then a fifth deleted and as many others
// added. The queries are chunks of the same files that are not in the index, and as a second, harder set those of files
// of which the index has none at first.
func BenchmarkRecall(b *testing.B) {
	n, dim := benchSize(b), 768
	note := func(format string, args ...any) { fmt.Printf(format+"\n", args...) } // Logf leaves out lines after ten
	all := pieces(b, n*6/5+750)
	strange, all := all[len(all)-250:], all[:len(all)-250]
	var texts, queries []string
	for i, text := range all {
		if i%(len(all)/500) == 7 && len(queries) < 500 {
			queries = append(queries, text)
		} else {
			texts = append(texts, text)
		}
	}
	graph, exact := newIndex(b, dim, 1), newIndex(b, dim, 1_000_000)
	report := func(name string, ix *retrieval.Index) {
		share, took, exactTook := recall(b, ix, exact, queries, dim)
		note("%s: recall@10 %.4f, p50 %v, exact %v, 1/%.1f, %+v", name, share, took, exactTook, float64(exactTook)/float64(took), ix.Stats())
		share, took, exactTook = recall(b, ix, exact, strange, dim)
		note("%s, strange files: recall@10 %.4f, p50 %v, exact %v, 1/%.1f", name, share, took, exactTook, float64(exactTook)/float64(took))
	}
	for b.Loop() {
		start := time.Now()
		require.NoError(b, graph.Add(b.Context(), vectorsOf(texts[:n], 0, dim)...))
		note("added in %v", time.Since(start))
		require.NoError(b, exact.Add(b.Context(), vectorsOf(texts[:n], 0, dim)...))
		report("added", graph)
		path := filepath.Join(b.TempDir(), "index")
		start = time.Now()
		require.NoError(b, graph.Save(path))
		note("saved in %v", time.Since(start))
		for _, ef := range []int{100, 200} {
			start = time.Now()
			again, err := retrieval.Load(path, "hashed", dim, retrieval.Params{EfSearch: ef, ExactBelow: 1})
			require.NoError(b, err)
			note("loaded in %v", time.Since(start))
			report(fmt.Sprint("with efSearch ", ef), again)
		}
		var gone []string
		for i := range n / 5 {
			gone = append(gone, fmt.Sprintf("%06d", i*5))
		}
		require.NoError(b, graph.Delete(b.Context(), gone...))
		require.NoError(b, exact.Delete(b.Context(), gone...))
		report("deleted", graph)
		require.NoError(b, graph.Add(b.Context(), vectorsOf(texts[n:], n, dim)...))
		require.NoError(b, exact.Add(b.Context(), vectorsOf(texts[n:], n, dim)...))
		report("added others", graph)
		gone = nil
		for i := range n / 20 {
			gone = append(gone, fmt.Sprintf("%06d", i*20+1))
		}
		start = time.Now()
		require.NoError(b, graph.Delete(b.Context(), gone...))
		note("deleted in %v", time.Since(start))
		require.NoError(b, exact.Delete(b.Context(), gone...))
		report("repaired", graph)
	}
}

// benchSize is the number of vectors of a benchmark.
func benchSize(tb testing.TB) int {
	s := os.Getenv("AYCODER_VECTORS")
	if s == "" {
		return 50_000
	}
	n, err := strconv.Atoi(s)
	require.NoError(tb, err)
	return n
}
