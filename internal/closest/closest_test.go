package closest

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestClosest(t *testing.T) {
	tools := []string{"read_file", "list_files", "code_search", "edit_file", "write_file", "bash", "todo"}
	args := []string{"path", "offset", "limit", "old_string", "new_string"}
	tests := []struct {
		name  string
		word  string
		of    []string
		limit int
		want  []string
	}{
		{"letter left out", "pth", args, 1, []string{"path"}},
		{"letter added", "pathh", args, 1, []string{"path"}},
		{"letter replaced", "limot", args, 1, []string{"limit"}},
		{"neighbours swapped", "ptah", args, 1, []string{"path"}},
		{"other case", "PATH", args, 1, []string{"path"}},
		{"camel case", "oldString", args, 1, []string{"old_string"}},
		{"hyphen", "read-file", tools, 1, []string{"read_file"}},
		{"contains it", "file_path", args, 1, []string{"path"}},
		{"is contained", "search", tools, 1, []string{"code_search"}},
		{"best first", "path", []string{"patch", "file_path", "paths", "path"}, 9,
			[]string{"path", "patch", "paths", "file_path"}},
		{"equal ones keep their order", "ac", []string{"ab", "aa", "ad"}, 3, []string{"ab", "aa", "ad"}},
		{"order of the list decides", "ac", []string{"ad", "aa", "ab"}, 2, []string{"ad", "aa"}},
		{"nothing like it", "weather", args, 3, nil},
		{"short words are not all alike", "x", args, 3, nil},
		{"two letters are not contained", "at", args, 3, nil},
		{"empty name", "", args, 3, nil},
		{"empty list", "path", nil, 3, nil},
		{"empty candidate", "path", []string{"", "_"}, 3, nil},
		{"none wanted", "path", args, 0, nil},
		{"fewer than none wanted", "path", args, -1, nil},
		{"other scripts", "größ", []string{"größe"}, 1, []string{"größe"}},
		{"too long", strings.Repeat("a", maxLen+1), []string{strings.Repeat("a", maxLen+1)}, 1, nil},
		{"candidate too long", "path", []string{"path" + strings.Repeat("h", 1<<20), "path"}, 2, []string{"path"}},
		{"longest allowed", strings.Repeat("a", maxLen), []string{strings.Repeat("a", maxLen-1)}, 1,
			[]string{strings.Repeat("a", maxLen-1)}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, tt.want, Closest(tt.word, tt.of, tt.limit), "Closest(%.40q, %.80q, %d)", tt.word, tt.of, tt.limit)
		})
	}
}

func FuzzClosest(f *testing.F) {
	f.Add("pth", "path", "limit")
	f.Add("\xff", "größe", "")
	f.Fuzz(func(t *testing.T, name, a, b string) {
		got := Closest(name, []string{a, b}, 2)
		require.LessOrEqual(t, len(got), 2)
		if n := utf8.RuneCountInString(a); n > maxLen {
			return
		}
		if x := fold(name); len(x) > 0 && len(x) <= maxLen && slices.Equal(x, fold(a)) {
			require.Contains(t, got, a, "a name is similar to itself")
			require.True(t, got[0] == a || slices.Equal(x, fold(got[0])), "and most of all")
		}
	})
}

func BenchmarkClosest(b *testing.B) {
	tools := []string{"read_file", "list_files", "code_search", "edit_file", "write_file", "bash", "todo"}
	b.ReportAllocs()
	for b.Loop() {
		Closest("raed_file", tools, 3)
	}
}
