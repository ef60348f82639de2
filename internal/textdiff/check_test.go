package textdiff

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/aycoder/aycoder/internal/timed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func compare(a, b string, context int) *Diff {
	return Compare([]byte(a), []byte(b), Options{OldName: "x", NewName: "x", Context: context})
}

// check checks all views of a diff: the patch gives the exact bytes, and fits nothing else;
// rows and words rebuild both texts; brief diffs stay within their bound.
func check(t testing.TB, a, b string, context int) {
	t.Helper()
	d := compare(a, b, context)
	if d.Binary {
		require.Empty(t, d.Hunks)
		return
	}
	checkPatch(t, d, a, b)
	checkRows(t, d, a, b)
	patch := d.Append(nil)
	all := strings.ToValidUTF8(string(patch), "\ufffd")
	for _, limit := range []int{0, 20, 500, 2000, 1 << 30} {
		brief := d.Brief(limit)
		require.LessOrEqual(t, len(brief), limit)
		require.True(t, utf8.ValidString(brief))
		if max(len(patch), len(all)) <= limit {
			require.Equal(t, all, brief)
		}
	}
}

// checkPatch follows a patch line by line: each hunk is where its numbers say, and its old lines are those of a.
func checkPatch(t testing.TB, d *Diff, a, b string) {
	t.Helper()
	patch := string(d.Append(nil))
	if a == b {
		require.Empty(t, patch)
		return
	}
	rest, ok := strings.CutPrefix(patch, "diff --git a/x b/x\n--- a/x\n+++ b/x\n")
	require.True(t, ok, patch)
	before, lines := slices.Collect(strings.Lines(a)), slices.Collect(strings.Lines(rest))
	done, after, got := 0, 0, "" // lines of a, lines of b, and the text of these
	for len(lines) > 0 {
		m := hunkHead.FindStringSubmatch(lines[0])
		require.NotNil(t, m, "%q in\n%s", lines[0], patch)
		from, old := rangeOf(m[1], m[2])
		to, added := rangeOf(m[3], m[4])
		for ; done < from; done, after = done+1, after+1 {
			got += before[done]
		}
		require.Equal(t, to, after, "%q in\n%s", lines[0], patch)
		for lines = lines[1:]; old > 0 || added > 0; lines = lines[1:] {
			sign, line := lines[0][0], lines[0][1:]
			if len(lines) > 1 && lines[1] == "\\ No newline at end of file\n" {
				line, lines = strings.TrimSuffix(line, "\n"), lines[1:]
			}
			require.Contains(t, " -+", string(sign), patch)
			if sign != '+' {
				require.Equal(t, before[done], line, patch)
				done, old = done+1, old-1
			}
			if sign != '-' {
				after, added, got = after+1, added-1, got+line
			}
		}
		require.Equal(t, [2]int{}, [2]int{old, added}, patch)
	}
	require.True(t, got+strings.Join(before[done:], "") == b, "%q %q: %q\n%s", a, b, got, patch)
}

var hunkHead = regexp.MustCompile(`^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@\n$`)

// rangeOf returns how many lines are before a range, and in it. An empty range has the number of the line before it.
func rangeOf(first, count string) (before, n int) {
	before, _ = strconv.Atoi(first)
	if n = 1; count != "" {
		n, _ = strconv.Atoi(count)
	}
	return before - min(n, 1), n
}

func checkRows(t testing.TB, d *Diff, a, b string) {
	t.Helper()
	var olds, news []byte
	atA, atB := 0, 0
	for i := range d.Hunks {
		h := &d.Hunks[i]
		require.Equal(t, h.Old.Lo-atA, h.New.Lo-atB, "as many lines between two hunks")
		require.True(t, i == 0 || h.Old.Lo > atA, "hunks touch")
		between := d.Old.Slice(atA, h.Old.Lo)
		olds, news = append(olds, between...), append(news, between...)
		atA, atB = h.Old.Lo, h.New.Lo
		for _, r := range d.Rows(h) {
			if r.Kind != Added {
				atA++
				require.Equal(t, atA, r.Old.Number)
			}
			if r.Kind != Removed {
				atB++
				require.Equal(t, atB, r.New.Number)
			}
			checkRow(t, r)
			olds, news = append(olds, r.Old.Text...), append(news, r.New.Text...)
		}
		require.Equal(t, h.Old.Hi, atA)
		require.Equal(t, h.New.Hi, atB)
	}
	if len(d.Hunks) > 0 {
		olds = append(olds, d.Old.Slice(atA, d.Old.Len())...)
		news = append(news, d.New.Slice(atB, d.New.Len())...)
		require.True(t, a == string(olds) && b == string(news), "rows do not rebuild the texts")
	}
}

func checkRow(t testing.TB, r Row) {
	t.Helper()
	switch r.Kind {
	case Equal:
		require.Equal(t, r.Old.Text, r.New.Text)
	case Removed:
		require.Equal(t, Line{}, r.New)
	case Added:
		require.Equal(t, Line{}, r.Old)
	case Changed:
		require.Equal(t, outside(t, r.Old), outside(t, r.New), "what did not change is not the same")
		return
	}
	require.Empty(t, r.Old.Changed)
	require.Empty(t, r.New.Changed)
}

// outside returns the unchanged parts of a line.
func outside(t testing.TB, l Line) string {
	t.Helper()
	var out []byte
	at := 0
	for i, s := range l.Changed {
		require.Less(t, s[0], s[1])
		require.True(t, s[0] > at || i == 0 && s[0] == 0, "spans touch or overlap")
		out = append(out, l.Text[at:s[0]]...)
		at = s[1]
	}
	return string(append(out, l.Text[at:]...))
}

func TestRealDiffs(t *testing.T) {
	timed.Serial(t)
	t.Parallel()
	cases := recordedPairs(t)
	binary := 0
	for i, c := range cases {
		check(t, c.a, c.b, 3)
		check(t, c.b, c.a, i%5)
		if compare(c.a, c.b, 3).Binary {
			binary++
		}
	}
	t.Logf("%d pairs of texts both ways, %d of them binary", len(cases), binary)
	assert.Less(t, binary, len(cases)/10)
}

func FuzzDiff(f *testing.F) {
	for _, s := range [][2]string{
		{"", ""}, {"", "a"}, {"a\nb\n", "a\nc"}, {"a\r\nb\r\n", "a\nb\n"}, {"\ufeffa\n", "a\n"}, {"\xff\n", "\xfe\n"},
		{"--- a/x\n+++ b/x\n@@ -1 +1 @@\n", "-- a/x\n\\ No newline at end of file\n"},
		{"f(a, b)\n\n\tx := 1\n", "g(a, b)\n\n\ty := 1\n"}, {"a\n\na\n\na\n", "a\n\na\n"},
	} {
		f.Add([]byte(s[0]), []byte(s[1]), 3)
	}
	f.Fuzz(func(t *testing.T, a, b []byte, context int) {
		check(t, string(a), string(b), context)
	})
}
