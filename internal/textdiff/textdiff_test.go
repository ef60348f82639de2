package textdiff

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/aycoder/aycoder/internal/timed"
)

func TestUnified(t *testing.T) {
	tests := []struct {
		name, from, to, a, b string
		context              int
		want                 string
	}{
		{"equal", "x", "x", "a\n", "a\n", 3, ""},
		{"both empty", "x", "x", "", "", 3, ""},
		{"one line", "x", "x", "a\n", "b\n", 3, "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"},
		{
			"no newline before", "x", "x", "a", "a\n", 3,
			"diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n",
		},
		{
			"no newline on either side", "x", "x", "a\nb", "c\nb", 3,
			"diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n-a\n+c\n b\n\\ No newline at end of file\n",
		},
		{
			"created", "", "x", "", "a\n", 3,
			"diff --git a/x b/x\nnew file mode 100644\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+a\n",
		},
		{
			"deleted", "x", "", "a\n", "", 3,
			"diff --git a/x b/x\ndeleted file mode 100644\n--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n",
		},
		{
			"created empty", "", "x", "", "", 3,
			"diff --git a/x b/x\nnew file mode 100644\nindex 0000000..e69de29\n",
		},
		{"renamed", "x", "y", "a\n", "a\n", 3, "diff --git a/x b/y\nrename from x\nrename to y\n"},
		{
			"binary", "x", "x", "a\x00", "b\x00", 3,
			"diff --git a/x b/x\nBinary files a/x and b/x differ\n",
		},
		{
			"created binary", "", "x", "", "\x00", 3,
			"diff --git a/x b/x\nnew file mode 100644\nBinary files /dev/null and b/x differ\n",
		},
		{"equal binary", "x", "x", "\x00", "\x00", 3, ""},
		{"no context", "x", "x", "a\nb\n", "a\nc\nb\n", -1, "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,0 +2 @@\n+c\n"},
		{
			"all context", "x", "x", "a\nb\nc\nd\n", "a\nb\nc\ne\n", math.MaxInt,
			"diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,4 +1,4 @@\n a\n b\n c\n-d\n+e\n",
		},
		{
			"contexts that meet are one hunk", "x", "x", "a\n1\n2\nb\n", "c\n1\n2\nd\n", 1,
			"diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,4 +1,4 @@\n-a\n+c\n 1\n 2\n-b\n+d\n",
		},
		{
			"contexts that do not are two", "x", "x", "a\n1\n2\n3\nb\n", "c\n1\n2\n3\nd\n", 1,
			"diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n-a\n+c\n 1\n@@ -4,2 +4,2 @@\n 3\n-b\n+d\n",
		},
		{
			"a block goes between blocks", "x", "x",
			"if a {\n\tx()\n}\nif c {\n\tx()\n}\n", "if a {\n\tx()\n}\nif b {\n\tx()\n}\nif c {\n\tx()\n}\n", 1,
			"diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -3,2 +3,5 @@\n }\n+if b {\n+\tx()\n+}\n if c {\n",
		},
		{
			"a blank line goes with what is above it", "x", "x",
			"def a():\n  x\n\ndef c():\n  x\n", "def a():\n  x\n\ndef b():\n  x\n\ndef c():\n  x\n", 1,
			"diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -3,2 +3,5 @@\n \n+def b():\n+  x\n+\n def c():\n",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := Options{OldName: tt.from, NewName: tt.to, Context: tt.context}
			assert.Equal(t, tt.want, string(Compare([]byte(tt.a), []byte(tt.b), o).Append(nil)))
		})
	}
}

// marked shows a line with what changed in brackets.
func marked(l Line) string {
	var b strings.Builder
	at := 0
	for _, s := range l.Changed {
		b.WriteString(string(l.Text[at:s[0]]) + "[" + string(l.Text[s[0]:s[1]]) + "]")
		at = s[1]
	}
	b.Write(l.Text[at:])
	return strings.TrimSuffix(b.String(), "\n")
}

