package retrieval_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/internal/words"
	"github.com/aycoder/aycoder/retrieval"
)

func lexical(texts ...string) *retrieval.Lexical {
	l := retrieval.NewLexical()
	for i, text := range texts {
		l.Put(retrieval.Item{ID: fmt.Sprint(i)}, text)
	}
	return l
}

func found(l *retrieval.Lexical, query string) (ids []string) {
	for _, m := range l.Search(query, 10, nil) {
		ids = append(ids, m.Item.ID)
	}
	return ids
}

// The scores are those of the formula, computed by hand.
func TestBM25(t *testing.T) {
	t.Parallel()
	l := lexical("red fox", "red red dog barks loudly", "blue")
	got := l.Search("red", 10, nil)
	require.Len(t, got, 2)
	// ln(1 + (3-2+0.5)/(2+0.5)) = 0.4700036; the mean length is 8/3.
	// 2.2/(1 + 1.2*(0.25 + 0.75*2*3/8)) = 1.1139241; 2*2.2/(2 + 1.2*(0.25 + 0.75*5*3/8)) = 1.1034483
	require.Equal(t, "0", got[0].Item.ID)
	require.InDelta(t, 0.4700036*1.1139241, got[0].Score, 1e-6)
	require.InDelta(t, 0.4700036*1.1034483, got[1].Score, 1e-6)
	l.Delete("2") // now the mean is 3.5, and all have the word: ln(1 + 0.5/2.5) = 0.1823216
	got = l.Search("red", 10, nil)
	require.Equal(t, "1", got[0].Item.ID)
	require.InDelta(t, 0.1823216*4.4/(2+1.2*(0.25+0.75*5/3.5)), got[0].Score, 1e-6)
	require.InDelta(t, 0.1823216*2.2/(1+1.2*(0.25+0.75*2/3.5)), got[1].Score, 1e-6)
}

func TestLexicalSearch(t *testing.T) {
	t.Parallel()
	l := lexical(
		"func newHTTPServer() *httpServer { return nil }",
		"the user profile of the account", // 1
		"class UserProfile: pass",         // 2
		"user_profile = load(account)",    // 3
		"const user-profile = 1",          // 4
		"profile of another user",         // 5
		"Größe und Überprüfung",           // 6
		"会话很长",                            // 7
		"sha256sum of a file",             // 8
		"receive messages",                // 9
	)
	for query, want := range map[string][]string{
		"server":        {"0"},
		"httpserver":    {"0"},
		"HTTP_SERVER":   {"0"},
		"http-server":   {"0"},
		"recieve":       {"9"}, // one error
		"mesages":       {"9"},
		"messges":       {"9"},
		"mezzages":      {"9"}, // two errors in eight letters
		"groesse":       nil,
		"grose":         {"6"}, // one error after folding
		"uberprufung":   {"6"},
		"会话":            {"7"},
		"sha":           {"8"},
		"256":           {"8"},
		"sha256":        {"8"},
		"sha256zum":     {"8"},
		"f4le":          nil, // no errors in words with digits
		"the of and":    nil,
		"what is this?": nil,
		"":              nil,
		"-- __ ->":      nil,
		"nothing":       nil,
	} {
		require.Equal(t, want, found(l, query), query)
	}
	require.ElementsMatch(t, []string{"1", "2", "3", "4", "5"}, found(l, "userProfile"))
	require.Equal(t, "5", found(l, "userProfile")[4], "it has the parts, but not together")
	require.Equal(t, found(l, "user_profile"), found(l, "userProfile"))
	require.ElementsMatch(t, []string{"1", "3"}, found(l, "account"))
}

func TestLexicalChanges(t *testing.T) {
	t.Parallel()
	l := retrieval.NewLexical()
	want := map[string]string{}
	rnd := rand.New(rand.NewPCG(5, 6))
	words := strings.Fields("alpha bravo charlie delta echo foxtrot golf hotel india juliet")
	for step := range 3000 {
		id := fmt.Sprint(rnd.IntN(150))
		if rnd.IntN(3) == 0 {
			l.Delete(id)
			delete(want, id)
		} else {
			text := words[rnd.IntN(10)] + " " + words[rnd.IntN(10)]
			l.Put(retrieval.Item{ID: id, Kind: text[:1]}, text)
			want[id] = text
		}
		if step%10 > 0 {
			continue
		}
		word := words[rnd.IntN(10)]
		var ids []string
		for id, text := range want {
			if strings.Contains(text, word) && text[0] == word[0] {
				ids = append(ids, id)
			}
		}
		var got []string
		for _, m := range l.Search(word, 1000, retrieval.Filter{Kind: word[:1]}.Keep()) {
			got = append(got, m.Item.ID)
		}
		require.ElementsMatch(t, ids, got)
		require.Equal(t, len(want), l.Len())
	}
	fresh := retrieval.NewLexical()
	for id, text := range want {
		fresh.Put(retrieval.Item{ID: id, Kind: text[:1]}, text)
	}
	for _, query := range []string{"alpha bravo", "golf", "charly", "hotel india juliet"} {
		require.Equal(t, fresh.Search(query, 20, nil), l.Search(query, 20, nil), query)
	}
}

