package words

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func wordsOf(text string) (out []string) {
	for w := range Of(text) {
		out = append(out, string(w.Text))
	}
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
		"연결에 실패":                "연 결 에 실 패",
		"ฐาน\u0e02\u0e49อ":      "ฐ า น \u0e02 \u0e49 อ",
		"Привет МИР":            "привет мир",
		"a__b_":                 "b", // the first is a stop word
		"":                      "",
	} {
		require.Equal(t, strings.Fields(want), append([]string{}, wordsOf(text)...), text)
	}
	require.Empty(t, wordsOf(strings.Repeat("x", 65)))
	require.Empty(t, wordsOf(strings.Repeat("aB", 40)))
	places := map[string]int{}
	for w := range Of("write an HTTPServer x_y now") {
		places[string(w.Text)] = w.Place
	}
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
				require.Equal(t, min(want, limit+1), min(Distance(a, b, limit), limit+1), "%s %s", string(a), string(b))
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
		for w := range Of(text) {
			n++
			word, place := w.Text, w.Place
			require.True(t, w.Start >= 0 && w.Start < len(text))
			require.True(t, utf8.Valid(word) && len(word) > 0 && len(word) <= MaxLen, "%q", word)
			require.GreaterOrEqual(t, place, last)
			last = place
			for _, r := range string(word) {
				_, c := fold(r)
				require.NotContains(t, []class{other, joiner, mark}, c, "%q", word)
			}
		}
		require.LessOrEqual(t, n, 2*len(text))
		Complete(text, 2, maps.All(map[string]int{"abc": 1}))
	})
}

// Each word says where its name starts, and whether it is a part or the whole of it.
func TestNames(t *testing.T) {
	t.Parallel()
	var got []Word
	for w := range Of("é HTTPServer x_y 世go") {
		w.Text = slices.Clone(w.Text)
		got = append(got, w)
	}
	require.Equal(t, []Word{
		{Text: []byte("e"), Start: 0},
		{Text: []byte("http"), Place: 1, First: 1, Start: 3, Part: true}, {Text: []byte("server"), Place: 2, First: 2, Start: 3, Part: true},
		{Text: []byte("httpserver"), Place: 2, First: 1, Start: 3, Whole: true},
		{Text: []byte("xy"), Place: 3, First: 3, Start: 14, Whole: true},
		{Text: []byte("世"), Place: 4, First: 4, Start: 18}, {Text: []byte("go"), Place: 5, First: 5, Start: 21},
	}, got)
	for range Of("one two") {
		break
	}
	for range Of("oneTwo") {
		break
	}
}

func TestLetter(t *testing.T) {
	t.Parallel()
	for r, want := range map[rune]rune{'a': 'a', 'A': 'a', 'É': 'e', '7': '7', '世': '世', '_': -1, '-': -1, '\u0301': -1, '.': ' ', '\n': ' ', '→': ' '} {
		require.Equal(t, want, Letter(r), "%q", r)
	}
}

func TestNearStop(t *testing.T) {
	t.Parallel()
	for word, want := range map[string]bool{"shuold": true, "whree": true, "form": true, "teh": false, "header": false, "at": false} {
		require.Equal(t, want, NearStop([]rune(word)), word)
	}
}

func TestComplete(t *testing.T) {
	t.Parallel()
	vocabulary := maps.All(map[string]int{"request": 3, "requirement": 1, "requesthandler": 2, "uberall": 1, "other": 9})
	require.Equal(t, []string{"the request", "the requesthandler", "the requirement"}, Complete("the req", 5, vocabulary))
	require.Equal(t, []string{"\ufffd request"}, Complete("\xff\xfe REQ", 1, vocabulary))
	require.Equal(t, []string{"user_request"}, Complete("user_Re\u0301q", 1, vocabulary))
	require.Equal(t, []string{"é uberall"}, Complete("é ÜB", 5, vocabulary))
	for _, query := range []string{"", "request ", "xyz"} {
		require.Empty(t, Complete(query, 5, vocabulary))
	}
	require.Empty(t, Complete("req", -1, vocabulary))
}

func TestRank(t *testing.T) {
	texts := [][]string{
		{"read_file", "Reads a file."},
		{"write_file", "Writes a file, and creates its directories."},
		{"search", "Finds a word in each file."},
		{"weather", "Says how the sky is."},
	}
	for query, want := range map[string][]int{
		"file":         {0, 1, 2}, // a name counts more than a description
		"directories":  {1},
		"file weather": {3, 0, 1, 2}, // which fewer texts have
		"wether":       {3},
		"nothing":      nil,
		"":             nil,
	} {
		require.Equal(t, want, Rank(t.Context(), query, texts, 3, 1), query)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.Nil(t, Rank(ctx, "file", texts, 3, 1))
}
