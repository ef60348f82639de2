package runes

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
)

func TestShorten(t *testing.T) {
	tests := []struct {
		name, in, cut, shortened string
		n                        int
	}{
		{"fits", "abc", "abc", "abc", 3},
		{"empty", "", "", "", 0},
		{"cut", "abcd", "abc", "abc…", 3},
		{"inside of a rune", "aé☃", "aé", "aé…", 5},
		{"first rune does not fit", "☃", "", "…", 2},
		{"nothing fits", "a", "", "…", 0},
		{"no start anywhere", "\x80\x80\x80", "", "…", 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, tt.cut, Cut(tt.in, tt.n))
			assert.Equal(t, tt.shortened, Shorten(tt.in, tt.n))
		})
	}
}

func FuzzCut(f *testing.F) {
	f.Add("aé☃\U0001F600", 5)
	f.Fuzz(func(t *testing.T, s string, n int) {
		n = max(n, -n, 0) % (len(s) + 2)
		got := Cut(s, max(n, 0))
		assert.True(t, strings.HasPrefix(s, got) && len(got) <= max(n, 0))
		assert.True(t, !utf8.ValidString(s) || utf8.ValidString(got))
	})
}

func TestTail(t *testing.T) {
	for _, tt := range []struct {
		s    string
		n    int
		want string
	}{
		{"abc", 2, "bc"},
		{"abc", 3, "abc"},
		{"abc", 9, "abc"},
		{"abc", 0, ""},
		{"aéb", 2, "b"},
		{"aéb", 3, "éb"},
		{"a\xff\xff", 2, "\xff\xff"},
	} {
		assert.Equal(t, tt.want, Tail(tt.s, tt.n), "%q %d", tt.s, tt.n)
	}
}

func TestLine(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "a\nb\tc": "a b c", "\x1b[31mred": "[31mred", "a\u202eb\u200b": "ab", "\u00e9\u4e16": "\u00e9\u4e16",
	} {
		assert.Equal(t, want, Line(in), in)
	}
}
