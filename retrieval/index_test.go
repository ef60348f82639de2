package retrieval_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/retrieval"
)

// A search finds nearly all that a comparison with all vectors finds, also after a fifth was deleted and
// others were added, and after so many were deleted that their places were given up.
func TestRecall(t *testing.T) {
	t.Parallel()
	timed.Serial(t)
	n, dim := 3000, 96
	if testing.Short() {
		n = 1500
	}
	texts := pieces(t, n*6/5+100)
	queries, texts := texts[len(texts)-100:], texts[:len(texts)-100]
	ix, all := newIndex(t, dim), newScan(dim)
	check := func(name string) {
		share, _, _ := recall(t, ix, all, queries)
		t.Logf("%s: recall@10 %.4f, %+v", name, share, ix.Stats())
		require.GreaterOrEqual(t, share, 0.99, name)
	}
	add := func(from, to int) {
		vectors := vectorsOf(texts[from:to], from, dim)
		require.NoError(t, ix.Add(t.Context(), vectors...))
		all.add(vectors)
	}
	remove := func(every int) {
		var gone []string
		for i := 0; i < n; i += every {
			gone = append(gone, fmt.Sprintf("%06d", i))
		}
		require.NoError(t, ix.Delete(t.Context(), gone...))
		all.remove(gone)
	}
	add(0, n)
	check("added")
	remove(5)
	check("deleted")
	add(n, len(texts))
	check("added others")
	remove(2)
	check("given up")
	require.Zero(t, ix.Stats().Deleted)
	add(0, n/5)
	check("added again")
}

// model is an index that is surely right.
type model map[string]retrieval.Vector

func cosine(a, b []float32) float64 {
	var ab, aa, bb float64
	for i := range a {
		ab += float64(a[i]) * float64(b[i])
		aa += float64(a[i]) * float64(a[i])
		bb += float64(b[i]) * float64(b[i])
	}
	return ab / math.Sqrt(aa*bb)
}

func (m model) search(q []float32, k int, keep func(*retrieval.Item) bool) (scores []float64) {
	for _, v := range m {
		if keep == nil || keep(&v.Item) {
			scores = append(scores, cosine(q, v.Values))
		}
	}
	slices.SortFunc(scores, func(a, b float64) int { return -compare(a, b) })
	return scores[:min(k, len(scores))]
}

func compare(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// After any sequence of additions, replacements and deletions, with equal vectors among them, and with any
// filter, a search finds the same as a comparison with all.
func TestIndexIsRight(t *testing.T) {
	t.Parallel()
	for name, dim := range map[string]int{"compared": 12, "sketched": 80} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rnd := rand.New(rand.NewPCG(1, 2))
			ix, err := retrieval.NewIndex("m", dim)
			require.NoError(t, err)
			want := model{}
			var pool [][]float32
			for range 1500 {
				v := make([]float32, dim)
				for i := range v {
					v[i] = float32(rnd.NormFloat64())
				}
				pool = append(pool, v)
			}
			kinds, langs := []string{"func", "type", ""}, []string{"go", "rust"}
			for i, v := range pool { // enough for sketches
				v := retrieval.Vector{Item: retrieval.Item{ID: fmt.Sprint("i", i)}, Values: v}
				require.NoError(t, ix.Add(t.Context(), v))
				want[v.ID] = v
			}
			for step := range 600 {
				id := fmt.Sprint("i", rnd.IntN(2000))
				if rnd.IntN(5) < 2 {
					require.NoError(t, ix.Delete(t.Context(), id))
					delete(want, id)
				} else {
					v := retrieval.Vector{Values: pool[rnd.IntN(len(pool))]}
					v.ID, v.Path, v.Kind = id, "d/"+langs[rnd.IntN(2)]+"/f", kinds[rnd.IntN(3)]
					require.NoError(t, ix.Add(t.Context(), v))
					want[id] = v
				}
				filter := retrieval.Filter{}
				if rnd.IntN(2) == 0 {
					filter = retrieval.Filter{Path: "d/" + langs[rnd.IntN(2)], Kind: kinds[rnd.IntN(3)]}
				}
				q, k := pool[rnd.IntN(len(pool))], 1+rnd.IntN(12)
				got, err := ix.Search(q, k, filter.Keep())
				require.NoError(t, err)
				scores := want.search(q, k, filter.Keep())
				require.Len(t, got, len(scores), "step %d", step)
				for i, m := range got {
					require.InDelta(t, scores[i], m.Score, 1e-5, "step %d, hit %d", step, i)
					require.Equal(t, want[m.Item.ID].Item, *m.Item)
					require.InDelta(t, cosine(q, want[m.Item.ID].Values), m.Score, 1e-5)
				}
				require.Equal(t, len(want), ix.Stats().Items)
			}
			var ids []string
			for _, i := range ix.Items() {
				ids = append(ids, i.ID)
			}
			require.ElementsMatch(t, slices.Collect(maps.Keys(want)), ids)
		})
	}
}

