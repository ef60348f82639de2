package order_test

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/aycoder/aycoder/internal/order"
	"github.com/stretchr/testify/require"
)

// By is the stable sort of the standard library.
func TestBy(t *testing.T) {
	type pair struct{ key, place int }
	rnd := rand.New(rand.NewPCG(1, 2))
	for n := range 200 {
		list := make([]pair, n)
		for i := range list {
			list[i] = pair{rnd.IntN(n/3 + 1), i}
		}
		want := slices.Clone(list)
		slices.SortStableFunc(want, func(a, b pair) int { return cmp.Compare(a.key, b.key) })
		order.By(list, func(a, b *pair) int { return cmp.Compare(a.key, b.key) })
		require.Equal(t, want, list)
	}
}

func TestComponents(t *testing.T) {
	of, all := order.Components([][]int32{{1}, {2}, {1, 3}, {}, {0, 4}})
	require.Equal(t, [][]int32{{3}, {1, 2}, {0}, {4}}, all)
	require.Equal(t, []int32{2, 1, 1, 0, 3}, of)
}
