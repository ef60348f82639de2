package textdiff

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/pmezard/go-difflib/difflib"
	"github.com/stretchr/testify/require"
)

// codeLine makes lines as programs have them: many occur often.
func codeLine(rng *rand.Rand) string {
	switch rng.IntN(8) {
	case 0:
		return "\t}\n"
	case 1:
		return "\n"
	case 2:
		return "\t\treturn nil, err\n"
	}
	return fmt.Sprintf("\tx%d := call%d(a, b)\n", rng.IntN(400), rng.IntN(400))
}

// edited replaces about n lines.
func edited(rng *rand.Rand, lines []string, n int) string {
	out := slices.Clone(lines)
	for range n {
		out[rng.IntN(len(out))] = codeLine(rng)
	}
	return strings.Join(out, "")
}

// BenchmarkUnified measures unified diffs beside go-difflib's, in one run. Theirs cannot
// be applied in all cases.
func BenchmarkUnified(b *testing.B) {
	rng := rand.New(rand.NewPCG(7, 7))
	lines := func(n int, next func(i int) string) []string {
		out := make([]string, n)
		for i := range out {
			out[i] = next(i)
		}
		return out
	}
	code := lines(100_000, func(int) string { return codeLine(rng) })
	unique := lines(100_000, func(i int) string { return fmt.Sprintf("line %d of many\n", i) })
	kinds := lines(20_000, func(int) string { return fmt.Sprintf("%d\n", rng.IntN(150)) })
	twoKinds := lines(150, func(int) string { return fmt.Sprintf("%d\n", rng.IntN(2)) }) // autojunk starts at 200 lines
	same := slices.Repeat([]string{"the same line\n"}, 100_000)
	tests := []struct {
		name  string
		lines []string
		edits int
	}{
		{"100k-unique-lines-1000-edits", unique, 1000},
		{"100k-lines-of-code-100-edits", code, 100},
		{"20k-lines-of-150-kinds-200-edits", kinds, 200},
		{"100k-times-one-line-100-edits", same, 100},
		{"150-lines-of-two-kinds", twoKinds, 20},
	}
	for _, tt := range tests {
		x, y := strings.Join(tt.lines, ""), edited(rng, tt.lines, tt.edits)
		b.Run(tt.name+"/here", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				compare(x, y, 3).Append(nil)
			}
		})
		b.Run(tt.name+"/difflib", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, err := difflib.GetUnifiedDiffString(difflib.UnifiedDiff{
					A: difflib.SplitLines(x), B: difflib.SplitLines(y), FromFile: "a/x", ToFile: "b/x", Context: 3,
				})
				require.NoError(b, err)
			}
		})
	}
}

// BenchmarkViews measures the other views of a diff with 1,000 changes.
func BenchmarkViews(b *testing.B) {
	rng := rand.New(rand.NewPCG(7, 7))
	lines := make([]string, 100_000)
	for i := range lines {
		lines[i] = codeLine(rng)
	}
	d := compare(strings.Join(lines, ""), edited(rng, lines, 1000), 3)
	b.Run("rows", func(b *testing.B) {
		for b.Loop() {
			for i := range d.Hunks {
				d.Rows(&d.Hunks[i])
			}
		}
	})
	b.Run("brief", func(b *testing.B) {
		for b.Loop() {
			d.Brief(16 << 10)
		}
	})
}
