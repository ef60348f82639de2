package diff3

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/aycoder/aycoder/internal/corpus"
	"github.com/aycoder/aycoder/internal/timed"
)

// tally counts the merges whose verdict and bytes are git's.
type tally struct{ cases, clean, verdict, bytes int }

func (n *tally) add(t *testing.T, what string, r *Result, git int, same bool) {
	n.cases++
	n.clean += one(git == 0)
	n.verdict += one(min(r.Conflicts(), 127) == git)
	n.bytes += one(same)
	if min(r.Conflicts(), 127) != git || !same {
		t.Logf("%s: %d conflicts, git %d, bytes equal: %v", what, r.Conflicts(), git, same)
	}
}

func one(b bool) int {
	if b {
		return 1
	}
	return 0
}

func percent(n, of int) float64 { return 100 * float64(n) / float64(max(of, 1)) }

// check wants all to be as git's.
func (n *tally) check(t *testing.T, what string) {
	t.Helper()
	t.Logf("%s: %d merges, %d of them clean: number of conflicts as git's %d, bytes as git's %d",
		what, n.cases, n.clean, n.verdict, n.bytes)
	assert.Equal(t, n.cases, n.verdict, "number of conflicts")
	assert.Equal(t, n.cases, n.bytes, "bytes")
}

// TestRealMerges compares with git on merges from public histories, and checks that
// nothing is lost.
func TestRealMerges(t *testing.T) {
	timed.Serial(t)
	t.Parallel()
	tallies := map[string]*tally{"merge": {}, "diff3": {}, "zdiff3": {}}
	eachCase(t, "cases.jsonl.gz", func(c *corpus.Merge) {
		x := realTriple(c)
		for name, style := range styles {
			r := Merge(x.base, x.ours, x.theirs, Options{Style: style})
			out := likeGit(r)
			sum := sha256.Sum256(out)
			same := len(out) == c.Git[name].Size && hex.EncodeToString(sum[:]) == c.Git[name].SHA256
			tallies[name].add(t, c.ID+" "+name, r, c.Git[name].Conflicts, same)
			checkMerge(t, c.ID+" "+name, x, r)
		}
	})
	for name, n := range tallies {
		n.check(t, "style "+name)
	}
}

// TestMadeMerges does the same for made-up merges.
func TestMadeMerges(t *testing.T) {
	t.Parallel()
	var n tally
	eachCase(t, "synthetic.jsonl.gz", func(c *madeCase) {
		x := triple{c.Base, c.Ours, c.Theirs}
		for name, style := range styles {
			what := c.ID + " " + c.Kind + " " + name
			r := Merge(x.base, x.ours, x.theirs, Options{Style: style})
			checkMerge(t, what, x, r)
			git := c.Git[name]
			if git.conflicts == refused { // git refuses binary files
				assert.True(t, r.Binary, what)
				continue
			}
			n.add(t, what, r, git.conflicts, bytes.Equal(likeGit(r), git.out))
		}
	})
	n.check(t, "all styles")
}
