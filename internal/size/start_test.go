// Package size_test compares the start times of the programs below this directory.
package size_test

import (
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// BenchmarkStart runs the programs in turns and reports medians.
func BenchmarkStart(b *testing.B) {
	dir, names := b.TempDir(), []string{"floor", "anthropic", "openai", "google", "ollama", "bedrock"}
	for _, name := range names {
		out, err := exec.Command("go", "build", "-o", filepath.Join(dir, name+".exe"), "./"+name).CombinedOutput()
		require.NoError(b, err, string(out))
	}
	took := map[string][]time.Duration{}
	for b.Loop() {
		for _, name := range names {
			start := time.Now()
			out, err := exec.Command(filepath.Join(dir, name+".exe")).Output()
			took[name] = append(took[name], time.Since(start))
			require.NoError(b, err)
			require.Equal(b, "ready\n", string(out))
		}
	}
	floor := median(took["floor"])
	b.ReportMetric(floor.Seconds()*1e3, "ms/floor")
	for _, name := range names[1:] {
		b.ReportMetric(float64(median(took[name]))/float64(floor), name+"/floor")
	}
}

func median(x []time.Duration) time.Duration {
	slices.Sort(x)
	return x[len(x)/2]
}
