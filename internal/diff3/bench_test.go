package diff3

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aycoder/aycoder/internal/corpus"
	"github.com/aycoder/aycoder/internal/timed"
)

// codeLine makes lines as programs have them: many occur often.
func codeLine(rng *rand.Rand, i int) string {
	switch rng.IntN(8) {
	case 0:
		return "\t}\n"
	case 1:
		return "\n"
	case 2:
		return "\t\treturn nil, err\n"
	}
	return fmt.Sprintf("\tx%d := call%d(a, b, %d)\n", i, rng.IntN(400), i%97)
}

// edited replaces, deletes and inserts n lines at random places.
func edited(rng *rand.Rand, lines []string, n int) []string {
	at := map[int]bool{}
	for len(at) < n {
		at[rng.IntN(len(lines))] = true
	}
	out := make([]string, 0, len(lines)+n)
	for i, l := range lines {
		switch {
		case !at[i]:
			out = append(out, l)
		case rng.IntN(3) == 0:
			out = append(out, codeLine(rng, rng.IntN(1e6)))
		case rng.IntN(2) == 0:
			out = append(out, l, codeLine(rng, rng.IntN(1e6)))
		}
	}
	return out
}

func joined(lines []string) []byte { return []byte(strings.Join(lines, "")) }

// large holds the merges that the time is measured on.
func large() map[string]triple {
	rng := rand.New(rand.NewPCG(7, 7))
	code := make([]string, 100_000)
	for i := range code {
		code[i] = codeLine(rng, i)
	}
	million := make([]string, 1_000_000)
	for i := range million {
		million[i] = fmt.Sprintf("line %d of many\n", i)
	}
	same := slices.Repeat([]string{"the same line\n"}, 1_000_000)
	shuffled := func() []byte {
		lines := slices.Clone(million[:20_000])
		rng.Shuffle(len(lines), func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })
		return joined(lines)
	}
	long := bytes.Repeat([]byte("0123456789abcdef"), 10<<20/16)
	longer := func(s string) []byte { return append(bytes.Clone(long), s...) }
	return map[string]triple{
		"100k-lines-1000-edits": {joined(code), joined(edited(rng, code, 1000)), joined(edited(rng, code, 1000))},
		"1M-lines-identical":    {joined(million), joined(million), joined(million)},
		"1M-lines-200-edits":    {joined(million), joined(edited(rng, million, 200)), joined(edited(rng, million, 200))},
		"1M-times-one-line":     {joined(same), joined(edited(rng, same, 200)), joined(edited(rng, same, 200))},
		"20k-lines-shuffled":    {joined(million[:20_000]), shuffled(), shuffled()},
		"10MB-line":             {long, longer("ours"), longer("theirs")},
	}
}

// medianCase returns the recorded merge of median size.
func medianCase(b *testing.B) triple {
	b.Helper()
	var all []triple
	eachCase(b, "cases.jsonl.gz", func(c *corpus.Merge) { all = append(all, realTriple(c)) })
	slices.SortFunc(all, func(x, y triple) int { return len(x.base) - len(y.base) })
	return all[len(all)/2]
}

// BenchmarkMerge measures merges beside starting git for them.
func BenchmarkMerge(b *testing.B) {
	cases := large()
	cases["median-real"] = medianCase(b)
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		x := cases[name]
		b.Run(name+"/here", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r := Merge(x.base, x.ours, x.theirs, Options{})
				render(r, Format{}, unresolved)
			}
		})
		b.Run(name+"/git", func(b *testing.B) {
			git, err := exec.LookPath("git")
			if err != nil {
				b.Skip("no git")
			}
			dir := b.TempDir()
			gitMerge(b, git, dir, x, StyleMerge) // writes the files
			for b.Loop() {
				cmd := exec.CommandContext(b.Context(), git, "merge-file", "-p", "ours", "base", "theirs")
				cmd.Dir = dir
				_, _ = cmd.Output() // it exits with the number of conflicts
			}
		})
	}
}

