package compaction_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/compaction"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/providers/script"
)

// strict is a model that refuses a request with one token too many. It counts by another rule than
// package tokens: a token is at most four letters, three digits, or one other rune.
type strict struct {
	window  int64
	step    func(*aycoder.Request) script.Step
	refused int
	seen    []int64
	cost    map[*aycoder.Message]int64
	last    *aycoder.Request
	broken  int // requests that do not begin with the one before
}

func (s *strict) tokens(m *aycoder.Message) int64 {
	if n, ok := s.cost[m]; ok {
		return n
	}
	n := int64(4)
	for _, p := range m.Parts {
		switch p := p.(type) {
		case *aycoder.Text:
			n += count(p.Text)
		case *aycoder.ToolUse:
			n += 10 + count(p.Name) + count(string(p.Args))
		case *aycoder.ToolOutput:
			n += 10 + count(p.Text())
		}
	}
	s.cost[m] = n
	return n
}

func same(a, b *aycoder.Message) bool {
	if a == b {
		return true
	}
	x, err1 := json.Marshal(a)
	y, err2 := json.Marshal(b)
	return err1 == nil && err2 == nil && string(x) == string(y)
}

// count counts about as the tokenizers of providers do: a word with the blank before it is a token,
// and five further letters are another one; so are three digits, a newline with the indent after it,
// two other ASCII characters, and each other rune.
func count(text string) (n int64) {
	run, kind := 0, 0
	for _, r := range text {
		k, most := 4, 2
		switch {
		case 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z':
			k, most = 1, 7
		case '0' <= r && r <= '9':
			k, most = 2, 3
		case r == ' ' || r == '\n' || r == '\t':
			k, most = 3, 100
		case r > 127:
			k, most = 5, 1
		}
		if k != kind && !(kind == 3 && k == 1 && run == 1) || run >= most {
			n, run = n+1, 0
		}
		kind = k
		run++
	}
	return n
}

func (s *strict) Stream(ctx context.Context, req *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
	n := int64(0)
	for _, t := range slices.Concat(req.System, req.Tail) {
		n += count(t.Text)
	}
	for _, t := range req.Tools {
		n += count(t.Name) + count(t.Description) + count(string(t.Schema))
	}
	for _, m := range req.Messages {
		n += s.tokens(m)
	}
	s.seen = append(s.seen, n)
	answer := int64(req.MaxTokens)
	if n+answer > s.window {
		s.refused++
		return script.New(script.Fail(script.TooLarge(n+answer, s.window))).Stream(ctx, req)
	}
	if s.last != nil && (len(req.Messages) < len(s.last.Messages) ||
		!slices.EqualFunc(s.last.Messages, req.Messages[:len(s.last.Messages)], same)) {
		s.broken++
	}
	s.last = req
	return script.New(s.step(req).WithUsage(aycoder.Usage{Input: n, Output: 50})).Stream(ctx, req)
}

func outputs(t *testing.T, size int) aycoder.Tool {
	words := strings.Fields("the parser reads func return value if nil := map[string]int case other 4711 0x1f path/to/file.go")
	r := rand.New(rand.NewPCG(1, 2))
	tool, err := aycoder.NewTool("look", "Looks.", func(context.Context, *aycoder.Invocation, struct{}) (*aycoder.ToolResult, error) {
		var b strings.Builder
		for b.Len() < size {
			b.WriteString(words[r.IntN(len(words))])
			b.WriteByte(" \n\t"[r.IntN(20)%3])
		}
		return aycoder.TextResult(b.String()), nil
	}, aycoder.WithEffect(aycoder.EffectReadOnly))
	require.NoError(t, err)
	return tool
}

