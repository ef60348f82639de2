package tools

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/internal/corpus"
	"github.com/aycoder/aycoder/internal/timed"
)

// recordedEdit is an edit by a model, with the acceptable outcomes.
type recordedEdit struct {
	ID, Cat, Repo, Path string
	File, Old, New      string
	Accept, Keep        []string
	Refuse, Loose       bool
}

// recordedEdits reads the recorded edits. With -race,
// which takes long, they are those of every tenth file only.
func recordedEdits(t *testing.T) []recordedEdit {
	t.Helper()
	timed.Long(t, "recorded edits")
	f, err := os.Open(corpus.Path(t, "merge/edits.jsonl.gz", "6,944 edits"))
	require.NoError(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	var all []recordedEdit
	file, files, reduced := "", 0, timed.Reduced(t)
	for r := bufio.NewReaderSize(z, 1<<20); ; {
		line, err := r.ReadBytes('\n')
		if len(line) > 1 {
			var c recordedEdit
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

func (c *recordedEdit) right(text string) bool {
	return slices.ContainsFunc(c.Accept, func(want string) bool {
		return want == text || c.Loose && loose(want) == loose(text)
	})
}

// loose removes blank lines and trailing blanks.
func loose(text string) string {
	var b strings.Builder
	for l := range strings.Lines(text) {
		if l = strings.TrimRight(l, " \t\r\n"); l != "" {
			b.WriteString(l + "\n")
		}
	}
	return b.String()
}

func (c *recordedEdit) args() args {
	return args{"path": "f", "old_string": c.Old, "new_string": c.New}
}

// The recorded edits, made by edit_file in a file that the model was shown. Where the
// user has changed the file since, the model is shown nothing here (the next test shows
// it). At most 0.05 % may be wrong; at least 66 % must be right, and 99.9 % right or
// refused where a refusal is right.
func TestRecordedEdits(t *testing.T) {
	timed.Serial(t)
	cases := recordedEdits(t)
	w := newWorld(t, nil)
	var right, refused, wrong, bad, lost float64
	for i := range cases {
		c := &cases[i]
		w.write("f", c.File)
		if !c.stale() {
			w.ws.Seen().Add("f", c.File)
		}
		now := c.File
		plan, err := w.tryPlan("edit_file", c.args())
		if err == nil {
			now = plan.Files()[0].Proposed
		}
		if i%8 == 0 { // writing takes most of the time
			r := w.call("edit_file", c.args())
			require.Equal(t, err != nil, r.IsError, "%s: %s", c.ID, r.Text())
			require.Equal(t, now, w.read("f"), "%s: what was planned is what is made", c.ID)
		}
		w.forget()
		for _, k := range c.Keep {
			if strings.Contains(c.File, k) && !strings.Contains(now, k) {
				lost++
			}
		}
		switch {
		case err != nil:
			refused++
			if !c.Refuse {
				bad++
				t.Logf("%s %s: refused: %v", c.Cat, c.ID, err)
			}
		case c.right(now):
			right++
		default:
			wrong++
			bad++
			t.Logf("%s %s: wrong", c.Cat, c.ID)
		}
	}
	total := float64(len(cases))
	t.Logf("%d edits: right %.2f %%, refused %.2f %%, wrong %.3f %%, acceptable %.3f %%, lost %.0f", len(cases),
		100*right/total, 100*refused/total, 100*wrong/total, 100*(1-bad/total), lost)
	assert.LessOrEqual(t, wrong/total, 0.0005, "wrong")
	assert.GreaterOrEqual(t, right/total, 0.66, "right")
	assert.LessOrEqual(t, bad/total, 0.001, "wrong, or refused where it must not")
	assert.Zero(t, lost, "lost strings")
}

// change is the effect of an edit on a file, whatever its notation.
type change struct{ repo, path, old, new string }

func (c *recordedEdit) change() change { return change{c.Repo, c.Path, c.Old, c.New} }

// stale reports whether the user has changed the file since it was shown.
func (c *recordedEdit) stale() bool { return strings.HasPrefix(c.Cat, "stale-") }

// shownTexts returns the texts that were shown before the user changed them.
func shownTexts(cases []recordedEdit) map[change]string {
	shown := map[change]string{}
	for _, c := range cases {
		if c.Cat == "exact" {
			shown[c.change()] = c.File
		}
	}
	return shown
}

// forget opens the workspace again, as if the model was shown nothing.
func (w *world) forget() {
	w.ws.Close()
	w.open()
}

// With the text that was shown to the model, an edit of a file that the user has changed
// since is a merge: right, or a conflict that changes nothing.
func TestRecordedStaleEdits(t *testing.T) {
	timed.Serial(t)
	cases := recordedEdits(t)
	shown := shownTexts(cases)
	w := newWorld(t, nil)
	counts := map[string]map[string]int{}
	for i := range cases {
		c := &cases[i]
		if !c.stale() {
			continue
		}
		base, ok := shown[c.change()]
		require.True(t, ok, "%s has no text that was shown", c.ID)
		if counts[c.Cat] == nil {
			counts[c.Cat] = map[string]int{}
		}
		w.forget()
		w.ws.Seen().Add("f", base)
		w.write("f", c.File)
		counts[c.Cat][w.staleOutcome(c)]++
	}
	for cat, n := range counts {
		t.Logf("%s: %v", cat, n)
		assert.LessOrEqual(t, n["merged otherwise"], 2, cat)
		assert.Greater(t, n["merged"]+n["conflict"], 10, cat)
	}
}

func (w *world) staleOutcome(c *recordedEdit) string {
	w.t.Helper()
	_, err := w.tryPlan("edit_file", c.args())
	r := w.call("edit_file", c.args())
	now := w.read("f")
	for _, k := range c.Keep {
		assert.Contains(w.t, now, k, "%s %s lost what the user wrote", c.Cat, c.ID)
	}
	if r.IsError {
		require.Error(w.t, err, "nobody is asked about what does not merge")
		require.True(w.t, strings.HasPrefix(r.Text(), "conflict: "), "%s %s: %s", c.Cat, c.ID, r.Text())
		require.Equal(w.t, c.File, now)
		require.NotNil(w.t, r.Changes.Files[0].Merge)
		return "conflict"
	}
	if c.right(now) {
		return "merged"
	}
	// Where new lines repeat old ones, a diff cannot tell which are the old ones: the
	// lines that the user added next to them survive in either place.
	require.NotEmpty(w.t, c.Accept, "%s %s has to conflict:\n%s", c.Cat, c.ID, now)
	assert.Equal(w.t, slices.Sorted(strings.Lines(c.Accept[0])), slices.Sorted(strings.Lines(now)))
	return "merged otherwise"
}
