package diff3

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"math"
	"path/filepath"
	"testing"

	"github.com/aycoder/aycoder/internal/timed"
	"github.com/stretchr/testify/assert"
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
	eachCase(t, "cases.jsonl.gz", func(c *realCase) {
		x := c.triple()
		for name, style := range styles {
			r := Merge(x.base, x.ours, x.theirs, Options{Style: style})
			out := likeGit(r)
			sum := sha256.Sum256(out)
			same := len(out) == c.Git[name].size && hex.EncodeToString(sum[:]) == c.Git[name].sha
			tallies[name].add(t, c.ID+" "+name, r, c.Git[name].conflicts, same)
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

// share is how much is right of what there is, merged file by merged file.
type share struct {
	project      string
	total, right int
}

// shares are those of one rule.
type shares map[string]*share // by case

func (s shares) add(c *realCase, right bool) {
	if s[c.ID] == nil {
		s[c.ID] = &share{project: c.Repo}
	}
	s[c.ID].total++
	s[c.ID].right += one(right)
}

// mean returns the mean share of the files, and how far that may be from the truth, with
// 95 % confidence. Files of a project are alike, so it is the spread of the projects
// that counts, by the usual estimate for a ratio of clusters.
func (s shares) mean() (right, spread float64) {
	type cluster struct{ n, right float64 }
	projects := map[string]cluster{}
	for _, f := range s {
		c, r := projects[f.project], float64(f.right)/float64(f.total)
		projects[f.project] = cluster{c.n + 1, c.right + r}
		right += r / float64(len(s))
	}
	sum, k := 0.0, float64(len(projects))
	for _, c := range projects {
		sum += (c.right - right*c.n) * (c.right - right*c.n)
	}
	return right, 1.96 * math.Sqrt(k/(k-1)*sum) / float64(len(s))
}

// suggestions counts how often suggestions are what the human committed.
type suggestions struct {
	conflicts, suggested int
	parse                [2]int // Go files, and those that parse when all is resolved as suggested
	by                   map[string]shares
}

func newSuggestions() *suggestions {
	n := &suggestions{by: map[string]shares{}}
	for _, r := range rules {
		n.by[r.name] = shares{}
	}
	return n
}

// add compares the suggestions of a merge with what the human committed.
func (n *suggestions) add(c *realCase, x triple, r *Result, human []byte) {
	resolved := resolutions(r, human)
	n.conflicts += r.Conflicts()
	for i := range r.Regions {
		s := r.Regions[i].Suggestion
		want, known := resolved[i]
		if s == nil || !known {
			continue
		}
		n.suggested++
		n.by[s.Rule].add(c, bytes.Equal(s.Text, want))
	}
	if ok, is := parses(x, r, filepath.Ext(c.Path)); is {
		n.parse[0]++
		n.parse[1] += one(ok)
	}
}

func (n *suggestions) log(t *testing.T, what string) {
	t.Logf("%s: %d conflicts, suggested and comparable %.1f %%; Go files that parse: %d of %d",
		what, n.conflicts, percent(n.suggested, n.conflicts), n.parse[1], n.parse[0])
	for _, r := range rules {
		if len(n.by[r.name]) == 0 {
			continue
		}
		right, spread := n.by[r.name].mean()
		t.Logf("  %-12s %4d files, as the human %.1f ± %.1f %%, claimed %.0f %%",
			r.name, len(n.by[r.name]), 100*right, 100*spread, 100*r.confidence)
	}
}

// calibrating is the half of the recorded merges by which confidences may be set; the
// other half is set aside.
func (c *realCase) calibrating() bool { return sha256.Sum256([]byte(c.ID))[0]&1 == 0 }

// fewFiles says nothing about how good a rule is.
const fewFiles = 10

// TestConfidence holds what is claimed of the suggestions to what people committed, in
// the half of the recorded merges that is set aside: no claim is above what is measured
// there, and none is so low that it is not a measure.
func TestConfidence(t *testing.T) {
	timed.Serial(t)
	t.Parallel()
	set, aside := newSuggestions(), newSuggestions()
	styled := map[Style]*suggestions{}
	for _, style := range styles {
		styled[style] = newSuggestions()
	}
	eachCase(t, "cases.jsonl.gz", func(c *realCase) {
		if c.Git["diff3"].conflicts == 0 {
			return
		}
		x, human := c.triple(), c.Human.apply(c.Base)
		n := aside
		if c.calibrating() {
			n = set
		}
		for _, style := range styles {
			r := Merge(x.base, x.ours, x.theirs, Options{Style: style})
			n.add(c, x, r, human)
			styled[style].add(c, x, r, human)
		}
	})
	set.log(t, "for calibration")
	aside.log(t, "set aside")
	for name, style := range styles {
		styled[style].log(t, "style "+name)
	}
	for _, r := range rules {
		right, spread := aside.by[r.name].mean()
		if n := len(aside.by[r.name]); n < fewFiles {
			t.Logf("%s: %d files set aside are too few to tell", r.name, n)
			continue
		}
		assert.LessOrEqual(t, r.confidence, right, "%s: claimed and measured", r.name)
		assert.GreaterOrEqual(t, r.confidence, right-spread, "%s: claimed and measured", r.name)
	}
	for name, style := range styles {
		n, most := styled[style], styled[StyleMerge]
		for _, r := range rules {
			right, spread := n.by[r.name].mean()
			assert.LessOrEqual(t, r.confidence, right+spread, "%s in style %s: claimed and measured", r.name, name)
		}
		assert.GreaterOrEqual(t, percent(most.suggested, most.conflicts), percent(n.suggested, n.conflicts),
			"the default style has no fewer suggestions than style %s", name)
	}
	assert.GreaterOrEqual(t, percent(aside.suggested, aside.conflicts), 30.0, "suggested")
	assert.Equal(t, aside.parse[0], aside.parse[1], "parse")
}