// Conversations of many windows go on, with few refusals at the beginning and none later.
func TestLongConversations(t *testing.T) {
	timed.Serial(t)
	turns := 300 // of a run; AYCODER_TURNS sets another number
	if n, err := strconv.Atoi(os.Getenv("AYCODER_TURNS")); err == nil {
		turns = n
	}
	for _, window := range []int64{32_000, 200_000} {
		t.Run(fmt.Sprint(window), func(t *testing.T) {
			m := &strict{window: window, cost: map[*aycoder.Message]int64{}}
			n := 0
			m.step = func(*aycoder.Request) script.Step {
				if n++; n%100 == 0 {
					return script.Say(fmt.Sprintf("Step %d is done.", n))
				}
				return script.Reply(script.Say(fmt.Sprintf("Step %d.", n)), script.Call("look", map[string]any{}))
			}
			keep, err := compaction.New(m, compaction.WithWindow(window))
			require.NoError(t, err)
			l, err := aycoder.New(m, aycoder.WithTools(outputs(t, 5000), keep.Recall()), aycoder.WithLimits(aycoder.Limits{Turns: 200}),
				aycoder.WithContextMiddleware(keep.Middleware), aycoder.WithStrictPrefix(true))
			require.NoError(t, err)
			var messages []*aycoder.Message
			compactions := 0
			for n < turns {
				var res aycoder.Result
				prompt := fmt.Sprintf("Prompt %d: go on.", n)
				for ev, err := range l.Run(t.Context(), aycoder.Input{Messages: messages, Prompt: prompt}, aycoder.Into(&res)) {
					require.NoError(t, err)
					if c, ok := ev.(*aycoder.Compacted); ok {
						compactions++
						if compactions < 5 {
							t.Log(c.Before, c.After, c.Replaced, c.Shortened, len(c.Summary), len(c.Note))
						}
						require.Less(t, c.After, c.Before)
					}
				}
				messages = res.Messages
				require.Equal(t, compactions, m.broken, "the prefix changed without a compaction")
				require.NoError(t, aycoder.CheckHistory(messages))
				require.Equal(t, "Prompt 0: go on.", m.last.Messages[0].Text())
				if m.refused > 0 && n > 20 {
					t.Fatalf("%d refused after %d turns", m.refused, n)
				}
			}
			require.Equal(t, compactions, m.broken)
			var mem runtime.MemStats
			runtime.ReadMemStats(&mem)
			t.Log(n, "turns", compactions, "compactions", m.refused, "refused", mem.HeapAlloc>>20, "MB")
		})
	}
}

// The memory that compactions take does not grow with the number of those before them.
func TestCompactionsDoNotGrow(t *testing.T) {
	timed.Serial(t)
	const each = 300
	m := worker(8_000, 4*each)
	step := m.step
	var after []uint64 // allocated bytes
	n := 0
	m.step = func(req *aycoder.Request) script.Step {
		if n++; n%each == 0 {
			var mem runtime.MemStats
			runtime.ReadMemStats(&mem)
			after = append(after, mem.TotalAlloc)
		}
		return step(req)
	}
	keep, err := compaction.New(m, compaction.WithWindow(m.window))
	require.NoError(t, err)
	l, err := aycoder.New(m, aycoder.WithTools(outputs(t, 2000)), aycoder.WithContextMiddleware(keep.Middleware),
		aycoder.WithLimits(aycoder.Limits{Turns: 5 * each}))
	require.NoError(t, err)
	c := &chat{t: t, agent: l}
	require.NoError(t, c.ask("go"))
	require.Greater(t, len(c.events), 100)
	early, late := after[1]-after[0], after[3]-after[2]
	t.Logf("%d compactions; %d kB early, %d kB late", len(c.events), early>>10, late>>10)
	require.Less(t, late, early*11/10)
}

// chat asks one prompt after the other, and keeps the history.
type chat struct {
	t        *testing.T
	agent    aycoder.Agent
	messages []*aycoder.Message
	events   []*aycoder.Compacted
	usage    aycoder.Usage
}

func (c *chat) ask(prompt string) error {
	var res aycoder.Result
	var failed error
	for ev, err := range c.agent.Run(c.t.Context(), aycoder.Input{Messages: c.messages, Prompt: prompt}, aycoder.Into(&res)) {
		failed = err
		if e, ok := ev.(*aycoder.Compacted); ok {
			c.events = append(c.events, e)
		}
	}
	require.NoError(c.t, aycoder.CheckHistory(res.Messages))
	c.messages, c.usage = res.Messages, res.Usage
	return failed
}

