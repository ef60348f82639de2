package session

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/internal/words"
	"github.com/aycoder/aycoder/providers/script"
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
	for w := range words.Of(query) {
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

// naive says how well a text matches a query, with a comparison of each word with each word.
func naive(text string, query map[int][]rune) int {
	required := maps.Clone(query)
	maps.DeleteFunc(required, func(_ int, w []rune) bool { return words.NearStop(w) })
	if len(required) == 0 {
		required = query
	}
	type spelled struct {
		letters     []rune
		first, last int // place
	}
	var all []spelled
	end := 0
	for w := range words.Of(text) {
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
		return noMatch
	case inOrder(query, same):
		return phrase
	case everywhere(query, same):
		return allWords
	case inOrder(required, similar):
		return nearPhrase
	case everywhere(required, similar):
		return nearWords
	}
	return noMatch
}

// checkMatch compares the match with the naive one, and requires that the scanner finds the lines
// in which a message with the text is stored.
func checkMatch(t *testing.T, text, query string) int {
	q, queryWords := newQuery(query), naiveWords(query)
	require.Len(t, q.exact.words, len(queryWords), "%q", query)
	want := naive(text, queryWords)
	if len(queryWords) == 0 {
		return want
	}
	got, at := q.match(text)
	require.Equal(t, want, got, "%q in %q", query, text)
	require.True(t, utf8.ValidString(excerpt(text, at)))
	if want == noMatch {
		return want
	}
	args, err := json.Marshal(map[string]string{"x": text})
	require.NoError(t, err)
	for _, p := range []aycoder.Part{&aycoder.Text{Text: text}, &aycoder.ToolUse{ID: "1", Name: "x", Args: args}} {
		record, err := json.Marshal(&aycoder.Message{Role: aycoder.RoleUser, Parts: []aycoder.Part{p}})
		require.NoError(t, err)
		require.True(t, newFilter(q).mayMatch([]byte(line(string(record)))), "%q in %s", query, record)
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
	var count [phrase + 1]int
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
		{"the quick brown fox", "quick brown", phrase},
		{"the Quick,\n\"Brown\" fox", "quick brown", phrase},
		{"brown and quick", "quick brown", allWords},
		{"the qiuck brwn fox", "quick brown", nearPhrase},
		{"brwon and quik", "quick brown", nearWords},
		{"the quick fox", "quick brown", noMatch},
		{"a cat", "car", noMatch}, // words of three letters have no errors
		{"port 8081", "port 8080", noMatch},
		{"Überprüfung der Größe", "uberprufung", phrase},
		{"naïve café", "NAIVE CAFE", phrase},
		{"cafe", "café", phrase},
		{"Łódź, Søren, Đà Nẵng", "lodz soren da nang", phrase},
		{"ΣΊΣΥΦΟΣ", "σίσυφος", phrase},
		{"Привет, мир", "привет МИР", phrase},
		{"我们的会话很长", "会话", phrase},
		{"max_tokens", "tokens", phrase},
		{"const maxTokens = 8", "MAX_TOKENS const", allWords},
		{"user_profile, UserProfile", "userProfile", phrase},
		{"write to the EMail of it", "e-mail of", phrase},
		{"the websocket handler", "WebSocket handler", phrase},
		{"an HTTPServer for it", "httpsrever", nearPhrase},
		{"the HTTPServer of it", "httpserver", phrase},
		{"right HTMLEscape err", "right HTMLsEcape err", nearPhrase}, // it has another number of parts
		{"right HTMLEscape err", "right htmlescape err", phrase},
		{"right htmlescape err", "right HTMLEscape err", phrase},
		{"right html escape err", "right HTMLEscape err", noMatch},
		{"see maxTokens here", "max tokens here", phrase},
		{"a userProfile for theHTTPServer of it", "user profile for the HTTP server", phrase},
		{"the userProfile is old", "userProfile was old", phrase},
		{"write a header", "how to write the header?", phrase},
		{"write one header", "write the header", phrase},
		{"write header", "write the header", allWords},
		{"log-in page", "login page", phrase},
		{"to be or not to be", "to be or not to be", noMatch},
		{"x_y", "x-y", phrase},
		{"the header of it", "header whree", nearPhrase},
		{"header forms", "header form", nearPhrase},
		{"three headers", "there header", nearPhrase},
	}
	for _, test := range tests {
		q := newQuery(test.query)
		if len(q.exact.words) == 0 {
			require.Equal(t, test.want, noMatch, "%q", test.query)
			continue
		}
		got, _ := q.match(test.text)
		require.Equal(t, test.want, got, "%q in %q", test.query, test.text)
	}
}

func TestExcerpt(t *testing.T) {
	t.Parallel()
	require.Equal(t, "a b [31mred c", excerpt("a\n\tb \x1b[31m\u202ered\x00 \xffc"[:16]+" c", 0))
	long := strings.Repeat("ä", 500)
	for at := 0; at < len(long); at++ {
		got := excerpt(long, at)
		require.True(t, utf8.ValidString(got))
		require.NotContains(t, got, "\uFFFD")
		require.LessOrEqual(t, len(got), 210)
	}
	require.NotContains(t, excerpt("\xff\xfe word", 3), "\xff")
}

// corpus gives out texts and words of real code.
type corpus struct {
	*rand.Rand
	text  string
	words []string // each as often as it occurs
	rare  []string // each once
}

func newCorpus(tb testing.TB) *corpus {
	c := &corpus{Rand: rand.New(rand.NewPCG(3, 4))}
	root, err := exec.Command("go", "env", "GOROOT").Output()
	require.NoError(tb, err)
	for _, dir := range []string{"net/http", "go/types", "encoding/json", "os", "fmt", "regexp", "text/template"} {
		files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(root)), "src", dir, "*.go"))
		require.NoError(tb, err)
		for _, name := range files {
			data, err := os.ReadFile(name)
			require.NoError(tb, err)
			c.text += string(data)
		}
	}
	require.Greater(tb, len(c.text), 1<<20, "the source of Go is missing")
	seen := map[string]bool{}
	for _, w := range strings.FieldsFunc(c.text, func(r rune) bool { return r > 127 || !unicode.IsLetter(r) }) {
		if len(w) < 3 {
			continue
		}
		c.words = append(c.words, w)
		if lower := strings.ToLower(w); !seen[lower] {
			seen[lower] = true
			c.rare = append(c.rare, w)
		}
	}
	return c
}

