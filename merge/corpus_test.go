package merge_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"go/parser"
	"go/token"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/internal/corpus"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/merge"
)

// offered is the first suggestion for a conflict, or none.
type offered struct {
	commit, rule string
	half         int // of the projects
	grade        merge.Grade
	right        bool // it is what the human committed
}

// figures are about conflicts whose human resolution is known.
type figures []offered

func (f figures) only(keep func(o offered) bool) figures {
	return slices.DeleteFunc(slices.Clone(f), func(o offered) bool { return !keep(o) })
}

func (f figures) suggested() figures { return f.only(func(o offered) bool { return o.rule != "" }) }

func (f figures) of(half int) figures {
	return f.only(func(o offered) bool { return o.half == half })
}

// right returns the percentage that is as the human.
func (f figures) right() float64 {
	n := 0
	for _, o := range f {
		if o.right {
			n++
		}
	}
	return percent(n, len(f))
}

// byCommit returns the same where each merge commit weighs the same.
func (f figures) byCommit() float64 {
	commits := map[string]figures{}
	for _, o := range f {
		commits[o.commit] = append(commits[o.commit], o)
	}
	sum := 0.0
	for _, c := range commits {
		sum += c.right()
	}
	return sum / math.Max(float64(len(commits)), 1)
}

func percent(n, of int) float64 { return 100 * float64(n) / math.Max(float64(of), 1) }

// cover returns the percentage of conflicts that have a suggestion.
func (f figures) cover() float64 { return percent(len(f.suggested()), len(f)) }

// bars are the least percentages of what is suggested, and of what is then right.
type bars struct{ cover, right, halfCover, halfRight, commits float64 }

func (f figures) check(t *testing.T, what string, b bars) {
	t.Helper()
	s := f.suggested()
	t.Logf("%s: %d conflicts, suggested %.1f %%, right %.1f %%, each merge weighing the same %.1f %%",
		what, len(f), f.cover(), s.right(), s.byCommit())
	assert.GreaterOrEqual(t, f.cover(), b.cover, "%s: suggested", what)
	assert.GreaterOrEqual(t, s.right(), b.right, "%s: right", what)
	assert.GreaterOrEqual(t, s.byCommit(), b.commits, "%s: right, each merge weighing the same", what)
	for half := range 2 {
		h := f.of(half)
		t.Logf("  half %d: %d conflicts, suggested %.1f %%, right %.1f %%", half, len(h), h.cover(), h.suggested().right())
		assert.GreaterOrEqual(t, h.cover(), b.halfCover, "%s: suggested in half %d", what, half)
		assert.GreaterOrEqual(t, h.suggested().right(), b.halfRight, "%s: right in half %d", what, half)
	}
	for _, rule := range slices.Sorted(maps.Keys(confidences(t))) {
		r := s.only(func(o offered) bool { return o.rule == rule })
		t.Logf("  %-12s %4d, right %.1f %%, in the halves %.1f and %.1f %%, each merge weighing the same %.1f %%, claimed %.0f %%",
			rule, len(r), r.right(), r.of(0).right(), r.of(1).right(), r.byCommit(), 100*confidences(t)[rule])
	}
	for grade, claim := range map[merge.Grade]float64{merge.Hint: 58, merge.Even: 66, merge.Likely: 78} {
		for half := range 2 {
			g := s.of(half).only(func(o offered) bool { return o.grade == grade })
			t.Logf("  %s, half %d: %d, right %.1f %%, claimed %.0f %%", grade, half, len(g), g.right(), claim)
			assert.InDelta(t, claim, g.right(), 8, "%s: %s in half %d", what, grade, half)
		}
	}
}