// A filter that accepts little still finds all of it.
func TestNarrowFilter(t *testing.T) {
	t.Parallel()
	timed.Serial(t)
	const n, dim = 4000, 64
	texts := pieces(t, n)
	ix := newIndex(t, dim)
	vectors := vectorsOf(texts, 0, dim)
	for i := range vectors {
		vectors[i].Path = fmt.Sprintf("d%d/f.go", i%1000)
		vectors[i].Language = "go"
	}
	require.NoError(t, ix.Add(t.Context(), vectors...))
	for _, d := range []int{0, 7, 999} {
		got, err := ix.Search(vectors[5].Values, 10, retrieval.Filter{Path: fmt.Sprintf("d%d", d)}.Keep())
		require.NoError(t, err)
		var ids []string
		for _, m := range got {
			ids = append(ids, m.Item.ID)
		}
		require.ElementsMatch(t, []string{fmt.Sprintf("%06d", d), fmt.Sprintf("%06d", d+1000), fmt.Sprintf("%06d", d+2000), fmt.Sprintf("%06d", d+3000)}, ids)
	}
	got, err := ix.Search(vectors[5].Values, 10, retrieval.Filter{Language: "rust"}.Keep())
	require.NoError(t, err)
	require.Empty(t, got)
}

func TestFilter(t *testing.T) {
	t.Parallel()
	item := &retrieval.Item{Path: "src/a/b.go", Language: "go", Kind: "func"}
	for _, tt := range []struct {
		filter retrieval.Filter
		want   bool
	}{
		{retrieval.Filter{Path: "src"}, true},
		{retrieval.Filter{Path: "src/a/"}, true},
		{retrieval.Filter{Path: "src/a/b.go"}, true},
		{retrieval.Filter{Path: "sr"}, false},
		{retrieval.Filter{Path: "."}, true},
		{retrieval.Filter{Path: "./"}, true},
		{retrieval.Filter{Path: "./src/a/*"}, true},
		{retrieval.Filter{Path: ".src"}, false},
		{retrieval.Filter{Path: "src/**/*.go"}, true},
		{retrieval.Filter{Path: "**/*.rs"}, false},
		{retrieval.Filter{Path: "src/[a"}, false},
		{retrieval.Filter{Language: "go", Kind: "func"}, true},
		{retrieval.Filter{Language: "go", Kind: "type"}, false},
		{retrieval.Filter{Language: "c"}, false},
	} {
		require.Equal(t, tt.want, tt.filter.Keep()(item), "%+v", tt.filter)
	}
	require.Nil(t, retrieval.Filter{}.Keep())
}

func TestIndexRefuses(t *testing.T) {
	t.Parallel()
	ix := newIndex(t, 3)
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	good := []float32{1, 0, 0}
	for _, bad := range [][]float32{{0, 0, 0}, {1, nan, 0}, {inf, 0, 0}, {-inf, inf, 0}} {
		err := ix.Add(t.Context(), retrieval.Vector{Item: retrieval.Item{ID: "good"}, Values: good}, retrieval.Vector{Item: retrieval.Item{ID: "bad"}, Values: bad})
		require.ErrorIs(t, err, retrieval.ErrNoDirection)
		_, err = ix.Search(bad, 1, nil)
		require.ErrorIs(t, err, retrieval.ErrNoDirection)
	}
	err := ix.Add(t.Context(), retrieval.Vector{Values: []float32{1, 2}})
	mismatch, ok := errors.AsType[*retrieval.MismatchError](err)
	require.True(t, ok, "%v", err)
	require.Equal(t, &retrieval.MismatchError{Model: "hashed", Dimension: 3, GotDimension: 2}, mismatch)
	_, err = ix.Search([]float32{1, 2, 3, 4}, 1, nil)
	require.ErrorAs(t, err, &mismatch)
	require.Zero(t, ix.Stats().Items)
	require.NoError(t, ix.Add(t.Context(), retrieval.Vector{Values: []float32{1e-30, 1e30, 1}})) // its length does not overflow
	for _, dim := range []int{0, -1, 1 << 20} {
		_, err := retrieval.NewIndex("m", dim)
		_, ok := errors.AsType[*aycoder.ConfigError](err)
		require.True(t, ok)
	}
}

// Searches see what was added before, while others add and delete, and an Add that was cancelled loses
// nothing.
func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	const dim, writers, each = 64, 4, 450
	ix := newIndex(t, dim)
	texts := pieces(t, writers*each)
	var work sync.WaitGroup
	stopped, stop := context.WithCancel(t.Context())
	stop()
	for w := range writers {
		work.Go(func() {
			for i := w * each; i < (w+1)*each; i++ {
				v := vectorsOf(texts[i:i+1], i, dim)[0]
				if i%7 == 0 {
					require.ErrorIs(t, ix.Add(stopped, v), context.Canceled)
				} else {
					require.NoError(t, ix.Add(t.Context(), v))
				}
				found, err := ix.Search(v.Values, 1, nil)
				require.NoError(t, err)
				require.InDelta(t, 1, found[0].Score, 1e-5)
				if i%3 == 0 {
					require.NoError(t, ix.Delete(t.Context(), v.ID))
				}
			}
		})
	}
	work.Wait()
	require.Equal(t, writers*each*2/3, ix.Stats().Items)
}
