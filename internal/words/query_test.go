package words

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/timed"
)

// The letters of random texts, some of which stand for the same word, and the gaps between words.
var fuzzLetters = []string{
	"a", "A", "á", "a\u0301", "b", "n", "N", "ñ", "t", "u", "c", "e", "1", "д", "Д", "\u212a", "ſ", "ệ", "世", "界",
}

var fuzzGaps = []string{" wehn ", "thier", " ", "\n", "\t", "<", "\u2028", "“", "→", "🙂", "\x01", `\`, `"`, "_", ".", "\u00ad", `\n`, `\u00`, "-"}

// fuzzText makes a text of bytes.
func fuzzText(data []byte) string {
	var text strings.Builder
	for _, c := range data {
		if int(c) < 12*len(fuzzLetters) {
			text.WriteString(fuzzLetters[int(c)%len(fuzzLetters)])
		} else {
			text.WriteString(fuzzGaps[int(c)%len(fuzzGaps)])
		}
	}
	return text.String()
}

// naiveWords returns the words of a query by their places.
func naiveWords(query string) map[int][]rune {
	places, parts, joined := map[int][]rune{}, map[int][]rune{}, 0
	for w := range Of(query) {
		if w.Part {
			parts[w.Place-joined] = []rune(string(w.Text))
			continue
		}
		var together strings.Builder
		for _, place := range slices.Sorted(maps.Keys(parts)) {
			together.WriteString(string(parts[place]))
		}
		if name := regexp.MustCompile(`^[\pL\pM\pN_-]+`).FindString(query[w.Start:]); together.String() == string(w.Text) && strings.ContainsAny(name, "_-") {
			maps.Copy(places, parts)
		} else {
			joined += w.Place - w.First
			places[w.Place-joined] = []rune(string(w.Text))
		}
		clear(parts)
	}
	return places
}

// distance is the number of typing errors between two words, by the textbook (optimal string
// alignment).
func distance(a, b []rune) int {
	d := make([][]int, len(a)+1)
	for i := range d {
		d[i] = make([]int, len(b)+1)
		for j := range d[i] {
			switch {
			case i == 0 || j == 0:
				d[i][j] = i + j
			case a[i-1] == b[j-1]:
				d[i][j] = d[i-1][j-1]
			default:
				d[i][j] = 1 + min(d[i-1][j], d[i][j-1], d[i-1][j-1])
			}
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d[i][j] = min(d[i][j], d[i-2][j-2]+1)
			}
		}
	}
	return d[len(a)][len(b)]
}

// naiveMatch says how well a text matches a query, with a comparison of each word with each word.
func naiveMatch(text string, query map[int][]rune) int {
	required := maps.Clone(query)
	maps.DeleteFunc(required, func(_ int, w []rune) bool { return NearStop(w) })
	if len(required) == 0 {
		required = query
	}
	type spelled struct {
		letters     []rune
		first, last int // place
	}
	var all []spelled
	end := 0
	for w := range Of(text) {
		all = append(all, spelled{[]rune(string(w.Text)), w.First, w.Place})
		end = w.Place
	}
	same := func(w, q []rune) bool { return string(w) == string(q) }
	similar := func(w, q []rune) bool {
		errors := 0
		if len(q) >= 4 && !slices.ContainsFunc(q, unicode.IsDigit) {
			errors = 1
		}
		return distance(w, q) <= errors
	}
	inOrder := func(query map[int][]rune, equal func(w, q []rune) bool) bool {
		places := slices.Sorted(maps.Keys(query))
		var from func(k, place int) bool // whether the rest of the query, from k on, is at the places from place on
		from = func(k, place int) bool {
			q, counts := query[k]
			switch {
			case k > places[len(places)-1]:
				return true
			case !counts:
				return from(k+1, place+1)
			}
			return slices.ContainsFunc(all, func(w spelled) bool { return w.first == place && equal(w.letters, q) && from(k+1, w.last+1) })
		}
		for place := range end + 1 {
			if from(places[0], place) {
				return true
			}
		}
		return false
	}
	everywhere := func(query map[int][]rune, equal func(w, q []rune) bool) bool {
		for _, q := range query {
			if !slices.ContainsFunc(all, func(w spelled) bool { return equal(w.letters, q) }) {
				return false
			}
		}
		return true
	}
	switch {
	case len(query) == 0:
		return NoMatch
	case inOrder(query, same):
		return Phrase
	case everywhere(query, same):
		return AllWords
	case inOrder(required, similar):
		return NearPhrase
	case everywhere(required, similar):
		return NearWords
	}
	return NoMatch
}

// checkMatch compares the match with the naive one, and requires that the scanner finds the lines
// in which a message with the text is stored.
func checkMatch(t *testing.T, text, query string) int {
	q, queryWords := NewQuery(query), naiveWords(query)
	require.Len(t, q.exact.words, len(queryWords), "%q", query)
	want := naiveMatch(text, queryWords)
	if len(queryWords) == 0 {
		return want
	}
	got, at := q.Match(text)
	require.Equal(t, want, got, "%q in %q", query, text)
	require.True(t, got == NoMatch || utf8.ValidString(text[at:]))
	if want == NoMatch {
		return want
	}
	args, err := json.Marshal(map[string]string{"x": text})
	require.NoError(t, err)
	for _, p := range []aycoder.Part{&aycoder.Text{Text: text}, &aycoder.ToolUse{ID: "1", Name: "x", Args: args}} {
		record, err := json.Marshal(&aycoder.Message{Role: aycoder.RoleUser, Parts: []aycoder.Part{p}})
		require.NoError(t, err)
		require.True(t, NewFilter(q).MayMatch(record), "%q in %s", query, record)
	}
	return want
}

