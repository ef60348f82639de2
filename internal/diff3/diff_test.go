package diff3

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/internal/corpus"
	"github.com/aycoder/aycoder/internal/timed"
)

// gitDiff returns the hunks that git finds, without its heuristic for indentation,
// which merges do not use either.
func gitDiff(t *testing.T, git, dir string, a, b []byte) []string {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a"), a, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "b"), b, 0o600))
	args := []string{"diff", "--no-index", "--no-indent-heuristic", "--text", "-U0", "--", "a", "b"}
	cmd := exec.CommandContext(t.Context(), git, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "HOME="+dir)
	out, _ := cmd.Output() // it exits with 1 if there is a difference
	var hunks []string
	for line := range bytes.Lines(out) {
		if at, ok := bytes.CutPrefix(line, []byte("@@ ")); ok {
			hunk, _, _ := strings.Cut(string(at), " @@")
			hunks = append(hunks, hunk)
		}
	}
	return hunks
}

// unified writes a hunk as unified diffs do without context.
func unified(h Hunk) string {
	part := func(lo, hi int) string {
		switch hi - lo {
		case 0:
			return fmt.Sprintf("%d,0", lo)
		case 1:
			return fmt.Sprint(lo + 1)
		}
		return fmt.Sprintf("%d,%d", lo+1, hi-lo)
	}
	return "-" + part(h.A0, h.A1) + " +" + part(h.B0, h.B1)
}

func TestDiffIsGits(t *testing.T) {
	t.Parallel()
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("no git")
	}
	rng := rand.New(rand.NewPCG(8, 8))
	for range 100 {
		x := randomTriple(rng)
		var got []string
		for _, h := range Diff(x.base, x.ours).Hunks {
			got = append(got, unified(h))
		}
		require.Equal(t, gitDiff(t, git, t.TempDir(), x.base, x.ours), got, "%q %q", x.base, x.ours)
	}
}

// TestRealDiffs applies the diffs of all real files.
func TestRealDiffs(t *testing.T) {
	timed.Serial(t)
	t.Parallel()
	n := 0
	eachCase(t, "cases.jsonl.gz", func(c *corpus.Merge) {
		x := realTriple(c)
		checkDiff(t, x.base, x.ours)
		checkDiff(t, x.theirs, x.ours)
		n += 2
	})
	t.Logf("%d diffs applied", n)
}

func TestDiff(t *testing.T) {
	tests := []struct {
		name, a, b string
		want       []Hunk
	}{
		{"both empty", "", "", nil},
		{"equal", "a\nb\n", "a\nb\n", nil},
		{"from nothing", "", "a\n", []Hunk{{0, 0, 0, 1}}},
		{"to nothing", "a\nb\n", "", []Hunk{{0, 2, 0, 0}}},
		{"no newline at the end is a change", "a\nb\n", "a\nb", []Hunk{{1, 2, 1, 2}}},
		{"line endings are a change", "a\r\nb\n", "a\nb\n", []Hunk{{0, 1, 0, 1}}},
		{"a carriage return ends no line", "a\rb", "a\rc", []Hunk{{0, 1, 0, 1}}},
		{"in the middle", "a\nb\nc\n", "a\nx\ny\nc\n", []Hunk{{1, 2, 1, 3}}},
		{"an insertion goes down", "a\n}\nb\n", "a\n}\nx\n}\nb\n", []Hunk{{2, 2, 2, 4}}},
		{"runs that meet are joined", "a\nb\na\nc\n", "a\nc\n", []Hunk{{1, 3, 1, 1}}},
		{"bytes that are not text", "\xff\n\x00\n", "\xff\n\x00\x00\n", []Hunk{{1, 2, 1, 2}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, tt.want, Diff([]byte(tt.a), []byte(tt.b)).Hunks)
			checkDiff(t, []byte(tt.a), []byte(tt.b))
		})
	}
}

func TestDiffWhole(t *testing.T) {
	s := diffWhole([]byte("a\nb\n"), []byte("a\nc\n"))
	assert.Equal(t, []Hunk{{0, 1, 0, 1}}, s.Hunks)
	assert.Equal(t, "a\nc\n", string(s.B.Slice(0, 1)))
	assert.Equal(t, []Hunk{{0, 1, 0, 0}}, diffWhole([]byte("a\nb\n"), nil).Hunks)
	assert.Empty(t, diffWhole([]byte("a\n"), []byte("a\n")).Hunks)
}

// TestHardInputs checks that inputs which are made to be slow are not. The bounds
// are far above what is needed, to stand a busy machine.
func TestHardInputs(t *testing.T) {
	timed.Serial(t)
	timed.Long(t, "large texts that are made to be slow")
	n := 60_000
	rng := rand.New(rand.NewPCG(3, 3))
	random := func(letters int) []byte {
		var b bytes.Buffer
		for range n {
			fmt.Fprintf(&b, "%d\n", rng.IntN(letters))
		}
		return b.Bytes()
	}
	periodic := func(period, skip int) []byte {
		var b bytes.Buffer
		for i := range n {
			if i%(97*period) != skip {
				fmt.Fprintf(&b, "%d\n", i%period)
			}
		}
		return b.Bytes()
	}
	repeat := func(s string, n int) []byte { return bytes.Repeat([]byte(s), n/len(s)) }
	tests := map[string]triple{
		"two letters":    {random(2), random(2), random(2)},
		"shuffled":       {random(n), random(n), random(n)},
		"few letters":    {random(50), random(50), random(50)},
		"periods":        {periodic(2, -1), periodic(2, 7), periodic(2, 50)},
		"longer periods": {periodic(7, -1), periodic(7, 3), periodic(7, 300)},
		"other periods":  {periodic(5, -1), periodic(6, 3), periodic(7, 300)},
		"blank lines":    {repeat("\n", n), repeat("\n", n/2), repeat("\n", 2*n)},
		"one line":       {repeat("<", 10*n), repeat("=", 10*n), repeat(">", 10*n)},
		"escaped quotes": {repeat(`'\`, maxConflict), repeat(`\'"`, maxConflict), repeat(`\"`, maxConflict)},
		"quotes":         {repeat(`"`, maxConflict), repeat("\"'", maxConflict), repeat("'", maxConflict)},
	}
	for name, x := range tests {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			var r *Result
			took := timed.Best(1, func() { r = Merge(x.base, x.ours, x.theirs, Options{}) })
			runtime.ReadMemStats(&after)
			checkMerge(t, name, triple{x.base, x.ours, x.theirs}, r)
			lines := r.Base.Len() + r.Ours.Len() + r.Theirs.Len()
			mem := after.TotalAlloc - before.TotalAlloc
			t.Logf("%d lines: %d ms, %d bytes allocated a line", lines, took.Milliseconds(), mem/uint64(lines))
			timed.AtMost(t, took, 20*time.Second)
			// The allowance is for the tokens of conflicts, which are compared up to 8 KiB.
			assert.Less(t, mem, uint64(500*lines+10*(len(x.base)+len(x.ours)+len(x.theirs))+16<<20))
		})
	}
}