func TestRows(t *testing.T) {
	long := strings.Repeat("word ", 3000)
	tests := []struct {
		name, a, b string
		want       []string
	}{
		{"a word", "x := call(a, b)\n", "x := call(a, c)\n", []string{"1 x := call(a, [b]) | 1 x := call(a, [c])"}},
		{"a phrase", "say one two, ok\n", "say 1 2, ok\n", []string{"1 say [one two], ok | 1 say [1 2], ok"}},
		{"an insertion", "f(a)\n", "f(a, b)\n", []string{"1 f(a) | 1 f(a[, b])"}},
		{"indentation", "x()\n", "\tx()\n", []string{"1 x() | 1 [\t]x()"}},
		{"line end", "a b\r\n", "a b\n", []string{"1 a b[\r\n] | 1 a b[\n]"}},
		{"no line end", "a b\n", "a b", []string{"1 a b[\n] | 1 a b"}},
		{"last word and end", "a b c\n", "a b d", []string{"1 a b [c\n] | 1 a b [d]"}},
		{"nothing in common", "one\n", "two\n", []string{"1 [one\n] | 1 [two\n]"}},
		{
			"letters of a word", "der größe Wert\n", "der größer Wert\n",
			[]string{"1 der [größe] Wert | 1 der [größer] Wert"},
		},
		{"no blanks between words", "日本語です\n", "日本国です\n", []string{"1 日本[語]です | 1 日本[国]です"}},
		{
			"lines that belong together", "aa bb cc\nxx yy zz\n", "new line here\naa bb dd\nxx yy ww\n",
			[]string{"+1 new line here", "1 aa bb [cc] | 2 aa bb [dd]", "2 xx yy [zz] | 3 xx yy [ww]"},
		},
		{
			"others are side by side", "one\ntwo\nthree\nkeep this word\n", "1\nkeep that word\n2\n",
			[]string{
				"1 [one\n] | 1 [1\n]", "-2 two", "-3 three", "4 keep [this] word | 2 keep [that] word", "+3 2",
			},
		},
		{
			"too many cells", cells("a", 600) + "end\n", cells("b", 600) + "end\n",
			[]string{"1 0,[" + strings.TrimSuffix(cells("a", 600)[2:], ",") + "],end | 1 0,[" +
				strings.TrimSuffix(cells("b", 600)[2:], ",") + "],end"},
		},
		{
			"a long line", long + "a\n", long + "b\n",
			[]string{"1 " + long + "[a] | 1 " + long + "[b]"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			check(t, tt.a, tt.b, 3)
			d := compare(tt.a, tt.b, 3)
			var got []string
			for _, r := range d.Rows(&d.Hunks[0]) {
				switch r.Kind {
				case Removed:
					got = append(got, fmt.Sprintf("-%d %s", r.Old.Number, marked(r.Old)))
				case Added:
					got = append(got, fmt.Sprintf("+%d %s", r.New.Number, marked(r.New)))
				default:
					got = append(got, fmt.Sprintf("%d %s | %d %s", r.Old.Number, marked(r.Old), r.New.Number, marked(r.New)))
				}
			}
			assert.Equal(t, strings.Join(tt.want, "\n"), strings.Join(got, "\n"))
		})
	}
}

