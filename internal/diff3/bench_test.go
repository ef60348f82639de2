package diff3

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"testing"
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
	eachCase(b, "cases.jsonl.gz", func(c *realCase) { all = append(all, c.triple()) })
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
