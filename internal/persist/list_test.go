package persist

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// Any number of versions grow in any order, and each is what a copied slice would be.
func TestListsAreValues(t *testing.T) {
	type version struct {
		list List[int]
		want []int
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	versions := []version{{}, {New([]int{7, 8}), []int{7, 8}}}
	branches := 0
	for i := range 5000 {
		from := versions[rnd.IntN(len(versions))]
		next := from.list.Append(i)
		if !next.Continues(from.list) {
			branches++
		}
		versions = append(versions, version{next, append(slices.Clone(from.want), i)})
	}
	for _, v := range versions {
		require.Equal(t, v.want, slices.Clone(v.list.All()))
	}
	require.Positive(t, branches)
	_ = append(versions[1].list.All(), 9)
	require.Equal(t, []int{7, 8}, versions[1].list.Items)
}

// A list that only grows does not copy its items each time.
func TestAppendIsCheap(t *testing.T) {
	l := New([]int(nil))
	allocs := testing.AllocsPerRun(1, func() {
		for i := range 10_000 {
			l = l.Append(i)
		}
	})
	require.Less(t, allocs, 100.0)
}

func TestBranchesAtTheSameTime(t *testing.T) {
	l := New([]int{1})
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() { require.Equal(t, []int{1, i}, l.Append(i).Items) })
	}
	wg.Wait()
}
