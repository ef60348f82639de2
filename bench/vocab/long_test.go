package vocab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/catalog"
	"github.com/aycoder/aycoder/compaction"
	"github.com/aycoder/aycoder/tokens"
)

// outputSize is the size of the outputs of tools, in bytes.
const outputSize = 5000

// outputs returns pieces of files of this machine, of each kind together: source code, documents,
// manuals and translations.
func outputs(t testing.TB) [][]string {
	t.Helper()
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	require.NoError(t, err)
	root := strings.TrimSpace(string(goroot))
	files := map[string][]string{}
	for _, dir := range []string{root + "/src", root + "/misc", root + "/doc", "/usr/share/doc", "/usr/share/man", "/usr/share/locale", "/usr/share/perl",
		"/usr/lib/python3", "../../tokens/testdata", "../../docs"} {
		_ = filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error { // a machine may lack some of them
			if err == nil && d.Type().IsRegular() && kindOf(name) != "" {
				files[kindOf(name)] = append(files[kindOf(name)], name)
			}
			return nil
		})
	}
	var out [][]string
	size := 0
	for _, kind := range slices.Sorted(func(yield func(string) bool) {
		for k := range files {
			if !yield(k) {
				return
			}
		}
	}) {
		names := files[kind]
		slices.SortFunc(names, func(a, b string) int {
			return strings.Compare(strconv.FormatUint(hashOf(a), 36), strconv.FormatUint(hashOf(b), 36))
		})
		var slicesOf []string
		for _, name := range names[:min(len(names), 60)] {
			text, err := readText(name)
			if err != nil || !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
				continue
			}
			for n := 0; len(text) > outputSize && n < 8 && len(slicesOf) < 60; n++ {
				slicesOf = append(slicesOf, strings.ToValidUTF8(text[:outputSize], ""))
				text = text[outputSize:]
			}
		}
		if len(slicesOf) > 3 {
			out = append(out, slicesOf)
			size += len(slicesOf) * outputSize
		}
	}
	require.Greater(t, len(out), 4, "no texts")
	t.Logf("outputs of tools: %d kinds of files, %d kB", len(out), size>>10)
	return out
}

// remarks are what the model says beside its calls.
var remarks = []string{
	"I will look at the caller next, because the error is reported there and not in the parser.",
	"The test fails as before. The cause must be the cache, which is filled before the option is read.",
	"This matches the documentation. I keep the present signature and change only the loop.",
	"That is done. What remains is the case of an empty list, and the name of the field in the log.",
}

// A long conversation is held with a fake, by a host that starts a run with each prompt and now and
// then a new process.
type long struct {
	*fake
	t        *testing.T
	client   aycoder.ModelClient
	texts    [][]string
	rng      *rand.Rand
	opts     []compaction.Option
	run      []aycoder.Option
	counter  *tokens.Counter // of the process
	count    tokens.Count    // of the last request
	over     int             // requests of more tokens than that was sure of
	messages []*aycoder.Message
	turns    int // answers of the model
	left     int // turns of the run

	base                     uint64 // heap before
	compactions, runs, large int
	growth                   int64 // tokens of the turns between compactions
	summaries                int64 // tokens of the new messages of requests after a compaction
	beyond                   int64 // the most bytes of heap beyond those of the history
	stored                   int   // messages that were stored and decoded
	sized                    int   // messages whose bytes are in size
	size                     uint64
}

func (l *long) answer() (text, args string) {
	l.turns++
	if l.tokens > l.count.Max() {
		l.over++
	}
	text = fmt.Sprintf("Step %d. %s", l.turns, remarks[l.rng.IntN(len(remarks))])
	if l.left--; l.left <= 0 {
		return text, ""
	}
	return text, fmt.Sprintf(`{"path":"src/part%d/file%d.go","offset":%d}`, l.rng.IntN(9), l.rng.IntN(400), l.rng.IntN(1000))
}

type look struct {
	Path   string `json:"path" jsonschema_description:"The file, relative to the workspace"`
	Offset int    `json:"offset,omitempty" jsonschema_description:"The first line to read"`
}