// message returns 200 to 1,600 bytes of code.
func (c *corpus) message() string {
	n := 200 + c.IntN(1400)
	i := c.IntN(len(c.text) - n)
	return strings.ToValidUTF8(c.text[i:i+n], "")
}

// phrase returns words that do not occur in this order. One of them is long, as people know to type
// a word that is not everywhere.
func (c *corpus) phrase() string {
	pool := c.rare
	if c.IntN(2) == 0 {
		pool = c.words
	}
	for {
		words := []string{pool[c.IntN(len(pool))], pool[c.IntN(len(pool))], pool[c.IntN(len(pool))]}
		long := slices.ContainsFunc(words, func(w string) bool { return len(w) >= 8 })
		p := strings.Join(words, " ")
		if long && !strings.Contains(c.text, p) && len(naiveWords(p)) >= 3 { // stop words tell no session from another
			return p
		}
	}
}

// mistype makes a typing error in a word of five or more letters.
func (c *corpus) mistype(text string) string {
	words := strings.Fields(text)
	for {
		k := c.IntN(len(words))
		w := words[k]
		i := 1 + c.IntN(max(1, len(w)-2))
		if len(w) < 5 || w[i] == w[i-1] {
			continue
		}
		switch c.IntN(4) {
		case 0:
			w = w[:i] + w[i+1:]
		case 1:
			w = w[:i] + "q" + w[i:]
		case 2:
			w = w[:i] + "q" + w[i+1:]
		case 3:
			w = w[:i-1] + w[i:i+1] + w[i-1:i] + w[i+1:]
		}
		words[k] = w
		return strings.Join(words, " ")
	}
}

