//go:build unix

package tools

import (
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/workspace"
)

// BenchmarkGlob lists files of the tree AYCODER_TREE, or of the Go installation,
// alternating with ripgrep. The ratio compares the processor time of the fastest rounds.
func BenchmarkGlob(b *testing.B) {
	rg, err := exec.LookPath("rg")
	if err != nil {
		b.Skip("ripgrep is not on this machine: nothing to compare with")
	}
	dir := os.Getenv("AYCODER_TREE")
	if dir == "" {
		out, err := exec.Command("go", "env", "GOROOT").Output()
		require.NoError(b, err)
		dir = strings.TrimSpace(string(out))
	}
	ws, err := workspace.Open(dir)
	require.NoError(b, err)
	defer ws.Close()
	tool, err := Glob(ws)
	require.NoError(b, err)
	for _, pattern := range []string{"*.s", "src/**/*_test.go", "**/testdata/**/*.{txt,go}", "nothing.at.all"} {
		b.Run(pattern, func(b *testing.B) {
			in, err := json.Marshal(args{"pattern": pattern})
			require.NoError(b, err)
			ours, theirs := time.Duration(math.MaxInt64), time.Duration(math.MaxInt64)
			for b.Loop() {
				ours = min(ours, cpuOf(syscall.RUSAGE_SELF, func() {
					_, err := tool.Call(b.Context(), aycoder.NewInvocation("c", "glob", in, nil))
					require.NoError(b, err)
				}))
				theirs = min(theirs, cpuOf(syscall.RUSAGE_CHILDREN, func() {
					cmd := exec.Command(rg, "--no-config", "--files", "--hidden", "--no-require-git",
						"-g", pattern, "-g", "!.git/", "-g", "!vendor/", "-g", "!node_modules/", "-g", "!dist/", "-g", "!target/")
					cmd.Dir = dir
					_ = cmd.Run() // it found nothing
				}))
			}
			b.ReportMetric(float64(ours)/float64(theirs), "cpu/rg")
			b.ReportMetric(float64(theirs.Microseconds())/1000, "ms/rg")
		})
	}
}

func cpuOf(who int, do func()) time.Duration {
	cpu := func() time.Duration {
		var u syscall.Rusage
		_ = syscall.Getrusage(who, &u)
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	before := cpu()
	do()
	return cpu() - before
}
