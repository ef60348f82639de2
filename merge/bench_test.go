package merge_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/internal/corpus"
	"github.com/aycoder/aycoder/merge"
)

// BenchmarkOpen measures new suggestions after a resolution: for the recorded merge that has the
// median size of those with two conflicts or more, and for growing numbers of conflicts.
func BenchmarkOpen(b *testing.B) {
	type recorded struct{ base, ours, theirs []byte }
	var all []recorded
	corpus.Each(b, "merge/cases.jsonl.gz", "3,640 merges", 1, func(c *corpus.Merge) {
		if c.Git["merge"].Conflicts > 1 {
			all = append(all, recorded{c.Base, c.Ours.Apply(c.Base), c.Theirs.Apply(c.Base)})
		}
	})
	slices.SortFunc(all, func(x, y recorded) int { return len(x.base) - len(y.base) })
	x := all[len(all)/2]
	merges := map[string]merge.Result{"recorded": merge.Merge(x.base, x.ours, x.theirs)}
	for n := 1000; n <= 8000; n *= 2 {
		merges[fmt.Sprint("conflicts-", n)] = conflicting("", n)
	}
	for name, r := range merges {
		b.Run(name, func(b *testing.B) {
			region := r.Open()[0].Region
			for b.Loop() {
				require.NoError(b, r.Resolve(region, merge.ChooseOurs))
				r.Open()
			}
		})
	}
}