func newChat(t *testing.T, m *strict, opts ...compaction.Option) *chat {
	return chatWith(t, m, 5000, opts...)
}

// chatWith returns a chat with outputs of a size.
func chatWith(t *testing.T, m *strict, size int, opts ...compaction.Option) *chat {
	keep, err := compaction.New(m, opts...)
	require.NoError(t, err)
	l, err := aycoder.New(m, aycoder.WithTools(outputs(t, size), keep.Recall()), aycoder.WithContextMiddleware(keep.Middleware), aycoder.WithStrictPrefix(true))
	require.NoError(t, err)
	return &chat{t: t, agent: l}
}

// worker is a model that looks n times for each prompt.
func worker(window int64, n int) *strict {
	calls := 0
	return &strict{window: window, cost: map[*aycoder.Message]int64{}, step: func(*aycoder.Request) script.Step {
		if calls++; calls%(n+1) == 0 {
			return script.Say("Done.")
		}
		return script.Reply(script.Say("I look."), script.Call("look", map[string]any{}))
	}}
}

// The window may shrink in the middle, be unknown, or be smaller than one message.
func TestWindows(t *testing.T) {
	timed.Serial(t)
	m := worker(128_000, 9)
	c := newChat(t, m)
	for i := range 14 { // nobody has told the window
		require.NoError(t, c.ask(fmt.Sprint("prompt ", i)))
	}
	require.LessOrEqual(t, m.refused, 2)
	m.window = 32_000
	for i := range 20 {
		require.NoError(t, c.ask(fmt.Sprint("prompt ", i)))
	}
	require.LessOrEqual(t, m.refused, 4)
	t.Log(m.refused, "refused,", len(c.events), "compactions")

	again := newChat(t, m) // another process
	again.messages = c.messages
	before := m.refused
	require.NoError(t, again.ask("go on"))
	require.LessOrEqual(t, m.refused-before, 1)

	require.NoError(t, c.ask("a log:"+strings.Repeat("\nline of a log that somebody pasted", 10_000)))
	require.Contains(t, m.last.Messages[0].Text(), "prompt 0")
	require.NoError(t, c.ask("hello?"))

	small := newChat(t, worker(300, 1)) // the tools alone take more
	err := small.ask("go")
	require.ErrorAs(t, err, new(*aycoder.ContextError))
	t.Log(err)
}

// A conversation that goes on at an earlier point makes the requests of before.
func TestUndo(t *testing.T) {
	m := worker(32_000, 5)
	c := newChat(t, m, compaction.WithWindow(32_000))
	step := m.step
	first := func(c *chat, prompt string) (*aycoder.Request, int) {
		var req *aycoder.Request
		m.step = func(r *aycoder.Request) script.Step {
			if req == nil {
				req = r
			}
			return step(r)
		}
		n := len(c.events)
		require.NoError(t, c.ask(prompt))
		return req, len(c.events) - n
	}
	var points [][]*aycoder.Message
	var requests []*aycoder.Request
	for i := range 12 {
		points = append(points, c.messages)
		req, _ := first(c, fmt.Sprint("prompt ", i))
		requests = append(requests, req)
	}
	require.NotEmpty(t, c.events)
	step = func(*aycoder.Request) script.Step { return script.Say("ok") }
	equal := 0
	for i, messages := range points {
		for name, c := range map[string]*chat{"same": c, "other process": newChat(t, m, compaction.WithWindow(32_000))} {
			c.messages = messages
			if req, compacted := first(c, fmt.Sprint("prompt ", i)); compacted == 0 {
				require.True(t, slices.EqualFunc(req.Messages, requests[i].Messages, same), "%s, prompt %d", name, i)
				equal++
			}
		}
	}
	require.Greater(t, equal, 12)
}