// planted is a phrase in one message of one session.
type planted struct {
	phrase, id string
	node       ID
}

// fill writes sessions of 50 messages with planted phrases to a directory, and returns the phrases.
// The sessions are made in memory, because flushing takes long.
func fill(tb testing.TB, dir string, sessions, phrases int) []planted {
	c := newCorpus(tb)
	where := c.Perm(sessions)[:phrases]
	var out []planted
	var index bytes.Buffer
	for n := range sessions {
		hidden := ""
		place := -1
		if i := slices.Index(where, n); i >= 0 {
			hidden, place = c.phrase(), c.IntN(45) // five messages are outputs
		}
		next := 0
		text := func() string {
			m := c.message()
			if next == place {
				words := strings.SplitAfter(m, " ")
				i := c.IntN(len(words))
				m = strings.Join(words[:i], "") + "\n" + hidden + "\n" + strings.Join(words[i:], "")
			}
			next++
			return m
		}
		var prompts []string
		var steps []script.Step
		for len(prompts) < 20 { // ten of the runs have a call
			prompts = append(prompts, text())
			if len(prompts)%4 == 0 {
				steps = append(steps, script.Reply(script.Say(text()), script.Call("look", map[string]any{"text": text()})))
				next-- // the call is in the message of the text
			}
			steps = append(steps, script.Say(text()))
		}
		store := Memory()
		id := fillSession(tb, store, prompts, steps)
		j, err := store.Open(tb.Context(), id, false)
		require.NoError(tb, err)
		var lines []byte
		for r, err := range j.Records(tb.Context()) {
			require.NoError(tb, err)
			lines = appendLine(lines, r)
		}
		if hidden != "" {
			v, _, err := Read(tb.Context(), store, id)
			require.NoError(tb, err)
			for _, node := range v.nodes[1:] {
				if data, err := json.Marshal(node.Message()); err == nil && bytes.Contains(data, []byte(hidden)) {
					out = append(out, planted{hidden, id, node.ID})
					break
				}
			}
		}
		for e, err := range store.List(tb.Context()) {
			require.NoError(tb, err)
			e.Used = e.Used.Add(time.Duration(n) * time.Second)
			record, err := json.Marshal(e)
			require.NoError(tb, err)
			index.Write(appendLine(nil, record))
		}
		require.NoError(tb, os.MkdirAll(filepath.Join(dir, id), 0o700))
		require.NoError(tb, os.WriteFile(filepath.Join(dir, id, journalName), lines, 0o600))
	}
	require.NoError(tb, os.Mkdir(filepath.Join(dir, indexName), 0o700))
	require.NoError(tb, os.WriteFile(filepath.Join(dir, indexName, journalName), index.Bytes(), 0o600))
	require.Len(tb, out, phrases)
	return out
}

// sessionCount returns how many sessions a test searches.
func sessionCount(tb testing.TB, normal int) int {
	if s := os.Getenv("AYCODER_SESSIONS"); s != "" {
		n, err := strconv.Atoi(s)
		require.NoError(tb, err)
		return n
	}
	return normal
}

