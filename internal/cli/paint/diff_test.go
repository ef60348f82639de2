package paint_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/diff"
	"github.com/aycoder/aycoder/internal/cli/paint"
	"github.com/aycoder/aycoder/internal/cli/tty"
	"github.com/aycoder/aycoder/internal/timed"
)

// TestDiffExamples compares the diff of testdata with what it looks like.
func TestDiffExamples(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("testdata/changes.diff")
	require.NoError(t, err)
	for name, o := range map[string]paint.DiffOptions{
		"changes": {}, "changes-beside": {SideBySide: true}, "changes-folded": {Fold: 9},
	} {
		golden(t, name, func(s paint.Style) string { return strings.Join(paint.Diff(string(data), s, o), "\n") + "\n" })
	}
}

// The end of a long name tells the files of a diff apart.
func TestDiffOfLongNames(t *testing.T) {
	t.Parallel()
	dir := "src/main/java/" + strings.Repeat("com/example/", 6) + "漢/"
	var d strings.Builder
	for _, name := range []string{"First.java", "Second.java"} {
		fmt.Fprintf(&d, "--- a/%s\n+++ b/%s\n@@ -1 +1 @@\n-a\n+b\n", dir+name, dir+name)
	}
	lines := paint.Diff(d.String(), paint.Style{Width: 40, Plain: true}, paint.DiffOptions{})
	require.Equal(t, "~xample/com/example/漢/First.java  +1 -1", lines[0])
	require.Contains(t, lines[3], "Second.java  +1 -1")
	for _, line := range lines {
		require.LessOrEqual(t, tty.Width(line), 40)
	}
}

// The numbers of a file count what a long preview leaves out, or say that they do not.
func TestDiffLeavesOut(t *testing.T) {
	t.Parallel()
	head := func(text string) string {
		text = "--- /dev/null\n+++ b/x\n@@ -0,0 +1,9 @@\n+1\n" + text + "\n--- a/y\n+++ b/y\n@@ -1 +1 @@\n-a\n+[3 hunks left out: +5 -5]\n--- a/z\n+++ b/z\n[1 hunk left out, from line 1 on: +5 -6 lines]\n"
		lines := paint.Diff(text, paint.Style{Width: 60, Plain: true}, paint.DiffOptions{})
		require.Contains(t, lines, "y  +1 -1")
		require.Contains(t, lines, "z  +5 -6")
		return lines[0]
	}
	require.Equal(t, "x  +9 -0", head("[8 lines of this hunk left out: +8 -0]"))
	require.Equal(t, "x  +6 -7", head("[9 lines of this hunk left out: +2 -3]\n[2 hunks left out, from line 12 on: +3 -4 lines]"))
	require.Equal(t, "x  +6 -4", head("[8 lines of this hunk left out: +4 -2]\n@@ -9 +9 @@\n-9\n+9\n[1 line of this hunk left out: +0 -1]"))
	require.Equal(t, "x  +2 -0 - not all of it", head("+2\n[70 bytes are left out here]\n+9")[:24])
}

// diffLines are lines that a diff of random texts is made of. Some look like those of a diff.
var diffLines = []string{
	"--- a/x", "+++ b/x", "@@ -1,3 +1,3 @@", "diff --git a/x b/x", `\ No newline at end of file`, "-- ", "++ ", "", " ", "rename from x",
	"a", "b", "a b c", "a b d", "x = 1", "x = 2", "}", "Binary files a/x and b/x differ", "-", "+",
}

func randomLines(rng *rand.Rand) []string {
	lines := make([]string, rng.IntN(40))
	for i := range lines {
		lines[i] = diffLines[rng.IntN(len(diffLines))]
	}
	return lines
}

// twoTexts returns a text and an edited version of it.
func twoTexts(rng *rand.Rand) (before, after []string) {
	before = randomLines(rng)
	after = slices.Clone(before)
	for range rng.IntN(5) {
		at := rng.IntN(len(after) + 1)
		end := min(at+rng.IntN(3), len(after))
		after = slices.Replace(after, at, end, randomLines(rng)[:0]...)
		after = slices.Insert(after, at, diffLines[rng.IntN(len(diffLines))])
	}
	return before, after
}

func joined(lines []string, rng *rand.Rand) []byte {
	text := strings.Join(lines, "\n")
	if rng.IntN(3) > 0 && text != "" {
		text += "\n"
	}
	return []byte(text)
}

var paintedLine = regexp.MustCompile(`^ *(\d+)(?: ([ +-]) ?(.*))?$`)

