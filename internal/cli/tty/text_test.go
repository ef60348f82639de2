package tty_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/internal/cli/tty"
)

func TestClean(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ text, want string }{
		{"plain\ttext\n", "plain\ttext\n"},
		{"a\r\nb", "a\nb"},
		{"\x1b]0;owned\a", "␛]0;owned␇"},
		{"\u009b31m", "<009b>31m"},
		{"abc\u202edef\u2066", "abc<202e>def<2066>"},
		{"\x7f\x00", "␡␀"},
		{"\xff", "\ufffd"},
	} {
		require.Equal(t, tt.want, tty.Clean(tt.text))
	}
	require.Equal(t, "a b ␛c", tty.CleanLine(" a\n\tb \x1bc\n"))
}

// The widths are those of tmux 3.3a and of Unicode's examples.
func TestWidth(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		text string
		want int
	}{
		{"", 0},
		{"abc", 3},
		{"é", 1},
		{"e\u0301", 1},
		{"e\u0301x", 2},
		{"漢字", 4},
		{"ｶﾅ", 2},
		{"한글", 4},
		{"👍🏽", 2},
		{"👩\u200d👩\u200d👧\u200d👦", 2},
		{"👩\u200d👩\u200d👧\u200d👦x", 3},
		{"🇩🇪🇫🇷", 4},
		{"●…✗", 3},
		{"\x1b[31mred\x1b[0m", 3},
		{"a\u200bb", 2},
		{"z" + strings.Repeat("\u0300", 100) + "a", 2},
		{strings.Repeat("漢", 100), 200},
	} {
		require.Equal(t, tt.want, tty.Width(tt.text), "%q", tt.text)
	}
}

func TestNext(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		text string
		want []string
	}{
		{"ab", []string{"a", "b"}},
		{"e\u0301b", []string{"e\u0301", "b"}},
		{"漢字é", []string{"漢", "字", "é"}},
		{"👩\u200d👩\u200d👧x", []string{"👩\u200d👩\u200d👧", "x"}},
		{"🇩🇪🇫🇷", []string{"🇩🇪", "🇫🇷"}},
		{"é\nb", []string{"é", "\n", "b"}},
		{"\x1b[1ma", []string{"\x1b[1m", "a"}},
		{"\x1b", []string{"\x1b"}},
		{"z" + strings.Repeat("\u0300", 100) + "a", []string{"z" + strings.Repeat("\u0300", 100), "a"}},
		{"*🏻", []string{"*", "🏻"}}, // of three columns together
	} {
		var got []string
		for rest := tt.text; rest != ""; {
			n, _ := tty.Next(rest)
			got = append(got, rest[:n])
			rest = rest[n:]
		}
		require.Equal(t, tt.want, got)
	}
}

func TestFit(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		text string
		n    int
		want string
	}{
		{"hello", 5, "hello"},
		{"hello!", 5, "hell…"},
		{"漢字漢字", 5, "漢字…"},
		{"漢字漢字", 6, "漢字…"},
		{"\x1b[31mhello!\x1b[0m", 5, "\x1b[31mhell…\x1b[0m"},
		{"hello", 1, "…"},
		{"hello", 0, ""},
	} {
		require.Equal(t, tt.want, tty.Fit(tt.text, tt.n))
	}
}

func TestWrap(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		text  string
		width int
		hang  string
		want  []string
	}{
		{"one two three", 7, "", []string{"one two", "three"}},
		{"one two three", 8, "", []string{"one two", "three"}},
		{"one  two", 4, "", []string{"one", "two"}},
		{"- one two three", 8, "  ", []string{"- one", "  two", "  three"}},
		{"  indented text", 10, "  ", []string{"  indented", "  text"}},
		{"abcdefghij", 4, "", []string{"abcd", "efgh", "ij"}},
		{"ab cdefghij", 4, "", []string{"ab", "cdef", "ghij"}},
		{"漢字漢字", 5, "", []string{"漢字", "漢字"}},
		{"a\nb c", 1, "", []string{"a", "b", "c"}},
		{"", 5, "", []string{""}},
		{"漢", 1, "", []string{"漢"}},
		{"one two ", 7, "", []string{"one two"}},
		{"abc def", 2, "    ", []string{"ab", "c", "de", "f"}},
	} {
		require.Equal(t, tt.want, tty.Wrap(tt.text, tt.width, tt.hang), "%q", tt.text)
	}
}

// Lines have the width and lose nothing but spaces.
func FuzzWrap(f *testing.F) {
	f.Add("one two 漢字 three\nfour", 9)
	f.Add("e\u0301\u200d 👩\u200d👩", 2)
	f.Fuzz(func(t *testing.T, text string, width int) {
		text, width = tty.Clean(text), 2+abs(width)%40
		lines := tty.Wrap(text, width, "")
		spaceless := func(s string) string { return strings.NewReplacer(" ", "", "\n", "").Replace(s) }
		require.Equal(t, spaceless(text), spaceless(strings.Join(lines, "")))
		for _, l := range lines {
			require.True(t, utf8.ValidString(l))
			if n, _ := tty.Next(l); tty.Width(l) > width {
				require.Equal(t, len(l), n, "only a single character is wider")
			}
		}
		for n := range 5 {
			require.LessOrEqual(t, tty.Width(tty.Fit(text, n)), n)
		}
	})
}

func abs(n int) int {
	if n < 0 {
		return -(n + 1)
	}
	return n
}

func TestFold(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{"a", "b"}, tty.Fold("a\nb\n", 2))
	require.Equal(t, []string{"1", "2", "… 3 more lines", "6"}, tty.Fold("1\n2\n3\n4\n5\n6", 4))
}
