package paint_test

import (
	"html"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/internal/cli/paint"
)

// A letter is a character that is not a blank, and the elements that it is in.
type letter struct {
	r        rune
	elements string
}

// lettersOfHTML reads the HTML of a paragraph. Other elements than those of Markdown are text.
func lettersOfHTML(text string) (out []letter) {
	depth := map[string]int{}
	for len(text) > 0 {
		if name, rest, ok := element(text); ok {
			if end, ok := strings.CutPrefix(name, "/"); ok {
				depth[end]--
			} else {
				depth[name]++
			}
			text = rest
			continue
		}
		i := strings.IndexByte(text[1:], '<') + 1
		if i == 0 {
			i = len(text)
		}
		out = appendLetters(out, html.UnescapeString(text[:i]), depth)
		text = text[i:]
	}
	return out
}

func element(text string) (name, rest string, ok bool) {
	for _, e := range []string{"p", "/p", "em", "/em", "strong", "/strong", "code", "/code", "/a"} {
		if rest, ok := strings.CutPrefix(text, "<"+e+">"); ok {
			return e, rest, true
		}
	}
	if strings.HasPrefix(text, "<a href=") {
		_, rest, _ := strings.Cut(text, ">")
		return "a", rest, true
	}
	return "", text, false
}

func appendLetters(out []letter, text string, depth map[string]int) []letter {
	var elements strings.Builder
	for _, e := range []string{"em", "strong", "code", "a"} {
		if depth[e] > 0 && (e != "a" || depth["code"] == 0) {
			elements.WriteString("<" + e + ">")
		}
	}
	for _, r := range text {
		if r != ' ' && r != '\n' && r != '⏎' {
			out = append(out, letter{r, elements.String()})
		}
	}
	return out
}

// lettersOfTerminal reads what is painted, without the addresses after links.
func lettersOfTerminal(text string) (out []letter) {
	for part := range strings.SplitSeq(text, "\x1b[0m") {
		before, after, found := strings.Cut(part, "\x1b[")
		out = appendLetters(out, before, nil)
		if !found {
			continue
		}
		codes, rest, _ := strings.Cut(after, "m")
		depth, shown := map[string]int{}, true
		for code := range strings.SplitSeq(codes, ";") {
			depth[map[string]string{"3": "em", "1": "strong", "36": "code", "94": "a"}[code]]++
			shown = shown && code != "90"
		}
		if shown {
			out = appendLetters(out, rest, depth)
		}
	}
	return out
}

// TestInline compares emphasis, code spans and links with those of a CommonMark parser.
func TestInline(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("testdata/inline.txt")
	require.NoError(t, err)
	var lines []string
	for line := range strings.Lines(string(data)) {
		if !strings.HasPrefix(line, "# ") {
			lines = append(lines, strings.TrimSuffix(line, "\n"))
		}
	}
	require.Greater(t, len(lines), 1000)
	for i := 0; i < len(lines); i += 2 {
		text := strings.ReplaceAll(lines[i], "⏎", "\n")
		out := whole(t, paint.Style{Color: true, Width: 1000}, text)
		assert.Equal(t, lettersOfHTML(lines[i+1]), lettersOfTerminal(out), "%q\n%s\n%q", text, lines[i+1], out)
	}
}
