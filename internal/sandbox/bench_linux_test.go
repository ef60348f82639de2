package sandbox

import (
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// BenchmarkSpawn starts true by turns as it is and confined, and compares the medians.
func BenchmarkSpawn(b *testing.B) {
	p := newPlace(b, 0)
	policy := p.policy(b)
	box := Landlock(policy)
	defer box.Close()
	path, err := exec.LookPath("true")
	require.NoError(b, err)
	var plain, confined []time.Duration
	run := func(start func(*exec.Cmd) error) time.Duration {
		cmd := exec.Command(path)
		begin := time.Now()
		require.NoError(b, start(cmd))
		require.NoError(b, cmd.Wait())
		return time.Since(begin)
	}
	in := func(cmd *exec.Cmd) error {
		_, err := box.Start(b.Context(), cmd, Call{})
		return err
	}
	run(in)
	for b.Loop() {
		plain = append(plain, run((*exec.Cmd).Start))
		confined = append(confined, run(in))
	}
	slices.Sort(plain)
	slices.Sort(confined)
	a, c := plain[len(plain)/2], confined[len(confined)/2]
	b.ReportMetric(float64(plain[len(plain)*9/10].Microseconds()), "p90plain-µs")
	b.ReportMetric(float64(confined[len(confined)*9/10].Microseconds()), "p90-µs")
	b.ReportMetric(float64(a.Microseconds()), "plain-µs")
	b.ReportMetric(float64(c.Microseconds()), "confined-µs")
	b.ReportMetric(float64(c)/float64(a), "ratio")
}
