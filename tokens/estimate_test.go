package tokens

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// The estimates are near the counts of real vocabularies. The test data was written for this test;
// `go test -run TestCounts -update .` in bench/vocab counts it.
func TestEstimate(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("testdata", "counts.json"))
	require.NoError(t, err)
	counts := map[string]map[string]int{}
	require.NoError(t, json.Unmarshal(data, &counts))
	require.Greater(t, len(counts), 10)
	// The oldest of the vocabularies has few words of Asian languages.
	for vocabulary, most := range map[string]float64{"o200k": 0.25, "cl100k": 0.5, "llama3": 0.35, "gemma2": 0.35} {
		var errors []float64
		for kind, count := range counts {
			text, err := os.ReadFile(filepath.Join("testdata", kind+".txt"))
			require.NoError(t, err)
			ratio := float64(Estimate(string(text))) / float64(count[vocabulary])
			errors = append(errors, math.Abs(ratio-1))
			t.Logf("%-7s %-10s %4d tokens, estimate × %.2f", vocabulary, kind, count[vocabulary], ratio)
			require.InDelta(t, 1, ratio, most, "%s with %s", kind, vocabulary)
		}
		slices.Sort(errors)
		require.Less(t, errors[len(errors)/2], 0.15, "the median error with %s", vocabulary)
	}
	require.Zero(t, Estimate(""))
	require.Equal(t, int64(1), Estimate("\x00"))
}