// loop returns the agent of a new process.
func (l *long) loop() (aycoder.Agent, *compaction.Compactor) {
	l.counter = tokens.New()
	keep, err := compaction.New(l.client, append(l.opts[:len(l.opts):len(l.opts)], compaction.WithCounter(l.counter))...)
	require.NoError(l.t, err)
	kind := l.texts[0]
	tool, err := aycoder.NewTool("look", "Reads a part of a file.", func(context.Context, *aycoder.Invocation, look) (*aycoder.ToolResult, error) {
		if l.rng.IntN(12) == 0 { // work goes on with files of another kind
			kind = l.texts[l.rng.IntN(len(l.texts))]
		}
		// A copy, since the output of a tool is fresh memory.
		return aycoder.TextResult(strings.Clone(kind[l.rng.IntN(len(kind))])), nil
	}, aycoder.WithEffect(aycoder.EffectReadOnly))
	require.NoError(l.t, err)
	agent, err := aycoder.New(l.client, slices.Concat([]aycoder.Option{aycoder.WithTools(tool, keep.Recall()), aycoder.WithLimits(aycoder.Limits{Turns: 1000}),
		aycoder.WithSystem("You are a coding agent. Work step by step, and say what you do."),
		aycoder.WithContextMiddleware(l.watch(keep)), aycoder.WithStrictPrefix(true)}, l.run)...)
	require.NoError(l.t, err)
	return agent, keep
}

// watch is the middleware of keep, and notes the estimate of each request.
func (l *long) watch(keep *compaction.Compactor) aycoder.ContextMiddleware {
	return func(next aycoder.ContextBuilder) aycoder.ContextBuilder {
		b := keep.Middleware(next)
		return aycoder.ContextFunc(func(ctx context.Context, in aycoder.ContextInput) (*aycoder.Request, error) {
			req, err := b.Build(ctx, in)
			if err == nil {
				l.count = l.counter.Estimate(tokens.ModelOf(in.Client, req.Model), req)
			}
			return req, err
		})
	}
}

// ask runs one prompt.
func (l *long) ask(agent aycoder.Agent, prompt string) error {
	var res aycoder.Result
	var failed error
	for ev, err := range agent.Run(l.t.Context(), aycoder.Input{Messages: l.messages, Prompt: prompt}, aycoder.Into(&res)) {
		failed = err
		if c, ok := ev.(*aycoder.Compacted); ok {
			l.compactions++
			l.growth += c.Before - c.After
			l.summaries += c.After
			require.Less(l.t, c.After, c.Before)
		}
		if c, ok := ev.(*aycoder.Compacting); ok && c.Reason == "refusal" {
			l.t.Logf("turn %d: a request of about %d × %.3f tokens was refused: %s", l.turns, l.count.Tokens, l.count.Margin, l.excess)
		}
	}
	l.messages = res.Messages
	require.Empty(l.t, l.wrong)
	require.NoError(l.t, aycoder.CheckHistory(l.messages))
	return failed
}

// restore makes the history that of another process. All messages are new ones, but those that were stored
// before are not decoded again.
func (l *long) restore() {
	next := make([]*aycoder.Message, len(l.messages))
	for i, m := range l.messages {
		next[i] = &aycoder.Message{Role: m.Role, Parts: m.Parts}
		if i >= l.stored {
			raw, err := json.Marshal(m)
			require.NoError(l.t, err)
			require.NoError(l.t, json.Unmarshal(raw, next[i]))
		}
	}
	l.messages, l.stored = next, len(next)
}

