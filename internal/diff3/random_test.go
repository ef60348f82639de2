package diff3

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/internal/timed"
)

// rounds is how many random merges are checked. The environment variable
// DIFF3_ROUNDS asks for more, such as 10000000.
func rounds(t *testing.T) int {
	t.Helper()
	if s := os.Getenv("DIFF3_ROUNDS"); s != "" {
		n, err := strconv.Atoi(s)
		require.NoError(t, err)
		return n
	}
	switch {
	case timed.Reduced(t):
		return 5_000
	case testing.Short():
		return 20_000
	}
	return 50_000
}

// TestRandomMerges checks on random merges that nothing is lost, and that both diffs
// can be applied.
func TestRandomMerges(t *testing.T) {
	n, workers := rounds(t), runtime.GOMAXPROCS(0)
	for w := range workers {
		t.Run(fmt.Sprint("worker", w), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(uint64(n), uint64(w)))
			clean := 0
			for range n / workers {
				x := randomTriple(rng)
				o := Options{Style: Style(rng.IntN(3)), Touching: rng.IntN(4) == 0}
				r := Merge(x.base, x.ours, x.theirs, o)
				checkMerge(t, fmt.Sprintf("%+v", o), x, r)
				checkDiff(t, x.ours, x.theirs)
				clean += one(r.Conflicts() == 0)
			}
			t.Logf("%d random merges, %.1f %% of them clean", n/workers, percent(clean, n/workers))
			assert.Greater(t, percent(clean, n/workers), 20.0, "the generator makes conflicts only")
			assert.Less(t, percent(clean, n/workers), 80.0, "the generator makes too few conflicts")
		})
	}
}

// checkDiff checks that a diff, applied to a, gives b, and is well formed.
func checkDiff(t testing.TB, a, b []byte) {
	t.Helper()
	s := Diff(a, b)
	var out []byte
	at := Hunk{}
	for _, h := range s.Hunks {
		if h.A0-at.A1 != h.B0-at.B1 || h.A0 < at.A1 || h.A0 == h.A1 && h.B0 == h.B1 {
			require.FailNow(t, "malformed", "%v after %v: %q, %q", h, at, a, b)
		}
		out = append(append(out, s.A.Slice(at.A1, h.A0)...), s.B.Slice(h.B0, h.B1)...)
		at = h
	}
	out = append(out, s.A.Slice(at.A1, s.A.Len())...)
	if !bytes.Equal(out, b) {
		require.FailNow(t, "apply", "diff of %q and %q gives %q", a, b, out)
	}
	for i, h := range s.Hunks {
		if i > 0 && h.A0 <= s.Hunks[i-1].A1 {
			require.FailNow(t, "hunks touch", "%v: %q, %q", s.Hunks, a, b)
		}
	}
}

// TestGit compares random merges with those of the git on this machine.
func TestGit(t *testing.T) {
	timed.Long(t, "a comparison with git merge-file")
	t.Parallel()
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("no git")
	}
	dir := t.TempDir()
	rng := rand.New(rand.NewPCG(5, 5))
	n := 200
	if timed.Reduced(t) {
		n = 20
	}
	for range n {
		x := randomTriple(rng)
		for style := range Style(3) {
			r := mergeLines(x.base, x.ours, x.theirs, Options{Style: style})
			want, conflicts := gitMerge(t, git, dir, x, style)
			got := likeGit(r)
			require.Equal(t, conflicts, min(r.Conflicts(), 127), "style %d of %q", style, x)
			require.True(t, bytes.Equal(want, got), "style %d of %q: %q, want %q", style, x, got, want)
		}
	}
	t.Logf("%d merges as git's", 3*n)
}

// refused is how git merge-file ends that was given a binary file.
const refused = 255

// gitMerge runs git merge-file.
func gitMerge(t testing.TB, git, dir string, x triple, style Style) ([]byte, int) {
	t.Helper()
	args := []string{"merge-file", "-p", "-L", "ours", "-L", "base", "-L", "theirs"}
	switch style {
	case StyleDiff3:
		args = append(args, "--diff3")
	case StyleZdiff3:
		args = append(args, "--zdiff3")
	}
	for name, data := range map[string][]byte{"base": x.base, "ours": x.ours, "theirs": x.theirs} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), data, 0o600))
	}
	cmd := exec.CommandContext(t.Context(), git, append(args, "ours", "base", "theirs")...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "HOME="+dir)
	out, err := cmd.Output()
	if e, ok := errors.AsType[*exec.ExitError](err); ok && bytes.Contains(e.Stderr, []byte("Cannot merge binary")) {
		return nil, refused
	}
	if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() > 127 {
		require.NoError(t, err)
	}
	return out, cmd.ProcessState.ExitCode()
}

func FuzzMerge(f *testing.F) {
	for seed := range uint64(8) {
		x := randomTriple(rand.New(rand.NewPCG(seed, 1)))
		f.Add(x.base, x.ours, x.theirs, byte(seed))
	}
	f.Add([]byte("a\nb\n"), []byte("a\r\nb\r\n"), []byte("a\nB\n"), byte(1))
	f.Add([]byte("a\x00b"), []byte("a\x00c"), []byte(""), byte(2))
	f.Add([]byte("<<<<<<< o\n"), []byte("======="), []byte(">>>>>>>> t\n"), byte(5))
	f.Fuzz(func(t *testing.T, base, ours, theirs []byte, o byte) {
		r := Merge(base, ours, theirs, Options{Style: Style(o % 3), Touching: o&4 != 0})
		checkMerge(t, fmt.Sprint(o), triple{base, ours, theirs}, r)
	})
}

// FuzzSuggest looks for suggestions in texts of any kind, without a merge around.
func FuzzSuggest(f *testing.F) {
	f.Add([]byte("f(a, 'b', 1.5)\n"), []byte("f(x, 'b', 1.5)\n"), []byte("f(a, 'b', 1.6-rc)\n"))
	f.Add([]byte("from a import b\n"), []byte("from a import b, c\n"), []byte("from a import (b)\n"))
	f.Add([]byte("use a::{b};\n"), []byte("use a::{b, c};\n"), []byte("use a::{};\n"))
	f.Add([]byte("use a::{b};\n"), []byte("use a::{b, b};\n"), []byte("use a::{};\n"))
	f.Add([]byte("\t\"a/b\"\n"), []byte("\tx \"a/b\"\r\n"), []byte("import \"\n"))
	f.Fuzz(func(t *testing.T, base, ours, theirs []byte) {
		if s := suggested(triple{base, ours, theirs}); s != nil {
			require.NoError(t, suggestionError(s, base, ours, theirs), s.Rule)
		}
	})
}

func FuzzDiff(f *testing.F) {
	for seed := range uint64(8) {
		x := randomTriple(rand.New(rand.NewPCG(seed, 2)))
		f.Add(x.ours, x.theirs)
	}
	f.Fuzz(func(t *testing.T, a, b []byte) { checkDiff(t, a, b) })
}
