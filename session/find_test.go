package session

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/internal/words"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/providers/script"
)

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
		three := []string{pool[c.IntN(len(pool))], pool[c.IntN(len(pool))], pool[c.IntN(len(pool))]}
		long := slices.ContainsFunc(three, func(w string) bool { return len(w) >= 8 })
		p, count := strings.Join(three, " "), 0
		for w := range words.Of(p) {
			if !w.Part {
				count++
			}
		}
		if long && !strings.Contains(c.text, p) && count >= 3 { // stop words tell no session from another
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
		store := journal.Memory()
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
	timed.Serial(t)
	n := sessionCount(t, 50)
	dir := t.TempDir()
	phrases := fill(t, dir, n, min(200, n/2))
	store, err := journal.Dir(dir)
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
	timed.Serial(t)
	now := time.Unix(1_700_000_000, 0)
	clock := clockFunc(func() time.Time { now = now.Add(time.Second); return now })
	dir, err := journal.Dir(t.TempDir())
	require.NoError(t, err)
	for _, store := range []journal.Store{dir, journal.Memory()} {
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
	store := journal.Memory()
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
	store, err := journal.Dir(path)
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
	_, ok := errors.AsType[*journal.OpError](err)
	require.True(t, ok, "%v", err)
}

// Deleted sessions are not found, and undone and forked conversations are.
func TestFindAfterCommands(t *testing.T) {
	t.Parallel()
	timed.Serial(t)
	store, err := journal.Dir(t.TempDir())
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
