package session

import (
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/journal"
)

// Adding a node to a tree of 100,000 nodes, with a View before and after it, allocates as much as adding one to an empty tree.
// One node in twenty begins a branch.
func TestCostOfANode(t *testing.T) {
	const windows, window, large = 5, 1000, 100_000
	s, err := New(t.Context(), journal.Memory(), silent{})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	said := aycoder.User("do it")
	text, err := wire(said, nil)
	require.NoError(t, err)
	add := func(n int) {
		for i := range n {
			s.mu.Lock()
			var records []*record
			r := s.next(&record{Message: text, message: said})
			if i%20 == 0 {
				r.at(r.ID, r.ID/2)
				records = append(records, &record{Kind: kindHead, ID: r.ID / 2})
			}
			err := s.write(t.Context(), false, append(records, r)...)
			s.mu.Unlock()
			if err != nil || s.Head() != r.ID {
				t.Fatal(err, s.Head(), r.ID)
			}
		}
	}
	// median returns how many objects and bytes a thousand nodes allocate. A slice that grows in between counts in few of
	// the windows.
	median := func() (objects, bytes uint64) {
		var all, sizes []uint64
		for range windows {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			add(window)
			runtime.ReadMemStats(&after)
			all, sizes = append(all, after.Mallocs-before.Mallocs), append(sizes, after.TotalAlloc-before.TotalAlloc)
		}
		slices.Sort(all)
		slices.Sort(sizes)
		return all[windows/2], sizes[windows/2]
	}
	objects, bytes := median()
	add(large - s.View().Len())
	require.Equal(t, large, s.View().Len())
	more, larger := median()
	t.Logf("%d objects and %d bytes a thousand nodes at first, %d and %d behind %d nodes", objects, bytes, more, larger, large)
	require.LessOrEqual(t, float64(more), 1.05*float64(objects))
	require.LessOrEqual(t, float64(larger), 1.05*float64(bytes))
}
