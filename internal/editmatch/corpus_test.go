package editmatch_test

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/internal/corpus"
	"github.com/aycoder/aycoder/internal/editmatch"
	"github.com/aycoder/aycoder/internal/timed"
)

// recorded is an edit as a model makes it, with the outcomes that are right.
type recorded struct {
	ID, Cat, Repo, Path string
	File, Old, New      string
	Accept, Keep        []string
	Refuse, Loose       bool
}

// recordedEdits reads the recorded edits. With -race, which takes ten times as long, they are the
// edits of every tenth file only.
func recordedEdits(t testing.TB) []recorded {
	t.Helper()
	timed.Long(t, "recorded edits")
	f, err := os.Open(corpus.Path(t, "merge/edits.jsonl.gz", "6,944 edits"))
	require.NoError(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	var all []recorded
	file, files, reduced := "", 0, timed.Reduced(t)
	for r := bufio.NewReaderSize(z, 1<<20); ; {
		line, err := r.ReadBytes('\n')
		if len(line) > 1 {
			var c recorded
			require.NoError(t, json.Unmarshal(line, &c))
			if c.Path != file {
				file, files = c.Path, files+1
			}
			if !reduced || files%10 == 0 {
				all = append(all, c)
			}
		}
		if err != nil {
			require.ErrorIs(t, err, io.EOF)
			return all
		}
	}
}

// right reports whether a text is one of those that the edit may give.
func (c *recorded) right(text string) bool {
	return slices.ContainsFunc(c.Accept, func(want string) bool {
		return want == text || c.Loose && loose(want) == loose(text)
	})
}

// loose leaves out blank lines and blanks at line ends.
func loose(text string) string {
	var b strings.Builder
	for l := range strings.Lines(text) {
		if l = strings.TrimRight(l, " \t\r\n"); l != "" {
			b.WriteString(l + "\n")
		}
	}
	return b.String()
}

func (c *recorded) edit() editmatch.Edit { return editmatch.Edit{Old: c.Old, New: c.New} }

// tally counts outcomes.
type tally struct{ right, refused, wrong, bad, lost, outside int }

func (a *tally) add(b tally) {
	a.right += b.right
	a.refused += b.refused
	a.wrong += b.wrong
	a.bad += b.bad
	a.lost += b.lost
	a.outside += b.outside
}

func (a *tally) all() int { return a.right + a.refused + a.wrong }

// judge makes an edit and judges the outcome. It is bad to refuse what has to work.
func judge(t *testing.T, c *recorded) (one tally) {
	r, err := editmatch.Plan([]byte(c.File), c.edit())
	if err != nil {
		e, ok := errors.AsType[*editmatch.Error](err)
		require.True(t, ok, "%s: %v", c.ID, err)
		require.Less(t, len(e.Error()), 20_000)
		one.refused = 1
		if !c.Refuse {
			one.bad = 1
			t.Logf("%s %s: refused: %v\nold %q\nnew %q", c.Cat, c.ID, err, c.Old, c.New)
		}
		return one
	}
	text := string(r.Text)
	for _, k := range c.Keep {
		if strings.Contains(c.File, k) && !strings.Contains(text, k) {
			one.lost = 1
		}
	}
	if err := onlyInside(c.File, r); err != nil {
		one.outside = 1
		t.Logf("%s %s: %v", c.Cat, c.ID, err)
	}
	if c.right(text) {
		one.right = 1
		return one
	}
	one.wrong, one.bad = 1, 1
	t.Logf("%s %s: wrong\nold %q\nnew %q\nmatches %+v\nsplices %+v", c.Cat, c.ID, c.Old, c.New, r.Match, r.Splices)
	return one
}

// onlyInside checks that a text differs in the lines of the matches only, and that
// the splices make it.
func onlyInside(file string, r *editmatch.Result) error {
	starts := []int{0}
	for i := range len(file) {
		if file[i] == '\n' {
			starts = append(starts, i+1)
		}
	}
	starts = append(starts, len(file))
	var out strings.Builder
	last := 0
	for _, s := range r.Splices {
		if s.From < last || s.To < s.From || s.To > len(file) {
			return fmt.Errorf("splice %d:%d after %d", s.From, s.To, last)
		}
		inside := slices.ContainsFunc(r.Match.Places, func(p editmatch.Place) bool {
			return s.From >= starts[p.FirstLine-1] && s.To <= starts[p.LastLine]
		})
		if !inside {
			return fmt.Errorf("splice %d:%d is outside the matched lines %+v", s.From, s.To, r.Match.Places)
		}
		out.WriteString(file[last:s.From] + s.Text)
		last = s.To
	}
	if out.WriteString(file[last:]); out.String() != string(r.Text) {
		return errors.New("the splices do not make the text")
	}
	return nil
}

// The bars: at most 0.05 % wrong, nothing lost, nothing changed outside, at least
// 66 % right, and 99.9 % right or refused where that is right.
func TestRecordedEdits(t *testing.T) {
	timed.Serial(t)
	cases := recordedEdits(t)
	byCat, cats := map[string]*tally{}, []string(nil)
	for i := range cases {
		c := &cases[i]
		if byCat[c.Cat] == nil {
			byCat[c.Cat], cats = &tally{}, append(cats, c.Cat)
		}
		byCat[c.Cat].add(judge(t, c))
	}
	var all tally
	t.Logf("%-34s %6s %6s %7s %6s %6s", "category", "cases", "right", "refused", "wrong", "bad")
	for _, cat := range cats {
		n := byCat[cat]
		all.add(*n)
		t.Logf("%-34s %6d %6d %7d %6d %6d", cat, n.all(), n.right, n.refused, n.wrong, n.bad)
	}
	total := float64(all.all())
	t.Logf("all %d: right %.2f %%, wrong %.3f %%, acceptable %.3f %%, lost %d, outside %d", all.all(),
		100*float64(all.right)/total, 100*float64(all.wrong)/total, 100*(1-float64(all.bad)/total), all.lost, all.outside)
	assert.LessOrEqual(t, float64(all.wrong)/total, 0.0005, "wrong")
	assert.GreaterOrEqual(t, float64(all.right)/total, 0.66, "right")
	assert.LessOrEqual(t, float64(all.bad)/total, 0.001, "wrong, or refused where it must not")
	assert.Zero(t, all.lost, "lost strings")
	assert.Zero(t, all.outside, "changed outside the matched lines")
}
