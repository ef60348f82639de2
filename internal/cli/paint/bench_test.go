package paint_test

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/internal/cli/paint"
	"github.com/aycoder/aycoder/internal/cli/tty"
	"github.com/aycoder/aycoder/internal/timed"
)

// megabyte repeats the documents of testdata up to a megabyte.
func megabyte(t testing.TB) []byte {
	files, err := filepath.Glob("testdata/*.md")
	require.NoError(t, err)
	var all []byte
	for _, name := range files {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		all = append(append(all, text...), '\n')
	}
	return bytes.Repeat(all, 1<<20/len(all)+1)[:1<<20]
}

func inPieces(t testing.TB, w io.Writer, text []byte, size int) {
	for len(text) > 0 {
		n := min(size, len(text))
		_, err := w.Write(text[:n])
		require.NoError(t, err)
		text = text[n:]
	}
}

// BenchmarkMarkdown paints a megabyte in pieces of 20 bytes into a pipe that is read, and writes
// the same pieces to it as they are.
func BenchmarkMarkdown(b *testing.B) {
	text := megabyte(b)
	r, w, err := os.Pipe()
	require.NoError(b, err)
	done := make(chan error)
	go func() {
		_, err := io.Copy(io.Discard, r)
		done <- err
	}()
	b.Run("raw", func(b *testing.B) {
		b.SetBytes(int64(len(text)))
		b.ReportAllocs()
		for b.Loop() {
			inPieces(b, w, text, 20)
		}
	})
	b.Run("painted", func(b *testing.B) {
		b.SetBytes(int64(len(text)))
		b.ReportAllocs()
		for b.Loop() {
			p := paint.NewMarkdown(paint.Style{Color: true, Width: 80}, w)
			inPieces(b, p, text, 20)
			require.NoError(b, p.Flush())
		}
	})
	require.NoError(b, w.Close())
	require.NoError(b, <-done)
	require.NoError(b, r.Close())
}

// hostile are texts that a parser might go through again and again.
var hostile = map[string]string{
	"stars": "*", "stars and words": "*a ", "closers": "_a a* ", "both": "*a_ ", "brackets": "[", "images": "![", "links": "[a](",
	"closed": "a]", "nested links": "[[a](b)", "bars": "|", "bar lines": "|a|\n", "ticks": "`", "odd ticks": "`a``b```c", "angles": "<", "tags": "<a ",
	"quotes": "> ", "lists": "- ", "numbers": "1. ", "digits": "1", "blanks": " ", "deep": "          - a\n", "lines": "\n", "tabs": "\t", "dashes": "-", "dash lines": "- - - a\n",
	"fences": "```\n", "fence": "~", "hashes": "#", "escapes": "\\", "entities": "&a", "accents": "\u0301", "joiners": "👩\u200d", "flags": "🇩", "wide": "語",
	"nothing": "\u200b", "words": "w", "sentence": "two words ", "bytes": "\xe2", "controls": "\x1b", "table": "|a|b|\n|-|-|\n|x|y|\n", "equals": "a\n=\n", "html": "<div>\n", "code": "    /* ",
	"parentheses": "[a](((", "titles": "[a](b \"", "titles2": "[a](b 'c \"d (e ", "code in link": "[`](",
	"titles3": "[](a (", "depth": "[](a(",
	"addresses": "[](" + strings.Repeat("a", 40), "angles in links": "[](<a", "escapes in links": "[](a (\\)",
}

// TestLinear checks that hostile texts take work in proportion to their length, and that little
// is held. The work is the number of bytes and markers that may have been looked at.
func TestLinear(t *testing.T) {
	timed.Serial(t)
	t.Parallel()
	for name, unit := range hostile {
		for _, before := range []string{"", "|a|b|\n|-|-|\n|`[<a", "```\n"} {
			var steps [2]int
			for i, size := range []int{1 << 13, 1 << 15} {
				p := paint.NewMarkdown(paint.Style{Width: 80}, io.Discard)
				inPieces(t, p, []byte(before+strings.Repeat(unit, size/len(unit))), 20)
				steps[i] = p.Steps()
				assert.Less(t, p.Held(), 1<<20, "%s after %q", name, before)
				assert.Less(t, len(strings.Join(p.Pending(), "\n")), 1<<16, "%s after %q", name, before)
			}
			assert.Less(t, steps[1], 5*steps[0]+1000, "%s after %q", name, before)
			assert.Less(t, steps[1], 2000<<15, "%s after %q", name, before)
		}
	}
}

// A table whose rows have one cell of many is not painted with all its heads for each, or as an answer to
// a prompt of a few words, megabytes would be.
func TestWideTable(t *testing.T) {
	text := strings.Repeat("|a", 2000) + "\n" + strings.Repeat("|-", 2000) + "\n" + strings.Repeat("x\n", 1000)
	var b strings.Builder
	p := paint.NewMarkdown(paint.Style{Color: true, Width: 80}, &b)
	inPieces(t, p, []byte(text), 500)
	pending := p.Pending()
	assert.LessOrEqual(t, len(pending), 8)
	require.NoError(t, p.Flush())
	assert.Less(t, b.Len(), 50*len(text))
	assert.Equal(t, 1000, strings.Count(b.String(), " x\n"))
}

// The lines of a long row are those of its text, however much of it is broken at a time.
func TestLongRow(t *testing.T) {
	text := strings.Repeat("var a語 = \"x\";", 2000)
	lines := paint.Diff("--- a/x.js\n+++ b/x.js\n@@ -1,2 +1,2 @@\n "+text+"\n-a\n+b\n", paint.Style{Width: 60}, paint.DiffOptions{})
	var got strings.Builder
	for _, l := range lines {
		l = regexp.MustCompile("\x1b\\[[0-9;]*m").ReplaceAllString(l, "")
		assert.LessOrEqual(t, tty.Width(l), 60)
		got.WriteString(l)
	}
	assert.Contains(t, strings.NewReplacer(" ", "", "↪", "").Replace(got.String()), strings.ReplaceAll(text, " ", ""))
}