// TestDiffLines checks that each line of a painted diff is that of the text, by its number, that
// none is missing, and that lines which look like headers are not taken for some.
func TestDiffLines(t *testing.T) {
	timed.Serial(t)
	t.Parallel()
	rng := rand.New(rand.NewPCG(7, 8))
	for range 2000 {
		old, now := twoTexts(rng)
		x, y := joined(old, rng), joined(now, rng)
		d := diff.Compare(x, y, diff.WithNames("f.go", "f.go"))
		unified := string(d.Unified())
		var got diff.Stat
		for _, line := range paint.Diff(unified, paint.Style{Plain: true, Width: 200}, paint.DiffOptions{}) {
			m := paintedLine.FindStringSubmatch(line)
			if m == nil {
				continue // between hunks, or the note on a missing line feed
			}
			n, err := strconv.Atoi(m[1])
			require.NoError(t, err)
			lines := now
			switch m[2] {
			case "-":
				lines = old
				got.Deletions++
			case "+":
				got.Insertions++
			}
			require.Equal(t, lines[n-1], m[3], "%q in\n%s", line, unified)
		}
		want := d.Stat()
		want.Files = 0
		require.Equal(t, want, got, unified)
	}
}

// Text between hunks, in which git copies a line of the file, fits although it has tabs.
func TestDiffSections(t *testing.T) {
	t.Parallel()
	patch := "\tnote\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n@@ -9 +9 @@ func\tof many\tcolumns\twhich is long\n-c\n+d\n"
	lines := paint.Diff(patch, paint.Style{Plain: true, Width: 30}, paint.DiffOptions{})
	require.Contains(t, lines, "      note")
	require.Contains(t, lines, "   : func    of many    colum~")
	for _, l := range lines {
		assert.LessOrEqual(t, tty.Width(l), 30, "%q", l)
	}
}

// TestDiffBeside checks the same for both sides of the other view.
func TestDiffBeside(t *testing.T) {
	timed.Serial(t)
	t.Parallel()
	rng := rand.New(rand.NewPCG(9, 10))
	const half = (200 - 3) / 2
	for range 1000 {
		old, now := twoTexts(rng)
		unified := string(diff.Compare(joined(old, rng), joined(now, rng), diff.WithNames("f", "f")).Unified())
		for _, line := range paint.Diff(unified, paint.Style{Plain: true, Width: 200}, paint.DiffOptions{SideBySide: true}) {
			if len(line) < half+3 || line[half:half+3] != " | " {
				continue // between hunks
			}
			for i, side := range []string{strings.TrimRight(line[:half], " "), line[half+3:]} {
				m := paintedLine.FindStringSubmatch(side)
				if m == nil {
					continue
				}
				n, err := strconv.Atoi(m[1])
				require.NoError(t, err)
				require.Equal(t, strings.TrimRight([][]string{old, now}[i][n-1], " "), strings.TrimRight(m[3], " "), "%q", line)
			}
		}
	}
}

// TestDiffMarks checks which words are marked, and where a carriage return is.
func TestDiffMarks(t *testing.T) {
	t.Parallel()
	marked := func(before, after string) (out []string) {
		unified := string(diff.Compare([]byte(before), []byte(after)).Unified())
		for _, line := range paint.Diff(unified, paint.Style{Color: true, Width: 80}, paint.DiffOptions{}) {
			for _, m := range regexp.MustCompile(`\x1b\[7;\d+m([^\x1b]*)`).FindAllStringSubmatch(line, -1) {
				out = append(out, m[1])
			}
		}
		return out
	}
	for _, tt := range []struct {
		name, before, after string
		want                []string
	}{
		{"a word", "a := 30 * time.Second\n", "a := cfg.Wait * time.Second\n", []string{"30", "cfg.Wait"}},
		{"a blank", "f(a,b)\n", "f(a, b)\n", []string{" "}},
		{"another line", "completely different\n", "xyz\n", nil},
		{"a line end", "same\r\n", "same\n", []string{"␍"}},
		{"a word before the same line end", "the same one here\r\n", "the same two here\r\n", []string{"one", "two"}},
	} {
		assert.Equal(t, tt.want, marked(tt.before, tt.after), tt.name)
	}
}

// TestDiffFits checks hostile texts in all widths.
func TestDiffFits(t *testing.T) {
	timed.Serial(t)
	t.Parallel()
	rng := rand.New(rand.NewPCG(13, 14))
	for range 200 {
		x, y := randomText(rng), randomText(rng)
		unified := string(diff.Compare([]byte(x), []byte(y), diff.WithNames("a\x1b.go", "b\u202e.go")).Unified())
		if rng.IntN(4) == 0 {
			unified = unified[rng.IntN(len(unified)):]
		}
		s := paint.Style{Color: rng.IntN(2) == 0, Plain: rng.IntN(3) == 0, Width: 8 + rng.IntN(150)}
		for _, o := range []paint.DiffOptions{{}, {SideBySide: true}, {Fold: 5}} {
			checkLines(t, s, strings.Join(paint.Diff(unified, s, o), "\n"), fmt.Sprintf("%q", unified))
		}
	}
}

func FuzzDiff(f *testing.F) {
	f.Add("diff --git a/x b/x\nrename from x\n--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@ f\n a\n-b\n+c\n\\ No newline at end of file\n", uint8(80))
	f.Fuzz(func(t *testing.T, unified string, width uint8) {
		s := paint.Style{Color: width%2 == 0, Width: 10 + int(width)}
		checkLines(t, s, strings.Join(paint.Diff(unified, s, paint.DiffOptions{SideBySide: true}), "\n"), unified)
	})
}
