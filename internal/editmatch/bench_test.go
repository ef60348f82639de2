package editmatch_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/internal/editmatch"
	"github.com/aycoder/aycoder/internal/timed"
)

// code returns so many lines that look like a program.
func code(lines int) string {
	r := rand.New(rand.NewPCG(1, 1))
	var b strings.Builder
	for i := range lines {
		fmt.Fprintf(&b, "%svalue%d := compute(%d, %q)\n", strings.Repeat("\t", r.IntN(4)), i, r.IntN(10), "text")
	}
	return b.String()
}

// dotted says after each line that lines are left out.
func dotted(s string) string { return strings.ReplaceAll(s, "\n", "\n...\n") }

type sized struct {
	name      string
	file      string
	old, new  string
	all, fail bool
}

func sizes(lines int) []sized {
	file := code(lines)
	cut := strings.SplitAfter(file, "\n")
	at := lines / 2
	old := strings.Join(cut[at:at+5], "")
	edited := func(s string) string { return strings.Replace(s, "compute", "derive", 1) }
	spaces := strings.ReplaceAll(old, "\t", "    ")
	return []sized{
		{"exact", file, old, edited(old), false, false},
		{"CRLF", strings.ReplaceAll(file, "\n", "\r\n"), old, edited(old), false, false},
		{"spaces for tabs", file, spaces, edited(spaces), false, false},
		{"typographic", strings.ReplaceAll(file, `"`, "“"), old, edited(old), false, false},
		{"elided", file, cut[10] + "...\n" + cut[at], edited(cut[10]) + "...\n" + cut[at], false, false},
		{"not there", file, strings.Replace(old, "compute", "other", 2), "x", false, true},
		{"all", file, "compute", "derive", true, false},
	}
}

// An edit of 10 kB takes less than 2 ms.
func BenchmarkPlan(b *testing.B) {
	for _, lines := range []int{300, 30_000} {
		for _, s := range sizes(lines) {
			b.Run(fmt.Sprintf("%s/%dkB", s.name, len(s.file)/1000), func(b *testing.B) {
				b.ReportAllocs()
				b.SetBytes(int64(len(s.file)))
				for b.Loop() {
					_, err := editmatch.Plan([]byte(s.file), editmatch.Edit{Old: s.old, New: s.new, ReplaceAll: s.all})
					require.Equal(b, s.fail, err != nil)
				}
			})
		}
	}
}

// Texts that are made to be slow. Each takes well under a second alone; what is not
// linear would take minutes.
func TestLarge(t *testing.T) {
	timed.Serial(t)
	timed.Long(t, "edits of files of megabytes")
	mb := 1 << 20
	const limit = 10 * time.Second
	same := strings.Repeat("same line\n", mb/10)
	line := strings.Repeat("abcdefg ", mb)
	quoted := strings.Repeat("it’s “so” ", mb/2)
	indented := strings.Repeat("\ta\n\t\tb\n", mb/8)
	tests := []sized{
		{"equal lines", same, same[:len(same)/2], "x", false, true},
		{"equal lines but one", same + "x\n" + same, same + "x", "y", false, false},
		{"equal lines, other blanks", same, strings.ReplaceAll(same[:mb/2], "\n", " \n") + "x", "y", false, true},
		{"equal lines, half of them go", same + "end\n", same + "end", same[:len(same)/2] + "end", false, false},
		{"one line", line + "x" + line, "x", "y", false, false},
		{"one line, not there", line, line[:mb] + "x", "y", false, true},
		{"one line, typographic", quoted + "x" + quoted, `"so" x`, "y", false, false},
		{"one typographic line as a whole", "x" + quoted, "x" + plain(quoted), "y", false, false},
		{"all, typographic", strings.Repeat("it’s\n", 90_000), "it's", "x", true, false},
		{"all, indented", strings.Repeat("\ta\n\t\tb\n", 90_000), "  a\n    b", "  a\n    c", true, false},
		{"too many places", strings.Repeat("a ", 110_000), "a", "b", true, true},
		{"too large", strings.Repeat("a", 90_000), "a", strings.Repeat("b", 1000), true, true},
		{"indented, shifted", indented + "x\n", strings.ReplaceAll(indented, "\t", "    ") + "x",
			strings.ReplaceAll(indented, "\t", "    ") + "y", false, false},
		{"blank lines", strings.Repeat("\n", mb), strings.Repeat("\n", mb/2) + "x", "y", false, true},
		{"blanks", strings.Repeat(" ", 4*mb), strings.Repeat(" ", mb) + "x", "y", false, true},
		{"blanks, all", strings.Repeat("x"+strings.Repeat(" ", 50), 90_000), "x", "y", true, false},
		{"backslashes", same, strings.Repeat(`\n`, mb), "y", false, true},
		{"numbers", same, strings.Repeat("1\tsame line\n", 10_000), "y", false, true},
		{"dots", same, strings.Repeat("...\n", 100_000), strings.Repeat("...\n", 100_000) + "x", false, true},
		{"pieces", code(20_000), dotted(code(90)), strings.ReplaceAll(dotted(code(90)), "value1", "w1"), false, false},
		{"too many pieces", code(20_000), dotted(code(2000)), dotted(code(2000)) + "x", false, true},
		{"not UTF-8", strings.Repeat("\xff\xe2\x80", mb), "\xff\x80", "y", false, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var err error
			took := timed.Best(1, func() {
				_, err = editmatch.Plan([]byte(tt.file), editmatch.Edit{Old: tt.old, New: tt.new, ReplaceAll: tt.all})
			})
			t.Logf("%d bytes, %d bytes: %v", len(tt.file), len(tt.old), took.Round(time.Millisecond))
			require.Equal(t, tt.fail, err != nil, "%.300v", err)
			timed.AtMost(t, took, limit)
			if err != nil {
				assert.Less(t, len(err.Error()), 20_000)
			}
		})
	}
}