// BenchmarkDiff measures the diff of a large file.
func BenchmarkDiff(b *testing.B) {
	x := large()["100k-lines-1000-edits"]
	b.ReportAllocs()
	for b.Loop() {
		Diff(x.base, x.ours)
	}
}

// adversarial holds conflicts that are costly for the rules.
func adversarial(n int) map[string]triple {
	repeat := func(s string) []byte { return bytes.Repeat([]byte(s), n) }
	numbered := func(format string) []byte {
		var b []byte
		for i := range n {
			b = fmt.Appendf(b, format, i, i%7)
		}
		return b
	}
	rng := rand.New(rand.NewPCG(8, 8))
	letters := func() []byte {
		b := make([]byte, 0, 60*n)
		for i := range 60 * n {
			b = append(b, "ab \n"[min(rng.IntN(40), 3-i%2)])
		}
		return b
	}
	long := func() []byte { // a conflict of the largest size that is looked into, every six lines
		var b []byte
		for i := range n / 100 {
			for range maxConflict - 1 {
				b = append(b, "ab."[rng.IntN(3)])
			}
			b = fmt.Appendf(b, "\nx%d\n1\n2\n3\n4\n", i)
		}
		return b
	}
	return map[string]triple{
		"long-lines":     {long(), long(), long()},
		"many-conflicts": {numbered("a%d\nsame %d\n1\n2\n3\n4\n"), numbered("b%d\nsame %d\n1\n2\n3\n4\n"), numbered("c%d\nsame %d\n1\n2\n3\n4\n")},
		"one-conflict":   {numbered("a %d %d\n"), numbered("b %d %d\n"), numbered("c %d %d\n")},
		"equal-tokens":   {repeat("a a a a a a a\n"), repeat("a a a b a a a\n"), repeat("a c a a a a a a\n")},
		"quotes":         {repeat("\"\n"), repeat("\"\"\"'\n"), repeat("'\"'\n")},
		"random-letters": {letters(), letters(), letters()},
	}
}

// BenchmarkSuggest measures merges with suggestions beside such without, in one run: of the
// recorded merges with conflicts the median, and of adversarial ones those of growing size.
func BenchmarkSuggest(b *testing.B) {
	merges := map[string]func(x triple){
		"with":    func(x triple) { Merge(x.base, x.ours, x.theirs, Options{}) },
		"without": func(x triple) { mergeLines(x.base, x.ours, x.theirs, Options{}) },
	}
	b.Run("recorded", func(b *testing.B) {
		var all []triple
		eachCase(b, "cases.jsonl.gz", func(c *corpus.Merge) {
			if c.Git["merge"].Conflicts > 0 {
				all = append(all, realTriple(c))
			}
		})
		var ratios []float64
		for b.Loop() {
			ratios = ratios[:0]
			for _, x := range all {
				with, without := time.Duration(math.MaxInt64), time.Duration(math.MaxInt64)
				for range 5 { // in turn, so that a busy machine slows down both
					with = min(with, timed.Best(1, func() { merges["with"](x) }))
					without = min(without, timed.Best(1, func() { merges["without"](x) }))
				}
				ratios = append(ratios, float64(with)/float64(without))
			}
		}
		slices.Sort(ratios)
		b.ReportMetric(ratios[len(ratios)/2], "median-ratio")
		b.ReportMetric(ratios[len(ratios)*9/10], "p90-ratio")
		b.ReportMetric(ratios[len(ratios)-1], "worst-ratio")
	})
	for _, n := range []int{1000, 2000, 4000, 8000} {
		for name, x := range adversarial(n) {
			for how, merge := range merges {
				b.Run(fmt.Sprintf("%s-%d/%s", name, n, how), func(b *testing.B) {
					for b.Loop() {
						merge(x)
					}
				})
			}
		}
	}
}
