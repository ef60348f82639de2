package retrieval

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func wordsOf(text string) (out []string) {
	eachWord(text, func(word []byte, _ int) { out = append(out, string(word)) })
	return out
}

func TestWords(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"HTTPServer":            "http server httpserver",
		"camelCase snake_case":  "camel case camelcase snake case snakecase",
		"kebab-case SCREAM_IT2": "kebab case kebabcase scream screamit2",
		"utf8 x86_64 a1":        "utf utf8 86 64 x8664 a1",
		"getURLs parseXMLFile":  "get ur ls geturls parse xml file parsexmlfile",
		"foo->bar --flag _x":    "foo bar flag x",
		"The end of a file":     "end file",
		"naïve CAFÉ Łódź":       "naive cafe lodz",
		"e\u0301te":             "ete",
		"会话abc":                 "会 话 abc",
		"Привет МИР":            "привет мир",
		"a__b_":                 "b", // the first is a stop word
		"":                      "",
	} {
		require.Equal(t, strings.Fields(want), append([]string{}, wordsOf(text)...), text)
	}
	require.Empty(t, wordsOf(strings.Repeat("x", 65)))
	require.Empty(t, wordsOf(strings.Repeat("aB", 40)))
	places := map[string]int{}
	eachWord("write an HTTPServer x_y now", func(w []byte, place int) { places[string(w)] = place })
	require.Equal(t, map[string]int{"write": 0, "http": 2, "server": 3, "httpserver": 3, "xy": 4, "now": 5}, places)
}

// naive is the definition of the distance, without a limit.
func naive(a, b []rune) int {
	if len(a) == 0 || len(b) == 0 {
		return len(a) + len(b)
	}
	x, y := a[len(a)-1], b[len(b)-1]
	d := min(naive(a[:len(a)-1], b), naive(a, b[:len(b)-1])) + 1
	if same := naive(a[:len(a)-1], b[:len(b)-1]); x == y {
		d = min(d, same)
	} else {
		d = min(d, same+1)
	}
	if len(a) > 1 && len(b) > 1 && x == b[len(b)-2] && y == a[len(a)-2] {
		d = min(d, naive(a[:len(a)-2], b[:len(b)-2])+1)
	}
	return d
}

func TestDistance(t *testing.T) {
	t.Parallel()
	var all [][]rune
	for n := range 5 { // all words of up to four of three letters
		all = append(all, slices.Collect(func(yield func([]rune) bool) {
			word := make([]rune, n)
			var fill func(i int) bool
			fill = func(i int) bool {
				if i == n {
					return yield(slices.Clone(word))
				}
				for _, r := range "abä" {
					if word[i] = r; !fill(i + 1) {
						return false
					}
				}
				return true
			}
			fill(0)
		})...)
	}
	for _, a := range all {
		for _, b := range all {
			want := naive(a, b)
			for limit := range 3 {
				require.Equal(t, min(want, limit+1), min(distance(a, b, limit), limit+1), "%s %s", string(a), string(b))
			}
		}
	}
}

// Words are short, folded and valid, and their places do not go back.
func FuzzWords(f *testing.F) {
	f.Add("HTTPServer snake_case x86-64 Łódź 会话\xff\u0301")
	f.Fuzz(func(t *testing.T, text string) {
		last := 0
		n := 0
		eachWord(text, func(word []byte, place int) {
			n++
			require.True(t, utf8.Valid(word) && len(word) > 0 && len(word) <= maxWord, "%q", word)
			require.GreaterOrEqual(t, place, last)
			last = place
			if len(word) < utf8.UTFMax+1 {
				return
			}
			for _, r := range string(word) {
				_, c := fold(r)
				require.NotContains(t, []class{other, joiner, mark}, c, "%q", word)
			}
		})
		require.LessOrEqual(t, n, 2*len(text))
		l := NewLexical()
		l.Put(Item{ID: "x"}, text)
		if words := wordsOf(text); len(words) > 0 {
			require.Len(t, l.Search(words[0], 1, nil), 1, "%q in %q", words[0], text)
		}
		l.Search(text, 1, nil)
		l.Suggest(text, 2)
	})
}
