// Package size_test compares how the two programs below this folder start.
package size_test

import (
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// BenchmarkStart runs both programs in turns. What counts is the median.
func BenchmarkStart(b *testing.B) {
	dir, names := b.TempDir(), []string{"agent", "floor"}
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
	agent, floor := median(took["agent"]), median(took["floor"])
	b.ReportMetric(agent.Seconds()*1e3, "ms/agent")
	b.ReportMetric(floor.Seconds()*1e3, "ms/floor")
	b.ReportMetric(float64(agent)/float64(floor), "agent/floor")
}

func median(x []time.Duration) time.Duration {
	slices.Sort(x)
	return x[len(x)/2]
}