// Texts and queries of random letters match as the naive search says, and the scanner leaves out no
// line that matches.
func TestMatchNaively(t *testing.T) {
	timed.Serial(t)
	t.Parallel()
	rnd := rand.New(rand.NewPCG(1, 2))
	random := func(n int) []byte {
		out := make([]byte, rnd.IntN(n))
		for i := range out {
			if out[i] = byte(rnd.IntN(4)); rnd.IntN(4) == 0 { // many words of few letters are similar
				out[i] = byte(rnd.IntN(256))
			}
		}
		return out
	}
	var count [Phrase + 1]int
	for range 20_000 {
		data := random(40)
		query := random(12)
		if len(data) > 0 && rnd.IntN(2) == 0 { // a piece of the text, with an error
			i := rnd.IntN(len(data))
			query = slices.Clone(data[i:min(len(data), i+1+rnd.IntN(12))])
			query[rnd.IntN(len(query))] = byte(rnd.IntN(256))
		}
		count[checkMatch(t, fuzzText(data), fuzzText(query))]++
	}
	for quality, n := range count {
		require.Greater(t, n, 20, "quality %d", quality)
	}
}

func FuzzMatch(f *testing.F) {
	f.Add([]byte("some words of a text"), []byte("wrods"))
	f.Fuzz(func(t *testing.T, data, query []byte) {
		if len(data) > 1000 || len(query) > 50 {
			return
		}
		checkMatch(t, fuzzText(data), fuzzText(query))
	})
}

func TestMatch(t *testing.T) {
	t.Parallel()
	tests := []struct {
		text, query string
		want        int
	}{
		{"the quick brown fox", "quick brown", Phrase},
		{"the Quick,\n\"Brown\" fox", "quick brown", Phrase},
		{"brown and quick", "quick brown", AllWords},
		{"the qiuck brwn fox", "quick brown", NearPhrase},
		{"brwon and quik", "quick brown", NearWords},
		{"the quick fox", "quick brown", NoMatch},
		{"a cat", "car", NoMatch}, // words of three letters have no errors
		{"port 8081", "port 8080", NoMatch},
		{"Überprüfung der Größe", "uberprufung", Phrase},
		{"naïve café", "NAIVE CAFE", Phrase},
		{"cafe", "café", Phrase},
		{"Łódź, Søren, Đà Nẵng", "lodz soren da nang", Phrase},
		{"ΣΊΣΥΦΟΣ", "σίσυφος", Phrase},
		{"Привет, мир", "привет МИР", Phrase},
		{"我们的会话很长", "会话", Phrase},
		{"max_tokens", "tokens", Phrase},
		{"const maxTokens = 8", "MAX_TOKENS const", AllWords},
		{"user_profile, UserProfile", "userProfile", Phrase},
		{"write to the EMail of it", "e-mail of", Phrase},
		{"the websocket handler", "WebSocket handler", Phrase},
		{"an HTTPServer for it", "httpsrever", NearPhrase},
		{"the HTTPServer of it", "httpserver", Phrase},
		{"right HTMLEscape err", "right HTMLsEcape err", NearPhrase}, // it has another number of parts
		{"right HTMLEscape err", "right htmlescape err", Phrase},
		{"right htmlescape err", "right HTMLEscape err", Phrase},
		{"right html escape err", "right HTMLEscape err", NoMatch},
		{"see maxTokens here", "max tokens here", Phrase},
		{"a userProfile for theHTTPServer of it", "user profile for the HTTP server", Phrase},
		{"the userProfile is old", "userProfile was old", Phrase},
		{"write a header", "how to write the header?", Phrase},
		{"write one header", "write the header", Phrase},
		{"write header", "write the header", AllWords},
		{"log-in page", "login page", Phrase},
		{"to be or not to be", "to be or not to be", NoMatch},
		{"x_y", "x-y", Phrase},
		{"the header of it", "header whree", NearPhrase},
		{"header forms", "header form", NearPhrase},
		{"three headers", "there header", NearPhrase},
	}
	for _, test := range tests {
		q := NewQuery(test.query)
		if len(q.exact.words) == 0 {
			require.Equal(t, test.want, NoMatch, "%q", test.query)
			continue
		}
		got, _ := q.Match(test.text)
		require.Equal(t, test.want, got, "%q in %q", test.query, test.text)
	}
}

// A name with an underscore or a hyphen also finds its parts as separate words.
func TestNamesInQueries(t *testing.T) {
	for _, tt := range []struct {
		query, text string
		finds       bool
	}{
		{"max_tokens", "the max tokens of a request", true},
		{"max_tokens", "set maxTokens", true},
		{"max-tokens", "MAX_TOKENS=5", true},
		{"maxTokens", "max_tokens", true},
		{"x_test", "the file x_test.go", true},
		{"max_tokens", "max of tokens", true},
		{"max_tokens", "the max", false},
	} {
		require.Equal(t, tt.finds, checkMatch(t, tt.text, tt.query) > NoMatch, "%q in %q", tt.query, tt.text)
	}
}