// until continues the conversation until the model has answered n times.
func (l *long) until(n int) {
	agent, keep := l.loop()
	for l.turns < n {
		if l.runs%3 == 2 { // another process continues
			l.restore()
			agent, keep = l.loop()
		}
		l.runs++
		l.left = min(100+l.rng.IntN(300), max(n-l.turns, 2))
		require.NoError(l.t, l.ask(agent, fmt.Sprintf("Task %d: find out why the list of part %d is empty, and repair it.", l.runs, l.rng.IntN(9))))
		if l.runs%5 == 1 {
			l.checkMemory()
		}
	}
	l.checkMemory()
	runtime.KeepAlive(agent)
	runtime.KeepAlive(keep)
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// checkMemory checks that the process needs no more than the history and 32 MB, without what the fake
// remembers.
func (l *long) checkMemory() {
	l.lexicon.mu.Lock()
	own := uint64(64 * len(l.lexicon.known)) // entries of maps
	l.lexicon.mu.Unlock()
	for _, s := range l.known {
		own += uint64(160 + 48*(len(s.calls)+len(s.outputs)))
	}
	for ; l.sized < len(l.messages); l.sized++ {
		raw, err := json.Marshal(l.messages[l.sized])
		require.NoError(l.t, err)
		l.size += uint64(len(raw))
	}
	data, used := l.size, heap()
	used -= min(used, l.base+own)
	if os.Getenv("AYCODER_MEMORY") != "" {
		l.t.Logf("turn %d: heap %.1f MB, history %.1f MB in %d messages, fake %.1f MB", l.turns, float64(used)/1e6, float64(data)/1e6, len(l.messages), float64(own)/1e6)
	}
	l.beyond = max(l.beyond, int64(used)-int64(data))
	require.Less(l.t, used, data+32<<20, "memory after %d turns, whose history has %d bytes", l.turns, data)
}

func turnsOf(t testing.TB, small int) int {
	if s := os.Getenv("AYCODER_TURNS"); s != "" {
		n, err := strconv.Atoi(s)
		require.NoError(t, err)
		return n
	}
	return small
}

var lexicons = map[string]*lexicon{}

func lexiconOf(t testing.TB, name string) *lexicon {
	t.Helper()
	if len(lexicons) == 0 {
		vs, err := Open()
		require.NoError(t, err)
		for _, v := range vs {
			lexicons[v.Name] = &lexicon{Vocabulary: v, known: map[uint64]int64{}}
		}
	}
	require.NotNil(t, lexicons[name])
	return lexicons[name]
}

// start returns a conversation with a fake. how says who tells the window: "catalog", "option", or
// nobody, so that a refusal has to tell it.
func start(t *testing.T, texts [][]string, d *dialect, vocabulary string, window int64, how string) *long {
	f := &fake{dialect: d, lexicon: lexiconOf(t, vocabulary), window: window, known: map[uint64]sum{}}
	tr := &http.Transport{}
	t.Cleanup(tr.CloseIdleConnections)
	client, err := d.client(f.serve(t), &http.Client{Transport: tr})
	require.NoError(t, err)
	l := &long{fake: f, t: t, texts: texts, rng: rand.New(rand.NewPCG(uint64(window), hashOf(d.name+vocabulary))), client: client}
	f.next = l.answer
	l.base = heap()
	l.opts = []compaction.Option{compaction.WithBytes(4 * window)}
	switch how {
	case "catalog":
		provider, model := client.(aycoder.ModelNamer).ModelName()
		l.client = catalog.Default().With(aycoder.ModelInfo{Provider: provider, Model: model, Context: window, Tools: true}).Middleware()(client)
	case "option":
		l.opts = append(l.opts, compaction.WithWindow(window))
	}
	return l
}

// Conversations of many windows go on without a refusal, counted by real vocabularies, through the
// clients of all providers. AYCODER_TURNS sets another number of turns, AYCODER_VOCABULARIES=all tries
// each vocabulary with each provider.
func TestLongConversations(t *testing.T) {
	texts := outputs(t)
	turns := turnsOf(t, 120)
	vocabularies := []string{"o200k", "llama3", "gemma2"}
	hows := []string{"catalog", "option", "nobody"}
	for i, d := range dialects {
		for j, window := range []int64{32_000, 200_000} {
			for k, vocabulary := range vocabularies {
				// Without all vocabularies, the first one is tried with all providers, and the others with two each.
				few := turns < 1000
				if k > 0 && os.Getenv("AYCODER_VOCABULARIES") != "all" && (i+k)%3 != 0 || few && (k == 0 && j == 1 && i > 0 || k > 0 && (j == 1 || i > 2)) {
					continue
				}
				how := hows[(i+j+k)%3]
				t.Run(fmt.Sprint(d.name, "/", vocabulary, "/", window, "/", how), func(t *testing.T) {
					l := start(t, texts, d, vocabulary, window, how)
					l.until(20)
					if how == "nobody" { // the first refusal comes when the window is full
						for n := 40; l.refused == 0 && n <= turns; n += 20 {
							l.until(n)
						}
						require.LessOrEqual(t, l.refused, 2)
					}
					early := l.refused
					l.until(turns)
					require.Equal(t, early, l.refused, "requests were refused after the first 20 turns")
					require.LessOrEqual(t, l.most, 4*window, "bytes of the largest request")
					require.LessOrEqual(t, l.over, 5+l.turns/1000, "requests beyond the margin of their estimate")
					each, full, anew := l.report(window)
					if l.compactions > 3 {
						require.GreaterOrEqual(t, each, full/4) // 15 turns if the window holds the growth of 60
						require.LessOrEqual(t, anew, 0.10)
					}
				})
			}
		}
	}
}

// report logs the figures. It returns how many turns there are for each compaction, how many fill the
// window, and which part of the tokens sent was sent anew after a compaction.
func (l *long) report(window int64) (each, full, anew float64) {
	n := max(1, l.compactions)
	each, full = float64(l.turns)/float64(n), float64(window)*float64(l.turns)/float64(max(1, l.growth))
	anew = float64(l.summaries) / float64(l.sent)
	l.t.Logf("%d turns in %d runs, %d refused, %d counted exactly, %d compactions (1 in %.1f turns; the window holds the growth of %.0f turns), %.1f %% of the tokens were sent anew after one",
		l.turns, l.runs, l.refused, l.counted, l.compactions, each, full, 100*anew)
	l.t.Logf("the largest request has %d bytes, of %d; the heap had at most %.1f MB more than the history; %d requests were beyond the margin of their estimate",
		l.most, 4*window, float64(l.beyond)/1e6, l.over)
	return each, full, anew
}

// A window that becomes a quarter in the middle costs refusals at once, and none later. A message that
// is larger than the window ends its run with a typed error, and the next prompt works.
func TestSmallerWindow(t *testing.T) {
	texts := outputs(t)
	turns := turnsOf(t, 80)
	for i, d := range dialects {
		if turns < 1000 && i != 3 {
			continue
		}
		t.Run(d.name, func(t *testing.T) {
			const window = 128_000
			l := start(t, texts, d, "o200k", window, []string{"catalog", "option", "nobody"}[i%3])
			l.until(turns / 2)
			before := l.refused
			l.window = window / 4
			l.until(turns/2 + 20)
			require.LessOrEqual(t, l.refused-before, 4)
			before = l.refused
			agent, _ := l.loop()
			for range 2 {
				l.left = 3
				require.NoError(t, l.ask(agent, "Read this log:\n"+l.log(6*window)), "one text is shortened")
				l.left = 3
				require.NoError(t, l.ask(agent, "What did you find?"))
				many := &aycoder.Message{Role: aycoder.RoleUser}
				for range 2000 {
					many.Parts = append(many.Parts, &aycoder.Text{Text: l.log(600)})
				}
				l.messages = append(slices.Clip(l.messages), many)
				l.left = 3
				require.NoError(t, l.ask(agent, "Read these logs."), "so are many")
				l.messages = append(slices.Clip(l.messages), &aycoder.Message{Role: aycoder.RoleUser, Parts: []aycoder.Part{
					&aycoder.Text{Text: "Read this document."}, &aycoder.Media{Type: "text/plain", Name: "log.txt", Data: []byte(l.log(6 * window))}}})
				l.left = 3
				failed := l.ask(agent, "")
				require.Error(t, failed)
				_, ok := errors.AsType[*aycoder.ContextError](failed)
				require.True(t, ok, "%v", failed)
				l.left = 3
				require.NoError(t, l.ask(agent, "Forget the logs. What did you find?"))
			}
			l.until(turns)
			require.Equal(t, before, l.refused)
			l.report(window / 4)
		})
	}
}

// log returns a text of n bytes of which each line is another one.
func (l *long) log(n int) string {
	var b strings.Builder
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, "2026-01-02T03:04:%02d.%03dZ worker %d: job %x is done after %d ms\n", i%60, l.rng.IntN(1000), l.rng.IntN(32), l.rng.Uint32(), l.rng.IntN(90000))
	}
	return b.String()
}
