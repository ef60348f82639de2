package retrieval_test

import (
	"cmp"
	"fmt"
	"maps"
	"math"
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

func newIndex(tb testing.TB, dim int) *retrieval.Index {
	tb.Helper()
	ix, err := retrieval.NewIndex("hashed", dim)
	require.NoError(tb, err)
	return ix
}

func vectorsOf(texts []string, from, dim int) (out []retrieval.Vector) {
	for i, text := range texts {
		out = append(out, retrieval.Vector{Item: retrieval.Item{ID: fmt.Sprintf("%06d", from+i)}, Values: hashed(text, dim)})
	}
	return out
}

// scan compares with all vectors, which are side by side: nothing in plain Go finds all of the nearest sooner.
type scan struct {
	dim    int
	ids    []string
	values []float32 // of vectors of length 1
}

func newScan(dim int) *scan { return &scan{dim: dim} }

func (s *scan) add(vectors []retrieval.Vector) {
	var ids []string
	for _, v := range vectors {
		ids = append(ids, v.ID)
	}
	s.remove(ids)
	for _, v := range vectors {
		s.ids, s.values = append(s.ids, v.ID), append(s.values, unit(v.Values)...)
	}
}

func unit(v []float32) (out []float32) {
	length := math.Sqrt(float64(product(v, v)))
	for _, x := range v {
		out = append(out, float32(float64(x)/length))
	}
	return out
}

// product returns the dot product of two vectors.
func product(a, b []float32) float32 {
	var sums [4]float32
	for ; len(a) >= 4 && len(b) >= 4; a, b = a[4:], b[4:] {
		sums[0] += a[0] * b[0]
		sums[1] += a[1] * b[1]
		sums[2] += a[2] * b[2]
		sums[3] += a[3] * b[3]
	}
	for i, x := range a {
		sums[0] += x * b[i]
	}
	return sums[0] + sums[1] + sums[2] + sums[3]
}

func (s *scan) remove(ids []string) {
	gone := map[string]bool{}
	for _, id := range ids {
		gone[id] = true
	}
	kept := newScan(s.dim)
	for i, id := range s.ids {
		if !gone[id] {
			kept.ids, kept.values = append(kept.ids, id), append(kept.values, s.values[i*s.dim:(i+1)*s.dim]...)
		}
	}
	*s = *kept
}

// search returns the k highest cosines, the highest first.
func (s *scan) search(q []float32, k int) (best []float32) {
	q = unit(q)
	for i := range s.ids {
		if c := product(q, s.values[i*s.dim:(i+1)*s.dim]); len(best) < k || c > best[k-1] {
			at, _ := slices.BinarySearchFunc(best, c, func(a, b float32) int { return cmp.Compare(b, a) })
			best = slices.Insert(best, at, c)
			best = best[:min(k, len(best))]
		}
	}
	return best
}

// recall returns the share of the ten nearest that a search finds, by their scores: which of several equal ones it
// finds does not matter. It also returns the median times of both.
func recall(tb testing.TB, ix *retrieval.Index, all *scan, queries []string) (share float64, took, scanTook time.Duration) {
	tb.Helper()
	const k = 10
	hits := 0
	var times, scanTimes []time.Duration
	for _, q := range queries {
		v := hashed(q, all.dim)
		start := time.Now()
		found, err := ix.Search(v, k, nil)
		times = append(times, time.Since(start))
		require.NoError(tb, err)
		start = time.Now()
		want := all.search(v, k)
		scanTimes = append(scanTimes, time.Since(start))
		require.Len(tb, want, k)
		for _, m := range found {
			if m.Score >= float64(want[k-1])-1e-6 {
				hits++
			}
		}
	}
	slices.Sort(times)
	slices.Sort(scanTimes)
	return float64(hits) / float64(k*len(queries)), times[len(times)/2], scanTimes[len(times)/2]
}

// BenchmarkRecall measures the bar: 50,000 vectors of 768 dimensions, then a fifth deleted and as many others
// added. The queries are chunks of the same files that are not in the index, and as a second, harder set those of files
// of which the index has none at first.
func BenchmarkRecall(b *testing.B) {
	n, dim := benchSize(b), 768
	note := func(format string, args ...any) { fmt.Printf(format+"\n", args...) } // Logf leaves out lines after ten
	chunks := pieces(b, n*6/5+750)
	strange, chunks := chunks[len(chunks)-250:], chunks[:len(chunks)-250]
	var texts, queries []string
	for i, text := range chunks {
		if i%(len(chunks)/500) == 7 && len(queries) < 500 {
			queries = append(queries, text)
		} else {
			texts = append(texts, text)
		}
	}
	ix, all := newIndex(b, dim), newScan(dim)
	report := func(name string) {
		for which, queries := range map[string][]string{"": queries, ", strange files": strange} {
			share, took, scanTook := recall(b, ix, all, queries)
			note("%s%s: recall@10 %.4f, p50 %v, scan %v, 1/%.1f, %+v", name, which, share, took, scanTook, float64(scanTook)/float64(took), ix.Stats())
		}
	}
	add := func(from int, texts []string) {
		vectors := vectorsOf(texts, from, dim)
		start := time.Now()
		require.NoError(b, ix.Add(b.Context(), vectors...))
		note("added in %v", time.Since(start))
		all.add(vectors)
	}
	remove := func(from, every int) {
		var gone []string
		for i := from; i < n; i += every {
			gone = append(gone, fmt.Sprintf("%06d", i))
		}
		start := time.Now()
		require.NoError(b, ix.Delete(b.Context(), gone...))
		note("deleted in %v", time.Since(start))
		all.remove(gone)
	}
	for b.Loop() {
		add(0, texts[:n])
		report("added")
		path := filepath.Join(b.TempDir(), "index")
		start := time.Now()
		require.NoError(b, ix.Save(path))
		note("saved in %v", time.Since(start))
		start = time.Now()
		_, err := retrieval.Load(path, "hashed", dim)
		require.NoError(b, err)
		note("loaded in %v", time.Since(start))
		remove(0, 5)
		report("deleted")
		add(n, texts[n:])
		report("added others")
		remove(1, 20)
		report("given up")
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