// The model gets what was shortened, page by page.
func TestRecall(t *testing.T) {
	whole := strings.Repeat("0123456789 äöü\n", 3000)
	big, err := aycoder.NewTool("big", "Big.", func(context.Context, *aycoder.Invocation, struct{}) (*aycoder.ToolResult, error) {
		r := aycoder.TextResult(whole)
		r.Untrusted = true
		return r, nil
	}, aycoder.WithEffect(aycoder.EffectReadOnly))
	require.NoError(t, err)
	var got strings.Builder
	id := ""
	m := &strict{window: 16_000, cost: map[*aycoder.Message]int64{}}
	m.step = func(req *aycoder.Request) script.Step {
		out := script.LastOutput(req)
		if out.ID == "" {
			return script.Call("big", map[string]any{})
		}
		text := out.Text()
		if out.Name == "big" {
			_, after, ok := strings.Cut(text, "for the id ")
			require.True(t, ok, "%.300q %d", text, len(text))
			id, _, _ = strings.Cut(after[1:], "\"")
			return script.Call("recall", map[string]any{"id": id})
		}
		require.True(t, out.Untrusted, "%.200q", text)
		i := strings.LastIndex(text, "\n[bytes ")
		first, page, _ := strings.Cut(text[:i], "\n")
		require.Contains(t, first, "<untrusted id=")
		var from, to int
		_, err := fmt.Sscanf(text[i:], "\n[bytes %d to %d", &from, &to)
		require.NoError(t, err)
		require.Regexp(t, `^\n?</untrusted id=`, page[to-from:])
		got.WriteString(page[:to-from])
		if _, next, ok := strings.Cut(text[i:], "offset "); ok {
			n := 0
			_, err := fmt.Sscanf(next, "%d", &n)
			require.NoError(t, err)
			return script.Call("recall", map[string]any{"id": id, "offset": n})
		}
		return script.Say("I have it.")
	}
	keep, err := compaction.New(m, compaction.WithWindow(16_000))
	require.NoError(t, err)
	l, err := aycoder.New(m, aycoder.WithTools(big, keep.Recall()), aycoder.WithContextMiddleware(keep.Middleware), aycoder.WithStrictPrefix(true))
	require.NoError(t, err)
	c := &chat{t: t, agent: l}
	require.NoError(t, c.ask("go"))
	require.Equal(t, whole, got.String())
	require.Zero(t, m.refused)
}

// told is a strict model whose window is known, and which counts tokens.
type told struct {
	*strict
	asked *int
}

// CountTokens counts as the model does.
func (m told) CountTokens(_ context.Context, req *aycoder.Request) (n int64, _ error) {
	*m.asked++
	for _, msg := range req.Messages {
		n += m.tokens(msg)
	}
	return n, nil
}

func (m told) ModelInfo(string) (aycoder.ModelInfo, bool) {
	return aycoder.ModelInfo{Context: m.window}, true
}

// A run that goes on with a client of a smaller window, and then with one of a larger, keeps the window
// of each.
func TestOtherClient(t *testing.T) {
	large, small := told{worker(128_000, 1<<30), new(int)}, told{worker(32_000, 1<<30), new(int)}
	keep, err := compaction.New(large)
	require.NoError(t, err)
	turn := 0
	l, err := aycoder.New(large, aycoder.WithTools(outputs(t, 5000), keep.Recall()), aycoder.WithContextMiddleware(keep.Middleware),
		aycoder.WithStrictPrefix(true), aycoder.WithLimits(aycoder.Limits{Turns: 150}),
		aycoder.WithSetup(func(_ context.Context, now aycoder.Setup) (aycoder.Setup, error) {
			turn++
			now.Client = large
			if turn > 50 && turn <= 100 {
				now.Client = small
			}
			return now, nil
		}))
	require.NoError(t, err)
	var failed error
	for _, err := range l.Run(t.Context(), aycoder.Input{Prompt: "go"}) {
		failed = err
	}
	require.ErrorAs(t, failed, new(*aycoder.LimitError))
	require.Len(t, small.seen, 50)
	require.Zero(t, small.refused+large.refused)
	require.Positive(t, *small.asked, "each client counts its tokens")
	require.Greater(t, slices.Max(large.seen[:50]), int64(60_000))
	require.Greater(t, slices.Max(large.seen[50:]), int64(60_000))
}
