package glob

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/internal/timed"
)

func TestMatch(t *testing.T) {
	tests := []struct {
		pattern, path string
		want          bool
	}{
		{"", "", true},
		{"", "a", false},
		{"a", "a", true},
		{"a", "A", false},
		{"*", "a.go", true},
		{"*", "", true},
		{"*", "a/b", false},
		{"*.go", "a.go", true},
		{"*.go", ".go", true},
		{"*.go", "x/a.go", false},
		{"**", "a/b/c", true},
		{"**/*.go", "a.go", true},
		{"**/*.go", "x/y/a.go", true},
		{"**/x", "yx", false},
		{"a/**", "a/b/c", true},
		{"a/**", "a", false},
		{"a/**", "ab", false},
		{"a/**/b", "a/b", true},
		{"a/**/b", "a/x/y/b", true},
		{"a/**/b", "ab", false},
		{"a**b", "a/x/b", true},
		{"a**/b", "a/b", true},
		{"a**/b", "ab", false},
		{"a?c", "abc", true},
		{"a?c", "a/c", false},
		{"a?c", "aéc", true},
		{"[a-c]x", "bx", true},
		{"[!a-c]x", "bx", false},
		{"[^a-c]x", "dx", true},
		{"[!a]", "/", false},
		{"[]a]", "]", true},
		{"[a-]", "-", true},
		{`[\]]`, "]", true},
		{"[é-ü]", "ö", true},
		{"{a,b}", "b", true},
		{"{a,b}", "c", false},
		{"{a,}x", "x", true},
		{"*.{ts,tsx}", "a.tsx", true},
		{"**/*.{ts,tsx}", "x/a.ts", true},
		{"{a,{b,c}}d", "cd", true},
		{"{**/,}a", "x/a", true},
		{"{**/a,b}", "a", true},
		{`\*`, "*", true},
		{`\*`, "a", false},
		{`\{a,b\}`, "{a,b}", true},
		{`a\`, `a\`, true},
		{"a,b}", "a,b}", true},
		{"\xff*", "\xffa", true},
		{"\xff", "\xfe", false},
		{"?", "\xff", true},
		{"[", "[", false},
		{"[a", "a", false},
		{"{a,b", "a", false},
		{"!x", "!x", true},
	}
	for _, tt := range tests {
		assert.Equal(t, tt.want, Match(tt.pattern, tt.path), "Match(%q, %q)", tt.pattern, tt.path)
		if p, err := Compile(tt.pattern); err == nil {
			large := prog{insts: p.prog.insts}
			assert.Equal(t, tt.want, large.match(tt.path), "as a large one: Match(%q, %q)", tt.pattern, tt.path)
		}
	}
}

func TestExtend(t *testing.T) {
	for pattern, want := range map[string]string{
		"*.go": "**/*.go", "a/*.go": "a/*.go", "./a/*.go": "a/*.go", "./*.go": "**/*.go", "a//./*.go": "a/*.go", "a/": "a/**",
		"./a//": "a/**", "**": "**/**", ".": "**", "./": "**", "/a": "/a", `a\*`: `**/a\*`, "a/{b,c}/": "a/{b,c}/**",
	} {
		assert.Equal(t, want, Extend(pattern), pattern)
	}
}

func TestCompileRefuses(t *testing.T) {
	for _, pattern := range []string{
		"[", "[!", "[]", "[a", `[\`, "{", "{a,b", "a{b{c}",
		strings.Repeat("{", 17) + strings.Repeat("}", 17),
		strings.Repeat("a", maxPattern+1),
	} {
		_, err := Compile(pattern)
		require.ErrorIs(t, err, ErrPattern, "Compile(%q)", pattern)
	}
}

// The patterns are known to take other matchers exponential time.
func TestBounded(t *testing.T) {
	path := strings.Repeat("a/", 500) + strings.Repeat("a", 500)
	for _, pattern := range []string{
		strings.Repeat("*a", 1000) + "b",
		strings.Repeat("**/", 600) + "b",
		strings.Repeat("{a,b}", 400) + "c",
		strings.Repeat("{a,", 15) + "{**/,*}" + strings.Repeat("}", 15) + "b",
		strings.Repeat("{*,**}", 300) + "b",
		strings.Repeat("*", maxPattern),
	} {
		start := time.Now()
		Match(pattern, path)
		timed.Within(t, start, 2*time.Second, pattern[:20])
	}
}

func FuzzMatch(f *testing.F) {
	for _, s := range []string{"*", "**/a", "[a-z]", "{a,b}", `\`, "[!", "{a,{b,c}}*?", "\xff"} {
		f.Add(s, "a/b")
	}
	f.Fuzz(func(t *testing.T, pattern, path string) {
		if p, err := Compile(pattern); err == nil {
			large := prog{insts: p.prog.insts}
			require.Equal(t, large.match(path), p.Match(path), "Match(%q, %q)", pattern, path)
		}
		var quoted strings.Builder
		for _, b := range []byte(path) {
			if strings.IndexByte(`*?[{\`, b) >= 0 {
				quoted.WriteString(`\`)
			}
			quoted.WriteString(string([]byte{b}))
		}
		if len(quoted.String()) <= maxPattern {
			require.True(t, Match(quoted.String(), path), "Match(%q, %q)", quoted.String(), path)
		}
	})
}

func BenchmarkMatch(b *testing.B) {
	p, err := Compile("**/*.{ts,tsx,go}")
	require.NoError(b, err)
	b.ReportAllocs()
	for b.Loop() {
		p.Match("internal/search/walk_test.go")
	}
}
