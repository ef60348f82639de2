package diff_test

import (
	"math"
	"sync"
	"testing"

	"github.com/aycoder/aycoder/diff"
	"github.com/aycoder/aycoder/internal/textdiff"
	"github.com/aycoder/aycoder/merge"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestNames(t *testing.T) {
	tests := []struct {
		name, from, to, a, b string
		wantFrom, wantTo     string
	}{
		{"as given", "x", "y", "a", "b", "x", "y"},
		{"created", "", "x", "", "a", "", "x"},
		{"deleted", "x", "", "a", "", "x", ""},
		{"it was there before", "", "x", "a", "b", "x", "x"},
		{"it is still there", "x", "", "a", "b", "x", "x"},
		{"no name", "", "", "", "a", "file", "file"},
		{"absolute", "/tmp/x", "//tmp/x", "a", "b", "tmp/x", "tmp/x"},
		{"no name and not there", "", "", "a", "", "file", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := diff.Compare([]byte(tt.a), []byte(tt.b), diff.WithNames(tt.from, tt.to))
			assert.Equal(t, []string{tt.wantFrom, tt.wantTo}, []string{d.OldName, d.NewName})
			assert.True(t, d.Changed())
		})
	}
}

// The exported kinds stand for those inside.
func TestKinds(t *testing.T) {
	for kind, inside := range map[diff.Kind]textdiff.Kind{
		diff.Equal: textdiff.Equal, diff.Changed: textdiff.Changed, diff.Removed: textdiff.Removed, diff.Added: textdiff.Added,
	} {
		assert.Equal(t, int(inside), int(kind), kind)
	}
}

// TestHunks puts some of the changes into the text.
func TestHunks(t *testing.T) {
	before, after := []byte("a\n1\n2\n3\nb\n"), []byte("A\n1\n2\n3\nB")
	d := diff.Compare(before, after, diff.WithContext(1))
	require.Len(t, d.Hunks, 2)
	last := d.Hunks[1]
	assert.Equal(t, merge.Span{FirstLine: 3, EndLine: 5, Start: 6, End: 10}, last.Old)
	got := string(before[:last.Old.Start]) + string(last.New.Of(after)) + string(before[last.Old.End:])
	assert.Equal(t, "a\n1\n2\n3\nB", got)

	d = diff.Compare(before, after, diff.WithContext(math.MaxInt))
	require.Len(t, d.Hunks, 1)
	rows := d.Hunks[0].Rows()
	require.Len(t, rows, 5)
	assert.Equal(t, diff.Changed, rows[0].Kind)
	assert.Equal(t, diff.Line{Number: 5, Text: []byte("B"), Changed: [][2]int{{0, 1}}}, rows[4].New)
}

func TestBinary(t *testing.T) {
	d := diff.Compare([]byte("a\x00"), []byte("b\x00"))
	assert.True(t, d.Binary)
	assert.Empty(t, d.Hunks)
	assert.Equal(t, "diff --git a/file b/file\nBinary files a/file and b/file differ\n", string(d.Unified()))
	assert.Equal(t, string(d.Unified()), d.Brief(100))
	assert.Equal(t, "1 file changed, 0 insertions(+), 0 deletions(-)", d.Stat().String())
	assert.False(t, diff.Compare([]byte("\x00"), []byte("\x00")).Changed())
}

func TestStat(t *testing.T) {
	tests := []struct {
		stat diff.Stat
		want string
	}{
		{diff.Stat{}, "0 files changed"},
		{diff.Stat{Files: 1, Insertions: 1}, "1 file changed, 1 insertion(+)"},
		{diff.Stat{Files: 1, Deletions: 2}, "1 file changed, 2 deletions(-)"},
		{diff.Stat{Files: 2, Insertions: 3, Deletions: 1}, "2 files changed, 3 insertions(+), 1 deletion(-)"},
	}
	for _, tt := range tests {
		assert.Equal(t, tt.want, tt.stat.String())
	}
	one := diff.Compare([]byte("a\n"), []byte("b\nc\n")).Stat()
	two := diff.Compare([]byte("a\n"), nil, diff.WithNames("x", "")).Stat()
	assert.Equal(t, diff.Stat{Files: 2, Insertions: 2, Deletions: 2}, one.Add(two))
	assert.Equal(t, one, one.Add(diff.Compare(nil, nil).Stat()))
}

// TestDiffZero checks that values that Diff did not make do no harm.
func TestZero(t *testing.T) {
	var d diff.File
	var h diff.Hunk
	assert.Empty(t, d.Unified())
	assert.Empty(t, d.Brief(100))
	assert.Zero(t, d.Stat())
	assert.Empty(t, h.Rows())
	assert.Equal(t, "Kind(7) changed", diff.Kind(7).String()+" "+diff.Changed.String())
}

func TestConcurrent(t *testing.T) {
	d := diff.Compare([]byte("a b\nc\n"), []byte("a c\nc\n"))
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			assert.NotEmpty(t, d.Unified())
			assert.Len(t, d.Hunks[0].Rows(), 2)
			assert.NotEmpty(t, d.Brief(10))
		})
	}
	wg.Wait()
}

func FuzzDiff(f *testing.F) {
	f.Add([]byte("a\n"), []byte("b"), "x", "y", 3)
	f.Add([]byte(""), []byte("\x00"), "", "", -1)
	f.Fuzz(func(t *testing.T, a, b []byte, from, to string, n int) {
		d := diff.Compare(a, b, diff.WithNames(from, to), diff.WithContext(n))
		require.Equal(t, d.Changed(), len(d.Unified()) > 0)
		require.LessOrEqual(t, len(d.Brief(n)), max(n, 0))
		var out []byte
		at, rows := 0, 0
		for i := range d.Hunks {
			h := &d.Hunks[i]
			out = append(append(out, a[at:h.Old.Start]...), h.New.Of(b)...)
			at = h.Old.End
			rows += len(h.Rows())
		}
		if !d.Binary {
			require.Equal(t, string(b), string(append(out, a[at:]...)), "%d rows", rows)
		}
	})
}