// TestSuggestionsRecorded compares suggestions with what humans committed in public projects. The
// human's text for a conflict is recovered without a diff: see corpus.Resolutions.
func TestSuggestionsRecorded(t *testing.T) {
	timed.Serial(t)
	timed.Long(t, "recorded merges")
	t.Parallel()
	var alone, followed figures
	conflicts, goFiles, parsed := 0, 0, 0
	plans := map[string][]merge.Result{} // by commit
	corpus.Each(t, "merge/cases.jsonl.gz", "3,640 merges", 1, func(c *corpus.Merge) {
		if c.Git["diff3"].Conflicts == 0 {
			return
		}
		base, ours, theirs := []byte(c.Base), c.Ours.Apply(c.Base), c.Theirs.Apply(c.Base)
		r := merge.Merge(base, ours, theirs)
		if min(r.Conflicts(), 127) != c.Git["merge"].Conflicts {
			t.Errorf("%s: the suggestions change the verdict", c.ID)
		}
		conflicts += r.Conflicts()
		regions, human := resolutions(r, base, ours, theirs, c.Human.Apply(c.Base))
		if ok, is := parses(r, base, ours, theirs, filepath.Ext(c.Path)); is {
			goFiles++
			if ok {
				parsed++
			} else {
				t.Logf("%s does not parse", c.ID)
			}
		}
		for i, region := range regions {
			if human[i] == nil {
				continue
			}
			first := func(s []merge.Suggestion) offered {
				o := offered{commit: c.Commit, half: int(sha256.Sum256([]byte(c.Repo))[0] & 1)}
				if len(s) > 0 {
					o.rule, o.grade, o.right = s[0].Rule, s[0].Grade, bytes.Equal(s[0].Text, human[i])
				}
				return o
			}
			var at []merge.Suggestion
			if s := r.Regions[region].Suggestion; s != nil {
				at = append(at, *s)
			}
			alone = append(alone, first(at))
			for _, open := range r.Open(plans[c.Commit]...) {
				if open.Region == region {
					followed = append(followed, first(open.Suggestions))
				}
			}
			require.NoError(t, r.ResolveWith(region, human[i]))
		}
		plans[c.Commit] = append(plans[c.Commit], r)
	})
	t.Logf("%d conflicts in %d merges, %d of them with a resolution that can be recovered; of %d Go files, %d parse with all suggestions",
		conflicts, len(plans), len(alone), goFiles, parsed)
	require.Len(t, followed, len(alone))
	alone.check(t, "nothing resolved", bars{42, 65, 40, 60, 62})
	followed.check(t, "resolved in order", bars{55, 72, 50, 69, 62})
	assert.GreaterOrEqual(t, percent(len(alone), conflicts), 90.0, "recovered")
	assert.GreaterOrEqual(t, percent(parsed, goFiles), 99.0, "Go files that parse")
}

// resolutions returns the conflicts of r, and the texts with which a human replaced them, or nil.
func resolutions(r merge.Result, base, ours, theirs, file []byte) (regions []int, human [][]byte) {
	pieces := [][]byte{nil}
	for i, g := range r.Regions {
		text := g.Ours.Of(ours)
		switch g.Kind {
		case merge.Conflict:
			regions = append(regions, i)
			pieces = append(pieces, nil)
			continue
		case merge.Theirs:
			text = g.Theirs.Of(theirs)
		}
		last := len(pieces) - 1
		pieces[last] = append(pieces[last], text...)
	}
	return regions, corpus.Resolutions(pieces, file)
}

// parses reports whether a Go file parses when all conflicts that have a suggestion are resolved by
// it, and the others by ours. Files whose sides do not parse are left out.
func parses(r merge.Result, base, ours, theirs []byte, ext string) (ok, is bool) {
	if ext != ".go" || r.Conflicts() == 0 || !isGo(base) || !isGo(ours) || !isGo(theirs) {
		return false, false
	}
	var undo []int
	for i, g := range r.Regions {
		if g.Kind != merge.Conflict {
			continue
		}
		undo = append(undo, i)
		if g.Suggestion == nil {
			is = false
			break
		}
		is = true
		_ = r.Resolve(i, merge.ChooseSuggestion)
	}
	ok = is && isGo(r.Bytes())
	for _, i := range undo {
		_ = r.Reopen(i)
	}
	return ok, is
}

func isGo(src []byte) bool {
	_, err := parser.ParseFile(token.NewFileSet(), "", src, parser.SkipObjectResolution)
	return err == nil
}

// confidences returns what the comments of the rules claim.
func confidences(t *testing.T) map[string]float64 {
	t.Helper()
	out := map[string]float64{}
	for _, m := range ruleComment.FindAllStringSubmatch(source(t), -1) {
		var c float64
		_, err := fmt.Sscan(m[2], &c)
		require.NoError(t, err)
		out[m[1]] = c
	}
	require.Len(t, out, 12)
	return out
}
