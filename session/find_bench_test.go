//go:build unix

package session

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/journal"
)

// median returns the median of the times.
func median(times []time.Duration) time.Duration {
	slices.Sort(times)
	return times[len(times)/2]
}

// spent is the wall time and the processor time of some calls.
type spent struct{ wall, processor []time.Duration }

// BenchmarkFind compares searches with reading the same files once, in turns, by the medians of processor time and of
// wall time. A search uses all processors, and the reading one of them, so on an idle machine the ratio of wall
// times is the smaller one. With AYCODER_SESSIONS=10000 it searches as many sessions.
func BenchmarkFind(b *testing.B) {
	n := sessionCount(b, 500)
	dir := b.TempDir()
	phrases := fill(b, dir, n, min(200, n/2))
	store, err := journal.Dir(dir)
	require.NoError(b, err)
	c := newCorpus(b)
	files, err := filepath.Glob(filepath.Join(dir, "*", journalName))
	require.NoError(b, err)
	files = append(files, filepath.Join(dir, indexName, journalName))
	var floor, exact, mistyped spent
	measure := func(s *spent, f func()) {
		before, start := timed.CPU(), time.Now()
		f()
		s.wall = append(s.wall, time.Since(start))
		s.processor = append(s.processor, timed.CPU()-before)
	}
	search := func(s *spent, phrase string) {
		measure(s, func() {
			hits, err := Find(b.Context(), store, phrase, 20)
			require.NoError(b, err)
			require.NotEmpty(b, hits)
		})
	}
	size, i := 0, 0
	for b.Loop() {
		p := phrases[i%len(phrases)].phrase
		i++
		size = 0
		measure(&floor, func() {
			for _, name := range files {
				data, err := os.ReadFile(name)
				require.NoError(b, err)
				size += len(data)
			}
		})
		search(&exact, p)
		search(&mistyped, c.mistype(p))
	}
	b.ReportMetric(float64(size)/1e6, "MB")
	b.ReportMetric(float64(median(floor.processor).Microseconds()), "floor-cpu-µs")
	for name, s := range map[string]spent{"phrase": exact, "mistyped": mistyped} {
		b.ReportMetric(float64(median(s.processor))/float64(median(floor.processor)), fmt.Sprintf("%s-cpu-ratio", name))
		b.ReportMetric(float64(median(s.wall))/float64(median(floor.wall)), fmt.Sprintf("%s-ratio", name))
	}
}
