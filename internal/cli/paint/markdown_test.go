package paint_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/internal/cli/paint"
	"github.com/aycoder/aycoder/internal/cli/tty"
	"github.com/aycoder/aycoder/internal/timed"
)

// painted returns a text as it is painted when it comes in pieces of the sizes that next returns.
func painted(t testing.TB, s paint.Style, text string, next func() int) string {
	t.Helper()
	var out strings.Builder
	p := paint.NewMarkdown(s, &out)
	for len(text) > 0 {
		n := min(next(), len(text))
		k, err := p.Write([]byte(text[:n]))
		require.NoError(t, err)
		require.Equal(t, n, k)
		text = text[n:]
	}
	require.NoError(t, p.Flush())
	return out.String()
}

func whole(t testing.TB, s paint.Style, text string) string {
	return painted(t, s, text, func() int { return len(text) })
}

var escapes = regexp.MustCompile(`\x1b\[[0-9;]*m`)

func unpainted(s string) string { return escapes.ReplaceAllString(s, "") }

// parts are what random texts are made from: markers, words, and what is hard to cut.
var parts = []string{
	"*", "**", "***", "_", "__", "`", "``", "```", "~~~", "[", "]", "](", "](http://a.b/c", ")", "![", "<", ">", "&amp;", "&",
	"\\", "\\*", "  \n", "\n", "\n", "\n\n", "\n\n", "\n- ", "\n  - ", "\n1. ", "\n2) ", "\n> ", "\n>> ", "\n# ", "\n## ",
	"\n===\n", "\n---\n", "\n***\n", "\n|", "|", "|", "\n|--|--|\n", "\n|-|\n", "\n    ", "\t", "\n```\n", "\n```go\n", "\n~~~\n", "\n```\n",
	"\n<div>\n", "\n- [ ] ", "\n* [x] ", "word", "word ", " word", " ", " ", "x", "1", "日本語", "é", "e\u0301", "👩‍👩‍👧", "👩\ufeff", "🏻", "🇩🇪", "\u200d",
	"\x1b[31m", "\r", "\x00", "\u202e", "\x9b", "\xff", "\xe2\x82", "func main() {", "/*", "*/", `"`, "'", "(", "//", "!", ".", strings.Repeat("long ", 30),
	strings.Repeat("w", 100), strings.Repeat("*a ", 50), strings.Repeat("[", 40), strings.Repeat("x y ", 30), strings.Repeat("`", 30),
}

func randomText(rng *rand.Rand) string {
	var b strings.Builder
	for range 1 + rng.IntN(60) {
		b.WriteString(parts[rng.IntN(len(parts))])
		if rng.IntN(3) == 0 {
			b.WriteString(parts[rng.IntN(len(parts))][:1])
		}
	}
	return b.String()
}

// TestPieces checks that the pieces of a text do not matter, nor a look at the unfinished line,
// that lines fit, and that no control character gets through.
func TestPieces(t *testing.T) {
	timed.Serial(t)
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range 300 {
		text := randomText(rng)
		s := paint.Style{Color: i%2 == 0, Plain: i%5 == 0, Width: 1 + rng.IntN(100)}
		want := whole(t, s, text)
		for _, size := range []int{1, 3, 20} {
			require.Equal(t, want, painted(t, s, text, func() int { return size }), "%q in pieces of %d", text, size)
		}
		require.Equal(t, want, painted(t, s, text, func() int { return 1 + rng.IntN(9) }), "%q", text)
		checkLines(t, s, want, text)
	}
}

func checkLines(t *testing.T, s paint.Style, out, text string) {
	t.Helper()
	if s.Plain {
		require.NotContains(t, out, "\x1b")
	}
	for line := range strings.Lines(unpainted(out)) {
		line = strings.TrimSuffix(line, "\n")
		require.LessOrEqual(t, tty.Width(line), max(s.Width, 2), "%q of %q", line, text)
		require.NotContains(t, strings.ToValidUTF8(line, "\x00"), "\x00", "%q %q", line, text)
		for _, r := range line {
			require.False(t, unicode.IsControl(r) || r >= 0x202a && r <= 0x202e, "%q in %q", r, text)
		}
	}
}

