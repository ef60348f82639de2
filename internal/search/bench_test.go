//go:build unix

package search_test

import (
	"bytes"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/internal/search"
	"github.com/aycoder/aycoder/workspace"
)

// The first ones have words in them, the others have none, or as good as none.
var benchmarked = []struct {
	name, expr string
	fold       bool
}{
	{"rare word", "errUnexpectedEOFWord|io.ErrUnexpectedEOF", false},
	{"common word", "func ", false},
	{"absent word", "zzzyyyxxx", false},
	{"any case", "permission", true},
	{"three words", "TODO|FIXME|XXX", false},
	{"word and more", `func \(\w+ \*`, false},
	{"whole word", `\bctx\b`, false},
	{"start of line", "^import ", false},
	{"no word", `[a-z]{3}_[a-z]{4}_\d+`, false},
	{"digits", `0x[0-9a-f]{16}`, false},
	{"letters", `[A-Z][a-z]+Err[a-z]*\b`, false},
	{"numbers", `\d{3}-\d{4}`, false},
	{"two words", `\w+\s+\w+Handler`, false},
	{"no character", `[a-z]{4}\d{3}[a-z]`, false},
	{"small letters", `[a-z]{3}ing[^a-z]+[a-z]{12}`, false},
	{"end of line", `[,;]\s*$`, false},
}

// trees are the directories to search: the list AYCODER_TREES, or the Go installation.
func trees(b *testing.B) []string {
	b.Helper()
	if list := os.Getenv("AYCODER_TREES"); list != "" {
		return filepath.SplitList(list)
	}
	out, err := exec.Command("go", "env", "GOROOT").Output()
	require.NoError(b, err)
	return []string{strings.TrimSpace(string(out))}
}

// BenchmarkSearch searches trees beside ripgrep, in turns, and compares what they find.
// The ratio is of the fastest turns.
func BenchmarkSearch(b *testing.B) {
	rg, err := exec.LookPath("rg")
	if err != nil {
		b.Skip("ripgrep is not on this machine: nothing to compare with")
	}
	for _, dir := range trees(b) {
		ws, err := workspace.Open(dir, workspace.WithAllowed("**"))
		require.NoError(b, err)
		defer ws.Close()
		for _, tt := range benchmarked {
			b.Run(filepath.Base(dir)+"/"+tt.name, func(b *testing.B) {
				m, err := search.Compile(tt.expr, false, tt.fold)
				require.NoError(b, err)
				ours, theirs := never, never
				for b.Loop() {
					var r *search.Result
					var n int
					ours = ours.least(measure(syscall.RUSAGE_SELF, func() {
						r, err = search.Search(b.Context(), ws, ".", &search.Query{Matcher: m, Max: 1 << 30})
					}))
					theirs = theirs.least(measure(syscall.RUSAGE_CHILDREN, func() {
						n = countWith(b, rg, dir, tt.expr, tt.fold)
					}))
					require.NoError(b, err)
					require.Equal(b, n, r.Matches)
					b.ReportMetric(float64(r.Searched), "files")
					b.ReportMetric(float64(r.Matches), "lines")
				}
				b.ReportMetric(float64(theirs.wall.Milliseconds()), "ms/rg")
				b.ReportMetric(float64(ours.cpu)/float64(theirs.cpu), "cpu/rg")
				b.ReportMetric(float64(ours.wall)/float64(theirs.wall), "time/rg")
			})
		}
	}
}

// took is how long something took, on the clock and on all processors.
type took struct{ wall, cpu time.Duration }

var never = took{math.MaxInt64, math.MaxInt64}

func (t took) least(o took) took { return took{min(t.wall, o.wall), min(t.cpu, o.cpu)} }

func measure(who int, do func()) took {
	cpu := func() time.Duration {
		var u syscall.Rusage
		_ = syscall.Getrusage(who, &u)
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	start, before := time.Now(), cpu()
	do()
	return took{time.Since(start), cpu() - before}
}

// countWith counts the lines that ripgrep finds in the same files, and prints with their
// numbers, which is what Search returns.
func countWith(b *testing.B, rg, dir, expr string, fold bool) (n int) {
	b.Helper()
	args := []string{"--no-config", "--hidden", "--no-ignore-global", "--no-ignore-parent", "--no-require-git", "--no-ignore-dot",
		"--max-filesize", "16M", "-n", "--no-heading", "--color", "never", "-g", "!.git/", "-g", "!vendor/", "-g", "!node_modules/", "-g", "!dist/", "-g", "!target/"}
	if fold {
		args = append(args, "-i")
	}
	cmd := exec.Command(rg, append(args, "-e", expr, "--", ".")...)
	cmd.Dir = dir
	var out bytes.Buffer
	cmd.Stdout = &out
	if err := cmd.Run(); err != nil && cmd.ProcessState.ExitCode() != 1 {
		require.NoError(b, err)
	}
	return bytes.Count(out.Bytes(), []byte("\n"))
}