// Each planted phrase is the first hit, and one of the first three if it has a typing error. With
// AYCODER_SESSIONS=10000, the test searches as many sessions.
func TestFindPlanted(t *testing.T) {
	t.Parallel()
	normal := 80
	switch {
	case timed.Reduced(t):
		normal = 10
	case testing.Short():
		normal = 50
	}
	n := sessionCount(t, normal)
	dir := t.TempDir()
	phrases := fill(t, dir, n, min(200, n/2))
	store, err := Dir(dir)
	require.NoError(t, err)
	c := newCorpus(t)
	for _, p := range phrases {
		hits, err := Find(t.Context(), store, p.phrase, 3)
		require.NoError(t, err)
		require.NotEmpty(t, hits, "%q", p.phrase)
		require.Equal(t, p.id, hits[0].Entry.ID, "%q: %v", p.phrase, hits)
		require.Equal(t, p.node, hits[0].Node)
		require.Contains(t, hits[0].Excerpt, p.phrase)
		wrong := c.mistype(p.phrase)
		hits, err = Find(t.Context(), store, wrong, 3)
		require.NoError(t, err)
		require.True(t, slices.ContainsFunc(hits, func(h Hit) bool { return h.Entry.ID == p.id && h.Node == p.node }),
			"%q for %q: %v", wrong, p.phrase, hits)
	}
	t.Logf("found %d phrases in %d sessions", len(phrases), n)
}

func ids(hits []Hit) (out []string) {
	for _, h := range hits {
		out = append(out, h.Entry.ID)
	}
	return out
}