// TestPending checks that looking at what is not written changes nothing, and that all of the text
// is visible as soon as it comes: what is written and what is pending are what the text would look
// like if it ended there.
func TestPending(t *testing.T) {
	timed.Serial(t)
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 4))
	for range 25 {
		text := randomText(rng)
		s := paint.Style{Color: true, Width: 20 + rng.IntN(60)}
		var out strings.Builder
		p := paint.NewMarkdown(s, &out)
		for i := range len(text) {
			p.SetWidth(s.Width)
			_, err := p.Write([]byte(text[i : i+1]))
			require.NoError(t, err)
			pending, want := p.Pending(), whole(t, s, text[:i+1])
			require.True(t, strings.HasPrefix(want, out.String()), "%q", text[:i+1])
			rest := strings.Split(want[out.Len():], "\n")
			rest = rest[:len(rest)-1]
			require.Equal(t, rest[max(len(rest)-8, 0):], pending, "%q", text[:i+1])
		}
		require.NoError(t, p.Flush())
		require.Equal(t, whole(t, s, text), out.String(), "%q", text)
	}
	var out strings.Builder
	p := paint.NewMarkdown(paint.Style{Width: 19, Plain: true}, &out)
	write := func(piece string) {
		_, err := p.Write([]byte(piece))
		require.NoError(t, err)
	}
	require.Empty(t, p.Pending())
	write("- one two three **fourth five si")
	assert.Equal(t, []string{"- one two three", "  **fourth five si"}, p.Pending())
	write("x** ")
	assert.Equal(t, []string{"- one two three", "  fourth five six"}, p.Pending())
	write("\n  seven eight\n")
	assert.Equal(t, "- one two three\n  fourth five six\n", out.String())
	assert.Equal(t, []string{"  seven eight"}, p.Pending())
}

// The pieces of a line do not matter either where it is too long to hold.
func TestPiecesOfLongLines(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(9, 10))
	var long strings.Builder
	for long.Len() < 12_000 {
		long.WriteString("some words é"[:1+rng.IntN(11)] + "\t "[rng.IntN(2):])
	}
	for _, before := range []string{"", "- ", "# ", "<div>\n", "```\n", "```go\n", "    ", "|a|b|\n|-|-|\n|"} {
		text := before + long.String()
		s := paint.Style{Width: 50}
		want := whole(t, s, text)
		for _, size := range []int{1, 7, 20, 333, 5000} {
			require.Equal(t, want, painted(t, s, text, func() int { return size }), "%q in pieces of %d", before, size)
		}
	}
}

// Blank lines in indented code are held while they may be at its end, but not all of any number.
func TestBlankLinesOfCode(t *testing.T) {
	t.Parallel()
	shown := func(n int) string {
		return whole(t, paint.Style{Plain: true}, "    a"+strings.Repeat("\n", n+1)+"    b\n")
	}
	require.Equal(t, "  a\n\n\n  b\n", shown(2))
	require.Equal(t, shown(100), shown(100_000))
}

// A long line is written while it comes.
func TestLongLine(t *testing.T) {
	t.Parallel()
	for _, before := range []string{"", "- ", "# ", "```\n"} {
		var out strings.Builder
		p := paint.NewMarkdown(paint.Style{Width: 80}, &out)
		for range 400 {
			_, err := p.Write([]byte("some words and "))
			require.NoError(t, err)
		}
		assert.Greater(t, out.Len(), 4000, before)
	}
}

// letters returns the letters and digits of a text.
func letters(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return r
		}
		return -1
	}, s)
}

// TestNothingIsLost compares the letters of random texts with those that are painted. The texts
// have nothing that is not shown as it is, which is the language of a fence and the names of
// characters.
func TestNothingIsLost(t *testing.T) {
	timed.Serial(t)
	t.Parallel()
	rng := rand.New(rand.NewPCG(5, 6))
	hidden := strings.NewReplacer("```go", "```", "&amp;", "&", "[x]", "[ ]", "\x1b", "", "\x9b", "", "\x00", "", "\u202e", "")
	fence := regexp.MustCompile("(`{3,}|~{3,})[^\n]*")
	for range 1000 {
		text := fence.ReplaceAllString(hidden.Replace(randomText(rng)), "$1\n")
		out := unpainted(whole(t, paint.Style{Color: true, Width: 70}, text))
		require.Equal(t, letters(text), letters(out), "%q gives\n%s", text, out)
	}
	for _, before := range []string{"", "- ", "a\n", "```\n", "|a|b|\n|-|-|\n"} {
		text := before + strings.Repeat(" ", 5000) + "text"
		require.Equal(t, letters(text), letters(unpainted(whole(t, paint.Style{}, text))), before)
	}
}

// TestExamples compares documents of testdata with what they look like.
func TestExamples(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.md")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, name := range files {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		golden(t, filepath.Base(name), func(s paint.Style) string { return whole(t, s, string(text)) })
	}
}

func FuzzMarkdown(f *testing.F) {
	f.Add("a *b* `c`\n\n|x|y|\n|-|-|\n|1|2|\n\n```go\nfunc\n```\n", uint8(20), uint8(1))
	f.Add("- a\n  > b\n    1. [c](d \"e\")\n\n<b>&amp;\\*", uint8(3), uint8(7))
	f.Add("a"+strings.Repeat(" ", 700)+"b"+strings.Repeat(" ", 400)+"c", uint8(130), uint8(57))
	f.Fuzz(func(t *testing.T, text string, width, size uint8) {
		s := paint.Style{Color: size%2 == 0, Plain: width%5 == 0, Width: 1 + int(width)}
		out := whole(t, s, text)
		require.Equal(t, out, painted(t, s, text, func() int { return 1 + int(size) }))
		checkLines(t, s, out, text)
	})
}
