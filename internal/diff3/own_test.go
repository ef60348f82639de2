package diff3

import (
	"flag"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/internal/cases"
	"github.com/aycoder/aycoder/internal/timed"
)

var update = flag.Bool("update", false, "write down what git makes of the merges in testdata")

var ownFiles = filepath.Join("testdata", "merges", "*.txt")

// ownMerges is how many merges of testdata have to run at least.
const ownMerges = 400

// ownMerge returns the texts of a case.
func ownMerge(t testing.TB, c *cases.Case) (x triple, style Style) {
	t.Helper()
	for _, s := range []struct {
		name string
		text *[]byte
	}{{"base", &x.base}, {"ours", &x.ours}, {"theirs", &x.theirs}} {
		text, ok := c.Text(s.name)
		require.True(t, ok, "%s: it has no %s", c.Where, s.name)
		*s.text = []byte(text)
	}
	style, ok := styles[c.Value("style")]
	require.True(t, ok, "%s: style %q", c.Where, c.Value("style"))
	return x, style
}

// TestOwnMerges compares with git on the merges of testdata, whose outcome git has told
// before, and checks that nothing is lost.
func TestOwnMerges(t *testing.T) {
	if *update {
		askGit(t)
	}
	n := 0
	for _, c := range cases.Read(t, ownFiles) {
		x, style := ownMerge(t, &c)
		want, ok := c.Text("want")
		require.True(t, ok, "%s: it has no outcome", c.Where)
		r := Merge(x.base, x.ours, x.theirs, Options{Style: style})
		checkMerge(t, c.Where, x, r)
		n++
		if c.Value("conflicts") == "binary" { // git refuses those
			assert.True(t, r.Binary, c.Where)
			continue
		}
		assert.Equal(t, c.Value("conflicts"), strconv.Itoa(r.Conflicts()), c.Where)
		assert.Equal(t, want, string(likeGit(r)), c.Where)
		for _, other := range styles { // without a conflict, the style makes no difference
			o := Merge(x.base, x.ours, x.theirs, Options{Style: other})
			checkMerge(t, c.Where, x, o)
			if c.Value("conflicts") == "0" {
				assert.Equal(t, want, string(likeGit(o)), "%s: style %d", c.Where, other)
			}
		}
	}
	t.Logf("%d merges ran", n)
	require.GreaterOrEqual(t, n, ownMerges)
}

// TestOwnMergesAreGits asks the git of this machine whether the outcomes that testdata
// has are still its own.
func TestOwnMergesAreGits(t *testing.T) {
	t.Parallel()
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("no git to ask")
	}
	dir := t.TempDir()
	all, asked := cases.Read(t, ownFiles), 0
	less := timed.Reduced(t) || testing.Short()
	for i := range all {
		if less && i%10 != 0 {
			continue
		}
		c := all[i]
		gitSays(t, git, dir, &c)
		assert.Equal(t, all[i], c)
		asked++
	}
	t.Logf("git was asked about %d merges", asked)
}

// gitSays sets the outcome of a case to what git merge-file makes of it.
func gitSays(t testing.TB, git, dir string, c *cases.Case) {
	t.Helper()
	x, style := ownMerge(t, c)
	out, n := gitMerge(t, git, dir, x, style)
	conflicts := strconv.Itoa(n)
	if n == refused {
		conflicts = "binary"
	}
	head := c.Head
	c.Head = nil
	for _, k := range head {
		if k.Name != "conflicts" {
			c.Head = append(c.Head, k)
		}
	}
	c.Head = append(c.Head, cases.Key{Name: "conflicts", Value: conflicts})
	c.Set("want", string(out))
}

func askGit(t *testing.T) {
	git, err := exec.LookPath("git")
	require.NoError(t, err)
	names, err := filepath.Glob(ownFiles)
	require.NoError(t, err)
	for _, name := range names {
		about, all, err := cases.ReadFile(name)
		require.NoError(t, err)
		for i := range all {
			gitSays(t, git, t.TempDir(), &all[i])
		}
		require.NoError(t, cases.WriteFile(name, about, all))
	}
}