// Better matches come first, then better places, then newer sessions; and each store finds the
// same.
func TestFindOrder(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	clock := clockFunc(func() time.Time { now = now.Add(time.Second); return now })
	dir, err := Dir(t.TempDir())
	require.NoError(t, err)
	for _, store := range []Store{dir, Memory()} {
		var order []string
		add := func(title, prompt, answer string) {
			s, err := New(t.Context(), store, scripted(t, script.Say(answer)), WithClock(clock))
			require.NoError(t, err)
			require.NoError(t, s.SetTitle(t.Context(), title))
			ask(t, s, prompt)
			require.NoError(t, s.Close())
			order = append(order, s.ID())
		}
		add("", "hello", "some qurtz lmap")        // near words in their order, older
		add("", "hello", "a lamp <b>of</b> qurtz") // near words
		add("", "hello", "some\nquartz\nlamp")     // phrase
		add("", "hello", "the QUARTZ, Lamp")       // phrase, newer
		add("", "my quartz lamp", "hello")         // phrase in the prompt
		add("quartz lamp", "hello", "hello")       // phrase in the title
		add("lamp: quartz", "hello", "hello")      // words in the title
		add("", "lamp or quartz", "hello")         // words in the prompt
		add("", "hello", "lamp or quartz")         // words
		add("quartz", "lamp", "none")              // no text with all words
		want := []string{order[5], order[4], order[3], order[2], order[6], order[7], order[8], order[0], order[1]}
		for limit := range 12 {
			hits, err := Find(t.Context(), store, "Quartz lamp", limit)
			require.NoError(t, err)
			n := min(len(want), limit)
			if limit == 0 {
				n = len(want)
			}
			require.Equal(t, want[:n], ids(hits))
		}
		hits, err := Find(t.Context(), store, "quartz lamp", 9)
		require.NoError(t, err)
		var nodes []ID
		for _, h := range hits {
			nodes = append(nodes, h.Node)
		}
		require.Equal(t, []ID{Root, 1, 2, 2, Root, 1, 2, 2, 2}, nodes)
		require.Equal(t, "some quartz lamp", hits[3].Excerpt)
		for _, query := range []string{"", " ", "?!", "quartz missing"} {
			hits, err := Find(t.Context(), store, query, 9)
			require.NoError(t, err)
			require.Empty(t, hits)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = Find(ctx, store, "quartz", 9)
		require.ErrorIs(t, err, context.Canceled)
	}
}

func TestSuggest(t *testing.T) {
	t.Parallel()
	store := Memory()
	for _, prompt := range []string{"retry the request", "log each request", "requirements of it"} {
		s, err := New(t.Context(), store, scripted(t, script.Say("a requested answer")))
		require.NoError(t, err)
		require.NoError(t, s.SetTitle(t.Context(), "RequestLog"))
		ask(t, s, prompt)
		require.NoError(t, s.Close())
	}
	got, err := Suggest(t.Context(), store, "the Req", 3)
	require.NoError(t, err)
	require.Equal(t, []string{"the request", "the requestlog", "the requirements"}, got)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = Suggest(ctx, store, "req", 3)
	require.ErrorIs(t, err, context.Canceled)
}

// A search reads lines of any length, goes on after damage, and does not mind a session that is
// deleted or written meanwhile.
func TestFindInOddJournals(t *testing.T) {
	t.Parallel()
	timed.Serial(t)
	path := t.TempDir()
	store, err := Dir(path)
	require.NoError(t, err)
	long := strings.Repeat("word ", 200_000)
	id := fillSession(t, store, []string{"first", "second " + long + "obsidian end", "third"},
		[]script.Step{script.Say("a"), script.Say(long + "marble"), script.Say("b granite")})
	file := filepath.Join(path, id, journalName)
	whole, err := os.ReadFile(file)
	require.NoError(t, err)
	find := func(query string, want ...ID) {
		t.Helper()
		hits, err := Find(t.Context(), store, query, 5)
		require.NoError(t, err)
		var nodes []ID
		for _, h := range hits {
			nodes = append(nodes, h.Node)
		}
		require.Equal(t, want, nodes)
	}
	find("obsidian", 3)
	find("marble", 4)
	find("granite", 6)
	require.NoError(t, os.WriteFile(file, bytes.Replace(whole, []byte("obsidian"), []byte("obsidiam"), 1), 0o600))
	find("obsidian") // the line is damaged
	find("marble", 4)
	// The node of the last answer is not there yet: its line is the last but one with a message.
	cut := bytes.LastIndex(whole[:bytes.LastIndex(whole, []byte(`"t":"node"`))], []byte("\n")) + 1
	require.NoError(t, os.WriteFile(file, append(slices.Clone(whole[:cut]), "half a line granite"...), 0o600))
	find("granite", 6)
	require.NoError(t, os.Mkdir(filepath.Join(path, "empty"), 0o700))
	find("granite", 6)
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	find("granite")
	require.NoError(t, os.Remove(file))
	find("granite")
	if os.Getuid() > 0 {
		t.Log("also checking a journal that cannot be read")
	}
	require.NoError(t, os.Mkdir(file, 0o700))
	_, err = Find(t.Context(), store, "granite", 5)
	_, ok := errors.AsType[*JournalError](err)
	require.True(t, ok, "%v", err)
}

// Deleted sessions are not found, and undone and forked conversations are.
func TestFindAfterCommands(t *testing.T) {
	t.Parallel()
	store, err := Dir(t.TempDir())
	require.NoError(t, err)
	s, err := New(t.Context(), store, scripted(t, script.Say("a basalt answer"), script.Say("other")))
	require.NoError(t, err)
	ask(t, s, "go")
	_, err = s.Undo(t.Context())
	require.NoError(t, err)
	ask(t, s, "go on")
	f, err := s.Fork(t.Context(), 2)
	require.NoError(t, err)
	for _, trim := range []bool{false, true} {
		if trim {
			require.NoError(t, s.Trim(t.Context()))
		}
		hits, err := Find(t.Context(), store, "basalt", 5) // both sessions are open
		require.NoError(t, err)
		require.ElementsMatch(t, []string{s.ID(), f.ID()}, ids(hits))
		require.Equal(t, ID(2), hits[0].Node)
		require.Equal(t, ID(2), hits[1].Node)
	}
	require.NoError(t, errors.Join(f.Close(), s.Close(), store.Delete(t.Context(), s.ID())))
	hits, err := Find(t.Context(), store, "basalt", 5)
	require.NoError(t, err)
	require.Equal(t, []string{f.ID()}, ids(hits))
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
		require.Equal(t, tt.finds, checkMatch(t, tt.text, tt.query) > noMatch, "%q in %q", tt.query, tt.text)
	}
}