func TestSuggest(t *testing.T) {
	t.Parallel()
	l := lexical("request response", "request requirement", "RequestHandler", "überall é")
	require.Equal(t, []string{"the request", "the requesthandler", "the requirement"}, l.Suggest("the req", 5))
	require.Equal(t, []string{"request"}, l.Suggest("RE", 1))
	require.Equal(t, []string{"user_request"}, l.Suggest("user_reque", 1))
	require.Equal(t, []string{"é uberall"}, l.Suggest("é ÜB", 5))
	require.Empty(t, l.Suggest("request ", 5))
	require.Empty(t, l.Suggest("", 5))
	require.Empty(t, l.Suggest("xyz", 5))
	l.Delete("1")
	require.Equal(t, []string{"request", "requesthandler"}, l.Suggest("req", 5))
}

// A planted phrase is the first hit, and among the first three with a typing error.
func TestPlantedPhrases(t *testing.T) {
	t.Parallel()
	timed.Serial(t)
	texts := pieces(t, 3000)
	rnd := rand.New(rand.NewPCG(7, 8))
	var pool []string
	for _, text := range texts {
		for _, w := range strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return r > 127 || !unicode.IsLetter(r) }) {
			if len(w) > 3 {
				pool = append(pool, w)
			}
		}
	}
	l := lexical(texts...)
	for i := range 100 {
		words := []string{pool[rnd.IntN(len(pool))], pool[rnd.IntN(len(pool))], pool[rnd.IntN(len(pool))]}
		long := slices.IndexFunc(words, func(w string) bool { return len(w) >= 8 })
		phrase := strings.Join(words, " ")
		if long < 0 || slices.ContainsFunc(texts, func(s string) bool { return strings.Contains(s, phrase) }) {
			continue
		}
		id := fmt.Sprint(rnd.IntN(len(texts)))
		n := 0
		fmt.Sscan(id, &n)
		l.Put(retrieval.Item{ID: id}, texts[n]+"\n"+phrase+"\n"+texts[(n+1)%len(texts)])
		require.Equal(t, id, found(l, phrase)[0], "%d: %q", i, phrase)
		w := words[long]
		words[long] = w[:2] + w[3:4] + w[2:3] + w[4:]
		got := found(l, strings.Join(words, " "))
		require.Contains(t, got[:3], id, "%d: %q", i, words)
		l.Put(retrieval.Item{ID: id}, texts[n])
	}
}

func TestLexicalConcurrentUse(t *testing.T) {
	t.Parallel()
	l := retrieval.NewLexical()
	var work sync.WaitGroup
	for w := range 4 {
		work.Go(func() {
			for i := range 200 {
				id := fmt.Sprint(w, "-", i)
				l.Put(retrieval.Item{ID: id}, "word number "+id)
				require.NotEmpty(t, l.Search("word numbre", 1, nil))
				l.Suggest("numb", 3)
				if i > 0 {
					l.Delete(id)
				}
			}
		})
	}
	work.Wait()
	require.Equal(t, 4, l.Len())
}

func BenchmarkLexical(b *testing.B) {
	texts := pieces(b, 20_000)
	size := 0
	for _, text := range texts {
		size += len(text)
	}
	b.Run("put", func(b *testing.B) {
		b.SetBytes(int64(size))
		for b.Loop() {
			lexical(texts...)
		}
	})
	l := lexical(texts...)
	for name, query := range map[string]string{"words": "write the header of a response", "mistyped": "wrtie headr repsonse"} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				l.Search(query, 10, nil)
			}
		})
	}
}

// Any text is found by each of its words.
func FuzzLexical(f *testing.F) {
	f.Add("HTTPServer snake_case x86-64 Łódź 会话\xff\u0301", "htpserver")
	f.Fuzz(func(t *testing.T, text, query string) {
		l := lexical("another text", text)
		n := 0
		for w := range words.Of(text) {
			if n++; n <= 100 {
				require.Contains(t, found(l, string(w.Text)), "1", "%q in %q", w.Text, text)
			}
		}
		l.Search(query, 1, nil)
		l.Suggest(query, 2)
	})
}
