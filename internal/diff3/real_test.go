package diff3

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
)

// tally counts how the merges compare with git's.
type tally struct {
	cases, verdict, count               int
	bothClean, cleanSame                int
	bothConflict, conflictSame          int
	extraClean, extraHuman, extraEnding int
}

func (n *tally) add(t *testing.T, what string, r *Result, git int, same, human bool) {
	n.cases++
	clean := r.Conflicts() == 0
	if min(r.Conflicts(), 127) == git {
		n.count++
	}
	switch {
	case clean && git == 0:
		n.verdict++
		n.bothClean++
		n.cleanSame += one(same)
	case !clean && git > 0:
		n.verdict++
		n.bothConflict++
		n.conflictSame += one(same)
	case clean:
		n.extraClean++
		n.extraHuman += one(human)
		n.extraEnding += one(r.Reended())
		t.Logf("%s: clean where git is not: only line endings changed: %v; in the human's: %v", what, r.Reended(), human)
		return
	}
	if !same || clean != (git == 0) {
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

func (n *tally) log(t *testing.T) {
	t.Logf("%d merges: verdict as git's %.3f %%, number of conflicts %.3f %%", n.cases,
		percent(n.verdict, n.cases), percent(n.count, n.cases))
	t.Logf("bytes as git's: %d of %d clean (%.2f %%), %d of %d conflicts (%.2f %%)", n.cleanSame, n.bothClean,
		percent(n.cleanSame, n.bothClean), n.conflictSame, n.bothConflict, percent(n.conflictSame, n.bothConflict))
	t.Logf("clean where git is not: %d, of which %d by line endings, %d in the human's",
		n.extraClean, n.extraEnding, n.extraHuman)
}

// TestRealMerges compares with git on merges from public histories, and checks that
// nothing is lost. The one difference there may be is that line endings which one
// side changed throughout are no conflict here.
func TestRealMerges(t *testing.T) {
	t.Parallel()
	tallies := map[string]*tally{"merge": {}, "diff3": {}, "zdiff3": {}}
	eachCase(t, "cases.jsonl.gz", func(c *realCase) {
		x := c.triple()
		human := c.Human.apply(c.Base)
		for name, style := range styles {
			r := Merge(x.base, x.ours, x.theirs, Options{Style: style})
			out := likeGit(r)
			sum := sha256.Sum256(out)
			same := len(out) == c.Git[name].size && hex.EncodeToString(sum[:]) == c.Git[name].sha
			tallies[name].add(t, c.ID+" "+name, r, c.Git[name].conflicts, same, has(human, x.base, out))
			checkMerge(t, c.ID+" "+name, x, r)
		}
	})
	for name, n := range tallies {
		t.Log("style", name)
		n.log(t)
		assert.GreaterOrEqual(t, percent(n.verdict, n.cases), 99.9, "verdict")
		assert.Equal(t, n.bothClean, n.cleanSame, "clean merges")
		assert.GreaterOrEqual(t, percent(n.conflictSame, n.bothConflict), 95.0, "conflicts")
		assert.Equal(t, n.extraEnding, n.extraClean, "clean where git is not")
		assert.GreaterOrEqual(t, 10*n.extraHuman, 9*n.extraClean, "clean where git is not")
	}
}

// has reports whether what a human committed is the merge, or the merge and more:
// lines of their own at places that neither side had touched.
func has(human, base, merged []byte) bool {
	if bytes.Equal(human, merged) {
		return true
	}
	if bytes.Contains(merged, []byte("\r\n")) { // compare in the endings of the merge
		base = bytes.ReplaceAll(bytes.ReplaceAll(base, []byte("\r\n"), []byte("\n")), []byte("\n"), []byte("\r\n"))
	}
	r := Merge(base, merged, human, Options{})
	return r.Conflicts() == 0 && bytes.Equal(likeGit(r), human)
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
			if git.conflicts == 255 { // git refuses binary files
				assert.True(t, r.Binary, what)
				continue
			}
			n.add(t, what, r, git.conflicts, bytes.Equal(likeGit(r), git.out), false)
		}
	})
	n.log(t)
	assert.Equal(t, n.cases, n.verdict+n.extraEnding, "verdict")
	assert.Equal(t, n.bothClean, n.cleanSame, "clean merges")
	assert.Equal(t, n.bothConflict, n.conflictSame, "conflicts")
}

// ratio counts what is right among what there is.
type ratio struct{ n, right int }

func (r *ratio) add(right bool) {
	r.n++
	r.right += one(right)
}

func (r *ratio) percent() float64 { return percent(r.right, r.n) }

// suggestions counts how good they are.
type suggestions struct {
	conflicts  int
	all, parse ratio // parse: Go files that parse when all is resolved as suggested
	by         map[string]*ratio
}

// add compares the suggestions of a merge with what the human committed.
func (n *suggestions) add(x triple, r *Result, human []byte, path string) {
	resolved := resolutions(r, human)
	n.conflicts += r.Conflicts()
	for i := range r.Regions {
		s := r.Regions[i].Suggestion
		want, known := resolved[i]
		if s == nil || !known {
			continue
		}
		right := bytes.Equal(s.Text, want)
		n.all.add(right)
		if n.by[s.Rule] == nil {
			n.by[s.Rule] = new(ratio)
		}
		n.by[s.Rule].add(right)
	}
	if ok, is := parses(x, r, filepath.Ext(path)); is {
		n.parse.add(ok)
	}
}

// TestRealSuggestions compares suggestions with what the human committed.
func TestRealSuggestions(t *testing.T) {
	t.Parallel()
	found := map[string]*suggestions{}
	for name := range styles {
		found[name] = &suggestions{by: map[string]*ratio{}}
	}
	eachCase(t, "cases.jsonl.gz", func(c *realCase) {
		if c.Git["diff3"].conflicts == 0 {
			return
		}
		x, human := c.triple(), c.Human.apply(c.Base)
		for name, style := range styles {
			found[name].add(x, Merge(x.base, x.ours, x.theirs, Options{Style: style}), human, c.Path)
		}
	})
	for name, n := range found {
		share := percent(n.all.n, n.conflicts)
		t.Logf("style %s: %d conflicts, suggested and comparable %.1f %%, as the human %.1f %%", name, n.conflicts,
			share, n.all.percent())
		t.Logf("  Go files that parse: %d of %d", n.parse.right, n.parse.n)
		for rule, r := range n.by {
			t.Logf("  %-12s %4d, as the human %.1f %%", rule, r.n, r.percent())
		}
		if raceEnabled {
			continue // a sample is too small for the bars
		}
		assert.GreaterOrEqual(t, share, 30.0, "suggested")
		assert.GreaterOrEqual(t, n.all.percent(), 57.0, "as the human")
		assert.GreaterOrEqual(t, n.by[RuleWords].percent(), 75.0, "words")
		assert.GreaterOrEqual(t, n.parse.percent(), 99.0, "parse")
	}
}