func TestBrief(t *testing.T) {
	var a, b strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&a, "line %d\n", i)
		switch {
		case i%100 == 50:
			fmt.Fprintf(&b, "LINE %d\n", i)
		case i == 1000:
			b.WriteString(strings.Repeat("new\n", 500))
		default:
			fmt.Fprintf(&b, "line %d\n", i)
		}
	}
	d := compare(a.String(), b.String(), 3)
	all := string(d.Append(nil))
	assert.Equal(t, all, d.Brief(len(all)))

	brief := d.Brief(len(all) - 1)
	assert.Contains(t, brief, "+new\n")
	assert.Regexp(t, `\[\d+ lines of this hunk left out: \+\d+ -0\]`, brief)
	for i := 50; i < 2000; i += 100 {
		assert.True(t, strings.Contains(brief, fmt.Sprintf("-line %d\n+LINE %d\n", i, i)), "hunk %d is shown whole", i)
	}

	brief = d.Brief(1000)
	assert.LessOrEqual(t, len(brief), 1000)
	assert.Contains(t, brief, "-line 50\n+LINE 50\n")
	assert.Regexp(t, `\[\d+ hunks left out, from line \d+ on: \+\d+ -\d+ lines\]\n$`, brief)
	head := "diff --git a/x b/x\n--- a/x\n+++ b/x\n"
	assert.Equal(t, head+"[21 hunks left out, from line 48 on: +520 -21 lines]\n", d.Brief(150))
	assert.Equal(t, "\n[diff cut]", d.Brief(11))
	assert.Empty(t, d.Brief(-1))

	long := compare("a\n", strings.Repeat("ö", 5000)+"\n", 3).Brief(1000)
	assert.Equal(t, head+"@@ -1 +1 @@\n-a\n+"+strings.Repeat("ö", 200)+" [9600 more bytes]\n", long)
	odd := compare("a\n", strings.Repeat("\xff", 300), 3).Brief(400)
	assert.LessOrEqual(t, len(odd), 400)
	assert.True(t, strings.HasSuffix(odd, cutNote) || strings.HasSuffix(odd, noNewline), odd)
}

func TestRandomDiffs(t *testing.T) {
	timed.Long(t, "thousands of random texts")
	rng := rand.New(rand.NewPCG(4, 4))
	lines := []string{"\n", "}\n", "\tx a b\n", "\tx a c\n", "{\n", "  \n", "\r\n", "\x80\n"}
	text := func() string {
		var b strings.Builder
		for range rng.IntN(12) {
			b.WriteString(lines[rng.IntN(len(lines))])
		}
		if rng.IntN(3) == 0 {
			b.WriteString("end")
		}
		return b.String()
	}
	n := 20_000
	if timed.Reduced(t) {
		n = 2000
	}
	for range n {
		check(t, text(), text(), rng.IntN(4))
	}
}

// cells is a line in which every other cell is its number, and the others have a name.
func cells(name string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%d,%s%d,", i, name, i)
	}
	return b.String()
}

// TestHostileInputs checks that texts made to be slow are not. The bounds are far above
// what is needed, to stand a busy machine.
func TestHostileInputs(t *testing.T) {
	timed.Long(t, "large texts that are made to be slow")
	n := 60_000
	if timed.Reduced(t) {
		n = 5000
	}
	rng := rand.New(rand.NewPCG(5, 5))
	random := func(letters int, sep string) string {
		var b strings.Builder
		for range n {
			fmt.Fprintf(&b, "%d%s", rng.IntN(letters), sep)
		}
		return b.String()
	}
	words := func(size, lines int) string { return strings.Repeat(random(9, " ")[:size]+"\n", lines) }
	tests := []pair{
		{"equal lines", strings.Repeat("a\n", n), strings.Repeat("a\n", n/2)},
		{"blank lines", strings.Repeat("\n", n) + "x", strings.Repeat("\n", 2*n)},
		{"two letters", random(2, "\n"), random(2, "\n")},
		{"shuffled", random(n, "\n"), random(n, "\n")},
		{"one line of words", random(9, " "), random(9, " ")},
		{"one line of dots", strings.Repeat(".", n), strings.Repeat(".", n+1)},
		{"lines of words", words(8000, 40), words(8000, 40)},
		{"small changes", strings.Repeat("a b c d\nx\n", n/10), strings.Repeat("a b c e\nx\n", n/10)},
		{"wide changes", words(300, 50), words(300, 50)},
		{"lines of cells", strings.Repeat(cells("a", 60)+"\n", n/600), strings.Repeat(cells("b", 60)+"\n", n/600)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			start := time.Now()
			check(t, tt.a, tt.b, 3)
			t.Logf("%d ms for all views", time.Since(start).Milliseconds())
			timed.Within(t, start, 20*time.Second)
		})
	}
}
