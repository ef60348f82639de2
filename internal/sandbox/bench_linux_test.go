package sandbox

import (
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// BenchmarkSpawn starts true by turns as it is, confined to a workspace, and confined to
// reading with a directory for its temporary files; it compares the medians.
func BenchmarkSpawn(b *testing.B) {
	p := newPlace(b, 0)
	policy := p.policy(b)
	box, wall := Landlock(policy), Reader()
	defer box.Close()
	defer wall.Close()
	path, err := exec.LookPath("true")
	require.NoError(b, err)
	var plain, confined, reading, first []time.Duration
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
	temp := b.TempDir()
	read := func(cmd *exec.Cmd) error {
		_, err := wall.Start(b.Context(), cmd, Call{ReadOnly: true, Temp: temp})
		return err
	}
	anew := func(cmd *exec.Cmd) error { // as no thread is kept for it
		_, err := wall.Start(b.Context(), cmd, Call{ReadOnly: true, Temp: b.TempDir()})
		return err
	}
	run(in)
	run(read)
	for b.Loop() {
		plain = append(plain, run((*exec.Cmd).Start))
		confined = append(confined, run(in))
		reading = append(reading, run(read))
		first = append(first, run(anew))
	}
	slices.Sort(plain)
	slices.Sort(confined)
	slices.Sort(reading)
	slices.Sort(first)
	a, c, r := plain[len(plain)/2], confined[len(confined)/2], reading[len(reading)/2]
	b.ReportMetric(float64(plain[len(plain)*9/10].Microseconds()), "p90plain-µs")
	b.ReportMetric(float64(confined[len(confined)*9/10].Microseconds()), "p90-µs")
	b.ReportMetric(float64(a.Microseconds()), "plain-µs")
	b.ReportMetric(float64(c.Microseconds()), "confined-µs")
	b.ReportMetric(float64(r.Microseconds()), "reading-µs")
	b.ReportMetric(float64(c)/float64(a), "ratio")
	b.ReportMetric(float64(r)/float64(a), "reading-ratio")
	b.ReportMetric(float64(first[len(first)/2])/float64(a), "first-ratio")
}
